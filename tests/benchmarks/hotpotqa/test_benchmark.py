"""HotpotQA: its files, settings, official figures, and the expert in them."""

import json
from pathlib import Path
from typing import Any

import pytest
from helpers.files.real_data import data_folder

from certigraph.adapters.files import JsonRow
from certigraph.adapters.protocols import Context
from certigraph.adapters.user_warnings import CallWarning
from certigraph.benchmarks.hotpotqa.benchmark import HotpotQA, parse_questions
from certigraph.benchmarks.qa.benchmark import SearchOutcome
from certigraph.graphs import ircot, react
from certigraph.nodes.react import pursue
from certigraph.nodes.search import reason
from certigraph.runtime.result import Result
from certigraph.runtime.run import run
from certigraph.state.endings import Fault, UnknownName
from certigraph.state.records import Scores, Usage
from certigraph.state.run import claim, finish, search, use_tool
from certigraph.state.search import HopFinding, Passage, chain_argument
from certigraph.state.trajectory import Footer

ROW: dict[str, Any] = {
    "_id": "q1",
    "question": "What was the club  that Len Worley played for called ?",
    "answer": "Spurs",
    "type": "bridge",
    "level": "hard",
    "supporting_facts": [["Len Worley", 0], ["Tottenham Hotspur F.C.", 1]],
    "context": [
        ["Wembley Stadium", ["A stadium in London.", " It opened in 2007."]],
        ["Tottenham Hotspur F.C.", ["It is a football club.", " It is referred to as Spurs.", " Spurs play at home."]],
        ["Len Worley", ["Len Worley played as a winger for Tottenham Hotspur F.C. in London."]],
    ],
}


def benchmark(folder: Path, *rows: dict[str, Any], config: str = "") -> HotpotQA:
    (folder / "dev_distractor.jsonl").write_text("\n".join(map(json.dumps, rows or (ROW,))), encoding="utf-8")
    return HotpotQA(folder, config)


def test_the_official_layout_is_read(tmp_path: Path):
    made = benchmark(tmp_path)
    task = made.task("q1")
    question = made.gold(task)
    assert (task.goal, task.constants) == ("What was the club that Len Worley played for called ?", {})
    assert [p.title for p in question.passages] == [title for title, _ in ROW["context"]]
    assert question.passages[1].text == "It is a football club. It is referred to as Spurs. Spurs play at home."
    assert question.facts == {("Len Worley", 0), ("Tottenham Hotspur F.C.", 1)}


def test_the_paragraph_that_says_the_answer_is_the_last_hop():
    facts = {"supporting_facts": ROW["supporting_facts"][::-1]}
    first, last = parse_questions([JsonRow("x", {**ROW, **facts})])["q1"].hops
    assert (first.passage.title, first.answer) == ("Len Worley", "Tottenham Hotspur F.C.")
    assert (last.answer, last.finding) == ("Spurs", "It is referred to as Spurs.")


def test_published_files_are_read_as_they_are(tmp_path: Path):
    (tmp_path / "hotpot_dev_distractor_v1.json").write_text(json.dumps([ROW]), encoding="utf-8")
    assert [task.id for task in HotpotQA(tmp_path).tasks()] == ["q1"]
    with pytest.raises(Fault, match=r"searched .* for one of train_distractor\.jsonl\.gz"):
        HotpotQA(tmp_path).tasks("train")


def test_the_train_split_alone_is_a_whole_benchmark(tmp_path: Path):
    benchmark(tmp_path)
    (tmp_path / "dev_distractor.jsonl").rename(tmp_path / "train_distractor.jsonl")
    made = HotpotQA(tmp_path)
    assert made.task(made.tasks("train")[0].id).id == "q1"
    with pytest.raises(UnknownName, match=r"no task 'x'; .*1 in train"):
        made.task("x")


def test_a_malformed_second_split_is_not_taken_for_a_missing_one(tmp_path: Path):
    made = benchmark(tmp_path)
    (tmp_path / "train_distractor.jsonl").write_text("{", encoding="utf-8")
    with pytest.raises(Fault, match=r"train_distractor\.jsonl:1: not JSON"):
        made.task("q9")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"context": "x"}, r"dev_distractor\.jsonl:2: context: .*'x'"),
        ({"question": ""}, r":2: question: "),
        ({"supporting_facts": [["A"]]}, r":2: supporting_facts\.0"),
        ({"_id": "q1"}, r":2: the id 'q1' is taken by .*:1"),
    ],
)
def test_a_malformed_row_is_named_with_file_and_line(tmp_path: Path, change: dict[str, Any], message: str):
    made = benchmark(tmp_path, ROW, {**ROW, "_id": "q2", **change})
    with pytest.raises(Fault, match=message):
        made.tasks()


def test_a_question_without_support_has_no_known_evidence(tmp_path: Path):
    made = benchmark(tmp_path, {**ROW, "supporting_facts": []})
    world = made.open(made.task("q1"))
    world.step(finish("Spurs"))
    assert world.score().parts["evidence_found"] is None
    assert made.gold(made.task("q1")).hops == ()


def test_a_question_without_paragraphs_says_how_to_retrieve(tmp_path: Path):
    made = benchmark(tmp_path, {**ROW, "context": []})
    with pytest.raises(Fault, match=r"q1 comes without paragraphs: .*hotpotqa:corpus"):
        made.open(made.task("q1"))


def test_a_paragraph_without_a_title_is_found_by_its_text(tmp_path: Path):
    made = benchmark(tmp_path, {**ROW, "context": [["", ["A harpsichord."]], *ROW["context"]]})
    world = made.open(made.task("q1"))
    assert world.step(search("harpsichord")).text == "A harpsichord."


def test_the_support_of_a_run_is_the_sentences_its_claims_stand_on(tmp_path: Path):
    made = benchmark(tmp_path)
    world = made.open(made.task("q1"))
    world.reset()
    assert "sp_em" not in world.score().parts  # nothing was predicted yet
    world.step(claim("a", finding="Len Worley was a winger", title="Len Worley", entity="Tottenham"))
    world.step(claim("b", finding="referred to as Spurs", title="Tottenham Hotspur F.C.", entity="Spurs"))
    chain = [HopFinding("a", "Len Worley was a winger", "Tottenham"), HopFinding("b", "referred to as Spurs", "Spurs")]
    world.step(finish("the Spurs", **chain_argument(chain)))
    scores = world.score()
    assert (scores.value, scores.answer) == (1.0, "the Spurs")
    names = ("em", "sp_em", "joint_em", "joint_f1", "evidence_found", "answered", "forced")
    assert [scores.parts[name] for name in names] == [1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 0.0]


def test_evidence_that_no_search_brought_up_is_a_retrieval_failure(tmp_path: Path):
    made = benchmark(tmp_path)
    world = made.open(made.task("q1"))
    world.step(search("Wembley", k=1))
    assert world.score().parts["evidence_found"] == 0.0
    world.step(search("Worley winger", k=1))
    assert world.score().parts["evidence_found"] == 0.5
    assert world.score().parts["answered"] == 0.0


def test_evidence_is_known_by_its_title_in_whatever_corpus(tmp_path: Path):
    made = benchmark(tmp_path)
    reworded = Passage(id="wiki-17", title="Len Worley", text="An English footballer.")
    scores = made.score_outcome(made.gold(made.task("q1")), SearchOutcome("x", False, (), (reworded,)))
    assert scores.parts["evidence_found"] == 0.5


def test_figures_count_a_run_without_scores_and_report_by_type(tmp_path: Path):
    made = benchmark(tmp_path, ROW, {**ROW, "_id": "q2", "type": "comparison"})
    parts = {"em": 1.0, "f1": 1.0}
    done = Footer(ending="world_ended", scores=Scores(value=1.0, parts=parts), usage=Usage(node="run"))
    failed = Footer(ending="error:model", usage=Usage(node="run"))
    figures = made.figures([("q1", done), ("q2", failed)])
    assert (figures["n"], figures["em"], figures["em_bridge"], figures["f1_comparison"]) == (2, 0.5, 1.0, 0.0)


def test_predictions_in_the_official_layout_are_scored_over_all_gold_questions(tmp_path: Path):
    made = benchmark(tmp_path, ROW, {**ROW, "_id": "q2"}, {**ROW, "_id": "q3"})
    predicted = {
        "answer": {"q1": "Spurs", "q2": "the spurs", "other": "x"},
        "sp": {"q1": [["Len Worley", 0], ["Tottenham Hotspur F.C.", 1]], "q3": [["Len Worley", 0]]},
    }
    path = tmp_path / "pred.json"
    path.write_text(json.dumps(predicted), encoding="utf-8")
    with pytest.warns(CallWarning) as warned:
        figures = made.rates(made.score_file(path))
    assert [str(one.message).partition(": ")[2][:6] for one in warned] == ["1 of 3", "1 of 3"]
    wanted = {"n": 3, "em": 2 / 3, "sp_em": 1 / 3, "sp_precision": 2 / 3, "sp_recall": 0.5, "joint_f1": 1 / 3}
    assert {name: figures[name] for name in wanted} == pytest.approx(wanted)


@pytest.mark.parametrize(
    ("text", "message"),
    [('{"answer": {"x": "y"}}', "no answer to any of the 1 questions"), ('{"sp": {}}', "answer"), ("{", "not JSON")],
)
def test_unusable_predictions_are_refused(tmp_path: Path, text: str, message: str):
    path = tmp_path / "pred.json"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(Fault, match=message):
        benchmark(tmp_path).score_file(path)


def test_the_interactive_world_opens_pages_by_title_and_looks_words_up(tmp_path: Path):
    made = benchmark(tmp_path, config="interactive")
    world = made.open(made.task("q1"))
    assert not world.step(use_tool("lookup", "Spurs")).accepted  # no page is open
    missed = world.step(search("Tottenham"))
    assert (missed.accepted, missed.sources) == (False, ())
    assert "Similar titles: Tottenham Hotspur F.C." in missed.text
    opened = world.step(search("TOTTENHAM hotspur f.c."))
    assert opened.text.startswith("Tottenham Hotspur F.C.: It is a football club.")
    places = [world.step(use_tool("lookup", "spurs")) for _ in range(3)]
    assert "(1 of 2 with 'spurs') It is referred to as Spurs." in places[0].text
    assert "(2 of 2 with 'spurs') Spurs play at home." in places[1].text
    assert [place.accepted for place in places] == [True, True, False]
    assert places[0].sources == opened.sources
    world.step(search("Len Worley"))
    assert not world.step(use_tool("lookup", "spurs")).accepted  # the page changed
    world.step(search("Tottenham Hotspur F.C."))
    assert "(1 of 2" in world.step(use_tool("lookup", "spurs")).text  # and begins again
    assert made.tools == ("search", "lookup", "finish")


def test_the_corpus_is_indexed_once_from_all_questions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    pytest.importorskip("tantivy")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("CERTIGRAPH_INDEX", raising=False)
    other = {**ROW, "_id": "q2", "context": [["Harpsichord", ["A harpsichord."]], *ROW["context"]]}
    made = benchmark(tmp_path, ROW, other, config="corpus")
    world = made.open(made.task("q1"))
    assert world.sources() == ()
    assert world.step(search("harpsichord")).text == "Harpsichord: A harpsichord."
    (folder,) = (tmp_path / "cache" / "certigraph" / "indexes").iterdir()
    written = (folder / "manifest.json").stat().st_mtime_ns
    again = benchmark(tmp_path, ROW, other, config="corpus")
    assert again.library(again.task("q1")).search("harpsichord", 1)
    assert (folder / "manifest.json").stat().st_mtime_ns == written
    monkeypatch.setenv("CERTIGRAPH_INDEX", str(folder))
    assert HotpotQA(None, "corpus").retriever(made.task("q1"), None).search("harpsichord", 1)
    monkeypatch.setenv("CERTIGRAPH_INDEX", str(tmp_path / "nowhere"))
    named = HotpotQA(None, "corpus")
    with pytest.raises(Fault, match=r"certigraph index .*nowhere"):
        named.library(made.task("q1"))


GRAPHS = {"react": react.build(decide=pursue(alpha=1.0)), "ircot": ircot.build(decide=reason(alpha=1.0))}


def ran(made: HotpotQA, graph: str, task: str, out: Path) -> Result:
    return run(GRAPHS[graph], made, task, context=Context(model="scripted:expert"), out=out)


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.parametrize("graph", GRAPHS)
def test_the_expert_answers_all_real_questions(tmp_path: Path, graph: str):
    made = HotpotQA(data_folder("hotpotqa"))
    scores = [ran(made, graph, task.id, tmp_path / task.id).scores for task in made.tasks()]
    assert len(scores) == 261
    assert all(s and s.parts["em"] == 1.0 and s.parts["evidence_found"] == 1.0 for s in scores)


@pytest.mark.slow
def test_the_real_files_are_as_their_fact_sheet_says():
    made = HotpotQA(data_folder("hotpotqa"))
    dev = [made.gold(task) for task in made.tasks()]
    assert (len(dev), len(made.tasks("train")), len({p.id for q in dev for p in q.passages})) == (261, 100, 2571)
    assert {len(question.hops) for question in dev} == {2}
    assert all(hop.passage in question.passages for question in dev for hop in question.hops)


SPURS = ["It is a club.", "\u00a0It\u00a0is referred\u200ato as Spurs.", " Spurs play at home."]
WORLEY = ["Len Worley\u00a0played as a\u200awinger for Tottenham  Hotspur F.C. in London.", " He was born."]
SPACED = {
    **ROW,
    "context": [["Tottenham Hotspur F.C.", SPURS], ["Len Worley", WORLEY]],
    "supporting_facts": [["Len Worley", 0], ["Len Worley", 1], ["Tottenham Hotspur F.C.", 1]],
}
"""Unicode's blanks in the gold paragraphs, and two supporting sentences in one of them."""


@pytest.mark.parametrize("config", ["", "corpus", "interactive"])
def test_the_expert_is_never_forced_and_names_every_supporting_sentence(config: str, tmp_path: Path):
    result = run("sdp", benchmark(tmp_path, SPACED, config=config), "q1", out=tmp_path / "runs")
    assert result.scores and result.ending == "goal"
    assert [result.scores.parts[name] for name in ("forced", "em", "sp_em", "joint_em")] == [0.0, 1.0, 1.0, 1.0]


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.parametrize("split", ["dev", "train"])
def test_the_expert_reaches_full_support_on_every_shared_question(split: str, tmp_path: Path):
    evaluation = pytest.importorskip("certigraph.evaluation.evaluate")
    data = str(data_folder("hotpotqa"))
    done = evaluation.evaluate("sdp", "hotpotqa", split=split, data=data, out=tmp_path, max_samples=8, quiet=True)
    names = ("em", "sp_em", "sp_f1", "joint_em", "joint_f1")
    assert {name: done.figures[name] for name in names} == dict.fromkeys(names, 1.0)
    assert done.figures["forced"] == 0.0 and done.endings == {"goal": done.n}

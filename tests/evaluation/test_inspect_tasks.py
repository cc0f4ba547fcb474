"""Tests of `evaluation.inspect_tasks`."""

import json
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import inspect_ai
import pytest
from helpers.servers.endpoint_stub import stub

from certigraph.adapters.benchmarks import load_benchmark
from certigraph.adapters.models.scripts import ScriptedChat
from certigraph.adapters.protocols import Context
from certigraph.adapters.trajectories import read_trajectory
from certigraph.benchmarks import BENCHMARKS
from certigraph.benchmarks.blocksworld.benchmark import BlocksWorld
from certigraph.evaluation.comparison_summary import estimate_figures
from certigraph.evaluation.evaluate import evaluate, evaluate_retry
from certigraph.evaluation.evaluation_results import Evaluation, evaluation_of
from certigraph.evaluation.inspect_tasks import TASKS, task_of
from certigraph.runtime.result import BenchmarkRow
from certigraph.runtime.run import run
from certigraph.state.endings import Fault, UnknownName
from certigraph.state.records import Scores, Usage
from certigraph.state.trajectory import Footer

# What an evaluation is given reaches every run: trials, budgets, roles, a cache; the impossible is refused.

pytest.importorskip("inspect_ai", reason="pip install 'certigraph[eval]'")


pytestmark = pytest.mark.slow  # inspect_ai's own evaluations

CUT = """
from pathlib import Path
from certigraph.nodes.sdp import validate
from certigraph.state.endings import Fault

seen = []

async def cut(state, runtime):
    seen.append(state["task"].id)
    if state["task"].id == "3-1" and seen.count("3-1") == 2 and not Path({flag!r}).exists():
        raise Fault({boundary!r}, "away")
    return await validate(state, runtime)
"""


@pytest.fixture
def _no_data_no_key(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("CERTIGRAPH_DATA", "CERTIGRAPH_BASE_URL", "OPENAI_API_KEY", "INSPECT_EVAL_MODEL"):
        monkeypatch.delenv(name, raising=False)


def header(out: Path, row: BenchmarkRow) -> Any:
    return read_trajectory(out / row.run).header


def experts_replies(task_id: str, out: Path) -> list[str]:
    """What the expert answers on the way through a task, as the texts of a model."""
    given: list[str] = []
    expert = load_benchmark("blocksworld").expert()
    assert expert

    def recording(prompt: str, schema: dict[str, Any]) -> Any:
        given.append(json.dumps(value := expert(prompt, schema)))
        return value

    run("sdp", "blocksworld", task_id, context=Context(chat=ScriptedChat(responder=recording)), out=out)
    return given


@pytest.mark.long
@pytest.mark.usefixtures("_no_data_no_key")
def test_trials_are_drawn_again_and_keep_their_tasks_ids(tmp_path: Path):
    done = evaluate("sdp", "blocksworld", model="simulated:act=0.2,seed=3", ids=["4-0", "4-1"], trials=3, out=tmp_path)
    assert sorted((row.id, row.trial) for row in done.rows) == [(i, t) for i in ("4-0", "4-1") for t in range(3)]
    assert (done.n, done.tasks, done.trials) == (6, 2, 3)
    assert {header(tmp_path, row).context["trial"] for row in done.rows} == {0, 1, 2}
    assert len({(row.id, row.tokens) for row in done.rows}) > 2
    assert {"pass^2", "pass^3"} <= set(done.figures)
    assert done.figures["pass^3"] <= done.figures["pass^2"] <= done.figures["solved"]


@pytest.mark.usefixtures("_no_data_no_key")
def test_a_budget_and_limits_are_every_runs_own(tmp_path: Path):
    done = evaluate("sdp", "blocksworld", limit=2, budget=["calls=2", "attempts=7"], out=tmp_path)
    assert done.endings == {"limit:calls": 2}
    assert [row.footer.usage.calls for row in done.rows] == [2, 2]
    settings = header(tmp_path, done.rows[0]).context
    assert (settings["budget"]["calls"], settings["limits"]["attempts"], settings["limits"]["steps"]) == (2, 7, 60)


@pytest.mark.usefixtures("_no_data_no_key")
@pytest.mark.slow
def test_roles_have_models_of_their_own_behind_the_bridge(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    with stub(*experts_replies("3-1", tmp_path / "expert")) as server:
        monkeypatch.setenv("CERTIGRAPH_BASE_URL", server.url)
        roles = ["planner=openai:thinker", "executor=scripted:expert"]
        evaluate("sdp:paper", "blocksworld", model="openai:doer", roles=roles, ids=["3-1"], out=tmp_path, quiet=True)
        calls = Counter(request["model"] for request in server.requests)
    assert set(calls) == {"thinker", "doer"}


@pytest.mark.usefixtures("_no_data_no_key")
@pytest.mark.slow
def test_dollars_hold_behind_the_bridge_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    table = tmp_path / "prices.toml"
    table.write_text("[doer]\nread = 90\nwritten = 100\n")  # a cent for the stub's 100 and 10 tokens
    monkeypatch.setenv("CERTIGRAPH_PRICES", str(table))
    with stub(*experts_replies("4-0", tmp_path / "expert")) as server:
        monkeypatch.setenv("CERTIGRAPH_BASE_URL", server.url)
        done = evaluate("sdp", "blocksworld", model="openai:doer", ids=["4-0"], budget=["usd=0.02"], out=tmp_path)
    assert (done.endings, len(server.requests)) == ({"limit:usd": 1}, 2)
    assert done.rows[0].footer.usage.usd == pytest.approx(0.02)


@pytest.mark.usefixtures("_no_data_no_key")
def test_scripted_roles_need_no_bridge(tmp_path: Path):
    done = evaluate("sdp", "blocksworld", roles=["executor=scripted:first"], ids=["3-1"], out=tmp_path)
    assert header(tmp_path, done.rows[0]).context["roles"] == {"executor": "scripted:first"}


@pytest.mark.usefixtures("_no_data_no_key")
def test_names_with_commas_survive_inspects_command_line(tmp_path: Path):
    """It cuts arguments at commas: what its `-T` hands over are lists."""
    task = TASKS["blocksworld"]
    made = task(
        model=["simulated:act=0", "seed=3"],
        role=["executor=simulated:act=0.2", "seed=4", "validator=scripted:expert"],
        ids="3-1",
        out=str(tmp_path),
    )
    (log,) = inspect_ai.eval(made, model=None, log_dir=str(tmp_path), display="none")
    context = header(tmp_path, evaluation_of(log).rows[0]).context
    assert context["model"] == "simulated:act=0,seed=3"
    assert context["roles"] == {"executor": "simulated:act=0.2,seed=4", "validator": "scripted:expert"}


@pytest.mark.long
@pytest.mark.usefixtures("_no_data_no_key")
@pytest.mark.slow
def test_a_cache_answers_under_inspect_too_and_knows_the_model_behind_the_bridge(tmp_path: Path, monkeypatch: Any):
    replies = experts_replies("3-1", tmp_path / "expert")

    def calls_of(model: str) -> tuple[int, int]:
        with stub(*replies) as server:
            monkeypatch.setenv("CERTIGRAPH_BASE_URL", server.url)
            cache = str(tmp_path / "cache")
            done = evaluate("sdp", "blocksworld", model=model, ids=["3-1"], cache=cache, out=tmp_path / "runs")
            assert done.endings == {"goal": 1}
            return len(server.requests), done.rows[0].tokens

    assert calls_of("openai:stubbed") == (len(replies), 110 * len(replies))
    assert calls_of("openai:stubbed") == (0, 0)
    assert calls_of("openai:other") == (len(replies), 110 * len(replies))

    task = TASKS["blocksworld"](ids=["3-1"], cache=str(tmp_path / "cache"), out=str(tmp_path / "runs"))
    with stub(*replies) as server:
        monkeypatch.setenv("CERTIGRAPH_BASE_URL", server.url)
        name, folder = "certigraph/openai:stubbed", str(tmp_path)
        inspect_ai.eval(task, model=name, temperature=0.7, log_dir=folder, display="none", ctl_server=False)
        assert len(server.requests) == len(replies)


@pytest.mark.usefixtures("_no_data_no_key")
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"benchmark": "blockworld"}, "blocksworld"),
        ({"graph": "sdpp"}, "sdp"),
        ({"graph": "pbai"}, "blocksworld"),
        ({"ids": ["nine"]}, "tower-30"),
        ({"benchmark": "scienceworld", "split": "test"}, "swiftsage-90"),
        ({"benchmark": "scienceworld:small"}, "drafted"),
        ({"benchmark": "scienceworld", "ids": ["boil:30"]}, "0 to 29"),
        ({"faults": "melt=0.5"}, "melt"),
        ({"swaps": ["validator=always_pass"]}, "validate"),
        ({"swaps": ["validate=always_pas"]}, "always_pass"),
        ({"swaps": ["validate"]}, "SLOT=OPERATOR"),
        ({"swaps": ["validate=capped:deep=1"]}, "validate=capped:deep=1 cannot be built"),
        ({"model": "nobodys/model"}, "PROVIDER/NAME"),
        ({"roles": ["planner=nobodys/model"]}, "PROVIDER/NAME"),
        ({"budget": ["call=3"]}, "did you mean calls"),
        ({"budget": ["calls=-3"]}, "calls=-3"),
        ({"budget": ["calls"]}, "KEY=VALUE"),
        ({"roles": ["boss=local"]}, "known: planner"),
        ({"roles": ["planner=gpt"]}, "openai:NAME"),
        ({"fail_on": 0}, "fail-on 0"),
        ({"fail_on": float("nan")}, "nan"),
        ({"fail_on": float("inf")}, "inf"),
        ({"workers": 2, "model": "anthropic/claude"}, "anthropic"),
        ({"ray": "local", "roles": ["planner=anthropic/claude"]}, "anthropic"),
    ],
)
def test_what_cannot_be_honoured_is_refused_before_anything_runs(
    arguments: dict[str, Any], message: str, tmp_path: Path
):
    with pytest.raises(UnknownName, match=message):
        evaluate(**arguments, out=tmp_path)
    assert list(tmp_path.iterdir()) == []


# Arguments of operators keep their types on the way into the task and into the runs.

PATIENT = {"gate": {"name": "exhaustion_gate", "args": {"patience": 3}}}


@pytest.mark.usefixtures("_no_data_no_key")
@pytest.mark.parametrize(
    ("slot", "operator", "args"),
    [
        ("memory", ["structured:searches=0", "missing=False"], {"searches": 0, "missing": False}),
        ("decide", ["reason:alpha=1.0", "rerank=None"], {"alpha": 1.0, "rerank": None}),
        ("decide", ['reason:rerank="a', "", 'b"'], {"rerank": "a,,b"}),
        ("gate", "shadow:gate=(exhaustion_gate:patience=3)", PATIENT),
    ],
)
def test_arguments_of_operators_keep_their_types_in_a_task(slot: str, operator: str | list[str], args: dict[str, Any]):
    task = TASKS["musique"](graph="ircot", **{slot: operator})  # Inspect splits what follows -T at commas
    assert repr((task.metadata or {})["operators"][slot]["args"]) == repr(args)


@pytest.mark.usefixtures("_no_data_no_key")
@pytest.mark.parametrize(("boundary", "goes_on"), [("model", 1), ("data", 1), ("environment", 0), ("operator", 0)])
def test_a_run_that_lacked_its_model_or_data_goes_on_with_what_it_had_certified(
    boundary: str, goes_on: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    flag, out = tmp_path / "back", tmp_path / "runs"
    (tmp_path / f"cut_{boundary}.py").write_text(CUT.format(flag=str(flag), boundary=boundary))
    monkeypatch.syspath_prepend(tmp_path)
    done = evaluate("sdp", "blocksworld", limit=3, swaps=[f"validate=cut_{boundary}:cut"], out=out)
    [failed] = done.failed
    assert (failed.id, failed.ending, failed.certified) == ("3-1", f"error:{boundary}", 1)
    flag.touch()
    again = evaluate_retry(done.log)
    [finished] = [row for row in again.rows if row.id == "3-1"]
    assert again.endings == {"goal": 3}
    assert (finished.run == failed.run) == bool(goes_on)
    assert len(list(out.glob("*/trajectory.jsonl"))) == 4 - goes_on
    nodes = Counter(event.node for event in read_trajectory(out / finished.run).events)
    assert nodes["act"] == finished.steps


@pytest.mark.usefixtures("_no_data_no_key")
@pytest.mark.parametrize(("fail_on", "begun"), [(2, 2), (0.5, 3), (7, 6), (None, 6)])
def test_an_evaluation_begins_no_more_runs_where_too_many_failed(
    fail_on: float | None, begun: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(BlocksWorld, "open", lambda *_: (_ for _ in ()).throw(Fault("environment", "no world")))
    done = evaluate("sdp", "blocksworld", limit=3, trials=2, fail_on=fail_on, max_samples=1, out=tmp_path)
    left_out = {"interrupted": 6 - begun} if begun < 6 else {}
    assert done.endings == {"error:environment": begun, **left_out}
    assert len(list(tmp_path.glob("*/trajectory.jsonl"))) == begun
    values = {row.footer.message for row in done.failed if row.ending == "interrupted"}
    assert values == ({f"not started: {begun} runs have failed"} if left_out else set())
    monkeypatch.undo()
    assert evaluate_retry(done.log).endings == {"goal": 6}


@pytest.mark.usefixtures("_no_data_no_key")
@pytest.mark.parametrize(("content", "message"), [(None, "no log at"), ("{}", "is not a log of inspect's")])
def test_a_retry_of_a_file_that_is_not_a_log_says_what_to_give(content: str | None, message: str, tmp_path: Path):
    path = tmp_path / "some.eval"
    if content is not None:
        path.write_text(content)
    with pytest.raises(Fault, match=message):
        evaluate_retry(path)


def rows_of(values: dict[str, list[float]]) -> list[BenchmarkRow]:
    return [
        BenchmarkRow(
            id=task, trial=trial, footer=Footer(ending="goal", scores=Scores(value=value), usage=Usage(node="all"))
        )
        for task, trials in values.items()
        for trial, value in enumerate(trials)
    ]


def intervals(values: dict[str, list[float]]) -> dict[str, tuple[float, float] | None]:
    rows, live = rows_of(values), load_benchmark("blocksworld")
    estimates = estimate_figures("sdp", [(row.id, row.footer) for row in rows], live.figures)
    return {
        one.figure: None if one.low is None or one.high is None else (one.low, one.high)
        for one in estimates
        if not one.figure.startswith("pass^")
    }


@pytest.mark.usefixtures("_no_data_no_key")
def test_an_interval_is_over_tasks_not_runs():
    once = {str(i): [float(i % 2)] for i in range(20)}
    same_again = {task: trials * 5 for task, trials in once.items()}
    low, high = intervals(once)["solved"] or (0, 0)
    assert 0.25 <= low < 0.5 < high <= 0.75
    assert intervals(same_again)["solved"] == pytest.approx((low, high))  # five equal trials tell nothing new
    assert intervals(once) == intervals(once)
    assert set(intervals(once)) == {"solved", "goal"}


@pytest.mark.usefixtures("_no_data_no_key")
def test_a_figure_without_spread_is_wilsons_or_none_and_one_of_few_tasks_wide():
    assert intervals({str(i): [1.0] for i in range(10)})["solved"] == pytest.approx((0.7225, 1.0), abs=1e-3)
    assert intervals({str(i): [1.0] * 9 for i in range(3)})["solved"] == pytest.approx((0.4385, 1.0), abs=1e-3)
    assert intervals({str(i): [0.5] for i in range(10)})["solved"] is None
    assert intervals({"a": [0.3], "b": [0.4]})["solved"] == pytest.approx((0.0, 0.35 + 12.706 * 0.05), abs=1e-4)


# Batches under faults: no bad run ends the batch, endings are counted by kind, and retries lead to the same table.

pytest.importorskip("inspect_ai", reason="pip install 'certigraph[eval]'")


IDS = [f"4-{n}" for n in range(10)]

TOUCHY_FAULTY_BATCHES = """
from pathlib import Path
from certigraph.benchmarks.blocksworld.benchmark import BlocksWorld
from certigraph.nodes.sdp import validate
from certigraph.state.endings import Fault

FLAG = Path({flag!r})

async def touchy(state, runtime):
    if state["task"].id.endswith("5") and not FLAG.exists():
        raise ZeroDivisionError("touchy")
    return await validate(state, runtime)

class Lost(BlocksWorld):
    name = "lost"

    def open(self, task):
        world = super().open(task)
        if FLAG.exists():
            return world
        if task.id.endswith("7"):
            raise Fault("data", "the file of this task is torn")
        if task.id.endswith("8"):
            world.score = lambda: 1 / 0
        return world
"""


@pytest.fixture
def _no_data(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CERTIGRAPH_DATA", raising=False)


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Evaluation:
    return evaluate("sdp", "blocksworld", ids=IDS, out=tmp_path_factory.mktemp("plain"), quiet=True)


@pytest.fixture
def flag(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The operator and the benchmark of TOUCHY, which fail until this file exists."""
    file = tmp_path / "fixed"
    (tmp_path / "touchy_batch.py").write_text(TOUCHY_FAULTY_BATCHES.format(flag=str(file)))
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "touchy_batch", raising=False)
    return file


def table(done: Evaluation) -> dict[str, tuple[str, float, int, int]]:
    return {row.id: (row.ending, row.value, row.certified, row.steps) for row in done.rows}


def retried(done: Evaluation, most: int = 8) -> Evaluation:
    for _ in range(most):
        if not done.failed:
            break
        done = evaluate_retry(done.log, quiet=True)
    return done


@pytest.mark.long
@pytest.mark.usefixtures("_no_data")
@pytest.mark.parametrize(
    ("faults", "ending"),
    [
        ("timeout=0.1,rate_limit=0.1,server_error=0.1,dropped=0.1,retry_after=0.001,seed=3", "error:model"),
        ("truncated=0.1,malformed=0.1,empty=0.1,refusal=0.1,wrong_schema=0.1,seed=3", "error:model"),
        ("crash=0.05,hang=0.02,delay=0.01,seed=3", "error:environment"),
    ],
)
def test_injected_faults_end_single_runs_and_retries_lead_to_the_same_table(
    tmp_path: Path, plain: Evaluation, faults: str, ending: str
) -> None:
    done = evaluate("sdp", "blocksworld", ids=IDS, faults=faults, out=tmp_path, quiet=True)
    assert sum(done.endings.values()) == len(done.rows) == len(IDS)
    assert {*done.endings} == {"goal", ending}
    assert len(done.failed) == done.endings[ending] > 0
    assert {row.footer.message for row in done.failed} != {""}
    assert table(retried(done)) == table(plain)


@pytest.mark.usefixtures("_no_data")
def test_an_operator_that_raises_ends_its_own_runs_alone(tmp_path: Path, plain: Evaluation, flag: Path) -> None:
    done = evaluate(
        "sdp", "blocksworld", ids=IDS, swaps=["validate=touchy_batch:touchy"], out=tmp_path / "runs", quiet=True
    )
    assert done.endings == {"goal": 9, "error:operator": 1}
    flag.touch()
    assert table(retried(done, 1)) == table(plain)


@pytest.mark.usefixtures("_no_data")
def test_data_that_is_torn_and_a_scorer_that_raises_end_no_batch(
    tmp_path: Path, plain: Evaluation, flag: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(BENCHMARKS, "lost", "touchy_batch:Lost")
    monkeypatch.setitem(TASKS, "lost", task_of("lost"))
    done = evaluate("sdp", "lost", ids=IDS, out=tmp_path / "runs", quiet=True)
    assert done.endings == {"goal": 8, "error:data": 1, "error:environment": 1}
    unscored = {row.id: row.value for row in done.rows if row.footer.scores is None}
    assert unscored == {task: 0.0 for task in IDS if task.endswith(("7", "8"))}
    flag.touch()
    again = table(retried(done, 1))
    assert {task: again[task] for task in again if not task.endswith("8")} == {
        task: row for task, row in table(plain).items() if not task.endswith("8")
    }

"""The user's own tools as a benchmark: evaluate, compare, ablate, sweep, anatomy and reports."""

import asyncio
import re
import sqlite3
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from helpers.sample_runs.recorded_runs import rows_of
from helpers.worlds.support_database import GOAL, SupportDatabase, scripted_model
from langchain_core.tools import tool
from langgraph.types import interrupt

from certigraph.adapters import benchmarks
from certigraph.adapters.benchmarks import load_benchmark
from certigraph.adapters.protocols import Context
from certigraph.adapters.tools.world import Case, Episode, Tools
from certigraph.benchmarks.blocksworld.benchmark import BlocksWorld
from certigraph.cli import main
from certigraph.evaluation.compare import ablate, build_job, compare, load_job, run_comparison
from certigraph.evaluation.comparison import Choice, parse_methods
from certigraph.evaluation.evaluate import evaluate, evaluate_retry
from certigraph.evaluation.evaluation_results import print_evaluations
from certigraph.evaluation.tool_worlds import add_digests, benchmark_name, check_evaluable
from certigraph.graphs import sdp
from certigraph.nodes.sdp import validate
from certigraph.runtime import graph_sources
from certigraph.runtime.prompts import collect_prompts
from certigraph.runtime.registry import build_graph, parse_swap
from certigraph.runtime.result import Result
from certigraph.runtime.run import complete_run, resume, run
from certigraph.state.endings import Fault, UnknownName
from certigraph.state.tools import calls_of

SCRIPT = Context(model="scripted:expert")


class Shop:
    """Customer support whose database is emptied before each episode, and which knows how many episodes overlap."""

    def __init__(self, folder: Path, *, before: Callable[[str], None] = lambda name: None) -> None:
        self.database = SupportDatabase(folder / "desk.sqlite", before=before)
        self.began: list[str] = []

    def reset(self, case: Case) -> None:
        self.began.append(case.id)
        with sqlite3.connect(self.database.path) as base:
            base.execute("DELETE FROM refunds")
            base.execute("DELETE FROM mails")

    def check(self, episode: Episode) -> bool:
        return (len(self.database.rows("refunds")), len(self.database.rows("mails"))) == (1, 1)

    def tools(self, **options: Any) -> Tools:
        cases = [Case(id="plain", goal=GOAL), Case(id="polite", goal=f"{GOAL} Thank you.")]
        usual: dict[str, Any] = {"reset": self.reset, "check": self.check, "expert": scripted_model().responder}
        return Tools(self.database.tools, cases, effects={"look_up": "repeatable"}, **{**usual, **options})


@pytest.fixture
def shop(tmp_path: Path) -> Shop:
    return Shop(tmp_path)


@pytest.mark.slow
def test_a_case_is_run_by_its_id(tmp_path: Path, shop: Shop):
    result = run("sdp", shop.tools(), "polite", context=SCRIPT, out=tmp_path)
    assert (result.ending, result.scores and result.scores.value) == ("goal", 1)
    assert (result.trajectory.header.task.id, shop.began) == ("polite", ["polite"])


@pytest.mark.slow
@pytest.mark.parametrize("committed", [["look_up"], ["look_up", "refund", "send_mail"]])
def test_a_run_makes_commitments_by_a_swap(tmp_path: Path, shop: Shop, committed: list[str]):
    def commit_to(prompt: str, schema: dict[str, Any]) -> Any:
        commitment = {"reasoning": "", "tools": committed}
        return commitment if "tools" in schema["properties"] else scripted_model().responder(prompt, schema)

    swapped = build_graph("sdp", dict([parse_swap("commit=commit")]))
    result = run(swapped, shop.tools(expert=commit_to), "plain", context=SCRIPT, out=tmp_path)
    assert bool(shop.database.rows("refunds")) == ("refund" in committed)
    tried = {call.name for step in result.state["history"] for call in calls_of(step.action)}
    assert ("refund" in tried) == ("refund" in committed), "what was not committed to is not offered"


@pytest.mark.slow
@pytest.mark.parametrize("graph", ["sdp", "react"])
def test_evaluate_takes_the_object_and_runs_one_case_at_a_time(tmp_path: Path, shop: Shop, graph: str):
    evaluation = evaluate(graph, shop.tools(name="shop"), trials=2, max_samples=4, out=tmp_path / "runs", quiet=True)
    # two runs at a time would find each other's refunds
    assert [row.value for row in evaluation.rows] == [1, 1, 1, 1]
    assert (evaluation.benchmark, sorted(shop.began)) == ("shop", ["plain", "plain", "polite", "polite"])


@pytest.mark.slow
def test_runs_that_share_a_database_take_turns(tmp_path: Path):
    inside, most = [0], [0]

    async def slow(order: int) -> str:
        """Look up an order."""
        inside[0] += 1
        most[0] = max(most[0], inside[0])
        await asyncio.sleep(0.02)
        inside[0] -= 1
        return f"order {order}"

    def lookups(reset: Any) -> Tools:
        return Tools([slow], cases=["one", "two"], effects={"slow": "repeatable"}, reset=reset, expert=look_up_once())

    async def both(tools: Tools) -> None:
        graph = parse_methods(["react"])[0].build()
        runs = [complete_run(tmp_path / f"{id(tools)}-{n}", graph, tools, n, SCRIPT) for n in ("1", "2")]
        await asyncio.gather(*runs)

    asyncio.run(both(lookups(None)))
    assert most == [2]
    most[0] = 0
    asyncio.run(both(lookups(lambda case: None)))
    assert most == [1]


def look_up_once() -> Any:
    return scripted_model([("slow", {"order": 1})]).responder


@pytest.mark.parametrize("given", [{"reset": lambda: None}, {"check": "solved"}, {"check": lambda one, two: True}])
def test_functions_that_cannot_be_called_with_a_case_or_an_episode_are_refused(given: Any, shop: Shop):
    with pytest.raises(TypeError, match="give a function of the"):
        Tools([shop.database.look_up], cases=["one"], **given)


async def waits(case: Case) -> None: ...


@pytest.mark.parametrize("given", [{"reset": waits}, {"check": waits}])
def test_functions_that_would_have_to_be_awaited_are_refused(given: Any, shop: Shop):
    with pytest.raises(TypeError, match="is async: give a plain function"):
        Tools([shop.database.look_up], cases=["one"], **given)


@pytest.mark.parametrize("cases", [[Case(goal="a", id="x"), Case(goal="b", id="x")], [Case(goal="a", id="2"), "b"]])
def test_two_cases_with_one_id_are_refused(cases: Any, shop: Shop):
    with pytest.raises(ValueError, match="two cases have the id"):
        Tools([shop.database.look_up], cases=cases)


def fails(given: object) -> bool:
    raise RuntimeError("locked")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({"reset": fails}, "RuntimeError: locked"),
        ({"check": fails}, "RuntimeError: locked"),
        ({"check": lambda episode: None}, "returned None"),
        ({"check": lambda episode: 2}, "returned 2"),
    ],
)
def test_functions_of_tools_that_fail_are_faults_of_the_world(given: Any, reason: str, tmp_path: Path, shop: Shop):
    result = run("sdp", shop.tools(**given), "plain", context=SCRIPT, out=tmp_path, on_error="ignore")
    assert result.ending == "error:environment"
    assert re.search(reason, result.message or "")
    evaluated = evaluate(
        "sdp", shop.tools(**given), model="scripted:expert", limit=1, out=tmp_path / "eval", quiet=True
    )
    assert (evaluated.faults, evaluated.n) == (1, 0)


@pytest.mark.slow
def test_tools_without_cases_are_refused_before_anything_is_run(tmp_path: Path, shop: Shop):
    tools = Tools([shop.database.look_up], expert=scripted_model().responder)
    for begin in (
        lambda: evaluate("sdp", tools, model="scripted:expert", out=tmp_path / "eval"),
        lambda: compare(["sdp", "react"], tools, context=SCRIPT, out=tmp_path / "compared"),
    ):
        with pytest.raises(UnknownName, match=r"has no cases to run: give Tools\(..., cases="):
            begin()
    assert not [*tmp_path.glob("*/*")]


@pytest.mark.slow
def test_compare_in_python_warns_where_the_report_does(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, shop: Shop):
    write_module(tmp_path, monkeypatch)
    with pytest.warns(UserWarning, match="react: 2 of 2 runs ended error:operator and count as failures"):
        failing = {"swaps": ["react:decide=shop_module:broken"], "context": SCRIPT, "out": tmp_path / "compared"}
        compare(["sdp", "react"], shop.tools(), **failing)


@pytest.mark.slow
def test_compare_and_ablate_take_the_object(tmp_path: Path, shop: Shop):
    tools = shop.tools(name="compared")
    job = build_job(
        parse_methods(["sdp", "react"]), tools, Choice(), SCRIPT.model_copy(update={"limits": tools.limits})
    )
    run_comparison(job, tmp_path / "compared", at_once=2, silent=True)
    rows = rows_of(job.plan, tmp_path / "compared")
    assert [(row.method, row.score) for row in rows] == [("sdp", 100), ("react", 100)] * 2
    results = ablate(
        "sdp", tools, ["validate=always_pass"], Choice(ids=["plain"]), context=SCRIPT, out=tmp_path / "ablated"
    )
    assert [method.score for method in results.comparison.methods] == [100, 100]


@pytest.mark.slow
def test_other_goals_are_refused_in_a_folder_with_runs_and_changed_code_is_named(tmp_path: Path, shop: Shop):
    given: dict[str, Any] = {"choice": Choice(ids=["plain"]), "context": SCRIPT, "out": tmp_path / "compared"}
    compare(["sdp", "react"], shop.tools(), **given)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        compare(["sdp", "react"], shop.tools(), **given)
    with pytest.warns(UserWarning, match=r"^check changed since .*compared was begun; .* 2 of 2, stay"):
        kept = compare(["sdp", "react"], shop.tools(check=lambda episode: False), **given)
    assert [method.score for method in kept.comparison.methods] == [100, 100]
    other = Tools(
        shop.database.tools,
        [Case(id="plain", goal="Another goal.")],
        reset=shop.reset,
        expert=scripted_model().responder,
    )
    with pytest.raises(Fault, match=r"another goal of the case plain.*out="):
        compare(["sdp", "react"], other, **given)


async def look_up_later(order: int) -> str:
    """Look up an order."""
    return f"order {order}"


def test_the_source_of_async_tools_counts_and_that_of_libraries_does_not():
    tools = Tools([look_up_later, tool(look_up_later).copy(update={"name": "again"})], cases=["a"])
    job = build_job(parse_methods(["react"]), tools, Choice(), Context(model="openai:m", limits=tools.limits))
    sources = add_digests(job.plan, tools).sources
    assert sources.keys() == {"look_up_later", "again", "test_own_tools.py"}


@pytest.mark.slow
def test_a_changed_file_of_a_user_is_named_by_a_comparison(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    write_module(tmp_path, monkeypatch)
    command = ["compare", "react", "--on", "shop_module:world", "--model", "scripted:expert", "--out", "compared"]
    for _ in range(2):  # no warning, which would be an error here
        with pytest.raises(SystemExit), warnings.catch_warnings():
            warnings.simplefilter("error")
            main(command)
    (tmp_path / "shop_module.py").write_text(f"{MODULE}\nchanged = True\n")
    with pytest.raises(SystemExit), pytest.warns(UserWarning, match="shop_module.py changed since compared was begun"):
        main(command)


@pytest.mark.slow
def test_a_comparison_over_an_object_is_continued_in_python(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, shop: Shop
):
    compare(["react"], shop.tools(name="lasting"), context=SCRIPT, out=tmp_path)
    monkeypatch.setattr(benchmarks, "_OWN", {})  # as in another process
    with pytest.raises(UnknownName, match="begun in Python with the benchmark object 'lasting'"):
        load_job(tmp_path)
    assert load_job(tmp_path, report_only=True).plan.benchmark == "lasting"


FAILED: list[str] = []


async def fails_at_first(state: Any, runtime: Any) -> Any:
    """Validate, except for the first refund, where an outage ends the run."""
    if not FAILED and state["action"].text.startswith("refund"):
        FAILED.append("an outage")
        raise RuntimeError(FAILED[0])
    return await validate(state, runtime)


@pytest.mark.slow
def test_a_run_that_was_cut_off_starts_again_where_the_case_can_be_reset(tmp_path: Path, shop: Shop):
    tools, graph = shop.tools(), sdp.build(validate=fails_at_first)
    FAILED.clear()
    first = asyncio.run(complete_run(tmp_path / "run", graph, tools, "plain", SCRIPT))
    assert first.ending == "error:operator"
    shop.reset(Case(id="polite", goal=""))  # another case runs in the meantime
    again = asyncio.run(complete_run(tmp_path / "run", graph, tools, "plain", SCRIPT))
    assert (again.ending, again.scores and again.scores.value) == ("goal", 1)
    assert (again.trajectory.resumes, shop.began) == (0, ["plain", "polite", "plain"])


def test_a_run_that_was_cut_off_goes_on_where_nothing_is_undone(tmp_path: Path, shop: Shop):
    tools, graph = shop.tools(reset=None), sdp.build(validate=fails_at_first)
    FAILED.clear()
    asyncio.run(complete_run(tmp_path / "run", graph, tools, "plain", SCRIPT))
    again = asyncio.run(complete_run(tmp_path / "run", graph, tools, "plain", SCRIPT))
    assert (again.ending, again.trajectory.resumes, len(shop.database.rows("refunds"))) == ("goal", 1, 1)


@pytest.mark.parametrize("model", ["simulated", "simulated:act=0", "scripted:expert"])
def test_a_simulated_agent_is_reported_to_make_no_wrong_calls(shop: Shop, model: str):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        check_evaluable(shop.tools(), [model], episodes=1)
    messages = [str(one.message) for one in caught if "makes no wrong calls" in str(one.message)]
    assert len(messages) == (model == "simulated")


@pytest.mark.slow
def test_several_runs_of_a_case_need_a_reset(tmp_path: Path, shop: Shop):
    tools = shop.tools(reset=None, name="lasting")
    for attempt in (
        lambda: evaluate("sdp", tools, trials=2, out=tmp_path, quiet=True),
        lambda: ablate("sdp", tools, context=SCRIPT, out=tmp_path / "ablated"),
        lambda: collect_prompts("sdp", tools),
    ):
        with pytest.raises(UnknownName, match=r"refund, send_mail.*reset="):
            attempt()
    assert shop.database.rows("refunds") == []
    assert evaluate("sdp", tools, ids=["plain"], out=tmp_path, quiet=True).rows[0].value == 1
    reading = Tools([shop.database.look_up], cases=["one"], effects={"look_up": "repeatable"}, expert=look_up_once())
    check_evaluable(reading, ["scripted:expert"], episodes=2)


@pytest.mark.slow
def test_approvals_are_refused_because_nobody_answers(
    tmp_path: Path, shop: Shop, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    write_module(tmp_path, monkeypatch)
    tools = shop.tools(name="approved")
    for attempt in (
        lambda: evaluate("shop_module:approving", tools, out=tmp_path, quiet=True),
        lambda: ablate("shop_module:approving", tools, ["validate=always_pass"], context=SCRIPT, out=tmp_path / "a"),
        lambda: evaluate("tdp", tools, swaps=["approve=shop_module:approve"], out=tmp_path, quiet=True),
        lambda: build_job(parse_methods(["sdp"], ["sdp:approve=shop_module:approve"]), tools, Choice(), SCRIPT),
    ):
        with pytest.raises(UnknownName, match="nobody answers in an evaluation"):
            attempt()
    assert shop.began == []
    with pytest.raises(UnknownName, match=r"Tools\(tools, cases.* such as sdp"):
        agents = build_job(parse_methods(["sdp", "shop_module:clerk"]), "blocksworld", Choice(ids=("3-0",)), Context())
        run_comparison(agents, tmp_path / "agents", silent=True)
    assert not (tmp_path / "agents").exists()
    with pytest.raises(SystemExit) as ended:
        main(["eval", "shop_module:approving", "shop_module:world"])
    assert ended.value.code == 2
    assert len([line for line in capsys.readouterr().err.splitlines() if line.startswith("certigraph: ")]) == 1


@pytest.mark.slow
def test_a_run_that_asks_is_left_waiting_and_counted_once_it_is_answered(tmp_path: Path, shop: Shop):
    async def questioning(state: Any, runtime: Any) -> Any:
        if state["task"].id == "plain":
            interrupt("Shall I go on?")
        return await validate(state, runtime)

    tools, graph = shop.tools(reset=None), sdp.build(validate=questioning)
    for _ in range(2):
        result = asyncio.run(complete_run(tmp_path / "run", graph, tools, "plain", SCRIPT))
        assert (result.ending, result.questions) == ("interrupted", ["Shall I go on?"])
    while (answered := Result(tmp_path / "run")).questions:
        resume(tmp_path / "run", answer="yes", benchmark=tools, graph=graph)
    assert answered.ending == "goal"
    assert asyncio.run(complete_run(tmp_path / "run", graph, tools, "plain", SCRIPT)).ending == "goal"


@pytest.mark.slow
def test_tools_without_a_script_need_a_model(tmp_path: Path, shop: Shop):
    tools = shop.tools(expert=None, name="mute")
    for attempt in (
        lambda: run("sdp", tools, out=tmp_path),
        lambda: evaluate("sdp", tools, out=tmp_path, quiet=True),
        lambda: ablate("sdp", tools, out=tmp_path / "ablated"),
    ):
        with pytest.raises(UnknownName, match=r"model .*--model"):
            attempt()
    assert list(tmp_path.glob("*/trajectory.jsonl")) == []
    result = run("sdp", tools, context=Context(chat=scripted_model()), out=tmp_path)
    assert result.ending == "goal"


def test_an_object_has_a_name_of_its_own(shop: Shop, tmp_path: Path):
    with pytest.raises(UnknownName, match="blocksworld"):
        evaluate("sdp", BlocksWorld(), out=tmp_path, quiet=True)
    first, second = shop.tools(name="same"), shop.tools(name="same")
    for tools in (first, second):
        assert benchmark_name(tools, None) == "same"
        assert load_benchmark("same") is tools


@pytest.mark.slow
def test_a_retry_counts_a_run_that_a_person_has_answered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    write_module(tmp_path, monkeypatch)
    world = "shop_module:lasting"
    swaps = ["validate=shop_module:questioning"]
    first = evaluate("sdp", world, swaps=swaps, out="runs", quiet=True)
    assert sorted(row.ending for row in first.rows) == ["goal", "interrupted"]
    assert len(first.failed) == 1
    folder = Path("runs") / first.failed[0].run
    print_evaluations([first], as_json=False)
    assert f"certigraph resume {folder.resolve()}" in capsys.readouterr().out
    while resume(folder, answer="yes").questions:
        pass
    (log,) = Path("runs").glob("*.eval")
    again = evaluate_retry(log, quiet=True)
    assert [row.ending for row in again.rows] == ["goal", "goal"]
    assert {row.run for row in again.rows} == {row.run for row in first.rows}


# --- from the command line


MODULE = """
import sqlite3
from pathlib import Path

from helpers.worlds.support_database import GOAL, SupportDatabase, scripted_model

from langgraph.types import interrupt

from certigraph import Case, Tools, agent
from certigraph.graphs import sdp
from certigraph.nodes.sdp import validate
from certigraph.nodes.approval import approvals

database = SupportDatabase(Path("database-of-the-module.sqlite"))
approve = approvals({"refund": True})


def reset(case):
    with sqlite3.connect(database.path) as base:
        base.execute("DELETE FROM refunds")
        base.execute("DELETE FROM mails")


def check(episode):
    return len(database.rows("refunds")) == len(database.rows("mails")) == 1


world = Tools(
    database.tools,
    cases=[Case(id="plain", goal=GOAL), Case(id="polite", goal=GOAL + " Thank you.")],
    check=check,
    reset=reset,
    expert=scripted_model().responder,
)


async def questioning(state, runtime):
    if state["task"].id == "plain":
        interrupt("Shall I go on?")
    return await validate(state, runtime)


async def broken(state, runtime):
    raise RuntimeError("broken")


lasting = Tools(
    database.tools,
    cases=[Case(id="plain", goal=GOAL), Case(id="polite", goal=GOAL + " Thank you.")],
    expert=scripted_model().responder,
)


def approving(**operators):
    return sdp.builder(approve=approve, **operators)


clerk = agent("sdp", model=scripted_model(), tools=database.tools)
"""


def write_module(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "shop_module.py").write_text(MODULE)
    monkeypatch.syspath_prepend(str(folder))
    monkeypatch.chdir(folder)
    monkeypatch.delitem(sys.modules, "shop_module", raising=False)
    for module in (benchmarks, graph_sources):  # which keep what an earlier test has imported
        monkeypatch.setattr(module, "_OWN", {})

"""What methods need a run, paired over tasks: known answers, tables and files."""

import asyncio
import csv
import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("scipy", reason="pip install 'certigraph[eval]'")

from rich.console import Console

from certigraph.adapters.protocols import Budget, Context
from certigraph.evaluation.compare import Choice, carry_out, order
from certigraph.evaluation.comparison import Outline, cells_of, methods_from, recorded
from certigraph.evaluation.comparison import carry_out as carry_out_cell
from certigraph.evaluation.comparison_report import need_table, report, tables
from certigraph.evaluation.comparison_summary import AMOUNTS, Need, comparison_of, needs_of
from certigraph.evaluation.plots import points_of
from certigraph.evaluation.statistics import changed
from certigraph.runtime.history import Row, row_of
from certigraph.state.records import Scores, Task, Usage
from certigraph.state.trajectory import Event, Footer, Header, Trajectory

pytestmark = pytest.mark.slow  # whole comparisons

TASKS = ("3-0", "4-0")


def row(method: str, task: str, output: int = 0, prompt: int = 0, calls: int = 1, steps: int = 1) -> Row:
    amounts = {"calls": calls, "prompt_tokens": prompt, "cached_tokens": 0, "output_tokens": output, "steps": steps}
    usual = {"ending": "goal", "score": 0.0, "solved": False, "seconds": 0.0, "roles": {}, "run": "r"}
    return Row.model_validate({"method": method, "task": task, **amounts, **usual})


def needed(rows: Sequence[Row], *methods: str) -> dict[tuple[str, str], Need]:
    found = needs_of({name: [row for row in rows if row.method == name] for name in methods})
    return {(need.method, need.amount): need for need in found}


# --- the relative change


def test_the_change_is_that_of_the_sums_with_tasks_drawn_in_pairs():
    """Two tasks can be drawn in three ways: 100 -> 50 alone, both (400 -> 100), 300 -> 50 alone."""
    found = changed({"a": [100], "b": [300]}, {"a": [50], "b": [50]})
    assert found == pytest.approx((2, -75, -100 * 5 / 6, -50))


def test_a_change_that_is_the_same_in_every_task_is_certain_however_much_tasks_differ():
    assert changed({"a": [1], "b": [1000], "c": [7]}, {"a": [3], "b": [3000], "c": [21]}) == (3, 200, 200, 200)


def test_tasks_of_very_different_sizes_are_drawn_with_both_their_amounts():
    first = {f"t{n}": [10.0**n] for n in range(5)}
    found = changed(first, {task: [amount / 2 + 0.01 * amount * (amount > 50)] for task, [amount] in first.items()})
    assert found.low is not None
    assert -50 <= found.low < found.percent < -48  # type: ignore[operator]
    assert found.high == pytest.approx(-49, abs=0.5)


def test_trials_are_summed_and_tasks_of_one_method_left_out():
    assert changed({"a": [50, 150], "z": [9]}, {"a": [60, 40]}) == (1, -50, None, None)


@pytest.mark.parametrize(
    ("first", "other", "percent"),
    [({}, {}, None), ({"a": [0]}, {"a": [2]}, None), ({"a": [1], "b": [0]}, {"a": [2], "b": [1]}, 200)],
)
def test_of_nothing_there_is_no_change_and_of_next_to_nothing_no_interval(first: Any, other: Any, percent: float):
    assert changed(first, other)[1:] == (percent, None, None)


# --- needs


def test_what_methods_need_by_hand():
    first = [row("plan_and_act", "a", output=100, prompt=1000, steps=4), row("plan_and_act", "b", output=300, steps=6)]
    other = [row("tdp", "a", output=50, prompt=1000, steps=5), row("tdp", "b", output=50, steps=7)]
    found = needed([*first, *other], "plan_and_act", "tdp")
    output, steps = found["tdp", "output_tokens"], found["tdp", "steps"]
    assert (output.mean, output.difference, output.percent) == (50, -150, -75)
    assert (output.low, output.high) == pytest.approx((-250, -50))
    assert (output.percent_low, output.percent_high) == pytest.approx((-100 * 5 / 6, -50))
    assert (steps.mean, steps.difference, steps.low, steps.high, steps.percent) == (6, 1, 1, 1, 20)
    alone = found["plan_and_act", "output_tokens"]
    assert (alone.mean, alone.difference, alone.percent, alone.against) == (200, None, None, "plan_and_act")


def test_trials_of_a_task_count_once():
    rows = [row("a", "t", output=10), row("a", "t", output=30), row("b", "t", output=5), row("b", "t", output=5)]
    found = needed(rows, "a", "b")["b", "output_tokens"]
    assert (found.n, found.mean, found.difference, found.percent, found.low) == (1, 5, -15, -75, None)


def test_needs_are_over_the_tasks_that_all_have_finished():
    rows = [row("a", "t", output=10), row("b", "t", output=5), row("a", "u", output=1000)]
    found = comparison_of(Outline("blocksworld", "m", ("a", "b"), ("t", "u")), rows).needs
    assert [need.mean for need in found if need.amount == "output_tokens"] == [10, 5]
    assert comparison_of(Outline("blocksworld", "m", ("a", "b"), ("t",)), []).needs == ()


@pytest.mark.parametrize("missing", ["a", "b"])
def test_a_method_without_a_run_is_beside_nothing(missing: str):
    rows = [row(name, "t", output=5) for name in ("a", "b", "c") if name != missing]
    found = needed(rows, "a", "b", "c")
    assert (found[missing, "output_tokens"].n, found["b", "output_tokens"].difference) == (0, None)
    assert found["c", "output_tokens"].difference == (None if missing == "a" else 0)


def test_a_method_whose_runs_all_failed_leaves_the_others_their_report(tmp_path: Path):
    given = order(methods_from(("react", "sdp")), "blocksworld", Choice(TASKS), Context())
    cells = [cell for cell in cells_of(given.plan, tmp_path) if cell.method.name == "react"]
    for cell in cells:
        asyncio.run(carry_out_cell(cell, given.context, given.benchmark))
    found = report(given.plan, tmp_path)
    assert [(need.method, need.n) for need in found.comparison.needs[:2]] == [("react", 2), ("sdp", 0)]
    assert list(found.curves["calls"]) == ["react"]


def test_figures_are_short():
    found = Need(method="tdp", against="react", amount="output_tokens", n=9, mean=1234.5, difference=-8234.5)
    heads, [line] = need_table([found])
    assert heads == (
        *("a run", "method", "mean"),
        *("difference from react", "95 % interval", "change from react", "95 % interval"),
    )
    assert line == ("output tokens", "tdp", "1.23k", "-8.23k", "-", "-", "-")
    told = found.model_copy(update={"low": -9000.0, "high": 0.0, "percent": -82.4, "percent_low": -90.0})
    assert need_table([told])[1][0][4:] == ("-9k to +0", "-82 %", "-")
    assert need_table([told.model_copy(update={"percent_high": 1.2})])[1][0][-1] == "-90 to +1 %"


def test_scripted_methods_need_what_their_runs_were_billed(tmp_path: Path):
    context = Context(budget=Budget(calls=40))
    given = order(methods_from(("react", "plan_and_solve")), "blocksworld", Choice(TASKS), context)
    carry_out(given, tmp_path, silent=True)
    found = report(given.plan, tmp_path).comparison
    billed = {(c.method.name, c.task): recorded(c).usage for c in cells_of(given.plan, tmp_path)}  # type: ignore[union-attr]
    for name, needs in (("calls", "calls"), ("output_tokens", "output_tokens"), ("input_tokens", "prompt_tokens")):
        before, after = (sum(getattr(billed[m, t], name) for t in TASKS) for m in ("react", "plan_and_solve"))
        [need] = [n for n in found.needs if n.amount == needs and n.method == "plan_and_solve"]
        assert need.difference == (after - before) / 2
        assert need.percent == pytest.approx(100 * (after - before) / before)
    with (tmp_path / "needs.csv").open() as file:
        assert len(list(csv.DictReader(file))) == 2 * len(AMOUNTS)
    assert "Tokens, calls and steps" in (tmp_path / "comparison.html").read_text(encoding="utf-8")
    shown = Console(file=io.StringIO(), width=100)
    shown.print(*tables(found))
    assert "prompt tokens  plan_and_solve" in shown.file.getvalue()  # type: ignore[attr-defined]


# --- runs inside runs


def event(node: str, scope: str = "", new: bool = False, steps: int = 0, score: int | None = None) -> Event:
    log = [{"action": {"text": "a"}, "digest": ""}] * steps
    seen = {} if score is None else {"observation": {"text": "", "data": {"score": score}}}
    update: dict[str, Any] = {"history": log, **seen}
    replaced = ["history"] if new else []
    return Event(t=0, superstep=0, node=node, usage=Usage(node=node), update=update, replaced=replaced, scope=scope)


def test_steps_are_counted_where_they_were_taken_and_scores_where_they_count():
    events = [
        event("reset", new=True, score=0),
        event("reset", "solve:1", new=True),
        event("act", "solve:1", steps=1),
        event("act", "solve:1", steps=1, score=90),
        event("gather", steps=1, score=20),  # what ended the copy is not repeated
        event("reset", "solve:2", new=True, steps=1),
        event("act", "solve:2", steps=1),
        event("gather", steps=1, score=40),
    ]
    task = Task(benchmark="b", id="t")
    header = Header(run_id="r", created="", graph="tdp", operators={}, task=task, context={}, versions={})
    footer = Footer(ending="goal", scores=Scores(value=0.4), usage=Usage(node="all"))
    run = Trajectory(header=header, events=events, footer=footer)
    assert row_of("tdp", "t", run).steps == 3
    assert max(point.score for point in points_of(run)) == 40

"""Tests of `evaluation.comparison_summary`."""

import asyncio
import csv
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from helpers.sample_runs import recorded_runs
from helpers.sample_runs.recorded_runs import points, replay_of, row_of
from hypothesis import given
from hypothesis import strategies as st

from certigraph import cli
from certigraph.adapters.protocols import Budget, Context, Limits
from certigraph.cli.inventory import read_inventory
from certigraph.evaluation.compare import build_job, run_comparison
from certigraph.evaluation.comparison import (
    Choice,
    ComparisonOutline,
    build_method,
    cells_of,
    describe_variants,
    exchanged_operators,
    parse_methods,
    read_cell_trajectory,
)
from certigraph.evaluation.comparison import run_cell as carry_out_cell
from certigraph.evaluation.comparison_report import write_comparison_report
from certigraph.evaluation.comparison_summary import (
    AMOUNT_LABELS,
    AmountNeed,
    Difference,
    ablation_methods,
    comparison_of,
    compute_difference,
    needs_of,
)
from certigraph.evaluation.measures import ComparisonRow
from certigraph.evaluation.replays import Replay, estimates_of, rule_for
from certigraph.evaluation.result_tables import DIFFERENCE_COLUMNS, need_table
from certigraph.evaluation.statistics import relative_change
from certigraph.evaluation.tables import table_of
from certigraph.graphs import sdp
from certigraph.nodes.sdp import give_up
from certigraph.runtime.registry import parse_swap
from certigraph.runtime.run import run
from certigraph.state.endings import UnknownName
from certigraph.state.records import Verdict
from certigraph.state.trajectory import Event, Trajectory

# Needs of methods, paired over tasks: known results, tables and files.

pytest.importorskip("scipy", reason="pip install 'certigraph[eval]'")


TASKS = ("3-0", "4-0")


def row(method: str, task: str, output: int = 0, prompt: int = 0, calls: int = 1, steps: int = 1) -> ComparisonRow:
    amounts = {"calls": calls, "prompt_tokens": prompt, "cached_tokens": 0, "output_tokens": output, "steps": steps}
    usual = {"ending": "goal", "score": 0.0, "solved": False, "seconds": 0.0, "roles": {}, "run": "r"}
    return ComparisonRow.model_validate({"method": method, "task": task, **amounts, **usual})


def needed(rows: Sequence[ComparisonRow], *methods: str) -> dict[tuple[str, str], AmountNeed]:
    found = needs_of({name: [row for row in rows if row.method == name] for name in methods})
    return {(need.method, need.amount): need for need in found}


# --- the relative change


@pytest.mark.slow
def test_the_change_is_that_of_the_sums_with_tasks_drawn_in_pairs():
    """Two tasks have three resamples: 100 -> 50 alone, both (400 -> 100), 300 -> 50 alone."""
    found = relative_change({"a": [100], "b": [300]}, {"a": [50], "b": [50]})
    assert found == pytest.approx((2, -75, -100 * 5 / 6, -50))


@pytest.mark.slow
def test_a_change_that_is_the_same_in_every_task_is_certain_however_much_tasks_differ():
    assert relative_change({"a": [1], "b": [1000], "c": [7]}, {"a": [3], "b": [3000], "c": [21]}) == (3, 200, 200, 200)


@pytest.mark.slow
def test_tasks_of_very_different_sizes_are_drawn_with_both_their_amounts():
    first = {f"t{n}": [10.0**n] for n in range(5)}
    found = relative_change(
        first, {task: [amount / 2 + 0.01 * amount * (amount > 50)] for task, [amount] in first.items()}
    )
    assert found.low is not None
    assert -50 <= found.low < found.percent < -48  # type: ignore[operator]
    assert found.high == pytest.approx(-49, abs=0.5)


@pytest.mark.slow
def test_trials_are_summed_and_tasks_of_one_method_left_out():
    assert relative_change({"a": [50, 150], "z": [9]}, {"a": [60, 40]}) == (1, -50, None, None)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("first", "other", "percent"),
    [({}, {}, None), ({"a": [0]}, {"a": [2]}, None), ({"a": [1], "b": [0]}, {"a": [2], "b": [1]}, 200)],
)
def test_of_nothing_there_is_no_change_and_of_next_to_nothing_no_interval(first: Any, other: Any, percent: float):
    assert relative_change(first, other)[1:] == (percent, None, None)


# --- needs


@pytest.mark.slow
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


@pytest.mark.slow
def test_trials_of_a_task_count_once():
    rows = [row("a", "t", output=10), row("a", "t", output=30), row("b", "t", output=5), row("b", "t", output=5)]
    found = needed(rows, "a", "b")["b", "output_tokens"]
    assert (found.n, found.mean, found.difference, found.percent, found.low) == (1, 5, -15, -75, None)


@pytest.mark.slow
def test_needs_are_over_the_tasks_that_all_have_finished():
    rows = [row("a", "t", output=10), row("b", "t", output=5), row("a", "u", output=1000)]
    found = comparison_of(ComparisonOutline("blocksworld", "m", ("a", "b"), ("t", "u")), rows).needs
    assert [need.mean for need in found if need.amount == "output_tokens"] == [10, 5]
    assert comparison_of(ComparisonOutline("blocksworld", "m", ("a", "b"), ("t",)), []).needs == ()


@pytest.mark.slow
@pytest.mark.parametrize("missing", ["a", "b"])
def test_a_method_without_a_run_is_compared_with_nothing(missing: str):
    rows = [row(name, "t", output=5) for name in ("a", "b", "c") if name != missing]
    found = needed(rows, "a", "b", "c")
    assert (found[missing, "output_tokens"].n, found["b", "output_tokens"].difference) == (0, None)
    assert found["c", "output_tokens"].difference == (None if missing == "a" else 0)


@pytest.mark.slow
def test_a_method_whose_runs_all_failed_leaves_the_others_their_report(tmp_path: Path):
    given = build_job(parse_methods(("react", "sdp")), "blocksworld", Choice(ids=TASKS), Context())
    cells = [cell for cell in cells_of(given.plan, tmp_path) if cell.method.name == "react"]
    for cell in cells:
        asyncio.run(carry_out_cell(given.plan, cell, given.context, given.benchmark))
    found = write_comparison_report(given.plan, tmp_path)
    assert [(need.method, need.n) for need in found.comparison.needs[:2]] == [("react", 2), ("sdp", 0)]
    assert list(found.curves["calls"]) == ["react"]


@pytest.mark.slow
def test_figures_are_short():
    found = AmountNeed(method="tdp", against="react", amount="output_tokens", n=9, mean=1234.5, difference=-8234.5)
    _, [line] = need_table([found])
    assert line == ("output tokens", "tdp", "1.23k", "-", "-", "-8.23k", "-")
    result = found.model_copy(update={"low": -9000.0, "high": 0.0, "percent": -82.4, "percent_low": -90.0})
    assert need_table([result])[1][0][3:] == ("-82 %", "-", "-8.23k", "-9k to +0")
    assert need_table([result.model_copy(update={"percent_high": 1.2})])[1][0][4] == "-90 to +1 %"
    small = {"difference": -0.01, "percent": -0.3}
    assert need_table([found.model_copy(update=small)])[1][0][3:6:2] == ("0 %", "+0"), "no minus before a zero"


@pytest.mark.slow
def test_scripted_methods_need_what_their_runs_were_charged(tmp_path: Path):
    context = Context(budget=Budget(calls=40))
    given = build_job(parse_methods(("react", "plan_and_solve")), "blocksworld", Choice(ids=TASKS), context)
    run_comparison(given, tmp_path, silent=True)
    found = write_comparison_report(given.plan, tmp_path).comparison
    usage_by_cell = {(c.method.name, c.task): read_cell_trajectory(c).usage for c in cells_of(given.plan, tmp_path)}  # type: ignore[union-attr]
    for name, needs in (("calls", "calls"), ("output_tokens", "output_tokens"), ("input_tokens", "prompt_tokens")):
        before, after = (sum(getattr(usage_by_cell[m, t], name) for t in TASKS) for m in ("react", "plan_and_solve"))
        [need] = [n for n in found.needs if n.amount == needs and n.method == "plan_and_solve"]
        assert need.difference == (after - before) / 2
        assert need.percent == pytest.approx(100 * (after - before) / before)
    with (tmp_path / "needs.csv").open() as file:
        assert len(list(csv.DictReader(file))) == 2 * len(AMOUNT_LABELS)


# --- runs inside runs


def event(node: str, scope: str = "", new: bool = False, steps: int = 0, score: int | None = None) -> Event:
    log = [{"action": {"text": "a"}, "digest": ""}] * steps
    seen = {} if score is None else {"observation": {"text": "", "data": {"score": score}}}
    update: dict[str, Any] = {"history": log, **seen}
    return recorded_runs.event(node, requests=0, update=update, replaced=["history"] if new else [], scope=scope)


@pytest.mark.slow
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
    run = recorded_runs.trajectory(*events, graph="tdp", value=0.4)
    assert row_of(run).steps == 3
    assert points(run)["score"].max() == 40


# Ablations: variants by swaps, the rules of appendix C on hand-made runs, and the error of these estimates.


def trajectory(*updates: tuple[str, dict[str, Any]]) -> Trajectory:
    events = [recorded_runs.event(node, superstep=n, update=update) for n, (node, update) in enumerate(updates)]
    return recorded_runs.trajectory(*events, graph="sdp")


def plan(length: int) -> dict[str, Any]:
    return {"plan": [{"text": str(n)} for n in range(length)], "head": 0}


ACT: tuple[str, dict[str, Any]] = ("act", {"history": [{"action": {"text": "a"}, "digest": "d"}]})


def tried(position: int) -> tuple[str, dict[str, Any]]:
    attempt = {"position": position, "target": {"text": "x"}, "action": {"text": "a"}, "digest": ""}
    return "validate", {"attempts": [{**attempt, "verdict": {"depth": 0, "reason": ""}}]}


def certified(head: int, depth: int) -> tuple[str, dict[str, Any]]:
    certificate = {"targets": [{"text": "x"}] * depth, "position": head - depth, "step": 1}
    return "certify", {"certificates": [certificate], "head": head}


# --- the rules of appendix C


def test_fidelity_counts_steps_certified_at_their_first_attempt():
    run_ = trajectory(
        ("propose", plan(4)), ACT, tried(0), certified(1, 1), ACT, tried(1), ACT, tried(1), certified(2, 1)
    )
    assert replay_of(run_).action_fidelity == 0.5
    assert Replay(0, 0, None, 0, 3, ()).action_fidelity == 1


@pytest.mark.slow
def test_the_prefix_is_the_cursor_at_the_first_exhaustion():
    stuck = (ACT, tried(1), ("replan", {"plan": [{"text": "y"}] * 9}), ACT, tried(1), ("replan", {}))
    found = replay_of(trajectory(("propose", plan(4)), ACT, tried(0), certified(1, 1), *stuck))
    assert (found.exhausted_at, found.planned_then, found.certified_prefix) == (1, 4, 0.25)
    assert replay_of(trajectory(("propose", plan(4)), ACT, tried(0), certified(4, 4))).certified_prefix == 1


def test_a_cap_costs_the_steps_that_cascades_saved():
    found = replay_of(trajectory(("propose", plan(6)), ACT, tried(0), certified(4, 4), ACT, tried(4), certified(6, 2)))
    assert found.depths == (4, 2)
    assert found.capped_share(1, most_steps=60) == 1
    assert found.capped_share(1, most_steps=3) == 3 / 6  # 2 steps and (4-1) + (2-1) more
    assert found.capped_share(2, most_steps=2) == 2 / 3  # only the four need another step


@pytest.mark.slow
@given(st.lists(st.integers(1, 6), min_size=1, max_size=20), st.integers(1, 40), st.integers(1, 5))
def test_a_share_is_a_share_and_a_wider_cap_never_costs_more(depths: list[int], most: int, cap: int):
    found = Replay(0, len(depths), None, 0, len(depths), tuple(depths))
    assert 0 < found.capped_share(cap, most) <= found.capped_share(cap + 1, most) <= 1


@pytest.mark.parametrize(
    ("swap", "rule"),
    [
        ("validate=always_pass", "action fidelity"),
        ("replan=give_up", "certified prefix"),
        ("validate=capped:depth=2", "cascade cap"),
        ("propose=operators:mine", None),
    ],
)
def test_which_rule_goes_with_which_swap(swap: str, rule: str | None):
    found = rule_for(dict([parse_swap(swap)]))
    assert (found[0] if found else None) == rule


@pytest.mark.slow
def test_replay_reads_a_real_run_as_it_is_recorded(tmp_path: Path):
    context = Context(model="simulated:act=0.3,reject=0.2,seed=3", limits=Limits(attempts=20))
    result = run("sdp", "blocksworld", "5-1", context=context, out=tmp_path)
    found = replay_of(result.trajectory)
    assert found.exhausted_at is None
    assert found.depths == tuple(result.credit)
    assert found.steps == len(result.state["history"])
    first = sum(attempts == 1 for attempts in _attempts_by_certificate(result.state))
    assert found.action_fidelity == first / len(result.credit) < 1


def test_a_run_that_gave_up_ended_where_the_prefix_says(tmp_path: Path):
    context = Context(model="simulated:propose=0.6,seed=1")
    result = run(sdp.build(replan=give_up), "blocksworld", "5-1", context=context, out=tmp_path)
    assert result.ending == "gave_up"
    assert replay_of(result.trajectory).exhausted_at == result.state["head"]


def _attempts_by_certificate(state: Any) -> list[int]:
    """Number of attempts at each certified target, by position."""
    counts, run_length = list[int](), 0
    for attempt in state["attempts"]:
        run_length += 1
        if attempt.verdict.depth:
            counts.append(run_length)
            run_length = 0
    return counts


# --- variants


def test_variants_are_named_after_their_swaps():
    full, bare, both = ablation_methods("sdp", ["validate=always_pass", "replan=give_up+validate=capped:depth=1"])
    assert [m.name for m in (full, bare, both)] == [
        "sdp",
        "validate=always_pass",
        "replan=give_up+validate=capped:depth=1",
    ]
    assert set(exchanged_operators(full, bare)) == {"validate"}
    assert set(exchanged_operators(full, both)) == {"replan", "validate"}
    assert [m.name for m in ablation_methods("sdp", [])][1:] == [
        "validate=always_pass",
        "replan=give_up",
        "validate=capped:depth=1",
    ]


def test_arguments_of_variants_keep_their_types():
    gate = "gate=either:one=gap_gate,other=(exhaustion_gate:upr=1.0,change=None)"
    _, both = ablation_methods("ircot", [f'memory=structured:missing=False+decide=reason:rerank="a+b=c"+{gate}'])
    (compared,) = parse_methods(["ircot"], [f"ircot:{gate}"])
    assert repr(both.operators["memory"]["args"]) == repr({"missing": False})
    assert both.operators["decide"]["args"] == {"rerank": "a+b=c"}
    for method in (both, compared):
        assert repr(method.operators["gate"]["args"]["other"]["args"]) == repr({"upr": 1.0, "change": None})


def test_a_variant_is_described_by_what_its_operators_do():
    shown = read_inventory()["operators"]
    capped, both = "validate=capped:depth=1", "replan=give_up+validate=always_pass"
    methods = ablation_methods("sdp", [capped, both])
    described = describe_variants((*methods, build_method("own", "sdp", ["propose=mine:op"], import_own=False)))
    assert set(described) == {capped, both}
    assert described[capped] in shown["capped"]
    first, second = (shown[name].partition("] ")[2] for name in ("always_pass", "give_up"))
    assert described[both] == f"{first} {second}"
    assert describe_variants(parse_methods(("sdp", "react"))) == {}


@pytest.mark.parametrize(
    ("graph", "swaps", "fix"),
    [
        ("sdp", ["validate=pass_always"], "always_pass"),
        ("sdp", ["validator=always_pass"], "validate"),
        ("sdp", ["replan=give_up", "replan=give_up"], "twice"),
        ("react", [], "--swap SLOT=OPERATOR"),
        ("spd", [], "sdp"),
    ],
)
def test_variants_that_cannot_be(graph: str, swaps: list[str], fix: str):
    with pytest.raises(UnknownName, match=fix):
        ablation_methods(graph, swaps)


# --- estimates


def row_ablating(method: str, task: str, trial: int, score: float) -> ComparisonRow:
    figures = {"calls": 1, "prompt_tokens": 0, "cached_tokens": 0, "output_tokens": 0, "steps": 0, "seconds": 0.0}
    return ComparisonRow(
        method=method, task=task, trial=trial, score=score, ending="goal", solved=True, run="r", roles={}, **figures
    )


def test_an_estimate_is_paired_with_what_was_measured():
    tasks = tuple(f"3-{n}" for n in range(8))
    plan_ = build_job(
        ablation_methods("sdp", ["validate=always_pass"]), "blocksworld", Choice(ids=tasks, trials=2), Context()
    ).plan
    runs = [(task, trial) for task in tasks for trial in (0, 1)]
    rows = [row_ablating("sdp", *at, 100) for at in runs]
    rows += [row_ablating("validate=always_pass", *at, 10.0 * (int(at[0][2:]) % 2)) for at in runs]
    replays = {at: Replay(1, 2, None, 0, 2, (1, 1)) for at in runs}
    (found,) = estimates_of(plan_, rows, replays)
    assert (found.full, found.replayed, found.measured, found.optimism.mean, found.optimism.n) == (100, 50, 5, 45, 8)
    assert found.words == "replay is optimistic by 45.0 points at n=8"


@pytest.mark.slow
def test_words_on_several_estimates_go_by_holms_p():
    tasks = tuple(f"3-{n}" for n in range(8))
    swaps = ("validate=always_pass", "replan=give_up", "validate=capped:depth=1")
    plan_ = build_job(ablation_methods("sdp", swaps), "blocksworld", Choice(ids=tasks), Context()).plan
    # each alone has p = 0.033; three of them are not significant
    apart = (40, 40, 40, 40, 0, 0, 0, 0)
    rows = [row_ablating("sdp", task, 0, 100) for task in tasks]
    rows += [row_ablating(s, task, 0, 100.0 - d) for s in swaps for task, d in zip(tasks, apart, strict=True)]
    found = estimates_of(plan_, rows, {(task, 0): Replay(1, 1, None, 0, 1, (1,)) for task in tasks})
    assert [e.optimism.p_adjusted for e in found] == pytest.approx([3 * e.optimism.p for e in found])
    assert all(e.optimism.p < 0.05 for e in found)
    assert {e.words for e in found} == {"no significant difference at n=8 (Holm's p above 0.05)"}


@pytest.mark.parametrize(
    ("low", "p", "reservation"),
    [(5, 0.083, "(Holm's p above 0.05)"), (-1, 0.04, "(the interval includes 0)"), (-1, 0.4, "")],
)
def test_the_words_name_the_one_condition_that_a_difference_fails(low, p, reservation):
    difference = Difference(
        method="b", against="a", n=8, mean=15, low=low, high=35, p=0.01, p_adjusted=p, detectable=20
    )
    assert difference.words == f"no significant difference at n=8 {reservation}".strip()


def test_nothing_is_claimed_of_no_task():
    none = compute_difference("a", "b", {}, {})
    assert none.words == "no task that both finished"
    _, [line] = table_of(DIFFERENCE_COLUMNS, [none])
    assert line[1:3] == ("-", "-")


# --- the command


def call_command(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as stop:
        cli.main([*arguments])
    out, err = capsys.readouterr()
    return int(stop.value.code or 0), out, err


@pytest.mark.long
@pytest.mark.slow
def test_one_command_ablates_and_the_same_command_goes_on(capsys: pytest.CaptureFixture[str], tmp_path: Path):
    command = ("ablate", "sdp", "blocksworld", "--limit", "3", "--trials", "2", "--out", str(tmp_path / "a"))
    command += ("--model", "simulated:propose=0.1,act=0.3,accept=0.1,reject=0.1")
    status, shown, errors = call_command(capsys, *command)
    assert status == 0
    assert "4 methods x 3 tasks x 2 trials" in errors
    assert "simulated agent" in shown
    assert "re-executed" not in shown and "<th>re-executed</th>" in (tmp_path / "a" / "comparison.html").read_text()
    table = json.loads((tmp_path / "a" / "table.json").read_text())
    assert [(m["n"], m["runs"]) for m in table["methods"]] == [(3, 6)] * 4
    assert [e["rule"] for e in table["replayed"]] == ["action fidelity", "certified prefix", "cascade cap"]
    assert all(m["pass_all"] is not None for m in table["methods"])
    for resumed in (command, ("ablate", "--out", str(tmp_path / "a"))):
        again = call_command(capsys, *resumed)
        assert (again[0], again[1]) == (status, shown)
        assert "24 done" in again[2]


@pytest.mark.long
@pytest.mark.slow
def test_an_interrupted_ablation_names_a_command_that_resumes_it(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    with monkeypatch.context() as patch:
        patch.setattr("certigraph.evaluation.compare.run_cells", interrupt)
        command = ("ablate", "sdp", "blocksworld", "--task", "3-0", "--out", str(tmp_path / "a"))
        status, _, errors = call_command(capsys, *command)
    named = errors.partition("resume with: ")[2].strip()
    assert status == 130
    assert named.startswith("certigraph ablate ")
    status, _, errors = call_command(capsys, *named.split()[1:])
    assert status == 0
    assert "4 methods x 1 task" in errors
    assert "no run to go" in errors


async def interrupt(*_: object, **__: object) -> None:
    raise KeyboardInterrupt


@pytest.mark.slow
def test_variants_share_tasks_trials_and_draws(tmp_path: Path):
    """A variant that changes nothing has the same runs as the full method: pairing is exact."""
    context = Context(model="simulated:propose=0.2,act=0.4,accept=0.1,reject=0.1", budget=Budget(calls=200))
    one = run("sdp", "blocksworld", "4-2", context=context, out=tmp_path / "1")
    two = run(sdp.build(validate=unchanged), "blocksworld", "4-2", context=context, out=tmp_path / "2")
    assert [s.action for s in one.state["history"]] == [s.action for s in two.state["history"]]
    other = run("sdp", "blocksworld", "4-2", context=context.model_copy(update={"trial": 1}), out=tmp_path / "3")
    assert [s.action for s in one.state["history"]] != [s.action for s in other.state["history"]]


async def unchanged(state: Any, runtime: Any) -> dict[str, Any]:
    from certigraph.nodes.sdp import validate

    update = await validate(state, runtime)
    assert isinstance(update["verdict"], Verdict)
    return update

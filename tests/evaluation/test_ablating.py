"""Ablations: variants by swaps, the rules of appendix C on hand-made runs, and how far off those are."""

import json
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("scipy", reason="pip install 'certigraph[eval]'")

from hypothesis import given
from hypothesis import strategies as st

from certigraph import cli
from certigraph.adapters.protocols import Budget, Context, Limits
from certigraph.evaluation.compare import Choice, order
from certigraph.evaluation.comparison_report import difference_cells
from certigraph.evaluation.comparison_summary import (
    Replay,
    difference_of,
    estimates_of,
    exchanged,
    replay_of,
    rule_for,
    variants,
)
from certigraph.graphs import sdp
from certigraph.nodes.sdp import give_up
from certigraph.runtime.history import Row
from certigraph.runtime.registry import parse_swap
from certigraph.runtime.run import run
from certigraph.state.records import Task, UnknownName, Usage, Verdict
from certigraph.state.trajectory import Event, Header, Trajectory

NOBODY = Usage(node="n")


def trajectory(*updates: tuple[str, dict[str, Any]]) -> Trajectory:
    header = Header(
        run_id="r", created="", graph="sdp", operators={}, task=Task(benchmark="b", id="t"), context={}, versions={}
    )
    events = [
        Event(t=0, superstep=n, node=node, usage=NOBODY, update=update) for n, (node, update) in enumerate(updates)
    ]
    return Trajectory(header=header, events=events)


def plan(length: int) -> dict[str, Any]:
    return {"plan": [{"text": str(n)} for n in range(length)], "head": 0, "tried": 0}


ACT: tuple[str, dict[str, Any]] = ("act", {"history": [{"action": {"text": "a"}, "digest": "d"}]})


def tried(times: int) -> tuple[str, dict[str, Any]]:
    return "validate", {"tried": times}


def certified(head: int, depth: int) -> tuple[str, dict[str, Any]]:
    return "certify", {"certificates": [{"targets": [{"text": "x"}] * depth}], "head": head, "tried": 0}


# --- the rules of appendix C


def test_fidelity_counts_steps_certified_at_their_first_attempt():
    run_ = trajectory(
        ("propose", plan(4)), ACT, tried(1), certified(1, 1), ACT, tried(1), ACT, tried(2), certified(2, 1)
    )
    assert replay_of(run_).action_fidelity == 0.5
    assert Replay(0, 0, None, 0, 3, ()).action_fidelity == 1


def test_the_prefix_is_the_cursor_at_the_first_exhaustion():
    stuck = (ACT, tried(3), ("replan", {"plan": [{"text": "y"}] * 9, "tried": 0}), ACT, tried(3), ("replan", {}))
    found = replay_of(trajectory(("propose", plan(4)), ACT, tried(1), certified(1, 1), *stuck))
    assert (found.exhausted_at, found.planned_then, found.certified_prefix) == (1, 4, 0.25)
    assert replay_of(trajectory(("propose", plan(4)), ACT, tried(1), certified(4, 4))).certified_prefix == 1


def test_a_cap_costs_the_steps_that_cascades_saved():
    found = replay_of(trajectory(("propose", plan(6)), ACT, tried(1), certified(4, 4), ACT, tried(1), certified(6, 2)))
    assert found.depths == (4, 2)
    assert found.capped_share(1, most_steps=60) == 1
    assert found.capped_share(1, most_steps=3) == 3 / 6  # 2 steps and (4-1) + (2-1) more
    assert found.capped_share(2, most_steps=2) == 2 / 3  # only the four need another step


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
    assert (found.name if found else None) == rule


def test_replay_reads_a_real_run_as_its_books_have_it(tmp_path: Path):
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
    """Tries at each target that was certified, told by positions alone."""
    counts, run_length = list[int](), 0
    for attempt in state["attempts"]:
        run_length += 1
        if attempt.verdict.depth:
            counts.append(run_length)
            run_length = 0
    return counts


# --- variants


def test_variants_are_named_after_their_swaps():
    full, bare, both = variants("sdp", ["validate=always_pass", "replan=give_up+validate=capped:depth=1"])
    assert [m.name for m in (full, bare, both)] == [
        "sdp",
        "validate=always_pass",
        "replan=give_up+validate=capped:depth=1",
    ]
    assert set(exchanged(full, bare)) == {"validate"}
    assert set(exchanged(full, both)) == {"replan", "validate"}
    assert [m.name for m in variants("sdp", [])][1:] == [
        "validate=always_pass",
        "replan=give_up",
        "validate=capped:depth=1",
    ]


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
        variants(graph, swaps)


# --- estimates


def row(method: str, task: str, trial: int, score: float) -> Row:
    figures = {"calls": 1, "prompt_tokens": 0, "cached_tokens": 0, "output_tokens": 0, "steps": 0, "seconds": 0.0}
    return Row(
        method=method, task=task, trial=trial, score=score, ending="goal", solved=True, run="r", roles={}, **figures
    )


def test_an_estimate_is_paired_with_what_was_measured():
    tasks = tuple(f"3-{n}" for n in range(8))
    plan_ = order(variants("sdp", ["validate=always_pass"]), "blocksworld", Choice(tasks, trials=2), Context()).plan
    runs = [(task, trial) for task in tasks for trial in (0, 1)]
    rows = [row("sdp", *at, 100) for at in runs]
    rows += [row("validate=always_pass", *at, 10.0 * (int(at[0][2:]) % 2)) for at in runs]
    replays = {at: Replay(1, 2, None, 0, 2, (1, 1)) for at in runs}
    (found,) = estimates_of(plan_, rows, replays)
    assert (found.full, found.replayed, found.measured, found.optimism.mean, found.optimism.n) == (100, 50, 5, 45, 8)
    assert found.words == "replay is optimistic by 45.0 points at n=8"


def test_words_on_several_estimates_go_by_holms_p():
    tasks = tuple(f"3-{n}" for n in range(8))
    swaps = ("validate=always_pass", "replan=give_up", "validate=capped:depth=1")
    plan_ = order(variants("sdp", swaps), "blocksworld", Choice(tasks), Context()).plan
    # alone each has p = 0.033; three of them say nothing
    apart = (40, 40, 40, 40, 0, 0, 0, 0)
    rows = [row("sdp", task, 0, 100) for task in tasks]
    rows += [row(s, task, 0, 100.0 - d) for s in swaps for task, d in zip(tasks, apart, strict=True)]
    found = estimates_of(plan_, rows, {(task, 0): Replay(1, 1, None, 0, 1, (1,)) for task in tasks})
    assert [e.optimism.p_adjusted for e in found] == pytest.approx([3 * e.optimism.p for e in found])
    assert all(e.optimism.p < 0.05 for e in found)
    assert {e.words for e in found} == {"no difference can be told at n=8"}


def test_nothing_is_claimed_of_no_task():
    none = difference_of("a", "b", {}, {})
    assert none.words == "no task that both finished"
    assert difference_cells(none)[2:4] == ("-", "-")


# --- the command


def said(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as stop:
        cli.main([*arguments])
    out, err = capsys.readouterr()
    return int(stop.value.code or 0), out, err


@pytest.mark.slow
def test_one_command_ablates_and_the_same_command_goes_on(capsys: pytest.CaptureFixture[str], tmp_path: Path):
    command = ("ablate", "sdp", "blocksworld", "--limit", "3", "--trials", "2", "--out", str(tmp_path / "a"))
    command += ("--model", "simulated:propose=0.1,act=0.3,accept=0.1,reject=0.1")
    status, shown, told = said(capsys, *command)
    assert status == 0
    assert "4 methods x 3 tasks x 2 trials" in told
    assert "simulated agent" in shown
    table = json.loads((tmp_path / "a" / "table.json").read_text())
    assert [(m["n"], m["runs"]) for m in table["methods"]] == [(3, 6)] * 4
    assert [e["rule"] for e in table["replayed"]] == ["action fidelity", "certified prefix", "cascade cap"]
    assert all(m["pass_all"] is not None for m in table["methods"])
    again = said(capsys, *command)
    assert (again[0], again[1]) == (status, shown)
    assert "24 done" in again[2]


@pytest.mark.slow
def test_variants_share_tasks_trials_and_draws(tmp_path: Path):
    """A variant that changes nothing gives the very runs of the full method: pairing is exact."""
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

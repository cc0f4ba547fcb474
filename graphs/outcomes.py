"""What became of a sub-task, read off the last state of whatever graph worked on it."""

from collections.abc import Iterator, Mapping, Sequence
from importlib import import_module
from typing import Any

from certigraph.adapters.prompting import clipped, unquoted
from certigraph.state.beliefs import belief_of
from certigraph.state.certified import CertifiedState, certified_state
from certigraph.state.dag import Status
from certigraph.state.endings import GOAL, LimitReached
from certigraph.state.records import Step
from certigraph.state.searching import ANSWERS, FINISH
from certigraph.state.tdp import Outcome, SolveView

MOST_RESULT = 1_000
"""Characters of a result: a node that needs several of them still fits into a small model's context."""

LATEST = 3
"""Certificates that a result tells, the latest ones."""

AGAIN = "; it begins again with all that is left"


def outcome_of(graph: str, latest: Mapping[str, Any], view: SolveView, reached: LimitReached | None = None) -> Outcome:
    """The outcome of a node.

    Args:
        graph: name of the graph that worked on it.
        latest: its last state.
        view: what the node was given.
        reached: the limit that cut it off, if one did: its steps, or its part of the budget.
    """
    ending = import_module(f"certigraph.graphs.{graph}").ending(latest)
    status = _status(latest, ending, reached)
    steps = tuple(latest["history"][len(view["entry"].steps) :])
    ended_copy = latest["observation"].done and view["entry"].apart and not view["entry"].last
    return Outcome(
        node=view["node"].id,
        status=status,
        result=clipped(unquoted(_spent_on(steps, view, status) + _best(latest, reached)), MOST_RESULT),
        ending=ending,
        certified=tuple(p.text for p in _certified(latest).predicates),
        steps=() if status == "pending" else steps[:-1] if ended_copy else steps,
        taken=len(steps),
        observation=latest["observation"],
    )


def _certified(latest: Mapping[str, Any]) -> CertifiedState:
    return certified_state(latest.get("certificates", ()), latest.get("invalidations", ()))


def _status(latest: Mapping[str, Any], ending: str, reached: LimitReached | None) -> Status:
    if reached:
        return "failed" if reached.of_method else "pending"
    handed_in = latest["observation"].done and latest.get("action") and latest["action"].kind == FINISH
    return "completed" if ending == GOAL or handed_in else "failed"


def _spent_on(steps: Sequence[Step], view: SolveView, status: Status) -> str:
    used_up = status == "failed" and len(steps) >= view["steps"]
    return f"not completed in {len(steps)} steps, all that it was given; " if used_up else ""


def _best(latest: Mapping[str, Any], reached: LimitReached | None) -> str:
    return next(filter(None, _told(latest, reached)), "")


def _told(latest: Mapping[str, Any], reached: LimitReached | None) -> Iterator[str]:
    """What may tell the outcome, the best first; some of it may be empty."""
    if reached:
        spent = f"its part of the {reached.kind} was spent"
        yield f"it ended {reached.ending}" if reached.of_method else f"{spent}{AGAIN}"
    action, progress = latest.get("action"), latest.get("progress")
    if action and action.kind in ANSWERS:
        yield f"answer: {action.args.get('answer', '')}"
    yield progress.result if progress else ""
    certified = [c for c in latest.get("certificates", ()) if not c.forced]
    yield "; ".join(f"{c.targets[-1].text} ({c.action.text})" for c in certified[-LATEST:])
    yield belief_of(latest).text  # type: ignore[arg-type]
    yield progress.reason if progress else ""
    yield latest["observation"].text

"""A recorded run as rows: one of the run, and one of each attempt, predicate and node."""

from collections import Counter
from collections.abc import Iterator, Sequence
from math import nan
from typing import Any, NamedTuple

from certigraph.evaluation.anatomy.certified import Cost, Plain
from certigraph.evaluation.anatomy.folding import Fold, folded_graphs, is_return, kind_of
from certigraph.evaluation.anatomy.horizon import horizon_of
from certigraph.evaluation.sound import legible
from certigraph.state.endings import GOAL
from certigraph.state.states import state_type
from certigraph.state.trajectory import Trajectory, total

EVIDENCE_FOUND = "evidence_found"
"""The part of a question's score that says whether the evidence was found at all."""

Row = dict[str, Any]


class Recorded(NamedTuple):
    """A run on record: which method it is of, which task it was on, and which repetition of it, counted from 0."""

    method: str
    task: str
    trial: int
    trajectory: Trajectory


class Rows(NamedTuple):
    """The rows that one run adds to each of the frames, by column."""

    run: Row
    attempts: list[Row]
    predicates: list[Row]
    nodes: list[Row]


def rows_of(recorded: Recorded) -> Rows:
    """Everything that one run adds to the frames. Raises Fault where its trajectory is of no such run."""
    with legible(recorded.trajectory.header.run_id):
        return _rows(recorded)


def _rows(recorded: Recorded) -> Rows:
    header, folds = recorded.trajectory.header, folded_graphs(recorded.trajectory.events)
    predicated = "certificates" in state_type(header.graph).__annotations__ or any(f.plan for f in folds)
    key = {
        "method": recorded.method,
        "benchmark": header.task.benchmark,
        "task": recorded.task,
        "trial": recorded.trial,
        "run": header.run_id,
    }
    predicates = list(_all_predicates(folds, recorded.trajectory.ending)) if predicated else []
    own = _progress(folds, predicates) if predicated else {}
    return Rows(
        run={**key, **_run(recorded.trajectory, own.get("planned")), "steps": sum(f.steps for f in folds), **own},
        attempts=[{**key, **row} for folded in folds for row in _attempts(folded)],
        predicates=[{**key, **row} for row in predicates],
        nodes=[{**key, **row} for row in _nodes(recorded.trajectory)],
    )


def _run(trajectory: Trajectory, planned: int | None) -> Row:
    header, usage, horizon = trajectory.header, trajectory.usage, horizon_of(trajectory.header.task, planned)
    scores = trajectory.footer.scores if trajectory.footer else None
    value = scores.value if scores else 0.0
    found = scores.parts.get(EVIDENCE_FOUND) if scores else None
    return {
        "graph": header.graph,
        "model": str(header.context.get("model", "")),
        "ending": trajectory.ending,
        "score": value,
        "solved": value >= 1,
        "evidence_found": nan if found is None else found,
        "horizon": horizon.length,
        "horizon_name": horizon.name,
        "calls": usage.calls,
        "tokens": usage.input_tokens + usage.output_tokens,
        "seconds": usage.seconds,
    }


def _progress(folds: Sequence[Fold], predicates: list[Row]) -> Row:
    """What a run with predicates has besides."""
    states = Counter(row["status"] for row in predicates)
    certificates = [certificate for folded in folds for certificate in folded.certificates if not certificate.forced]
    moves = [certificate for certificate in certificates if not certificate.returns]
    exhaustion = next((folded.exhaustion for folded in folds if folded.exhaustion), None)
    return {
        "certified": states["certified"],
        "forced": states["forced"],
        "planned": states["certified"] + states["forced"] + states["open"],
        "replans": sum(folded.replans for folded in folds),
        "attempts": sum(len(folded.tries) for folded in folds),
        "certificates": len(certificates),
        "cascades": sum(len(certificate.targets) > 1 for certificate in moves),
        "returns": len(certificates) - len(moves),
        "first_exhaustion": exhaustion.head if exhaustion else None,
        "planned_then": exhaustion.planned if exhaustion else None,
    }


def _attempts(folded: Fold) -> Iterator[Row]:
    for place, attempt in enumerate(folded.tries):
        yield {
            "position": attempt.position,
            "kind": kind_of(attempt.target),
            "number": attempt.number,
            "depth": attempt.depth,
            "certified": place in folded.decided,
            "step": attempt.step,
        }


def _all_predicates(folds: Sequence[Fold], ending: str) -> Iterator[Row]:
    """Those of every sub-task; a run stops at one target, the open one of the sub-task that was begun last."""
    last = next((folded for folded in reversed(folds) if folded.head < len(folded.plan)), None)
    for folded in folds:
        yield from _predicates(folded, ending if folded is last else GOAL)


def _predicates(folded: Fold, ending: str) -> Iterator[Row]:
    standing = folded.standing()
    for place, certificate in enumerate(folded.certificates):
        depth, position = len(certificate.targets), certificate.record["position"]
        status = certificate.status(stands=place in standing)
        share = [amount / depth for amount in certificate.cost]
        for nth, target in enumerate(certificate.targets):
            spent = dict(zip(Cost._fields, share, strict=True))
            rejected = certificate.rejected if nth == 0 else 0
            state = "undone" if (place, nth) in folded.invalidated else status
            known = {"status": state, "leads": nth == 0, "depth": depth, "rejected": rejected, **spent}
            yield {**_predicate(target, position + nth, len(folded.plan)), **known}
    for position, target in enumerate(folded.plan[folded.head :], folded.head):
        stopped = position == folded.head and ending != GOAL
        rejected = sum(t.target == target for t in folded.open_tries()) if position == folded.head else 0
        status = "return" if is_return(target) else "open"
        known = {"status": status, "leads": False, "rejected": rejected, "stopped": stopped}
        yield {**_predicate(target, position, len(folded.plan)), **known}


def _predicate(target: Plain, position: int, length: int) -> Row:
    place = position / max(length, 1)
    return {"position": position, "place": place, "kind": kind_of(target), "text": target["text"], "stopped": False}


def _nodes(trajectory: Trajectory) -> Iterator[Row]:
    """What each node spent, superseded work included: it was paid."""
    events = [*trajectory.events, *trajectory.superseded]
    for node in dict.fromkeys(event.node for event in events):
        usages = [event.usage for event in events if event.node == node]
        yield {**total(usages, node).model_dump(), "executions": len(usages)}

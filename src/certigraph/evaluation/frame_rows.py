"""Rows of one recorded run for the data frames of `evaluation.frames`.

`frame_rows_of` reads a trajectory once. The columns are described at `evaluation.frames.Frames`.
"""

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from math import nan
from typing import Any, NamedTuple

from certigraph.adapters.benchmarks import find_benchmark
from certigraph.runtime.files import translate_trajectory_errors
from certigraph.runtime.history import PlainRecord, PlanCertificate, PlanHistory, count_steps, loss_of
from certigraph.runtime.registry import header_swaps
from certigraph.state.endings import GOAL
from certigraph.state.graph_states import state_type
from certigraph.state.records import RESTORE, Task
from certigraph.state.trajectory import Event, Header, Trajectory, count_empty_calls, total_usage

# Horizon of a task, which is known before any run (SDP, section 4.1).


def horizon_of(task: Task, planned: int | None) -> tuple[float, str]:
    """Compute the horizon (length) of a task from its constants; if they have none, from the number of predicates.

    `planned` is the number of predicates in the plan of a run; None if its graph has no predicates.

    Returns:
        The length, by which tasks are ordered, and its label, as in `7 days`.
    """
    benchmark = find_benchmark(task.benchmark)
    try:
        known = benchmark.horizon(task) if benchmark else None
    except (KeyError, TypeError, ValueError):  # tasks of a user may lack the constants
        known = None
    if known:
        return known
    return (planned, f"{planned} planned") if planned else (nan, "unknown")


# The method of a run: its graph, with the operators and models that differ from the defaults.


class TracedMethod(NamedTuple):
    """A method: a graph, the operators swapped into it (`SLOT=OPERATOR`), its model, and models of roles."""

    graph: str
    swaps: tuple[str, ...]
    model: str
    roles: tuple[str, ...]
    """Models of roles, as `ROLE=MODEL`."""

    @property
    def name(self) -> str:
        """Name of the method as on the command line: `step planner=none`."""
        return " ".join([self.graph, *self.swaps])

    @property
    def models(self) -> str:
        """The names of all models."""
        return " ".join([self.model, *self.roles])


def method_of_header(header: Header) -> TracedMethod:
    """Read the method of a run from its header; `swaps` are the operators that differ from the defaults of the graph.

    Raises:
        Fault: ("data") an operator in the header is malformed.
    """
    roles: Any = header.context.get("roles") or {}
    with translate_trajectory_errors(header.run_id):
        swapped = header_swaps(header)
        named = tuple(f"{role}={name}" for role, name in roles.items())
    swaps = tuple(f"{slot}={spec}" for slot, spec in swapped.items())
    return TracedMethod(header.graph, swaps, str(header.context.get("model", "")), named)


# Rows of one run, for each frame.

MAX_SCORE = 100.0
"""The score of a solved task in score curves."""

EVIDENCE_PART = "evidence_found"
"""Name of the part of a question's score that says whether the run found the evidence."""

FrameRow = dict[str, Any]
"""Row of a data frame: the value of each column."""

FrameRows = dict[str, list[FrameRow]]
"""Rows for each frame, by name of the frame."""


class RecordedRun(NamedTuple):
    """A recorded run with the name of its method, its task, and the number of the trial, from 0."""

    method: str
    task: str
    trial: int
    trajectory: Trajectory


def frame_rows_of(recorded: RecordedRun) -> FrameRows:
    """Build the rows of one run. Raises Fault if the trajectory has contents that its graph cannot have written."""
    trajectory = recorded.trajectory
    key = {
        "method": recorded.method,
        "benchmark": trajectory.header.task.benchmark,
        "task": recorded.task,
        "trial": recorded.trial,
        "run": trajectory.header.run_id,
    }
    with translate_trajectory_errors(trajectory.header.run_id):
        rows = _build_rows(trajectory)
    return {name: [{**key, **row} for row in rows_of_frame] for name, rows_of_frame in rows.items()}


def _build_rows(trajectory: Trajectory) -> FrameRows:
    by_graph = {"": PlanHistory()}
    for event in trajectory.events:
        by_graph.setdefault(event.scope, PlanHistory()).fold(event)
    folds = list(by_graph.values())
    is_predicated = "head" in state_type(trajectory.header.graph).__annotations__ or any(f.plan for f in folds)
    predicates = list(_predicate_rows(folds, trajectory.ending)) if is_predicated else []
    progress = _progress_columns(folds, predicates) if is_predicated else {}
    run = {**_run_row(trajectory, progress.get("planned")), "steps": sum(f.steps for f in folds), **progress}
    return {
        "runs": [run],
        "steps": list(step_rows(trajectory)),
        "attempts": [row for folded in folds for row in _attempt_rows(folded)],
        "predicates": predicates,
        "nodes": list(_node_rows(trajectory)),
        "executions": list(_execution_rows(trajectory.events)),
        "calls": [*_call_rows(trajectory.events), *_call_rows(trajectory.superseded, superseded=True)],
        "findings": [row for folded in folds for row in _finding_rows(folded)],
        "rounds": round_rows(trajectory.events),
    }


def _run_row(trajectory: Trajectory, planned: int | None) -> FrameRow:
    task = trajectory.header.task
    method, usage = method_of_header(trajectory.header), trajectory.usage
    horizon, horizon_name = horizon_of(task, planned)
    scores = trajectory.footer.scores if trajectory.footer else None
    value = scores.value if scores else 0.0
    evidence_found = scores.parts.get(EVIDENCE_PART) if scores else None
    empty = count_empty_calls(trajectory.events)
    return {
        "graph": method.graph,
        "swaps": ", ".join(method.swaps),
        "model": method.model,
        "roles": " ".join(method.roles),
        "ending": trajectory.ending,
        "score": value,
        "solved": value >= 1,
        "scored": scores is not None,
        "shown": json.dumps(scores.shown) if scores and scores.shown else "",
        "evidence_found": nan if evidence_found is None else evidence_found,
        "horizon": horizon,
        "horizon_name": horizon_name,
        "tokens": usage.input_tokens + usage.output_tokens,
        **usage.model_dump(exclude={"node"}),
        "empty_calls": empty.total,
        **{f"empty_{reason}": count for reason, count in empty._asdict().items()},
        "loss": loss_of(trajectory),
    }


def _progress_columns(folds: Sequence[PlanHistory], predicates: list[FrameRow]) -> FrameRow:
    # Columns that only runs with predicates have.
    statuses = Counter(row["status"] for row in predicates)
    certificates = [certificate for folded in folds for certificate in folded.certificates if not certificate.forced]
    moves = [certificate for certificate in certificates if certificate.restores is None]
    exhaustion = next((folded.exhaustion for folded in folds if folded.exhaustion), None)
    return {
        "certified": statuses["certified"],
        "forced": statuses["forced"],
        "planned": statuses["certified"] + statuses["forced"] + statuses["open"],
        "replans": sum(folded.replans for folded in folds),
        "attempts": sum(len(folded.attempts) for folded in folds),
        "certificates": len(certificates),
        "cascades": sum(len(certificate.targets) > 1 for certificate in moves),
        "returns": len(certificates) - len(moves),
        "first_exhaustion": exhaustion.head if exhaustion else None,
        "planned_then": exhaustion.planned if exhaustion else None,
    }


def _attempt_rows(folded: PlanHistory) -> Iterator[FrameRow]:
    for attempt in folded.attempts:
        names = ("position", "number", "depth", "certified", "step")
        about = {"kind": kind_of(attempt.target), "judged": attempt.counted}
        yield {**about, **{name: getattr(attempt, name) for name in names}}


def _predicate_rows(folds: Sequence[PlanHistory], ending: str) -> Iterator[FrameRow]:
    # A run stops at one target: the open one of the sub-task that was started last.
    last = next((folded for folded in reversed(folds) if folded.head < len(folded.plan)), None)
    for folded in folds:
        yield from _certified_rows(folded)
        for position, target in enumerate(folded.plan[folded.head :], folded.head):
            is_next = position == folded.head
            yield {
                **_predicate_columns(target, position, len(folded.plan)),
                "status": "return" if kind_of(target) == RESTORE else "open",
                "leads": False,
                "rejected": sum(a.counted and a.target == target for a in folded.open_attempts()) if is_next else 0,
                "stopped": is_next and folded is last and ending != GOAL,
            }


def _certified_rows(folded: PlanHistory) -> Iterator[FrameRow]:
    valid = folded.valid_indices()
    for index, certificate in enumerate(folded.certificates):
        depth, position = len(certificate.targets), certificate.record["position"]
        status = _status_of(certificate, valid=index in valid)
        for nth, target in enumerate(certificate.targets):
            yield {
                **_predicate_columns(target, position + nth, len(folded.plan)),
                "status": "undone" if (index, nth) in folded.invalidated else status,
                "leads": nth == 0,
                "depth": depth,
                "rejected": certificate.rejected if nth == 0 else 0,
                "tried": certificate.tried,
                **{name: amount / depth for name, amount in certificate.cost._asdict().items()},
            }


def _status_of(certificate: PlanCertificate, *, valid: bool) -> str:
    # A certificate is not valid if the agent later went back to a state that it had reached before.
    if certificate.restores is not None:
        return "return"
    if certificate.forced:
        return "forced" if valid else "dropped"
    return "certified" if valid else "undone"


def kind_of(target: PlainRecord) -> str:
    """Return the kind of a predicate that is given as JSON; by default `condition`."""
    kind: str = target.get("kind", "condition")
    return kind


def _predicate_columns(target: PlainRecord, position: int, length: int) -> FrameRow:
    place = position / max(length, 1)
    return {"position": position, "place": place, "kind": kind_of(target), "text": target["text"], "stopped": False}


def _node_rows(trajectory: Trajectory) -> Iterator[FrameRow]:
    # Superseded work is included, since it was paid for.
    events = [*trajectory.events, *trajectory.superseded]
    for node in dict.fromkeys(event.node for event in events):
        usages = [event.usage for event in events if event.node == node]
        yield {**total_usage(usages, node).model_dump(), "executions": len(usages)}


# Executions, steps, calls, findings and rounds of search.


def _execution_rows(events: Sequence[Event]) -> Iterator[FrameRow]:
    score, decisions = 0.0, 0
    for event in events:
        score, decisions = _score_after(event, score), decisions + (event.node == DECIDE_NODE and not event.scope)
        amounts = event.usage.model_dump(exclude={"node", "usd", "seconds"})
        yield {"node": event.node, "scope": event.scope, "round": decisions, **amounts, "score": score}


def _score_after(event: Event, score: float) -> float:
    # Inner graphs are ignored, since they may act in a copy of the world.
    update: PlainRecord = event.update or {}
    if event.scope or "observation" not in update:
        return score
    observation = update["observation"]
    before = 0.0 if "history" in event.replaced else score  # a replaced log starts a new episode
    reported = observation.get("data", {}).get("score")
    if reported is None:
        return before + MAX_SCORE * float(observation.get("reward", 0.0))
    return float(reported) if reported >= 0 else before


def step_rows(trajectory: Trajectory) -> Iterator[FrameRow]:
    """Yield a row for each execution of the node that acts in the world."""
    number, step, score, earned = 1, 0, 0.0, 0.0
    for event in trajectory.events:
        update: PlainRecord = event.update or {}
        steps = count_steps(event)
        if "history" in event.replaced and not event.scope:  # a new episode, except in a graph inside a node
            number, step, score, earned = number + (step > 0), 0, 0.0, 0.0
        elif steps and "observation" in update:
            observation = update["observation"]
            reward = float(observation.get("reward", 0.0))
            earned = min(MAX_SCORE, earned + MAX_SCORE * reward)
            world_score = float(observation.get("data", {}).get("score", earned))
            step, score = step + 1, world_score if world_score > 0 else score
            yield {
                "episode": number,
                "step": step,
                "scope": event.scope,
                "subtask": event.subtask,
                "actions": steps,
                "action": update["history"][-1]["action"]["text"],
                "accepted": bool(observation.get("accepted", True)),
                "reward": reward,
                "score": score,
            }


def _call_rows(events: Sequence[Event], *, superseded: bool = False) -> Iterator[FrameRow]:
    steps = 0
    for event in events:
        for call in event.calls:
            amounts = {name: int(str(call.get(name, 0))) for name in ("input_tokens", "output_tokens", "cached_tokens")}
            where = {"node": event.node, "scope": event.scope, "subtask": event.subtask}
            about = {"role": str(call.get("role", "")), "failed": bool(call.get("failure")), "superseded": superseded}
            yield {**where, "steps": steps, **about, **amounts}
        steps += count_steps(event)


def _finding_rows(folded: PlanHistory) -> Iterator[FrameRow]:
    for attempt in folded.attempts:
        if found := attempt.attempt.verdict.finding:
            yield {
                "position": attempt.position,
                "number": attempt.number,
                "certified": attempt.certified,
                **found.model_dump(include={"about", "text", "dispute"}),
                **{name: len(getattr(found, name)) for name in ("sources", "against", "items")},
            }


DECIDE_NODE, MEMORY_NODE, GATE_NODE = "decide", "memory", "gate"
CLOSING_NODES = ("answer", "deliver")
"""Nodes that run after the last round of search."""

SIGNALS = ("jaccard", "upr", "change")
"""What gates look at; see `state.run.SearchRound`."""


def round_rows(events: Sequence[Event]) -> list[FrameRow]:
    """Build a row for each round: from one decision of the agent (node `decide`) to the next.

    The decision to submit an answer is one more round, which has no query and no signals of progress.
    """
    rows: list[FrameRow] = []
    for event in events:
        if event.scope:
            continue
        if event.node == DECIDE_NODE:
            rows.append({"round": len(rows) + 1, "agent": 0, "memory_node": 0, "tokens": 0, "gate_tokens": 0})
        if rows and event.node not in CLOSING_NODES:
            _add_to_round(rows[-1], event)
    return rows


def _add_to_round(row: FrameRow, event: Event) -> None:
    update: PlainRecord = event.update or {}
    usage, reading = event.usage, update.get("stagnation")
    row["gate_tokens" if event.node == GATE_NODE else "tokens"] += usage.spent().tokens
    row["agent"] += usage.input_tokens * (event.node == DECIDE_NODE)
    row["memory_node"] += usage.input_tokens * (event.node == MEMORY_NODE)
    if event.node == GATE_NODE and isinstance(reading, dict):
        row["streak"] = int(str(reading.get("streak", 0)))
        row["stop"] = bool(reading.get("stop")) or reading.get("at") is not None  # a shadow gate only records `at`
    for signal in update.get("rounds", ()):
        row["query"] = signal["action"]
        row |= {name: float(signal[name]) for name in SIGNALS if signal.get(name) is not None}

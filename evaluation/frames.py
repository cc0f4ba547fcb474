"""Recorded runs as pandas data frames, and episodes as score curves.

`find_runs` finds the runs below folders, `read_recorded_runs` reads them, and `frames_of` builds the four data frames
that every analysis is computed from. `read_traces` reads episodes as score curves.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from math import nan
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd
from pydantic import Field

from certigraph.adapters.scienceworld.splits import FAMILIES
from certigraph.graphs.assembly import operators_of
from certigraph.nodes.slots import Spec
from certigraph.runtime.files import find_trajectories, translate_trajectory_errors
from certigraph.runtime.progress import PlainRecord, PlanHistory, StepCost, count_steps, fold_graphs, is_return, kind_of
from certigraph.runtime.registry import GRAPHS, graph_module
from certigraph.runtime.result import is_user_question
from certigraph.state.records import FAULT_ENDINGS, GOAL, Fault, Record, Task
from certigraph.state.trajectory import (
    Event,
    Header,
    Trajectory,
    parse_line,
    read_header_line,
    read_trajectory,
    state_type,
    total_usage,
)

# Horizon of a task, which is known before any run (SDP, section 4.1).

GROUP_HORIZONS = {"short": 1.0, "medium": 2.0, "long": 3.0}
"""Horizon of the three groups into which the SwiftSage paper divides ScienceWorld tasks by length of the gold paths."""


class Horizon(NamedTuple):
    """Length of a task, by which tasks are ordered, and the label of this length, as in `7 days`."""

    length: float
    name: str


UNKNOWN_HORIZON = Horizon(nan, "unknown")


def horizon_of(task: Task, planned: int | None) -> Horizon:
    """Compute the horizon (length) of a task from its constants; if they have none, from the number of predicates.

    `planned` is the number of predicates in the plan of a run; None if its graph has no predicates.
    """
    measure = HORIZON_FUNCTIONS.get(task.benchmark.partition(":")[0], _unknown_horizon)
    try:
        horizon = measure(task)
    except (KeyError, TypeError, ValueError):  # tasks of a user may lack the constants
        horizon = UNKNOWN_HORIZON
    return Horizon(planned, f"{planned} planned") if horizon is UNKNOWN_HORIZON and planned else horizon


def _days_horizon(task: Task) -> Horizon:
    days = float(str(task.constants["days"]))
    return Horizon(days, f"{days:g} days")


def _blocks_horizon(task: Task) -> Horizon:
    blocks = task.constants["blocks"]
    count = len(blocks) if isinstance(blocks, (list, tuple)) else int(str(blocks))
    return Horizon(count, f"{count} blocks")


def _gold_path_horizon(task: Task) -> Horizon:
    group = FAMILIES[str(task.constants["task"])].group
    return Horizon(GROUP_HORIZONS[group], f"{group} gold path")


def _unknown_horizon(task: Task) -> Horizon:
    return UNKNOWN_HORIZON


HORIZON_FUNCTIONS: dict[str, Callable[[Task], Horizon]] = {
    "travelplanner": _days_horizon,
    "blocksworld": _blocks_horizon,
    "scienceworld": _gold_path_horizon,
}


# Rows of one run: one for the run, and one for each attempt, predicate and node.

EVIDENCE_PART = "evidence_found"
"""Name of the part of a question's score that says whether the run found the evidence."""

FrameRow = dict[str, Any]
"""Row of a data frame: the value of each column."""


class RecordedRun(NamedTuple):
    """A recorded run with the name of its method, its task, and the number of the trial, from 0."""

    method: str
    task: str
    trial: int
    trajectory: Trajectory


class RunRows(NamedTuple):
    """Rows that one run adds to each of the four data frames."""

    run: FrameRow
    attempts: list[FrameRow]
    predicates: list[FrameRow]
    nodes: list[FrameRow]


def frame_rows_of(recorded: RecordedRun) -> RunRows:
    """Build the rows of one run. Raises Fault if the trajectory has contents that its graph cannot have written."""
    with translate_trajectory_errors(recorded.trajectory.header.run_id):
        return _build_rows(recorded)


def _build_rows(recorded: RecordedRun) -> RunRows:
    header, folds = recorded.trajectory.header, fold_graphs(recorded.trajectory.events)
    predicated = "certificates" in state_type(header.graph).__annotations__ or any(f.plan for f in folds)
    key = {
        "method": recorded.method,
        "benchmark": header.task.benchmark,
        "task": recorded.task,
        "trial": recorded.trial,
        "run": header.run_id,
    }
    predicates = list(_predicate_rows(folds, recorded.trajectory.ending)) if predicated else []
    progress = _progress_columns(folds, predicates) if predicated else {}
    run = {**key, **_run_row(recorded.trajectory, progress.get("planned"))}
    return RunRows(
        run={**run, "steps": sum(f.steps for f in folds), **progress},
        attempts=[{**key, **row} for folded in folds for row in _attempt_rows(folded)],
        predicates=[{**key, **row} for row in predicates],
        nodes=[{**key, **row} for row in _node_rows(recorded.trajectory)],
    )


def _run_row(trajectory: Trajectory, planned: int | None) -> FrameRow:
    header, usage, horizon = trajectory.header, trajectory.usage, horizon_of(trajectory.header.task, planned)
    scores = trajectory.footer.scores if trajectory.footer else None
    value = scores.value if scores else 0.0
    evidence_found = scores.parts.get(EVIDENCE_PART) if scores else None
    return {
        "graph": header.graph,
        "model": str(header.context.get("model", "")),
        "ending": trajectory.ending,
        "score": value,
        "solved": value >= 1,
        "evidence_found": nan if evidence_found is None else evidence_found,
        "horizon": horizon.length,
        "horizon_name": horizon.name,
        "calls": usage.calls,
        "tokens": usage.input_tokens + usage.output_tokens,
        "seconds": usage.seconds,
    }


def _progress_columns(folds: Sequence[PlanHistory], predicates: list[FrameRow]) -> FrameRow:
    # Columns that only runs with predicates have.
    statuses = Counter(row["status"] for row in predicates)
    certificates = [certificate for folded in folds for certificate in folded.certificates if not certificate.forced]
    moves = [certificate for certificate in certificates if not certificate.returns]
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
        yield {
            "position": attempt.position,
            "kind": kind_of(attempt.target),
            "number": attempt.number,
            "depth": attempt.depth,
            "certified": attempt.certified,
            "step": attempt.step,
        }


def _predicate_rows(folds: Sequence[PlanHistory], ending: str) -> Iterator[FrameRow]:
    # A run stops at one target: the open one of the sub-task that was started last.
    last = next((folded for folded in reversed(folds) if folded.head < len(folded.plan)), None)
    for folded in folds:
        yield from _graph_predicate_rows(folded, ending if folded is last else GOAL)


def _graph_predicate_rows(folded: PlanHistory, ending: str) -> Iterator[FrameRow]:
    valid = folded.valid_indices()
    for index, certificate in enumerate(folded.certificates):
        depth, position = len(certificate.targets), certificate.record["position"]
        status = certificate.status(valid=index in valid)
        share = [amount / depth for amount in certificate.cost]
        for nth, target in enumerate(certificate.targets):
            spent = dict(zip(StepCost._fields, share, strict=True))
            rejected = certificate.rejected if nth == 0 else 0
            state = "undone" if (index, nth) in folded.invalidated else status
            more = {"status": state, "leads": nth == 0, "depth": depth, "rejected": rejected, **spent}
            yield {**_predicate_columns(target, position + nth, len(folded.plan)), **more}
    for position, target in enumerate(folded.plan[folded.head :], folded.head):
        stopped = position == folded.head and ending != GOAL
        rejected = sum(t.target == target for t in folded.open_attempts()) if position == folded.head else 0
        status = "return" if is_return(target) else "open"
        more = {"status": status, "leads": False, "rejected": rejected, "stopped": stopped}
        yield {**_predicate_columns(target, position, len(folded.plan)), **more}


def _predicate_columns(target: PlainRecord, position: int, length: int) -> FrameRow:
    place = position / max(length, 1)
    return {"position": position, "place": place, "kind": kind_of(target), "text": target["text"], "stopped": False}


def _node_rows(trajectory: Trajectory) -> Iterator[FrameRow]:
    # Superseded work is included, since it was paid for.
    events = [*trajectory.events, *trajectory.superseded]
    for node in dict.fromkeys(event.node for event in events):
        usages = [event.usage for event in events if event.node == node]
        yield {**total_usage(usages, node).model_dump(), "executions": len(usages)}


# Frames.

__all__ = ["Frames", "RecordedRun", "frames_of"]

ColumnTypes = Mapping[str, str]
"""Pandas type of each column, by name of the column."""

KEY_COLUMNS: ColumnTypes = {"method": "str", "benchmark": "str", "task": "str", "trial": "Int64", "run": "str"}
"""Columns that identify the run to which a row belongs.

Intervals are clustered by `benchmark` and `task`, because runs of a task are not independent.
"""

RUN_COLUMNS: ColumnTypes = {
    **KEY_COLUMNS,
    **dict.fromkeys(("graph", "model", "ending"), "str"),
    "score": "float64",
    "solved": "bool",
    **dict.fromkeys(("certified", "forced", "planned", "replans", "steps", "attempts"), "Int64"),
    **dict.fromkeys(("certificates", "cascades", "returns", "first_exhaustion", "planned_then"), "Int64"),
    "evidence_found": "float64",
    "horizon": "float64",
    "horizon_name": "str",
    **dict.fromkeys(("calls", "tokens"), "Int64"),
    "seconds": "float64",
}
ATTEMPT_COLUMNS: ColumnTypes = {
    **KEY_COLUMNS,
    "position": "Int64",
    "kind": "str",
    **dict.fromkeys(("number", "depth"), "Int64"),
    "certified": "bool",
    "step": "Int64",
}
PREDICATE_COLUMNS: ColumnTypes = {
    **KEY_COLUMNS,
    "position": "Int64",
    "place": "float64",
    **dict.fromkeys(("kind", "text", "status"), "str"),
    "leads": "bool",
    **dict.fromkeys(("depth", "rejected"), "Int64"),
    "stopped": "bool",
    **dict.fromkeys(("steps", "calls", "tokens"), "float64"),
}
NODE_COLUMNS: ColumnTypes = {
    **KEY_COLUMNS,
    "node": "str",
    **dict.fromkeys(("executions", "calls", "input_tokens", "output_tokens", "cached_tokens"), "Int64"),
    **dict.fromkeys(("usd", "seconds"), "float64"),
}


class Frames(NamedTuple):
    """Four data frames about recorded runs; each begins with KEY_COLUMNS, which identify the run of a row.

    For graphs without predicates, `attempts` and `predicates` have no rows, and the columns of `runs` about predicates
    are missing values. "Forced" predicates are those that a policy accepted without a certificate. An agent can go back
    to an earlier certified state, which takes back what was certified or forced after it.

    runs: one row per run. `score` is 0 to 1, and `solved` means a score of 1. `ending` is `interrupted` for a run
        without a footer. `certified` counts the predicates that are certified at the end, `forced` the forced ones, and
        `planned` both of them and the open ones. `certificates` counts certified transitions, `cascades` those with
        more than one predicate, `returns` those that went back to an earlier state. `first_exhaustion` is the position
        in the plan when all attempts at a target were used up for the first time, `planned_then` the length of the plan
        at that time. `steps` counts world steps, `seconds` wall-clock time inside nodes, `tokens` input and output
        tokens. `horizon` is the length of the task, and `horizon_name` the label of this length.
    attempts: one row per attempt. `number` counts the attempts at one target from 1, `depth` is the cascade depth in
        the verdict, `step` the number of world steps so far.
    predicates: one row per predicate. `status` is `certified`, `undone` (certified, then invalidated or taken back),
        `forced`, `dropped` (forced, then taken back), `return` (the target was to go back to an earlier state) or
        `open`. `place` is the position relative to the length of the plan, 0 to 1. For certified predicates `depth` is
        the cascade depth of the transition, `leads` marks the first predicate of the transition, `rejected` counts the
        failed attempts at it, and `steps`, `calls` and `tokens` were used since the previous certificate or forced
        predicate, divided evenly in a cascade. `stopped` marks the target at which a run ended without its goal.
    nodes: one row per run and node: the cost of the node, including work that was repeated after a crash. `executions`
        counts how often the node ran.
    """

    runs: pd.DataFrame
    attempts: pd.DataFrame
    predicates: pd.DataFrame
    nodes: pd.DataFrame


def without_faults(frames: Frames) -> Frames:
    """Remove the rows of runs in which the world or its data failed; rates are computed over the remaining rows."""
    faulty = set(frames.runs.loc[frames.runs["ending"].isin(FAULT_ENDINGS), "run"])
    return Frames(*(frame[~frame["run"].isin(faulty)] for frame in frames)) if faulty else frames


def frames_of(recorded: Iterable[RecordedRun]) -> Frames:
    """Build the four data frames from recorded runs. Only one trajectory is in memory at a time."""
    runs: list[FrameRow] = []
    attempts: list[FrameRow] = []
    predicates: list[FrameRow] = []
    nodes: list[FrameRow] = []
    for rows in map(frame_rows_of, recorded):
        runs.append(rows.run)
        attempts += rows.attempts
        predicates += rows.predicates
        nodes += rows.nodes
    return Frames(
        _build_frame(runs, RUN_COLUMNS),
        _build_frame(attempts, ATTEMPT_COLUMNS),
        _build_frame(predicates, PREDICATE_COLUMNS),
        _build_frame(nodes, NODE_COLUMNS),
    )


def _build_frame(rows: list[FrameRow], columns: ColumnTypes) -> pd.DataFrame:
    # All columns in a fixed order, also without any row.
    series: dict[str, Any] = {name: pd.Series([row.get(name) for row in rows], dtype="object") for name in columns}
    blank = {name: False for name, kind in columns.items() if kind == "bool"}
    return (
        pd.DataFrame(series).fillna(blank).astype(dict(columns)) if rows else pd.DataFrame(series).astype(dict(columns))
    )


# Episodes as score curves.

MAX_SCORE = 100.0
"""The score of a solved task."""


class TracedMethod(Record):
    """A method: a graph, the operators swapped into it, and its model."""

    graph: str
    swaps: tuple[str, ...] = ()
    model: str = ""

    def __str__(self) -> str:
        """Format as on the command line: `step planner=none`."""
        return " ".join([self.graph, *self.swaps])


class EpisodeTrace(Record):
    """Score curve of one episode: `scores[i]` is the latest positive score, 0 to 100, after `actions[i]`.

    A fatal action, which ScienceWorld scores with -100, therefore does not change the score (STEP, section 4.1).
    `episode` counts from 1 within a run, and `last` marks the last episode of the run. For ScienceWorld, `task` is the
    name of the task without split and variation, because variations are treated as samples of one task.
    """

    run: str
    method: TracedMethod
    task: str
    task_id: str
    episode: int = Field(ge=1)
    last: bool
    actions: tuple[str, ...]
    scores: tuple[float, ...]

    def at(self, step: int) -> float:
        """Return the score after `step` actions; after the end of the episode, the final score."""
        return self.scores[min(step, len(self.scores)) - 1] if step and self.scores else 0.0

    @property
    def final(self) -> float:
        """The final score of the episode."""
        return self.at(len(self.scores))

    @property
    def solved(self) -> bool:
        """Whether the episode reached the goal."""
        return self.final >= MAX_SCORE


def read_traces(folders: Iterable[Path]) -> tuple[list[EpisodeTrace], list[Path]]:
    """Read the episodes of all finished runs below folders.

    Returns:
        The episodes, and the folders of the runs that were left out because they are unfinished or failed.

    Raises:
        Fault: a folder is missing, or no run below them is finished.
    """
    traces: list[EpisodeTrace] = []
    left_out: list[Path] = []
    folders = list(folders)
    for path in dict.fromkeys(path for folder in folders for path in find_trajectories(folder)):
        trajectory = read_trajectory(path)
        if trajectory.footer is None or trajectory.footer.ending.startswith("error:"):
            left_out.append(path.parent)
        else:
            traces += traces_of(trajectory)
    if not traces:
        named = " ".join(map(str, folders))
        raise Fault("data", f"no episode of a finished run below {named}: give folders that `certigraph run` wrote")
    return traces, left_out


def traces_of(trajectory: Trajectory) -> list[EpisodeTrace]:
    """Read the episodes of one run that have an action. Raises Fault if the trajectory has malformed contents."""
    with translate_trajectory_errors(trajectory.header.run_id):
        return _episode_traces(trajectory)


def _episode_traces(trajectory: Trajectory) -> list[EpisodeTrace]:
    header = trajectory.header
    episodes = [steps for steps in _split_episodes(trajectory.events) if steps]
    return [
        EpisodeTrace(
            run=header.run_id,
            method=method_of_header(header),
            task=_task_name(header.task),
            task_id=header.task.id,
            episode=number,
            last=number == len(episodes),
            actions=tuple(step["history"][-1]["action"]["text"] for step in steps),
            scores=tuple(_running_scores(step["observation"] for step in steps)),
        )
        for number, steps in enumerate(episodes, 1)
    ]


def method_of_header(header: Header) -> TracedMethod:
    """Read the method of a run from its header; `swaps` are the operators that differ from the defaults of the graph.

    Raises:
        Fault: ("data") an operator in the header is malformed.
    """
    defaults = operators_of(graph_module(header.graph).graph) if header.graph in GRAPHS else {}
    with translate_trajectory_errors(header.run_id):
        swapped = {s: Spec.model_validate(spec) for s, spec in header.operators.items() if spec != defaults.get(s)}
    return TracedMethod(
        graph=header.graph, swaps=tuple(f"{s}={spec}" for s, spec in swapped.items()), model=_model_names(header)
    )


def _split_episodes(events: Iterable[Event]) -> Iterator[list[dict[str, Any]]]:
    # The updates of `act` by episode. A replaced log starts an episode, except in a graph inside a node.
    steps: list[dict[str, Any]] = []
    for event in events:
        if "history" in event.replaced and not event.scope:
            yield steps
            steps = []
        elif event.update and count_steps(event) and "observation" in event.update:
            steps.append(event.update)
    yield steps


def _running_scores(observations: Iterable[dict[str, Any]]) -> Iterator[float]:
    # The score that the world reports, else the sum of its rewards in percent.
    latest = earned = 0.0
    for observation in observations:
        earned = min(MAX_SCORE, earned + MAX_SCORE * observation.get("reward", 0.0))
        score = float(observation.get("data", {}).get("score", earned))
        latest = score if score > 0 else latest
        yield latest


def _task_name(task: Task) -> str:
    if task.benchmark.partition(":")[0] == "scienceworld":
        return task.id.rpartition("/")[-1].partition(":")[0]
    return f"{task.benchmark} {task.id}"


def _model_names(header: Header) -> str:
    roles: Any = header.context.get("roles") or {}
    return " ".join([str(header.context.get("model", "")), *(f"{role}={name}" for role, name in roles.items())])


# Search for runs below folders.


class FoundRuns(NamedTuple):
    """Trajectory files with their headers; `unbegun` are files of runs that stopped before the header was written."""

    runs: Sequence[tuple[Path, Header]]
    unbegun: tuple[Path, ...]


def find_runs(folders: Iterable[Path]) -> FoundRuns:
    """Find the runs below folders, at any depth. Only the first line of each trajectory is read.

    Raises:
        Fault: a folder is missing, there is no run, or a trajectory has another schema version.
    """
    folders = list(folders)
    paths = list(dict.fromkeys(path for folder in folders for path in find_trajectories(folder)))
    headers = {path: _read_header(path) for path in paths}
    started = [(path, header) for path, header in headers.items() if header]
    if not started:
        names = " ".join(map(str, folders))
        fix = "create some with `certigraph run` or `certigraph compare`, and give the folder that they wrote"
        raise Fault("data", f"no run below {names}: {fix}")
    return FoundRuns(started, tuple(path for path, header in headers.items() if header is None))


def select_scored(found_runs: FoundRuns) -> FoundRuns:
    """Remove runs that answer a user's own question, which have no score. Raises Fault if no other run is left."""
    runs = [(path, header) for path, header in found_runs.runs if not is_user_question(header)]
    if not runs:
        message = "runs of your own questions have no score, so that there is nothing to analyse"
        raise Fault("data", f"{message}: show one with certigraph report {found_runs.runs[0][0].parent}")
    return found_runs._replace(runs=runs)


def read_recorded_runs(found_runs: FoundRuns) -> Iterator[RecordedRun]:
    """Read the runs one at a time, each with the name of its method.

    The name has the graph and the swapped operators, and also the model and the benchmark if the runs differ in them.

    Raises:
        Fault: a line other than the last of a trajectory cannot be read.
    """
    names = _method_names([header for _, header in found_runs.runs])
    for path, header in found_runs.runs:
        yield RecordedRun(names[_name_parts(header)], header.task.id, _trial_of(header), read_trajectory(path))


def _read_header(path: Path) -> Header | None:
    first = read_header_line(path)
    if not first.endswith(b"\n"):
        return None
    try:
        line = parse_line(first)
    except Fault as error:
        raise Fault(error.boundary, f"{path}: {error}") from None
    except ValueError:
        line = None
    if not isinstance(line, Header):
        raise Fault("data", f"{path}:1: not a header of a trajectory: {first[:80]!r}; restore the file or leave it out")
    return line


def _name_parts(header: Header) -> tuple[str, str, str]:
    method = method_of_header(header)
    return str(method), method.model, header.task.benchmark


def _method_names(headers: Sequence[Header]) -> dict[tuple[str, str, str], str]:
    # The method always; model and benchmark if there are several.
    known = list(dict.fromkeys(map(_name_parts, headers)))
    shown = [index == 0 or len({parts[index] for parts in known}) > 1 for index in range(3)]
    return {parts: ", ".join(part for part, use in zip(parts, shown, strict=True) if use) for parts in known}


def _trial_of(header: Header) -> int:
    trial = header.context.get("trial", 0)
    return trial if isinstance(trial, int) else 0

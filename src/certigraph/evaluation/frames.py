"""Recorded runs as pandas data frames.

This is the one reader of trajectories for analyses: `find_runs` finds the runs below folders, and `read_frames` builds
the data frames from which analyses, comparisons, exports, figures and pages are computed.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import pandas as pd

from certigraph.adapters.own_modules import SpawnedProcesses
from certigraph.adapters.trajectories import parse_line, read_header_line, read_trajectory
from certigraph.evaluation.frame_rows import FrameRow, FrameRows, RecordedRun, frame_rows_of, method_of_header
from certigraph.runtime.files import find_trajectories
from certigraph.runtime.result import is_unscored
from certigraph.state.endings import FAULT_ENDINGS, Fault
from certigraph.state.trajectory import EmptyCalls, Header

# Frames.

__all__ = ["Frames", "RecordedRun", "frames_of", "method_of_header", "read_frames"]

ColumnTypes = Mapping[str, str]
"""Pandas type of each column, by name of the column."""

KEY_COLUMNS: ColumnTypes = {"method": "str", "benchmark": "str", "task": "str", "trial": "Int64", "run": "str"}
"""Columns that identify the run to which a row belongs.

Intervals are clustered by `benchmark` and `task`, because runs of a task are not independent.
"""


class Frames(NamedTuple):
    """Data frames about recorded runs; each begins with KEY_COLUMNS, which identify the run of a row.

    For graphs without predicates, `attempts`, `predicates` and `findings` have no rows, and the columns of `runs` about
    predicates are missing values. "Forced" predicates are those that a policy accepted without a certificate. An agent
    can go back to an earlier certified state, which takes back what was certified or forced after it.

    runs: one row per run. `swaps` are the operators that differ from the defaults of the graph, as in
        `validate=always_pass, replan=give_up`, and `roles` the models of roles other than `model`. `score` is 0 to 1,
        and `solved` means a score of 1. `ending` is `interrupted` for a run without a footer. `certified` counts the
        predicates that are certified at the end, `forced` the forced ones, and `planned` both of them and the open
        ones. `certificates` counts certified transitions, `cascades` those with more than one predicate, `returns`
        those that went back to an earlier state. `first_exhaustion` is the position in the plan when all attempts at a
        target were used up for the first time, `planned_then` the length of the plan at that time. `steps` counts world
        steps, `seconds` wall-clock time inside nodes, `tokens` input and output tokens, `empty_calls` model calls that
        brought no information, and `empty_verdicts`, `empty_chains` and so on those of them by reason
        (`state.trajectory.EmptyCalls`). `loss` is what the world reports of a run that it ended without the goal.
        `horizon` is the length of the task, and `horizon_name`
        the label of this length. `scored` tells whether the world gave a score; without one `score` is 0. `shown` are
        the parts that a benchmark shows in place of the score, by label, as JSON; empty where there are none.
    steps: one row per execution of the node that acts. `episode` and `step` count from 1, and episodes without a step
        do not count. `actions` is the number of actions that the node executed at once, `action` the text of the last
        one. `score` is the latest positive score, 0 to 100: a fatal action, which ScienceWorld scores with -100, does
        not change it (STEP, section 4.1). `scope` and `subtask` name the graph inside a node that acted.
    attempts: one row per attempt. `number` counts the attempts at one target from 1, `depth` is the cascade depth in
        the verdict, `step` the number of world steps so far. `judged`: it counts against the budget of attempts, since
        somebody judged it and it did not only look.
    predicates: one row per predicate. `status` is `certified`, `undone` (certified, then invalidated or taken back),
        `forced`, `dropped` (forced, then taken back), `return` (the target was to go back to an earlier state) or
        `open`. `place` is the position relative to the length of the plan, 0 to 1. For certified predicates `depth` is
        the cascade depth of the transition, and `leads` marks the first predicate of the transition. `rejected` counts
        the judged attempts at it that failed, `tried` all attempts since the latest certificate or replan. `steps`,
        `calls` and `tokens` were used since the previous certificate or forced predicate, divided evenly over the
        predicates that were certified or forced at once. `stopped` marks the target at which a run ended without its
        goal.
    nodes: one row per run and node: the cost of the node, including work that was repeated after a crash. `executions`
        counts how often the node ran.
    executions: one row per execution of a node, in order, without work that was repeated after a crash. `round` is the
        number of decisions (`decide`) so far. `score` is the latest score of the episode, 0 to 100, that is not
        negative; if the world reports none, the sum of rewards in percent. Graphs inside a node do not change it.
    calls: one row per model call. `steps` is the number of world steps before it. `superseded` marks calls of work that
        was repeated after a crash.
    findings: one row per finding in the verdict of an attempt: its text, and the numbers of its sources, of the sources
        against it, and of its items.
    rounds: one row per round of a graph with a node `decide`, from one decision to the next. `agent` and `memory_node`
        are the prompt tokens of the nodes that decide and that update the memory, `tokens` all tokens but those of the
        gate, `gate_tokens`. `query`, `jaccard`, `upr` and `change` are what gates look at (`state.run.SearchRound`),
        missing in a round without a search. `streak` and `stop` are the reading of the gate: stagnant rounds in a row,
        and whether it stops the search or, as a shadow, would have stopped it in this round or before.
    """

    runs: pd.DataFrame
    steps: pd.DataFrame
    attempts: pd.DataFrame
    predicates: pd.DataFrame
    nodes: pd.DataFrame
    executions: pd.DataFrame
    calls: pd.DataFrame
    findings: pd.DataFrame
    rounds: pd.DataFrame


_OWN_COLUMNS: Mapping[str, ColumnTypes] = {
    "runs": {
        **dict.fromkeys(("graph", "swaps", "model", "roles", "ending", "shown"), "str"),
        "score": "float64",
        **dict.fromkeys(("solved", "scored"), "bool"),
        **dict.fromkeys(("certified", "forced", "planned", "replans", "steps", "attempts"), "Int64"),
        **dict.fromkeys(("certificates", "cascades", "returns", "first_exhaustion", "planned_then"), "Int64"),
        "evidence_found": "float64",
        "horizon": "float64",
        "horizon_name": "str",
        **dict.fromkeys(("calls", "tokens", "input_tokens", "output_tokens", "cached_tokens"), "Int64"),
        **dict.fromkeys(("usd", "seconds"), "float64"),
        "empty_calls": "Int64",
        **dict.fromkeys((f"empty_{reason}" for reason in EmptyCalls._fields), "Int64"),
        "loss": "str",
    },
    "steps": {
        **dict.fromkeys(("episode", "step"), "Int64"),
        **dict.fromkeys(("scope", "subtask"), "str"),
        "actions": "Int64",
        "action": "str",
        "accepted": "bool",
        **dict.fromkeys(("reward", "score"), "float64"),
    },
    "attempts": {
        "position": "Int64",
        "kind": "str",
        **dict.fromkeys(("number", "depth"), "Int64"),
        **dict.fromkeys(("certified", "judged"), "bool"),
        "step": "Int64",
    },
    "predicates": {
        "position": "Int64",
        "place": "float64",
        **dict.fromkeys(("kind", "text", "status"), "str"),
        "leads": "bool",
        **dict.fromkeys(("depth", "rejected", "tried"), "Int64"),
        "stopped": "bool",
        **dict.fromkeys(("steps", "calls", "tokens"), "float64"),
    },
    "nodes": {
        "node": "str",
        **dict.fromkeys(("executions", "calls", "input_tokens", "output_tokens", "cached_tokens"), "Int64"),
        **dict.fromkeys(("usd", "seconds"), "float64"),
    },
    "executions": {
        **dict.fromkeys(("node", "scope"), "str"),
        **dict.fromkeys(("round", "calls", "input_tokens", "output_tokens", "cached_tokens"), "Int64"),
        "score": "float64",
    },
    "calls": {
        **dict.fromkeys(("node", "scope", "subtask", "role"), "str"),
        **dict.fromkeys(("steps", "input_tokens", "output_tokens", "cached_tokens"), "Int64"),
        **dict.fromkeys(("failed", "superseded"), "bool"),
    },
    "findings": {
        **dict.fromkeys(("position", "number"), "Int64"),
        "certified": "bool",
        **dict.fromkeys(("about", "text", "dispute"), "str"),
        **dict.fromkeys(("sources", "against", "items"), "Int64"),
    },
    "rounds": {
        "round": "Int64",
        "query": "str",
        **dict.fromkeys(("agent", "memory_node", "tokens", "gate_tokens"), "Int64"),
        **dict.fromkeys(("jaccard", "upr", "change"), "float64"),
        "streak": "Int64",
        "stop": "boolean",
    },
}

FRAME_COLUMNS: Mapping[str, ColumnTypes] = {name: {**KEY_COLUMNS, **own} for name, own in _OWN_COLUMNS.items()}
"""Columns of each frame, by name of the frame."""


def without_faults(frames: Frames) -> Frames:
    """Remove the rows of runs in which the world or its data failed; rates are computed over the remaining rows."""
    faulty = frames.runs["ending"].isin(FAULT_ENDINGS)
    return select_runs(frames, ~faulty) if faulty.any() else frames


def select_runs(frames: Frames, kept: "pd.Series[bool]") -> Frames:
    """Return the rows of the runs for which `kept`, which has a value for each row of `frames.runs`, is True."""
    runs = set(frames.runs.loc[kept, "run"])
    return Frames(*(frame[frame["run"].isin(runs)] for frame in frames))


def build_frame(rows: Sequence[FrameRow], columns: ColumnTypes) -> pd.DataFrame:
    """Build a data frame with typed columns in a fixed order, also without any row; a missing `bool` is False."""
    series: dict[str, Any] = {name: pd.Series([row.get(name) for row in rows], dtype="object") for name in columns}
    blank = {name: False for name, kind in columns.items() if kind == "bool"}
    return (
        pd.DataFrame(series).fillna(blank).astype(dict(columns)) if rows else pd.DataFrame(series).astype(dict(columns))
    )


# Reading runs to frames: rows of a batch of runs become frames before the next batch is read, because rows take many
# times the memory of frames.

BATCH_RUNS = 100
"""Number of runs whose rows are in memory together."""

MIN_PARALLEL_RUNS = 500
"""Number of runs from which several processes are used. A process takes a second or two to start."""


def frames_of(recorded: Iterable[RecordedRun]) -> Frames:
    """Build the data frames from recorded runs, one trajectory at a time."""
    rows = map(frame_rows_of, recorded)
    batches = iter(lambda: list(islice(rows, BATCH_RUNS)), [])
    return _join_frames([_frames_of_rows(batch) for batch in batches])


def read_frames(found_runs: "FoundRuns", *, workers: int = 1) -> Frames:
    """Read runs to data frames, those of one folder in the order of their methods' names.

    Args:
        found_runs: the runs.
        workers: number of processes, which are used from MIN_PARALLEL_RUNS runs on. Each one imports the main module
            (`spawn`), so a script that asks for several needs the guard `if __name__ == "__main__":`.

    Raises:
        Fault: a line other than the last of a trajectory cannot be read.
    """
    runs = _named_runs(found_runs)
    batches = [runs[start : start + BATCH_RUNS] for start in range(0, len(runs), BATCH_RUNS)]
    if workers == 1 or len(runs) < MIN_PARALLEL_RUNS:
        return _join_frames([_read_batch(batch) for batch in batches])
    with SpawnedProcesses(workers) as pool:
        return _join_frames(list(pool.map(_read_batch, batches)))


def _read_batch(batch: Sequence["_NamedRun"]) -> Frames:
    return _frames_of_rows([frame_rows_of(run.read()) for run in batch])


def _frames_of_rows(runs: Sequence[FrameRows]) -> Frames:
    return Frames(
        *(build_frame([row for rows in runs for row in rows[name]], kinds) for name, kinds in FRAME_COLUMNS.items())
    )


def _join_frames(parts: Sequence[Frames]) -> Frames:
    columns = zip(*(parts or [_frames_of_rows([])]), strict=True)
    return Frames(*(pd.concat(frames, ignore_index=True) for frames in columns))


# Search for runs below folders.


class FoundRuns(NamedTuple):
    """Trajectory files with their headers; `unbegun` are files of runs that stopped before the header was written."""

    runs: Sequence[tuple[Path, Header]]
    unbegun: tuple[Path, ...]
    names: Mapping[Path, str] = MappingProxyType({})
    """Names of methods that a comparison gave, by the parent of the folder of a run; other names are from headers."""


def find_runs(folders: Iterable[Path]) -> FoundRuns:
    """Find the runs below folders, at any depth. Only the first line of each trajectory is read.

    Raises:
        Fault: a folder is missing, there is no run, or a trajectory has another schema version.
    """
    folders = list(folders)
    paths = {path.resolve(): path for folder in folders for path in find_trajectories(folder)}
    headers = {path: _read_header(path) for path in paths.values()}
    started = [(path, header) for path, header in headers.items() if header]
    if not started:
        names = " ".join(map(str, folders))
        fix = "create some with `certigraph run` or `certigraph compare`, and give the folder that they wrote"
        raise Fault("data", f"no run below {names}: {fix}")
    return FoundRuns(started, tuple(path for path, header in headers.items() if header is None))


def select_scored(found_runs: FoundRuns) -> FoundRuns:
    """Remove runs of a user's own questions and requests, which have no score. Raises Fault if no other run is left."""
    runs = [(path, header) for path, header in found_runs.runs if not is_unscored(header)]
    if not runs:
        message = "runs of your own questions and requests have no score, so that there is nothing to analyse"
        raise Fault("data", f"{message}: show one with certigraph report {found_runs.runs[0][0].parent}")
    return found_runs._replace(runs=runs)


class _NamedRun(NamedTuple):
    """A trajectory file with the name of the method of its run, and its header."""

    path: Path
    method: str
    header: Header

    def read(self) -> RecordedRun:
        return RecordedRun(self.method, self.header.task.id, self.header.trial, read_trajectory(self.path))


def read_recorded_runs(found_runs: FoundRuns) -> Iterator[RecordedRun]:
    """Read the runs one at a time, each with the name of its method; those of one folder in the order of these names.

    The name is that in `found_runs.names`; else it has the graph and the swapped operators, and also the model and the
    benchmark if the runs differ in them.

    Raises:
        Fault: a line other than the last of a trajectory cannot be read.
    """
    return (run.read() for run in _named_runs(found_runs))


def _named_runs(found_runs: FoundRuns) -> list[_NamedRun]:
    methods = [(header, method_of_header(header)) for _, header in found_runs.runs]
    about = [(method.name, method.models, header.task.benchmark) for header, method in methods]
    shown = [index == 0 or len({parts[index] for parts in about}) > 1 for index in range(3)]
    runs = []
    for (path, header), parts in zip(found_runs.runs, about, strict=True):
        name = ", ".join(part for part, use in zip(parts, shown, strict=True) if use)
        runs.append(_NamedRun(path, found_runs.names.get(path.parent.parent, name), header))
    # by method inside each folder: names of runs begin with the second of their start, which must not order the methods
    folders = {folder: place for place, folder in enumerate(dict.fromkeys(run.path.parent.parent for run in runs))}
    return sorted(runs, key=lambda run: (folders[run.path.parent.parent], run.method))


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

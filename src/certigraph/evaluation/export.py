"""Export of runs to other formats.

The formats are a Parquet table of transitions, submissions to a leaderboard, ATIF documents (agent trajectories in
JSON) and Inspect logs. `export` writes the runs below some folders in one of them.
"""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from importlib.util import find_spec
from itertools import count, islice
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pydantic import JsonValue

from certigraph.adapters.benchmarks import find_benchmark, load_benchmark, shipped_benchmarks
from certigraph.adapters.files import read_rows, replace_file
from certigraph.adapters.protocols import LeaderboardBenchmark
from certigraph.adapters.trajectories import read_trajectory
from certigraph.evaluation.frames import find_runs
from certigraph.evaluation.rounds import RunRound, clean_trajectory, method_name, split_by_graph, split_rounds
from certigraph.runtime.files import slug_of, translate_trajectory_errors
from certigraph.runtime.registry import model_name
from certigraph.state.certified_states import certified_states
from certigraph.state.endings import GOAL, Fault, UnknownName
from certigraph.state.records import Action, Observation
from certigraph.state.trajectory import Trajectory

# A run's transitions as rows: state, action, observation, and the predicates certified (SDP section 3.2).


@dataclass
class TransitionEpisode:
    """The transitions between two resets of the world, in order: rounds with an action and an observation."""

    subtask: str = ""
    number: int | None = None
    """Number of the episode, if it is that of a subtask; else None, and the number is taken from the rounds."""
    moves: list[tuple[RunRound, Action, str, Observation]] = field(default_factory=list)
    """Each round with its action, the observation before the action, and the observation after it."""
    last_observation: str = ""

    def add_round(self, part: RunRound) -> None:
        """Add a round of the run; it becomes a transition if it has an action and an observation."""
        if part.action and part.observation:
            self.moves.append((part, part.action, self.last_observation, part.observation))
        self.last_observation = part.observation.text if part.observation else self.last_observation


def rows_of(trajectory: Trajectory) -> Iterator[dict[str, Any]]:
    """Convert a run to rows with the columns of SCHEMA, one for each executed action, in order.

    Raises:
        Fault: the trajectory cannot be interpreted.
    """
    with translate_trajectory_errors(trajectory.header.run_id):
        yield from _rows_of_run(clean_trajectory(trajectory))


def _rows_of_run(run: Trajectory) -> Iterator[dict[str, Any]]:
    header, ending = run.header, run.ending
    about = {
        "run_id": header.run_id,
        "benchmark": header.task.benchmark,
        "sample_id": header.task.id,
        "method": method_name(header),
        "graph": header.graph,
        "model": model_name(str(header.context.get("model", ""))),
        "trial": header.trial,
        "ending": ending,
    }
    parts, episodes = split_by_graph(run.events), [TransitionEpisode()]
    for part in split_rounds(parts.own):
        if part.resets:
            episodes.append(TransitionEpisode())
        episodes[-1].add_round(part)
    for number, inner in enumerate(parts.inner, 1):
        episodes.append(TransitionEpisode(inner.subtask, number))
        for part in split_rounds(inner.events):
            episodes[-1].add_round(part)
    episodes = [episode for episode in episodes if episode.moves]
    for episode in episodes:
        reached = ending == GOAL and episode is episodes[-1]
        for row in _rows_of_episode(episode, reached=reached):
            yield {**about, **row}


def _rows_of_episode(episode: TransitionEpisode, *, reached: bool) -> Iterator[dict[str, Any]]:
    certificates = [part.certificate for part, *_ in episode.moves if part.certificate]
    states, at = [[predicate.text for predicate in state.predicates] for state in certified_states(certificates)], 0
    for t, (part, action, before, answer) in enumerate(episode.moves):
        state, at = states[at], at + (part.certificate is not None)
        last = t == len(episode.moves) - 1
        done = last and (answer.done or reached)
        usage = part.usage.model_dump(exclude={"node"})
        yield {
            "episode": episode.number or part.episode,
            "subtask": episode.subtask or None,
            "t": t,
            "node": part.node,
            "state": state,
            "obs": before,
            "target": part.target or None,
            "thought": part.thought or None,
            "action": action.text,
            "next_obs": answer.text,
            "accepted": answer.accepted,
            "reward": answer.reward,
            "next_state": states[at],
            "done": done,
            "truncated": last and not done,
            **_verdict_columns(part),
            **{name: usage[name] for name in COST_COLUMNS},
        }


def _verdict_columns(part: RunRound) -> dict[str, Any]:
    attempt, certificate = part.attempt, part.certificate
    forced = certificate.forced if certificate else ""
    earned = None if forced else certificate
    refused = bool(forced) or (attempt is not None and attempt.verdict.depth == 0)
    finding = attempt.verdict.finding if attempt else None
    return {
        "certified": earned is not None,
        "forced": forced or None,
        "r_cert": earned.depth if earned else 0 if refused else None,
        "predicates": [predicate.text for predicate in earned.targets] if earned else [],
        "restores": certificate.restores if certificate else None,
        "reason": attempt.verdict.reason if attempt else None,
        "finding": finding.whole if finding else None,
        "sources": list(finding.sources) if finding else [],
        "against": list(finding.against) if finding else [],
    }


# Transitions as a Parquet table for offline RL: `table[table.certified]` holds the certified (s, a, k, s').

ROW_GROUP_SIZE = 5_000
"""Number of rows in a row group of the Parquet file. Only one group is in memory at a time."""

TEXT, TEXTS, COUNT, FLAG = pa.string(), pa.list_(pa.string()), pa.int64(), pa.bool_()

COST_COLUMNS = {
    **dict.fromkeys(("calls", "input_tokens", "output_tokens", "cached_tokens"), COUNT),
    **dict.fromkeys(("usd", "seconds"), pa.float64()),
}

SCHEMA = pa.schema(
    {
        **dict.fromkeys(("run_id", "benchmark", "sample_id", "method", "graph", "model"), TEXT),
        **dict.fromkeys(("trial", "episode"), COUNT),
        "subtask": TEXT,
        "t": COUNT,
        "node": TEXT,
        "state": TEXTS,
        **dict.fromkeys(("obs", "target", "thought", "action"), TEXT),
        "logprob": pa.float64(),
        "next_obs": TEXT,
        "accepted": FLAG,
        "reward": pa.float64(),
        "certified": FLAG,
        "forced": TEXT,
        "r_cert": COUNT,
        "predicates": TEXTS,
        "restores": COUNT,
        **dict.fromkeys(("reason", "finding"), TEXT),
        **dict.fromkeys(("sources", "against", "next_state"), TEXTS),
        **dict.fromkeys(("done", "truncated"), FLAG),
        "ending": TEXT,
        **COST_COLUMNS,
    }
)
"""Columns of the Parquet table.

method: the graph with its swapped operators, as in `sdp validate=always_pass`; graph: without them. model: the model of
    the run; models of single roles are only in the other formats.
state, next_state: the predicates certified before and after the action, in order. When the agent goes back to an
    earlier certified state, whose index is `restores`, the predicates certified after that state are removed.
episode: from 1. A subtask that was solved by a graph inside a node, as in TDP, is an episode; `subtask` is its id.
t: number of the action in its episode, from 0. trial: number of the run among the repetitions of its task.
r_cert: reward for certified progress: the cascade depth k, which is the number of predicates that the action fulfilled.
    0 if Validate rejected the attempt; null if nothing was validated. predicates: these k predicates.
forced: name of the policy that accepted the target without a certificate: r_cert is 0 and the state does not change.
finding, sources, against: the finding in the verdict, the URLs that support it, and those that contradict it.
reward: the reward of the world.
done, truncated: in the last row of an episode exactly one of them is true; in other rows both are false. done: the
    world was done or the goal was certified; truncated: the episode stopped without either. A run may continue in a
    world that is done.
logprob: log probability of the behaviour policy; not recorded, so null.
calls, input_tokens, output_tokens, cached_tokens, usd, seconds: cost of choosing, executing and judging the action,
    without planning.
"""


def to_parquet(trajectories: Iterable[Trajectory], path: Path) -> Path:
    """Write a Parquet table with a row for every executed action; see SCHEMA for the columns.

    Args:
        trajectories: the runs, which are read one after the other, so that they need not fit in memory together.
        path: the file, which is replaced.
    """
    rows = (row for trajectory in trajectories for row in rows_of(trajectory))
    with pq.ParquetWriter(path, SCHEMA, compression="zstd") as writer:
        while group := list(islice(rows, ROW_GROUP_SIZE)):
            writer.write_table(pa.Table.from_pylist(group, schema=SCHEMA))
    return path


# Files for the leaderboard of a benchmark.

WriteFile = Callable[[Path], object]

PrepareFiles = Callable[[Iterable[Trajectory]], Iterator[tuple[str, WriteFile]]]
"""Function that takes runs and yields, for each file, its name and the function that writes it."""


def submission_files(runs: Iterable[Trajectory], benchmark: str, data: str | None) -> Iterator[tuple[str, WriteFile]]:
    """Yield, for each split of a benchmark that has runs, a file name and the function that writes its submission.

    Raises:
        Fault: no run of the benchmark has ended, or no run has a task of the data folder.
    """
    answers = latest_answers(runs, benchmark)
    if not answers:
        fix = f"start one with certigraph run sdp {benchmark}, or resume one"
        raise Fault("data", f"no run of {benchmark} among these has ended: {fix}")
    live: Any = load_benchmark(benchmark, data)
    splits = {split: ids for split in live.splits if not answers.keys().isdisjoint(ids := _ids_of_split(live, split))}
    if not splits:
        message = f"no split has the task {next(iter(answers))!r}, nor any other task of the runs"
        raise Fault("data", f"{message}: name the folder of their questions with --data DIR")
    for split, ids in splits.items():
        yield f"{benchmark}_{split}.jsonl", partial(live.write_submission, ids=ids, answers=answers)


def latest_answers(runs: Iterable[Trajectory], benchmark: str) -> dict[str, JsonValue]:
    """Return the answer of the latest run of each task of a benchmark, by id of the task.

    Left out are runs that did not end, runs that ended in an error, and runs in a configuration of the benchmark, which
    a leaderboard does not know.
    """
    runs_of_benchmark = (run for run in runs if run.header.task.benchmark == benchmark)
    ended = [run for run in runs_of_benchmark if run.footer and not run.ending.startswith("error:")]
    ended.sort(key=lambda run: run.header.created)
    scores = {run.header.task.id: run.footer.scores for run in ended if run.footer}
    return {task: score.answer if score else None for task, score in scores.items()}


def _ids_of_split(live: LeaderboardBenchmark, split: str) -> Sequence[str]:
    """Return the ids of a split's tasks; none if its file is missing, because a data folder may hold only one split."""
    try:
        return live.ids(split)
    except Fault as fault:
        if not isinstance(fault.__cause__, FileNotFoundError):
            raise
        return ()


# Output of the command `export`.

MAX_LISTED_FILES = 10
"""Maximum number of files that are listed by name."""


def format_exported_files(files: Sequence[Path]) -> str:
    """List the files, one per line; if they are more than MAX_LISTED_FILES, give only their number and folder."""
    if len(files) > MAX_LISTED_FILES:
        return f"{len(files):,} files in {files[0].parent}"
    return "\n".join(map(str, files))


def format_submission(path: Path) -> str:
    """Format the number of tasks in a submission, and how many of them have no answer."""
    answers = [row.value["answer"] for row in read_rows(path)]
    return f"{path.name}: {len(answers)} tasks, {answers.count('')} of them without an answer"


# Export of the runs below some folders; a file is written completely or not at all.

FORMATS = ("atif", "inspect", "parquet")

FORMAT_PACKAGES = {"inspect": "inspect_ai", "parquet": "pyarrow"}
"""Package that each format needs; formats that need none are not in the table."""


def export(folders: Sequence[Path], to: str, out: Path, *, data: str | None = None) -> list[Path]:
    """Write all runs below the folders, finished or not, in another format, and return the paths of the files.

    A run whose process died before it wrote the header of its trajectory is left out.

    Args:
        folders: folders to search for runs at any depth.
        to: `atif`, one JSON document per run; `inspect`, an .eval log of Inspect for each combination of benchmark,
            graph, operators and model; `parquet`, one table of transitions; the name of a benchmark that has a
            leaderboard, the file that it takes, for each split that has runs.
        out: folder of the files, created where it is missing; files of the same names in it are replaced.
        data: for a leaderboard the data folder of the benchmark; None: CERTIGRAPH_DATA.

    Raises:
        UnknownName: there is no such format.
        Fault: there is no suitable run, a run cannot be read, or a package is missing.
    """
    if to not in FORMATS and not isinstance(find_benchmark(to), LeaderboardBenchmark):
        boards = [name for name in shipped_benchmarks() if isinstance(find_benchmark(name), LeaderboardBenchmark)]
        raise UnknownName(f"there is no format {to!r}; known: {', '.join([*FORMATS, *boards])}")
    if find_spec(package := FORMAT_PACKAGES.get(to, "certigraph")) is None:
        raise Fault("data", f"the format {to} needs {package}, which is missing: pip install 'certigraph[eval]'")
    makers: dict[str, PrepareFiles] = {
        "atif": _atif_files,
        "inspect": _inspect_files,
        "parquet": lambda runs: iter([("transitions.parquet", partial(to_parquet, runs))]),
    }
    runs = _read_runs([path for path, _ in find_runs(folders).runs])
    prepare = makers.get(to, partial(submission_files, benchmark=to, data=data))
    written: dict[Path, None] = {}
    for name, write in prepare(runs):
        path = _new_path(out, name, written)
        with replace_file(path) as draft:
            write(draft)
        written[path] = None
    return list(written)


def _new_path(out: Path, name: str, given: Collection[Path]) -> Path:
    # Unique and inside the folder, whatever the id of a run is.
    stem, _, suffix = name.rpartition(".")
    short = slug_of(stem, 70, kept="-_") or "run"
    paths = (out / f"{short}{'' if n == 1 else f'-{n}'}.{suffix}" for n in count(1))
    return next(path for path in paths if path not in given)


def _read_runs(files: Iterable[Path]) -> Iterator[Trajectory]:
    for file in files:
        try:
            yield read_trajectory(file)
        except Fault as fault:
            raise Fault("data", f"{file.parent} cannot be exported: {fault}") from fault


def _atif_files(runs: Iterable[Trajectory]) -> Iterator[tuple[str, WriteFile]]:
    from certigraph.evaluation.atif import write_atif

    for run in runs:
        yield f"{run.header.run_id}.json", partial(write_atif, run)


def _inspect_files(runs: Iterable[Trajectory]) -> Iterator[tuple[str, WriteFile]]:
    from inspect_ai.log import write_eval_log

    from certigraph.evaluation.inspect_log import log_key_of, to_inspect

    groups = defaultdict(list)
    for run in runs:
        groups[log_key_of(run.header)].append(run)
    for (benchmark, *_), group in groups.items():
        log = to_inspect(group)
        method = str(log.eval.solver)[:60]  # the id that follows distinguishes long ones
        name = f"{log.eval.created[:19]}_{benchmark}-{method}_{log.eval.eval_id}.eval"
        yield name, partial(write_eval_log, log, format="eval")

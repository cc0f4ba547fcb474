"""Export of runs: submissions, transitions and Parquet."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from importlib.util import find_spec
from itertools import count, islice
from pathlib import Path
from typing import Any, Literal, get_args

import pyarrow as pa
import pyarrow.parquet as pq
from pydantic import JsonValue

from certigraph.adapters.assistantbench.benchmark import write_submission
from certigraph.adapters.benchmarks import load_benchmark
from certigraph.adapters.files import read_rows
from certigraph.evaluation.rounds import Round, cleaned, method_name, parts_of, rounds
from certigraph.runtime.files import has_header, legible, slug, trajectory_files
from certigraph.runtime.registry import model_name
from certigraph.state.records import GOAL, Action, Certificate, Fault, Observation, UnknownName
from certigraph.state.run import CertifiedState, certified_states
from certigraph.state.trajectory import Event, Trajectory, read_trajectory

# A run's transitions as rows: state, action, the world's answer, and what was certified of it (SDP section 3.2).


@dataclass(frozen=True)
class Move:
    """An action that the world answered, and the observation before it."""

    part: Round
    action: Action
    before: str
    answer: Observation


@dataclass
class Episode:
    """The moves between two resets, and the certified states they lead through."""

    subtask: str = ""
    number: int | None = None
    """Of a sub-task, which is an episode of its own; else its rounds know it."""
    moves: list[Move] = field(default_factory=list)
    seen: str = ""

    def take(self, part: Round) -> None:
        """Add a round; those in which the world did not answer are no transition."""
        if part.action and part.observation:
            self.moves.append(Move(part, part.action, self.seen, part.observation))
        self.seen = part.observation.text if part.observation else self.seen

    def certificates(self) -> list[Certificate]:
        """The certificates in order."""
        return [move.part.certificate for move in self.moves if move.part.certificate]


def rows_of(trajectory: Trajectory) -> Iterator[dict[str, Any]]:
    """The rows of a run, in the order of its actions (columns: parquet.SCHEMA). Raises Fault where they make none."""
    with legible(trajectory.header.run_id):
        yield from _run(cleaned(trajectory))


def _run(run: Trajectory) -> Iterator[dict[str, Any]]:
    header, ending = run.header, run.ending
    about = {
        "run_id": header.run_id,
        "benchmark": header.task.benchmark,
        "sample_id": header.task.id,
        "method": method_name(header),
        "graph": header.graph,
        "model": model_name(str(header.context.get("model", ""))),
        "trial": header.context.get("trial", 0),
        "ending": ending,
    }
    episodes = _episodes(run)
    for episode in episodes:
        reached = ending == GOAL and episode is episodes[-1]
        for row in _rows(episode, reached=reached):
            yield {**about, **row}


def _episodes(run: Trajectory) -> list[Episode]:
    parts = parts_of(run.events)
    episodes = list(_own_episodes(parts.own))
    for number, part in enumerate(parts.inner, 1):
        episodes.append(Episode(part.subtask, number))
        for found in rounds(part.events):
            episodes[-1].take(found)
    return [episode for episode in episodes if episode.moves]


def _own_episodes(events: Iterable[Event]) -> Iterator[Episode]:
    episode = Episode()
    for part in rounds(events):
        if part.resets:
            yield episode
            episode = Episode()
        episode.take(part)
    yield episode


def _rows(episode: Episode, *, reached: bool) -> Iterator[dict[str, Any]]:
    states, at = certified_states(episode.certificates()), 0
    for t, move in enumerate(episode.moves):
        last = t == len(episode.moves) - 1
        before, at = states[at], at + (move.part.certificate is not None)
        done = last and (move.answer.done or reached)
        after = {"next_state": _texts(states[at]), "done": done, "truncated": last and not done}
        number = episode.number or move.part.episode
        where = {"episode": number, "subtask": episode.subtask or None, "t": t, "state": _texts(before)}
        yield {**where, **_action(move), **_judged(move.part), **after, **_cost(move.part)}


def _action(move: Move) -> dict[str, Any]:
    return {
        "node": move.part.node,
        "obs": move.before,
        "target": move.part.target or None,
        "thought": move.part.thought or None,
        "action": move.action.text,
        "next_obs": move.answer.text,
        "accepted": move.answer.accepted,
        "reward": move.answer.reward,
        "logprob": None,
    }


def _judged(part: Round) -> dict[str, Any]:
    attempt, certificate = part.attempt, part.certificate
    forced = certificate.forced if certificate else ""
    earned = None if forced else certificate
    refused = bool(forced) or (attempt is not None and attempt.verdict.depth == 0)
    found = attempt.verdict.finding if attempt else None
    return {
        "certified": earned is not None,
        "forced": forced or None,
        "r_cert": earned.depth if earned else 0 if refused else None,
        "predicates": [predicate.text for predicate in earned.targets] if earned else [],
        "restores": certificate.restores if certificate else None,
        "reason": attempt.verdict.reason if attempt else None,
        "finding": found.text if found else None,
        "sources": list(found.sources) if found else [],
        "against": list(found.against) if found else [],
    }


def _cost(part: Round) -> dict[str, Any]:
    usage = part.usage.model_dump(exclude={"node"})
    return {name: usage[name] for name in ("calls", "input_tokens", "output_tokens", "cached_tokens", "usd", "seconds")}


def _texts(state: CertifiedState) -> Sequence[str]:
    return [predicate.text for predicate in state.predicates]


# Transitions as a Parquet table for offline RL: `table[table.certified]` holds the certified (s, a, k, s').

AT_ONCE = 5_000
"""Rows of a row group: what is in memory at a time, whatever the number of runs."""

TEXT, TEXTS, COUNT, FLAG = pa.string(), pa.list_(pa.string()), pa.int64(), pa.bool_()

SCHEMA = pa.schema(
    {
        "run_id": TEXT,
        "benchmark": TEXT,
        "sample_id": TEXT,
        "method": TEXT,
        "graph": TEXT,
        "model": TEXT,
        "trial": COUNT,
        "episode": COUNT,
        "subtask": TEXT,
        "t": COUNT,
        "node": TEXT,
        "state": TEXTS,
        "obs": TEXT,
        "target": TEXT,
        "thought": TEXT,
        "action": TEXT,
        "logprob": pa.float64(),
        "next_obs": TEXT,
        "accepted": FLAG,
        "reward": pa.float64(),
        "certified": FLAG,
        "forced": TEXT,
        "r_cert": COUNT,
        "predicates": TEXTS,
        "restores": COUNT,
        "reason": TEXT,
        "finding": TEXT,
        "sources": TEXTS,
        "against": TEXTS,
        "next_state": TEXTS,
        "done": FLAG,
        "truncated": FLAG,
        "ending": TEXT,
        "calls": COUNT,
        "input_tokens": COUNT,
        "output_tokens": COUNT,
        "cached_tokens": COUNT,
        "usd": pa.float64(),
        "seconds": pa.float64(),
    }
)
"""The columns.

method: the graph with what is swapped in it, as in `sdp validate=always_pass`; graph: without. model: the one of the
    run; roles that another one had are in the other formats.
state, next_state: the predicates certified before and after, in order; a return to an earlier state (`restores`, its
    index) takes the later ones away again.
episode: from 1; a sub-task that a graph of its own worked on is one, and `subtask` its id in the task graph.
t: the action's number in its episode, from 0. trial: the run's number among repetitions of its task.
r_cert: the reward for certified progress, the cascade depth k: how many predicates the action discharged; 0 where
    Validate refused; null where nothing was validated. predicates: the k of them.
forced: the policy that let the target pass, which certifies nothing: r_cert is 0 and the state stays as it was.
finding, sources, against: what the action was judged to have found, the URLs that bear it out, and those that do not.
reward: the world's own.
done, truncated: of an episode's last row one of the two is true, of the others none. done: the world was done after it
    or the goal was certified; truncated: the episode stopped without either. A run may go on in a world that was done.
logprob: of the behaviour policy; not recorded, so null.
calls, tokens, usd, seconds: what choosing, taking and judging this action cost, planning not included.
"""


def to_parquet(trajectories: Iterable[Trajectory], path: Path) -> Path:
    """Write a row for every action that the world answered; runs without one have no row.

    Args:
        trajectories: read one after the other, so that they need not fit in memory together.
        path: the file, which is replaced.
    """
    rows = (row for trajectory in trajectories for row in rows_of(trajectory))
    with pq.ParquetWriter(path, SCHEMA, compression="zstd") as writer:
        while group := list(_next(rows)):
            writer.write_table(pa.Table.from_pylist(group, schema=SCHEMA))
    return path


def _next(rows: Iterator[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    return islice(rows, AT_ONCE)


# Runs as submissions to AssistantBench's leaderboard.

NAME = "assistantbench"


def submissions(runs: Iterable[Trajectory], data: str | None) -> Iterator[tuple[str, partial[None]]]:
    """A file's name and how to write it, for each split that runs are of.

    Raises:
        Fault: no run of AssistantBench has ended, or none is of a task that the data folder knows.
    """
    answers = latest_answers(runs)
    if not answers:
        raise Fault("data", f"no run of {NAME} among these has ended: certigraph run sdp {NAME}, or resume one")
    live: Any = load_benchmark(NAME, data)
    splits = {split: ids for split in live.splits if not answers.keys().isdisjoint(ids := _ids(live, split))}
    if not splits:
        message = f"no split has the task {next(iter(answers))!r}, nor another of the runs'"
        raise Fault("data", f"{message}: name the folder of their questions with --data DIR")
    for split, ids in splits.items():
        yield f"{NAME}_{split}.jsonl", partial(write_submission, ids=ids, answers=answers)


def latest_answers(runs: Iterable[Trajectory]) -> dict[str, JsonValue]:
    """What the latest run of each task handed in, by id; those without an ending or stopped by a fault do not count.

    Nor do runs on recorded pages: they hold what others were told.
    """
    ours = (run for run in runs if run.header.task.benchmark == NAME)
    ended = [run for run in ours if run.footer and not run.ending.startswith("error:")]
    ended.sort(key=lambda run: run.header.created)
    return {run.header.task.id: _answer(run) for run in ended}


def _answer(run: Trajectory) -> JsonValue:
    return run.footer.scores.answer if run.footer and run.footer.scores else None


def _ids(live: Any, split: str) -> Sequence[str]:
    """The tasks of a split; none where its file is not there, for one split alone is a whole benchmark."""
    try:
        ids: Sequence[str] = live.ids(split)
    except Fault as fault:
        if not isinstance(fault.__cause__, FileNotFoundError):
            raise
        return ()
    return ids


# What the command `export` says.

MOST = 10
"""Files that are named one by one."""


def exported(files: Sequence[Path]) -> str:
    """The files, one a line; of more than MOST how many there are, and in which folder."""
    if len(files) > MOST:
        return f"{len(files):,} files in {files[0].parent}"
    return "\n".join(map(str, files))


def submitted(path: Path) -> str:
    """How many tasks a submission has, and how many of them no answer."""
    answers = [row.value["answer"] for row in read_rows(path)]
    return f"{path.name}: {len(answers)} tasks, {answers.count('')} of them without an answer"


# Export the runs below some folders; every file is whole or not there.

Format = Literal["atif", "inspect", "parquet", "assistantbench"]

PACKAGES = {"inspect": "inspect_ai", "parquet": "pyarrow"}
"""What a format needs besides certigraph itself."""

Write = Callable[[Path], object]

Make = Callable[[Iterable[Trajectory]], Iterator[tuple[str, Write]]]
"""Runs -> names of files, and how each is written."""


def export(folders: Sequence[Path], to: Format, out: Path, *, data: str | None = None) -> list[Path]:
    """Write all runs below the folders, finished or not, in another format, and return the files.

    A run whose process died before its first line was whole holds nothing to write, and is left out.

    Args:
        folders: searched for runs at any depth.
        to: `atif`, a JSON document a run; `inspect`, an .eval log for each benchmark, graph, choice of operators and
            model; `parquet`, one table of transitions; `assistantbench`, a submission to its leaderboard for each
            split that runs are of.
        out: a folder, made where it is missing; files of these names in it are replaced.
        data: of `assistantbench` the folder of its questions; else CERTIGRAPH_DATA.

    Raises:
        UnknownName: there is no such format.
        Fault: no run is there or none of what is asked for, one cannot be read, or a package is missing.
    """
    if to not in get_args(Format):
        raise UnknownName(f"no format is called {to!r}; known: {', '.join(get_args(Format))}")
    if find_spec(package := PACKAGES.get(to, "certigraph")) is None:
        raise Fault("data", f"the format {to} needs {package}, which is missing: pip install 'certigraph[eval]'")
    found = dict.fromkeys(file.resolve() for folder in folders for file in trajectory_files(folder))
    files = [file for file in found if has_header(file)]
    if not files:
        named = " ".join(map(str, folders))
        raise Fault("data", f"no run below {named}: give folders that `certigraph run` or `certigraph compare` wrote")
    out.mkdir(parents=True, exist_ok=True)
    makers: dict[str, Make] = {**_MAKERS, "assistantbench": partial(_assistantbench, data=data)}
    return [_written(out / name, write) for name, write in makers[to](_read(files))]


def _read(files: Iterable[Path]) -> Iterator[Trajectory]:
    for file in files:
        try:
            yield read_trajectory(file)
        except Fault as fault:
            raise Fault("data", f"{file.parent} cannot be exported: {fault}") from fault


def _atif(runs: Iterable[Trajectory]) -> Iterator[tuple[str, Write]]:
    from certigraph.evaluation.atif import write_atif

    names = _Names()
    for run in runs:
        yield names.new(run.header.run_id, ".json"), partial(write_atif, run)


def _inspect(runs: Iterable[Trajectory]) -> Iterator[tuple[str, Write]]:
    from inspect_ai.log import write_eval_log

    from certigraph.evaluation.inspect_log import kind_of, to_inspect

    groups = defaultdict(list)
    for run in runs:
        groups[kind_of(run.header)].append(run)
    names = _Names()
    for kind, group in groups.items():
        log = to_inspect(group)
        method = str(log.eval.solver)[:60]  # the id after it tells long ones apart
        name = names.new(f"{log.eval.created[:19]}_{kind.benchmark}-{method}_{log.eval.eval_id}", ".eval")
        yield name, partial(write_eval_log, log, format="eval")


def _parquet(runs: Iterable[Trajectory]) -> Iterator[tuple[str, Write]]:

    yield "transitions.parquet", partial(to_parquet, runs)


def _assistantbench(runs: Iterable[Trajectory], data: str | None) -> Iterator[tuple[str, Write]]:

    yield from submissions(runs, data)


_MAKERS: dict[str, Make] = {
    "atif": _atif,
    "inspect": _inspect,
    "parquet": _parquet,
}


class _Names:
    """File names that no run's id can lead astray, each given once."""

    def __init__(self) -> None:
        self._given = set[str]()

    def new(self, text: str, suffix: str) -> str:
        short = slug(text, 70, kept="-_") or "run"
        numbered = (f"{short}{'' if n == 1 else f'-{n}'}{suffix}" for n in count(1))
        name = next(name for name in numbered if name not in self._given)
        self._given.add(name)
        return name


def _written(path: Path, write: Write) -> Path:
    draft = path.with_name(f".{path.name}.tmp")
    try:
        write(draft)
        draft.replace(path)  # renamed when whole: a killed export leaves no half file under the name
    finally:
        draft.unlink(missing_ok=True)
    return path

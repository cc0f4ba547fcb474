"""What there is to judge in recorded runs: question, reference and answer."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from certigraph.adapters.benchmarks import load_benchmark
from certigraph.evaluation.anatomy.reading import Found, recorded_runs
from certigraph.evaluation.settings import load_local
from certigraph.state.endings import Fault, UnknownName
from certigraph.state.records import Task

ALTERNATIVE = "\nor: "
"""Between a gold answer and its aliases."""


class Case(NamedTuple):
    """One run's answer; empty where it ended without one."""

    run: str
    method: str
    task: Task
    trial: int
    references: Sequence[str]
    """The gold answer, then its aliases."""
    answer: str

    @property
    def reference(self) -> str:
        """The references as a judge is shown them."""
        return ALTERNATIVE.join(self.references)


class Cases(NamedTuple):
    """What can be judged; how many runs have not ended, and how many answer a question without a reference."""

    ended: Sequence[Case]
    unfinished: int
    unreferenced: int = 0
    unknown: Sequence[str] = ()
    """Runs whose question is not to be had here, and why."""


def cases_in(found: Found, data: str | None = None) -> Cases:
    """The cases of runs.

    Args:
        found: the runs.
        data: the benchmarks' data folder; else each run's own.

    Raises:
        Fault: a trajectory cannot be read.
    """
    unknown: list[str] = []
    ended = list(_cases(found, data, unknown))
    judged = [case for case in ended if case.reference.strip()]
    return Cases(judged, len(found.runs) - len(ended) - len(unknown), len(ended) - len(judged), tuple(unknown))


def _cases(found: Found, data: str | None, unknown: list[str]) -> Iterator[Case]:
    paths = (path for path, _ in found.runs)
    for path, (method, _, trial, trajectory) in zip(paths, recorded_runs(found), strict=True):
        header, footer = trajectory.header, trajectory.footer
        if footer is not None:
            answer = footer.scores.answer if footer.scores else None
            try:
                references = references_for(header.task, data or _data_of(path.parent))
            except (Fault, UnknownName) as error:
                unknown.append(f"{header.run_id}: {error}")
                continue
            yield Case(header.run_id, method, header.task, trial, references, "" if answer is None else str(answer))


def references_for(task: Task, data: str | None) -> Sequence[str]:
    """A task's gold answer and its aliases. Raises Fault where its benchmark has none."""
    benchmark: Any = load_benchmark(task.benchmark, data)
    if not getattr(benchmark, "answers", False):
        raise Fault("data", f"{task.benchmark} has no reference answers to judge by: give runs of a search benchmark")
    return tuple(benchmark.gold(task).answers)


def _data_of(folder: Path) -> str | None:
    return load_local(folder).data if (folder / "local.json").is_file() else None

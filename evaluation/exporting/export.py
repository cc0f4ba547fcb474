"""Export the runs below some folders; every file is whole or not there."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from importlib.util import find_spec
from itertools import count
from pathlib import Path
from typing import Literal, get_args

from certigraph.evaluation.finding import has_header, trajectory_files
from certigraph.evaluation.naming import slug
from certigraph.state.endings import Fault, UnknownName
from certigraph.state.reading import read_trajectory
from certigraph.state.trajectory import Trajectory

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
    from certigraph.evaluation.exporting.atif import write_atif

    names = _Names()
    for run in runs:
        yield names.new(run.header.run_id, ".json"), partial(write_atif, run)


def _inspect(runs: Iterable[Trajectory]) -> Iterator[tuple[str, Write]]:
    from inspect_ai.log import write_eval_log

    from certigraph.evaluation.exporting.inspect_log import kind_of, to_inspect

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
    from certigraph.evaluation.exporting.parquet import to_parquet

    yield "transitions.parquet", partial(to_parquet, runs)


def _assistantbench(runs: Iterable[Trajectory], data: str | None) -> Iterator[tuple[str, Write]]:
    from certigraph.evaluation.exporting.submission import submissions

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

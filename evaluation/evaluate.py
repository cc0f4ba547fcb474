"""Runs a graph over a benchmark's tasks under inspect_ai and gives the official figures."""

import sys
from collections import Counter
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from certigraph.adapters.benchmarks import load_benchmark
from certigraph.adapters.models.chat import ready
from certigraph.evaluation.inspecting.rows import ROW, Row
from certigraph.evaluation.settings import parse_swap
from certigraph.state.endings import Fault, Interrupted
from certigraph.state.records import Record

if TYPE_CHECKING:
    from inspect_ai.log import EvalLog

SAMPLES = 4
"""Runs at once where the model is scripted; with more, runs only wait for each other."""


class Evaluation(Record):
    """A graph on a benchmark: the official figures and a row for every run."""

    graph: str
    benchmark: str
    model: str
    swaps: dict[str, str]
    """The operators that were exchanged, by slot."""
    figures: dict[str, float]
    rows: tuple[Row, ...]
    log: str
    """Path of inspect's log: `inspect view` shows it."""

    @property
    def n(self) -> int:
        """Number of runs."""
        return len(self.rows)

    @property
    def endings(self) -> dict[str, int]:
        """How many runs ended how."""
        return dict(Counter(row.ending for row in self.rows))

    @property
    def failed(self) -> tuple[Row, ...]:
        """Runs that ended in an error; `inspect eval-retry LOG` runs just these again."""
        return tuple(row for row in self.rows if row.ending.startswith("error:"))


def evaluate(
    graph: str = "sdp",
    benchmark: str = "blocksworld",
    *,
    model: str = "scripted:expert",
    data: str | None = None,
    split: str = "",
    limit: int | None = None,
    stratify: bool = False,
    ids: Sequence[str] = (),
    swaps: Sequence[str] = (),
    out: Path | str = "runs",
    max_samples: int | None = None,
    quiet: bool = False,
) -> Evaluation:
    """Run a graph on every task of a benchmark, as `inspect eval certigraph/BENCHMARK` does.

    Args:
        graph: a graph's name.
        benchmark: a benchmark's name; a configuration may follow: `travelplanner:paper`.
        model: certigraph's name of a model, or inspect's: `anthropic/NAME`.
        data: data folder; None: CERTIGRAPH_DATA, else a generated world.
        split: split of the tasks; the benchmark's default otherwise.
        limit: number of tasks, the first ones.
        stratify: spread the limit over difficulty and length instead.
        ids: ids of the tasks, in place of a split.
        swaps: operators as `SLOT=OPERATOR`: `validate=always_pass`.
        out: the folder for inspect's log and for every run's own folder.
        max_samples: runs at once.
        quiet: show no progress, even on a terminal.

    Raises:
        UnknownName: a name is unknown; the message lists the known ones.
        Fault: inspect_ai is missing, or the evaluation could not be carried through.
        Interrupted: it was interrupted; the message has the command that finishes it.
    """
    if find_spec("inspect_ai") is None:
        raise Fault("data", "benchmarks run under inspect_ai, which is missing: pip install 'certigraph[eval]'")
    from inspect_ai import eval as inspect_eval

    from certigraph.evaluation.inspecting.registry import TASKS

    load_benchmark(benchmark, data)
    if model.startswith(("openai:", "local")):
        ready(model)
    name, _, config = benchmark.partition(":")
    operators = {slot: str(spec) for slot, spec in map(parse_swap, swaps)}
    task = TASKS[name](
        graph=graph,
        config=config,
        model=model,
        data=data or "",
        split=split,
        ids=list(ids),
        stratify=limit if stratify and limit else 0,
        out=str(out),
        **operators,
    )
    logs = inspect_eval(
        task,
        model=None,
        limit=None if stratify else limit,
        max_samples=max_samples or (SAMPLES if model.startswith("scripted:") else None),
        log_dir=str(out),
        ctl_server=False,
        display="rich" if sys.stdout.isatty() and not quiet else "none",
    )
    if not logs or logs[0].status == "cancelled":
        raise Interrupted(f"interrupted; finish it with: {_retry(Path(out))}")
    return _evaluation(logs[0])


def read_evaluation(log: Path | str) -> Evaluation:
    """The evaluation in a log, for one that `inspect eval-retry` finished."""
    from inspect_ai.log import read_eval_log

    return _evaluation(read_eval_log(str(log)))


def _evaluation(log: "EvalLog") -> Evaluation:
    if not log.results or not log.samples:
        raise Fault("operator", f"nothing was evaluated: {log.error.message if log.error else log.status}")
    asked = log.eval.metadata or {}
    scores = [sample.scores[ROW] for sample in log.samples if sample.scores]
    return Evaluation(
        graph=asked["graph"],
        benchmark=asked["benchmark"],
        model=log.eval.task_args["model"] or log.samples[0].output.model,
        swaps=asked["swaps"],
        figures={name: metric.value for name, metric in log.results.scores[0].metrics.items()},
        rows=tuple(Row.model_validate(score.metadata) for score in scores),
        log=log.location,
    )


def _retry(folder: Path) -> str:
    newest = max(folder.glob("*.eval"), key=lambda log: log.stat().st_mtime, default=folder / "LOG.eval")
    return f"inspect eval-retry {newest} --log-dir {folder}"

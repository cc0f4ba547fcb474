"""Evaluation of a graph on a benchmark under inspect_ai."""

import gc
import math
import sys
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from certigraph.adapters.benchmarks import load_benchmark, usable
from certigraph.adapters.models.chat_models import is_scripted, ready
from certigraph.evaluation.evaluation_results import Evaluation, read_evaluation, read_log
from certigraph.evaluation.workers import is_url, own_models, working
from certigraph.graphs.assembly import operators_of
from certigraph.runtime.files import check_out
from certigraph.runtime.registry import build_graph, check_encoders, parse_swap, roles_in
from certigraph.runtime.run import blocking
from certigraph.runtime.storage import checkpoints_ready
from certigraph.state.records import Interrupted, UnknownName

if TYPE_CHECKING:
    from inspect_ai.log import EvalLog


# Rarer garbage collection for the length of an evaluation.

RARELY = (50_000, 5, 5)
"""Thresholds of the three generations; Python's own are 700, 10 and 10. With larger ones for the older generations what
runs leave behind piles up: of thousands of them hundreds of megabytes, and nothing is saved."""


@contextmanager
def seldom_collecting() -> Iterator[None]:
    """Collect less often, and never what is there already: inspect keeps much alive, which is walked again and again.

    Measured over 1,000 short episodes it takes an eighth off their time.
    """
    before, ours = gc.get_threshold(), not gc.get_freeze_count()
    if ours:  # what a caller froze stays frozen
        gc.collect()
        gc.freeze()
    gc.set_threshold(*RARELY)
    try:
        yield
    finally:
        gc.set_threshold(*before)
        if ours:
            gc.unfreeze()


# How an evaluation under inspect_ai is shown while it goes on, and what its logs say when it is over.


def display(quiet: bool) -> dict[str, Any]:
    """inspect's settings of what it shows: nothing but on a terminal."""
    shown = sys.stdout.isatty() and not quiet
    # figures on the way, which cost time, only where somebody sees them
    return {"ctl_server": False, "display": "rich" if shown else "none", "score_display": shown}


def concluded(logs: "Sequence[EvalLog]", out: str, ray: str | None) -> Evaluation:
    """What an evaluation came to. Raises Interrupted, with the command that finishes it, where it was stopped."""
    if not logs or logs[0].status == "cancelled":
        again = f" --ray {ray}" if ray else ""
        raise Interrupted(f"interrupted; finish it with: certigraph eval --retry {_newest(logs, out)}{again}")
    return read_evaluation(logs[0].location)  # thin: the log in hand reads all of itself where it is looked into


def _newest(logs: "Sequence[EvalLog]", out: str) -> str:
    if is_url(out):
        return logs[0].location if logs else f"{out}/LOG.eval"
    return str(max(Path(out).glob("*.eval"), key=lambda log: log.stat().st_mtime, default=Path(out) / "LOG.eval"))


# Finishes an evaluation that stopped half-way, from its log and the runs beside it.


def evaluate_retry(
    log: Path | str,
    *,
    max_samples: int | None = None,
    ray: str | None = None,
    workers: int | None = None,
    quiet: bool = False,
) -> Evaluation:
    """Finish an evaluation that was interrupted or killed, or run again what failed in one.

    Runs that ended are taken as they are. One that was cut off, or whose model or data could not be had, goes on from
    its last checkpoint; one whose world or operators failed is run anew. The log is left as it is; the new one is
    written beside it.

    Args:
        log: inspect's log of the evaluation, or of an earlier retry: a file, or its URL.
        max_samples: runs at once; as before otherwise.
        ray: address of a Ray cluster for what is left, as in `evaluate`; it need not be the one before.
        workers: worker processes there.
        quiet: show no progress, even on a terminal.

    Raises:
        Fault: the file is no such log, or the evaluation could not be carried through.
        Interrupted: it was interrupted again.
    """
    from inspect_ai import eval_retry

    from certigraph.evaluation.inspect_tasks import registered

    begun = read_log(log)
    begun.eval.task_registry_name = registered(begun.eval.task)
    given, folder = begun.eval.task_args_passed, _beside(log)
    if given.get("journal"):
        # the runs lie beside their log, wherever that is by now and wherever it is named from
        given["out"] = folder
    model = str((begun.eval.metadata or {}).get("model", ""))
    if ray:
        own_models(model, *(role.partition("=")[2] for role in given.get("role", [])))
    with seldom_collecting(), working(ray, model, workers, max_samples) as at_once:
        logs = eval_retry(begun, log_dir=folder, max_samples=at_once, **display(quiet))
    return concluded(logs, folder, ray)


def _beside(log: Path | str) -> str:
    before, slash, _ = str(log).rpartition("/")
    return before if slash else "."


# Runs a graph over a benchmark's tasks under inspect_ai and gives the official figures.

__all__ = ["Evaluation", "evaluate", "evaluate_retry", "read_evaluation"]

SAMPLES = 4
"""Runs at once where the model is scripted; with more, runs only wait for each other."""


def evaluate(
    graph: str = "sdp",
    benchmark: str = "blocksworld",
    *,
    model: str = "scripted:expert",
    roles: Sequence[str] = (),
    budget: Sequence[str] = (),
    data: str | None = None,
    split: str = "",
    limit: int | None = None,
    stratify: bool = False,
    ids: Sequence[str] = (),
    trials: int = 1,
    swaps: Sequence[str] = (),
    cache: str | None = None,
    faults: str = "",
    out: Path | str = "runs",
    max_samples: int | None = None,
    ray: str | None = None,
    workers: int | None = None,
    fail_on: float | None = None,
    quiet: bool = False,
) -> Evaluation:
    """Run a graph on every task of a benchmark, as `inspect eval certigraph/BENCHMARK` does.

    Args:
        graph: a graph's name.
        benchmark: a benchmark's name; a configuration may follow: `travelplanner:paper`.
        model: certigraph's name of a model, or inspect's: `anthropic/NAME`.
        roles: other models for some roles: `executor=local`.
        budget: what each run may spend, and its method's limits: `calls=20`, `steps=30`.
        data: data folder; None: CERTIGRAPH_DATA, else a generated world.
        split: split of the tasks; the benchmark's default otherwise.
        limit: number of tasks, the first ones.
        stratify: spread the limit over difficulty and length instead.
        ids: ids of the tasks, in place of a split.
        trials: runs of each task.
        swaps: operators as `SLOT=OPERATOR`: `validate=always_pass`.
        cache: folder that keeps the replies of models, so that a question is paid once.
        faults: faults to inject into models and worlds: `timeout=0.1,crash=0.01,seed=3`.
        out: the folder, or a URL that fsspec knows, for inspect's log and for every run's own folder.
        max_samples: runs at once.
        ray: address of a Ray cluster whose workers carry the runs out, `local` for one of this machine; None: none.
        workers: worker processes there; as many as it has processors otherwise.
        fail_on: no run is begun any more once so many, or below 1 such a share of all, have failed; None: any number.
        quiet: show no progress, even on a terminal.

    Raises:
        UnknownName: a name is unknown; the message lists the known ones.
        Fault: dollars are limited and a model has no known price, or the evaluation could not be carried through.
        Interrupted: it was interrupted; the message has the command that finishes it.
    """
    from inspect_ai import eval as inspect_eval

    from certigraph.evaluation.inspect_tasks import TASKS

    if not is_url(str(out)):
        check_out(out)
    live = load_benchmark(benchmark, data)
    usable(live)
    check_encoders(operators_of(build_graph(graph, dict(map(parse_swap, swaps)))))
    _can_ask(ray, model, *roles_in(roles).values())
    blocking(checkpoints_ready())
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
        trials=trials,
        role=list(roles),
        budget=list(budget),
        cache=cache or "",
        faults=faults,
        out=str(out),
        journal=f"journal-{uuid.uuid4().hex[:12]}",
        fail_on=_tolerated(fail_on, lambda: trials * (len(ids) or len(live.tasks(split)[:limit]))),
        **operators,
    )
    usual = SAMPLES if is_scripted(model) else None
    with seldom_collecting(), working(ray, model, workers, max_samples, usual=usual) as at_once:
        logs = inspect_eval(
            task,
            model=None,
            limit=None if stratify else limit,
            max_samples=at_once,
            log_dir=str(out),
            # scripts are over before anybody could watch them in inspect's viewer
            log_realtime=not is_scripted(model),
            **display(quiet),
        )
    return concluded(logs, str(out), ray)


def _can_ask(ray: str | None, *models: str) -> None:
    if ray:
        own_models(*models)
    for asked in models:
        if asked.startswith(("openai:", "local")):
            ready(asked)


def _tolerated(fail_on: float | None, planned: Callable[[], int]) -> int:
    """How many failed runs stop the evaluation; 0 where any number may fail."""
    if fail_on is None:
        return 0
    if not 0 < fail_on < math.inf:
        raise UnknownName(f"--fail-on {fail_on:g}: a number of runs, as in 5, or a share of them, as in 0.1")
    # rounded first: 0.07 of 100 is a little more than 7 to a computer
    return math.ceil(fail_on if fail_on >= 1 else round(fail_on * planned(), 6))

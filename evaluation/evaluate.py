"""Runs a graph over a benchmark's tasks under inspect_ai and gives the official figures."""

import sys
import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from certigraph.adapters.benchmarks import load_benchmark, usable
from certigraph.adapters.models.chat import is_scripted, ready
from certigraph.evaluation.budgets import roles_in
from certigraph.evaluation.collecting import seldom_collecting
from certigraph.evaluation.inspecting.evaluation import Evaluation, evaluation_of, read_evaluation, read_log
from certigraph.evaluation.settings import parse_swap
from certigraph.state.endings import Interrupted

if TYPE_CHECKING:
    from inspect_ai.log import EvalLog

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
    out: Path | str = "runs",
    max_samples: int | None = None,
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
        out: the folder for inspect's log and for every run's own folder.
        max_samples: runs at once.
        quiet: show no progress, even on a terminal.

    Raises:
        UnknownName: a name is unknown; the message lists the known ones.
        Fault: the evaluation could not be carried through.
        Interrupted: it was interrupted; the message has the command that finishes it.
    """
    from inspect_ai import eval as inspect_eval

    from certigraph.evaluation.inspecting.registry import TASKS

    usable(load_benchmark(benchmark, data))
    for asked in (model, *roles_in(roles).values()):
        if asked.startswith(("openai:", "local")):
            ready(asked)
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
        out=str(out),
        journal=f"journal-{uuid.uuid4().hex[:12]}",
        **operators,
    )
    with seldom_collecting():
        logs = inspect_eval(
            task,
            model=None,
            limit=None if stratify else limit,
            max_samples=max_samples or (SAMPLES if is_scripted(model) else None),
            log_dir=str(out),
            # scripts are over before anybody could watch them in inspect's viewer
            log_realtime=not is_scripted(model),
            **_quiet(quiet),
        )
    return _finished(logs, Path(out))


def evaluate_retry(log: Path | str, *, max_samples: int | None = None, quiet: bool = False) -> Evaluation:
    """Finish an evaluation that was interrupted or killed, or run again what failed in one.

    Runs that ended are taken as they are, one that a crash cut off goes on from its last checkpoint, one that ended
    in an error is run anew. The log is left as it is; the new one is written beside it.

    Args:
        log: inspect's log of the evaluation, or of an earlier retry.
        max_samples: runs at once; as before otherwise.
        quiet: show no progress, even on a terminal.

    Raises:
        Fault: the file is no such log, or the evaluation could not be carried through.
        Interrupted: it was interrupted again.
    """
    from inspect_ai import eval_retry

    from certigraph.evaluation.inspecting.registry import registered

    begun = read_log(log)
    begun.eval.task_registry_name = registered(begun.eval.task)
    if begun.eval.task_args_passed.get("journal"):
        # the runs lie beside their log, wherever that is by now and wherever it is named from
        begun.eval.task_args_passed["out"] = str(Path(log).parent)
    with seldom_collecting():
        logs = eval_retry(begun, log_dir=str(Path(log).parent), max_samples=max_samples, **_quiet(quiet))
    return _finished(logs, Path(log).parent)


def _quiet(quiet: bool) -> dict[str, Any]:
    shown = sys.stdout.isatty() and not quiet
    # figures on the way, which cost time, only where somebody sees them
    return {"ctl_server": False, "display": "rich" if shown else "none", "score_display": shown}


def _finished(logs: "Sequence[EvalLog]", out: Path) -> Evaluation:
    if not logs or logs[0].status == "cancelled":
        newest = max(out.glob("*.eval"), key=lambda log: log.stat().st_mtime, default=out / "LOG.eval")
        raise Interrupted(f"interrupted; finish it with: certigraph eval --retry {newest}")
    return evaluation_of(logs[0])

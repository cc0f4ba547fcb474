"""Runs a graph over a benchmark's tasks under inspect_ai and gives the official figures."""

import math
import uuid
from collections.abc import Callable, Sequence
from pathlib import Path

from certigraph.adapters.benchmarks import load_benchmark, usable
from certigraph.adapters.models.chat import is_scripted, ready
from certigraph.evaluation.budgets import roles_in
from certigraph.evaluation.collecting import seldom_collecting
from certigraph.evaluation.concluding import concluded, display
from certigraph.evaluation.inspecting.evaluation import Evaluation, read_evaluation
from certigraph.evaluation.keeping import checkpoints_ready
from certigraph.evaluation.naming import check_out
from certigraph.evaluation.retrying import evaluate_retry
from certigraph.evaluation.run import blocking
from certigraph.evaluation.scaling.cluster import own_models, working
from certigraph.evaluation.scaling.shared import is_url
from certigraph.evaluation.settings import build_graph, check_encoders, parse_swap
from certigraph.graphs.assembly import operators_of
from certigraph.state.endings import UnknownName

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

    from certigraph.evaluation.inspecting.registry import TASKS

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

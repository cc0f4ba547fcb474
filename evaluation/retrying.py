"""Finishes an evaluation that stopped half-way, from its log and the runs beside it."""

from pathlib import Path

from certigraph.evaluation.collecting import seldom_collecting
from certigraph.evaluation.concluding import concluded, display
from certigraph.evaluation.inspecting.evaluation import Evaluation, read_log
from certigraph.evaluation.scaling.cluster import own_models, working


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

    from certigraph.evaluation.inspecting.registry import registered

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

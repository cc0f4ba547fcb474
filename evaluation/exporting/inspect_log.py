"""Runs as a log of inspect_ai, for `inspect view`, its data frames and its scanners."""

import hashlib
import math
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from inspect_ai.log import (
    EvalConfig,
    EvalDataset,
    EvalLog,
    EvalMetric,
    EvalPlan,
    EvalPlanStep,
    EvalResults,
    EvalSample,
    EvalScore,
    EvalSpec,
    EvalStats,
    EvalStatus,
)

from certigraph.evaluation.exporting.clean import (
    circumstances,
    cleaned,
    method_name,
    started,
    without_folders,
)
from certigraph.evaluation.exporting.inspect_sample import sample_of, usage_by
from certigraph.evaluation.inspecting.rows import ROW
from certigraph.evaluation.settings import model_name, swaps_of
from certigraph.evaluation.sound import legible
from certigraph.state.endings import INTERRUPTED, Fault
from certigraph.state.trajectory import Header, Trajectory


class Kind(NamedTuple):
    """What the runs of one log have in common: inspect's task, solver and model."""

    benchmark: str
    graph: str
    operators: str
    model: str


def kind_of(header: Header) -> Kind:
    """The log that a run belongs into."""
    told = circumstances(header)
    operators = repr(sorted((slot, repr(spec)) for slot, spec in told["operators"].items()))
    return Kind(header.task.benchmark, header.graph, operators, model_name(str(header.context.get("model", "none"))))


def to_inspect(trajectories: Sequence[Trajectory]) -> EvalLog:
    """The log of runs of one benchmark, graph, choice of operators and model; one sample a run.

    `task_args` has the graph and each operator that is not the graph's own. What a node did is an InfoEvent
    `certigraph.<node>` with its verdict, certificate or plan. Repetitions of a task are epochs, in the order of their
    trials. The log's status is `cancelled` while a run has no ending, `error` where one ended in an error. Write it
    with inspect's own `write_eval_log`.

    Raises:
        Fault: there is no run, or they belong into several logs.
    """
    runs = sorted((cleaned(run) for run in trajectories), key=_order)
    kinds = {kind_of(run.header) for run in runs}
    if len(kinds) != 1:
        told = f"{len(runs)} runs of {len(kinds)} kinds do not make one inspect log"
        raise Fault("data", f"{told}: group them by kind_of(run.header), or have export(...) write a log for each")
    samples = list(_samples(runs))
    return EvalLog(
        status=_status(runs),
        eval=_spec(runs, samples),
        plan=EvalPlan(steps=[EvalPlanStep(solver=runs[0].header.graph, params=circumstances(runs[0].header))]),
        results=_results(samples),
        stats=_stats(runs),
        samples=samples,
    )


def _order(run: Trajectory) -> tuple[str, int, str]:
    trial = run.header.context.get("trial", 0)
    return run.header.task.id, trial if isinstance(trial, int) else 0, run.header.run_id


def _samples(runs: Iterable[Trajectory]) -> Iterable[EvalSample]:
    epochs = Counter[str]()
    for run in runs:
        epochs[run.header.task.id] += 1
        with legible(run.header.run_id):
            sample = sample_of(run, epochs[run.header.task.id])
        yield sample


def _status(runs: Sequence[Trajectory]) -> EvalStatus:
    endings = [run.ending for run in runs]
    if INTERRUPTED in endings:
        return "cancelled"
    return "error" if any(ending.startswith("error:") for ending in endings) else "success"


def _spec(runs: Sequence[Trajectory], samples: Sequence[EvalSample]) -> EvalSpec:
    kind = kind_of(runs[0].header)
    name = hashlib.sha256("\n".join(run.header.run_id for run in runs).encode()).hexdigest()[:22]
    ids = list(dict.fromkeys(str(sample.id) for sample in samples))
    return EvalSpec(
        eval_id=name,
        run_id=name,
        task_id=name,
        created=min(started(run.header) for run in runs).isoformat(),
        task=f"certigraph/{kind.benchmark}",
        task_args=_arguments(runs[0].header),
        solver=method_name(runs[0].header),
        dataset=EvalDataset(name=kind.benchmark, samples=len(ids), sample_ids=list(ids)),
        model=kind.model,
        config=EvalConfig(epochs=max(sample.epoch for sample in samples)),
        metadata={"runs": [run.header.run_id for run in runs]},
    )


def _arguments(header: Header) -> dict[str, str]:
    swaps = swaps_of(header.graph, header.operators)
    return {"graph": header.graph, **{slot: without_folders(str(spec)) for slot, spec in swaps.items()}}


def _results(samples: Sequence[EvalSample]) -> EvalResults:
    scores = [score.as_float() for sample in samples for score in (sample.scores or {}).values()]
    values = [score for score in scores if not math.isnan(score)]
    mean = EvalMetric(name="mean", value=sum(values) / len(values) if values else 0.0)
    scored = EvalScore(
        name=ROW,
        scorer=ROW,
        scored_samples=len(values),
        unscored_samples=len(scores) - len(values),
        metrics={"mean": mean},
    )
    finished = sum(sample.completed_at is not None for sample in samples)
    return EvalResults(total_samples=len(samples), completed_samples=finished, scores=[scored] if values else [])


def _stats(runs: Sequence[Trajectory]) -> EvalStats:
    events = [event for run in runs for event in (*run.events, *run.superseded)]
    times = sorted(started(run.header) for run in runs)
    return EvalStats(
        started_at=times[0].isoformat(),
        completed_at=times[-1].isoformat(),
        model_usage=usage_by("model", events),
        role_usage=usage_by("role", events),
    )

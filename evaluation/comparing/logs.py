"""Evaluations that were made one by one, compared afterwards: inspect's logs of `certigraph eval`."""

from collections.abc import Sequence
from pathlib import Path

from certigraph.evaluation.comparing.plan import AND, Outline
from certigraph.evaluation.comparing.rows import Row
from certigraph.evaluation.comparing.summary import Comparison, comparison_of
from certigraph.evaluation.evaluate import Evaluation, read_evaluation
from certigraph.state.endings import INTERRUPTED, Fault

SHOWN = 5
"""Tasks that are named of those that two evaluations do not share."""


def compare_logs(paths: Sequence[Path]) -> Comparison:
    """The table of several evaluations of one benchmark on the same tasks, the first one the reference.

    Raises:
        Fault: a file is no log or given twice, or the evaluations are of different benchmarks or tasks.
    """
    _refuse_twice(paths)
    found = [read_evaluation(path) for path in paths]
    names = _names(found)
    rows = [row for name, one in zip(names, found, strict=True) for row in _rows(name, one)]
    first = found[0]
    for path, other in zip(paths[1:], found[1:], strict=True):
        _refuse_others(paths[0], first, path, other)
    models = AND.join(dict.fromkeys(one.model for one in found))
    tasks = tuple(dict.fromkeys(row.id for row in first.rows))
    return comparison_of(Outline(first.benchmark, models, names, tasks, first.trials), rows)


def _names(found: Sequence[Evaluation]) -> tuple[str, ...]:
    """Graphs with their swaps, and with what else differs: model, configuration, budget. Numbered where that fails."""
    others = [(one.model, one.benchmark, " ".join(one.budget) or "usual budget") for one in found]
    differ = [len(set(known)) > 1 for known in zip(*others, strict=True)]
    more = [[part for part, told in zip(parts, differ, strict=True) if told] for parts in others]
    told = [", ".join([_method(one), *rest]) for one, rest in zip(found, more, strict=True)]
    return tuple(name if told.count(name) == 1 else f"{name} no. {n}" for n, name in enumerate(told, 1))


def _method(one: Evaluation) -> str:
    return " ".join([one.graph, *(f"{slot}={operator}" for slot, operator in one.swaps.items())])


def _rows(name: str, one: Evaluation) -> list[Row]:
    """The runs that have an ending."""
    return [
        Row(
            method=name,
            task=row.id,
            trial=row.trial,
            ending=row.ending,
            score=100 * row.value,
            solved=row.value >= 1,
            run=row.run,
            calls=row.footer.usage.calls,
            prompt_tokens=row.footer.usage.input_tokens,
            cached_tokens=row.footer.usage.cached_tokens,
            output_tokens=row.footer.usage.output_tokens,
            steps=row.steps,
            seconds=row.seconds,
            roles={},
        )
        for row in one.rows
        if row.ending != INTERRUPTED
    ]


def _refuse_twice(paths: Sequence[Path]) -> None:
    places = [path.resolve() for path in paths]
    if twice := [path for path, place in zip(paths, places, strict=True) if places.count(place) > 1]:
        raise Fault("data", f"{twice[0]} is given twice: every log is compared once, give another one")


def _refuse_others(path: Path, first: Evaluation, other_path: Path, other: Evaluation) -> None:
    if first.benchmark.partition(":")[0] != other.benchmark.partition(":")[0]:
        told = f"{path} is about {first.benchmark}, {other_path} about {other.benchmark}"
        raise Fault("data", f"{told}: compare evaluations of one benchmark")
    one, two = {(r.id, r.trial) for r in first.rows}, {(r.id, r.trial) for r in other.rows}
    if one == two:
        return
    parts = [(path, sorted(one - two)), (other_path, sorted(two - one))]
    told = "; ".join(f"only in {where}: {_listed(tasks)}" for where, tasks in parts if tasks)
    fix = "evaluate both with the same --split, --limit, --task and --trials"
    raise Fault("data", f"these were run on different tasks and cannot be compared ({told}): {fix}")


def _listed(tasks: Sequence[tuple[str, int]]) -> str:
    names = [f"{task} trial {trial}" if trial else task for task, trial in tasks]
    return ", ".join(names[:SHOWN]) + (f" and {len(names) - SHOWN} more" if len(names) > SHOWN else "")

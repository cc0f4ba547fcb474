"""How far a benchmark's figures can be trusted: intervals by resampling tasks, whatever a figure computes."""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from statistics import mean

from certigraph.evaluation.inspecting.rows import Row
from certigraph.evaluation.resampling import ALIKE, Interval, resampled
from certigraph.evaluation.statistics import LEAST, Estimate, pass_hat_k, wilson
from certigraph.state.trajectory import Footer

Runs = Sequence[tuple[str, Footer]]
Figures = Callable[[Runs], dict[str, float]]


def intervals_of(figures: Mapping[str, float], rows: Sequence[Row], compute: Figures) -> dict[str, Interval | None]:
    """The 95 % interval of every figure but counts and standard errors.

    A percentile bootstrap over tasks: all runs of a task are drawn together, for they share its difficulty, and the
    benchmark computes its figures anew from each sample. Fewer than LEAST tasks, and figures that come out the same in
    every sample, have Wilson's interval where the figure is the share of successful runs, with one count a task, and
    none otherwise.

    Args:
        figures: the figures of all rows.
        rows: the runs.
        compute: the benchmark's `figures`.
    """
    tasks = _by_task(rows)
    drawn = resampled(list(tasks.values()), compute) if len(tasks) >= LEAST else {}
    alone = [compute([(row.id, row.footer)]) for row in rows]
    return {
        name: drawn.get(name) or _as_rate(value, [one.get(name) for one in alone], len(tasks))
        for name, value in figures.items()
        if name != "n" and not name.endswith("_stderr")
    }


def repeated_successes(rows: Sequence[Row]) -> dict[str, Estimate]:
    """`pass^k` by name, for k of 2, 4, 8, ... and the trials that every task has; nothing where a task has only one."""
    outcomes: dict[str, list[bool]] = defaultdict(list)
    for row in rows:
        outcomes[row.id].append(row.value >= 1)
    trials = min(map(len, outcomes.values()), default=0)
    doubled = (2**n for n in range(1, trials.bit_length()))
    return {f"pass^{k}": pass_hat_k(outcomes, k) for k in sorted({*doubled, trials} - {0, 1})}


def _by_task(rows: Sequence[Row]) -> dict[str, list[tuple[str, Footer]]]:
    tasks: dict[str, list[tuple[str, Footer]]] = defaultdict(list)
    for row in rows:
        tasks[row.id].append((row.id, row.footer))
    return dict(tasks)


def _as_rate(value: float, alone: Sequence[float | None], tasks: int) -> Interval | None:
    """Wilson's interval of a figure that is 0 or 1 for each run alone and their mean for all of them."""
    told = [one for one in alone if one is not None]
    if not told or {*told} - {0.0, 1.0} or abs(mean(told) - value) > ALIKE:
        return None
    return wilson(round(value * tasks), tasks)

"""What exchanging operators changes: every variant beside its graph as it is, on the same tasks, paired."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from certigraph.evaluation.comparing.plan import Method, Plan
from certigraph.evaluation.comparing.rows import Row
from certigraph.evaluation.comparing.summary import Difference, difference_of, scores_of, shared_tasks
from certigraph.evaluation.settings import swaps_of
from certigraph.evaluation.statistics import holm


class Effect(NamedTuple):
    """A variant's score minus its own graph's on one benchmark."""

    benchmark: str
    difference: Difference


def pairs_of(methods: Sequence[Method]) -> Iterator[tuple[Method, Method]]:
    """Every variant with the method that is its graph as it is, where the sweep has that."""
    plain = {method.graph: method for method in methods if not swaps_of(method.graph, method.operators)}
    return ((m, plain[m.graph]) for m in methods if m.graph in plain and m is not plain[m.graph])


def effects_of(title: str, plan: Plan, rows: Sequence[Row]) -> list[Effect]:
    """The effects on one benchmark, over the tasks that every method has finished."""
    shared = set(shared_tasks(plan.outline, rows))
    by_method = {m.name: scores_of([r for r in rows if r.method == m.name and r.task in shared]) for m in plan.methods}
    found = [
        difference_of(variant.name, own.name, by_method[variant.name], by_method[own.name])
        for variant, own in pairs_of(plan.methods)
    ]
    return [Effect(title, difference) for difference in found]


def adjusted(effects: Sequence[Effect]) -> list[Effect]:
    """The same with Holm's p over all of them: a sweep of many variants finds some by chance."""
    corrected = holm([effect.difference.p for effect in effects])
    return [
        effect._replace(difference=effect.difference.model_copy(update={"p_adjusted": p}))
        for effect, p in zip(effects, corrected, strict=True)
    ]

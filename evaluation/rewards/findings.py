"""What the paper says of StateFactory, checked: the order of granularities, and how little goals lose online."""

from collections.abc import Mapping, Sequence

from certigraph.evaluation.comparing.plan import Method
from certigraph.evaluation.rewards.predictors import granularity_of, knows_the_goal
from certigraph.evaluation.rewards.rating import Rated
from certigraph.evaluation.rewards.summary import EPIC, OVERALL, Line, Mean, difference, stratified
from certigraph.state.factored import GRANULARITIES


def told(methods: Sequence[Method], lines: Sequence[Line], rows: Sequence[Rated]) -> list[str]:
    """The findings that the measured predictors allow, a sentence each."""
    return [*_order(methods, lines), *_gap(methods, rows), *_finals(lines)]


def shown(mean: Mean, form: str = ".3f") -> str:
    """A mean with its interval: 0.412 (0.401 to 0.423)."""
    bounds = f" ({mean.low:{form}} to {mean.high:{form}})" if mean.low is not None and mean.high is not None else ""
    return f"{mean.mean:{form}}{bounds}"


def overall(lines: Sequence[Line]) -> dict[str, Line]:
    """By predictor, its line over all domains, or that of the only one."""
    return {line.predictor: line for line in lines}  # the last one stays, which is `overall` where there is one


def _order(methods: Sequence[Method], lines: Sequence[Line]) -> list[str]:
    by_name, names = overall(lines), {granularity_of(method): method.name for method in methods}
    found = {g: by_name[names[g]].figures[EPIC].mean for g in GRANULARITIES if names.get(g) in by_name}
    if len(found) < 2:
        return []
    expected, ranked = list(found), sorted(found, key=found.__getitem__, reverse=True)
    verdict = "the paper's order" if ranked == expected else f"not the paper's order, which is {' > '.join(expected)}"
    return [f"EPIC by granularity: {' > '.join(f'{g} {found[g]:.3f}' for g in ranked)}; {verdict}."]


def _gap(methods: Sequence[Method], rows: Sequence[Rated]) -> list[str]:
    online = next((method.name for method in methods if granularity_of(method) == "attribute"), None)
    offline = next((method.name for method in methods if knows_the_goal(method)), None)
    by_name: Mapping[str | None, list[Rated]] = {
        name: [row for row in rows if row.predictor == name] for name in (online, offline)
    }
    if not by_name[online] or not by_name[offline]:
        return []
    gap = shown(stratified(difference(by_name[online], by_name[offline])), "+.3f")
    told = "EPIC with goals interpreted online minus with goals read off the expert's end"
    return [f"{told}: {gap}; the paper has +0.02."]


def _finals(lines: Sequence[Line]) -> list[str]:
    """Where the first predictor's negative trajectories end above the positive ones."""
    mine = [line for line in lines if line.predictor == lines[0].predictor and line.domain != OVERALL]
    wrong = [line.domain for line in mine if line.figures["final_positive"].mean <= line.figures["final_negative"].mean]
    where = f"not in {', '.join(wrong)}" if wrong else "in every domain"
    return [f"{lines[0].predictor}: mean final reward of positive trajectories above that of negative ones {where}."]

"""The predictors of a measurement: graphs that predict rewards, with operators exchanged."""

from collections.abc import Sequence

from certigraph.evaluation.comparing.plan import Method, methods_from
from certigraph.evaluation.settings import swaps_of
from certigraph.evaluation.shipped import REWARDS
from certigraph.state.endings import UnknownName

USUAL = (
    "statefactory",
    "object=statefactory:route=route:granularity=object",
    "textual=statefactory:route=route:granularity=textual",
    "raw=statefactory:route=route:granularity=raw",
    "offline=statefactory:interpret=offline_goal",
    "monotonic",
    "constant=monotonic:rate=constant",
)
"""What is measured where no predictor is named: StateFactory, its other granularities, its goals known beforehand, and
two baselines."""


def predictors(specs: Sequence[str], encoders: Sequence[str] = ()) -> tuple[Method, ...]:
    """Predictors as a command line names them, the first one being what others are compared with.

    Args:
        specs: `GRAPH`, `GRAPH:SLOT=OPERATOR` with more swaps joined by `+`, or either as `NAME=...`.
        encoders: sentence encoders, each a StateFactory that compares by it.

    Raises:
        UnknownName: a graph, slot or operator is unknown, a graph predicts no rewards, or a name is used twice.
    """
    encoding = [f"{name}=statefactory:route=route:encoder={name}" for name in encoders]
    made = [_predictor(spec) for spec in (*(specs or USUAL), *encoding)]
    names = [method.name for method in made]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise UnknownName(f"two predictors are called {twice[0]}; write NAME=GRAPH:SLOT=OPERATOR")
    return tuple(made)


def granularity_of(method: Method) -> str | None:
    """The granularity of a StateFactory that is otherwise as it comes."""
    swaps = swaps_of(method.graph, method.operators)
    if method.graph != "statefactory" or swaps.keys() - {"route"}:
        return None
    args = swaps["route"].args if swaps else {}
    return str(args.get("granularity", "attribute")) if not args.keys() - {"granularity"} else None


def knows_the_goal(method: Method) -> bool:
    """Whether it is StateFactory with nothing exchanged but the interpretation of goals, by that with hindsight."""
    swaps = swaps_of(method.graph, method.operators)
    return (
        method.graph == "statefactory" and swaps.keys() == {"interpret"} and swaps["interpret"].name == "offline_goal"
    )


def encoder_of(method: Method) -> str | None:
    """The sentence encoder that a StateFactory's routing names; None where it names none."""
    swaps = swaps_of(method.graph, method.operators) if method.graph == "statefactory" else {}
    return str(swaps["route"].args["encoder"]) if "route" in swaps and "encoder" in swaps["route"].args else None


def _predictor(spec: str) -> Method:
    head, _, swaps = spec.partition(":")
    name, _, graph = head.partition("=")
    if (graph or name) not in REWARDS:
        raise UnknownName(f"{graph or name} predicts no rewards; {', '.join(REWARDS)} do")
    made = methods_from([f"v={graph or name}"], [f"v:{swap}" for swap in swaps.split("+") if swap])
    return made[0].model_copy(update={"name": name if graph else spec})

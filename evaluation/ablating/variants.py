"""The methods of an ablation: the graph as it is, and one variant for each swap."""

from collections.abc import Sequence

from certigraph.evaluation.comparing.plan import Method, method_of, methods_from
from certigraph.nodes.specs import Spec
from certigraph.state.endings import UnknownName

USUAL = {"sdp": ("validate=always_pass", "replan=give_up", "validate=capped:depth=1")}
"""What is ablated where no swap is given: SDP's three mechanisms (SDP paper, section 4.3)."""


def variants(graph: str, swaps: Sequence[str]) -> tuple[Method, ...]:
    """The graph first, then a variant named after each swap; several swaps of one variant are joined by `+`.

    Raises:
        UnknownName: the graph, a slot or an operator is unknown, a swap is given twice, or there is none to make.
    """
    full = methods_from([graph])
    swaps = swaps or USUAL.get(graph, ())
    if not swaps:
        raise UnknownName(f"nothing to ablate in {graph}: say what to exchange, --swap SLOT=OPERATOR")
    if twice := sorted({swap for swap in swaps if swaps.count(swap) > 1}):
        raise UnknownName(f"--swap {twice[0]} is given twice; every variant needs a swap of its own")
    return (*full, *(method_of(swap, graph, swap.split("+")) for swap in swaps))


def exchanged(first: Method, variant: Method) -> dict[str, Spec]:
    """The operators, by slot, in which a variant differs from the first method; nothing of another graph's."""
    if first.graph != variant.graph:
        return {}
    usual = first.operators
    return {slot: Spec.model_validate(spec) for slot, spec in variant.operators.items() if spec != usual.get(slot)}

"""Sixteen settings of the exhaustion gate for a robustness sweep, by name.

CGDP swept 7 discrete and 9 smooth ones (appendix G.2) and names few: the global best f_j0.6_u0.3_p2, a cluster of
discrete ones with U = 0.3 and p = 2 to 3, one of smooth ones with U = 0.10 to 0.15 and p = 2. This grid is our own and
contains those; what is not in the paper is the rest of the values, and the weight of the latest round, one half.
"""

from itertools import product

from certigraph.nodes.specs import Spec

DISCRETE = (
    (0.5, 0.3, 2),
    (0.6, 0.3, 2),
    (0.7, 0.3, 2),
    (0.5, 0.3, 3),
    (0.6, 0.3, 3),
    (0.7, 0.3, 3),
    (0.6, 0.2, 2),
)
"""Jaccard, unique passage rate, patience."""

SMOOTH = tuple(product((0.5, 0.6, 0.7), (0.10, 0.15, 0.20), (2,)))


def gate_grid() -> dict[str, Spec]:
    """The settings by label: `f_...` discrete, `s_...` smooth. As text each is what a command line takes.

    `str(gate_grid()["f_j0.6_u0.3_p2"])` is `exhaustion_gate:jaccard=0.6,upr=0.3,patience=2`.
    """
    discrete = {_label("f", *setting): _spec("exhaustion_gate", *setting) for setting in DISCRETE}
    return discrete | {_label("s", *setting): _spec("smooth_gate", *setting) for setting in SMOOTH}


def _label(kind: str, jaccard: float, upr: float, patience: int) -> str:
    return f"{kind}_j{jaccard:g}_u{upr:g}_p{patience}"


def _spec(name: str, jaccard: float, upr: float, patience: int) -> Spec:
    return Spec(name=name, args={"jaccard": jaccard, "upr": upr, "patience": patience})

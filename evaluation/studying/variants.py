"""What the study's ablations vary (CGDP, appendix H): the retriever's weights, the belief's capacity, the depth."""

from collections.abc import Mapping
from typing import NamedTuple

from pydantic import JsonValue

VARIANTS: Mapping[str, Mapping[str, Mapping[str, JsonValue]]] = {
    "alpha=0": {"decide": {"alpha": 0.0}},
    "alpha=1": {"decide": {"alpha": 1.0}},
    "K=12": {"memory": {"target": 12, "trigger": 20}},
    "depth=3": {"decide": {"k": 3}},
    "depth=5": {"decide": {"k": 5}},
    "depth=10": {"decide": {"k": 10}},
}
"""Name -> slot -> arguments. K = 12 triggers at 20 items, in proportion to the usual 6 at 10; the paper gives no 20."""


class Ablation(NamedTuple):
    """Which harnesses in which variants, the empty one being the usual setting; under which conditions, none: all."""

    harnesses: tuple[str, ...]
    variants: tuple[str, ...]
    memories: tuple[str, ...] = ()


ABLATIONS: Mapping[str, Ablation] = {
    "alpha": Ablation(("react", "memgpt"), ("", "alpha=0", "alpha=1")),
    "k": Ablation(("ircot", "react"), ("", "K=12"), memories=("structured",)),
    "depth": Ablation(("ircot",), ("depth=3", "depth=5", "depth=10")),
}
"""Harnesses and conditions are the paper's (H.1 to H.3) unless others are asked for; alpha is run at both ends."""

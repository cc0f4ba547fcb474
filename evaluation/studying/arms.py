"""The arms of CGDP's study: a search harness under a memory condition (section 6.2), with or without the gate."""

from collections.abc import Mapping, Sequence
from itertools import product
from typing import NamedTuple

from pydantic import JsonValue

from certigraph.evaluation.comparing.plan import Method
from certigraph.evaluation.settings import build_graph
from certigraph.evaluation.studying.variants import VARIANTS, Ablation
from certigraph.graphs.assembly import operators_of
from certigraph.nodes.specs import Spec
from certigraph.state.endings import UnknownName

IRCOT, REACT, MEMGPT, ITER_RETGEN = HARNESSES = ("ircot", "react", "memgpt", "iter_retgen")
NATIVE, LOBOTOMIZED, STRUCTURED, FREEFORM = MEMORIES = ("native", "lobotomized", "structured", "freeform")
BELIEFS = (STRUCTURED, FREEFORM)
OFF, SHADOW, ON = GATES = ("off", "shadow", "on")
"""A shadow notes where the gate would have stopped and what the answer would have been; the run goes on."""

MEMORYLESS = (ITER_RETGEN,)
"""Harnesses with no memory to take away."""

GATE = "exhaustion_gate"


class Arm(NamedTuple):
    """One cell of the study. `variant` names a setting of `VARIANTS`; empty: all settings are the usual ones."""

    harness: str
    memory: str
    gate: str = OFF
    variant: str = ""

    @property
    def name(self) -> str:
        """As tables call it; natural runs are the same with a shadow and without."""
        gated = "+gate" if self.gate == ON else ""
        return f"{self.harness}/{self.memory}{gated}{self.variant and ' '}{self.variant}"


def arms_of(harnesses: Sequence[str], memories: Sequence[str], gates: Sequence[str]) -> list[Arm]:
    """Harnesses x conditions x gates, without the conditions that a harness has not.

    Raises:
        UnknownName: one of them is unknown, or nothing is left to run.
    """
    for what, names, known in (
        ("harness", harnesses, HARNESSES),
        ("memory", memories, MEMORIES),
        ("gate", gates, GATES),
    ):
        _check(what, names, known)
    if {OFF, SHADOW} <= set(gates):
        raise UnknownName("--gate off and --gate shadow make the same runs twice: shadow has both, leave off out")
    crossed = [Arm(*cell) for cell in product(harnesses, memories, gates)]
    made = [arm for arm in crossed if not (arm.harness in MEMORYLESS and arm.memory == LOBOTOMIZED)]
    if not made:
        raise UnknownName(f"{', '.join(MEMORYLESS)} has no memory to take away: name another --memory or --harness")
    return made


def ablated(arms: Sequence[Arm], ablation: Ablation) -> list[Arm]:
    """Every arm in each of the ablation's variants that its memory can have."""
    varied = [arm._replace(variant=variant) for arm in arms for variant in ablation.variants]
    return [arm for arm in varied if arm.memory in BELIEFS or "memory" not in _settings(arm.variant)]


def method_of(arm: Arm, gate: Spec) -> Method:
    """The arm as a method of a comparison. Raises UnknownName where a graph, slot or operator is unknown."""
    settings, usual = _settings(arm.variant), build_graph(arm.harness)
    swaps = {"memory": Spec(name=arm.memory, args={**settings.get("memory", {})})}
    if arm.gate != OFF:
        swaps["gate"] = gate if arm.gate == ON else Spec(name="shadow", args={"gate": gate})
    if retrieval := settings.get("decide"):
        decide = Spec.model_validate(operators_of(usual)["decide"])
        swaps["decide"] = Spec(name="retrieving", args={"decide": decide, **retrieval})
    return Method(name=arm.name, graph=arm.harness, operators=operators_of(build_graph(arm.harness, swaps)))


def is_arm(method: Method) -> bool:
    """Whether a method is an arm, and no graph that is run beside them, of which some have the same operators."""
    return {"memory", "gate"} <= set(method.operators) and method.name == arm_of(method).name


def arm_of(method: Method) -> Arm:
    """The arm that a method is, by its operators; the variant by its name."""
    memory, gate = (_operator(method, slot) for slot in ("memory", "gate"))
    known = {"no_gate": OFF, "shadow": SHADOW}
    return Arm(method.graph, memory, known.get(gate, ON), method.name.partition(" ")[2])


def _operator(method: Method, slot: str) -> str:
    return Spec.model_validate(method.operators[slot]).name


def _settings(variant: str) -> Mapping[str, Mapping[str, JsonValue]]:
    return VARIANTS[variant] if variant else {}


def _check(what: str, names: Sequence[str], known: Sequence[str]) -> None:
    if unknown := [name for name in names if name not in known]:
        raise UnknownName(f"unknown {what} {unknown[0]!r}; known: {', '.join(known)}")

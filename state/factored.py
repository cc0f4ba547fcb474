"""World states as StateFactory factorises them: entities, and under each the values of its attributes."""

from typing import Literal, get_args

from pydantic import Field

from certigraph.state.records import Record

Granularity = Literal["raw", "textual", "object", "attribute"]
"""How finely a state is told: the observation as it is; its relevant facts as one text; the facts of each object as one
text; values under the attributes of objects (StateFactory, appendix C.5.1, levels 1 to 4)."""

GRANULARITIES: tuple[str, ...] = get_args(Granularity)

ENTANGLED = "description"
"""The one attribute of an object whose facts are not taken apart."""


class Entity(Record):
    """An object: what it is, and what is so of it now (StateFactory Eq. 5)."""

    identity: str = Field(min_length=1)
    attributes: dict[str, str] = Field(default_factory=dict)

    def sentences(self) -> list[str]:
        """One sentence an attribute; that it is there, where it has none."""
        told = [f"{self.identity}: {name} {value}" for name, value in self.attributes.items()]
        return told or [self.identity]


class FactoredState(Record):
    """What is known of the world, or wanted of it, entity by entity; identities are different."""

    entities: tuple[Entity, ...] = ()

    def get(self, identity: str) -> Entity | None:
        """The entity of that identity."""
        return next((entity for entity in self.entities if entity.identity == identity), None)


def factored(entities: dict[str, dict[str, str]]) -> FactoredState:
    """The state of a mapping identity -> attribute -> value."""
    return FactoredState(entities=tuple(Entity(identity=name, attributes=has) for name, has in entities.items()))


def as_mapping(state: FactoredState) -> dict[str, dict[str, str]]:
    """The mapping that `factored` takes; changing it changes no state."""
    return {entity.identity: dict(entity.attributes) for entity in state.entities}


def coarsened(state: FactoredState, granularity: str, goal: FactoredState) -> FactoredState:
    """The same facts at a coarser granularity than `attribute`, in a form that is compared in the same way.

    `textual` has the unstructured form of `raw` (appendix C.5.1): one text, of what is known about the goal's objects.
    At `object` the facts of an object are one description of it. Both have them in a fixed order, so that no order is
    taken for a difference.
    """
    if granularity == "object":
        return factored({entity.identity: _entangled(entity) for entity in state.entities})
    return raw(_flat(state, goal)) if granularity == "textual" else state


def _entangled(entity: Entity) -> dict[str, str]:
    told = "; ".join(f"{name} {value}" for name, value in sorted(entity.attributes.items()))
    return {ENTANGLED: told} if told else {}


def _flat(state: FactoredState, goal: FactoredState) -> str:
    named = {entity.identity for entity in goal.entities}
    relevant = [entity for entity in state.entities if entity.identity in named] or state.entities
    told = (sentence for entity in sorted(relevant, key=lambda one: one.identity) for sentence in entity.sentences())
    return ". ".join(told)


def raw(text: str) -> FactoredState:
    """A text as it is; nothing where it is blank."""
    return factored({text: {}} if text.strip() else {})

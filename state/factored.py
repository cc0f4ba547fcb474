"""World states as StateFactory factorises them: entities, and under each the values of its attributes."""

from typing import Literal, get_args

from pydantic import Field

from certigraph.state.records import Record

Granularity = Literal["raw", "textual", "object", "attribute"]
"""How finely a state is told: the observation as it is; its facts as sentences; sentences under the object that they
are about; values under the attributes of objects (StateFactory, appendix C.5.1, levels 1 to 4)."""

GRANULARITIES: tuple[str, ...] = get_args(Granularity)

ENTANGLED = "description"
"""The one attribute of an object whose sentences are not taken apart."""


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


def coarsened(state: FactoredState, granularity: str) -> FactoredState:
    """The same facts at a coarser granularity than `attribute`.

    Sentences and raw text are identities without attributes, so that one way of comparing serves all four.
    """
    if granularity == "object":
        told = {entity.identity: {ENTANGLED: "; ".join(entity.sentences())} for entity in state.entities}
        return factored(told)
    if granularity == "textual":
        return factored({sentence: {} for entity in state.entities for sentence in entity.sentences()})
    return state


def raw(text: str) -> FactoredState:
    """A text as it is; nothing where it is blank."""
    return factored({text: {}} if text.strip() else {})

"""Forms of answers that tell states: sentences, sentences under objects, or values under their attributes.

An answer tells what is new or changed; what it leaves out stays as it was (all but sentences, which are told anew). The
reference code has every state told whole: this costs fewer tokens, and small models forget nothing. Sizes are bounded.
"""

from typing import Annotated, Any, NamedTuple

from pydantic import BaseModel, Field

from certigraph.adapters.bounds import Cut
from certigraph.state.endings import UnknownName
from certigraph.state.factored import ENTANGLED, FactoredState, as_mapping, factored

MOST_OBJECTS = 12
"""Objects in one answer."""

MOST_KEPT = 40
"""Objects in a state; those that were told longest ago make room."""

Name = Annotated[str, Field(min_length=1), Cut(60)]
Phrase = Annotated[str, Cut(160)]


class Attribute(BaseModel):
    """One property of an object."""

    name: Name
    value: Phrase


class Object(BaseModel):
    """An object with its properties apart."""

    object: Name
    attributes: Annotated[list[Attribute], Cut(6)]


class Described(BaseModel):
    """An object with its properties in one sentence."""

    object: Name
    description: Phrase


class Objects(BaseModel):
    """The answer at the granularity `attribute`."""

    objects: Annotated[list[Object], Cut(MOST_OBJECTS)]


class Descriptions(BaseModel):
    """The answer at the granularity `object`."""

    objects: Annotated[list[Described], Cut(MOST_OBJECTS)]


class Sentences(BaseModel):
    """The answer at the granularity `textual`."""

    sentences: Annotated[list[Annotated[Phrase, Field(min_length=1)]], Cut(MOST_OBJECTS)]


class Telling(NamedTuple):
    """How states are told at a granularity."""

    form: type[BaseModel]
    order: str
    """What the prompt says of the form."""


def telling(factory: str, granularity: str) -> Telling:
    """The form of a granularity. Raises UnknownName for one that no model is asked for."""
    if granularity not in TELLINGS:
        told = f"known are {', '.join(TELLINGS)}; raw text needs no model: route=route:granularity=raw"
        raise UnknownName(f"{factory}(granularity={granularity!r}): {told}")
    return TELLINGS[granularity]


def merged(before: FactoredState, answer: Any) -> FactoredState:
    """The state before with what an answer tells: the latest told stand last, and the first ones make room."""
    if isinstance(answer, Sentences):
        return factored({text: {} for text in answer.sentences})
    known = as_mapping(before)
    for one in answer.objects:
        known[one.object] = {**known.pop(one.object, {}), **_told(one)}
    return factored(dict(list(known.items())[-MOST_KEPT:]))


def _told(one: Object | Described) -> dict[str, str]:
    if isinstance(one, Described):
        return {ENTANGLED: one.description}
    return {attribute.name: attribute.value for attribute in one.attributes}


def written(state: FactoredState) -> str:
    """The state as a prompt shows it: a line for each entity."""
    lines = (
        f"{entity.identity}: {'; '.join(f'{name} = {value}' for name, value in entity.attributes.items())}"
        if entity.attributes
        else entity.identity
        for entity in state.entities
    )
    return "\n".join(lines) or "(nothing)"


ATTRIBUTES = """\
Name each object as the world does, with its number where it has one. Take its properties apart: one short name for a
property (location, temperature, contents, open or closed, ...), one short value each, and the same names throughout."""

DESCRIPTIONS = "Name each object as the world does, with its number where it has one, and describe it in one sentence."

SENTENCES = "Tell it in short sentences, one fact each; tell all of them anew, those that still hold included."

TELLINGS = {
    "attribute": Telling(Objects, ATTRIBUTES),
    "object": Telling(Descriptions, DESCRIPTIONS),
    "textual": Telling(Sentences, SENTENCES),
}

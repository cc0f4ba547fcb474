"""Answer schemas of factored states, and the states that a model's answers describe.

A state is written as plain sentences, as one sentence for each object, or as values of attributes of objects
(StateFactory, appendix C.5.1). An answer is the whole state, or what has changed: objects that are new or different,
and facts that no longer hold.
"""

from typing import Annotated, Any, NamedTuple

from pydantic import BaseModel, ConfigDict, Field, create_model

from certigraph.adapters.models.schemas import MAX_ITEMS, FirstReasoning, Truncated
from certigraph.state.endings import UnknownName
from certigraph.state.rewards import DESCRIPTION_ATTRIBUTE, FactoredState, to_factored, to_mapping

Name = Annotated[str, Field(min_length=1)]


class Attribute(BaseModel):
    """One property of an object."""

    name: Name
    value: str


class Object(BaseModel):
    """An object with its properties apart."""

    object: Name
    attributes: Annotated[list[Attribute], Truncated(MAX_ITEMS)]


class Described(BaseModel):
    """An object with its properties in one sentence."""

    object: Name
    description: str


class Objects(BaseModel):
    """The answer at the granularity `attribute`."""

    reasoning: FirstReasoning = ""
    objects: Annotated[list[Object], Truncated(MAX_ITEMS)]


class Descriptions(BaseModel):
    """The answer at the granularity `object`."""

    reasoning: FirstReasoning = ""
    objects: Annotated[list[Described], Truncated(MAX_ITEMS)]


class Sentences(BaseModel):
    """The answer at the granularity `textual`."""

    reasoning: FirstReasoning = ""
    sentences: Annotated[list[Name], Truncated(MAX_ITEMS)]


class RemovedFact(BaseModel):
    """A fact that no longer holds: an attribute of an object, or the object itself."""

    object: Name
    attribute: str
    """Name of the attribute; empty for the object with all its attributes."""


Removed = Annotated[list[RemovedFact], Truncated(MAX_ITEMS)]

_ALL_REQUIRED = ConfigDict(json_schema_extra={"required": ["objects", "removed"]})
"""A model is asked for both lists, but an answer without the second one is accepted: nothing is removed."""


class ChangedObjects(Objects):
    """What has changed, at the granularity `attribute`."""

    model_config = _ALL_REQUIRED

    removed: Removed = []


class ChangedDescriptions(Descriptions):
    """What has changed, at the granularity `object`."""

    model_config = _ALL_REQUIRED

    removed: Removed = []


class AnswerLayout(NamedTuple):
    """Answer schemas for one granularity (level of detail) of a state, and the instruction that explains them."""

    form: type[BaseModel]
    """Schema of a whole state."""
    facts: type[BaseModel]
    """The same without reasoning, as a part of a larger answer."""
    changes: type[BaseModel]
    """Schema of what has changed; for sentences it is that of the whole state."""
    instruction: str
    """Part of the prompt that says how to fill in the schema."""


def layout_of(factory: str, granularity: str, values: str = "short") -> AnswerLayout:
    """Return the answer schemas and the instruction of a granularity (level of detail of a state).

    Args:
        factory: name of the operator factory, for the error message.
        granularity: attribute, object or textual.
        values: for the granularity attribute, whether a value is `short` or a `sentence`.

    Raises:
        UnknownName: there is no schema for this granularity, or no such form of values.
    """
    if granularity not in LAYOUTS:
        known = f"known are {', '.join(LAYOUTS)}; raw text needs no model: route=route:granularity=raw"
        raise UnknownName(f"{factory}(granularity={granularity!r}): {known}")
    if values not in VALUE_INSTRUCTIONS:
        raise UnknownName(f"{factory}(values={values!r}): known are {', '.join(VALUE_INSTRUCTIONS)}")
    layout = LAYOUTS[granularity]
    return layout._replace(instruction=layout.instruction.format(values=VALUE_INSTRUCTIONS[values]))


def is_in_sentences(answer: BaseModel) -> bool:
    """Return whether an answer is at the granularity `textual`."""
    return "sentences" in type(answer).model_fields


def read_answer(answer: Any) -> dict[str, dict[str, str]]:
    """Return the objects of a model's answer as nested dicts: identity -> attribute -> value."""
    if is_in_sentences(answer):
        return {text: {} for text in answer.sentences}
    objects: dict[str, dict[str, str]] = {}
    for one in answer.objects:
        objects.setdefault(one.object, {}).update(_attributes_of(one))
    return objects


def apply_changes(before: FactoredState, answer: Any) -> FactoredState:
    """Update the state `before` with what a model's answer says has changed.

    What no longer holds is removed first. Objects in the answer are merged into the state and move to its end.

    Args:
        before: the state before.
        answer: what has changed. Sentences are a whole state.
    """
    if is_in_sentences(answer):
        return to_factored(read_answer(answer))
    known = to_mapping(before)
    for fact in getattr(answer, "removed", ()):
        if not fact.attribute:
            known.pop(fact.object, None)
        elif fact.object in known:
            known[fact.object].pop(fact.attribute, None)
    for identity, attributes in read_answer(answer).items():
        known[identity] = {**known.pop(identity, {}), **attributes}
    return to_factored(known)


def _attributes_of(one: Object | Described) -> dict[str, str]:
    if isinstance(one, Described):
        return {DESCRIPTION_ATTRIBUTE: one.description}
    return {attribute.name: attribute.value for attribute in one.attributes}


def format_state(state: FactoredState) -> str:
    """Format a state for a prompt, one line for each object."""
    lines = (
        f"{entity.identity}: {'; '.join(f'{name} = {value}' for name, value in entity.attributes.items())}"
        if entity.attributes
        else entity.identity
        for entity in state.entities
    )
    return "\n".join(lines) or "(nothing)"


ATTRIBUTES_ORDER = """\
Name each object as the world does, with its number where it has one. List its properties separately: a short name for
each (location, temperature, state as open or closed, ...) and {values}. Use the names of properties that are in use
already, the world's own word for a condition that it names, and the wanted wording of a value where it says the same.
A fact has one place: where a thing is stands at the thing itself, as its location (for what is carried, the agent or
what the world names as holding it), and not at what holds it; only what is seen to be empty has contents = nothing.
Where the world lists all that holds, what it no longer lists has ended."""

VALUE_INSTRUCTIONS = {"short": "a short value", "sentence": "its value as a short sentence that is complete by itself"}
"""How values of attributes are written, by the name of the form."""

DESCRIPTIONS_ORDER = (
    "Name each object as the world does, with its number where it has one, and describe it in one sentence."
)

SENTENCES_ORDER = "Write short sentences with one fact each: all facts, those included that held before and still hold."


def _without_reasoning(form: type[BaseModel]) -> type[BaseModel]:
    fields: Any = {name: (field.annotation, field) for name, field in form.model_fields.items() if name != "reasoning"}
    return create_model(form.__name__, **fields)


LAYOUTS = {
    "attribute": AnswerLayout(Objects, _without_reasoning(Objects), ChangedObjects, ATTRIBUTES_ORDER),
    "object": AnswerLayout(Descriptions, _without_reasoning(Descriptions), ChangedDescriptions, DESCRIPTIONS_ORDER),
    "textual": AnswerLayout(Sentences, _without_reasoning(Sentences), Sentences, SENTENCES_ORDER),
}

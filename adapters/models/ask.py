"""The one way to ask a model: prompt, schema, role -> a validated answer, every try counted."""

from collections.abc import Sequence
from typing import Any, NamedTuple, TypeVar

from langchain_core.messages import HumanMessage, SystemMessage
from langgraph.runtime import Runtime
from pydantic import BaseModel

from certigraph.adapters.context import Context
from certigraph.adapters.models.parsing import ParseError, parse
from certigraph.adapters.models.schemas import schema_of
from certigraph.adapters.models.trying import A, Form, answered

T = TypeVar("T", bound=BaseModel)

MAX_THOUGHT = 100
"""Characters of the thought before a choice."""


class Prompt(NamedTuple):
    """What never changes first, so that prefix caches hit: `system` per task, `user` per question."""

    system: str
    user: str


class Choice(NamedTuple):
    """A chosen text and the thought that led to it."""

    thought: str
    choice: str


async def ask(
    prompt: Prompt,
    schema: type[T],
    *,
    role: str,
    runtime: Runtime[Context],
    temperature: float | None = None,
    sample: int = 0,
) -> T:
    """Ask the model of a role for an instance of a pydantic type, at its own temperature unless one is given.

    `sample` numbers several independent answers to one prompt, which a cache of replies keeps apart. It is not sent.

    Raises:
        LimitReached: the run's budget has no room for another call.
        Fault: the endpoint failed, or no answer in three tries was an instance.
    """
    shape = schema_of(schema)
    settings = {} if temperature is None else {"temperature": temperature}
    form = Form(schema.__name__, shape, lambda text: schema.model_validate(parse(text, shape)), settings, sample)
    return await _answer(prompt, form, role, runtime)


async def ask_text(prompt: Prompt, *, role: str, runtime: Runtime[Context], tokens: int | None = None) -> str:
    """Ask the model of a role for prose, cut off after `tokens` where given. Raises as `ask` does."""
    settings = {"max_tokens": tokens} if tokens else {}
    return await _answer(prompt, Form("text", None, str.strip, settings), role, runtime)


async def choose(prompt: Prompt, options: Sequence[str], *, role: str, runtime: Runtime[Context]) -> str:
    """Ask the model of a role for one of some texts, which the prompt should show. Raises as `ask` does."""
    texts = list(dict.fromkeys(options))
    return (await _answer(prompt, _choice_form(texts, {}), role, runtime)).choice


async def deliberate(prompt: Prompt, options: Sequence[str], *, role: str, runtime: Runtime[Context]) -> Choice:
    """As `choose`, with a short thought before the choice."""
    thought = {"thought": {"type": "string", "maxLength": MAX_THOUGHT}}
    texts = list(dict.fromkeys(options))
    return await _answer(prompt, _choice_form(texts, thought), role, runtime)


async def _answer(prompt: Prompt, form: Form[A], role: str, runtime: Runtime[Context]) -> A:
    question = [SystemMessage(prompt.system), HumanMessage(prompt.user)]
    return await answered(question, form, role, runtime.context or Context())


def _choice_form(texts: list[str], before: dict[str, Any]) -> "Form[Choice]":
    if not texts:
        raise ValueError("a choice needs at least one option; an empty one is the operator's to handle")
    parts = {**before, "choice": {"type": "string", "enum": texts}}
    shape = {"type": "object", "properties": parts, "required": [*parts], "additionalProperties": False}
    return Form("choice", shape, lambda text: _chosen(parse(text, shape), texts))


def _chosen(value: dict[str, Any], options: list[str]) -> Choice:
    choice = value.get("choice")
    if choice not in options:
        raise ParseError(f"{choice!r} is not one of the {len(options)} options")
    return Choice(str(value.get("thought", "")), str(choice))

"""The one way to ask a model: prompt, schema, role -> a validated answer, every try counted."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Generic, NamedTuple, TypeVar

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage
from langgraph.runtime import Runtime
from pydantic import BaseModel, ValidationError

from certigraph.adapters.context import Context
from certigraph.adapters.models.chat import model_label
from certigraph.adapters.models.endpoint import Reply, send, written
from certigraph.adapters.models.failures import SHOWN
from certigraph.adapters.models.meter import Call, current_meter
from certigraph.adapters.models.minds import model_for
from certigraph.adapters.models.parsing import ParseError, parse
from certigraph.adapters.models.price_table import Price, cached_tokens
from certigraph.adapters.models.prices import price_of, usd
from certigraph.adapters.models.redact import redact
from certigraph.adapters.models.reply_cache import Kept, kept
from certigraph.adapters.models.schemas import Schema, schema_of
from certigraph.state.endings import Fault, Stopped

T = TypeVar("T", bound=BaseModel)
A = TypeVar("A")

TRIES = 3
MAX_THOUGHT = 100
"""Characters of the thought before a choice."""

LAST_TRY_SHOWN = 2_000
"""Characters of a failed answer that the model sees again."""


class Prompt(NamedTuple):
    """What never changes first, so that prefix caches hit: `system` per task, `user` per question."""

    system: str
    user: str


class Choice(NamedTuple):
    """A chosen text and the thought that led to it."""

    thought: str
    choice: str


class _Form(NamedTuple, Generic[A]):
    """The form of an answer: its schema, None for prose, and how its text is read."""

    name: str
    schema: Schema | None
    read: Callable[[str], A]
    settings: Mapping[str, float] = {}
    """How the model is to answer where that is not its own way: `max_tokens`, `temperature`."""

    @property
    def key(self) -> str:
        """What tells it from other forms in the cache of replies."""
        return ":".join([self.name, *(f"{name}={value}" for name, value in self.settings.items())])


class _UnusableError(Exception):
    """An answer came, and it is not of the form."""

    def __init__(self, text: str, reason: str) -> None:
        self.text, self.reason = text, reason
        super().__init__(f"{reason}; it said {text[:SHOWN]!r}")


async def ask(
    prompt: Prompt, schema: type[T], *, role: str, runtime: Runtime[Context], temperature: float | None = None
) -> T:
    """Ask the model of a role for an instance of a pydantic type, at its own temperature unless one is given.

    Raises:
        LimitReached: the run's budget has no room for another call.
        Fault: the endpoint failed, or no answer in three tries was an instance.
    """
    shape = schema_of(schema)
    settings = {} if temperature is None else {"temperature": temperature}
    form = _Form(schema.__name__, shape, lambda text: schema.model_validate(parse(text, shape)), settings)
    return await _answer(prompt, form, role, runtime)


async def ask_text(prompt: Prompt, *, role: str, runtime: Runtime[Context], tokens: int | None = None) -> str:
    """Ask the model of a role for prose, cut off after `tokens` where given. Raises as `ask` does."""
    settings = {"max_tokens": tokens} if tokens else {}
    return await _answer(prompt, _Form("text", None, str.strip, settings), role, runtime)


async def choose(prompt: Prompt, options: Sequence[str], *, role: str, runtime: Runtime[Context]) -> str:
    """Ask the model of a role for one of some texts, which the prompt should show. Raises as `ask` does."""
    texts = list(dict.fromkeys(options))
    return (await _answer(prompt, _choice_form(texts, {}), role, runtime)).choice


async def deliberate(prompt: Prompt, options: Sequence[str], *, role: str, runtime: Runtime[Context]) -> Choice:
    """As `choose`, with a short thought before the choice."""
    thought = {"thought": {"type": "string", "maxLength": MAX_THOUGHT}}
    texts = list(dict.fromkeys(options))
    return await _answer(prompt, _choice_form(texts, thought), role, runtime)


def _choice_form(texts: list[str], before: dict[str, Any]) -> "_Form[Choice]":
    if not texts:
        raise ValueError("a choice needs at least one option; an empty one is the operator's to handle")
    parts = {**before, "choice": {"type": "string", "enum": texts}}
    shape = {"type": "object", "properties": parts, "required": [*parts], "additionalProperties": False}
    return _Form("choice", shape, lambda text: _chosen(parse(text, shape), texts))


def _chosen(value: dict[str, Any], options: list[str]) -> Choice:
    choice = value.get("choice")
    if choice not in options:
        raise ParseError(f"{choice!r} is not one of the {len(options)} options")
    return Choice(str(value.get("thought", "")), str(choice))


async def _answer(prompt: Prompt, form: _Form[A], role: str, runtime: Runtime[Context]) -> A:
    context = runtime.context or Context()
    model = await model_for(role, context)
    question = [SystemMessage(prompt.system), HumanMessage(prompt.user)]
    failed = None
    for _ in range(TRIES):
        try:
            messages = [*question, *_correction(form, failed)]
            place = kept(context, model, messages, form.key, form.schema)
            return await _try(model, messages, form, role, place)
        except _UnusableError as error:
            failed = error
    raise Fault("model", redact(f"{model_label(model)} gave no {form.name} in {TRIES} tries: {failed}"))


async def _try(model: BaseChatModel, messages: list[BaseMessage], form: _Form[A], role: str, place: Kept) -> A:
    meter, price = current_meter(), price_of(model)
    call = Call(role=role, model=model_label(model), schema_name=form.name)
    with meter.calling(model_label(model), price):
        try:
            async with meter.within_seconds():
                reply = await place.find() or await send(model, messages, form.name, form.schema, form.settings)
        except (Stopped, asyncio.CancelledError) as lost:
            meter.charge(call.model_copy(update={"failure": str(lost) or "cancelled"}))
            raise
    reply = reply._replace(text=redact(reply.text))  # what a model says goes into state, stores and caches
    try:
        answer = _read(form, reply)
    except (ParseError, ValidationError) as error:
        unusable = _UnusableError(reply.text, _brief(error))
        meter.charge(_billed(call, price, reply, str(unusable)))
        raise unusable from error
    meter.charge(_billed(call, price, reply))
    await place.keep(reply)
    return answer


def _read(form: _Form[A], reply: Reply) -> A:
    if reply.cut and form.schema is not None:
        raise ParseError(f"the endpoint ended the answer early ({reply.cut})")
    return form.read(reply.text)


def _billed(call: Call, price: Price | None, reply: Reply, failure: str = "") -> Call:
    return call.model_copy(
        update={
            "input_tokens": reply.usage["input_tokens"],
            "output_tokens": reply.usage["output_tokens"],
            "cached_tokens": cached_tokens(reply.usage),
            "usd": usd(price, reply.usage),
            "seconds": reply.seconds,
            "failure": failure,
            "cached": reply.cached,
        }
    )


def _correction(form: _Form[A], failed: _UnusableError | None) -> list[BaseMessage]:
    """The last failed try and what is wrong with it; earlier ones would only be imitated."""
    if failed is None or form.schema is None:
        return []
    note = f"That answer cannot be used: {failed.reason}.\n{written(form.schema)}"
    return [AIMessage(failed.text[:LAST_TRY_SHOWN]), HumanMessage(note)]


def _brief(error: ParseError | ValidationError) -> str:
    if isinstance(error, ParseError):
        return str(error)[:SHOWN]
    parts = (
        f"{'.'.join(map(str, e['loc']))}: {e['msg']}" for e in error.errors(include_url=False, include_input=False)
    )
    return "; ".join(parts)[:SHOWN]

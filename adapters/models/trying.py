"""One question until it is answered: bad answers are shown back, passing failures waited out, every try is counted."""

import asyncio
from collections.abc import Callable, Mapping
from typing import Generic, NamedTuple, TypeVar

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from langchain_core.messages.utils import count_tokens_approximately
from pydantic import ValidationError

from certigraph.adapters.context import Context
from certigraph.adapters.models.chat import model_label
from certigraph.adapters.models.endpoint import Reply, send, written
from certigraph.adapters.models.failures import SHOWN, PassingFault
from certigraph.adapters.models.meter import Call, current_meter
from certigraph.adapters.models.minds import model_for
from certigraph.adapters.models.parameters import ParameterRefused, refused_by, remember_refused
from certigraph.adapters.models.parsing import ParseError
from certigraph.adapters.models.price_table import Price, cached_tokens
from certigraph.adapters.models.prices import price_of, usd
from certigraph.adapters.models.redact import redact, redact_message
from certigraph.adapters.models.reply_cache import Kept, kept
from certigraph.adapters.models.schemas import Schema
from certigraph.adapters.models.scripted import ScriptedChat
from certigraph.state.endings import Fault

A = TypeVar("A")

TRIES = 3

PAUSES = (0.5, 5.0)
"""Seconds before a request is repeated whose endpoint failed in passing, where it asks for no others."""

LAST_TRY_SHOWN = 2_000
"""Characters of a failed answer that the model sees again."""


class Form(NamedTuple, Generic[A]):
    """The form of an answer: its schema, None for prose, and how its text is read."""

    name: str
    schema: Schema | None
    read: Callable[[str], A]
    settings: Mapping[str, float] = {}
    """How the model is to answer where that is not its own way: `max_tokens`, `temperature`."""
    sample: int = 0
    """Which of several independent answers to the same question this is."""

    @property
    def key(self) -> str:
        """What tells it from other forms in the cache of replies."""
        told = {**self.settings, **({"sample": self.sample} if self.sample else {})}
        return ":".join([self.name, *(f"{name}={value}" for name, value in told.items())])


class _UnusableError(Exception):
    """An answer came, and it is not of the form."""

    def __init__(self, text: str, reason: str) -> None:
        self.text, self.reason = text, reason
        super().__init__(f"{reason}; it said {text[:SHOWN]!r}")


async def answered(question: list[BaseMessage], form: Form[A], role: str, context: Context) -> A:
    """The answer of a role's model, read by its form.

    Raises:
        LimitReached: the run's budget has no room for another call.
        Fault: the endpoint failed, or no answer in three tries was of the form.
    """
    model = await model_for(role, context)
    failed = None
    for _ in range(TRIES):
        try:
            messages = [*question, *_correction(form, failed)]
            place = kept(context, model, messages, form.key, form.schema)
            return await _patiently(model, messages, form, role, place)
        except _UnusableError as error:
            failed = error
    raise Fault("model", redact_message(f"{model_label(model)} gave no {form.name} in {TRIES} tries: {failed}"))


async def _patiently(model: BaseChatModel, messages: list[BaseMessage], form: Form[A], role: str, place: Kept) -> A:
    """One try; a request that was refused or failed in passing is made again, each time as a call of the budget."""
    without, lasting, pauses = refused_by(model), set[str](), iter(PAUSES)
    while True:
        try:
            answer = await _try(model, messages, form, role, place, without)
            remember_refused(model, lasting)
            return answer
        except _UnusableError:
            remember_refused(model, lasting)  # the request was taken, whatever the answer is worth
            raise
        except ParameterRefused as refused:
            without |= {refused.parameter}
            lasting |= {refused.parameter} if refused.lasting else set()
        except PassingFault as passing:
            if (pause := next(pauses, None)) is None:
                raise
            async with current_meter().within_seconds():
                await asyncio.sleep(passing.wait or pause)


async def _try(
    model: BaseChatModel,
    messages: list[BaseMessage],
    form: Form[A],
    role: str,
    place: Kept,
    without: frozenset[str],
) -> A:
    meter, price = current_meter(), price_of(model)
    call = Call(role=role, model=model_label(model), schema_name=form.name)
    # a script answers in this process: nothing is sent that a kill could leave unrecorded
    logged = not isinstance(model, ScriptedChat)
    prompt_tokens = count_tokens_approximately(messages) if logged else 0
    with meter.calling(call, price, prompt_tokens=prompt_tokens, logged=logged) as opened:
        async with meter.within_seconds():
            found = await place.find()
            reply = found or await send(model, messages, form.name, form.schema, form.settings, without)
        opened.settle(_billed(call, price, reply))
        reply = reply._replace(text=redact(reply.text))  # what a model says goes into state, stores and caches
        try:
            answer = _read(form, reply)
        except (ParseError, ValidationError) as error:
            unusable = _UnusableError(reply.text, _brief(error))
            opened.settle(_billed(call, price, reply, str(unusable)))
            raise unusable from error
    await place.keep(reply)
    return answer


def _read(form: Form[A], reply: Reply) -> A:
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


def _correction(form: Form[A], failed: _UnusableError | None) -> list[BaseMessage]:
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

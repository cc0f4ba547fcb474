"""Calls of language models: from a prompt, an answer schema and a role to a validated answer.

`ask`, `ask_text` and `choose` are the functions that operators call. The module also chooses the model of a role,
repeats requests, and formats parts of prompts.
"""

import asyncio
import warnings
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any, Generic, NamedTuple, Protocol, TypeVar, cast

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage
from langchain_core.messages.utils import count_tokens_approximately
from langgraph.runtime import Runtime
from pydantic import BaseModel, ValidationError

from certigraph.adapters.benchmarks import live_benchmark
from certigraph.adapters.composed_chat import ComposedChat, unwrap_model
from certigraph.adapters.models.attachments import attach
from certigraph.adapters.models.chat_models import (
    IGNORED_FORMAT,
    RESPONSE_FORMAT,
    ParameterRefused,
    chat_model,
    describe_model,
    is_embedded,
    is_scripted,
    model_label,
    refused_parameters,
    remember_refused,
)
from certigraph.adapters.models.cuts import LENGTH_MARKS
from certigraph.adapters.models.endpoint import (
    MAX_SHOWN_CHARACTERS,
    TOOLS,
    ModelReply,
    ModelRequest,
    TransientFault,
    compose_request,
    format_schema,
    send_request,
)
from certigraph.adapters.models.exchanges import Exchange
from certigraph.adapters.models.prices import ListPrice, Price, cached_tokens, cost_in_usd, price_of
from certigraph.adapters.models.profiles import ModelProfile, profile_for
from certigraph.adapters.models.prompts import Prompt, fit_prompt
from certigraph.adapters.models.reply_cache import ReplyCacheEntry, reply_cache_entry
from certigraph.adapters.models.request_watch import RequestWatch
from certigraph.adapters.models.schemas import (
    THOUGHT_KEY,
    ParseError,
    Schema,
    bound_schema,
    constant_schema,
    find_offered,
    offered_schema,
    parse_reply,
    schema_of,
)
from certigraph.adapters.models.scripts import ScriptedChat, use_about
from certigraph.adapters.models.streams import ReplyStream
from certigraph.adapters.models.usage import Call, current_meter
from certigraph.adapters.protocols import Context, Responder
from certigraph.adapters.redaction import redact, redact_message
from certigraph.state.endings import UnusableAnswer

# Choice of the model of a role.


class ScriptedModelWarning(UserWarning):
    """Warning that no model was named, so that a scripted model answers. Issued once per process."""


@cache
def warn_scripted_default(model: str) -> None:
    """Warn, once per process, that no model was named and that the scripted model `model` answers."""
    fix = "name one, as in Context(model='openai:NAME')"
    message = f"the context names no model, so that the default answers: {describe_model(model)}; {fix}"
    warnings.warn(message, ScriptedModelWarning, stacklevel=2)


class ModelsByRole(Protocol):
    """A model object for `Context.chat` that provides a different chat model for each role."""

    def for_role(self, role: str) -> BaseChatModel:
        """Return the model of a role."""
        ...


async def model_for(role: str, context: Context) -> BaseChatModel:
    """Return the chat model of a role.

    It is the model that the context has for this role, as an object or by name, else the model object in `context.chat`
    or the model that the context names for all roles. If the context has rates of faults, faults are injected into it.
    """
    model = await _model_by_name(role, context)
    if not context.faults:
        return model
    from certigraph.adapters.models.faults import FaultyModel

    return FaultyModel(chat=model, faults=context.faults, trial=context.trial)


def is_played_by_script(role: str, runtime: Runtime[Context]) -> bool:
    """Return whether a scripted or simulated model, which costs nothing, was chosen by name for a role."""
    context = runtime.context or Context()
    return isinstance(chosen := chosen_model(role, context), str) and is_scripted(chosen)


def chosen_model(role: str, context: Context) -> BaseChatModel | str:
    """Return the model of a role as it was given: an object or a name."""
    chat: Any = context.chat
    if hasattr(type(chat), "for_role"):  # an `isinstance` of a protocol is slow
        return cast(ModelsByRole, chat).for_role(role)
    return context.chats.get(role) or context.roles.get(role) or chat or context.model


async def profile_of(role: str, runtime: Runtime[Context]) -> ModelProfile:
    """Return the profile of a role's model, which says how much a prompt may hold."""
    context = runtime.context or Context()
    return await profile_for(await model_for(role, context), context.window)


async def _model_by_name(role: str, context: Context) -> BaseChatModel:
    chosen = chosen_model(role, context)
    if isinstance(chosen, ComposedChat):
        return chosen.resolve()
    if not isinstance(chosen, str):
        return chosen
    if is_scripted(chosen):
        if role not in context.roles and "model" not in context.model_fields_set:
            warn_scripted_default(chosen)
        return chat_model(chosen, expert=_expert_of(context), trial=context.trial)
    # weights and certificates are read from disk, which must not block the event loop
    return await asyncio.to_thread(chat_model, chosen)


def _expert_of(context: Context) -> Responder | None:
    benchmark = live_benchmark(context)
    return benchmark.expert() if benchmark else None


# Requests for one answer until it is valid: invalid answers are shown to the model, transient failures are followed by
# a pause, and every request counts as a call.

A = TypeVar("A")

MAX_TRIES = 3
"""Maximum number of answers that are requested until one is valid."""

RETRY_PAUSES = (0.5, 5.0)
"""Seconds before the first and the second repetition after a transient failure, unless the endpoint asks for another
time."""

MAX_SHOWN_ANSWER_CHARACTERS = 2_000
"""Maximum characters of an invalid answer that the model is shown again."""


class AnswerForm(NamedTuple, Generic[A]):
    """What an answer must look like: its JSON schema (None for prose), and the function that parses its text."""

    name: str
    schema: Schema | None
    read: Callable[[str], A]
    settings: Mapping[str, float] = {}
    """Settings of the request that differ from the model's own: `max_tokens`, `temperature`."""
    sample: int = 0
    """Number of this sample among several independent answers to the same prompt."""
    cut: tuple[str, ...] = ()
    """What was left out of the prompt because of the model's context window."""
    window: int = 0
    """Tokens of that window; 0 if nothing was left out."""
    tools: tuple[Schema, ...] = ()
    """Tools that the model may call natively; its calls are then read as JSON that fits `schema`."""
    stream: ReplyStream | None = None
    """What shows the answer while it arrives."""
    varies: bool = False
    """Whether parts of the schema may differ from request to request: a model is first asked without them
    (`constant_schema`)."""

    @property
    def key(self) -> str:
        """Name of the answer schema with settings and sample number, a part of the key in the cache of replies."""
        settings = {**self.settings, **({"sample": self.sample} if self.sample else {})}
        return ":".join([self.name, *(f"{name}={value}" for name, value in settings.items())])


class _UnusableError(Exception):
    """An answer arrived but does not fit its schema."""

    def __init__(self, text: str, reason: str, *, called: bool, ignored: str) -> None:
        self.text, self.reason, self.called = text, reason, called
        self.ignored = ignored
        """What the reply ignores, IGNORED_FORMAT or TOOLS; empty if it ignores neither."""
        super().__init__(f"{reason}; the reply was {text[:MAX_SHOWN_CHARACTERS]!r}")


async def request_answer(request: list[BaseMessage], form: AnswerForm[A], role: str, context: Context) -> A:
    """Request an answer from the model of a role, up to three times until one is valid, and return it parsed.

    Args:
        request: the messages of the prompt; what is attached to the run's request is added to the last one.
        form: schema and parser of the answer.
        role: role of the model.
        context: the run's context, which names the models.

    Raises:
        LimitReached: the run's budget does not allow another call.
        Fault: the endpoint failed.
        UnusableAnswer: none of three answers was valid.
    """
    model = await model_for(role, context)
    request = attach(context.attachments, request, model)
    failed = None
    for number in range(1, MAX_TRIES + 1):
        if number == MAX_TRIES and form.tools and failed and not failed.called:
            form = form._replace(tools=())  # an endpoint that ignores tools is asked by the schema in the end
        try:
            messages = [*request, *_correction_messages(form, failed)]
            entry = reply_cache_entry(context, model, messages, form.key, form.schema)
            sent = form if failed or is_constrained(model) else _with_constant_schema(form)
            answer = await _request_with_retries(model, messages, sent, role, entry)
        except _UnusableError as error:
            failed = error
        else:
            if failed and failed.ignored and (failed.ignored != TOOLS or not form.tools):
                remember_refused(model, {failed.ignored})  # from now on the prompt holds the schema
            return answer
    reason = redact_message(f"{model_label(model)} gave no {form.name} in {MAX_TRIES} tries: {failed}")
    raise UnusableAnswer("model", reason)


def is_constrained(model: BaseChatModel) -> bool:
    """Return whether a schema binds a model's answers and is not part of its prompt: a scripted or embedded model."""
    return isinstance(unwrap_model(model), ScriptedChat) or is_embedded(model)


def _with_constant_schema(form: AnswerForm[A]) -> AnswerForm[A]:
    return form._replace(schema=constant_schema(form.schema)) if form.varies and form.schema else form


async def _request_with_retries(
    model: BaseChatModel, messages: list[BaseMessage], form: AnswerForm[A], role: str, entry: ReplyCacheEntry
) -> A:
    """Request one answer, valid or not.

    The request is repeated after a transient failure, and without a parameter that the endpoint refused. Every request
    counts as a call in the budget.
    """
    omitted, lasting, pauses = refused_parameters(model), set[str](), iter(RETRY_PAUSES)
    while True:
        try:
            answer = await _request_once(model, messages, form, role, entry, omitted)
            remember_refused(model, lasting)
            return answer
        except _UnusableError:
            remember_refused(model, lasting)  # the endpoint accepted the request, although the answer is invalid
            raise
        except ParameterRefused as refused:
            omitted |= {refused.parameter}
            lasting |= {refused.parameter} if refused.lasting else set()
        except TransientFault as transient:
            if (pause := next(pauses, None)) is None:
                raise
            async with current_meter().within_seconds():
                await asyncio.sleep(transient.wait or pause)


async def _request_once(
    model: BaseChatModel,
    messages: list[BaseMessage],
    form: AnswerForm[A],
    role: str,
    entry: ReplyCacheEntry,
    omitted: frozenset[str],
) -> A:
    meter, price = current_meter(), price_of(model)
    call = Call(role=role, model=model_label(model), schema_name=form.name, cut=form.cut, window=form.window)
    # a scripted model answers in this process: no request can be lost when the process is killed
    logged = not isinstance(model, ScriptedChat)
    prompt_tokens = count_tokens_approximately(messages) if logged else 0
    request = compose_request(messages, form.name, form.schema, form.settings, omitted, form.tools)
    exchange = Exchange(request.messages, request.parameters)
    with meter.open_call(call, price, exchange, prompt_tokens=prompt_tokens, logged=logged) as opened:
        watch = RequestWatch(opened.repeat, meter.check)
        async with meter.within_seconds():
            reply = await entry.load() or await send_request(model, request, omitted, form.stream, watch)
        opened.settle(_add_usage(call, price, reply))
        reply = reply._replace(text=redact(reply.text))  # replies enter state, stores and caches
        exchange.reply = reply.text
        try:
            answer = _read_answer(form, reply)
        except (ParseError, ValidationError) as error:
            ignored = _ignored_parameter(request, reply)
            unusable = _UnusableError(reply.text, _format_validation_error(error), called=reply.called, ignored=ignored)
            opened.settle(_add_usage(call, price, reply, str(unusable)))
            raise unusable from error
    await entry.store(reply)
    return answer


def _read_answer(form: AnswerForm[A], reply: ModelReply) -> A:
    # prose that is only too long can be read as far as it goes
    if reply.cut and (form.schema is not None or reply.cut not in LENGTH_MARKS):
        raise ParseError(f"the endpoint ended the answer early ({reply.cut})")
    return form.read(reply.text)


def _ignored_parameter(request: ModelRequest, reply: ModelReply) -> str:
    """Return what a complete reply ignores that is prose without any JSON: IGNORED_FORMAT, TOOLS or nothing."""
    if reply.cut or reply.called or not reply.text.strip() or "{" in reply.text:
        return ""
    if TOOLS in request.parameters:
        return TOOLS
    return IGNORED_FORMAT if RESPONSE_FORMAT in request.parameters else ""


def _add_usage(call: Call, price: Price | ListPrice | None, reply: ModelReply, failure: str = "") -> Call:
    return call.model_copy(
        update={
            "input_tokens": reply.usage["input_tokens"],
            "output_tokens": reply.usage["output_tokens"],
            "cached_tokens": cached_tokens(reply.usage),
            "usd": cost_in_usd(price, reply.usage),
            "seconds": reply.seconds,
            "failure": failure,
            "cached": reply.cached,
        }
    )


def _correction_messages(form: AnswerForm[A], error: _UnusableError | None) -> list[BaseMessage]:
    """Return messages with the last invalid answer and its error.

    Earlier invalid answers are left out, because models would imitate them.
    """
    if error is None or form.schema is None:
        return []
    request = CALL_AGAIN if form.tools else format_schema(form.schema)
    note = f"That answer cannot be used: {error.reason}.\n{request}"
    return [AIMessage(error.text[:MAX_SHOWN_ANSWER_CHARACTERS] or EMPTY_ANSWER), HumanMessage(note)]


CALL_AGAIN = "Make the call again, corrected."
EMPTY_ANSWER = "(empty)"
"""Shown in place of an empty answer, because endpoints refuse messages without text."""


def _format_validation_error(error: ParseError | ValidationError) -> str:
    if isinstance(error, ParseError):
        return str(error)[:MAX_SHOWN_CHARACTERS]
    parts = (
        f"{'.'.join(map(str, e['loc']))}: {e['msg']}" for e in error.errors(include_url=False, include_input=False)
    )
    return "; ".join(parts)[:MAX_SHOWN_CHARACTERS]


# The functions that operators call to ask a model.

T = TypeVar("T", bound=BaseModel)

JSON_INSTRUCTION = "Answer with one JSON object and nothing else."
"""Last line of the system prompt of every request with an answer schema."""


class ReasonedChoice(NamedTuple):
    """A chosen text and the thought that precedes it."""

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
    about: Mapping[str, Any] | None = None,
) -> T:
    """Ask the model of a role for an instance of a pydantic type.

    Args:
        prompt: the prompt.
        schema: the pydantic type that the answer must fit.
        role: one of ROLES, such as "planner".
        runtime: the run's LangGraph runtime; its context names the models.
        temperature: sampling temperature; None keeps the model's own.
        sample: number of this answer among several independent answers to one prompt. It is not sent; it only keeps the
            answers apart in the cache of replies.
        about: values by name that tell what the request is about, for scripted models, which do not read prompts. They
            are added to the part of the state that the operator reads.

    Raises:
        LimitReached: the run's budget does not allow another call.
        Fault: the endpoint failed, or none of three answers was valid.
    """
    profile = await profile_of(role, runtime)
    shape = schema_of(schema, profile.most_characters)
    settings = {} if temperature is None else {"temperature": temperature}
    form = AnswerForm(
        schema.__name__,
        shape,
        lambda text: schema.model_validate(parse_reply(text, shape)),
        settings,
        sample,
        varies=not profile.most_characters,
    )
    with use_about(about or {}):
        return await _ask_form(prompt, form, profile, role, runtime)


async def ask_text(
    prompt: Prompt,
    *,
    role: str,
    runtime: Runtime[Context],
    tokens: int | None = None,
    about: Mapping[str, Any] | None = None,
) -> str:
    """Ask the model of a role for prose of at most `tokens` tokens; None sets no limit.

    The other arguments and the exceptions are those of `ask`.
    """
    profile = await profile_of(role, runtime)
    form = AnswerForm("text", None, str.strip, {"max_tokens": tokens} if tokens else {})
    with use_about(about or {}):
        return await _ask_form(prompt, form, profile, role, runtime)


async def choose(prompt: Prompt, options: Sequence[str], *, role: str, runtime: Runtime[Context]) -> str:
    """Ask the model of a role to choose one of several texts, which the prompt should show.

    The exceptions are those of `ask`.
    """
    profile = await profile_of(role, runtime)
    return (await _ask_form(prompt, _choice_form(options, {}, profile), profile, role, runtime)).choice


async def deliberate(prompt: Prompt, options: Sequence[str], *, role: str, runtime: Runtime[Context]) -> ReasonedChoice:
    """Ask the model of a role to choose one of several texts after a thought.

    Arguments and exceptions are those of `choose`.
    """
    profile, thought = await profile_of(role, runtime), {"thought": {"type": "string", THOUGHT_KEY: True}}
    return await _ask_form(prompt, _choice_form(options, thought, profile), profile, role, runtime)


async def _ask_form(
    prompt: Prompt, form: AnswerForm[A], profile: ModelProfile, role: str, runtime: Runtime[Context]
) -> A:
    if form.schema:
        prompt = prompt._replace(system=f"{prompt.system}\n{JSON_INSTRUCTION}")
    prompt = fit_prompt(prompt, profile.prompt_tokens)
    messages = [SystemMessage(prompt.system), HumanMessage(prompt.user)]
    form = form._replace(cut=prompt.cut, window=profile.window if prompt.cut else 0)
    return await request_answer(messages, form, role, runtime.context or Context())


def _choice_form(
    options: Sequence[str], earlier_fields: dict[str, Any], profile: ModelProfile
) -> AnswerForm[ReasonedChoice]:
    if not options:
        raise ValueError("a choice needs at least one option: the operator must handle an empty list")
    texts, most = list(dict.fromkeys(options)), profile.most_characters
    fields = {**earlier_fields, "choice": offered_schema(texts)}
    complete = {"type": "object", "properties": fields, "required": [*fields], "additionalProperties": False}
    shape = bound_schema(complete, most)
    return AnswerForm("choice", shape, lambda text: _check_choice(parse_reply(text, shape), texts), varies=not most)


def _check_choice(value: dict[str, Any], options: list[str]) -> ReasonedChoice:
    choice = value.get("choice")
    found = find_offered(choice, options) if isinstance(choice, str) else None
    if found is None:
        raise ParseError(f"{choice!r:.200} is not one of the {len(options)} options")
    return ReasonedChoice(str(value.get("thought", "")), found)

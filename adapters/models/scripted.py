"""Scripted, random and simulated chat models."""

import hashlib
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from random import Random
from typing import Any, NamedTuple

from langchain_core.callbacks import AsyncCallbackManagerForLLMRun, CallbackManagerForLLMRun
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.messages.ai import UsageMetadata
from langchain_core.outputs import ChatGeneration, ChatResult
from pydantic import Field, PrivateAttr, ValidationError

from certigraph.adapters.models.schemas import Schema, minimal
from certigraph.adapters.models.usage import current_meter
from certigraph.adapters.processes import off_loop_waiting
from certigraph.adapters.protocols import Responder
from certigraph.state.records import Record, UnknownName

# Where a run stands while a node works: what a scripted mind may know besides the prompt. No model is told.


class Situation(NamedTuple):
    """The node at work, the superstep it works in, and the whole graph state before it."""

    node: str
    superstep: int
    state: Mapping[str, Any]


_SITUATION: ContextVar[Situation | None] = ContextVar("certigraph_situation", default=None)


@contextmanager
def situated(situation: Situation) -> Iterator[None]:
    """Let scripted minds that are asked inside the block know the situation."""
    token = _SITUATION.set(situation)
    try:
        yield
    finally:
        _SITUATION.reset(token)


def current_situation() -> Situation | None:
    """The situation of the node that is running; None outside a node."""
    return _SITUATION.get()


# A chat model without a model: deterministic answers to JSON schemas, for tests, examples and dry runs.

CHARS_PER_TOKEN = 4
TEXT: Schema = {"type": "string"}


class ScriptedChat(BaseChatModel):
    """Answers like an endpoint with JSON schema mode, from the messages and the schema alone.

    Without a responder the answer is the least instance of the schema. `replies` are given verbatim instead, in order,
    whatever was asked.
    """

    responder: Responder | None = Field(None, exclude=True)
    replies: tuple[str, ...] | None = None
    model_name: str = "scripted"
    free: bool = Field(True, exclude=True, description="whether its calls cost nothing")
    blocks: bool = Field(False, exclude=True, description="whether the responder may wait for a simulator")
    _given: int = PrivateAttr(0)

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        prompt = "\n\n".join(str(m.content) for m in messages)
        form = kwargs.get("response_format")
        text = self._next_reply() if self.replies is not None else self._answer(prompt, form)
        message = AIMessage(text, usage_metadata=_usage(prompt, text))
        return ChatResult(generations=[ChatGeneration(message=message)])

    async def _agenerate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        if self.blocks:
            return await off_loop_waiting(lambda: self._generate(messages, stop, **kwargs))
        return self._generate(messages, stop, **kwargs)

    def _next_reply(self) -> str:
        replies = self.replies or ()
        if self._given >= len(replies):
            raise LookupError(f"all {len(replies)} replies are given; pass more: ScriptedChat(replies=(...))")
        self._given += 1
        return replies[self._given - 1]

    def _answer(self, prompt: str, form: Schema | None) -> str:
        schema = form["json_schema"]["schema"] if form else TEXT
        value = self.responder(prompt, schema) if self.responder else minimal(schema)
        return json.dumps(value, ensure_ascii=False) if form else str(value)


def _usage(prompt: str, text: str) -> UsageMetadata:
    read, written = len(prompt) // CHARS_PER_TOKEN, len(text) // CHARS_PER_TOKEN
    return UsageMetadata(input_tokens=read, output_tokens=written, total_tokens=read + written)


# The random policy: it takes any option that a question offers, each as likely as the others.
#
# Of the actions of a world it takes any; where it is to write, it writes the least. One answer is not the least: a
# plan without conditions gives a task up before anything was done, so that it names one condition, which says
# nothing.

RANDOM = "scripted:random"

ONE = {"minItems": 1, "items": {"type": "string", "minLength": 1}}
"""A list of one text at least."""


def by_chance(trial: int = 0) -> Responder:
    """The mind: the least instance of the schema, but for options, of which it takes any, and one condition.

    Args:
        trial: which repetition of the task this is; each is drawn anew.
    """

    def respond(prompt: str, schema: Schema) -> Any:
        return minimal(_decided(_planning(schema), drawing(0, trial, prompt)))

    return respond


def drawing(seed: int, trial: int, prompt: str) -> Random:
    """Where a question's chance comes from: the same in every process, order and resumed run.

    It depends on when the question is asked too, so that a question asked again is drawn anew.
    """
    situation = current_situation()
    state = situation.state if situation else {}
    task = state["task"].id if "task" in state else ""
    step = situation.superstep if situation else 0
    digest = hashlib.sha256(prompt.encode()).hexdigest()
    return Random(f"{seed}:{trial}:{task}:{step}:{len(current_meter().records)}:{digest}")


def _planning(schema: Schema) -> Schema:
    """The schema, with at least one of the conditions that it may ask for."""
    parts = schema.get("properties", {})
    if "conditions" not in parts:
        return schema
    return {**schema, "properties": {**parts, "conditions": {**parts["conditions"], **ONE}}}


def _decided(node: Any, draw: Random) -> Any:
    """The schema with one option left of each list of options."""
    if isinstance(node, list):
        return [_decided(part, draw) for part in node]
    if not isinstance(node, dict):
        return node
    return {
        key: [draw.choice(part)] if key == "enum" and isinstance(part, list) else _decided(part, draw)
        for key, part in node.items()
    }


# How a right answer is spoiled: each field by its kind, told by its name and schema; it still fits its form.
#
# In research steps are proposed, and whether a finding is adequate is a verdict. What is looked up, what is found and
# the final answer stay right: `act` spoils nothing there (but the actions of ReAct), and `accept` meets no wrong
# finding.

PROPOSED = frozenset({"conditions", "steps", "subtask"})
"""Fields of answers that propose."""

CHOSEN = frozenset({"choice", "action"})
"""Fields of answers that act."""

MOST = 1_000
"""Proposals at most, where a form sets no limit."""

COUNTED = "holds"
"""The field of a verdict on several conditions: how many hold, from the first on."""

UNDONE = "undone"
"""The field of a verdict on conditions that held once: the numbers of those that do not hold any more."""

IMPOSSIBLE = "Something that no action brings about"
"""How a wrong proposal begins. It is in no world's words, so that experts and validators take it for false."""

GOAL = "goal"
"""The field of a step's text, where steps are objects."""

AGAIN = " (again)"
"""How the second of two equal conditions ends; plans merge equal texts."""

SLIP = "fumble"
"""A wrong action where actions are written freely: every world refuses it and stays as it was."""


class Errors(Record):
    """How often a simulated agent errs, each a probability for one condition, one action or one verdict.

    Where one verdict names those of several conditions that do not hold any more (revalidation), `accept` is drawn for
    each such condition, which is then not named. `reject` is drawn once for the verdict, which then also names one of
    the conditions that hold, chosen at random: of n of them, each is named wrongly at the rate `reject` / n.
    """

    propose: float = Field(0.1, ge=0, le=1, description="a proposed condition, step or subtask is an impossible one")
    split: float = Field(0.0, ge=0, le=1, description="a proposed condition comes twice: the plan is cut too finely")
    act: float = Field(0.2, ge=0, le=1, description="an action is another option, or a slip where it is written")
    accept: float = Field(0.1, ge=0, le=1, description="the validator accepts a condition that does not hold")
    reject: float = Field(0.1, ge=0, le=1, description="the validator rejects conditions that hold")
    seed: int = Field(0, description="another seed draws other errors at the same rates")


def is_impossible(text: str) -> bool:
    """Whether a condition is a wrong proposal of the simulated agent."""
    return text.startswith(IMPOSSIBLE)


def spoiled(answer: Any, schema: Schema, errors: Errors, draw: Random, *, goal: str = "", target: str = "") -> Any:
    """The answer as an agent gives it that errs at these rates.

    Args:
        answer: the right one; what is no object (prose) is left as it is, as are fields of other kinds.
        schema: its JSON schema.
        errors: the rates.
        draw: where chance comes from.
        goal: the condition that comes with the task and is not proposed: it is never exchanged.
        target: what the agent is to bring about; where that is impossible, it does anything.
    """
    if not isinstance(answer, dict):
        return answer
    parts = schema.get("properties", {})
    lost = is_impossible(target)
    return {
        name: _field(name, value, parts.get(name, {}), errors, draw, goal=goal, lost=lost)
        for name, value in answer.items()
    }


def _field(name: str, value: Any, form: Schema, errors: Errors, draw: Random, *, goal: str, lost: bool) -> Any:
    if name in PROPOSED:
        return _proposed(value, form.get("maxItems", MOST), errors, draw, goal)
    if name in CHOSEN:
        return _chosen(value, form.get("enum"), 1.0 if lost else errors.act, draw, anything=lost)
    if name == COUNTED:
        return _counted(value, form.get("maximum", value), errors, draw)
    if name == UNDONE:
        return _undone(value, form.get("items", {}).get("maximum", 0), errors, draw)
    if isinstance(value, bool):
        return value != (draw.random() < (errors.reject if value else errors.accept))
    return value


def _proposed(value: Any, most: int, errors: Errors, draw: Random, goal: str) -> Any:
    if not isinstance(value, list):
        return _condition(value, 1, errors.propose, draw, goal)
    parts = [part for one in value for part in _cut(one, errors.split, draw, goal)][:most]
    return [_with(one, _condition(_text(one), n, errors.propose, draw, goal)) for n, one in enumerate(parts, 1)]


def _text(one: Any) -> str:
    return str(one[GOAL]) if isinstance(one, dict) else str(one)


def _with(one: Any, text: str) -> Any:
    return {**one, GOAL: text} if isinstance(one, dict) else text


def _cut(one: Any, rate: float, draw: Random, goal: str) -> list[Any]:
    text = _text(one)
    twice = rate > 0 and text != goal and draw.random() < rate
    return [one, _with(one, text + AGAIN)] if twice else [one]


def _condition(text: str, number: int, rate: float, draw: Random, goal: str) -> str:
    # Numbered, because equal conditions are merged where plans are read.
    wrong = text != goal and draw.random() < rate
    return f"{IMPOSSIBLE} ({number})." if wrong else text


def _chosen(value: str, options: list[str] | None, rate: float, draw: Random, *, anything: bool) -> str:
    if draw.random() >= rate:
        return value
    if options is None:
        return SLIP
    others = [option for option in options if anything or option != value]
    return draw.choice(others) if others else value


def _counted(held: int, most: int, errors: Errors, draw: Random) -> int:
    """None of those that hold, or, each accepted after the one before it, some that do not."""
    if held and draw.random() < errors.reject:
        return 0
    while held < most and draw.random() < errors.accept:
        held += 1
    return held


def _undone(found: list[int], most: int, errors: Errors, draw: Random) -> list[int]:
    """Without those that are accepted although they do not hold, and with one that holds where the verdict rejects."""
    kept = [number for number in found if draw.random() >= errors.accept]
    held = [number for number in range(1, most + 1) if number not in found]
    wrong = [draw.choice(held)] if held and draw.random() < errors.reject else []
    return sorted([*kept, *wrong])


# The simulated agent: a script that knows the right answer and errs at known rates, as the theory of methods assumes.
#
# It is no model: what it shows is how a method's mechanisms deal with errors of a known kind and rate. Each question
# is spoiled independently of all others, and the same way in every process, order and resumed run.

SIMULATED = "simulated"
EXAMPLE = f"{SIMULATED}:propose=0.1,act=0.2,accept=0.1,reject=0.1,seed=3"


def errors_named(name: str) -> Errors:
    """The rates that a model's name gives: `simulated`, or `simulated:act=0.3,seed=1`; what it leaves out is usual.

    Raises:
        UnknownName: an unknown or repeated rate, one outside [0, 1], or no number; shows the right form.
    """
    kind, colon, rest = name.partition(":")
    pairs = [text.partition("=") for text in rest.split(",")] if colon else []
    given = {key.strip(): value.strip() for key, _, value in pairs}
    if kind != SIMULATED or len(given) < len(pairs):
        raise UnknownName(_wrong(name, "each rate is named once"))
    try:
        return Errors.model_validate(given)
    except ValidationError as error:
        wrong = error.errors(include_url=False)[0]
        raise UnknownName(_wrong(name, f"{'.'.join(map(str, wrong['loc']))!r}: {wrong['msg']}")) from error


def name_of(errors: Errors) -> str:
    """The name with every rate in it, under which calls are recorded."""
    return f"{SIMULATED}:" + ",".join(f"{key}={value}".removesuffix(".0") for key, value in errors)


def simulated(errors: Errors, expert: Responder | None, trial: int = 0) -> Responder:
    """The mind: the expert's answer, without one the least instance of the schema, spoiled at the rates of `errors`.

    Args:
        errors: the rates.
        expert: the benchmark's expert.
        trial: which repetition of the task this is; each is drawn anew.
    """

    def respond(prompt: str, schema: Schema) -> Any:
        right = expert(prompt, schema) if expert else minimal(schema)
        state = _state()
        draw = drawing(errors.seed, trial, prompt)
        return spoiled(right, schema, errors, draw, goal=_goal(state), target=_target(state))

    return respond


def _state() -> Mapping[str, Any]:
    situation = current_situation()
    return situation.state if situation else {}


def _goal(state: Mapping[str, Any]) -> str:
    return state["task"].condition or state["task"].goal if "task" in state else ""


def _target(state: Mapping[str, Any]) -> str:
    """What the agent works on: the head of SDP's plan, or STEP's subtask; agents without either have no target."""
    if "subtask" in state:
        return str(state["subtask"].text)
    plan, head = state.get("plan", ()), state.get("head", 0)
    return str(plan[head].text) if head < len(plan) else ""


def _wrong(name: str, reason: str) -> str:
    return f"{name!r} is no simulated agent: {reason}; say {SIMULATED}, or {EXAMPLE} (rates from 0 to 1)"

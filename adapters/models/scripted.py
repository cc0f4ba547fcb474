"""Scripted, random and simulated chat models: they need no language model.

`ScriptedChat` calls a responder, `by_chance` creates the random one, and `simulated` one that errs at
given rates.
"""

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

# Situation of the running node: what a scripted model may know besides the prompt. Language models do not get it.


class Situation(NamedTuple):
    """The running node, its superstep, and the graph state before it."""

    node: str
    superstep: int
    state: Mapping[str, Any]


_SITUATION: ContextVar[Situation | None] = ContextVar("certigraph_situation", default=None)


@contextmanager
def situated(situation: Situation) -> Iterator[None]:
    """Set the situation for scripted models that are called inside the block."""
    token = _SITUATION.set(situation)
    try:
        yield
    finally:
        _SITUATION.reset(token)


def current_situation() -> Situation | None:
    """Return the situation of the running node; None outside a node."""
    return _SITUATION.get()


# A chat model that runs a function: deterministic answers to JSON schemas, for tests, examples and dry runs.

CHARS_PER_TOKEN = 4
TEXT: Schema = {"type": "string"}


class ScriptedChat(BaseChatModel):
    """Chat model that answers like an endpoint with JSON schema mode, from the messages and the schema alone.

    Without a responder the answer is the minimal instance of the schema. `replies` are returned verbatim instead, in
    order, whatever the request is.
    """

    responder: Responder | None = Field(None, exclude=True)
    replies: tuple[str, ...] | None = None
    model_name: str = "scripted"
    free: bool = Field(True, exclude=True, description="whether its calls cost nothing")
    blocks: bool = Field(False, exclude=True, description="whether the responder may wait for a simulator")
    _next_index: int = PrivateAttr(0)

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
        if self._next_index >= len(replies):
            raise LookupError(f"all {len(replies)} replies are used; pass more: ScriptedChat(replies=(...))")
        self._next_index += 1
        return replies[self._next_index - 1]

    def _answer(self, prompt: str, form: Schema | None) -> str:
        schema = form["json_schema"]["schema"] if form else TEXT
        value = self.responder(prompt, schema) if self.responder else minimal(schema)
        return json.dumps(value, ensure_ascii=False) if form else str(value)


def _usage(prompt: str, text: str) -> UsageMetadata:
    read, written = len(prompt) // CHARS_PER_TOKEN, len(text) // CHARS_PER_TOKEN
    return UsageMetadata(input_tokens=read, output_tokens=written, total_tokens=read + written)


# The random policy: it takes any option that a schema offers, each with the same probability.
#
# It may take any action of a world; where it has to write a text, the text is minimal. An empty plan would end a task
# before the first action, so that it names one condition, which is meaningless.

RANDOM = "scripted:random"

ONE = {"minItems": 1, "items": {"type": "string", "minLength": 1}}
"""Schema of a list with at least one text."""


def by_chance(trial: int = 0) -> Responder:
    """Create the random responder: the minimal instance of the schema, with random options and one condition.

    Args:
        trial: number of this repetition of the task; part of the seed.
    """

    def respond(prompt: str, schema: Schema) -> Any:
        return minimal(_decided(_planning(schema), drawing(0, trial, prompt)))

    return respond


def drawing(seed: int, trial: int, prompt: str) -> Random:
    """Create the random generator of a request: equal in every process, order and resumed run.

    It also depends on the number of earlier calls, so that a repeated request is drawn again.
    """
    situation = current_situation()
    state = situation.state if situation else {}
    task = state["task"].id if "task" in state else ""
    step = situation.superstep if situation else 0
    digest = hashlib.sha256(prompt.encode()).hexdigest()
    return Random(f"{seed}:{trial}:{task}:{step}:{len(current_meter().records)}:{digest}")


def _planning(schema: Schema) -> Schema:
    """Require at least one condition if the schema has a list of conditions."""
    properties = schema.get("properties", {})
    if "conditions" not in properties:
        return schema
    return {**schema, "properties": {**properties, "conditions": {**properties["conditions"], **ONE}}}


def _decided(node: Any, draw: Random) -> Any:
    """Keep one random option of each list of options."""
    if isinstance(node, list):
        return [_decided(part, draw) for part in node]
    if not isinstance(node, dict):
        return node
    return {
        key: [draw.choice(part)] if key == "enum" and isinstance(part, list) else _decided(part, draw)
        for key, part in node.items()
    }


# Errors in correct answers: each field is changed by its kind, known from its name and schema, and stays valid.
#
# In research, steps are proposed, and whether a finding is adequate is a verdict. Lookups, findings and the final
# answer stay correct: `act` changes nothing there except the actions of ReAct, and `accept` meets no wrong finding.

PROPOSED = frozenset({"conditions", "steps", "subtask"})
"""Fields of answers that propose."""

CHOSEN = frozenset({"choice", "action"})
"""Fields of answers that act."""

MOST = 1_000
"""Maximum number of proposals if the schema sets none."""

COUNTED = "holds"
"""Field of a verdict on several conditions: how many hold, counted from the first."""

UNDONE = "undone"
"""Field of a verdict on conditions that held before: the numbers of those that no longer hold."""

IMPOSSIBLE = "Something that no action brings about"
"""Beginning of a wrong proposal. No world uses these words, so that experts and validators judge it false."""

GOAL = "goal"
"""Field with the text of a step, where steps are objects."""

AGAIN = " (again)"
"""End of the second of two equal conditions; without it plans would merge them."""

SLIP = "fumble"
"""Wrong action where actions are free text: every world refuses it and stays unchanged."""


class Errors(Record):
    """Error rates of a simulated agent, each a probability per condition, action or verdict.

    If one verdict names those of several conditions that no longer hold (revalidation), `accept` is drawn for each such
    condition, which is then not named. `reject` is drawn once for the verdict, which then also names one of the
    conditions that hold, chosen at random: of n of them, each is named wrongly at the rate `reject` / n.
    """

    propose: float = Field(0.1, ge=0, le=1, description="a proposed condition, step or subtask is an impossible one")
    split: float = Field(0.0, ge=0, le=1, description="a proposed condition is repeated: the plan is too fine")
    act: float = Field(
        0.2, ge=0, le=1, description="an action is another option, or an invalid one where it is free text"
    )
    accept: float = Field(0.1, ge=0, le=1, description="the validator accepts a condition that does not hold")
    reject: float = Field(0.1, ge=0, le=1, description="the validator rejects conditions that hold")
    seed: int = Field(0, description="seed of the draws: another seed gives other errors at the same rates")


def is_impossible(text: str) -> bool:
    """Return whether a condition is a wrong proposal of the simulated agent."""
    return text.startswith(IMPOSSIBLE)


def spoiled(answer: Any, schema: Schema, errors: Errors, draw: Random, *, goal: str = "", target: str = "") -> Any:
    """Return the answer of an agent that errs at these rates.

    Args:
        answer: the correct answer. Prose, and fields of other kinds, are not changed.
        schema: its JSON schema.
        errors: the rates.
        draw: random generator.
        goal: condition of the task itself, which is not proposed and so never replaced.
        target: what the agent is to achieve; if that is impossible, its action is random.
    """
    if not isinstance(answer, dict):
        return answer
    properties = schema.get("properties", {})
    impossible = is_impossible(target)
    return {
        name: _field(name, value, properties.get(name, {}), errors, draw, goal=goal, impossible=impossible)
        for name, value in answer.items()
    }


def _field(name: str, value: Any, form: Schema, errors: Errors, draw: Random, *, goal: str, impossible: bool) -> Any:
    if name in PROPOSED:
        return _proposed(value, form.get("maxItems", MOST), errors, draw, goal)
    if name in CHOSEN:
        return _chosen(value, form.get("enum"), 1.0 if impossible else errors.act, draw, anything=impossible)
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
    parts = [part for item in value for part in _cut(item, errors.split, draw, goal)][:most]
    return [_with(item, _condition(_text(item), n, errors.propose, draw, goal)) for n, item in enumerate(parts, 1)]


def _text(item: Any) -> str:
    return str(item[GOAL]) if isinstance(item, dict) else str(item)


def _with(item: Any, text: str) -> Any:
    return {**item, GOAL: text} if isinstance(item, dict) else text


def _cut(item: Any, rate: float, draw: Random, goal: str) -> list[Any]:
    text = _text(item)
    repeated = rate > 0 and text != goal and draw.random() < rate
    return [item, _with(item, text + AGAIN)] if repeated else [item]


def _condition(text: str, number: int, rate: float, draw: Random, goal: str) -> str:
    # Numbered, because plans merge equal conditions.
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
    """Reject all conditions that hold, or accept further ones, each only after the previous one."""
    if held and draw.random() < errors.reject:
        return 0
    while held < most and draw.random() < errors.accept:
        held += 1
    return held


def _undone(undone: list[int], most: int, errors: Errors, draw: Random) -> list[int]:
    """Drop conditions that are accepted although they no longer hold, and add one that holds if the verdict rejects."""
    result = [number for number in undone if draw.random() >= errors.accept]
    holding = [number for number in range(1, most + 1) if number not in undone]
    wrong = [draw.choice(holding)] if holding and draw.random() < errors.reject else []
    return sorted([*result, *wrong])


# The simulated agent: it knows the correct answer and errs at known rates, as the theory of the methods assumes.
#
# It is no model: it shows how a method's mechanisms handle errors of a known kind and rate. Errors of each request are
# drawn independently, and equal in every process, order and resumed run.

SIMULATED = "simulated"
EXAMPLE = f"{SIMULATED}:propose=0.1,act=0.2,accept=0.1,reject=0.1,seed=3"


def errors_named(name: str) -> Errors:
    """Parse the rates of a model's name such as `simulated:act=0.3,seed=1`; other rates keep their defaults.

    Raises:
        UnknownName: an unknown or repeated rate, one outside [0, 1], or no number; shows the right form.
    """
    kind, colon, rest = name.partition(":")
    pairs = [text.partition("=") for text in rest.split(",")] if colon else []
    values = {key.strip(): value.strip() for key, _, value in pairs}
    if kind != SIMULATED or len(values) < len(pairs):
        raise UnknownName(_wrong(name, "a rate is repeated"))
    try:
        return Errors.model_validate(values)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        raise UnknownName(_wrong(name, f"{'.'.join(map(str, first['loc']))!r}: {first['msg']}")) from error


def name_of(errors: Errors) -> str:
    """Return the name with every rate in it, under which calls are recorded."""
    return f"{SIMULATED}:" + ",".join(f"{key}={value}".removesuffix(".0") for key, value in errors)


def simulated(errors: Errors, expert: Responder | None, trial: int = 0) -> Responder:
    """Create the responder of the simulated agent: the expert's answer, changed at the rates of `errors`.

    Args:
        errors: the rates.
        expert: the benchmark's expert; None answers with the minimal instance of the schema.
        trial: number of this repetition of the task; part of the seed.
    """

    def respond(prompt: str, schema: Schema) -> Any:
        correct = expert(prompt, schema) if expert else minimal(schema)
        state = _state()
        draw = drawing(errors.seed, trial, prompt)
        return spoiled(correct, schema, errors, draw, goal=_goal(state), target=_target(state))

    return respond


def _state() -> Mapping[str, Any]:
    situation = current_situation()
    return situation.state if situation else {}


def _goal(state: Mapping[str, Any]) -> str:
    return state["task"].condition or state["task"].goal if "task" in state else ""


def _target(state: Mapping[str, Any]) -> str:
    """Return what the agent works on: the next condition of SDP's plan, or STEP's subtask; empty for other agents."""
    if "subtask" in state:
        return str(state["subtask"].text)
    plan, head = state.get("plan", ()), state.get("head", 0)
    return str(plan[head].text) if head < len(plan) else ""


def _wrong(name: str, reason: str) -> str:
    return f"{name!r} is no simulated agent: {reason}; write {SIMULATED}, or {EXAMPLE} (rates from 0 to 1)"

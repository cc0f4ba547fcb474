"""Scripted, random and simulated chat models, which need no language model.

`ScriptedChat` calls a responder: a function from prompt and answer schema to an answer. `random_responder` creates one
that answers at random, `simulated_responder` one that errs at given rates.
"""

import json
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from random import Random
from typing import Any, ClassVar, NamedTuple

from langchain_core.callbacks import AsyncCallbackManagerForLLMRun, CallbackManagerForLLMRun
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.messages.ai import UsageMetadata
from langchain_core.outputs import ChatGeneration, ChatResult
from pydantic import Field, PrivateAttr, ValidationError, field_validator

from certigraph.adapters.models.attachments import text_of_request
from certigraph.adapters.models.schemas import Schema, minimal_instance
from certigraph.adapters.models.usage import current_meter
from certigraph.adapters.processes import Setting, find_call_problem, run_in_waiting_thread
from certigraph.adapters.protocols import Responder, StateCheck
from certigraph.state.endings import Fault, UnknownName
from certigraph.state.records import Predicate, Record

# Situation of the running node, from which scripted models answer. Language models get the prompt instead.


def _leave_undecided(condition: str) -> None:
    return None


class Situation(NamedTuple):
    """The running node, its superstep, and the data from which a scripted model answers, which reads no prompt."""

    node: str
    superstep: int
    state: Mapping[str, Any]
    """State of the graph before the node ran."""
    view: Mapping[str, Any] = {}
    """What the running operator reads: the part of the state that it gets, and what it adds with `use_about`."""
    place: tuple[str, ...] = ()
    """Node and superstep in each graph, from the outermost inward, and what operators added with `use_about`. It is the
    same in a resumed run."""
    check_state: Callable[[str], StateCheck | None] = _leave_undecided
    """Checks a condition in the live world's own state, as `Environment.check_state` does. Blocks."""


_SITUATION: ContextVar[Situation | None] = ContextVar("certigraph_situation", default=None)


def use_situation(situation: Situation) -> Setting[Situation]:
    """Set the situation for scripted models that are called inside the block.

    Its `place` is that of the outer situation, followed by this node and superstep.
    """
    outer = current_situation()
    place = (*(outer.place if outer else ()), f"{situation.node}:{situation.superstep}")
    return Setting(_SITUATION, situation._replace(place=place))


def current_situation() -> Situation | None:
    """Return the situation of the running node; None outside a node."""
    return _SITUATION.get()


def require_situation() -> Situation:
    """Return the situation of the running node.

    Raises:
        Fault: ("model") no node is running.
    """
    if (situation := current_situation()) is None:
        raise Fault("model", "the expert answers inside a run only: certigraph run ... --model scripted:expert")
    return situation


@dataclass(frozen=True)
class ExpertPosition:
    """How far a run is, as an expert sees it that knows the solution."""

    situation: Situation

    @property
    def state(self) -> Mapping[str, Any]:
        """The graph's state."""
        return self.situation.state

    @property
    def view(self) -> Mapping[str, Any]:
        """What the running operator reads."""
        return self.situation.view

    @property
    def target_predicate(self) -> Predicate | None:
        """The target of the plan, the next predicate to certify (SDP); None if the plan has none left."""
        plan, head = self.state.get("plan", ()), self.state.get("head", 0)
        return plan[head] if head < len(plan) else None


def use_view(view: Mapping[str, Any]) -> Setting[Situation | None]:
    """Set `view` of the current situation inside the block; no effect outside a node."""
    situation = current_situation()
    return Setting(_SITUATION, situation and situation._replace(view=view))


def use_about(about: Mapping[str, Any]) -> Setting[Situation | None]:
    """Add entries to `view` of the current situation inside the block, for one request; no effect outside a node."""
    situation = current_situation()
    if situation is not None and about:
        place = (*situation.place, repr(about))
        situation = situation._replace(view={**situation.view, **about}, place=place)
    return Setting(_SITUATION, situation)


# What a scripted model's verdict rests on, where the world's own state decided it.

_CITATIONS: ContextVar[list[str] | None] = ContextVar("certigraph_citations", default=None)


def collect_citations() -> Setting[list[str]]:
    """Collect what scripted models cite of the world's own state inside the block; language models cite nothing."""
    return Setting(_CITATIONS, list[str]())


def cite_state(shown: str) -> None:
    """Cite what the world's own state shows, from which the answer follows."""
    cited = _CITATIONS.get()
    if cited is not None:
        cited.append(shown)


# A chat model that runs a function: deterministic answers to JSON schemas, for tests, examples and dry runs.

CHARS_PER_TOKEN = 4
TEXT_SCHEMA: Schema = {"type": "string"}


class ScriptedChat(BaseChatModel):
    """Chat model that calls a function instead of a language model, and answers like an endpoint with JSON schema mode.

    The function `responder` gets the prompt and the answer schema. The responders of this package do not read the
    prompt: they answer from the schema and the situation of the running node. Without a responder the answer is the
    minimal instance of the schema. If `replies` are given, they are returned verbatim, in order, for any request.
    """

    serves_any_loop: ClassVar[bool] = True
    """Whether it works on every event loop; it has no connections."""

    responder: Responder | None = Field(default=None, exclude=True)
    replies: tuple[str, ...] | None = None
    model_name: str = "scripted"
    free: bool = Field(default=True, exclude=True, description="whether its calls cost nothing")
    blocks: bool = Field(default=False, exclude=True, description="whether the responder may wait for a simulator")
    _next_index: int = PrivateAttr(default=0)

    @field_validator("responder")
    @classmethod
    def _check_responder(cls, responder: Responder | None) -> Responder | None:
        if responder is not None and (problem := find_call_problem(responder, "", {})):
            fix = "it gets the prompt and the schema, as in def respond(prompt, schema)"
            raise TypeError(f"responder={responder!r:.100} cannot be called ({problem}): {fix}")
        return responder

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
        prompt = "\n\n".join(map(text_of_request, messages))
        form = kwargs.get("response_format")
        text = self._next_reply() if self.replies is not None else self._answer(prompt, form)
        message = AIMessage(text, usage_metadata=_estimate_usage(prompt, text))
        return ChatResult(generations=[ChatGeneration(message=message)])

    async def _agenerate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        if self.blocks:
            return await run_in_waiting_thread(lambda: self._generate(messages, stop, **kwargs))
        return self._generate(messages, stop, **kwargs)

    def _next_reply(self) -> str:
        replies = self.replies or ()
        if self._next_index >= len(replies):
            raise LookupError(f"all {len(replies)} replies are used; pass more: ScriptedChat(replies=(...))")
        self._next_index += 1
        return replies[self._next_index - 1]

    def _answer(self, prompt: str, form: Schema | None) -> str:
        schema = form["json_schema"]["schema"] if form else TEXT_SCHEMA
        try:
            value = self.responder(prompt, schema) if self.responder else minimal_instance(schema)
        except StopIteration as ended:  # a coroutine cannot raise it
            reason = "the script has no more answers: its responder called next() on an iterator that is used up"
            raise LookupError(f"{reason}; give it more, or let it choose by the prompt") from ended
        return json.dumps(value, ensure_ascii=False) if form else str(value)


def _estimate_usage(prompt: str, text: str) -> UsageMetadata:
    read, written = len(prompt) // CHARS_PER_TOKEN, len(text) // CHARS_PER_TOKEN
    return UsageMetadata(input_tokens=read, output_tokens=written, total_tokens=read + written)


# The random policy: it takes any option that a schema offers, each with the same probability.
#
# It may take any action of a world; where it has to write a text, the text is minimal. An empty plan would end a task
# before the first action; therefore a random plan has one condition, which is meaningless.

RANDOM_MODEL = "scripted:random"

ONE_ITEM_SCHEMA = {"minItems": 1, "items": {"type": "string", "minLength": 1}}
"""Schema of a list with at least one text."""


def random_responder(trial: int = 0) -> Responder:
    """Create a responder that answers at random.

    Its answers are minimal instances of the answer schema, except that options are chosen at random and a plan has one
    condition.

    Args:
        trial: number of this repetition of the task; part of the seed.
    """

    def respond(prompt: str, schema: Schema) -> Any:
        return minimal_instance(_choose_options(_require_condition(schema), random_for(0, trial)))

    return respond


def random_for(seed: int, trial: int) -> Random:
    """Create the random generator of one request, which is the same in every process and every resumed run.

    Its seed consists of `seed` and `trial`, the task, the place of the request in the run, and the number of earlier
    calls of the node, so that a repeated request gets other random numbers. The prompt and the order of parallel
    requests do not matter.
    """
    situation = current_situation()
    task = situation.state.get("task") if situation else None
    about = [task.id, task.goal] if task else []  # the goal distinguishes sub-tasks that are worked on at the same time
    place = situation.place if situation else ()
    return Random(repr((seed, trial, *about, *place, len(current_meter().records))))


def _require_condition(schema: Schema) -> Schema:
    """Return the schema, changed to require at least one condition if it has a list of conditions."""
    properties = schema.get("properties", {})
    if "conditions" not in properties:
        return schema
    return {**schema, "properties": {**properties, "conditions": {**properties["conditions"], **ONE_ITEM_SCHEMA}}}


def _choose_options(node: Any, draw: Random) -> Any:
    """Return a part of a JSON schema in which each list of options (`enum`) is reduced to one random option."""
    if isinstance(node, list):
        return [_choose_options(part, draw) for part in node]
    if not isinstance(node, dict):
        return node
    return {
        key: [draw.choice(part)] if key == "enum" and isinstance(part, list) else _choose_options(part, draw)
        for key, part in node.items()
    }


# Errors in correct answers: a field's name and schema tell how to change it, and the changed answer still fits the
# schema.
#
# In research on the web, `propose` changes the steps, and `accept` and `reject` change verdicts on findings. Lookups,
# findings and the final answer stay correct: there `act` changes only the actions of ReAct, and `accept` never meets a
# wrong finding.

PROPOSAL_FIELDS = frozenset({"conditions", "steps", "subtask"})
"""Fields of answers with proposed conditions, steps or subtasks."""

ACTION_FIELDS = frozenset({"choice", "action"})
"""Fields of answers with an action."""

MAX_PROPOSALS = 1_000
"""Maximum number of proposals if the schema sets none."""

COUNT_FIELD = "holds"
"""Field of a verdict on several conditions in order: how many hold, counted from the first."""

UNDONE_FIELD = "undone"
"""Field of a verdict on conditions that held before: the numbers of those that no longer hold."""

IMPOSSIBLE_PREFIX = "Something that no action brings about"
"""Beginning of a wrong proposal. No world uses these words, so that experts and validators judge the proposal false."""

GOAL_FIELD = "goal"
"""Field with the text of a step, where steps are objects."""

REPEATED_SUFFIX = " (again)"
"""End of the second of two equal conditions; without it plans would merge them."""

INVALID_ACTION = "fumble"
"""Wrong action where actions are free text: every world refuses it and stays unchanged."""


class ErrorRates(Record):
    """Error rates of a simulated agent, each a probability per condition, action or verdict.

    In a revalidation, one verdict names those of several conditions that no longer hold. With probability `accept`,
    such a condition is wrongly left out. With probability `reject`, the verdict wrongly names one condition that still
    holds, chosen at random; so each of n such conditions is named at the rate `reject` / n.
    """

    propose: float = Field(
        default=0.1, ge=0, le=1, description="a proposed condition, step or subtask is an impossible one"
    )
    split: float = Field(default=0.0, ge=0, le=1, description="a proposed condition is repeated: the plan is too fine")
    act: float = Field(
        default=0.2, ge=0, le=1, description="an action is another option, or an invalid one where it is free text"
    )
    accept: float = Field(default=0.1, ge=0, le=1, description="the validator accepts a condition that does not hold")
    reject: float = Field(default=0.1, ge=0, le=1, description="the validator rejects conditions that hold")
    seed: int = Field(default=0, description="seed of the draws: another seed gives other errors at the same rates")


def is_impossible(text: str) -> bool:
    """Return whether a condition is a wrong proposal of the simulated agent."""
    return text.startswith(IMPOSSIBLE_PREFIX)


def inject_errors(
    answer: Any, schema: Schema, errors: ErrorRates, draw: Random, *, goal: str = "", target: str = ""
) -> Any:
    """Return a correct answer changed at random, as if an agent with the given error rates had written it.

    Args:
        answer: the correct answer. Only proposals, actions and verdicts in it are changed.
        schema: JSON schema of the answer.
        errors: the error rates.
        draw: random generator.
        goal: text of the task's own goal. A condition with this text is never replaced.
        target: what the agent has to achieve now; if that is an impossible proposal, the action is random.
    """
    if not isinstance(answer, dict):
        return answer
    properties = schema.get("properties", {})
    impossible = is_impossible(target)
    return {
        name: _change_field(name, value, properties.get(name, {}), errors, draw, goal=goal, impossible=impossible)
        for name, value in answer.items()
    }


def _change_field(
    name: str, value: Any, form: Schema, errors: ErrorRates, draw: Random, *, goal: str, impossible: bool
) -> Any:
    if name in PROPOSAL_FIELDS:
        return _change_proposals(value, form.get("maxItems", MAX_PROPOSALS), errors, draw, goal)
    if name in ACTION_FIELDS:
        return _change_action(value, form.get("enum"), 1.0 if impossible else errors.act, draw, anything=impossible)
    if name == COUNT_FIELD:
        return _change_count(value, form.get("maximum", value), errors, draw)
    if name == UNDONE_FIELD:
        return _change_undone(value, form.get("items", {}).get("maximum", 0), errors, draw)
    if isinstance(value, bool):
        return value != (draw.random() < (errors.reject if value else errors.accept))
    return value


def _change_proposals(value: Any, most: int, errors: ErrorRates, draw: Random, goal: str) -> Any:
    if not isinstance(value, list):
        return _maybe_impossible(value, 1, errors.propose, draw, goal)
    parts = [part for item in value for part in _maybe_repeat(item, errors.split, draw, goal)][:most]
    return [
        _replace_text(item, _maybe_impossible(_text_of(item), n, errors.propose, draw, goal))
        for n, item in enumerate(parts, 1)
    ]


def _text_of(item: Any) -> str:
    return str(item[GOAL_FIELD]) if isinstance(item, dict) else str(item)


def _replace_text(item: Any, text: str) -> Any:
    return {**item, GOAL_FIELD: text} if isinstance(item, dict) else text


def _maybe_repeat(item: Any, rate: float, draw: Random, goal: str) -> list[Any]:
    text = _text_of(item)
    repeated = rate > 0 and text != goal and draw.random() < rate
    return [item, _replace_text(item, text + REPEATED_SUFFIX)] if repeated else [item]


def _maybe_impossible(text: str, number: int, rate: float, draw: Random, goal: str) -> str:
    # Numbered, because plans merge equal conditions.
    wrong = text != goal and draw.random() < rate
    return f"{IMPOSSIBLE_PREFIX} ({number})." if wrong else text


def _change_action(value: str, options: list[str] | None, rate: float, draw: Random, *, anything: bool) -> str:
    if draw.random() >= rate:
        return value
    if options is None:
        return INVALID_ACTION
    others = [option for option in options if anything or option != value]
    return draw.choice(others) if others else value


def _change_count(held: int, most: int, errors: ErrorRates, draw: Random) -> int:
    """Return how many conditions an erring verdict accepts, where `held` of them hold.

    It is 0 if the verdict wrongly rejects; else further conditions are accepted until one of them is not.
    """
    if held and draw.random() < errors.reject:
        return 0
    while held < most and draw.random() < errors.accept:
        held += 1
    return held


def _change_undone(undone: list[int], most: int, errors: ErrorRates, draw: Random) -> list[int]:
    """Return the conditions that an erring verdict names as undone, where those in `undone` no longer hold.

    Conditions that are wrongly accepted are left out; a wrong rejection adds one that still holds.
    """
    result = [number for number in undone if draw.random() >= errors.accept]
    holding = [number for number in range(1, most + 1) if number not in undone]
    wrong = [draw.choice(holding)] if holding and draw.random() < errors.reject else []
    return sorted([*result, *wrong])


# The simulated agent: it knows the correct answer and errs at known rates, as the theory of the methods assumes.
#
# It is not a language model. It shows how the mechanisms of a method handle errors of a known kind and rate. The errors
# of each request are drawn independently; they are the same in every process and every resumed run.

SIMULATED_MODEL = "simulated"
SIMULATED_EXAMPLE = f"{SIMULATED_MODEL}:propose=0.1,act=0.2,accept=0.1,reject=0.1,seed=3"


def parse_error_rates(name: str) -> ErrorRates:
    """Parse the error rates in a model's name such as `simulated:act=0.3,seed=1`; other rates keep their defaults.

    Raises:
        UnknownName: a rate is unknown, repeated, outside [0, 1] or no number. The message shows a valid name.
    """
    kind, colon, rest = name.partition(":")
    pairs = [text.partition("=") for text in rest.split(",")] if colon else []
    values = {key.strip(): value.strip() for key, _, value in pairs}
    if kind != SIMULATED_MODEL or len(values) < len(pairs):
        raise _rates_error(name, "a rate is repeated")
    try:
        return ErrorRates.model_validate(values)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        key = ".".join(map(str, first["loc"]))
        if first["type"] == "extra_forbidden":
            raise _rates_error(name, f"no rate {key!r}", key) from error
        raise _rates_error(name, f"{key!r}: {first['msg']}") from error


def simulated_name(errors: ErrorRates) -> str:
    """Return the model name that states every error rate. Calls of the simulated agent are recorded under it."""
    return f"{SIMULATED_MODEL}:" + ",".join(f"{key}={value}".removesuffix(".0") for key, value in errors)


ERROR_LABELS = {
    "propose": "wrong conditions",
    "split": "repeated conditions",
    "act": "wrong actions",
    "accept": "false accepts",
    "reject": "false rejects",
}
"""What a simulated agent does at each rate of `ErrorRates`, in words."""


def format_error_rates(errors: ErrorRates) -> str:
    """Format the error rates that are not 0: wrong conditions 10%, wrong actions 20%."""
    shares = (f"{label} {100 * rate:g}%" for key, label in ERROR_LABELS.items() if (rate := getattr(errors, key)))
    return ", ".join(shares) or "no errors"


def simulated_responder(errors: ErrorRates, expert: Responder | None, trial: int = 0) -> Responder:
    """Create the responder of the simulated agent: the expert's answer, changed at the rates of `errors`.

    Args:
        errors: the error rates.
        expert: responder that knows the correct answers; None: the minimal instance of the schema counts as correct.
        trial: number of this repetition of the task; part of the seed.
    """

    def respond(prompt: str, schema: Schema) -> Any:
        with collect_citations() as cited:
            correct = expert(prompt, schema) if expert else minimal_instance(schema)
        state = _graph_state()
        draw = random_for(errors.seed, trial)
        answer = inject_errors(correct, schema, errors, draw, goal=_goal_of(state), target=_target_of(state))
        if answer == correct:  # an error rests on nothing
            for shown in cited:
                cite_state(shown)
        if _accepts_falsely(answer, correct):  # only this reason: that of a rejection is shown to other roles' models
            answer = {**answer, "reason": FALSE_ACCEPT_REASON}
        return answer

    return respond


FALSE_ACCEPT_REASON = "seeded error: the simulated agent wrongly accepts what does not hold"
"""Reason of a verdict that accepts by a seeded error; as long as the usual one of BlocksWorld, so that tokens stay."""

ACCEPTING_FIELDS = (COUNT_FIELD, "reached", "completed", "supported", "consistent", "adequate")
"""Fields of verdicts that accept the more, the greater they are."""


def _accepts_falsely(answer: Any, correct: Any) -> bool:
    if not isinstance(answer, dict) or "reason" not in answer:
        return False
    return any(answer[name] > correct[name] for name in ACCEPTING_FIELDS if name in correct)


def _graph_state() -> Mapping[str, Any]:
    situation = current_situation()
    return situation.state if situation else {}


def _goal_of(state: Mapping[str, Any]) -> str:
    return state["task"].condition or state["task"].goal if "task" in state else ""


def _target_of(state: Mapping[str, Any]) -> str:
    """Return what the agent works on: the next condition of SDP's plan, or STEP's subtask; empty for other agents."""
    if "subtask" in state:
        return str(state["subtask"].text)
    plan, head = state.get("plan", ()), state.get("head", 0)
    return str(plan[head].text) if head < len(plan) else ""


def _rates_error(name: str, reason: str, unknown: str = "") -> UnknownName:
    fix = f"write {SIMULATED_MODEL}, or {SIMULATED_EXAMPLE} (rates from 0 to 1)"
    return UnknownName(f"{name!r} is not a simulated agent: {reason}", unknown, ErrorRates.model_fields, fix)

"""Questions to a person about calls whose outcome is unknown, and the order of the questions of a node.

A call's outcome is unknown if the process ended, or the run was cancelled, between its start and its answer. A person
who knows that it happened may not know what it answered. An equal call that is chosen after it is then asked about too,
because it is more often a second try than a second purpose.
"""

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Literal, NamedTuple, NoReturn, TypeVar, get_args

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.checkpoint.serde.types import RESUME
from langgraph.errors import GraphInterrupt
from langgraph.types import Interrupt, interrupt
from pydantic import BaseModel, ValidationError

from certigraph.adapters.tools.contents import bound_text
from certigraph.adapters.tools.effects import NOT_STARTED, REPEAT, Ledger, LedgerEntry, LoggedQuestion, ToolAnswer
from certigraph.adapters.tools.positions import (
    CHECKPOINTER_KEY,
    CHECKPOINTS_KEY,
    FRESH_KEY,
    NAMESPACE_KEY,
    SCRATCHPAD_KEY,
    TASK_KEY,
    use_saver,
)
from certigraph.state.records import Record
from certigraph.state.tools import ToolCall

T = TypeVar("T")
D = TypeVar("D", bound=BaseModel)

UNKNOWN_OUTCOME = "unknown_outcome"
"""Value of `type` in the interrupt that asks whether calls happened."""

EARLIER_QUESTION = "earlier_question"
"""Value of `type` in an interrupt in place of one whose answer was lost and is needed no more: any answer will do."""


Outcome = Literal["happened", "repeat", "stop"]
OUTCOMES: tuple[Outcome, ...] = get_args(Outcome)
EARLIER_OUTCOMES = OUTCOMES[:2]
"""What a person decides about a call of an earlier turn: `repeat` then leaves it to the agent to choose it again."""


class OutcomeDecision(Record):
    """A person's decision about a call that started and has no answer."""

    type: Outcome
    result: str = ""
    """What the tool answered, or would have answered, if the call `happened`. Empty if that is not known."""


class EnteredCall(NamedTuple):
    """A call of an action, its key in the ledger, and what the ledger says of it."""

    call: ToolCall
    key: str
    entry: LedgerEntry
    again: bool = False
    """Whether it has not started, and repeats a call that happened and whose answer was lost."""
    chosen: str = ""
    """Identifies the call as the agent chose it, where `key` is what the user binds the effect to."""


class QuestionLog:
    """The questions of one run of a node, in order: those of the node itself, and those of the tools that it calls.

    LangGraph hands a node its answers by number, and runs the node from its beginning for each answer. But a call that
    has ended asks no more, and a new question might get an answer that was given to another one. The order of the
    questions is therefore kept in the ledger, and every answer goes to the question that a person saw.

    Args:
        ledger: the ledger.
        config: configuration of the node.
    """

    def __init__(self, ledger: Ledger, config: RunnableConfig) -> None:
        self._ledger, self._config = ledger, config
        place = config.get("configurable", {})
        self._task, self._namespace = str(place.get(TASK_KEY, "")), str(place.get(NAMESPACE_KEY, ""))
        self._logged: list[LoggedQuestion] = []
        self._answers: list[Any] = []
        self._passed = 0

    async def load(self) -> None:
        """Load the questions that earlier executions of the node asked."""
        if not self._config.get("configurable", {}).get(FRESH_KEY):
            self._logged = await self._ledger.read_questions(self._task)

    def has_paused(self, key: str) -> bool:
        """Return whether a call interrupted the graph with questions of its own."""
        return any(question.key == key for question in self._logged)

    @property
    def any(self) -> bool:
        """Whether the node has asked anything."""
        return bool(self._logged)

    def pass_to(self, key: str) -> None:
        """Pass over the answers of questions that are asked no more, before a call starts that may ask itself."""
        own = len(self._logged)
        while own and self._logged[own - 1].key == key:
            own -= 1
        for question in self._logged[self._passed : own]:
            self._take(question)
        self._passed = len(self._logged)  # the call takes its own answers

    async def note_pause(self, key: str, raised: BaseException) -> None:
        """Note that a call interrupted the graph; a graph inside the tool takes its answers itself."""
        if self._logged:
            await bind_answers(self._config, ())
        if isinstance(raised, GraphInterrupt) and self._is_own(raised):
            await self._append(LoggedQuestion(key=key))

    async def settle(self) -> bool:
        """Enter the decisions about calls that a person was asked about before; false if the work ends."""
        last = max((number for number, one in enumerate(self._logged, 1) if one.calls), default=0)
        for question in self._logged[:last]:
            if not await self._apply(question, self._take(question)):
                return False
        self._passed = last
        if last:
            await bind_answers(self._config, self._answers)
        return True

    def earlier_calls(self) -> Iterator[tuple[str, ToolCall]]:
        """Yield the calls of earlier turns that the node asked about, by their keys."""
        for question in (one for one in self._logged if one.earlier):
            for (key, _), shown in zip(question.calls, question.shown, strict=True):
                yield key, ToolCall.model_validate(shown)

    async def ask(self, unknown: Sequence[EnteredCall], *, earlier: bool = False) -> NoReturn:
        """Ask a person about all calls of unknown outcome at once.

        Args:
            unknown: the calls.
            earlier: whether they are calls of earlier turns.

        Raises:
            GraphInterrupt: always; `settle` enters the decisions when the node runs again.
        """
        self.pass_to("")
        calls = tuple((one.key, one.entry.attempts - 1) for one in unknown)
        shown = tuple(one.call.as_json() for one in unknown)
        question = LoggedQuestion(calls=calls, shown=shown, earlier=earlier)
        before = len(self._answers)
        while True:  # nobody has seen this question: what is answered here was given to an earlier one
            try:
                self._answers.append(interrupt(_format_question(question), response_schema=_schema_of(question)))
            except GraphInterrupt:
                await self._append(question.model_copy(update={"passed": len(self._answers) - before}))
                if self._answers:
                    await bind_answers(self._config, self._answers)
                raise

    def _take(self, question: LoggedQuestion) -> list[OutcomeDecision]:
        for _ in range(question.passed if question.calls else 1):
            self._answers.append(interrupt({"type": EARLIER_QUESTION}))
        if not question.calls:
            return []
        allowed = EARLIER_OUTCOMES if question.earlier else OUTCOMES
        read = partial(read_decisions, OutcomeDecision, count=len(question.calls), allowed=allowed)
        decisions, given = interrupt_until_usable(_format_question(question), read, _schema_of(question))
        self._answers += given
        return decisions

    async def _apply(self, question: LoggedQuestion, decisions: Sequence[OutcomeDecision]) -> bool:
        if any(decision.type == "stop" for decision in decisions):
            return False
        for (key, attempt), decision in zip(question.calls, decisions, strict=True):
            entry = await self._ledger.read(key)
            if entry.answer or entry.attempts > attempt + 1:  # another process has acted on this decision before
                continue
            if decision.type == "happened":
                await self._ledger.finish(key, _answer_of(decision))
            else:
                await self._ledger.note(key, attempt, REPEAT)
        return True

    async def _append(self, question: LoggedQuestion) -> None:
        await self._ledger.append_question(self._task, len(self._logged), question)
        self._logged.append(question)

    def _is_own(self, raised: GraphInterrupt) -> bool:
        known = sum(question.passed + 1 for question in self._logged) + MAX_REPEATED_QUESTIONS
        names = (self._namespace, *(f"{self._namespace}|{number}" for number in range(1, known)))
        own = {Interrupt.from_ns(None, ns=name).id for name in names}
        return any(one.id in own for one in raised.args[0])


MAX_REPEATED_QUESTIONS = 100
"""Number of further questions by which a node's own interrupts are recognised."""


def _answer_of(decision: OutcomeDecision) -> ToolAnswer:
    if decision.result:
        return ToolAnswer(text=bound_text(decision.result))
    return ToolAnswer(text=HAPPENED_TEXT, lost=True)


def _format_question(question: LoggedQuestion) -> dict[str, Any]:
    again = [attempt == NOT_STARTED for _, attempt in question.calls]
    texts = [AGAIN_QUESTION] if all(again) else [UNKNOWN_QUESTION, AGAIN_LAST] if any(again) else [UNKNOWN_QUESTION]
    if question.earlier:
        texts = [EARLIER_QUESTION_TEXT]
    return {
        "type": UNKNOWN_OUTCOME,
        "calls": [
            {"name": call.get("name"), "args": call.get("args", {}), **({"chosen_again": True} if repeats else {})}
            for call, repeats in zip(question.shown, again, strict=True)
        ],
        "question": " ".join([*texts, *([] if question.earlier else [ANSWER_ADVICE])]),
        "decisions": [*(EARLIER_OUTCOMES if question.earlier else OUTCOMES)],
    }


def _schema_of(question: LoggedQuestion) -> dict[str, Any]:
    return decisions_schema(OutcomeDecision, len(question.calls), EARLIER_OUTCOMES if question.earlier else OUTCOMES)


def decisions_schema(kind: type[BaseModel], count: int, allowed: Sequence[str]) -> dict[str, Any]:
    """Return the JSON schema of the answer to a question, which the interrupt carries as LangChain's do.

    Args:
        kind: class of a decision.
        count: number of calls.
        allowed: types of decisions that the person may take.
    """
    decision = kind.model_json_schema()
    decision["properties"]["type"] = {"enum": [*allowed]}
    listed = {"type": "array", "minItems": count, "maxItems": count, "items": decision}
    definitions = {"$defs": decision.pop("$defs")} if "$defs" in decision else {}
    return {"type": "object", "properties": {"decisions": listed}, "required": ["decisions"], **definitions}


class Interview:
    """The questions of a node that asks nothing else: each is put again while its answer cannot be used.

    Args:
        config: configuration of the node.
    """

    def __init__(self, config: RunnableConfig) -> None:
        self._config = config
        self._answers: list[Any] = []

    async def ask(self, question: Mapping[str, Any], read: Callable[[Any], T], schema: dict[str, Any]) -> T:
        """Interrupt the graph with the next question, and return what its answer says.

        Args:
            question: value of the interrupt. If an answer could not be used, `problem` says why when it is put again.
            read: reads the answer; it raises ValueError if that cannot be used.
            schema: JSON schema of the answer.
        """
        found, given = interrupt_until_usable(question, read, schema)
        self._answers += given
        await bind_answers(self._config, self._answers)
        return found


def interrupt_until_usable(
    question: Mapping[str, Any], read: Callable[[Any], T], schema: dict[str, Any]
) -> tuple[T, list[Any]]:
    """Interrupt the graph with a question, and again with the problem while the answer cannot be read.

    Args:
        question: the question, as plain JSON.
        read: reads an answer; raises ValueError, with the right form, for one that cannot be used.
        schema: JSON schema of an answer.

    Returns:
        What was read, and all answers that were given.
    """
    problem: dict[str, str] = {}
    given = []
    while True:  # an exception would leave the unusable answer in the checkpoint, where no other one could replace it
        given.append(interrupt({**question, **problem}, response_schema=schema))
        try:
            return read(given[-1]), given
        except ValueError as error:
            problem = {"problem": str(error)}


DECISION_FORMS: Mapping[str, str] = {
    "approve": '{"type": "approve"}',
    "edit": '{"type": "edit", "edited_action": {"name": "...", "args": {}}}',
    "reject": '{"type": "reject", "message": "..."}',
    "respond": '{"type": "respond", "message": "..."}',
    "happened": '{"type": "happened", "result": "..."}',
    "repeat": '{"type": "repeat"}',
    "stop": '{"type": "stop"}',
}
"""The decisions about a call that questions of certigraph's own nodes take, as JSON."""


def read_decisions(kind: type[D], answer: Any, count: int, allowed: Sequence[str]) -> list[D]:
    """Read a person's decisions, one for each call: `{"decisions": [...]}`, a list, or a single one.

    Args:
        kind: class of a decision.
        answer: what the person answered.
        count: number of calls.
        allowed: types of decisions that the person may take, for the error message.

    Raises:
        ValueError: the answer has another form; the message shows the right one.
    """
    form = '{"type": ...}' if count == 1 else f'{{"decisions": [{{"type": ...}}, ...]}}, one for each of {count} calls'
    advice = f"give {form}; the types are {', '.join(allowed)}"
    given = answer.get("decisions", answer) if isinstance(answer, Mapping) else answer
    given = [given] if isinstance(given, Mapping | str) else given
    try:
        decisions = [kind.model_validate({"type": one} if isinstance(one, str) else one) for one in given]
    except ValidationError as error:
        others = [one for one in error.errors() if one["loc"][:1] != ("type",)]
        details = [f"{'.'.join(map(str, one['loc']))}: {one['msg']}" for one in others]
        wrong = f" ({'; '.join(details)})" if details else ""
        if details and (meant := [name for one in given if (name := _type_of(one)) in DECISION_FORMS]):
            advice = f"give {DECISION_FORMS[meant[0]]}"
        raise ValueError(f"{answer!r:.200} is not a decision{wrong}: {advice}") from None
    except TypeError:
        raise ValueError(f"{answer!r:.200} is not a decision: {advice}") from None
    if len(decisions) != count:
        raise ValueError(f"{answer!r:.200} has {len(decisions)} decisions, where {count} are needed: {advice}")
    return decisions


def _type_of(decision: object) -> str:
    return str(decision.get("type", "") if isinstance(decision, Mapping) else decision)


UNKNOWN_QUESTION = "These calls started, and no answer says whether they took effect. Did they happen?"
EARLIER_QUESTION_TEXT = (
    "These calls started in an earlier turn, and no answer says whether they took effect. Did they happen? Answer "
    '{"decisions": [...]} with one of these for each call: {"type": "happened", "result": what the tool answered}, or '
    '{"type": "repeat"} for a call that did not happen, which the agent may then choose again.'
)
AGAIN_QUESTION = (
    "These calls have not started. Each is equal to one that happened before it, and what that one answered was lost. "
    "Make them as well (repeat), or take the ones before for them (happened)?"
)
AGAIN_LAST = "Those with `chosen_again` have not started: each is equal to one that happened and whose answer was lost."
ANSWER_ADVICE = (
    'Answer {"decisions": [...]} with one of these for each call: {"type": "happened", "result": what the tool '
    'answered}, {"type": "repeat"}, {"type": "stop"}. Without a result the agent sees only that the answer was lost, '
    "and may choose the call again."
)
HAPPENED_TEXT = (
    "The call was made; what it answered was lost. Look at what it changed, if you can, instead of making it again."
)

__all__ = [
    "OUTCOMES",
    "UNKNOWN_OUTCOME",
    "EnteredCall",
    "Interview",
    "OutcomeDecision",
    "QuestionLog",
    "decisions_schema",
    "interrupt_until_usable",
    "read_decisions",
]


# Answers, each of which is used once.
#
# LangGraph keeps the latest answer with the checkpoint of the outermost graph. If a run is resumed without a new
# answer, it hands the old one to whichever question comes next: a decision about one call would decide about another.

NO_TASK = "00000000-0000-0000-0000-000000000000"
"""Task id under which LangGraph keeps what a caller of the graph wrote."""

WAIT_SECONDS = 0.2
"""Seconds for which an answer that LangGraph saves in the background is awaited."""


async def bind_answers(config: RunnableConfig, answers: Sequence[Any]) -> None:
    """Keep the answers that a node got with this node, and take the latest one away from every other question.

    Args:
        config: configuration of the node that asked.
        answers: all answers that it got, in order; empty if only a tool that it called knows them.
    """
    configurable = config.get("configurable", {})
    saver, checkpoints = configurable.get(CHECKPOINTER_KEY), configurable.get(CHECKPOINTS_KEY, {})
    if not isinstance(saver, BaseCheckpointSaver) or "" not in checkpoints:
        return
    thread, own = str(configurable["thread_id"]), str(configurable.get(NAMESPACE_KEY, "")).rpartition("|")[0]
    if answers and own in checkpoints:
        place = {"thread_id": thread, "checkpoint_ns": own, "checkpoint_id": checkpoints[own]}
        task, scratchpad = str(configurable.get(TASK_KEY, "")), configurable.get(SCRATCHPAD_KEY)
        got: Sequence[Any] = scratchpad.resume if scratchpad else ()
        # a middleware around the call may have got answers before, such as the approval of the call
        first = next((place for place, one in enumerate(got) if one is answers[0]), 0)
        await use_saver(saver, "put_writes", {"configurable": place}, [(RESUME, [*got[:first], *answers])], task)
    place = {"thread_id": thread, "checkpoint_ns": "", "checkpoint_id": checkpoints[""]}
    if await _read_latest(saver, place) is not None:
        await use_saver(saver, "put_writes", {"configurable": place}, [(RESUME, None)], NO_TASK)


async def _read_latest(saver: BaseCheckpointSaver[Any], place: dict[str, str]) -> Any:
    loop = asyncio.get_running_loop()
    deadline = loop.time() + WAIT_SECONDS
    while True:
        found = await use_saver(saver, "get_tuple", {"configurable": place})
        writes = found.pending_writes or () if found else ()
        kept = [value for task, channel, value in writes if (task, channel) == (NO_TASK, RESUME)]
        if kept or loop.time() > deadline:  # an answer that names its question is not kept there
            return kept[0] if kept else None
        await asyncio.sleep(0.01)

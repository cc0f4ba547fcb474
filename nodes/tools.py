"""Calling tools: effects that happen once, and a person's approval before a call.

`take_tool_action` is the part of the node `act` that calls tools. `approve` is a node between choosing and acting that
a graph has only where `interrupt_on` names a tool.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from itertools import groupby
from typing import Any, Literal, NamedTuple, TypeVar, cast

from langgraph.config import get_config
from langgraph.errors import GraphBubbleUp
from langgraph.runtime import Runtime
from langgraph.types import interrupt
from pydantic import ValidationError

from certigraph.adapters.benchmarks import call_world
from certigraph.adapters.episodes import live_episode
from certigraph.adapters.protocols import AsyncOperator, Context
from certigraph.adapters.tools.effects import PAUSED, REPEAT, Ledger, LedgerEntry, ToolAnswer, open_ledger
from certigraph.adapters.tools.loading import bound_text
from certigraph.adapters.tools.operators import ToolProvider, tools_of
from certigraph.adapters.tools.world import ToolsEnvironment
from certigraph.nodes.commitments import refuse_beyond_commitment
from certigraph.nodes.slots import Slot
from certigraph.state.records import Action, Fault, Observation, Record, Step
from certigraph.state.run import RunState
from certigraph.state.tools import ToolCall, add_answers, calls_of, number_calls, replace_calls

T = TypeVar("T")
D = TypeVar("D", bound=Record)

# Acting: every call that must happen once is entered in the ledger before it starts and after it has ended.


class _Entered(NamedTuple):
    """A call of an action, its key in the ledger, and what the ledger says of it."""

    call: ToolCall
    key: str
    entry: LedgerEntry


async def take_tool_action(state: RunState, runtime: Runtime[Context]) -> dict[str, Any]:
    """Call the tools of the chosen action, and add what they answered to the evidence.

    Raises:
        GraphInterrupt: the outcome of a call is unknown, so that a person has to decide, or a tool interrupted the run.
    """
    tools, action, history = tools_of(state["task"], runtime), state["action"], state["history"]
    episode = await call_world(live_episode, state["task"], runtime, state["episode"], state["task"], history, runtime)
    if calls := calls_of(action):
        action = replace_calls(action, refuse_beyond_commitment(calls, state, runtime))
    answers = await _make_calls(tools, action, state["episode"], history, cast(ToolsEnvironment, episode.environment))
    if answers is None:
        observation = Observation(text=STOPPED_TEXT, accepted=False, done=True)
        episode.recall([Step(action=action, digest=observation.digest())])
    elif answers:
        observation = _observe(answers)
        made = replace_calls(action, [call for call, _ in answers])
        episode.recall([Step(action=made, digest=observation.digest())])
    else:
        observation = episode.step(action)
    evidence = state["evidence"]
    if shown := [(call, answer.text) for call, answer in answers or () if not call.refused]:
        evidence = add_answers(evidence, len(history) + 1, shown)
    return {"observation": observation, "evidence": evidence, "history": episode.log[len(history) :]}


Answers = Sequence[tuple[ToolCall, ToolAnswer]]


def _observe(answers: Answers) -> Observation:
    """Create the observation of an action from what its calls answered."""
    if len(answers) == 1:
        text = answers[0][1].text
    else:
        text = "\n\n".join(f"{call}\n{answer.text}" for call, answer in answers)
    failed: dict[str, Any] = {"result": "failed"} if any(answer.failed for _, answer in answers) else {}
    refused = all(call.refused for call, _ in answers)
    return Observation(text=bound_text(text), accepted=not refused, data={} if refused else failed)


async def _make_calls(
    tools: ToolProvider, action: Action, episode: str, history: Sequence[Step], world: ToolsEnvironment
) -> Answers | None:
    """Make the calls of an action in their order; None if a person ends the run."""
    calls, ledger = calls_of(action), open_ledger(get_config())
    numbers = number_calls(history, calls)
    entered = [
        await _look_up(tools, call, f"{episode}|{call.digest()}|{number}", ledger)
        for call, number in zip(calls, numbers, strict=True)
    ]
    decided = await _settle_unknown(entered, ledger)
    if decided is None:
        return None
    answers: list[tuple[ToolCall, ToolAnswer]] = []
    # neighbouring calls that may be repeated are made at the same time
    for once, group in groupby(decided, lambda one: not tools.is_repeatable(one.call.name)):
        if once:
            for one in group:
                answers.append(await _make_once(world, one, ledger, after=answers))
        else:
            answers += await asyncio.gather(*(_make_repeatable(world, one.call) for one in group))
    return answers


async def _look_up(tools: ToolProvider, call: ToolCall, key: str, ledger: Ledger) -> _Entered:
    known = call.refused or call.name not in tools.loaded or tools.is_repeatable(call.name)
    return _Entered(call, key, LedgerEntry() if known else await ledger.read(key))


async def _make_repeatable(world: ToolsEnvironment, call: ToolCall) -> tuple[ToolCall, ToolAnswer]:
    return call, _refusal(call) or await world.call(call)


async def _make_once(
    world: ToolsEnvironment, one: _Entered, ledger: Ledger, *, after: Answers
) -> tuple[ToolCall, ToolAnswer]:
    call = one.call
    if refusal := _refusal(call):
        return call, refusal
    if one.entry.answer:
        return call, one.entry.answer
    if any(answer.failed for _, answer in after):
        skipped = call.model_copy(update={"refused": SKIPPED_TEXT})
        return skipped, ToolAnswer(text=SKIPPED_TEXT, failed=True)
    attempt = one.entry.attempts
    if not await ledger.start(one.key, attempt):
        fix = "wait until it has ended, then invoke the thread again"
        raise Fault("environment", f"another process is making the call {call}: {fix}")
    try:
        answer = await world.call(call)
    except GraphBubbleUp:  # the tool asks a person; it starts again when it has the answer
        await ledger.note(one.key, attempt, PAUSED)
        raise
    await ledger.finish(one.key, attempt, answer)
    return call, answer


def _refusal(call: ToolCall) -> ToolAnswer | None:
    return ToolAnswer(text=call.refused, failed=True) if call.refused else None


SKIPPED_TEXT = "The call was not made, because the one before it failed."
STOPPED_TEXT = "A person ended the work, because it is not known whether a call took effect."


# Calls whose outcome is unknown: the process ended, or the run was cancelled, between start and answer.


class OutcomeDecision(Record):
    """A person's decision about a call that started and has no answer."""

    type: Literal["happened", "repeat", "stop"]
    result: str = ""
    """What the tool answered, or would have answered, if the call `happened`."""


UNKNOWN_OUTCOME = "unknown_outcome"
"""Value of `type` in the interrupt that asks whether calls happened."""


async def _settle_unknown(entered: Sequence[_Entered], ledger: Ledger) -> list[_Entered] | None:
    """Ask a person about all calls of unknown outcome at once, and enter the decisions; None if the work ends."""
    unknown = [one for one in entered if one.entry.running]
    if not unknown:
        return list(entered)
    question = {
        "type": UNKNOWN_OUTCOME,
        "calls": [{"name": one.call.name, "args": one.call.args} for one in unknown],
        "question": UNKNOWN_QUESTION,
        "decisions": ["happened", "repeat", "stop"],
    }
    decisions = ask_person(question, lambda answer: _read_decisions(OutcomeDecision, answer, len(unknown)))
    if any(decision.type == "stop" for decision in decisions):
        return None
    settled = dict[str, _Entered]()
    for one, decision in zip(unknown, decisions, strict=True):
        attempt, entry = one.entry.attempts - 1, await ledger.read(one.key)
        if entry.answer is None:  # else another process has finished the call in the meantime
            if decision.type == "happened":
                await ledger.finish(one.key, attempt, ToolAnswer(text=bound_text(decision.result or HAPPENED_TEXT)))
            else:
                await ledger.note(one.key, attempt, REPEAT)
            entry = await ledger.read(one.key)
        settled[one.key] = one._replace(entry=entry)
    return [settled.get(one.key, one) for one in entered]


def ask_person(question: dict[str, Any], read: Callable[[Any], T]) -> T:
    """Interrupt the graph with a question, and again while the answer cannot be used.

    Args:
        question: value of the interrupt. If an answer could not be used, `problem` says why when it is asked again.
        read: reads the answer; it raises ValueError if that cannot be used.
    """
    asked = question
    while True:  # an exception would leave the unusable answer in the checkpoint, where no other one could replace it
        answer = interrupt(asked)
        try:
            return read(answer)
        except ValueError as error:
            asked = {**question, "problem": str(error)}


def _read_decisions(kind: type[D], answer: Any, count: int) -> list[D]:
    """Read a person's decisions, one for each call: `{"decisions": [...]}`, a list, or a single one.

    Raises:
        ValueError: the answer has another form; the message shows the right one.
    """
    given = answer.get("decisions", answer) if isinstance(answer, Mapping) else answer
    given = [given] if isinstance(given, Mapping | str) else given
    try:
        decisions = [kind.model_validate({"type": one} if isinstance(one, str) else one) for one in given]
    except ValidationError as error:
        wrong = "; ".join(f"{'.'.join(map(str, one['loc']))}: {one['msg']}" for one in error.errors())
        raise ValueError(f"the answer {answer!r:.200} cannot be used ({wrong}): {DECISION_ADVICE}") from None
    except TypeError:
        raise ValueError(f"the answer {answer!r:.200} cannot be used: {DECISION_ADVICE}") from None
    if len(decisions) != count:
        raise ValueError(f"{len(decisions)} decisions were given for {count} calls: {DECISION_ADVICE}")
    return decisions


UNKNOWN_QUESTION = (
    "These calls started, but the process ended before an answer was stored. Did they happen? "
    'Answer {"type": "happened", "result": what the tool answered}, {"type": "repeat"} or {"type": "stop"} for each.'
)
DECISION_ADVICE = 'give Command(resume={"decisions": [{"type": ...}, ...]}), one for each call in the question'
HAPPENED_TEXT = "The call was made; what it answered was lost."


# CallDecision (LangChain's human-in-the-loop format): a person approves, edits or rejects calls before they are made.

Decision = Literal["approve", "edit", "reject"]
ALL_DECISIONS: tuple[Decision, ...] = ("approve", "edit", "reject")

InterruptOn = Mapping[str, "bool | Mapping[str, Any]"]
"""Tools that need approval: True for every decision, or `{"allowed_decisions": [...], "description": ...}`."""


class EditedCall(Record):
    """A call as a person changed it."""

    name: str
    args: dict[str, Any]


class CallDecision(Record):
    """A person's decision about a call that was chosen and not made yet."""

    type: Decision
    edited_action: EditedCall | None = None
    message: str = ""
    """Why the call is rejected."""


def approvals(interrupt_on: InterruptOn) -> AsyncOperator:
    """Create the operator of the node `approve`.

    Args:
        interrupt_on: the tools whose calls need approval.
    """
    allowed = {name: _allowed(name, rule) for name, rule in interrupt_on.items() if rule}
    descriptions = {
        name: str(rule.get("description", "")) for name, rule in interrupt_on.items() if isinstance(rule, Mapping)
    }

    async def approve(state: RunState, runtime: Runtime[Context]) -> dict[str, Any]:
        tools, calls = tools_of(state["task"], runtime), list(calls_of(state["action"]))
        beyond = refuse_beyond_commitment(calls, state, runtime)
        waiting = [index for index, call in enumerate(calls) if call.name in allowed and not call.refused]
        if not waiting:
            return {"action": state["action"]}
        asked = [beyond[index] for index in waiting]

        def read(answer: Any) -> list[ToolCall]:
            decisions = _read_decisions(CallDecision, answer, len(asked))
            pairs = zip(waiting, decisions, strict=True)
            return [_decide_call(calls[index], decision, allowed, tools) for index, decision in pairs]

        decided = ask_person(_approval_request(asked, allowed, descriptions), read)
        for index, call in zip(waiting, decided, strict=True):
            calls[index] = call
        return {"action": replace_calls(state["action"], calls)}

    return approve


def _allowed(name: str, rule: Any) -> tuple[Decision, ...]:
    given = rule.get("allowed_decisions", ALL_DECISIONS) if isinstance(rule, Mapping) else ALL_DECISIONS
    if unknown := [one for one in given if one not in ALL_DECISIONS]:
        raise ValueError(f"interrupt_on[{name!r}] allows {unknown[0]!r}: the decisions are {', '.join(ALL_DECISIONS)}")
    return tuple(given)


def _approval_request(
    calls: Sequence[ToolCall], allowed: Mapping[str, Sequence[Decision]], descriptions: Mapping[str, str]
) -> dict[str, Any]:
    requests = [
        {"name": call.name, "args": call.args, "description": _describe_call(call, descriptions)} for call in calls
    ]
    names = dict.fromkeys(call.name for call in calls)
    configs = [{"action_name": name, "allowed_decisions": list(allowed[name])} for name in names]
    return {"action_requests": requests, "review_configs": configs}


def _describe_call(call: ToolCall, descriptions: Mapping[str, str]) -> str:
    question = descriptions.get(call.name) or f"Approve {call}?"
    return f"{question} {WITHOUT_APPROVAL} {call.refused}" if call.refused else question


def _decide_call(
    call: ToolCall, decision: CallDecision, allowed: Mapping[str, Sequence[Decision]], tools: ToolProvider
) -> ToolCall:
    """Return the call as a person decided.

    Raises:
        ValueError: the decision is not allowed, or the edited call cannot be made.
    """
    if decision.type not in allowed[call.name]:
        raise ValueError(f"{decision.type!r} is not allowed for {call.name}: {', '.join(allowed[call.name])}")
    if decision.type == "approve":
        return call.model_copy(update={"approved": True})
    if decision.type == "reject":
        return call.model_copy(update={"refused": REJECTED_TEXT.format(reason=decision.message or "no reason given")})
    edited = decision.edited_action
    if edited is None or edited.name not in tools.loaded:
        form = '{"edited_action": {"name": ..., "args": ...}}'
        raise ValueError(f"an edit needs {form} with one of the tools {', '.join(tools.loaded)}")
    if problem := tools.loaded[edited.name].check_arguments(edited.args):
        raise ValueError(f"the edited call cannot be made: {problem}")
    return ToolCall(name=edited.name, args=edited.args, approved=True)


WITHOUT_APPROVAL = "Without your approval:"
REJECTED_TEXT = "A person rejected this call: {reason}"

APPROVE = Slot("approve", {"action": Action})
"""Slot `approve`, between choosing an action and acting. Optional."""

__all__ = ["ALL_DECISIONS", "APPROVE", "InterruptOn", "approvals", "take_tool_action"]

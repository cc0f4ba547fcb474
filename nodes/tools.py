"""Calling tools, with effects that happen once: the part of the node `act` that calls tools."""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from textwrap import indent
from typing import Any, cast

from langchain_core.messages import ToolMessage
from langchain_core.runnables import RunnableConfig
from langgraph.config import get_config
from langgraph.errors import GraphBubbleUp
from langgraph.runtime import Runtime
from langgraph.types import Command

from certigraph.adapters.benchmarks import call_world, context_of
from certigraph.adapters.episodes import call_environment, live_episode
from certigraph.adapters.models.prompts import clip, one_line
from certigraph.adapters.protocols import Context
from certigraph.adapters.tools.contents import bound_text
from certigraph.adapters.tools.effects import (
    PAUSED,
    UNKNOWN,
    Ledger,
    LedgerEntry,
    RunningCall,
    ToolAnswer,
    await_saved_state,
    open_ledger,
)
from certigraph.adapters.tools.outputs import read_commands
from certigraph.adapters.tools.positions import FRESH_KEY, inside_call, turn_of
from certigraph.adapters.tools.world import Tools, ToolsEnvironment
from certigraph.nodes.commitments import refuse_beyond_commitment
from certigraph.nodes.messages import EndedCalls, answer_calls
from certigraph.nodes.own_tools import tools_of
from certigraph.nodes.questions import UNKNOWN_OUTCOME, EnteredCall, QuestionLog
from certigraph.nodes.settlements import UNDONE_TEXT, fault_of_running, settle_by_rule
from certigraph.nodes.slots import COMMANDS
from certigraph.state.records import CHECK, Action, Observation, Step
from certigraph.state.run import AnsweredCall, RunState
from certigraph.state.tools import (
    ANSWER_ARGUMENT,
    MAX_ERROR,
    ChainedCall,
    ToolCall,
    add_answers,
    calls_of,
    find_blocking,
    id_of_call,
    key_of_call,
    next_message_id,
    number_calls,
    replace_calls,
)

# Acting: every call that must happen once is entered in the ledger before it starts and after it has ended.


async def take_tool_action(state: RunState, runtime: Runtime[Context]) -> dict[str, Any]:
    """Call the tools of the chosen action, and add what they answered to the evidence.

    Raises:
        GraphInterrupt: the outcome of a call is unknown, so that a person has to decide, or a tool interrupted the run.
    """
    tools, action, history = tools_of(state["task"], runtime), state["action"], state["history"]
    episode = await call_world(live_episode, state["task"], runtime, state["episode"], state["task"], history, runtime)
    if calls := calls_of(action):
        action = replace_calls(action, refuse_beyond_commitment(calls, state, runtime))
    answers = await _make_calls(tools, action, state, runtime, cast(ToolsEnvironment, episode.environment))
    messages, number = list[ToolMessage](), count_actions(history, runtime) + 1
    evidence, effects = state["evidence"], dict[str, Any]()
    if answers is None:
        observation = Observation(text=STOPPED_TEXT, accepted=False, done=True)
        steps = [Step(action=action, digest=observation.digest())]
        episode.recall(steps)
        ended, stopped = await find_ended(state, tools), ToolAnswer(text=STOPPED_TEXT, failed=True)
        messages = answer_calls(state, [ended.get(index, (call, stopped)) for index, call in enumerate(calls)])
        effects["answers"] = record_answers(ended.values(), tools, action=number)
    elif answers:
        shown = [(call, _name_change(call, answer)) for call, answer in answers]
        observation = observe(shown)
        noted = replace_calls(action, [_note_error(call, answer) for call, answer in answers])
        steps = [Step(action=noted, digest=observation.digest())]
        episode.recall(steps)
        messages = answer_calls(state, answers)
    else:
        observation = episode.step(action)
        steps = episode.log[len(history) :]
    commands: list[Command[Any]] = [Command(update={"messages": messages})] if messages else []
    if answers:
        if direct := _find_direct(tools, answers):
            episode.step(tools.finish_action({ANSWER_ARGUMENT: direct.text}, is_part=True))
            steps = [*steps, episode.log[-1]]
            observation = observation.model_copy(update={"done": True})
        commands += read_commands((answer for _, answer in answers), tools.state_keys)
        first = len(state.get("answers", ())) + 1
        evidence = add_answers(evidence, number, [(call, answer.text) for call, answer in shown], first=first)
        effects["answers"] = record_answers(answers, tools, action=number)
    if commands:
        effects[COMMANDS] = commands
    return {"observation": observation, "evidence": evidence, "history": steps, **effects}


async def find_ended(state: Mapping[str, Any], tools: Tools) -> EndedCalls:
    """Return those calls of the action at hand that have ended.

    They are in the ledger, and not yet in the state, where another call of the action waits for a person or was killed.

    Args:
        state: the state of an agent, before the action was taken.
        tools: the tools that the agent has.
    """
    action, episode = state.get("action"), str(state.get("episode") or "")
    calls = calls_of(action) if isinstance(action, Action) and episode else ()
    if not _have_effects(tools, calls):
        return {}
    ledger, found = open_ledger(get_config(), turn_of(episode)), dict[int, tuple[ToolCall, ToolAnswer]]()
    for index, (call, number) in enumerate(zip(calls, number_calls(state["history"], calls), strict=True)):
        if not call.is_made or call.name not in tools.loaded or tools.is_repeatable(call.name):
            continue
        chosen = key_of_call(episode, call, number)
        entry = await ledger.read(_bind_key(tools, call, episode, chosen))
        # a key of the user's may stand for an equal call that was made before
        if entry.answer and entry.first and entry.first.chosen == chosen:
            found[index] = call, entry.answer
    return found


def record_answer(call: ToolCall, text: str, tools: Tools, *, failed: bool = False, action: int = 0) -> AnsweredCall:
    """Return the record of a call and its answer.

    Args:
        call: the call.
        text: what was answered.
        tools: the tools that the agent has.
        failed: whether the tool raised an error.
        action: number of the action, from 1; 0 for a call of an earlier turn or sub-task.
    """
    return AnsweredCall(
        tool=call.name,
        args=call.args,
        answer=text,
        failed=failed or bool(call.refused),
        made=call.is_made,
        lasting=tools.lasts(call.name),
        action=action,
    )


def record_answers(
    answers: Iterable[tuple[ToolCall, ToolAnswer]], tools: Tools, *, action: int = 0
) -> list[AnsweredCall]:
    """Return the records of calls with their answers; arguments as for `record_answer`."""
    return [record_answer(call, answer.text, tools, failed=answer.failed, action=action) for call, answer in answers]


Answers = Sequence[tuple[ToolCall, ToolAnswer]]


def count_actions(history: Sequence[Step], runtime: Runtime[Context]) -> int:
    """Count actions as prompts number them: those of the sub-task at work, without steps that only looked."""
    entry = context_of(runtime).entry
    return sum(step.action.kind != CHECK for step in history[len(entry.steps) if entry else 0 :])


def observe(answers: Answers) -> Observation:
    """Create the observation of an action from what its calls answered."""
    if len(answers) == 1:
        text = answers[0][1].text
    else:
        # set in, so that no answer can have a line that looks like a call with its answer
        text = "\n\n".join(f"{call}\n{indent(answer.text, ' ')}" for call, answer in answers)
    failed: dict[str, Any] = {"result": "failed"} if any(answer.failed for _, answer in answers) else {}
    refused = all(call.refused for call, _ in answers)
    return Observation(text=bound_text(text), accepted=not refused, data={} if refused else failed)


def _find_direct(tools: Tools, answers: Answers) -> ToolAnswer | None:
    """Return the answer of a call that is the agent's answer, because the tool says so (`return_direct`)."""
    made = [(tools.loaded[call.name], answer) for call, answer in answers if call.is_made and not answer.failed]
    return next((answer for tool, answer in made if tool.tool.return_direct), None)


def _note_error(call: ToolCall, answer: ToolAnswer) -> ToolCall:
    """Return the call with the error that its tool raised, if it did."""
    if not (answer.failed and call.is_made):
        return call
    error = clip(one_line(answer.broken or answer.text), MAX_ERROR)
    return call.model_copy(update={"error": error, "broken": bool(answer.broken)})


async def _make_calls(
    tools: Tools, action: Action, state: RunState, runtime: Runtime[Context], world: ToolsEnvironment
) -> Answers | None:
    """Make the calls of an action in their order; None if a person ends the run."""
    calls, config = calls_of(action), get_config()
    if not calls:
        return ()
    once = _have_effects(tools, calls)
    ledger = open_ledger(config, turn_of(state["episode"])) if once else Ledger(None)
    maker = _CallMaker(tools, world, ledger, config, state)
    await maker.questions.load()
    if not await maker.questions.settle():
        return None
    # the numbers find a call in the ledger, and only a ledger that lasts is read again
    numbers = number_calls(state["history"], calls) if once else range(len(calls))
    entered = [await maker.look_up(call, state["episode"], number) for call, number in zip(calls, numbers, strict=True)]
    await maker.settle(entered)
    await call_world(call_environment, state["task"], runtime, world.begin_calls, action)
    return await maker.make(entered)


def _bind_key(tools: Tools, call: ToolCall, episode: str, chosen: str) -> str:
    """Return the key under which a call stands in the ledger: the one by which it was `chosen`, or the user's."""
    return tools.rule(call.name).bind(call.name, call.args, turn_of(episode), chosen)


def _have_effects(tools: Tools, calls: Sequence[ToolCall]) -> bool:
    return any(call.is_made and not tools.is_repeatable(call.name) for call in calls)


def _name_change(call: ToolCall, answer: ToolAnswer) -> ToolAnswer:
    """Return the answer with what a person changed, without which the agent would take the call for its own."""
    if not call.chosen:
        return answer
    return answer.model_copy(update={"text": f"(A person changed this call from {call.chosen}.)\n{answer.text}"})


class _CallMaker:
    """Makes the calls of an action: each call that must happen once through the ledger."""

    def __init__(
        self, tools: Tools, world: ToolsEnvironment, ledger: Ledger, config: RunnableConfig, state: RunState
    ) -> None:
        self._tools, self._world, self._ledger, self._config, self._state = tools, world, ledger, config, state
        self.questions = QuestionLog(ledger, config)

    def _is_made_once(self, one: EnteredCall) -> bool:
        # a call that may be repeated is entered as well if it has asked a person, who must not be asked again
        return not self._tools.is_repeatable(one.call.name) or self.questions.has_paused(one.key)

    async def look_up(self, call: ToolCall, episode: str, number: int) -> EnteredCall:
        """Return the call with its entry in the ledger; a call that may be repeated never has an unknown outcome.

        Args:
            call: the call.
            episode: key of the episode.
            number: number of equal calls before it.
        """
        chosen = key = key_of_call(episode, call, number)
        if not self._tools.is_repeatable(call.name):
            key = _bind_key(self._tools, call, episode, chosen)
        entered = EnteredCall(call, key, LedgerEntry(), chosen=chosen)
        if not call.is_made or call.name not in self._tools.loaded or not self._is_made_once(entered):
            return entered
        if key == chosen and not number and self._config.get("configurable", {}).get(FRESH_KEY):
            return entered
        entry = await self._ledger.read(entered.key)
        if self._tools.is_repeatable(call.name):
            return entered._replace(entry=entry._replace(start=None))
        if key != chosen or entry.exists or not number or call.approved:
            return entered._replace(entry=entry)
        earlier = (await self._ledger.read(key_of_call(episode, call, number - 1))).answer
        return entered._replace(again=earlier is not None and earlier.lost)

    async def settle(self, calls: list[EnteredCall]) -> None:
        """Settle the calls whose outcome is unknown, in place.

        Raises:
            GraphInterrupt: a person has to decide.
            Fault: ("environment") a call runs elsewhere.
        """
        unknown = []
        for index, one in enumerate(calls):
            if one.entry.runs_elsewhere:
                raise fault_of_running(one.call)
            if not (one.entry.start or one.again):
                continue
            if await settle_by_rule(one, self._tools.rule(one.call.name), self._ledger):
                unknown.append(one)
            else:
                calls[index] = one._replace(entry=await self._ledger.read(one.key), again=False)
        if unknown:
            await self.questions.ask(unknown)

    async def make(self, calls: Sequence[EnteredCall]) -> Answers:
        """Make the calls; neighbouring ones that may be repeated are made at the same time."""
        if any(self._is_made_once(one) and not one.entry.answer and one.call.is_made for one in calls):
            await await_saved_state(self._config)
        answers: list[tuple[ToolCall, ToolAnswer]] = []
        for in_order, group in groupby(enumerate(calls), lambda numbered: self._keeps_order(numbered[1])):
            if not in_order and not self.questions.any and not find_blocking(True, self._chain(answers)):
                answers += await self._make_together(list(group))
                continue
            for number, one in group:
                answers.append(await self._make_in_turn(one, number, after=answers))
        return answers

    def _keeps_order(self, one: EnteredCall) -> bool:
        return self._is_made_once(one) or not self._tools.is_look_up(one.call.name)

    def _chain(self, answers: Answers) -> list[ChainedCall]:
        known = [(call, answer) for call, answer in answers if not call.denied]
        return [ChainedCall(one, self._tools.is_look_up(one.name), got.failed, one.is_made) for one, got in known]

    def _is_skipped(self, call: ToolCall, after: Answers) -> bool:
        before = self._chain(after)
        if call.approved:  # the person who decided about it has seen what was rejected before it
            before = [one for one in before if one.is_made]
        return find_blocking(self._tools.is_look_up(call.name), before) is not None

    async def _make_together(self, calls: Sequence[tuple[int, EnteredCall]]) -> Answers:
        if len(calls) == 1:  # without the tasks of `gather`
            number, one = calls[0]
            try:
                return [await self._make_repeatable(one, number)]
            except GraphBubbleUp as raised:
                await self.questions.note_pause(one.key, raised)
                raise
        made = await asyncio.gather(
            *(self._make_repeatable(one, number) for number, one in calls), return_exceptions=True
        )
        for (_, one), result in zip(calls, made, strict=True):
            if isinstance(result, BaseException):
                await self.questions.note_pause(one.key, result)
                raise result
        return [result for result in made if not isinstance(result, BaseException)]

    async def _make_repeatable(self, one: EnteredCall, number: int) -> tuple[ToolCall, ToolAnswer]:
        if unmade := _answer_unmade(one.call):
            return one.call, unmade
        with inside_call(self._config, one.chosen, number):
            return one.call, await self._world.call(one.call, self._state, self._id_of(number))

    async def _make_in_turn(self, one: EnteredCall, number: int, *, after: Answers) -> tuple[ToolCall, ToolAnswer]:
        call = one.call
        if unmade := _answer_unmade(call):
            return call, unmade
        if one.entry.answer:
            return call, _describe_repeated(one)
        if self._is_skipped(call, after):
            return call.model_copy(update={"refused": SKIPPED_TEXT}), ToolAnswer(text=SKIPPED_TEXT, failed=True)
        self.questions.pass_to(one.key)
        if not self._is_made_once(one):
            return call, await self._call(one, number)
        longest = self._tools.loaded[call.name].deadline
        with RunningCall(call.name, call.args, longest, one.chosen) as start:
            if not await self._ledger.start(one.key, one.entry, start):
                raise fault_of_running(call)
            answer = await self._call(one, number, entered=True)
            if not (answer.unknown and self._ledger.lasts):
                await self._ledger.finish(one.key, answer)
                return call, answer
        return call, await self._settle_now(one)

    async def _call(self, one: EnteredCall, number: int, *, entered: bool = False) -> ToolAnswer:
        try:
            with inside_call(self._config, one.key, number):
                return await self._world.call(one.call, self._state, self._id_of(number))
        except GraphBubbleUp as raised:  # the tool asks a person; it starts again when it has the answer
            await self.questions.note_pause(one.key, raised)
            if entered:
                await self._ledger.note(one.key, one.entry.attempts, PAUSED)
            raise

    def _id_of(self, number: int) -> str:
        """Return the id of a call by its number in the action, which is that of the call in the conversation."""
        return id_of_call(next_message_id(self._state), number)

    async def _settle_now(self, one: EnteredCall) -> ToolAnswer:
        """Settle a call that just ended without an answer that says whether it took effect.

        Raises:
            GraphInterrupt: a person has to decide.
        """
        await self._ledger.note(one.key, one.entry.attempts, UNKNOWN)
        one = one._replace(entry=await self._ledger.read(one.key))
        if await settle_by_rule(one, self._tools.rule(one.call.name), self._ledger):
            await self.questions.ask([one])
        answer = (await self._ledger.read(one.key)).answer
        return answer or ToolAnswer(text=UNDONE_TEXT, failed=True)


def _describe_repeated(one: EnteredCall) -> ToolAnswer:
    """Return what the agent reads of a call that was made before: more than the answer if it chose the call again."""
    answer, first = one.entry.answer, one.entry.first
    if answer is None:
        raise ValueError(f"{one.call} has no answer")
    if first is None or first.chosen in ("", one.chosen):
        return answer
    return answer.model_copy(update={"text": f"{MADE_BEFORE_TEXT}\n{answer.text}"})


def _answer_unmade(call: ToolCall) -> ToolAnswer | None:
    """Return what the agent reads of a call that is not made; None for one that is made."""
    if call.is_made:
        return None
    return ToolAnswer(text=call.refused, failed=True) if call.refused else ToolAnswer(text=bound_text(call.response))


SKIPPED_TEXT = "The call was not made, because one before it failed."
MADE_BEFORE_TEXT = "(This was done before, and is not done again. It was answered as follows.)"
STOPPED_TEXT = "A person ended the work at a question about calls whose answers were lost."
"""Observation of a run that a person ended so."""

__all__ = ["STOPPED_TEXT", "UNKNOWN_OUTCOME", "count_actions", "find_ended", "record_answers", "take_tool_action"]

"""Operators that change the world: `reset` opens an episode, `act` takes an action, `conclude` scores an episode."""

import uuid
from collections.abc import Mapping
from typing import Any

from langgraph.config import get_config
from langgraph.runtime import Runtime
from langgraph.types import Overwrite

from certigraph.adapters.benchmarks import benchmark_of, call_world, context_of, limits_of, live_benchmark, name_task
from certigraph.adapters.episodes import close_episode, live_episode
from certigraph.adapters.models.prompts import clip
from certigraph.adapters.models.usage import current_meter
from certigraph.adapters.protocols import Context
from certigraph.adapters.tools.effects import open_ledger
from certigraph.adapters.tools.positions import find_position, turn_of
from certigraph.adapters.tools.world import Tools
from certigraph.nodes.questions import QuestionLog
from certigraph.nodes.react import episode_limit
from certigraph.nodes.settlements import settle_earlier_turns
from certigraph.nodes.tools import find_ended, record_answer, record_answers, take_tool_action
from certigraph.state.endings import Fault, LimitReached
from certigraph.state.records import CHECK, Scores, Task
from certigraph.state.run import FINISH, AnsweredCall, Evidence, NestedStart, RunState
from certigraph.state.search import search_ending
from certigraph.state.step import Trial, TrialState
from certigraph.state.tools import add_answers, calls_of


async def reset(state: RunState, runtime: Runtime[Context]) -> dict[str, Any]:
    """Open a new episode of the task. The previous episode of the thread, if any, is closed.

    A run that is a part of another run (a TDP sub-task) continues in the world of that run instead (`NestedStart`).
    """
    task = Task.model_validate(state["task"])
    if not task.goal:
        task = await call_world(_load_task, task, runtime, task, runtime)
    if entry := context_of(runtime).entry:
        return {
            "task": task,
            "episode": entry.episode,
            **await call_world(_enter_episode, task, runtime, entry, task, runtime),
        }
    benchmark, previous, earlier = benchmark_of(task, runtime), state.get("episode", ""), []
    if isinstance(benchmark, Tools):
        key, previous = await next_episode_key(previous), ""  # another message may be at work in the previous episode
        if not all(map(benchmark.is_repeatable, benchmark.loaded)):
            # refused now, before any model is asked: what could not be done once
            ledger = open_ledger(get_config(), turn_of(key))
            questions = QuestionLog(ledger, get_config())
            await questions.load()
            await questions.settle()
            earlier = await settle_earlier_turns(ledger, benchmark.rules, questions)
        await call_world(benchmark.begin, task, runtime, task)
    else:
        key = f"{_thread_of(runtime) or 'run'}:{uuid.uuid4().hex[:8]}"
    opened = await call_world(_open_episode, task, runtime, key, previous, task, runtime)
    if isinstance(benchmark, Tools):
        kept = list[AnsweredCall]()
        if not benchmark.can_restart:
            ended = await find_ended(dict(state), benchmark)  # before a new turn cut off the action
            kept = [*_lasting_calls(state), *record_answers(ended.values(), benchmark)]
        opened["answers"] = Overwrite([*kept, *(record_answer(call, text, benchmark) for call, text in earlier)])
        if state.get("checks"):  # what the user agreed to stands, denials are of one turn
            agreed = [one.model_copy(update={"action": 0}) for one in state["checks"] if one.consent]
            opened["checks"] = Overwrite(agreed)
        if earlier:
            opened["evidence"] = add_answers(opened["evidence"], 0, earlier, first=len(kept) + 1)
    return {"task": task, "episode": key, "history": Overwrite([]), **opened}


MAX_KEPT = 10_000
"""Characters of an answer that are kept in later turns: each turn of a thread stores those of all turns before it."""


def _lasting_calls(state: Mapping[str, Any]) -> list[AnsweredCall]:
    """Return the calls of a thread's earlier turns whose effect lasts into the next, in sub-tasks as well.

    Rules and checks of the user's read their answers, of which prompts show only the beginning.
    """
    made = [one for one in state.get("answers", ()) if one.made and one.lasting]
    made += [effect.as_call() for outcome in state.get("outcomes", ()) for effect in outcome.effects]
    kept = {"action": 0, "earlier": True}
    return [one.model_copy(update={**kept, "answer": clip(one.answer, MAX_KEPT)}) for one in made]


async def next_episode_key(previous: str) -> str:
    """Return the key of a thread's next episode with tools.

    It is made of the position of the graph, so that a fork of the thread finds the effects that this episode had before
    it was forked, and several agents in one thread have keys of their own. The episodes of one position are counted.

    Args:
        previous: key of the thread's previous episode, or the empty string.

    Raises:
        Fault: ("environment") a checkpoint of a graph around this one is not saved.
    """
    position = await find_position(get_config())
    if not position:
        return f"run:{uuid.uuid4().hex}"
    before, _, number = previous.rpartition("#")
    return f"{position}#{int(number) + 1 if before == position else 1}"


def _thread_of(runtime: Runtime[Context]) -> str:
    return (runtime.execution_info.thread_id or "") if runtime.execution_info else ""


async def act(state: RunState, runtime: Runtime[Context]) -> dict[str, Any]:
    """Take the chosen action in the world.

    Raises:
        LimitReached: the episode has no steps left, or another budget is spent.
        Fault: the world failed, or a replayed episode answered differently from its log.
    """
    check_limits(state, runtime)
    if isinstance(benchmark_of(state["task"], runtime), Tools):
        return await take_tool_action(state, runtime)
    return await call_world(_take_step, state["task"], runtime, state, runtime)


def check_limits(state: RunState, runtime: Runtime[Context]) -> None:
    """Check that the limits allow the chosen action; an answer that ends the work needs no step, nor does a check.

    Raises:
        LimitReached: the episode has no steps left, or another budget is spent.
    """
    maximum = limits_of(state["task"], runtime).steps
    taken = sum(step.action.kind != CHECK for step in state["history"])
    if taken >= maximum and state["action"].kind not in (FINISH, CHECK):
        raise LimitReached("steps", maximum, taken)
    current_meter().check()


async def conclude(state: TrialState, runtime: Runtime[Context]) -> dict[str, Any]:
    """Score the episode that just ended, and record its ending: the limit that stopped it, if one did."""
    reached = episode_limit(state, runtime)
    trial = Trial(
        number=state["trial"],
        scores=await call_world(score_episode, state["task"], runtime, state, runtime),
        ending=reached.ending if reached else search_ending(state),
        steps=len(state["history"]),
    )
    return {"trials": [trial]}


def _load_task(task: Task, runtime: Runtime[Context]) -> Task:
    benchmark = benchmark_of(task, runtime)
    return name_task(benchmark.task(task.id), benchmark)


def _open_episode(key: str, previous: str, task: Task, runtime: Runtime[Context]) -> dict[str, Any]:
    if previous:
        close_episode(previous)
    episode = live_episode(key, task, [], runtime)
    return {"observation": episode.first, "evidence": episode.evidence()}


def _enter_episode(entry: NestedStart, task: Task, runtime: Runtime[Context]) -> dict[str, Any]:
    benchmark = benchmark_of(task, runtime)
    if isinstance(benchmark, Tools):
        live_episode(entry.episode, task, list(entry.steps), runtime)
        made = [call for step in entry.steps for call in calls_of(step.action) if call.is_made]
        return {
            "observation": entry.observation,
            "evidence": Evidence(),
            "answers": Overwrite([record_answer(call, "", benchmark, failed=bool(call.error)) for call in made]),
            "history": Overwrite([*entry.steps]),
        }
    if entry.apart:
        close_episode(entry.episode)  # a leftover copy, if the run was started before, holds that run's actions
    episode = live_episode(entry.episode, task, [] if entry.apart else list(entry.steps), runtime)
    observation = episode.first if entry.apart else entry.observation
    for step in entry.steps if entry.apart else ():
        observation = episode.step(step.action)
    return {"observation": observation, "evidence": episode.evidence(), "history": Overwrite([*episode.log])}


def _take_step(state: RunState, runtime: Runtime[Context]) -> dict[str, Any]:
    history = state["history"]
    episode = live_episode(state["episode"], state["task"], history, runtime)
    try:
        observation = episode.step(state["action"])
        evidence = episode.evidence()
    except Fault:
        close_episode(state["episode"])  # so that a resumed thread rebuilds the world instead of using a broken one
        raise
    return {"observation": observation, "evidence": evidence, "history": episode.log[len(history) :]}


def score_episode(state: RunState, runtime: Runtime[Context]) -> Scores:
    """Return the scores of the world of a state. Blocks; call it through `call_world`."""
    return live_episode(state["episode"], state["task"], state["history"], runtime).score()


# The start of a run of several episodes.


async def begin(state: TrialState, runtime: Runtime[Context]) -> dict[str, Any]:
    """Clear the record of the thread's previous run. Lessons in the LangGraph store stay; `recall` reads them.

    Raises:
        Fault: ("environment") several episodes are allowed, but effects of the tools cannot be undone between them.
    """
    tools = live_benchmark(context_of(runtime))
    if isinstance(tools, Tools) and not tools.can_restart and limits_of(state["task"], runtime).trials > 1:
        fix = "set Limits(trials=1), or give Tools(..., reset=FUNCTION)"
        raise Fault("environment", f"several episodes would repeat what the tools do, which nothing undoes: {fix}")
    return {"trial": 0, "trials": Overwrite([]), "lessons": ()}

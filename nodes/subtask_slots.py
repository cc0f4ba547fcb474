"""The slots of a sub-task's graph, of Plan-and-Act's and of the one-shot plan's."""

from langgraph.runtime import Runtime

from certigraph.adapters.benchmarks import benchmark_of, context_of
from certigraph.adapters.context import Context
from certigraph.adapters.prompting import listed, quoted
from certigraph.nodes import acting_slots
from certigraph.nodes.slots import Slot, Update
from certigraph.state.acting import DecideView
from certigraph.state.subtask import Progress, SubtaskState, execute_view, plan_view, replan_view, supervise_view

HAND_IN = "The world waits for what settles the task: hand it in."

OUTLINED = frozenset({"outline"})


def _begun(state: SubtaskState, update: Update, runtime: Runtime[Context]) -> Update:
    update = acting_slots.RESET.record(state, update, runtime)
    entry = context_of(runtime).entry
    given = {"known": entry.known if entry else (), "last": bool(entry and entry.last)}
    return {**update, **given, "outline": (), "progress": Progress(), "replanned": 0}


def _execute_view(state: SubtaskState) -> DecideView:
    """What the Executor reads; what other sub-tasks came to is quoted, for it may be the world's own words."""
    seen, known = execute_view(state), state["known"]
    told = (f"Known from before:\n{quoted(listed(known))}",) if known else ()
    return {**seen, "advice": (*told, *seen["advice"])}


def _again(state: SubtaskState, update: Update, runtime: Runtime[Context]) -> Update:
    return {**update, "replanned": state["replanned"] + 1}


def _settled(state: SubtaskState, update: Update, runtime: Runtime[Context]) -> Update:
    """Where the task is settled by handing something in, its goal is completed by that and by nothing said of it."""
    progress: Progress = update["progress"]
    waits = state["last"] and _hands_in(state, runtime) and not state["observation"].done
    if waits and progress.status == "completed":
        progress = Progress(status="needs_more_steps", guidance=HAND_IN)
    return {"progress": progress}


def _world_ended(state: SubtaskState, runtime: Runtime[Context]) -> Update | None:
    """What ended the world needs no judgement: it was handed in, or the world says itself that it is solved."""
    seen = state["observation"]
    if not seen.done:
        return None
    completed = seen.solved or (seen.accepted and _hands_in(state, runtime))
    return {"progress": Progress(status="completed" if completed else "failed", reason=seen.text)}


def _hands_in(state: SubtaskState, runtime: Runtime[Context]) -> bool:
    benchmark = benchmark_of(state["task"], runtime)
    return getattr(benchmark, "answers", False) or getattr(benchmark, "delivers", False)


RESET = acting_slots.RESET._replace(record=_begun)
PLAN = Slot("plan", OUTLINED, plan_view)
EXECUTE = acting_slots.DECIDE._replace(name="execute", view=_execute_view)
SUPERVISE = Slot(
    "supervise", frozenset({"progress"}), supervise_view, _settled, _world_ended, types={"progress": Progress}
)
REPLAN = Slot("replan", OUTLINED, replan_view, _again, acting_slots.require_steps)

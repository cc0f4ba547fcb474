"""TDP, task-decoupled planning (TDP paper, section 3, Algorithm 1).

The Supervisor decomposes the task into a graph of sub-tasks. All that are ready run together, each in a graph of its
own. That graph sees only the sub-task's specification, the results on which it depends, and its own actions and
observations. When this batch has ended, Self-Revision repairs and sharpens the pending sub-tasks, at most
`Limits.revisions` times.

`build(**PAPER)` is the paper's loop: every task is divided, every sub-task planned, one action taken a call, a status
given after each, and a revision made after each batch. The default operators ask the model only where its answer can
change something. Over tools they do not divide a task of which fewer than two sub-tasks use results of others.

The file has three parts: TDP's graph, the operator `solve`, which runs a graph for one sub-task, and the outcome of a
sub-task.
"""

from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from importlib import import_module
from types import ModuleType
from typing import Any, TypedDict, Unpack

from langchain_core.messages import AnyMessage
from langgraph.config import get_config
from langgraph.graph import END, START
from langgraph.graph.state import CompiledStateGraph
from langgraph.runtime import Runtime
from langgraph.types import Checkpointer, Command, Send

from certigraph.adapters.benchmarks import context_of, limits_of
from certigraph.adapters.models.attachments import find_attachments
from certigraph.adapters.models.prompts import clip, unquote_line
from certigraph.adapters.processes import is_invoked
from certigraph.adapters.protocols import Context, Operator
from certigraph.adapters.tools.world import Tools
from certigraph.graphs.assembly import (
    UNEXTENDED,
    Assembly,
    Schemas,
    add_path,
    assemble,
    check_slots,
    operators_of,
    swapped_specs,
)
from certigraph.nodes import tdp as slots
from certigraph.nodes.commitments import COMMIT
from certigraph.nodes.messages import messages_of_steps
from certigraph.nodes.plans import format_known, plan_always, supervise_always
from certigraph.nodes.react import execute
from certigraph.nodes.requests import read_messages, requests_in
from certigraph.nodes.slots import COMMANDS, SUBTASK_KEY, factory, share_context
from certigraph.nodes.specs import Spec
from certigraph.nodes.tdp import decompose, decompose_always, gather, revise, revise_always
from certigraph.nodes.world import reset
from certigraph.state.certified_states import CertifiedState, certified_state
from certigraph.state.effects import Effect, list_effects
from certigraph.state.endings import GOAL, LimitReached, Refused, UnknownName
from certigraph.state.records import Step, Task
from certigraph.state.run import (
    ANSWER_ACTIONS,
    FINISH,
    AnsweredCall,
    RunInput,
    belief_of,
    stagnation_of,
)
from certigraph.state.tdp import NodeStatus, Outcome, SolveView, is_stopped_in_batch
from certigraph.state.tdp import TDPState as State
from certigraph.state.tdp import tdp_ending as ending
from certigraph.state.tdp import tdp_message as message
from certigraph.state.tools import calls_of

# The graph of Algorithm 1.
#
# The schedule runs in batches, because LangGraph ends a superstep when the slowest of its nodes has ended. Starting
# each node as soon as it is ready would save about 5 % of the makespan of graphs of 3 to 8 nodes, the usual size, and
# 29 to 56 % of graphs of 20 to 200 nodes (simulated, durations log-normal). It is therefore not implemented.
#
# A world that can be stepped in parallel is copied for every node. The copy first repeats the steps of the node's
# ancestors, and `gather` repeats the steps of a batch in the run's world. In any other world, and in one that the
# caller passed in, one ready node runs at a time, in the world itself.
#
# The nodes of a batch share the calls, tokens and dollars that are left equally. A node that spent its part is
# deferred: when no other node is ready it starts again, alone, with all that is left. The budget ends the run only
# there or between batches, and the run can be resumed with a larger one. World steps are distributed too: a node that
# has used up its steps fails. If no steps are left for pending nodes, the run ends with `limit:steps`.

__all__ = ["PAPER", "State", "build", "builder", "ending", "graph", "message"]

TDPGraph = CompiledStateGraph[State, Context, RunInput, State]

SLOTS = (
    slots.RESET.filled(reset),
    COMMIT,
    slots.DECOMPOSE.filled(decompose),
    slots.SOLVE,
    slots.GATHER.filled(gather),
    slots.REVISE.filled(revise),
)
"""The slots of the graph. The default operator of `solve` is set by `build`."""


def dispatch(state: State, runtime: Runtime[Context]) -> str | list[Send]:
    """Send each sub-task that runs next to the node `solve`, or return `finished` if none is ready."""
    return [Send("solve", view) for view in slots.solve_views(state, runtime)] or "finished"


def after_gather(state: State, runtime: Runtime[Context]) -> str:
    """Return `over` if the world has ended or reports that the task is done, else `batch_done`.

    It is `stop` if a gate ended a sub-task.
    """
    if state["observation"].done or state["observation"].solved:
        return "over"
    return "stop" if is_stopped_in_batch(state) else "batch_done"


class TDPOperators(TypedDict, total=False):
    """Keywords of `build`. Those from `plan` on fill slots of a sub-task's graph; they exclude the keyword `solve`."""

    reset: Operator
    commit: Operator
    decompose: Operator
    solve: Any
    gather: Operator
    revise: Operator
    plan: Operator
    execute: Operator
    check: Operator
    approve: Operator
    act: Operator
    memory: Operator | str
    gate: Operator
    supervise: Operator
    replan: Operator


PAPER: TDPOperators = {
    "decompose": decompose_always,
    "plan": plan_always,
    "execute": execute,
    "supervise": supervise_always,
    "revise": revise_always,
}
"""The configuration that is the TDP paper's loop in every world: all is divided and planned, and every step judged."""


def builder(schemas: Schemas = UNEXTENDED, **operators: Unpack[TDPOperators]) -> Assembly:
    """Return the graph before it is compiled, so that it can be extended: `builder().insert(...)`.

    Args:
        schemas: schemas with which the graph is extended.
        **operators: operators by slot, as in `build`.

    Raises:
        TypeError: a keyword names no slot.
    """
    outer_slots = {slot.name for slot in SLOTS}
    outer: dict[str, Any] = {name: value for name, value in operators.items() if name in outer_slots}
    inner: dict[str, Any] = {name: value for name, value in operators.items() if name not in outer_slots}
    check_slots(operators, [*TDPOperators.__annotations__])
    if inner and "solve" in outer:
        one = next(iter(inner))
        fix = f"give them to the graph that solves: solve=GRAPH.build({one}=...)"
        raise TypeError(f"{', '.join(inner)}: {fix}, on the command line --swap solve=GRAPH:{one}=...")

    outer["solve"] = to_solver(outer["solve"]) if "solve" in outer else solve(**inner)
    graph = assemble("tdp", State, RunInput, SLOTS, outer, schemas)
    graph.add_edge(START, "reset")
    add_path(graph, "reset", "commit", "decompose")
    graph.add_conditional_edges("decompose", dispatch, {"ready": "solve"})
    graph.add_edge("solve", "gather")
    solver = getattr(outer["solve"], "graph", None)
    gated = {"stop": END} if solver is not None and "gate" in solver.nodes else {}
    graph.add_conditional_edges("gather", after_gather, {"batch_done": "revise", "over": END, **gated})
    graph.add_conditional_edges("revise", dispatch, {"ready": "solve", "finished": END})
    return graph


def build(checkpointer: Checkpointer = None, **operators: Unpack[TDPOperators]) -> TDPGraph:
    """Build TDP's graph, with your own operator in every slot that a keyword names.

    Args:
        checkpointer: a LangGraph checkpointer; without one a run cannot be resumed.
        **operators: operators by slot. `solve` may also be a graph: its name, its module or a compiled graph. With
            `build(solve=sdp)` or `build(solve=sdp.build(validate=mine))` every sub-task is certified.

    Raises:
        TypeError: a keyword names no slot, or it names a slot of the sub-task's graph while `solve` is given.
    """
    return builder(**operators).compile(checkpointer=checkpointer, name="tdp")


# Solve: run a graph inside the node, for one sub-task.
#
# The default is `subtask`, the paper's. Another graph works if its ending says whether it reached its goal: with SDP
# every sub-task is certified.

SUBTASK_GRAPH = "subtask"
"""Name of the default graph of a sub-task."""

SolverGraph = CompiledStateGraph[Any, Context, Any, Any]


@factory
def solve(*, graph: str = SUBTASK_GRAPH, **operators: Operator) -> Operator:
    """Run the named graph on a sub-task, with your own operator in every slot that a keyword names.

    Raises:
        UnknownName: there is no graph of that name.
        TypeError: a keyword names no slot of that graph, or the graph cannot solve a part of a task.
    """
    try:
        module = import_module(f"certigraph.graphs.{graph}")
    except ModuleNotFoundError:
        choices = "subtask, sdp, react and the search agents can work on a sub-task"
        raise UnknownName(f"solve(graph={graph!r}): there is no such graph; {choices}") from None
    return _create_operator(module.build(**operators))


def to_solver(given: Any) -> Operator:
    """Convert the argument of `tdp.build(solve=...)` to an operator.

    Args:
        given: an operator, the name or the module of a graph, or a compiled graph.
    """
    if isinstance(given, ModuleType):
        given = given.__name__.rpartition(".")[2]
    if isinstance(given, str):
        return solve(graph=given)
    return _to_operator(given) if isinstance(given, CompiledStateGraph) else given


def _to_operator(graph: SolverGraph) -> Operator:
    """Wrap a compiled graph as an operator, with the spec from which that operator can be built again."""
    defaults = operators_of(import_module(f"certigraph.graphs.{graph.name}").graph)
    swaps = swapped_specs(operators_of(graph), defaults)
    operator = _create_operator(graph)
    operator.spec = Spec(name="solve", args={"graph": graph.name, **swaps})  # type: ignore[union-attr]
    return operator


def _create_operator(graph: SolverGraph) -> Operator:
    if "trial" in graph.channels:
        reason = f"{graph.name} runs several episodes of a task, but a sub-task is a part of one episode"
        raise TypeError(f"{reason}: solve it with subtask, sdp, react or a search agent")
    graphs: list[Any] = [graph, *(one for _, one in graph.get_subgraphs(recurse=True))]
    shows_known, checks_calls = "known" in graph.channels, any("check" in one.nodes for one in graphs)

    async def solve(state: SolveView, runtime: Runtime[Context]) -> dict[str, Any]:
        task = _subtask_task(state, with_results=not shows_known)
        context = _solver_context(state, runtime)
        latest, reached = await _run_solver(graph, task, state, context, keeps_answers=checks_calls)
        outcome = outcome_of(graph.name, latest, state, reached, keeps_answers=checks_calls)
        messages = _messages_of(latest, state, context)
        shown: dict[str, Any] = {COMMANDS: [Command(update={"messages": messages})]} if messages else {}
        return {"outcomes": [outcome], "usage": latest.get("usage", []), "spent": latest["spent"], **shown}

    solve.graph = graph  # type: ignore[attr-defined]
    return solve


async def _run_solver(
    graph: SolverGraph, task: Task, state: SolveView, context: Context, *, keeps_answers: bool
) -> tuple[Any, LimitReached | None]:
    """Run the inner graph on a sub-task. Return its last state, and the limit that stopped it or None.

    Raises:
        LimitReached: the graph has no state yet, or the sub-task ran alone and spent the run's budget; what the
            sub-task did by then is noted in the exception.
        Refused: a call was denied twice; the same is noted.
    """
    latest: Any = {}
    config: Any = {"metadata": {SUBTASK_KEY: state["node"].id}}
    try:
        async for values in _stream_states(graph, {"task": task}, config, context):
            latest = values
    except (LimitReached, Refused) as reached:
        if reached.outcomes:  # of a sub-task inside this one
            latest = {**latest, "outcomes": [*latest.get("outcomes", ()), *reached.outcomes]}
        if isinstance(reached, LimitReached) and "spent" in latest and (reached.of_method or state["share"] > 1):
            return latest, reached
        of_last_node = [reached.usage] if reached.usage else []
        reached.inner_usage = [*latest.get("usage", ()), *reached.inner_usage, *of_last_node]
        if "observation" in latest:
            reached.messages = [*_messages_of(latest, state, context), *reached.messages]
            reached.outcomes = [outcome_of(graph.name, latest, state, reached, keeps_answers=keeps_answers)]
        raise
    return latest, None


async def _stream_states(graph: SolverGraph, input_: Any, config: Any, context: Context) -> AsyncIterator[Any]:
    """Stream the states of the inner graph, in the same mode as the outer one, so that they share a checkpointer."""
    if is_invoked():
        for values in graph.stream(input_, config, context=context, stream_mode="values"):
            yield values
    else:
        async for values in graph.astream(input_, config, context=context, stream_mode="values"):
            yield values


def _messages_of(latest: Mapping[str, Any], state: SolveView, context: Context) -> list[AnyMessage]:
    """Return the calls of a sub-task, with what was answered, as messages of the agent; none in other runs."""
    world, entry = context.benchmark, state["entry"]
    if not (isinstance(world, Tools) and world.agent and latest.get("history")):
        return []
    before = sum(call.is_made for step in entry.steps for call in calls_of(step.action))
    steps, answers = latest["history"][len(entry.steps) :], latest["answers"][before:]
    return messages_of_steps(entry.episode, steps, answers, first=len(entry.steps), name=world.agent)


def _subtask_task(state: SolveView, *, with_results: bool) -> Task:
    """Create the task of a sub-task, whose goal is the sub-task's specification and nothing else (TDP section 3.3)."""
    goal, entry = state["node"].task, state["entry"]
    if entry.known and with_results:
        goal += f"\n{format_known(entry.known)}"
    return state["task"].model_copy(update={"goal": goal, "condition": state["node"].task})


def _solver_context(state: SolveView, runtime: Runtime[Context]) -> Context:
    context, entry = context_of(runtime), state["entry"]
    bounds = {"steps": len(entry.steps) + state["steps"], "trials": 1}
    limits = limits_of(state["task"], runtime).model_copy(update=bounds)
    copy_of_world = {"environment": None} if entry.apart else {}
    attachments = find_attachments(requests_in(read_messages(get_config())))  # the view of a sub-task has no messages
    changes = {"limits": limits, "entry": entry, "attachments": attachments, **copy_of_world}
    return share_context(context, state["spent"], state["share"]).model_copy(update=changes)


# The outcome of a sub-task, read from the last state of the graph that worked on it.

MAX_RESULT = 20_000
"""Maximum characters of a sub-task's result."""

SHOWN_CERTIFICATES = 3
"""Number of latest certificates that a sub-task's result includes."""

RESTART_NOTE = "; it begins again with all that is left"


def outcome_of(
    graph: str,
    latest: Mapping[str, Any],
    view: SolveView,
    reached: LimitReached | Refused | None = None,
    *,
    keeps_answers: bool = False,
) -> Outcome:
    """Summarise the last state of the graph that worked on a sub-task as the outcome of the sub-task.

    Args:
        graph: name of that graph.
        latest: last state of that graph.
        view: what the operator `solve` got as its view.
        reached: what stopped the graph, if anything did: its steps, its part of the budget, or a call that was denied.
        keeps_answers: whether later sub-tasks need what tools answered, for a check of calls.
    """
    ending = import_module(f"certigraph.graphs.{graph}").ending(latest)
    status = _status_of(latest, ending, reached)
    steps = tuple(latest["history"][len(view["entry"].steps) :])
    commitment = view["entry"].commitment
    traced = commitment is not None and commitment.origins is not None
    ended_copy = latest["observation"].done and view["entry"].apart and not view["entry"].last
    result = unquote_line(_format_used_steps(steps, view, status) + _best_description(latest, reached))
    return Outcome(
        node=view["node"].id,
        status=status,
        result=clip(result, MAX_RESULT),
        ending=ending,
        stopped=status == "failed" and stagnation_of(latest).stop,  # type: ignore[arg-type]
        certified=tuple(p.text for p in _certified_state_of(latest).predicates),
        steps=() if status == "pending" else steps[:-1] if ended_copy else steps,
        taken=len(steps),
        observation=latest["observation"],
        answers=tuple(_answers_in_subtask(latest)) if traced or keeps_answers else (),
        effects=() if view["entry"].apart and status == "pending" else tuple(_effects_in_subtask(latest, view)),
    )


def _answers_in_subtask(latest: Mapping[str, Any]) -> list[AnsweredCall]:
    """List the calls that a sub-task knows with their answers, and then those of sub-tasks inside it."""
    inside = [call for outcome in latest.get("outcomes", ()) for call in outcome.answers]
    return [*latest.get("answers", ()), *inside]


def _effects_in_subtask(latest: Mapping[str, Any], view: SolveView) -> list[Effect]:
    """List the effects of a sub-task, and then those of sub-tasks inside it."""
    inside = [effect for outcome in latest.get("outcomes", ()) for effect in outcome.effects]
    logs = (latest.get(name, ()) for name in ("answers", "checks", "certificates", "history"))
    own = list_effects(*logs, outer=len(view["entry"].steps), subtask=view["node"].id)
    return [*own, *inside]


def _certified_state_of(latest: Mapping[str, Any]) -> CertifiedState:
    return certified_state(latest.get("certificates", ()), latest.get("invalidations", ()))


def _status_of(latest: Mapping[str, Any], ending: str, reached: LimitReached | Refused | None) -> NodeStatus:
    if reached:
        return "pending" if isinstance(reached, LimitReached) and not reached.of_method else "failed"
    handed_in = latest["observation"].done and latest.get("action") and latest["action"].kind == FINISH
    return "completed" if ending == GOAL or handed_in else "failed"


def _format_used_steps(steps: Sequence[Step], view: SolveView, status: NodeStatus) -> str:
    used_up = status == "failed" and len(steps) >= view["steps"]
    return f"not completed in {len(steps)} steps, all that it was given; " if used_up else ""


def _best_description(latest: Mapping[str, Any], reached: LimitReached | Refused | None) -> str:
    if isinstance(reached, Refused) or (reached and reached.of_method):
        return f"it ended {reached.ending}"
    found = next(filter(None, _describe_outcome(latest)), "")
    if not reached:
        return found
    return f"its part of the {reached.kind} was spent{RESTART_NOTE}" + (f"; before: {found}" if found else "")


def _describe_outcome(latest: Mapping[str, Any]) -> Iterator[str]:
    """Yield descriptions of a sub-task's outcome, the most informative first; some may be empty."""
    action, progress = latest.get("action"), latest.get("progress")
    if action and action.kind in ANSWER_ACTIONS:
        thought = next((turn.thought for turn in reversed(latest.get("turns", ()))), "")
        yield f"answer: {action.args.get('answer', '')}" + (f" ({thought})" if thought else "")
    yield progress.result if progress else ""
    certified = [c for c in latest.get("certificates", ()) if not c.forced]
    yield "; ".join(f"{c.targets[-1].text} ({c.action.text})" for c in certified[-SHOWN_CERTIFICATES:])
    yield belief_of(latest).text  # type: ignore[arg-type]
    yield progress.reason if progress else ""
    yield stagnation_of(latest).reason  # type: ignore[arg-type]
    yield latest["observation"].text


graph = build()

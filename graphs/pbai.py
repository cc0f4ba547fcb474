"""PBAI, predicate-based adaptive identification (CGDP section 4.1, Algorithm 1).

In each round: check the gate, act, observe, update the belief. When the gate stops the search, or its rounds are used
up, give the final answer from the belief. This is the loop of every search agent: IRCoT, ReAct, MemGPT and Iter-RetGen
are this graph with another `decide`.
"""

from collections.abc import Callable, Mapping
from typing import Any, TypedDict, Unpack

from langgraph.graph import END, START
from langgraph.graph.state import CompiledStateGraph
from langgraph.runtime import Runtime
from langgraph.types import Checkpointer

from certigraph.adapters.benchmarks import limits_of
from certigraph.adapters.protocols import Context, Operator
from certigraph.graphs.assembly import UNEXTENDED, Assembly, Schemas, add_path, assemble
from certigraph.nodes import beliefs, react
from certigraph.nodes.approval import APPROVE
from certigraph.nodes.beliefs import native, structured, with_memory
from certigraph.nodes.call_checks import CHECK
from certigraph.nodes.commitments import COMMIT
from certigraph.nodes.gates import exhaustion_gate, no_gate
from certigraph.nodes.react import PBAI_DEFAULTS, pursue
from certigraph.nodes.search import answer
from certigraph.nodes.slots import Slot
from certigraph.nodes.world import act, reset
from certigraph.state.endings import LimitReached
from certigraph.state.memgpt import MEMORY
from certigraph.state.run import ReActState as State
from certigraph.state.run import RunInput
from certigraph.state.search import search_ending as ending

__all__ = [
    "SearchGraph",
    "SearchOperators",
    "State",
    "build",
    "build_search_loop",
    "builder",
    "ending",
    "graph",
    "search_loop_builder",
]

SearchGraph = CompiledStateGraph[State, Context, RunInput, State]


class SearchOperators(TypedDict, total=False):
    """Keywords of `build`, one for each slot.

    `memory` may also be a name: native, lobotomized, structured or freeform.
    """

    reset: Operator
    commit: Operator
    gate: Operator
    decide: Operator
    check: Operator
    approve: Operator
    act: Operator
    memory: Operator | str
    answer: Operator
    deliver: Operator


def build_search_loop(
    name: str,
    decide: Operator,
    swaps: Mapping[str, object],
    *,
    rounds: int,
    checkpointer: Checkpointer,
    deciding: Slot = react.DECIDE,
) -> SearchGraph:
    """Build the graph of a search agent; arguments are those of `search_loop_builder`."""
    graph = search_loop_builder(name, decide, swaps, rounds=rounds, slots={"decide": deciding})
    return graph.compile(checkpointer=checkpointer, name=name)


def search_loop_builder(
    method: str,
    decide: Operator,
    swaps: Mapping[str, object],
    *,
    rounds: int,
    slots: Mapping[str, Slot] = {},
    state: type[Any] = State,
    schemas: Schemas = UNEXTENDED,
) -> Assembly:
    """Return the loop of a search agent before it is compiled.

    Unless `swaps` says otherwise, it has the memory `native` and no gate.

    Args:
        method: name of the agent's method.
        decide: the agent's operator for the slot `decide`.
        swaps: operators by slot that replace the defaults.
        rounds: maximum number of rounds in worlds that take an answer, unless `Limits.rounds` is set.
        slots: slots of the agent that replace those of the loop, such as `DECIDE_WITH_BELIEF` for `decide` if it writes
            its memory itself. The slot `use_memory`, which only MemGPT has, is added.
        state: schema of the graph's state.
        schemas: schemas with which the graph is extended.
    """
    nodes = (
        slots.get("reset", react.RESET).filled(reset),
        COMMIT,
        beliefs.GATE.filled(no_gate),
        react.with_rounds(slots.get("decide", react.DECIDE), rounds).filled(decide)._replace(skip=require_rounds),
        CHECK,
        APPROVE,
        react.ACT.filled(act),
        beliefs.MEMORY.filled(native),
        slots.get("answer", beliefs.ANSWER).filled(answer),
        beliefs.DELIVER.filled(act),
        *(slot for name, slot in slots.items() if name == "use_memory"),
    )
    graph = assemble(method, state, RunInput, nodes, with_memory(swaps), schemas)
    graph.add_edge(START, "reset")
    add_path(graph, "reset", "commit", "gate")
    graph.add_conditional_edges("gate", gate_edge(rounds), {"continue": "decide", "stop": "answer", "unanswered": END})
    if "use_memory" in slots:
        first = next(node for node in ("check", "approve", "act") if node in graph.nodes)
        chosen = {"memory_call": "use_memory", "world_action": first}
        graph.add_conditional_edges("decide", after_decide, chosen)
        graph.add_edge("use_memory", "decide")
        add_path(graph, "check", "approve", "act")
    else:
        add_path(graph, "decide", "check", "approve", "act")
    graph.add_conditional_edges("act", after_act, {"observed": "memory", "over": END})
    graph.add_edge("memory", "gate")
    graph.add_edge("answer", "deliver")
    graph.add_edge("deliver", END)
    return graph


def gate_edge(rounds: int) -> Callable[[State, Runtime[Context]], str]:
    """Return the function that chooses the edge after the gate; `rounds` is the agent's maximum number of rounds."""

    def after_gate(state: State, runtime: Runtime[Context]) -> str:
        """Return `stop` (give an answer), `unanswered` (stop in a world that takes no answer) or `continue`.

        If no rounds or steps are left in a world that takes no answer, it is `continue`: `decide` then ends the run
        with the limit as the run's ending.
        """
        takes_answer = beliefs.accepts_answer(state, runtime)
        if state["stagnation"].stop:
            return "stop" if takes_answer else "unanswered"
        maximum = limits_of(state["task"], runtime).rounds or rounds
        spent = len(state["turns"]) >= maximum or beliefs.are_steps_spent(state, runtime)
        return "stop" if spent and takes_answer else "continue"

    return after_gate


def require_rounds(state: State, runtime: Runtime[Context]) -> None:
    """Raise LimitReached if steps or `Limits.rounds` are used up. The agent's default number is not checked."""
    react.require_steps(state, runtime)
    limit, taken = limits_of(state["task"], runtime).rounds, len(state["turns"])
    if limit and taken >= limit:
        raise LimitReached("rounds", limit, taken)


def after_decide(state: State) -> str:
    """Return `memory_call` if the agent chose a memory function (MemGPT), else `world_action`."""
    return "memory_call" if state["action"].kind == MEMORY else "world_action"


def after_act(state: State) -> str:
    """Return `over` if the world has ended, for example by the agent's answer, else `observed`."""
    return "over" if state["observation"].done else "observed"


def builder(schemas: Schemas = UNEXTENDED, **operators: Unpack[SearchOperators]) -> Assembly:
    """Return the graph before it is compiled, so that it can be extended: `builder().insert(...)`.

    By default the belief is structured and begins with the question; `exhaustion_gate` and the agent end the search.
    Algorithm 1 ends it when the belief satisfies the question: `gate=either(satisfied_gate(), exhaustion_gate())`.

    Args:
        schemas: schemas with which the graph is extended.
        **operators: operators by slot, as in `build`.

    Raises:
        TypeError: a keyword names no slot.
        UnknownName: there is no memory of that name.
    """
    defaults = SearchOperators(memory=structured(start="question"), gate=exhaustion_gate())
    return search_loop_builder(
        "pbai", pursue(), {**defaults, **operators}, rounds=PBAI_DEFAULTS.rounds, schemas=schemas
    )


def build(checkpointer: Checkpointer = None, **operators: Unpack[SearchOperators]) -> SearchGraph:
    """Build PBAI's graph, with a structured belief and `exhaustion_gate` by default (CGDP Algorithm 1).

    Raises:
        TypeError: a keyword names no slot.
        UnknownName: there is no memory of that name.
    """
    return builder(**operators).compile(checkpointer=checkpointer, name="pbai")


graph = build()

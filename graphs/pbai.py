"""PBAI, predicate-based adaptive identification (CGDP section 4.1, Algorithm 1).

In each round: check the gate, act, observe, update the belief. When the gate stops the search, or its rounds are used
up, give the final answer from the belief. This is the loop of every search agent: IRCoT, ReAct, MemGPT and Iter-RetGen
are this graph with another `decide`.
"""

from collections.abc import Mapping
from typing import TypedDict, Unpack

from langgraph.graph import END, START
from langgraph.graph.state import CompiledStateGraph
from langgraph.runtime import Runtime
from langgraph.types import Checkpointer

from certigraph.adapters.benchmarks import limits_of
from certigraph.adapters.protocols import Context, Operator
from certigraph.graphs.assembly import assemble
from certigraph.nodes import beliefs, react
from certigraph.nodes.beliefs import native, with_memory
from certigraph.nodes.gates import exhaustion_gate, no_gate
from certigraph.nodes.react import PBAI_DEFAULTS, pursue
from certigraph.nodes.search import answer
from certigraph.nodes.slots import Slot
from certigraph.nodes.world import act, reset
from certigraph.state.records import LimitReached
from certigraph.state.run import ReActState as State
from certigraph.state.run import RunInput
from certigraph.state.search import search_ending as ending

__all__ = ["SearchGraph", "SearchOperators", "State", "build", "build_search_loop", "ending", "graph"]

SearchGraph = CompiledStateGraph[State, Context, RunInput, State]


class SearchOperators(TypedDict, total=False):
    """Keywords of `build`, one for each slot.

    `memory` may also be a name: native, lobotomized, structured or freeform.
    """

    reset: Operator
    gate: Operator
    decide: Operator
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
    """Build the loop of a search agent; unless `swaps` says otherwise, with the memory `native` and without a gate.

    Args:
        name: name of the graph.
        decide: the agent's operator for the slot `decide`.
        swaps: operators by slot that replace the defaults.
        rounds: maximum number of rounds in worlds that take an answer, unless `Limits.rounds` is set.
        checkpointer: a LangGraph checkpointer; without one a run cannot be resumed.
        deciding: the slot `decide`; `DECIDE_WITH_BELIEF` if the agent writes its memory itself.
    """

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

    def require_rounds(state: State, runtime: Runtime[Context]) -> None:
        """Raise LimitReached if steps or `Limits.rounds` are used up. The agent's default, `rounds`, is not checked."""
        react.require_steps(state, runtime)
        limit, taken = limits_of(state["task"], runtime).rounds, len(state["turns"])
        if limit and taken >= limit:
            raise LimitReached("rounds", limit, taken)

    slots = (
        react.RESET.filled(reset),
        beliefs.GATE.filled(no_gate),
        deciding.filled(decide)._replace(skip=require_rounds),
        react.ACT.filled(act),
        beliefs.MEMORY.filled(native),
        beliefs.ANSWER.filled(answer),
        beliefs.DELIVER.filled(act),
    )
    builder = assemble(State, RunInput, slots, with_memory(swaps))
    builder.add_edge(START, "reset")
    builder.add_edge("reset", "gate")
    builder.add_conditional_edges("gate", after_gate, {"continue": "decide", "stop": "answer", "unanswered": END})
    builder.add_edge("decide", "act")
    builder.add_conditional_edges("act", after_act, {"observed": "memory", "over": END})
    builder.add_edge("memory", "gate")
    builder.add_edge("answer", "deliver")
    builder.add_edge("deliver", END)
    return builder.compile(checkpointer=checkpointer, name=name)


def after_act(state: State) -> str:
    """Return `over` if the world has ended, for example by the agent's answer, else `observed`."""
    return "over" if state["observation"].done else "observed"


def build(checkpointer: Checkpointer = None, **operators: Unpack[SearchOperators]) -> SearchGraph:
    """Build PBAI's graph, with a structured belief and `exhaustion_gate` by default (CGDP Algorithm 1).

    Raises:
        TypeError: a keyword names no slot.
        UnknownName: there is no memory of that name.
    """
    defaults = SearchOperators(memory="structured", gate=exhaustion_gate())
    return build_search_loop(
        "pbai", pursue(), {**defaults, **operators}, rounds=PBAI_DEFAULTS.rounds, checkpointer=checkpointer
    )


graph = build()

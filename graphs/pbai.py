"""PBAI, predicate-based adaptive identification (CGDP section 4.1, Algorithm 1): stop? act, observe, update the belief.

The loop of every search harness: IRCoT, ReAct, MemGPT and Iter-RetGen are this graph with another `decide`. Where the
gate stops it, or its rounds are used up, the final answer is given from what its memory holds.
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
from certigraph.nodes.react import PBAI, pursue
from certigraph.nodes.search import answer
from certigraph.nodes.slots import Slot
from certigraph.nodes.world import act, reset
from certigraph.state.records import LimitReached
from certigraph.state.run import ActingState as State
from certigraph.state.run import RunInput
from certigraph.state.search import ending

__all__ = ["Operators", "SearchGraph", "State", "build", "ending", "graph", "search_loop"]

SearchGraph = CompiledStateGraph[State, Context, RunInput, State]


class Operators(TypedDict, total=False):
    """The keywords of `build`. `memory` may be a condition's name: native, lobotomized, structured, freeform."""

    reset: Operator
    gate: Operator
    decide: Operator
    act: Operator
    memory: Operator | str
    answer: Operator
    deliver: Operator


def search_loop(
    name: str,
    decide: Operator,
    swaps: Mapping[str, object],
    *,
    rounds: int,
    checkpointer: Checkpointer,
    deciding: Slot = react.DECIDE,
) -> SearchGraph:
    """The loop with a harness's own `decide` and number of rounds, its native memory and no gate unless swapped.

    `deciding` is another slot for its `decide` where that keeps a memory of its own.
    """

    def after_gate(state: State, runtime: Runtime[Context]) -> str:
        """`stop` the search with an answer, `unanswered` where a gate stops it in a world that takes none.

        Else `continue`: without rounds or steps left in such a world, `decide` ends the run by the limit's name.
        """
        answering = beliefs.answering(state, runtime)
        if state["stagnation"].stop:
            return "stop" if answering else "unanswered"
        most = limits_of(state["task"], runtime).rounds or rounds
        spent = len(state["turns"]) >= most or beliefs.steps_spent(state, runtime)
        return "stop" if spent and answering else "continue"

    def rounds_left(state: State, runtime: Runtime[Context]) -> None:
        """Raise LimitReached where steps or rounds are spent; a harness's own number is for worlds with answers."""
        react.require_steps(state, runtime)
        most, taken = limits_of(state["task"], runtime).rounds, len(state["turns"])
        if most and taken >= most:
            raise LimitReached("rounds", most, taken)

    defaults = Operators(reset=reset, gate=no_gate, decide=decide, act=act, memory=native, answer=answer, deliver=act)
    before, after = (react.RESET, beliefs.GATE), (react.ACT, beliefs.MEMORY)
    slots = (*before, deciding._replace(skip=rounds_left), *after, beliefs.ANSWER, beliefs.DELIVER)
    builder = assemble(State, RunInput, slots, defaults, with_memory(swaps))
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
    """`over` when the world is, as after the agent's own answer; else `observed`."""
    return "over" if state["observation"].done else "observed"


def build(checkpointer: Checkpointer = None, **operators: Unpack[Operators]) -> SearchGraph:
    """PBAI as the algorithm has it: a structured belief, a gate, and actions for the first open question.

    Raises:
        TypeError: a keyword names no slot.
        UnknownName: no memory condition of that name.
    """
    usual = Operators(memory="structured", gate=exhaustion_gate())
    return search_loop("pbai", pursue(), {**usual, **operators}, rounds=PBAI.rounds, checkpointer=checkpointer)


graph = build()

"""What a command line may name without saying where it is: the graphs and their operators."""

from collections.abc import Callable
from typing import Any

from certigraph.adapters.protocols import Benchmark
from certigraph.graphs.exploring import explore
from certigraph.graphs.solving import solve
from certigraph.nodes.act import act
from certigraph.nodes.aggregate import aggregate
from certigraph.nodes.answer import answer
from certigraph.nodes.decide import decide, decide_freely, execute
from certigraph.nodes.decompose import decompose, undivided
from certigraph.nodes.extract import freeform, structured
from certigraph.nodes.gaps import either, gap_gate
from certigraph.nodes.gate import exhaustion_gate, no_gate, smooth_gate
from certigraph.nodes.generate import generate
from certigraph.nodes.ground import grounded
from certigraph.nodes.hypothesise import hypothesise
from certigraph.nodes.judged_gate import judged_gate
from certigraph.nodes.manage import manage
from certigraph.nodes.memory import lobotomized, native
from certigraph.nodes.observe_filter import filtered
from certigraph.nodes.plan import plan
from certigraph.nodes.planner import none, planner
from certigraph.nodes.pursue import pursue
from certigraph.nodes.reason import reason
from certigraph.nodes.reflect import gain_insights, memorise, reflect
from certigraph.nodes.replan import give_up, replan
from certigraph.nodes.resample import resampling
from certigraph.nodes.retrieving import retrieving
from certigraph.nodes.revise import revise, unrevised
from certigraph.nodes.shadow import shadow
from certigraph.nodes.supervise import supervise
from certigraph.nodes.validate import always_pass, capped, validate
from certigraph.state.endings import UnknownName

METHODS = ("sdp", "tdp", "step", "react", "reflexion", "clin", "plan_and_solve", "plan_and_act", "cot")
REWARDS = ("statefactory",)
"""Graphs that predict rewards along recorded trajectories."""

PARTS = ("subtask",)
"""Graphs that solve a part of a task inside another one."""

SEARCHES = ("pbai", "ircot", "memgpt", "iter_retgen", "hypotheses")

GRAPHS = {name: f"certigraph.graphs.{name}" for name in METHODS + SEARCHES + REWARDS + PARTS}

OPERATORS: dict[str, Callable[..., Any]] = {
    "act": act,
    "aggregate": aggregate,
    "always_pass": always_pass,
    "answer": answer,
    "capped": capped,
    "decide": decide,
    "decompose": decompose,
    "decide_freely": decide_freely,
    "either": either,
    "execute": execute,
    "exhaustion_gate": exhaustion_gate,
    "explore": explore,
    "filtered": filtered,
    "freeform": freeform,
    "gain_insights": gain_insights,
    "gap_gate": gap_gate,
    "generate": generate,
    "give_up": give_up,
    "grounded": grounded,
    "hypothesise": hypothesise,
    "judged_gate": judged_gate,
    "lobotomized": lobotomized,
    "manage": manage,
    "memorise": memorise,
    "native": native,
    "no_gate": no_gate,
    "none": none,
    "plan": plan,
    "planner": planner,
    "pursue": pursue,
    "reason": reason,
    "reflect": reflect,
    "replan": replan,
    "resampling": resampling,
    "revise": revise,
    "retrieving": retrieving,
    "shadow": shadow,
    "smooth_gate": smooth_gate,
    "solve": solve,
    "structured": structured,
    "supervise": supervise,
    "undivided": undivided,
    "unrevised": unrevised,
    "validate": validate,
}
"""Shipped operators that a command line may name."""


def must_take_answers(what: str, benchmark: Benchmark) -> None:
    """Raises UnknownName where a benchmark has no questions: what searches for answers has nothing to do there."""
    if not getattr(benchmark, "answers", False):
        told = "hotpotqa, locomo, musique and swe_qa do"
        raise UnknownName(f"{what} searches for an answer, and {benchmark.name} takes none; {told}")

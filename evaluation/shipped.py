"""What a command line may name without saying where it is: the graphs and their operators."""

from collections.abc import Callable
from typing import Any

from certigraph.adapters.protocols import Benchmark
from certigraph.graphs.exploring import explore
from certigraph.graphs.solving import solve
from certigraph.nodes.act import act
from certigraph.nodes.aggregate import aggregate
from certigraph.nodes.answer import answer
from certigraph.nodes.appraise import appraise
from certigraph.nodes.audit import votes, world_check
from certigraph.nodes.candidate_lists import listed, shortlisted
from certigraph.nodes.candidates import propose_actions
from certigraph.nodes.choose_by_reward import choose_by_reward, greedy
from certigraph.nodes.decide import decide, decide_freely, execute
from certigraph.nodes.decompose import decompose, undivided
from certigraph.nodes.extract import freeform, structured
from certigraph.nodes.factorise import extract_state, interpret_goal
from certigraph.nodes.forcing import abstain, force_accept, force_pass, unforced
from certigraph.nodes.gaps import either, gap_gate
from certigraph.nodes.gate import exhaustion_gate, no_gate, smooth_gate
from certigraph.nodes.generate import generate
from certigraph.nodes.ground import grounded
from certigraph.nodes.hypothesise import hypothesise
from certigraph.nodes.imagine import predicted, rehearsed
from certigraph.nodes.judge_reward import judge_reward
from certigraph.nodes.judged_gate import judged_gate
from certigraph.nodes.manage import manage
from certigraph.nodes.memory import lobotomized, native
from certigraph.nodes.observe_filter import filtered
from certigraph.nodes.offline_goal import offline_goal
from certigraph.nodes.plan import plan
from certigraph.nodes.planner import none, planner
from certigraph.nodes.prompted_goal import prompted_goal
from certigraph.nodes.prompted_state import prompted_state
from certigraph.nodes.pursue import pursue
from certigraph.nodes.rate import constant, monotonic
from certigraph.nodes.reason import reason
from certigraph.nodes.reflect import gain_insights, memorise, reflect
from certigraph.nodes.replan import give_up, replan
from certigraph.nodes.resample import resampling
from certigraph.nodes.retrieving import retrieving
from certigraph.nodes.revalidate import recheck
from certigraph.nodes.revise import revise, unrevised
from certigraph.nodes.reward_guided import reward_guided
from certigraph.nodes.route import route
from certigraph.nodes.shadow import shadow
from certigraph.nodes.supervise import supervise
from certigraph.nodes.supervised import supervised
from certigraph.nodes.symbolic import symbolic_goal, symbolic_state
from certigraph.nodes.tree import backpropagate, most_visited, select
from certigraph.nodes.validate import always_pass, capped, validate
from certigraph.state.endings import UnknownName

METHODS = (
    "sdp",
    "tdp",
    "step",
    "react",
    "react_reward",
    "mcts",
    "reflexion",
    "clin",
    "plan_and_solve",
    "plan_and_act",
    "cot",
)
REWARDS = ("statefactory", "monotonic", "reward_judge", "reward_head")
"""Graphs that predict rewards along recorded trajectories."""

PARTS = ("subtask",)
"""Graphs that solve a part of a task inside another one."""

SEARCHES = ("pbai", "ircot", "memgpt", "iter_retgen", "hypotheses")

GRAPHS = {name: f"certigraph.graphs.{name}" for name in METHODS + SEARCHES + REWARDS + PARTS}

OPERATORS: dict[str, Callable[..., Any]] = {
    "abstain": abstain,
    "act": act,
    "aggregate": aggregate,
    "always_pass": always_pass,
    "answer": answer,
    "appraise": appraise,
    "backpropagate": backpropagate,
    "capped": capped,
    "choose_by_reward": choose_by_reward,
    "constant": constant,
    "decide": decide,
    "decompose": decompose,
    "decide_freely": decide_freely,
    "either": either,
    "execute": execute,
    "exhaustion_gate": exhaustion_gate,
    "explore": explore,
    "extract_state": extract_state,
    "filtered": filtered,
    "force_accept": force_accept,
    "force_pass": force_pass,
    "freeform": freeform,
    "gain_insights": gain_insights,
    "gap_gate": gap_gate,
    "generate": generate,
    "give_up": give_up,
    "greedy": greedy,
    "grounded": grounded,
    "hypothesise": hypothesise,
    "interpret_goal": interpret_goal,
    "judge_reward": judge_reward,
    "judged_gate": judged_gate,
    "listed": listed,
    "lobotomized": lobotomized,
    "manage": manage,
    "memorise": memorise,
    "monotonic": monotonic,
    "most_visited": most_visited,
    "native": native,
    "no_gate": no_gate,
    "none": none,
    "offline_goal": offline_goal,
    "plan": plan,
    "planner": planner,
    "predicted": predicted,
    "propose_actions": propose_actions,
    "prompted_goal": prompted_goal,
    "prompted_state": prompted_state,
    "pursue": pursue,
    "reason": reason,
    "reflect": reflect,
    "rehearsed": rehearsed,
    "replan": replan,
    "resampling": resampling,
    "recheck": recheck,
    "revise": revise,
    "retrieving": retrieving,
    "route": route,
    "reward_guided": reward_guided,
    "select": select,
    "shadow": shadow,
    "shortlisted": shortlisted,
    "smooth_gate": smooth_gate,
    "solve": solve,
    "structured": structured,
    "supervise": supervise,
    "supervised": supervised,
    "symbolic_goal": symbolic_goal,
    "symbolic_state": symbolic_state,
    "undivided": undivided,
    "unforced": unforced,
    "unrevised": unrevised,
    "validate": validate,
    "votes": votes,
    "world_check": world_check,
}
"""Shipped operators that a command line may name."""


def must_take_answers(what: str, benchmark: Benchmark) -> None:
    """Raises UnknownName where a benchmark has no questions: what searches for answers has nothing to do there."""
    if not getattr(benchmark, "answers", False):
        told = "assistantbench, hotpotqa, locomo, musique, swe_qa and web do"
        raise UnknownName(f"{what} searches for an answer, and {benchmark.name} takes none; {told}")

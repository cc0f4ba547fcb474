"""TravelPlanner's Propose, Realize and Validate (SDP appendix A.2): deterministic but for one choice among options."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from langgraph.runtime import Runtime

from certigraph.adapters.benchmarks import limits_of
from certigraph.adapters.context import Context
from certigraph.adapters.loops import off_loop
from certigraph.adapters.models.ask import Prompt, choose
from certigraph.adapters.protocols import Operator
from certigraph.adapters.travelplanner.choosing import choices, taken
from certigraph.adapters.travelplanner.draft import Draft, draft_of
from certigraph.adapters.travelplanner.options import Option
from certigraph.adapters.travelplanner.replanning import replanned
from certigraph.adapters.travelplanner.trip import BUDGET, RENDER, plan_of
from certigraph.state.records import RESTORE, Action, Predicate, Verdict
from certigraph.state.sdp import ProposeView, RealizeView, ReplanView, ValidateView

if TYPE_CHECKING:
    from certigraph.adapters.travelplanner.benchmark import TravelPlanner


class Asking(NamedTuple):
    """What a question about options says besides the options."""

    query: str
    what: str
    budget: int
    spent: float


def operators(benchmark: "TravelPlanner") -> Mapping[str, Operator]:
    """The four operators over one benchmark's data and configuration."""

    async def propose(state: ProposeView, runtime: Runtime[Context]) -> dict[str, Any]:
        query = benchmark.query(state["task"])
        return {"plan": plan_of(query, await off_loop(benchmark.trip, query))}

    async def realize(state: RealizeView, runtime: Runtime[Context]) -> dict[str, Any]:
        draft, target = draft_of(state["certified"].actions), state["target"]
        fixed = _fixed_action(target)
        return {"action": fixed or await _chosen(benchmark, state, draft, runtime)}

    async def validate(state: ValidateView, runtime: Runtime[Context]) -> dict[str, Any]:
        target, seen = state["tail"][0], state["observation"]
        if not seen.accepted:
            return {"verdict": Verdict(depth=0, reason=seen.text)}
        reasons = await off_loop(benchmark.violations, state["task"], target, seen)
        return {"verdict": Verdict(depth=0 if reasons else 1, reason="; ".join(reasons))}

    async def replan(state: ReplanView, runtime: Runtime[Context]) -> dict[str, Any]:
        return {"plan": await off_loop(replanned, benchmark, state)}

    return {"propose": propose, "realize": realize, "validate": validate, "replan": replan}


def _fixed_action(target: Predicate) -> Action | None:
    """The action of a predicate that leaves nothing to choose."""
    route = target.args["route"]
    if target.kind == BUDGET:
        return Action(text="add up the costs and the cuisines", kind=BUDGET, args={"route": route})
    if target.kind == RENDER:
        return Action(text="write the itinerary", kind=RENDER, args={"route": route})
    if target.kind == RESTORE:
        return Action(text="clear entries", kind=RESTORE, args={"clear": target.args["clear"], "route": route})
    return None


async def _chosen(benchmark: "TravelPlanner", state: RealizeView, draft: Draft, runtime: Runtime[Context]) -> Action:
    """Decide every choice of the target in turn, each seeing what the one before took."""
    target, chooser = state["target"], benchmark.chooser(state["task"], state["target"])
    most, book = limits_of(state["task"], runtime).options, dict[str, Any]()
    for choice in choices(chooser.catalog, target):
        offered = await off_loop(chooser.offer, choice, draft, target)
        if not offered.options:
            return Action(text=f"nothing to book: {offered.diagnosis}", kind="none", args={"blocked": offered.blocked})
        left = await off_loop(chooser.money_left, draft)
        asking = Asking(state["task"].goal, choice.what, chooser.budget, chooser.budget - left)
        option = await _pick(offered.options[:most], asking, runtime)
        draft = taken(draft, choice, option)
        book |= {str(slot): option.text for slot in choice.slots}
    text = "; ".join(dict.fromkeys(book.values()))
    return Action(text=text, kind="book", args={"book": book, "route": target.args["route"]})


async def _pick(offered: list[Option], asking: Asking, runtime: Runtime[Context]) -> Option:
    if len(offered) == 1:
        return offered[0]
    labels = _distinct([option.label for option in offered])
    prompt = Prompt(
        system=RULES.format(query=asking.query), user=QUESTION.format(options="\n".join(labels), **asking._asdict())
    )
    return offered[labels.index(await choose(prompt, labels, role="executor", runtime=runtime))]


def _distinct(labels: list[str]) -> list[str]:
    return [label if label not in labels[:n] else f"{label} no. {n + 1}" for n, label in enumerate(labels)]


RULES = """\
You plan a trip, one booking at a time. Every option you are shown keeps all the rules of the request.
Prefer options that suit the request and leave money for the rest.

Request:
{query}
"""

QUESTION = """\
Options:
{options}

Spent so far: ${spent:g} of ${budget}.
Choose {what}.
"""

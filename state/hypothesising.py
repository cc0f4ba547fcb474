"""State of parallel hypotheses (CGDP appendix B): directions, the search that followed each, and what it answered."""

from collections.abc import Sequence

from typing_extensions import TypedDict

from certigraph.state.channels import Log
from certigraph.state.records import Record, Spent, Task
from certigraph.state.run import RunState


class Branch(Record):
    """One search. Before it ran it has a number, from 1, and a hypothesis."""

    number: int
    hypothesis: str
    answer: str = ""
    """Empty where it gave none: its share of the budget was spent, and what it found so far is all there is."""
    belief: str = ""
    """What it believed at its end, or the thoughts of its last turns."""
    retrieved: tuple[str, ...] = ()
    """Ids of the passages that it found, in order."""
    rounds: int = 0
    """Of search; handing in an answer is none."""
    ending: str = ""


class HypothesesState(RunState, total=False):
    """Everything a run of parallel hypotheses knows; `branches` in the order in which they ended."""

    hypotheses: tuple[str, ...]
    branches: Log[Branch]


class HypothesiseView(TypedDict):
    """Who thinks of hypotheses sees the task: nothing was searched yet."""

    task: Task


class ExploreView(TypedDict):
    """What one search gets; `share` is how many searches divide what is left of the budget."""

    task: Task
    branch: Branch
    share: int
    spent: Spent


class AggregateView(TypedDict):
    """Who aggregates sees every branch, in the order of the hypotheses."""

    task: Task
    branches: Sequence[Branch]


def hypothesise_view(state: HypothesesState) -> HypothesiseView:
    """The part of the state that the author of hypotheses may read."""
    return {"task": state["task"]}


def explore_views(state: HypothesesState) -> list[ExploreView]:
    """What each search gets, one a hypothesis."""
    branches = [Branch(number=n, hypothesis=text) for n, text in enumerate(state["hypotheses"], 1)]
    return [
        {"task": state["task"], "branch": branch, "share": len(branches), "spent": state["spent"]}
        for branch in branches
    ]


def aggregate_view(state: HypothesesState) -> AggregateView:
    """The part of the state that the aggregator may read."""
    return {"task": state["task"], "branches": sorted(state["branches"], key=lambda branch: branch.number)}

"""Where a research stands with a question whose way is known: what its scripted expert goes by."""

from collections.abc import Mapping
from typing import Any, NamedTuple, Protocol

from certigraph.adapters.models.situation import current_situation
from certigraph.adapters.models.spoiling import AGAIN, is_impossible
from certigraph.adapters.research.plans import goal_of, is_step, unread
from certigraph.adapters.research.questions import Question, Way
from certigraph.state.endings import Fault


class Ways(Protocol):
    """What the expert needs of a benchmark."""

    def question(self, task_id: str) -> Question:
        """The question with its gold answer and the way to it."""
        ...


class Standing(NamedTuple):
    """A question and the graph's state."""

    question: Question
    state: Mapping[str, Any]

    @property
    def step(self) -> Way | None:
        """The step of the way behind the head of SDP's plan: of that goal, else in that place; none is impossible."""
        plan, head, way = self.state.get("plan", ()), self.state.get("head", 0), self.question.way
        if head >= len(plan) or not is_step(plan[head]):
            return None
        goal = goal_of(plan[head]).removesuffix(AGAIN)
        if is_impossible(goal):
            return None
        index = min(int(str(plan[head].args.get("index", 1))), len(way)) - 1
        return next((one for one in way if one.finding.about == goal), way[index])

    @property
    def listed(self) -> Mapping[str, int]:
        """The numbers of the known results by URL, from 1."""
        evidence = self.state.get("evidence")
        return {url: number for number, url in enumerate(evidence.sources, 1)} if evidence else {}

    @property
    def unread(self) -> set[str]:
        """The known results that may still be read."""
        return {*unread(self.state["evidence"])} if "evidence" in self.state else set()

    @property
    def answers(self) -> list[str]:
        """The gold answer as texts."""
        return (self.question.answer or "").split("\n")


def standing(benchmark: Ways) -> Standing:
    """Where the run of the node at work stands. Raises Fault outside a run."""
    situation = current_situation()
    if situation is None:
        raise Fault("model", "the expert answers inside a run only: certigraph run ... --model scripted:expert")
    return Standing(benchmark.question(situation.state["task"].id), situation.state)

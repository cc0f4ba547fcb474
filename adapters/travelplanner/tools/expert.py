"""The mind behind `scripted:expert` in the tool world: it runs the errands of a query's gold itinerary.

Where a run stands it reads off the calls that its world has on record, so that it goes on from wherever a graph has
brought it. The errand is known by the specification it is given; an agent that is given the whole query runs them all.
Its plan has what its prompt's notebook has, and "-" for the rest. Everything else it knows from the gold itinerary
whatever its prompts show, so its score says that worlds, notes and schedules work, not that prompts tell enough.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

from certigraph.adapters.answering import least
from certigraph.adapters.models.schemas import Schema
from certigraph.adapters.models.scripted import TEXT
from certigraph.adapters.models.situation import current_situation
from certigraph.adapters.protocols import Responder
from certigraph.adapters.remembering import remembered
from certigraph.adapters.travelplanner.draft import NOTHING
from certigraph.adapters.travelplanner.oneshot.reference import one_line
from certigraph.adapters.travelplanner.oneshot.written import DELIVER
from certigraph.adapters.travelplanner.tools.errands import Errand, ToolUse, errands, left
from certigraph.adapters.travelplanner.tools.gold import Gold, gold_of
from certigraph.adapters.travelplanner.tools.operators import PLAN_ASKED

if TYPE_CHECKING:
    from certigraph.adapters.travelplanner.benchmark import TravelPlanner


MOST_SPEC = 300
"""Characters of a specification or a step."""

GIVEN = ("days", "current_city")
"""What of a day stands in no note of its own."""


class Standing:
    """Where a run stands: its errands, all of them or the one it was given, and what is left of them."""

    def __init__(self, gold: Gold, state: Mapping[str, Any]) -> None:
        self.gold, self._state = gold, state
        self._all = errands(gold)

    @property
    def all(self) -> Sequence[Errand]:
        """The errands of the whole query."""
        return self._all

    @cached_property
    def own(self) -> Sequence[Errand]:
        """The errands at hand."""
        named = [errand for errand in self._all if self._state["task"].goal.startswith(errand.title)]
        return named or self._all

    @property
    def calls(self) -> list[ToolUse]:
        """Everything that the errands at hand take."""
        return [call for errand in self.own for call in errand.calls]

    @property
    def left(self) -> Sequence[ToolUse]:
        """What is still to be done of it."""
        history = self._state.get("history", ())
        delivered = any(step.action.kind == DELIVER for step in history)
        return () if delivered else left(self.calls, history)


Answer = Callable[[Standing], Any]


def expert_for(benchmark: "TravelPlanner") -> Responder:
    """The mind; outside a node, and to questions of other kinds, its answers are the least."""
    golds = remembered(lambda query: gold_of(benchmark, query))

    def respond(prompt: str, form: Schema) -> Any:
        situation = current_situation()
        answer = _plan_from(prompt) if form == TEXT and PLAN_ASKED in prompt else _answer_to(form)
        if situation is None or answer is None:
            return least(form)
        gold = golds(benchmark.query(situation.state["task"]))
        return answer(Standing(gold, situation.state))

    return respond


def _answer_to(form: Schema) -> Answer | None:
    return next((make for name, make in _ANSWERS.items() if name in form.get("properties", ())), None)


def _nodes(at: Standing) -> Any:
    return {"nodes": [{"id": e.id, "task": e.spec[:MOST_SPEC], "needs": [*e.needs]} for e in at.all]}


def _steps(at: Standing) -> Any:
    """An agent of the whole query plans by errands, that of one errand by its calls."""
    whole = len(at.own) > 1
    steps = [e.spec for e in at.own] if whole else [f"{use.tool}: {use.text}" for use in at.left or at.calls]
    return {"steps": [step[:MOST_SPEC] for step in steps]}


def _progress(at: Standing) -> Any:
    ahead = len(at.left)
    return {
        "reason": f"{ahead} calls are left",
        "status": "needs_more_steps" if ahead else "completed",
        "off_plan": False,
        "guidance": at.left[0].tool if ahead else "",
        "result": "" if ahead else at.own[-1].result,
    }


def _changes(at: Standing) -> Any:
    return {"reason": "the outcomes are as they were expected", "change": [], "add": [], "remove": []}


def _move(at: Standing) -> Any:
    call = (at.left or at.calls)[0]
    return {"thought": f"{len(at.left)} calls are left", "tool": call.tool, "text": call.text}


def _plan_from(prompt: str) -> Answer:
    """The gold plan as far as the notes in the prompt have it: a note that was lost is missed in the plan."""

    def noted(key: str, entry: Any) -> Any:
        return entry if key in GIVEN or one_line(entry) in prompt else NOTHING

    def plan(at: Standing) -> Any:
        days = [{key: noted(key, entry) for key, entry in day.items()} for day in at.gold.draft.plan(at.gold.trip)]
        return json.dumps(days, ensure_ascii=False)

    return plan


_ANSWERS: Mapping[str, Answer] = {
    "nodes": _nodes,
    "steps": _steps,
    "status": _progress,
    "change": _changes,
    "tool": _move,
}

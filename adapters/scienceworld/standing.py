"""Where a run stands on its task's gold path: what the scripted expert goes by."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from certigraph.adapters.scienceworld.milestones import Milestone, named, walked
from certigraph.adapters.scienceworld.recording import Recording
from certigraph.adapters.scienceworld.setting import Setting

Golds = Callable[[str, int, str], Recording]
"""Task, variation and simplification -> the recording of the gold path."""


class Standing(NamedTuple):
    """The gold path, how many of its actions are done, the score, and what is worked on."""

    gold: Recording
    done: int
    score: int
    assigned: Milestone | None
    """What STEP's subtask or TDP's sub-task names."""
    target: Milestone | None
    """What the head of SDP's plan names."""

    @property
    def left(self) -> Sequence[str]:
        """The actions still to be done for what is assigned, else to the end."""
        return self.gold.actions[self.done : self.assigned.last if self.assigned else None]


def standing(state: Mapping[str, Any], gold: Golds) -> Standing:
    """Where a run stands, by what was done in its episode."""
    setting = Setting.model_validate(state["task"].constants)
    path = gold(setting.task, setting.variation, setting.simplification)
    assigned = state["subtask"].text if "subtask" in state else state["task"].goal
    score = int(state["observation"].data.get("score", path.start))
    plan, head = state.get("plan", ()), state.get("head", 0)
    target = plan[head].text if head < len(plan) else ""
    return Standing(path, walked(path.actions, state["history"]), score, named(assigned), named(target))

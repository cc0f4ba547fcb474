"""The mind behind `scripted:expert` in ScienceWorld: it follows the simulator's own gold path, milestone by milestone.

It commits to one predicate or subtask for each rise of the gold path's score. Where a run stands on the path it reads
off what was done in the episode, so that slips, wrong verdicts and new plans do not throw it off: its next action is
the path's next one, but for a target that is reached already, for which it looks around. It writes actions as the gold
path has them, which is not always as the world lists them: they go through where models write freely (SDP,
`decide_freely(most=0)`); elsewhere it takes the nearest.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

from certigraph.adapters.matching import ranked
from certigraph.adapters.models.instances import minimal
from certigraph.adapters.models.situation import current_situation
from certigraph.adapters.protocols import Responder
from certigraph.adapters.scienceworld.recorder import gold_recording
from certigraph.adapters.scienceworld.recording import Recording
from certigraph.adapters.scienceworld.replies import plain
from certigraph.adapters.scienceworld.splits import Setting
from certigraph.state.records import Step

MILESTONE = re.compile(r"Milestone (\d+): actions (\d+) to (\d+) of the gold path, score (\d+)\.")
CONDITIONS = re.compile(r"^Conditions, in order:\n((?:\d+\. .*\n)+)", re.MULTILINE)

IDLE = "look around"

PIECE = 8
"""Actions of a milestone that make one subtask: what STEP allows by default before it refines a subtask."""

Golds = Callable[[str, int, str], Recording]
"""Task, variation and simplification -> the recording of the gold path."""


class Milestone(NamedTuple):
    """A rise of a gold path's score, and the actions (1-based, inclusive) that lead to it."""

    number: int
    first: int
    last: int
    score: int

    def text(self) -> str:
        """Its name in a plan, in which `MILESTONE` finds all of it again."""
        return f"Milestone {self.number}: actions {self.first} to {self.last} of the gold path, score {self.score}."


class Standing(NamedTuple):
    """Where a run stands: the gold path, how many of its actions are done, the score, and what is worked on."""

    gold: Recording
    done: int
    score: int
    subtask: str
    target: str = ""
    """The head of SDP's plan."""


Answer = Callable[[Standing, str, dict[str, Any]], Any]


@lru_cache(maxsize=64)
def _recorded(task: str, variation: int, simplification: str) -> Recording:
    return gold_recording(task, variation, simplification)


def respond_for(gold: Golds = _recorded) -> Responder:
    """The mind; `gold` has the paths. Outside a node, and to questions of other kinds, its answers are the least."""

    def respond(prompt: str, form: dict[str, Any]) -> Any:
        situation = current_situation()
        answer = next((make for name, make in _ANSWERS.items() if name in form.get("properties", ())), None)
        return answer(_standing(situation.state, gold), prompt, form) if situation and answer else minimal(form)

    return respond


def milestones(gold: Recording) -> list[Milestone]:
    """The rises of a gold path's score, up to 100."""
    rises: list[Milestone] = []
    for number, score in enumerate(gold.scores[: gold.firstdone], 1):
        if score > (rises[-1].score if rises else gold.start):
            rises.append(Milestone(len(rises) + 1, rises[-1].last + 1 if rises else 1, number, score))
    return rises


def walked(gold: Sequence[str], history: Sequence[Step]) -> int:
    """How many of a path's actions are done: those found in the history in their order, whatever else is in it."""
    done = 0
    for step in history:
        said = {plain(step.action.text), plain(str(step.action.args.get("written", "")))}
        done += done < len(gold) and plain(gold[done]) in said
    return done


def _standing(state: Mapping[str, Any], gold: Golds) -> Standing:
    setting = Setting.model_validate(state["task"].constants)
    path = gold(setting.task, setting.variation, setting.simplification)
    subtask = state["subtask"].text if "subtask" in state else ""
    score = int(state["observation"].data.get("score", path.start))
    plan, head = state.get("plan", ()), state.get("head", 0)
    target = plan[head].text if head < len(plan) else ""
    return Standing(path, walked(path.actions, state["history"]), score, subtask, target)


def _plan(at: Standing, prompt: str, form: dict[str, Any]) -> Any:
    return {"conditions": [m.text() for m in milestones(at.gold) if m.score > at.score]}


def _subtask(at: Standing, prompt: str, form: dict[str, Any]) -> Any:
    ahead = next((m for m in milestones(at.gold) if m.last > at.done), None)
    text = "The path is walked."
    if ahead:
        text = ahead._replace(first=at.done + 1, last=min(ahead.last, at.done + PIECE)).text()
    return {"rationale": "it comes next", "subtask": text, "insights": []}


def _action(at: Standing, prompt: str, form: dict[str, Any]) -> Any:
    actions, parts = at.gold.actions, form["properties"]
    target = _named(at.target)
    wanted = IDLE if target and target.score <= at.score else actions[min(at.done, len(actions) - 1)]
    options = parts.get("choice", {}).get("enum")
    answer = {"choice": ranked(wanted, options, most=1, focus_rule=False)[0].action} if options else {"action": wanted}
    return {"thought": "the gold path says so", **answer} if "thought" in parts else answer


def _verdict(at: Standing, prompt: str, form: dict[str, Any]) -> Any:
    shown, most = CONDITIONS.findall(prompt), int(form["properties"]["holds"].get("maximum", 1))
    held = 0
    for line in shown[-1].splitlines() if shown else ():
        found = _named(line)
        if found is None or found.score > at.score:
            break
        held += 1
    return {"reason": f"the score is {at.score}", "holds": min(held, most)}


def _completion(at: Standing, prompt: str, form: dict[str, Any]) -> Any:
    found = _named(at.subtask)
    done = found is not None and at.done >= found.last
    return {"reason": f"{at.done} actions of the gold path are done", "completed": done}


def _named(text: str) -> Milestone | None:
    found = MILESTONE.search(text)
    return Milestone(*map(int, found.groups())) if found else None


_ANSWERS: dict[str, Answer] = {
    "conditions": _plan,
    "holds": _verdict,
    "subtask": _subtask,
    "completed": _completion,
    "action": _action,
    "choice": _action,
}

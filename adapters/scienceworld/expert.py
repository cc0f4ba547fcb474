"""The mind behind `scripted:expert` in ScienceWorld: it follows the simulator's own gold path, milestone by milestone.

It commits to one predicate or subtask for each rise of the gold path's score, worded so that whoever carries it out
can look its actions up. It writes actions as the gold path has them, which is not always as the world lists them: they
go through where models write freely (SDP, `decide_freely(most=0)`); elsewhere it takes what is nearest.
"""

import re
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from certigraph.adapters.matching import ranked
from certigraph.adapters.models.instances import minimal
from certigraph.adapters.protocols import Responder
from certigraph.adapters.scienceworld.recorder import gold_recording
from certigraph.adapters.scienceworld.recording import Recording

MILESTONE = re.compile(r"Milestone \d+ of (\S+?)/(\d+)/(\S*): actions (\d+) to (\d+), score (\d+)\.")
GOAL = re.compile(r"(?:Task|Assignment): (.+)")
SCORE = re.compile(r"The score is (-?\d+) of 100")
TRIED = re.compile(r"in vain (\d+) times")
DONE = re.compile(r"Done (?:so far|for it) \((\d+) actions\)")

PIECE = 8
"""Actions of a milestone that make one subtask: what STEP allows by default before it refines a subtask."""

Answer = Callable[[str, dict[str, Any]], Any]

Golds = Callable[[str, int, str], Recording]
"""Task, variation and simplification -> the recording of the gold path."""


class Key(NamedTuple):
    """What a gold path is of."""

    task: str
    variation: int
    simplification: str


class Milestone(NamedTuple):
    """A rise of a gold path's score, and the actions (1-based, inclusive) that lead to it."""

    key: Key
    first: int
    last: int
    score: int

    def text(self, number: int) -> str:
        """Its name in a plan, in which `MILESTONE` finds all of it again."""
        where = "/".join(map(str, self.key))
        return f"Milestone {number} of {where}: actions {self.first} to {self.last}, score {self.score}."


def respond_for(known: Mapping[str, Key], gold: Golds = gold_recording) -> Responder:
    """The mind, for tasks whose goals it knows the gold paths of; `gold` has the paths."""

    def path(prompt: str) -> Key:
        return known[GOAL.findall(prompt)[-1]]

    def plan(prompt: str, form: dict[str, Any]) -> Any:
        return {"conditions": [m.text(n) for n, m in enumerate(milestones(gold(*path(prompt))), 1)]}

    def subtask(prompt: str, form: dict[str, Any]) -> Any:
        done = _count(DONE, prompt)
        left = [(n, m) for n, m in enumerate(milestones(gold(*path(prompt))), 1) if m.last > done]
        text = "The path is walked."
        if left:
            number, milestone = left[0]
            piece = milestone._replace(first=done + 1, last=min(milestone.last, done + PIECE))
            text = piece.text(number)
        return {"rationale": "it comes next", "subtask": text, "insights": []}

    def act(prompt: str, form: dict[str, Any]) -> Any:
        named = _named(prompt)
        if not named:
            return _action(gold(*path(prompt)), _count(DONE, prompt), form)
        in_milestone = TRIED.search(prompt) is not None
        done = named[0].first - 1 + _count(TRIED, prompt) if in_milestone else _count(DONE, prompt)
        return _action(gold(*named[0].key), done, form)

    answers: dict[str, Answer] = {
        "conditions": plan,
        "holds": _verdict,
        "subtask": subtask,
        "completed": _completion,
        "action": act,
        "choice": act,
    }

    def respond(prompt: str, form: dict[str, Any]) -> Any:
        answer = next((make for name, make in answers.items() if name in form.get("properties", ())), None)
        return answer(prompt, form) if answer else minimal(form)

    return respond


def milestones(gold: Recording) -> list[Milestone]:
    """The rises of a gold path's score, up to 100."""
    key, rises = Key(gold.task, gold.variation, gold.simplification), list[Milestone]()
    for number, score in enumerate(gold.scores[: gold.firstdone], 1):
        if score > (rises[-1].score if rises else gold.start):
            rises.append(Milestone(key, rises[-1].last + 1 if rises else 1, number, score))
    return rises


def _action(gold: Recording, done: int, form: dict[str, Any]) -> Any:
    actions, parts = gold.actions, form["properties"]
    wanted = actions[min(done, len(actions) - 1)]
    options = parts.get("choice", {}).get("enum")
    answer = {"choice": ranked(wanted, options, most=1, focus_rule=False)[0].action} if options else {"action": wanted}
    return {"thought": "the gold path says so", **answer} if "thought" in parts else answer


def _verdict(prompt: str, form: dict[str, Any]) -> Any:
    scores, score = [m.score for m in _named(prompt)], int(SCORE.findall(prompt)[-1])
    return {"reason": f"the score is {score}", "holds": min(sum(s <= score for s in scores), _most(form, "holds"))}


def _completion(prompt: str, form: dict[str, Any]) -> Any:
    (milestone,) = _named(prompt)[:1]
    done = _count(DONE, prompt) >= milestone.last - milestone.first + 1
    return {"reason": "as many actions as the gold path has", "completed": done}


def _most(form: dict[str, Any], field: str) -> int:
    return int(form["properties"][field].get("maximum", 1))


def _named(prompt: str) -> list[Milestone]:
    found = MILESTONE.findall(prompt)
    return [Milestone(Key(task, int(v), easy), *map(int, numbers)) for task, v, easy, *numbers in found]


def _count(pattern: re.Pattern[str], prompt: str) -> int:
    found = pattern.findall(prompt)
    return int(found[-1]) if found else 0

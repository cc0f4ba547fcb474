"""Scripted experts that several benchmarks share."""

import re
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple, TypeVar

from certigraph.adapters.episodes import EPISODES
from certigraph.adapters.matching import ranked
from certigraph.adapters.models.schemas import minimal
from certigraph.adapters.models.scripted import current_situation
from certigraph.adapters.protocols import LEAST_NODES, LEAST_PLAN, Limits, Responder
from certigraph.state.records import Predicate, Task

# What scripted experts share: answers told apart by their schema, to a question asked where a run stands.

Demonstration = Callable[[Task, Sequence[str]], Sequence[str]]
"""Task and the actions done so far -> the actions that are left; of a task it may go by the id and the constants."""

REACHED = "reached"
"""The field that tells an audit of the goal."""

At = TypeVar("At")

Answer = Callable[[At, str, dict[str, Any]], Any]
"""Where a run stands, the prompt, the answer's schema -> an answer of that schema."""


def answered(answers: Mapping[str, Answer[At]], standing: Callable[[Mapping[str, Any]], At | None]) -> Responder:
    """A mind whose answers go by the first of these fields that the schema has.

    Outside a node, to other questions, and where a run stands nowhere (None), its answer is the least; to an audit of
    the goal it is the scorer's.
    """

    def respond(prompt: str, form: dict[str, Any]) -> Any:
        situation = current_situation()
        answer = next((make for name, make in answers.items() if name in form.get("properties", ())), None)
        at = standing(situation.state) if situation and answer else None
        return answer(at, prompt, form) if answer and at is not None else least(form)

    return respond


def least(form: dict[str, Any]) -> Any:
    """The least answer of a schema; to an audit of the goal what the live world's scorer says, for least is `true`."""
    if REACHED not in form.get("properties", ()):
        return minimal(form)
    situation = current_situation()
    episode = EPISODES.get(situation.state.get("episode", "")) if situation else None
    return {"reason": "the scorer says so", REACHED: episode is not None and episode.score().value >= 1}


def acting(wanted: str, form: dict[str, Any], thought: str) -> Any:
    """An action: as it is where actions are written, the nearest option where there is a choice."""
    parts = form["properties"]
    options = parts.get("choice", {}).get("enum")
    answer = {"choice": _nearest(wanted, options)} if options else {"action": wanted}
    return {"thought": thought, **answer} if "thought" in parts else answer


def proposing(wanted: str, form: dict[str, Any]) -> Any:
    """Candidates: the action, or the option nearest to it, before the others that are offered."""
    listed = form["properties"]["actions"]
    options = listed.get("items", {}).get("enum", ())
    best = _nearest(wanted, options) if options else wanted
    return {"actions": [best, *(option for option in options if option != best)][: listed.get("maxItems", 1)]}


def _nearest(wanted: str, options: Sequence[str]) -> str:
    return ranked(wanted, options, most=1, focus_rule=False)[0].action


def chain(tasks: Mapping[str, str]) -> list[dict[str, Any]]:
    """Nodes of a task graph, each of which needs the one before it, from ids to what is to be done."""
    needs = [[], *([id_] for id_ in tasks)]
    return [{"id": id_, "task": task, "needs": need} for (id_, task), need in zip(tasks.items(), needs, strict=False)]


def unchanged(at: Any, prompt: str, form: dict[str, Any]) -> Any:
    """A revision that leaves a task graph as it is."""
    return {"reason": "the path is as it was", "change": [], "add": [], "remove": []}


def remembered(demonstration: Demonstration) -> Demonstration:
    """The same demonstration, asked only where a run begins or has left the path."""
    known: dict[tuple[str, str, tuple[str, ...]], tuple[str, ...]] = {}

    def left(task: Task, done: Sequence[str]) -> tuple[str, ...]:
        here, before = tuple(done), tuple(done[:-1])
        key = (task.benchmark, task.id, here)
        if key not in known:
            led = known.get((task.benchmark, task.id, before), ()) if here else ()
            known[key] = led[1:] if led[:1] == here[-1:] and led else tuple(demonstration(task, here))
        return known[key]

    return left


# Where a run stands on a demonstration, and the names of the stretches that are left of it.

NAMED = re.compile(r"(\d+) actions to go after: ")

MOST_TEXT = 190
"""Characters of a stretch's name: what STEP's subtasks and TDP's sub-tasks hold."""


class Standing(NamedTuple):
    """Where a run stands."""

    left: tuple[str, ...]
    """The actions to the goal."""
    until: int
    """How many of them are left once what is assigned is done; 0: all of the task is."""
    tail: tuple[Predicate, ...]
    """What SDP's plan still holds."""

    @property
    def ahead(self) -> tuple[str, ...]:
        """The actions still to be done for what is assigned."""
        return self.left[: max(len(self.left) - self.until, 0)]


def standing_of(state: Mapping[str, Any], demonstration: Demonstration) -> Standing | None:
    """Where a run stands, by what was done in its episode; None where its world is over without success."""
    seen, task = state["observation"], state["task"]
    if seen.done and not seen.solved:
        return None
    left = () if seen.done else tuple(demonstration(task, [step.action.text for step in state["history"]]))
    assigned = state["subtask"].text if "subtask" in state else task.goal
    tail = tuple(state.get("plan", ())[state.get("head", 0) :])
    return Standing(left, to_go(assigned) or 0, tail)


def to_go(text: str) -> int | None:
    """How many actions are left once a named stretch is done; None for a text that names none."""
    found = NAMED.search(text)
    return int(found[1]) if found else None


def stretches(at: Standing, size: int) -> list[str]:
    """What is ahead, a name for every `size` actions."""
    ahead = at.ahead
    spans = [(first, min(first + size, len(ahead))) for first in range(0, len(ahead), size)]
    told = ((len(at.left) - end, "; ".join(ahead[first:end])) for first, end in spans)
    return [f"{after} actions to go after: {actions}"[:MOST_TEXT] for after, actions in told]


def shared_out(at: Standing, most: int) -> list[str]:
    """What is ahead in at most so many stretches of one size."""
    return stretches(at, -(-len(at.ahead) // most) or 1)


# The mind behind `scripted:expert` in worlds that can demonstrate: it follows a demonstration to the goal.
#
# Where a run stands it tells by how many actions are left, which it asks the world anew when the run has left the
# path: slips, wrong verdicts and new plans do not throw it off. Its conditions, subtasks and sub-tasks name stretches
# of the demonstration, which no model could know: what it reaches says that worlds, limits and schedules work, not
# that prompts tell enough.

PIECE: int = Limits.model_fields["substeps"].default
"""Actions of one subtask: what STEP allows by default before it refines a subtask."""


@lru_cache(maxsize=16)
def demonstrated(demonstration: Demonstration) -> Responder:
    """The mind that follows a demonstration, one for each, so that it remembers what was asked of it.

    Outside a node, to questions of other kinds, and once the world is over without success its answers are the least.
    """
    left = remembered(demonstration)
    return answered(_ANSWERS, lambda state: standing_of(state, left))


def _plan(at: Standing, prompt: str, form: dict[str, Any]) -> Any:
    most = form["properties"]["conditions"].get("maxItems", LEAST_PLAN)
    return {"conditions": shared_out(at, most) or ["The goal is reached."]}


def _subtask(at: Standing, prompt: str, form: dict[str, Any]) -> Any:
    ahead = stretches(at._replace(until=0), PIECE)
    return {"rationale": "it comes next", "subtask": [*ahead, "The goal is reached."][0], "insights": []}


def _nodes(at: Standing, prompt: str, form: dict[str, Any]) -> Any:
    most = form["properties"]["nodes"].get("maxItems", LEAST_NODES)
    return {"nodes": chain({f"stretch-{n}": text for n, text in enumerate(shared_out(at, most), 1)})}


def _action(at: Standing, prompt: str, form: dict[str, Any]) -> Any:
    return acting(_next(at), form, "the demonstration says so")


def _proposals(at: Standing, prompt: str, form: dict[str, Any]) -> Any:
    return proposing(_next(at), form)


def _next(at: Standing) -> str:
    return at.left[0] if at.left else "look"


def _verdict(at: Standing, prompt: str, form: dict[str, Any]) -> Any:
    most = int(form["properties"]["holds"].get("maximum", len(at.tail)))
    unmet = (place for place, wanted in enumerate(at.tail) if not _holds(at, wanted))
    return {"reason": f"{len(at.left)} actions to go", "holds": min(next(unmet, len(at.tail)), most)}


def _holds(at: Standing, wanted: Predicate) -> bool:
    after = to_go(wanted.text)
    if after is None:
        return wanted.kind == "goal" and not at.ahead
    return len(at.left) <= after


def _steps(at: Standing, prompt: str, form: dict[str, Any]) -> Any:
    most = form["properties"]["steps"].get("maxItems", LEAST_PLAN)
    return {"steps": list(at.ahead[:most]) or ["Nothing is left to do."]}


def _completion(at: Standing, prompt: str, form: dict[str, Any]) -> Any:
    return {"reason": f"{len(at.left)} actions to go", "completed": not at.ahead}


def _progress(at: Standing, prompt: str, form: dict[str, Any]) -> Any:
    told, guidance = f"{len(at.left)} actions to go", "".join(at.ahead[:1])
    status = "needs_more_steps" if at.ahead else "completed"
    return {"reason": told, "status": status, "off_plan": False, "guidance": guidance, "result": told}


_ANSWERS: dict[str, Answer[Standing]] = {
    "conditions": _plan,
    "holds": _verdict,
    "reached": lambda at, prompt, form: {"reason": f"{len(at.left)} actions to go", "reached": not at.ahead},
    "subtask": _subtask,
    "completed": _completion,
    "nodes": _nodes,
    "steps": _steps,
    "status": _progress,
    "change": unchanged,
    "forbidden": lambda at, prompt, form: {"reason": "no rule speaks of it", "forbidden": False},
    "action": _action,
    "actions": _proposals,
    "choice": _action,
}

"""What scripted experts share: answers told apart by their schema, to a question asked where a run stands."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from certigraph.adapters.episodes import EPISODES
from certigraph.adapters.matching import ranked
from certigraph.adapters.models.instances import minimal
from certigraph.adapters.models.situation import current_situation
from certigraph.adapters.protocols import Responder
from certigraph.state.records import Task

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

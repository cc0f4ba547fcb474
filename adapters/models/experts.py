"""Scripted experts that several benchmarks share: functions that answer in place of a language model.

`respond_by_field` builds a responder from one answer function per field of the answer schema. `demonstration_expert`
builds the expert that follows a demonstration, a list of actions that solves the task.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple, TypeVar

from certigraph.adapters.episodes import EPISODES
from certigraph.adapters.matching import NONE_OF_THESE, rank_actions
from certigraph.adapters.models.schemas import minimal_instance
from certigraph.adapters.models.scripts import current_situation
from certigraph.adapters.protocols import MIN_NODES, MIN_PLAN, Limits, Responder
from certigraph.state.records import Predicate, Task
from certigraph.state.step import STANDING

# Building blocks of scripted experts: answers are selected by the fields of their schema and by the run's progress.

Demonstration = Callable[[Task, Sequence[str]], Sequence[str]]
"""Function (task, actions done so far) -> the actions that remain until the task is solved. It may use the task's id
and constants."""

REACHED_FIELD = "reached"
"""Field of the answer schema of an audit of the goal, in which a model judges whether the goal is reached."""

TARGET_FIELD = "target"
"""Field of the answer schema of SDP's actions that says how the target stands."""

BRINGS_FIELD = "brings"
"""Field of that schema for the number of the condition that an action should bring about."""

At = TypeVar("At")

AnswerFunction = Callable[[At, dict[str, Any]], Any]
"""Function (progress of the run, answer schema) -> an answer that fits the schema."""


def respond_by_field(
    answers: Mapping[str, AnswerFunction[At]], standing: Callable[[Mapping[str, Any]], At | None]
) -> Responder:
    """Build a responder that calls the answer function of the first field that the answer schema has.

    The answer is that of `minimal_answer` outside a node, if no field fits, and if `standing` returns None.

    Args:
        answers: answer functions by field of the answer schema.
        standing: computes the progress of a run from the graph state; None if it cannot be computed.
    """

    def respond(prompt: str, form: dict[str, Any]) -> Any:
        situation = current_situation()
        make_answer = next((function for name, function in answers.items() if name in form.get("properties", ())), None)
        at = standing(situation.state) if situation and make_answer else None
        return make_answer(at, form) if make_answer and at is not None else minimal_answer(form)

    return respond


def minimal_answer(form: dict[str, Any]) -> Any:
    """Return the minimal instance of the answer schema `form`.

    The minimal instance for an audit of the goal would say that it is reached; there the scorer's result is returned.
    """
    if REACHED_FIELD not in form.get("properties", ()):
        return minimal_instance(form)
    situation = current_situation()
    episode = EPISODES.get(situation.state.get("episode", "")) if situation else None
    return {"reason": "the scorer says so", REACHED_FIELD: episode is not None and episode.score().value >= 1}


def action_answer(action: str, form: dict[str, Any], thought: str, *, last: bool = False, holds: bool = False) -> Any:
    """Return an answer that chooses an action: the action itself if the answer schema `form` takes any text.

    If the schema lists options, the answer is the option that is most similar to the action.

    Args:
        action: the action.
        form: the answer schema.
        thought: text of the answer's thought.
        last: whether the action completes the subtask of STEP that is assigned.
        holds: whether the target of SDP holds already.
    """
    properties = form["properties"]
    options = properties.get("choice", {}).get("enum")
    answer = {"choice": _nearest_option(action, options)} if options else {"action": action}
    if STANDING in properties:
        answer[STANDING] = "completes" if last else "continues"
    if TARGET_FIELD in properties:
        answer[TARGET_FIELD] = "holds" if holds else "open"
    return {"thought": thought, **answer} if "thought" in properties else answer


def candidates_answer(action: str, form: dict[str, Any]) -> Any:
    """Return an answer that lists candidate actions, best first.

    The first one is the action itself, or the most similar option if the answer schema `form` lists options; then the
    other options follow.
    """
    actions = form["properties"]["actions"]
    options = actions.get("items", {}).get("enum", ())
    best = _nearest_option(action, options) if options else action
    return {"actions": [best, *(option for option in options if option != best)][: actions.get("maxItems", 1)]}


def _nearest_option(action: str, options: Sequence[str]) -> str:
    if NONE_OF_THESE in options and action not in options:  # the action was written before, and is right as it is
        return NONE_OF_THESE
    return rank_actions(action, options, most=1, focus_rule=False)[0].action


def chained_nodes(tasks: Mapping[str, str]) -> list[dict[str, Any]]:
    """Return the nodes of a task graph in which each node needs the previous one.

    Args:
        tasks: what is to be done, by node id.
    """
    needs = [[], *([id_] for id_ in tasks)]
    return [{"id": id_, "task": task, "needs": need} for (id_, task), need in zip(tasks.items(), needs, strict=False)]


def unchanged_revision(at: Any, form: dict[str, Any]) -> Any:
    """Return the answer to a request to revise a task graph: change nothing."""
    return {"reason": "the path is as it was", "change": [], "add": [], "remove": []}


def cache_demonstration(demonstration: Demonstration) -> Demonstration:
    """Cache a demonstration function: it is called only at the start of a run, and again when the run left the path."""
    paths: dict[tuple[str, str, tuple[str, ...]], tuple[str, ...]] = {}

    def remaining(task: Task, done: Sequence[str]) -> tuple[str, ...]:
        actions, previous = tuple(done), tuple(done[:-1])
        key = (task.benchmark, task.id, actions)
        if key not in paths:
            expected = paths.get((task.benchmark, task.id, previous), ()) if actions else ()
            paths[key] = (
                expected[1:] if expected[:1] == actions[-1:] and expected else tuple(demonstration(task, actions))
            )
        return paths[key]

    return remaining


# Progress of a run on a demonstration, and names of the segments that remain.

SEGMENT_NAME = re.compile(r"(\d+) actions to go after: ")

MAX_SEGMENT_NAME = 190
"""Maximum characters of the name of a segment (a part of a demonstration): the limit of subtasks in STEP and TDP."""


class DemonstrationProgress(NamedTuple):
    """Progress of a run that follows a demonstration, of which one segment is assigned to the agent."""

    remaining: tuple[str, ...]
    """Actions that remain to the goal."""
    remaining_after: int
    """Number of actions that remain when the assigned segment is done; 0 if the segment ends at the goal."""
    tail: tuple[Predicate, ...]
    """Predicates of SDP's plan that are not certified yet."""
    target: int = 0
    """Number of the first of them in the plan, from 1."""

    @property
    def ahead(self) -> tuple[str, ...]:
        """Actions that remain in the assigned segment."""
        return self.remaining[: max(len(self.remaining) - self.remaining_after, 0)]


def progress_of(state: Mapping[str, Any], demonstration: Demonstration) -> DemonstrationProgress | None:
    """Return the progress of a run, computed from its action history; None if its world ended without success."""
    observation, task = state["observation"], state["task"]
    if observation.done and not observation.solved:
        return None
    remaining = () if observation.done else tuple(demonstration(task, [step.action.text for step in state["history"]]))
    assigned = state["subtask"].text if "subtask" in state else task.goal
    head = state.get("head", 0)
    return DemonstrationProgress(
        remaining, actions_after(assigned) or 0, tuple(state.get("plan", ())[head:]), target=head + 1
    )


def actions_after(text: str) -> int | None:
    """Read from a segment's name how many of the expert's actions follow that segment; None for any other text."""
    match = SEGMENT_NAME.search(text)
    return int(match[1]) if match else None


def name_segments(at: DemonstrationProgress, size: int) -> list[str]:
    """Split the remaining actions of the assigned segment into segments of `size` actions, and return their names."""
    ahead = at.ahead
    spans = [(start, min(start + size, len(ahead))) for start in range(0, len(ahead), size)]
    segments = ((len(at.remaining) - end, "; ".join(ahead[start:end])) for start, end in spans)
    return [f"{after} actions to go after: {actions}"[:MAX_SEGMENT_NAME] for after, actions in segments]


def split_evenly(at: DemonstrationProgress, most: int) -> list[str]:
    """Split the remaining actions of the assigned segment into at most `most` equal segments, and return the names."""
    return name_segments(at, -(-len(at.ahead) // most) or 1)


# The responder of `scripted:expert` in worlds with a demonstration: it follows the demonstration to the goal.
#
# It measures progress by the number of remaining actions, and asks the world for a new demonstration when a run has
# left the path, so that wrong actions, wrong verdicts and new plans do not stop it. Its conditions, subtasks and
# sub-tasks name segments of the demonstration, which no model could know: its results show that worlds, limits and
# control flow work, not that prompts are sufficient.

SUBTASK_ACTIONS: int = Limits.model_fields["substeps"].default
"""Number of actions of one subtask: STEP's default limit before a subtask is refined."""


@lru_cache(maxsize=16)
def demonstration_expert(demonstration: Demonstration) -> Responder:
    """Return the responder that follows a demonstration; cached, so that the paths computed so far are kept.

    Outside a node, for unknown answer schemas, and after the world ended without success, it returns the minimal
    instance of the answer schema.
    """
    remaining = cache_demonstration(demonstration)
    return respond_by_field(_ANSWERS, lambda state: progress_of(state, remaining))


def _plan(at: DemonstrationProgress, form: dict[str, Any]) -> Any:
    most = form["properties"]["conditions"].get("maxItems", MIN_PLAN)
    return {"conditions": split_evenly(at, most) or ["The goal is reached."]}


def _subtask(at: DemonstrationProgress, form: dict[str, Any]) -> Any:
    ahead = name_segments(at._replace(remaining_after=0), SUBTASK_ACTIONS)
    return {"rationale": "it comes next", "subtask": [*ahead, "The goal is reached."][0], "insights": []}


def _nodes(at: DemonstrationProgress, form: dict[str, Any]) -> Any:
    most = form["properties"]["nodes"].get("maxItems", MIN_NODES)
    return {"nodes": chained_nodes({f"stretch-{n}": text for n, text in enumerate(split_evenly(at, most), 1)})}


def _action(at: DemonstrationProgress, form: dict[str, Any]) -> Any:
    reached = [bool(at.tail) and _is_reached(one, at.tail[0]) for one in (at, at._replace(remaining=at.remaining[1:]))]
    answer = action_answer(
        _next_action(at), form, "the demonstration says so", last=len(at.ahead) <= 1, holds=reached[0]
    )
    return {**answer, BRINGS_FIELD: at.target} if BRINGS_FIELD in form["properties"] and reached[1] else answer


def _proposals(at: DemonstrationProgress, form: dict[str, Any]) -> Any:
    return candidates_answer(_next_action(at), form)


def _next_action(at: DemonstrationProgress) -> str:
    return at.remaining[0] if at.remaining else "look"


def _verdict(at: DemonstrationProgress, form: dict[str, Any]) -> Any:
    most = int(form["properties"]["holds"].get("maximum", len(at.tail)))
    unmet = (index for index, predicate in enumerate(at.tail) if not _is_reached(at, predicate))
    return {"reason": f"{len(at.remaining)} actions to go", "holds": min(next(unmet, len(at.tail)), most)}


def _is_reached(at: DemonstrationProgress, predicate: Predicate) -> bool:
    remaining = actions_after(predicate.text)
    if remaining is None:
        return predicate.kind == "goal" and not at.ahead
    return len(at.remaining) <= remaining


def _steps(at: DemonstrationProgress, form: dict[str, Any]) -> Any:
    most = form["properties"]["steps"].get("maxItems", MIN_PLAN)
    return {"steps": list(at.ahead[:most]) or ["Nothing is left to do."]}


def _completion(at: DemonstrationProgress, form: dict[str, Any]) -> Any:
    return {"reason": f"{len(at.remaining)} actions to go", "completed": not at.ahead}


def _progress(at: DemonstrationProgress, form: dict[str, Any]) -> Any:
    summary, guidance = f"{len(at.remaining)} actions to go", "".join(at.ahead[:1])
    status = "needs_more_steps" if at.ahead else "completed"
    return {"reason": summary, "status": status, "off_plan": False, "guidance": guidance, "result": summary}


_ANSWERS: dict[str, AnswerFunction[DemonstrationProgress]] = {
    "conditions": _plan,
    "holds": _verdict,
    "reached": lambda at, form: {"reason": f"{len(at.remaining)} actions to go", "reached": not at.ahead},
    "subtask": _subtask,
    "completed": _completion,
    "nodes": _nodes,
    "steps": _steps,
    "status": _progress,
    "change": unchanged_revision,
    "forbidden": lambda at, form: {"reason": "no rule speaks of it", "forbidden": False},
    "action": _action,
    "actions": _proposals,
    "choice": _action,
}

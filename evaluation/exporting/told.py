"""A round in words, for formats that are conversations."""

from collections.abc import Mapping
from typing import Any

from certigraph.evaluation.exporting.rounds import Round
from certigraph.state.lessons import Lesson, Trial
from certigraph.state.records import Action, Arguments, Task

BOOKS = ("begin", "recall", "gather")
"""Nodes that only keep books, unless they ask a model."""


def asked(task: Task) -> str:
    """What the user wants."""
    return task.goal or f"{task.benchmark} {task.id}"


def silent(part: Round) -> bool:
    """Whether a round only kept books."""
    return part.node in BOOKS and not part.usage.calls and not part.failed


def told(part: Round) -> str:
    """What the agent said in a round, or what happened in it."""
    if part.failed:
        return f"{part.node} failed."
    if part.resets:
        return f"Episode {part.episode} begins."
    return part.action.text if part.action else "\n".join(_lines(part)) or f"{part.node}: nothing."


def tool_name(action: Action) -> str:
    """The name under which an action is a tool call."""
    return "act" if action.kind == "text" else action.kind


def tool_arguments(action: Action) -> Arguments:
    """The arguments of that call: the action's own, and its text."""
    return {**action.args, "text": action.text}


def _lines(part: Round) -> list[str]:
    update = part.update
    if "trials" in update:
        return [_ended(Trial.model_validate(trial)) for trial in update["trials"]]
    if update.get("lessons"):
        return [_taught(Lesson.model_validate(update["lessons"][-1]))]
    if "outcomes" in update:
        return [f"{outcome['node']} {outcome['status']}: {outcome['result']}" for outcome in update["outcomes"]]
    if "dag" in update:
        return [_node(node) for node in update["dag"].get("nodes", ())]
    if "subtask" in update:
        return [str(update["subtask"]["text"])]
    # a new plan repeats what is certified already
    conditions = [str(predicate["text"]) for predicate in update.get("plan", ())][part.head :]
    rated = [f"reward {one['reward']:.2f}" for one in update.get("rewards", ())]
    return conditions or rated or [str(step) for step in update.get("outline", ())]


def _node(node: Mapping[str, Any]) -> str:
    needs = node.get("needs")
    return f"{node['id']}: {node['task']}" + (f" (needs {', '.join(needs)})" if needs else "")


def _ended(trial: Trial) -> str:
    return f"Episode {trial.number} ended after {trial.steps} steps: {trial.ending}, score {trial.scores.value:g}."


def _taught(lesson: Lesson) -> str:
    return "\n".join(filter(None, [lesson.report, lesson.reflection, *lesson.insights, *lesson.strategy]))

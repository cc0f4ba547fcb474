"""A scripted model that keeps every prompt of TDP with its sub-task.

All that a sub-task is given, writes and is shown holds a canary of its own: a text that stands nowhere else.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from certigraph.adapters.models.scripts import ScriptedChat, current_situation
from certigraph.adapters.protocols import Budget, Context
from certigraph.graphs import tdp
from certigraph.runtime.result import Result
from certigraph.runtime.run import run

KINDS = ("SPEC", "PLAN", "THINK", "SEEN", "WHY", "GUIDE", "RESULT", "FACT")

NEEDS: Mapping[str, tuple[str, ...]] = {"a": (), "b": (), "c": (), "d": ("a", "b"), "e": ("c",), "g": ("d", "e")}
"""Three levels: what each sub-task needs."""

ACTORS = ("execute", "realize", "decide")

Spoil = Callable[[str, frozenset[str], dict[str, Any]], Any]
"""(prompt, fields of the question, the answer as scripted) -> what is answered instead."""


def canary(kind: str, id_: str) -> str:
    return f"{kind}-{id_}-canary"


def facts_of(ids: Sequence[str]) -> dict[str, str]:
    """What each sub-task may look up: two things, each of which shows its canary."""
    return {f"look {id_}{n}": f"{canary('SEEN', id_)} number {n}" for id_ in ids for n in (1, 2)}


class RecordedPrompt(NamedTuple):
    """A prompt, the operator that asked, and the sub-task that it was about; none where it was the whole task."""

    subtask: str
    operator: str
    prompt: str


class SubtaskModel:
    """The model: every sub-task takes its scripted actions, is planned again after the first, and completes.

    Args:
        actions: of each sub-task by id; those of the empty id are for graphs that know no sub-tasks.
        needs: what each sub-task needs.
        spoils: what becomes of the answers about some sub-tasks.
    """

    def __init__(
        self,
        actions: Mapping[str, Sequence[str]],
        needs: Mapping[str, Sequence[str]] = NEEDS,
        spoils: Mapping[str, Spoil] | None = None,
    ) -> None:
        self.actions, self.needs, self.spoils = actions, needs, spoils or {}
        self.requests: list[RecordedPrompt] = []

    def __call__(self, prompt: str, schema: Mapping[str, Any]) -> Any:
        situation = current_situation()
        assert situation
        first = situation.state["task"].goal.splitlines()[0]
        id_ = next((id_ for id_ in self.actions if id_ and first == canary("SPEC", id_)), "")
        fields = frozenset(schema.get("properties", {"text"}))
        answer = self._answer(id_, fields)
        self.requests.append(RecordedPrompt(id_, situation.node, prompt))
        return self.spoils[id_](prompt, fields, answer) if id_ in self.spoils else answer

    def prompts(self, operator: str, subtask: str | None = None) -> list[str]:
        return [a.prompt for a in self.requests if a.operator == operator and subtask in (None, a.subtask)]

    def _answer(self, id_: str, fields: frozenset[str]) -> Any:
        taken = sum(entry.subtask == id_ and entry.operator in ACTORS for entry in self.requests)
        if "status" in fields:
            return self._judged(id_, taken)
        planned = {"conditions": [f"{canary('PLAN', id_)} {taken}"]} if "conditions" in fields else {}
        if fields & {"action", "tool"}:
            return {**planned, **self._acted(id_, self.actions[id_][min(taken, len(self.actions[id_]) - 1)])}
        values: dict[str, Any] = {
            "nodes": [{"id": i, "task": canary("SPEC", i), "needs": [*before]} for i, before in self.needs.items()],
            **dict.fromkeys(("change", "add", "remove"), ()),
            "steps": [f"{canary('PLAN', id_)} {taken}"],
            "conditions": [f"{canary('PLAN', id_)} {taken}"],
            "facts": [{"fact": f"{canary('FACT', id_)} {taken}", "source": "the desk"}],
            "resolved": [],
            "questions": [],
            "reason": canary("WHY", id_),
            "holds": int(taken > 1),
            "verdict": "PRODUCTIVE",
        }
        return (
            {field: values[field] for field in fields if field in values}
            if "text" not in fields
            else canary("FACT", id_)
        )

    def _judged(self, id_: str, taken: int) -> dict[str, Any]:
        completed = taken >= len(self.actions[id_])
        return {
            "reason": canary("WHY", id_),
            "status": "completed" if completed else "needs_more_steps",
            "off_plan": taken == 1,
            "guidance": canary("GUIDE", id_),
            "result": canary("RESULT", id_),
        }

    def _acted(self, id_: str, action: str) -> dict[str, Any]:
        tool, _, text = action.removesuffix("]").partition("[")
        return {"thought": canary("THINK", id_), "action": action, "tool": tool, "text": text}


def lookup_actions(ids: Sequence[str]) -> dict[str, list[str]]:
    """The actions of sub-tasks that look up their own two facts."""
    return {id_: [f"look {id_}1", f"look {id_}2"] for id_ in ids}


def run_tdp(
    cast: SubtaskModel, world: Any, out: Any, budget: Budget | None = None, window: int = 0, **operators: Any
) -> Result:
    """A run of TDP on the first task of a world."""
    chat = ScriptedChat(responder=cast)
    context = Context(chat=chat, limits=world.limits, budget=budget or Budget(), window=window)
    return run(tdp.build(**operators), world, world.tasks()[0], context=context, out=out)


def outcomes(result: Result) -> Mapping[str, str]:
    """The outcomes of a run's sub-tasks, to the byte."""
    return {outcome.node: outcome.model_dump_json() for outcome in result.state["outcomes"]}

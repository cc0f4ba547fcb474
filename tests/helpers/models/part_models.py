"""A model that works on sub-tasks and subtasks over tools by a script, and counts the requests of each node."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from certigraph.adapters.models.schemas import minimal_instance
from certigraph.adapters.models.scripts import ScriptedChat, current_situation

Calls = list[dict[str, Any]]


def call(name: str, **args: Any) -> dict[str, Any]:
    """A call as a model writes it."""
    return {"name": name, "args": args}


def part(id_: str, *needs: str, **given: Any) -> dict[str, Any]:
    """A sub-task whose text is its id."""
    return {"id": id_, "task": f"Do {id_}.", "needs": [*needs], **given}


class PartModel:
    """Makes the calls that a script has for each assignment, one entry of it a request.

    Args:
        work: by assignment what each request for calls is answered with; the last entry is repeated.
        parts: the sub-tasks of TDP.
        subtasks: what STEP's Planner answers, one after another; the last one is repeated.
        judged: answers of the Supervisor or Evaluator, one after another; the last one is repeated.
    """

    def __init__(
        self,
        work: Mapping[str, Sequence[Calls]],
        parts: Sequence[dict[str, Any]] = (),
        subtasks: Sequence[dict[str, Any]] = (),
        judged: Sequence[dict[str, Any]] = ({"status": "completed", "completed": True},),
    ) -> None:
        self.work, self.parts, self.subtasks, self.judged = work, parts, subtasks, judged
        self.requests: Counter[str] = Counter()
        self.prompts: list[tuple[str, str]] = []
        self.taken: Counter[str] = Counter()

    @property
    def chat(self) -> ScriptedChat:
        """The model as a chat model."""
        return ScriptedChat(responder=self)

    def prompts_of(self, node: str) -> list[str]:
        """The prompts that a node has sent, in order."""
        return [prompt for sender, prompt in self.prompts if sender == node]

    def __call__(self, prompt: str, schema: Mapping[str, Any]) -> Any:
        """Answer a request by its fields."""
        situation, fields = current_situation(), schema["properties"]
        assert situation
        self.requests[situation.node] += 1
        self.prompts.append((situation.node, prompt))
        if "calls" in fields:
            return {"thought": "", "calls": self._next_calls(situation.view["assignment"])}
        if "nodes" in fields:
            known = fields["nodes"]["items"]["properties"]
            return {"reasoning": "", "nodes": [{key: one[key] for key in one if key in known} for one in self.parts]}
        if "subtask" in fields:
            chosen = self.subtasks[min(self.requests[situation.node], len(self.subtasks)) - 1]
            return {**minimal_instance(schema), **{key: chosen[key] for key in chosen if key in fields}}
        if fields.keys() & {"status", "completed"}:
            judged = self.judged[min(self.requests[situation.node], len(self.judged)) - 1]
            return {**minimal_instance(schema), **{key: judged[key] for key in judged if key in fields}}
        return minimal_instance(schema)

    def _next_calls(self, assignment: str) -> Calls:
        rounds = self.work[assignment.splitlines()[0]]
        self.taken[assignment] += 1
        return rounds[min(self.taken[assignment], len(rounds)) - 1]

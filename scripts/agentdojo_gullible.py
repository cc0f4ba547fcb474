"""A scripted model for AgentDojo that obeys attackers: the worst case, which no prompt protects from."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple

from certigraph.adapters.models.scripts import current_situation
from certigraph.adapters.protocols import Responder
from certigraph.benchmarks.agentdojo.expert import Suppliers, create_choice, dojo_expert, find_suppliers
from certigraph.benchmarks.agentdojo.world import GroundTruth, TaskId, injection_truth, load_suites
from certigraph.state.records import Step
from certigraph.state.run import FINISH
from certigraph.state.tools import ANSWER_ARGUMENT, ToolCall, calls_of


@cache
def gullible_expert() -> Responder:
    """Return a responder that does what the last order says, whoever gave it, in every role.

    It is a simulation of the worst case, and no language model. It works as `dojo_expert` until the view of its
    operator shows the attacker's goal. Where it chooses calls, it then first tries each call of the injection task's
    ground truth once, adds what that wants the answer to say, and goes on. Where it plans or reports a part of the
    task (TDP), it passes the goal on.
    """
    expert = dojo_expert()

    def respond(prompt: str, form: dict[str, Any]) -> Any:
        situation, answer = current_situation(), expert(prompt, form)
        obey = next((obey for field, obey in _OBEDIENCE.items() if field in form.get("properties", ())), None)
        if situation is None or obey is None:
            return answer
        id_ = TaskId.parse(situation.state["task"].id)
        if not id_.injection_task:
            return answer
        goal = load_suites()[id_.suite].injection_tasks[id_.injection_task].GOAL
        if not any(contains_goal(text, goal) for text in _texts(situation.view)):
            return answer
        place = (id_.suite, id_.injection_task)
        order = Order(goal, injection_truth(*place), find_suppliers(*place), situation.state["history"])
        return obey(answer, order)

    return respond


class Order(NamedTuple):
    """An attacker's order, and the actions so far."""

    goal: str
    truth: GroundTruth
    suppliers: Sequence[Suppliers]
    history: Sequence[Step]

    @property
    def untried(self) -> list[ToolCall]:
        """The calls that can be tried and were not.

        One that was refused has been tried. One whose values stand in the answer of a call that was refused cannot be
        tried, because nobody who did not read that answer could write them.
        """
        tried = [call for step in self.history for call in calls_of(step.action)]
        refused, left = set[str](), []
        for call, suppliers in zip(self.truth.calls, self.suppliers, strict=True):
            same = next((one for one in tried if (one.name, one.args) == (call.name, call.args)), None)
            if same:
                tried.remove(same)
                refused |= {call.name} if same.refused else set()
            elif any(refused & needed for needed in suppliers.values()):
                refused.add(call.name)
            else:
                left.append(call)
        return left


def _texts(view: Mapping[str, Any]) -> Iterator[str]:
    """Yield what an operator's view shows of the answers of tools, directly or passed on."""
    yield view["evidence"].view
    yield view["task"].goal  # that of a sub-task contains the results of the sub-tasks before it
    yield from (turn.observation for turn in view.get("turns", ()))
    yield from view.get("advice", ())
    yield from view.get("known", ())


def _obey_by_call(answer: Any, order: Order) -> Any:
    if left := order.untried:
        return create_choice(left[0])
    [call] = answer["calls"]
    if call["name"] != FINISH or not order.truth.answer:
        return answer
    text = f"{call['args'][ANSWER_ARGUMENT]}\n{order.truth.answer}"
    return create_choice(ToolCall(name=FINISH, args={ANSWER_ARGUMENT: text}))


_OBEDIENCE: dict[str, Callable[[Any, Order], Any]] = {
    "calls": _obey_by_call,
    "steps": lambda answer, order: {**answer, "steps": [order.goal, *answer["steps"]]},
    "status": lambda answer, order: {**answer, "result": order.goal},
}


_ESCAPE = re.compile(r"\\(?:u[0-9a-fA-F]{4}|x[0-9a-fA-F]{2}|[nrt])")
_NOT_COMPARED = re.compile(r"[^a-z0-9]")


def contains_goal(text: str, goal: str) -> bool:
    """Return whether a text contains the attacker's goal, however YAML escaped and folded it.

    Only letters and digits of ASCII are compared, without their case.
    """
    return _reduce(goal) in _reduce(_ESCAPE.sub("", text))


def _reduce(text: str) -> str:
    return _NOT_COMPARED.sub("", text.lower())

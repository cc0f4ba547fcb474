"""Scripted models of AgentDojo: an expert that makes the calls of the ground truth, and one that obeys attackers.

Neither reads a prompt. Conditions, sub-tasks and nodes name parts of the ground truth, which no model could know: the
results show that worlds, limits and control flow work, not that prompts are sufficient.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache, lru_cache
from typing import Any, NamedTuple

from certigraph.adapters.agentdojo.attacks import contains_goal
from certigraph.adapters.agentdojo.world import (
    INSTRUCTIONS,
    GroundTruth,
    TaskId,
    answer_truth,
    injection_truth,
    load_suites,
    user_truth,
)
from certigraph.adapters.models.experts import (
    SUBTASK_ACTIONS,
    AnswerFunction,
    DemonstrationProgress,
    actions_after,
    chained_nodes,
    name_segments,
    respond_by_field,
    split_evenly,
    unchanged_revision,
)
from certigraph.adapters.models.scripts import current_situation
from certigraph.adapters.protocols import MIN_NODES, MIN_PLAN, Responder
from certigraph.adapters.tools.definitions import HOLDS
from certigraph.state.commitments import SourcedText, find_problem
from certigraph.state.records import Predicate, Step, Task
from certigraph.state.run import ANSWER_ACTIONS, FINISH, Commitment
from certigraph.state.tools import ANSWER_ARGUMENT, ToolCall, calls_of

NO_ANSWER = "Done."
"""Answer where the ground truth has none."""

LAST_CONDITION = "0 actions to go after: the answer"
"""Condition of a plan where all calls are made, and text of a sub-task in which only the answer is left."""


class DojoProgress(NamedTuple):
    """Progress of a run on the ground truth of its task."""

    task: Task
    path: DemonstrationProgress
    """The calls that remain, as texts, and the part of them that is assigned."""
    calls: tuple[ToolCall, ...]
    """The calls that remain."""
    answered: bool
    answer: str

    @property
    def is_done(self) -> bool:
        """Whether the assigned part is done, to which the answer belongs if it is the last part."""
        return not self.path.ahead and (self.path.remaining_after > 0 or self.answered)


@cache
def dojo_expert() -> Responder:
    """Return the responder of the model `scripted:expert`."""
    return respond_by_field(_ANSWERS, dojo_progress)


def dojo_progress(state: Mapping[str, Any]) -> DojoProgress:
    """Return the progress of a run, computed from its actions: calls of the ground truth count in their order."""
    task: Task = state["task"]
    id_, history = TaskId.parse(task.id), state["history"]
    truth = user_truth(id_.suite, id_.user_task)
    left = list(truth.calls)
    for call in _calls_made(history):
        if left and (call.name, call.args) == (left[0].name, left[0].args):
            left.pop(0)
    assigned = state["subtask"].text if "subtask" in state else task.goal
    tail = tuple(state.get("plan", ())[state.get("head", 0) :])
    path = DemonstrationProgress(tuple(map(str, left)), actions_after(assigned) or 0, tail)
    answered = any(step.action.kind in ANSWER_ACTIONS for step in history)
    return DojoProgress(task, path, tuple(left), answered, truth.answer or NO_ANSWER)


def _calls_made(history: Sequence[Step]) -> Iterator[ToolCall]:
    return (call for step in history for call in calls_of(step.action) if not call.refused)


# Answers by the fields of their schema.


def _choose_call(at: DojoProgress, form: dict[str, Any]) -> Any:
    offered = _offered(form)
    if at.path.ahead and at.calls[0].name in offered:
        return create_choice(at.calls[0])
    if FINISH not in offered:
        return create_choice(ToolCall(name=HOLDS))
    return create_choice(ToolCall(name=FINISH, args={ANSWER_ARGUMENT: at.answer}))


def _offered(form: Mapping[str, Any]) -> set[str]:
    return {option["properties"]["name"]["const"] for option in form["properties"]["calls"]["items"]["anyOf"]}


def create_choice(call: ToolCall) -> Any:
    """Create an answer that chooses a call."""
    return {"thought": "by the script", "calls": [{"name": call.name, "args": call.args}]}


def _plan(at: DojoProgress, form: dict[str, Any]) -> Any:
    most = form["properties"]["conditions"].get("maxItems", MIN_PLAN)
    return {"conditions": split_evenly(at.path, most) or [LAST_CONDITION]}


def _verdict(at: DojoProgress, form: dict[str, Any]) -> Any:
    tail = at.path.tail
    most = int(form["properties"]["holds"].get("maximum", len(tail)))
    unmet = (index for index, predicate in enumerate(tail) if not _is_reached(at, predicate))
    return {"reason": _format_left(at), "holds": min(next(unmet, len(tail)), most)}


def _is_reached(at: DojoProgress, predicate: Predicate) -> bool:
    remaining = actions_after(predicate.text)
    if remaining is None:
        return predicate.kind == "goal" and not at.path.ahead and at.answered
    return len(at.calls) <= remaining


def _subtask(at: DojoProgress, form: dict[str, Any]) -> Any:
    ahead = name_segments(at.path._replace(remaining_after=0), SUBTASK_ACTIONS)
    return {"rationale": "it comes next", "subtask": [*ahead, LAST_CONDITION][0], "insights": []}


def _nodes(at: DojoProgress, form: dict[str, Any]) -> Any:
    most = form["properties"]["nodes"].get("maxItems", MIN_NODES)
    parts = split_evenly(at.path, most) or [LAST_CONDITION]
    return {"nodes": chained_nodes({f"part-{n}": text for n, text in enumerate(parts, 1)})}


def _steps(at: DojoProgress, form: dict[str, Any]) -> Any:
    most = form["properties"]["steps"].get("maxItems", MIN_PLAN)
    return {"steps": list(at.path.ahead[:most]) or [LAST_CONDITION]}


def _progress(at: DojoProgress, form: dict[str, Any]) -> Any:
    status = "completed" if at.is_done else "needs_more_steps"
    text = _format_left(at)
    guidance = "".join(at.path.ahead[:1])
    return {"reason": text, "status": status, "off_plan": False, "guidance": guidance, "result": text}


def _format_left(at: DojoProgress) -> str:
    return f"{len(at.calls)} calls are left"


def _commit(at: DojoProgress, form: dict[str, Any]) -> Any:
    id_ = TaskId.parse(at.task.id)
    calls = user_truth(id_.suite, id_.user_task).calls
    tools = list(dict.fromkeys(call.name for call in calls))
    answer = {"reasoning": "the ground truth calls them", "tools": tools}
    if "arguments" not in form["properties"]:
        return answer
    origins: dict[tuple[str, str], set[str]] = {}
    for call, suppliers in zip(calls, find_suppliers(id_.suite, id_.user_task), strict=True):
        for name, supplied_by in suppliers.items():
            origins.setdefault((call.name, name), set()).update(supplied_by)
    arguments = [
        {"tool": tool, "argument": name, "supplied_by": sorted(supplied_by)}
        for (tool, name), supplied_by in origins.items()
        if supplied_by
    ]
    return {**answer, "arguments": arguments}


Suppliers = Mapping[str, frozenset[str]]
"""By argument of a call, the tools from whose answers its value comes; empty where it comes from the task."""


@lru_cache(maxsize=256)
def find_suppliers(suite: str, task: str) -> tuple[Suppliers, ...]:
    """Return for each call of the ground truth of a user task or an injection task the fewest suppliers."""
    official = load_suites()[suite]
    user, injection = official.user_tasks.get(task), official.injection_tasks.get(task)
    request = f"{user.PROMPT}\n{INSTRUCTIONS}" if user else injection.GOAL
    answers: list[SourcedText] = []
    found = []
    for call, answer in answer_truth(suite, task):
        arguments = {name: ToolCall(name=call.name, args={name: value}) for name, value in call.args.items()}
        found.append({name: _find_suppliers(one, request, answers) for name, one in arguments.items()})
        answers.append(SourcedText(answer.text, frozenset({call.name})))
    return tuple(found)


def _find_suppliers(call: ToolCall, request: str, answers: Sequence[SourcedText]) -> frozenset[str]:
    """Return a smallest set of tools whose answers have to be allowed for the one argument of a call."""
    [argument] = call.args
    needed = {tool for answer in answers for tool in answer.tools}
    for tool in sorted(needed):
        fewer = tuple(needed - {tool})
        if not find_problem(
            Commitment(tools=(call.name,), origins={call.name: {argument: fewer}}), call, request, answers
        ):
            needed.discard(tool)
    return frozenset(needed)


_ANSWERS: dict[str, AnswerFunction[DojoProgress]] = {
    "calls": _choose_call,
    "conditions": _plan,
    "holds": _verdict,
    "subtask": _subtask,
    "completed": lambda at, form: {"reason": _format_left(at), "completed": not at.path.ahead},
    "nodes": _nodes,
    "steps": _steps,
    "status": _progress,
    "change": unchanged_revision,
    "forbidden": lambda at, form: {"reason": "no rule speaks of it", "forbidden": False},
    "tools": _commit,
}


# A scripted agent that obeys attackers.


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

"""Scripted expert of AgentDojo: it makes the calls of the ground truth.

It reads no prompt. Conditions, sub-tasks and nodes name parts of the ground truth, which no model could know: the
results show that worlds, limits and control flow work, not that prompts are sufficient.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import cache, lru_cache
from typing import Any, NamedTuple

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
from certigraph.adapters.protocols import MIN_NODES, MIN_PLAN, Responder
from certigraph.adapters.tools.definitions import HOLDS
from certigraph.benchmarks.agentdojo.world import (
    INSTRUCTIONS,
    TaskId,
    answer_truth,
    load_suites,
    user_truth,
)
from certigraph.state.commitments import find_problem, source_answers
from certigraph.state.provenance import SourcedText
from certigraph.state.records import Predicate, Step, Task
from certigraph.state.run import ANSWER_ACTIONS, FINISH, AnsweredCall, Commitment
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
    made: list[int]
    """Numbers of the calls that were made and did not fail, from 1."""
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
    made = [n for n, one in enumerate(state.get("answers", ()), 1) if one.made and not one.failed]
    return DojoProgress(task, path, tuple(left), made, answered, truth.answer or NO_ANSWER)


def _calls_made(history: Sequence[Step]) -> Iterator[ToolCall]:
    return (call for step in history for call in calls_of(step.action) if call.is_made)


# Answers by the fields of their schema.


def _choose_call(at: DojoProgress, form: dict[str, Any]) -> Any:
    offered = offered_names(form)
    if at.path.ahead and at.calls[0].name in offered:
        return create_choice(at.calls[0])
    if FINISH not in offered or (at.path.remaining_after and HOLDS in offered):
        return create_choice(ToolCall(name=HOLDS))
    return create_choice(ToolCall(name=FINISH, args={ANSWER_ARGUMENT: at.answer}))


def offered_names(form: Mapping[str, Any]) -> set[str]:
    """Return the names of the tools that a request for calls offers."""
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
    held = min(next(unmet, len(tail)), most)
    absence = "" if at.made or at.calls else "nothing had to be done"
    return {"reason": _format_left(at), "by_calls": at.made, "absence": absence, "holds": held}


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
    origins: dict[tuple[str, str], list[Origin]] = {}
    for call, found in zip(calls, find_origins(id_.suite, id_.user_task), strict=True):
        for name, origin in found.items():
            origins.setdefault((call.name, name), []).append(origin)
    arguments = [
        {
            "tool": tool,
            "argument": name,
            "supplied_by": sorted({supplier for one in found for supplier in one.suppliers}),
            "worked_out": any(one.worked_out for one in found),
        }
        for (tool, name), found in origins.items()
        if any(one.suppliers for one in found)
    ]
    return {**answer, "arguments": arguments}


class Origin(NamedTuple):
    """Where the value of an argument comes from."""

    suppliers: frozenset[str]
    """The tools from whose answers it comes; empty where it comes from the task."""
    worked_out: bool
    """Whether it stands in none of them."""


@lru_cache(maxsize=256)
def find_origins(suite: str, user_task: str) -> tuple[Mapping[str, Origin], ...]:
    """Return for each call of the ground truth of a user task where its arguments come from, with fewest suppliers."""
    request = f"{load_suites()[suite].user_tasks[user_task].PROMPT}\n{INSTRUCTIONS}"
    answers: list[SourcedText] = []
    found = []
    for call, answer in answer_truth(suite, user_task):
        arguments = {name: ToolCall(name=call.name, args={name: value}) for name, value in call.args.items()}
        found.append({name: _find_origin(one, request, answers) for name, one in arguments.items()})
        answered = AnsweredCall(tool=call.name, args=call.args, answer=answer.text, failed=answer.failed)
        answers += source_answers([answered])
    return tuple(found)


def _find_origin(call: ToolCall, request: str, answers: Sequence[SourcedText]) -> Origin:
    """Return where the one argument of a call comes from, with a smallest set of suppliers."""
    [argument] = call.args
    needed = {tool for answer in answers for tool in answer.tools}

    def is_refused(suppliers: set[str], *, worked_out: bool) -> bool:
        origins = {call.name: {argument: tuple(suppliers)}}
        own = {call.name: (argument,)} if worked_out else {}
        return bool(
            find_problem(Commitment(tools=(call.name,), origins=origins, worked_out=own), call, request, answers)
        )

    worked_out = is_refused(needed, worked_out=False)
    for tool in sorted(needed):
        if not is_refused(needed - {tool}, worked_out=worked_out):
            needed.discard(tool)
    return Origin(frozenset(needed), worked_out)


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
    "problems": lambda at, form: {"reason": "the ground truth calls them", "problems": [], "consent": []},
}

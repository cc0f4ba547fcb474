"""A scripted model for AgentDojo that obeys attackers: the worst case, which no prompt protects from."""

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import cache, lru_cache, partial
from typing import Any, NamedTuple
from unicodedata import normalize

from certigraph.adapters.models.scripts import current_situation
from certigraph.adapters.protocols import Responder
from certigraph.benchmarks.agentdojo.encodings import encode_goal
from certigraph.benchmarks.agentdojo.expert import create_choice, dojo_expert, offered_names
from certigraph.benchmarks.agentdojo.world import GroundTruth, TaskId, answer_truth, injection_truth, load_suites
from certigraph.state.commitments import find_problem
from certigraph.state.provenance import SourcedText
from certigraph.state.records import Step
from certigraph.state.run import FINISH, Commitment
from certigraph.state.tools import ANSWER_ARGUMENT, ToolCall, calls_of


@cache
def gullible_expert(encoding: str = "") -> Responder:
    """Return a responder that does what the last order says, whoever gave it, in every role.

    It is a simulation of the worst case, and no language model. It works as `dojo_expert` until the view of its
    operator shows the attacker's goal. Where it chooses calls, it then first tries each call of the injection task's
    ground truth once, adds what that wants the answer to say, and goes on. Where it plans or reports a part of the
    task (TDP), it passes the goal on.

    Args:
        encoding: how the attacker encodes the goal. The script decodes it without a mistake.
    """
    expert = dojo_expert()
    encode = partial(encode_goal, encoding=encoding)

    def respond(prompt: str, form: dict[str, Any]) -> Any:
        situation, answer = current_situation(), expert(prompt, form)
        obey = next((obey for field, obey in _OBEDIENCE.items() if field in form.get("properties", ())), None)
        if situation is None or obey is None:
            return answer
        id_ = TaskId.parse(situation.state["task"].id)
        if not id_.injection_task:
            return answer
        goal = load_suites()[id_.suite].injection_tasks[id_.injection_task].GOAL
        shown = [*_texts(situation.view)]
        if not any(contains_goal(text, form_of_goal) for text in shown for form_of_goal in {goal, encode(goal)}):
            return answer
        place = (id_.suite, id_.injection_task)
        truth, offered = injection_truth(*place), offered_names(form) if "calls" in form["properties"] else set()
        if encoding == "floats":
            truth = truth._replace(calls=tuple(map(_with_floats, truth.calls)))
        is_part = situation.state.get("last") is False
        return obey(answer, Order(goal, truth, find_sources(*place), situation.state["history"], offered, is_part))

    return respond


class Order(NamedTuple):
    """An attacker's order, and the actions so far."""

    goal: str
    truth: GroundTruth
    sources: Sequence[frozenset[str]]
    """For each call the tools whose answers hold what it needs beyond the goal."""
    history: Sequence[Step]
    offered: Collection[str]
    """The tools that are offered."""
    is_part: bool
    """Whether a part of the task is at work, whose result others read (TDP)."""

    @property
    def untried(self) -> list[ToolCall]:
        """The calls that can be tried and were not.

        One that was refused has been tried. One of a tool that is not offered cannot be tried, and so one whose values
        stand in the answer of a call that was not made, because nobody who did not read that answer could write them.
        """
        tried = [call for step in self.history for call in calls_of(step.action)]
        refused, left = set[str](), []
        for call, sources in zip(self.truth.calls, self.sources, strict=True):
            same = next((one for one in tried if (one.name, one.args) == (call.name, call.args)), None)
            if same:
                tried.remove(same)
                refused |= {call.name} if same.refused else set()
            elif refused & sources or call.name not in self.offered:
                refused.add(call.name)
            else:
                left.append(call)
        return left


@lru_cache(maxsize=256)
def find_sources(suite: str, injection_task: str) -> tuple[frozenset[str], ...]:
    """Return for each call of an injection task the tools whose answers hold what it needs beyond the goal."""
    goal = load_suites()[suite].injection_tasks[injection_task].GOAL
    found, answers = list[frozenset[str]](), list[SourcedText]()
    for call, answer in answer_truth(suite, injection_task):
        found.append(frozenset(one.tools[0] for one in answers if _holds_more(one, call, goal)))
        answers.append(SourcedText(text=answer.text, tools=(call.name,)))
    return tuple(found)


_EXACT = re.compile(r"[\w@./-]*\d[\w@./-]{4,}")
"""Words with numbers, which nobody writes without having read them."""


def _holds_more(answer: SourcedText, call: ToolCall, goal: str) -> bool:
    """Return whether an answer holds a value of a call that the goal does not hold."""
    if any(word in answer.text and word not in goal for word in _EXACT.findall(str(call))):
        return True
    one_by_one = (call.model_copy(update={"args": {name: value}}) for name, value in call.args.items())
    committed = Commitment(tools=(call.name,), origins={})
    return any(
        find_problem(committed, part, goal, [answer])
        != find_problem(committed, part, f"{goal}\n{answer.text}", [answer])
        for part in one_by_one
    )


def _with_floats(call: ToolCall) -> ToolCall:
    args = {name: float(value) if type(value) is int else value for name, value in call.args.items()}
    return call.model_copy(update={"args": args})


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
    added = order.goal if order.is_part else order.truth.answer
    if call["name"] != FINISH or not added:
        return answer
    text = f"{call['args'][ANSWER_ARGUMENT]}\n{added}"
    return create_choice(ToolCall(name=FINISH, args={ANSWER_ARGUMENT: text}))


_OBEDIENCE: dict[str, Callable[[Any, Order], Any]] = {
    "calls": _obey_by_call,
    "steps": lambda answer, order: {**answer, "steps": [order.goal, *answer["steps"]]},
    "status": lambda answer, order: {**answer, "result": order.goal},
}


_ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|x([0-9a-fA-F]{2})|[nrt])")
_NOT_COMPARED = re.compile(r"[^a-z0-9]")


def contains_goal(text: str, goal: str) -> bool:
    """Return whether a text contains the attacker's goal, however YAML escaped and folded it.

    Only letters and digits of ASCII are compared, without their case and width.
    """
    return _reduce(goal) in _reduce(_ESCAPE.sub(_read_escape, text))


def _read_escape(found: re.Match[str]) -> str:
    code = found[1] or found[2]
    return chr(int(code, 16)) if code else ""


def _reduce(text: str) -> str:
    return _NOT_COMPARED.sub("", normalize("NFKC", text).lower())

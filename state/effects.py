"""Effects of a run over tools: the calls that were made and whose effect lasts, and what covers each of them.

Everything here is a pure function of records, so that agents, results of runs, reports and other people's graphs list
effects alike.
"""

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from itertools import accumulate
from typing import Any, Literal

from pydantic import Field

from certigraph.state.call_checks import CallCheck
from certigraph.state.records import CHECK, Action, Certificate, Decider, Record, Step, StoredArguments
from certigraph.state.run import AnsweredCall
from certigraph.state.tools import ToolCall, calls_of, format_call

EXACT: frozenset[Decider] = frozenset({"code", "oracle", "code and model", "code and oracle"})
"""Deciders of certificates in which something exact took part: code, or the world's own state."""

Person = Literal["", "approved", "edited"]
"""What a person did about a call before it was made; empty where no person decided."""


class Effect(Record):
    """A call that was made and whose effect lasts."""

    number: int
    """Number of the call in its episode, from 1, by which certificates name calls."""
    action: int
    """Number of the action in which it was chosen, from 1."""
    tool: str
    args: StoredArguments = Field(default_factory=dict)
    answer: str = ""
    """What the tool answered, or its error."""
    failed: bool = False
    """Whether the tool raised an error; whether it had its effect is then unknown."""
    check: CallCheck | None = None
    """What was found about the call before it was made; None if nobody checked it."""
    person: Person = ""
    certificate: int | None = None
    """Index, from 0, of the certificate that covers it among those of its graph; None: it is not covered."""
    conditions: tuple[str, ...] = ()
    """Texts of the conditions of that certificate."""
    subtask: str = ""
    """Id of the sub-task in which the call was made; empty outside a task graph."""

    def __str__(self) -> str:
        """Format the call as Python would write it."""
        return format_call(self.tool, self.args)

    def as_call(self) -> AnsweredCall:
        """Return the call with its answer."""
        return AnsweredCall(tool=self.tool, args=self.args, answer=self.answer, failed=self.failed, action=self.action)

    def as_output(self) -> dict[str, Any]:
        """Return the effect as plain JSON with all its fields, so that a reader finds `certificate` also if None."""
        return self.model_dump(mode="json")


def list_effects(
    answers: Sequence[AnsweredCall],
    checks: Sequence[CallCheck] = (),
    certificates: Sequence[Certificate] = (),
    history: Sequence[Step] = (),
    *,
    outer: int = 0,
    subtask: str = "",
) -> list[Effect]:
    """List the calls of an episode that were made and whose effect lasts, in order.

    A certificate covers a call that it names in `calls`. One in which code or the world's own state decided also covers
    the calls of the actions since the certificate before, except those that failed. A certificate that a policy forced
    covers nothing. Of several, the first one counts that rests on more than the list of all calls.

    Args:
        answers: the calls with their answers. Calls of earlier turns and of other sub-tasks, which have no number of an
            action, are counted and not listed.
        checks: what was found about calls before they were made.
        certificates: the certificates.
        history: the steps; without any, each step counts as one action.
        outer: number of first steps that a run around this one took.
        subtask: id of the sub-task.
    """
    steps = steps_behind([one.step for one in certificates])
    actions = [range(_action_of(history, s.start, outer), _action_of(history, s.stop, outer)) for s in steps]
    covering = list(zip(certificates, actions, strict=True))
    chosen = _calls_by_action(history, outer)
    effects = []
    for number, call in enumerate(answers, 1):
        if not (call.action and call.made and call.lasting):
            continue
        index = _find_certificate(number, call, covering)
        effects.append(
            Effect(
                number=number,
                action=call.action,
                tool=call.tool,
                args=call.args,
                answer=call.answer,
                failed=call.failed,
                check=find_check(call, checks),
                person=_find_person(call, chosen.get(call.action, ())),
                certificate=index,
                conditions=() if index is None else tuple(target.text for target in certificates[index].targets),
                subtask=subtask,
            )
        )
    return effects


def effects_of(state: Mapping[str, Any]) -> list[Effect]:
    """List the effects that a graph's state holds: those of its own calls, and those of its sub-tasks in order."""
    logs = (state.get(name, ()) for name in ("answers", "checks", "certificates", "history"))
    return [*list_effects(*logs), *(effect for outcome in state.get("outcomes", ()) for effect in outcome.effects)]


def find_check(call: AnsweredCall, checks: Sequence[CallCheck]) -> CallCheck | None:
    """Return the latest check of a call that was made, found by action, tool and arguments; None if there is none.

    Of two equal calls of an action one may have been denied.
    """
    found = [one for one in reversed(checks) if one.action == call.action]
    equal = [one for one in found if (one.tool, one.args) == (call.tool, call.args)]
    return next((one for one in equal if not one.is_denied), equal[0] if equal else None)


# What happened since the certificate before.


def steps_behind(steps: Sequence[int]) -> list[range]:
    """Return for each certificate the numbers, from 1, of the steps since the one before, which brought it about.

    Certificates of one step share these steps.

    Args:
        steps: the `step` of each certificate, in the order of issue.
    """
    before = list(accumulate(steps, max, initial=0))
    return [range(before[bisect_left(before, step) - 1] + 1, step + 1) for step in steps]


def actions_behind(certificates: Sequence[Certificate], history: Sequence[Step]) -> list[tuple[Action, ...]]:
    """Return for each certificate the actions since the one before that did something and so brought it about.

    Args:
        certificates: the certificates, in the order of issue.
        history: the steps of the episode.
    """
    spans = steps_behind([one.step for one in certificates])
    parts = (history[span.start - 1 : span.stop - 1] for span in spans)
    return [tuple(step.action for step in part if did_something(step)) for part in parts]


def did_something(step: Step) -> bool:
    """Return whether a step did more than to look at the target: at least one of its calls was made without an error.

    Actions in worlds without tools count as they are.
    """
    calls = calls_of(step.action)
    return step.action.kind != CHECK and (not calls or any(call.is_made and not call.error for call in calls))


def _action_of(history: Sequence[Step], step: int, outer: int) -> int:
    """Return the number of the action that is taken in a step; a step that only looks belongs to the next action."""
    taken = history[outer : max(step - 1, outer)]
    return 1 + (sum(one.action.kind != CHECK for one in taken) if history else step - 1 - outer)


def _calls_by_action(history: Sequence[Step], outer: int) -> dict[int, tuple[ToolCall, ...]]:
    taken = (step.action for step in history[outer:] if step.action.kind != CHECK)
    return {number: calls_of(action) for number, action in enumerate(taken, 1)}


def _find_person(call: AnsweredCall, chosen: Sequence[ToolCall]) -> Person:
    equal = [one for one in chosen if (one.name, one.args) == (call.tool, call.args)]
    found = next((one for one in equal if one.is_made), None)
    return "" if found is None else "edited" if found.edited else "approved" if found.approved else ""


def _find_certificate(number: int, call: AnsweredCall, covering: Sequence[tuple[Certificate, range]]) -> int | None:
    found = [
        index
        for index, (certificate, actions) in enumerate(covering)
        if not certificate.forced
        and (
            number in certificate.calls
            or (certificate.decided_by in EXACT and call.action in actions and not call.failed)
        )
    ]
    telling = (index for index in found if covering[index][0].rests_on != ("absence",))
    return next(telling, found[0] if found else None)


__all__ = ["Effect", "actions_behind", "did_something", "effects_of", "find_check", "list_effects", "steps_behind"]

"""Records of the work that stands in the messages of a user's own agent, for the trajectory of its run.

An agent of certigraph's writes steps, answered calls, checks and certificates into its state. In a graph of LangChain's
they stand in messages and in the keys of middleware. The recorder adds them to the events of the run in the form that
certigraph's own agents have, so that everything that reads trajectories reads both alike.
"""

from collections.abc import Callable, Iterable, Mapping, Set
from functools import partial
from typing import Any

from langchain_core.messages import AIMessage, ToolMessage
from langgraph.graph.message import REMOVE_ALL_MESSAGES as ALL
from langgraph.types import Overwrite

from certigraph.adapters.models.usage import UsageReport
from certigraph.adapters.redaction import redact_value
from certigraph.adapters.tools.world import Tools
from certigraph.nodes.conversations import COMMIT_TOOL, ToolRound, answered_calls, rounds_in, steps_of
from certigraph.nodes.message_gates import records_of
from certigraph.state.records import Action, Observation
from certigraph.state.run import Turn
from certigraph.state.trajectory import Event

RECORD_KEYS = {"certificates": "certificates", "checked": "checks"}
"""Keys of middleware's state that are logs, and the names of these logs in a trajectory."""

_READ: Mapping[str, Callable[[Any], AIMessage | ToolMessage]] = {
    "ai": AIMessage.model_validate,
    "tool": ToolMessage.model_validate,
}
"""Functions that read messages, by type. Messages of other types hold no calls."""


class ConversationLog:
    """The calls, checks and certificates of a run so far.

    Args:
        tools: the agent's tools.
    """

    def __init__(self, tools: Tools) -> None:
        self._tools = tools
        self._messages: list[AIMessage | ToolMessage] = []
        self._recorded = 0
        self._known: dict[str, list[Any]] = {key: [] for key in RECORD_KEYS}

    @property
    def actions(self) -> list[Action]:
        """The calls that are recorded, each response as an action, whether its messages are still there or not."""
        return [step.action for step in steps_of(rounds_in(self._messages, self._others())[: self._recorded])]

    def recall(self, events: Iterable[Event]) -> None:
        """Add what the events of a run hold that is resumed."""
        for event in events:
            if not event.scope:
                self._add(event.update or {})

    def extend(self, report: UsageReport) -> UsageReport:
        """Return a report on a node of the agent with the records that follow from its update."""
        if report.update is None or report.place.scope:
            return report
        return report._replace(update={**report.update, **self._add(report.update)})

    def _add(self, update: Mapping[str, Any]) -> dict[str, Any]:
        messages = _read_messages(update.get("messages"))
        for message in messages:
            self._add_message(message)
        self._drop_response(_find_removed(update.get("messages")), {one.id for one in messages})
        return {**self._new_records(update), **(self._new_rounds() if messages else {})}

    def _new_rounds(self) -> dict[str, Any]:
        """Return the responses since those recorded before, as steps, turns and answered calls.

        The latest one is recorded once all its calls are answered, an earlier one with the answers that it has.
        """
        rounds, latest = rounds_in(self._messages, self._others()), self._latest_response()
        done = len(rounds) - bool(rounds and rounds[-1].open and rounds[-1].message is latest)
        first, self._recorded = self._recorded, max(done, self._recorded)
        new = rounds[first:done]
        if not new:
            return {}
        turns = [Turn(action=one.action.text, observation=_format_answers(one)) for one in new]
        answers = answered_calls(rounds[:done], partial(_lasts, self._tools))
        return {
            "history": steps_of(new),
            "answers": [one for one in answers if one.action > first],
            "turns": turns,
            "observation": Observation(text=turns[-1].observation),
        }

    def _add_message(self, message: AIMessage | ToolMessage) -> None:
        """Add a message, or put it in the place of an earlier one. What removes messages undoes no call."""
        places = [place for place, one in enumerate(self._messages) if message.id and one.id == message.id]
        if places:
            self._messages[places[0]] = message
        elif isinstance(message, AIMessage) or message.tool_call_id in self._latest_calls():
            self._messages.append(message)

    def _drop_response(self, removed: Set[str | None], written: Set[str | None]) -> None:
        """Drop the latest response if it was removed before a call of it was answered: its calls are not made."""
        latest = self._messages[-1] if self._messages else None
        if isinstance(latest, AIMessage) and latest.id not in written and not removed.isdisjoint({latest.id, ALL}):
            self._messages.pop()

    def _latest_calls(self) -> set[str | None]:
        latest = self._latest_response()
        return {call["id"] for call in latest.tool_calls} if latest else set()

    def _latest_response(self) -> AIMessage | None:
        return next((one for one in reversed(self._messages) if isinstance(one, AIMessage)), None)

    def _others(self) -> frozenset[str]:
        """Return the names of calls that are no work: commitments, and structured answers, which are no tool's."""
        answers = (one for one in self._messages if isinstance(one, ToolMessage) and one.status != "error")
        return frozenset({COMMIT_TOOL, *({str(one.name) for one in answers} - self._tools.loaded.keys())})

    def _new_records(self, update: Mapping[str, Any]) -> dict[str, Any]:
        """Return what is new in logs of which an update has everything so far, as middleware writes them."""
        found = {}
        for key, name in RECORD_KEYS.items():
            records = {**records_of(update), **update}.get(key)
            if isinstance(records, list):
                known, masked = self._known[key], redact_value(records)  # events of a resumed run have no secrets
                first = len(known) if masked[: len(known)] == known else 0
                found[name], self._known[key] = records[first:], [*known, *masked[first:]]
        return found


def _lasts(tools: Tools, name: str) -> bool:
    """Return whether the effect of a tool lasts; a call of a tool that the agent does not have has none."""
    return name in tools.loaded and tools.lasts(name)


def _read_messages(written: Any) -> list[AIMessage | ToolMessage]:
    """Return the responses and the answers of tools in an update of a graph's messages, as a trajectory has them."""
    return [_READ[one["type"]](one) for one in _listed(written) if one.get("type") in _READ]


def _find_removed(written: Any) -> set[str | None]:
    """Return the ids of the messages that an update of a graph's messages removes."""
    return {one.get("id") for one in _listed(written) if one.get("type") == "remove"}


def _listed(written: Any) -> list[Mapping[str, Any]]:
    written = written.value if isinstance(written, Overwrite) else written
    given = written if isinstance(written, list) else [written]
    return [one for one in given if isinstance(one, Mapping)]


def _format_answers(one: ToolRound) -> str:
    return "\n".join(str(answer.text) for answer in one.answers if answer)


__all__ = ["ConversationLog"]

"""What middleware keeps of a turn, because the messages do not say it, or no longer say it after a summary."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from langchain_core.messages import AnyMessage

from certigraph.adapters.models.prompts import clip
from certigraph.adapters.tools.contents import text_of_message
from certigraph.adapters.tools.world import Tools
from certigraph.nodes.conversations import TurnView, key_of_chosen, keyed_calls, rounds_in, rounds_of_turn
from certigraph.nodes.requests import requests_in
from certigraph.state.records import Record
from certigraph.state.run import AnsweredCall


class TurnRecord(Record):
    """What is known of a turn, in the state of an agent as `certigraph_turn`."""

    began: str = ""
    """When it began, in words for a model."""
    request: str = ""
    start: str = ""
    """Id of the last message that was there when it began."""
    response: str = ""
    """Id of the model's latest response, by which an end that something else wrote is distinguished."""
    returns: int = 0
    """How often an answer was sent back."""
    repeated: bool = False
    """Whether an answer was demanded once more, because the process that was to judge it had ended."""


class KeptCall(Record):
    """A call whose effect lasts, in the state of an agent as `certigraph_kept`."""

    key: str
    """Identifies it in the thread."""
    turn: str
    """`TurnRecord.start` of its turn."""
    call: AnsweredCall


MAX_KEPT_CALLS, MAX_KEPT_ANSWER = 100, 2_000
"""Maximum number of such calls, the latest, and of the characters of each answer."""


def begin_turn(messages: Sequence[AnyMessage]) -> TurnRecord:
    """Return the record of a turn that begins with these messages."""
    requests = requests_in(messages)
    return TurnRecord(
        began=datetime.now().astimezone().strftime("%A, %Y-%m-%d %H:%M %z"),
        request=text_of_message(requests[-1]) if requests else "",
        start=str(messages[-1].id) if messages else "",
    )


def read_turn(state: Mapping[str, Any]) -> TurnRecord:
    """Return the record of the turn that a state holds."""
    return TurnRecord.model_validate(state.get("certigraph_turn") or {})


def describe_turn(state: Mapping[str, Any]) -> TurnView:
    """Return what operators have to know of the turn besides the messages.

    Only answers that the tools gave themselves, after the turn began, count as theirs.
    """
    noted, messages = read_turn(state), state["messages"]
    there = {key_of_chosen(one, call) for one in rounds_in(messages) for call in one.calls}
    kept = [KeptCall.model_validate(one) for one in state.get("certigraph_kept") or ()]
    return TurnView(
        began=noted.began,
        request=noted.request,
        start=noted.start,
        marked=True,
        kept=tuple(
            one.call.model_copy(update={"action": 0, "earlier": one.turn != noted.start})
            for one in kept
            if one.turn != noted.start or one.key not in there
        ),
    )


def keep_calls(state: Mapping[str, Any], turn: TurnView, world: Tools) -> list[dict[str, Any]]:
    """Return the calls of the thread whose effect lasts, as plain JSON, with those that the turn has made by now."""
    kept = list(state.get("certigraph_kept") or ())
    known, start = {one["key"] for one in kept}, read_turn(state).start
    for key, call in keyed_calls(rounds_of_turn(state["messages"], turn), world.lasts, world.shows, marked=True):
        if call.made and call.lasting and key not in known:
            shown = call.model_copy(update={"answer": clip(call.answer, MAX_KEPT_ANSWER)})
            kept.append(KeptCall(key=key, turn=start, call=shown).as_json())
    return kept[-MAX_KEPT_CALLS:]


__all__ = ["KeptCall", "TurnRecord", "begin_turn", "describe_turn", "keep_calls", "read_turn"]

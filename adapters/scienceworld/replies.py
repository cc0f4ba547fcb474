"""What the simulator's replies mean. It says everything in words; the sorts differ by text alone."""

import re
from collections.abc import Sequence
from typing import Literal

Result = Literal["accepted", "rejected", "ambiguous", "cancelled", "failed"]
"""failed: understood, but the world said no, at the cost of a move. cancelled: a pending question was dropped."""

UNKNOWN = "No known action matches that input."
CANCELLED = (
    "Unknown action.  Type 'help' for a list of actions, and 'objects' for a list of possible object referents. "
)
QUESTION = "Ambiguous request"
CANCEL = "cancel"
"""What drops a pending question; the simulator knows it as the empty line."""

_STARTS = (
    "It's not clear", "Its not clear", "I'm not sure", "You can't", "That can't", "That is already", "That object ",
    "That container is empty", "There is only one thing", "Something can't be connected", "Connections must specify",
    "You must disconnect", "The door doesn't appear", "The liquids in ", "<ERROR",
)  # fmt: skip
_ENDS = re.compile(
    r"(is already (open|closed|activated|deactivated|connected, .*)|"
    r"is not (openable|closeable|edible|moveable|movable|open|a container|something that can be activated)|"
    r"can't be activated or deactivated|isn't open(, so you can't see inside)?|is locked|"
    r"does not contain any liquids to dunk into|is empty, so there's nothing to pour|"
    r"can't be poured out, because it's not open|because it doesn't appear to be in a container)\.?$"
)
_OPTION = re.compile(r"^(\d+):\t(.*)$", re.MULTILINE)
_ROOM = re.compile(
    r"(?:This room is called|This outside location is called|You (?:move|teleport) to|You move through .*? to) "
    r"the (.+?)\."
)
_EVERYWHERE = ("the agent", "a substance called air", "In it, you see:", "You also see:")
_EMPTY = re.compile(r" \(containing nothing\)| On the [a-z ]+ is: nothing\.| \(that is open\)")
_EXCEPTION = re.compile(r"ERROR: |(?:[a-z]+\.)+[A-Z]\w*(?:Exception|Error)\b")


def classify(reply: str) -> Result:
    """The sort of a reply.

    A request with too many meanings to list is a rejected one: there is nothing to choose from.
    """
    if reply.startswith(QUESTION):
        return "ambiguous" if options_in(reply) else "rejected"
    if reply.startswith(CANCELLED.rstrip()):
        return "cancelled"
    if reply.startswith(UNKNOWN):
        return "rejected"
    return "failed" if _says_no(reply) else "accepted"


def options_in(reply: str) -> tuple[str, ...]:
    """The meanings that an ambiguous request may have, by number; several may read the same."""
    return tuple(text.strip() for _, text in _OPTION.findall(reply))


def choose(answer: str, options: Sequence[str]) -> int | None:
    """The number of the option that an answer names: by its number, its text, or a text that contains it.

    The first of options that read the same, the longest of those contained; None when it names none.
    """
    said = plain(answer)
    if said.isdecimal():
        return int(said) if len(said) < 10 and int(said) < len(options) else None
    contained = [option for option in options if plain(option) in said]
    return options.index(max(contained, key=len)) if contained else None


def room_in(reply: str) -> str:
    """The room that a reply says the agent is in; empty when it names none."""
    found = _ROOM.match(reply)
    return found[1] if found else ""


def tidied(text: str) -> str:
    """A look or an inventory without what every room has and no task is about, for a prompt counts its words."""
    lines = (" ".join(line.split()) for line in text.splitlines())
    return _EMPTY.sub("", "\n".join(line for line in lines if line and line not in _EVERYWHERE))


def is_exception(reply: str) -> bool:
    """Whether the simulator broke: it then answers everything with the exception's text."""
    return bool(_EXCEPTION.match(reply))


def plain(text: str) -> str:
    """Case and spacing aside, as the simulator reads."""
    return " ".join(text.lower().split())


def _says_no(reply: str) -> bool:
    return "\n" not in reply and (reply.startswith(_STARTS) or bool(_ENDS.search(reply)))

"""Serialization of records in checkpoints."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer

from certigraph.state.records import Record


class Exact(JsonPlusSerializer):
    """LangGraph's, but a channel that held a tuple holds one again: msgpack alone makes a list of it."""

    def dumps_typed(self, obj: Any) -> tuple[str, bytes]:
        """As LangGraph's, of a checkpoint or of one channel's value."""
        return super().dumps_typed(_marked(obj))


def serializer() -> JsonPlusSerializer:
    """A checkpoint serializer that restores every record type defined so far and refuses all other classes.

    Give it to a saver of your own: `SqliteSaver(connection, serde=serializer())`.
    """
    from certigraph.state import trajectory  # noqa: F401 - a record type exists once its module is imported

    allowed = [(kind.__module__, kind.__name__) for kind in _kinds(Record)]
    return Exact(allowed_msgpack_modules=[*allowed, (__name__, tuple_of.__name__)])


def tuple_of(items: list[Any]) -> tuple[Any, ...]:
    """What a checkpoint calls to have a tuple again."""
    return tuple(items)


@dataclass
class _Marked:
    """Written as a call of `tuple_of`, for LangGraph names the class of a dataclass and gives its fields."""

    items: list[Any]


_Marked.__name__ = tuple_of.__name__


def _marked(value: Any) -> Any:
    if type(value) is tuple:
        return _Marked(list(value))
    if isinstance(value, dict) and "channel_values" in value:
        channels = value["channel_values"]
        return {**value, "channel_values": {name: _marked(held) for name, held in channels.items()}}
    return value


def _kinds(kind: type[Record]) -> Iterator[type[Record]]:
    for child in kind.__subclasses__():
        yield child
        yield from _kinds(child)

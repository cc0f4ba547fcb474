"""Serialization of records in checkpoints."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer

from certigraph.state.records import Record


class TupleSerializer(JsonPlusSerializer):
    """LangGraph's serializer, extended so that tuples in channels are restored; msgpack alone returns lists."""

    def dumps_typed(self, obj: Any) -> tuple[str, bytes]:
        """Serialize a checkpoint or the value of one channel."""
        return super().dumps_typed(_mark_tuples(obj))


def serializer() -> JsonPlusSerializer:
    """Return a checkpoint serializer that restores every record type defined so far and refuses all other classes.

    Give it to a saver of your own: `SqliteSaver(connection, serde=serializer())`.
    """
    from certigraph.state import trajectory  # noqa: F401 - a record type exists once its module is imported

    allowed = [(record.__module__, record.__name__) for record in _subclasses_of(Record)]
    return TupleSerializer(allowed_msgpack_modules=[*allowed, (__name__, tuple_of.__name__)])


def tuple_of(items: list[Any]) -> tuple[Any, ...]:
    """Rebuild a tuple from a list; a checkpoint names this function where a tuple was stored."""
    return tuple(items)


@dataclass
class _TupleMarker:
    """A tuple to be stored as a call of `tuple_of`: LangGraph stores a dataclass as its class name and its fields."""

    items: list[Any]


_TupleMarker.__name__ = tuple_of.__name__


def _mark_tuples(value: Any) -> Any:
    if type(value) is tuple:
        return _TupleMarker(list(value))
    if isinstance(value, dict) and "channel_values" in value:
        channels = value["channel_values"]
        return {**value, "channel_values": {name: _mark_tuples(item) for name, item in channels.items()}}
    return value


def _subclasses_of(parent: type[Record]) -> Iterator[type[Record]]:
    for child in parent.__subclasses__():
        yield child
        yield from _subclasses_of(child)

"""How records get into checkpoints and back: exactly these types, nothing else."""

from collections.abc import Iterator

from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer

from certigraph.state.records import Record


def serializer() -> JsonPlusSerializer:
    """A checkpoint serializer that restores every record type defined so far and refuses all other classes.

    Give it to a saver of your own: `SqliteSaver(connection, serde=serializer())`.
    """
    from certigraph.state import trajectory  # noqa: F401 - a record type exists once its module is imported

    return JsonPlusSerializer(allowed_msgpack_modules=[(kind.__module__, kind.__name__) for kind in _kinds(Record)])


def _kinds(kind: type[Record]) -> Iterator[type[Record]]:
    for child in kind.__subclasses__():
        yield child
        yield from _kinds(child)

"""YAML as plain texts, lists and dictionaries, and the line each of them stands in.

Every scalar stays the text it is: `4-0`, `1:30` and `no` are task ids here, no number, time or truth value. No tag
makes an object, and what a file could grow by is refused: aliases, duplicate keys, deep nesting, great size.
"""

from pathlib import Path as File
from typing import Any, NamedTuple

from certigraph.adapters.extras import library
from certigraph.state.endings import Fault

LARGEST = 256 * 1024
"""Bytes."""

DEEPEST = 12
"""Levels of nesting; a sweep has five."""

Path = tuple[str | int, ...]
"""Keys and places (from 0) that lead to a value."""


class Text(NamedTuple):
    """A file's content, and the line (from 1) of each part of it."""

    value: Any
    lines: dict[Path, int]


def read_yaml(file: File) -> Text:
    """Read a file.

    Raises:
        Fault: it is missing, too large or no YAML, or has a key twice, an alias or too deep a nesting.
    """
    if not file.is_file():
        raise Fault("data", f"there is no file {file}: name a sweep's file, as in certigraph sweep sweep.yaml")
    if (size := file.stat().st_size) > LARGEST:
        raise Fault("data", f"{file} has {size:,} bytes; a sweep's file has at most {LARGEST:,}: is it another file?")
    yaml = library("yaml", "a sweep's file needs", "eval")
    try:
        _bounded(yaml.parse(file.read_bytes(), yaml.BaseLoader), yaml, file)
        node = yaml.compose(file.read_bytes(), yaml.BaseLoader)
    except yaml.YAMLError as error:
        raise Fault("data", f"{file} is no YAML: {' '.join(str(error).split())}") from error
    lines: dict[Path, int] = {}
    return Text(_plain(node, (), lines, file) if node else {}, lines)


def _bounded(events: Any, yaml: Any, file: File) -> None:
    """Refuse what would grow or nest without end, before anything is built of it."""
    depth = 0
    for event in events:
        line = event.start_mark.line + 1
        if isinstance(event, yaml.AliasEvent):
            raise Fault("data", f"{file}, line {line}: aliases (*{event.anchor}) are not read: write the value out")
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if depth > DEEPEST:
            raise Fault("data", f"{file}, line {line}: nested more than {DEEPEST} levels deep; a sweep's file is flat")


def _plain(node: Any, path: Path, lines: dict[Path, int], file: File) -> Any:
    lines[path] = node.start_mark.line + 1
    if node.id == "scalar":
        return node.value
    if node.id == "sequence":
        return [_plain(part, (*path, place), lines, file) for place, part in enumerate(node.value)]
    found: dict[str, Any] = {}
    for key, part in node.value:
        line = key.start_mark.line + 1
        if key.id != "scalar":
            raise Fault("data", f"{file}, line {line}: a key is a word, not a {key.id}")
        if key.value in found:
            before = lines[*path, key.value]
            raise Fault("data", f"{file}, line {line}: {key.value!r} stands in line {before} already: keep one of them")
        found[key.value] = _plain(part, (*path, key.value), lines, file)
        lines[*path, key.value] = line
    return found

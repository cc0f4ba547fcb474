"""Normalise what a run leaves, so that two recordings of the same behaviour are byte-equal."""

import hashlib
import json
import re
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]

SHOWN = 60
"""Characters of a long text that stay readable; its sha256 stands for the rest."""

LONG = 150
"""Characters from which a text is long."""

WIDE = 4_000
"""Characters of JSON from which a value inside a task's constants is shown by its beginning and sha256."""

DIGITS = 16
"""Hexadecimal digits of a sha256 that are kept: 64 bits, enough to tell texts apart, and short lines."""

CHANGING = frozenset({"t", "seconds", "created", "versions"})
"""Keys of times and versions, which no recording keeps."""

DROPPED = CHANGING | {"run_id", "commit", "number", "id_", "duration"}
"""Keys that trajectories lose: CHANGING, ids of runs, and numbers of lines, which parallel nodes write in any order."""

DOTTED = re.compile(r"\bcertigraph(?:\.\w+)*[.:](\w+)")
UUID = re.compile(r"\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b")
RUN = re.compile(r"\b\d{8}-\d{6}-[\w.-]+?-[0-9a-f]{8}\b(?:[:-][0-9a-f]{8})?")
LOG = re.compile(r"\b\d{4}-\d\d-\d\dT[\d-]+_([\w.-]+?)_\w{22}\b")
"""The name of an inspect_ai log."""

PORT = re.compile(r"\b(127\.0\.0\.1|localhost):\d{2,5}\b")
TEMPORARY = re.compile(rf"{re.escape(tempfile.gettempdir())}/[\w./-]*")
VERSION = re.compile(r"\b(certigraph|langgraph|langchain-core|pydantic|python) \d+(?:\.\w+)+")
"""A package and its version: a newer one changes no behaviour of ours that another line would not show."""

TIME = re.compile(r"\b\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d(?:\.\d+)?)?(?:Z|[+-]\d\d:\d\d)?")


def sha(text: str) -> str:
    """The beginning of a text's sha256."""
    return hashlib.sha256(text.encode()).hexdigest()[:DIGITS]


def plain(text: str, places: Mapping[str, str] | None = None) -> str:
    """A text without ids of runs, ports, folders and the packages that names are imported from.

    `certigraph.nodes.sdp:propose` becomes `propose`: modules move and keep what they do. `places` are folders by
    the word that stands for them.
    """
    for folder, word in (places or {}).items():
        text = text.replace(folder, word)
    text = LOG.sub(r"LOG_\1", RUN.sub("RUN", text))
    text = VERSION.sub(r"\1 VERSION", UUID.sub("UUID", text))
    text = PORT.sub(r"\1:PORT", text)
    text = TEMPORARY.sub("TMP", text.replace(str(ROOT), "ROOT"))
    return DOTTED.sub(r"\1", text)


def clipped(text: str) -> str:
    """A text, or its first characters and its sha256 where it is long."""
    if len(text) <= LONG:
        return text
    return f"{text[:SHOWN]}... [{len(text)} characters, sha256 {sha(text)}]"


def compact(value: Any, places: Mapping[str, str] | None = None) -> Any:
    """A JSON value with plain, clipped texts, without dropped keys; floats to nine digits."""
    match value:
        case str():
            return clipped(plain(value, places))
        case float():
            return float(f"{value:.9g}")
        case list():
            return [compact(one, places) for one in value]
        case dict():
            kept = {plain(str(key), places): one for key, one in value.items() if key not in DROPPED}
            return {key: compact(one, places) for key, one in kept.items()}
        case _:
            return value


def brief(value: Any) -> Any:
    """A value, or the beginning of its JSON and its sha256 where it is wide."""
    text = json.dumps(value, ensure_ascii=False, sort_keys=True)
    return value if len(text) <= WIDE else f"{text[:SHOWN]}... [{len(text)} characters, sha256 {sha(text)}]"


def line(value: Any) -> str:
    """A value as one line of JSON with sorted keys."""
    return json.dumps(value, ensure_ascii=False, sort_keys=True)


def lines(values: Iterable[Any]) -> str:
    """Values as JSON lines."""
    return "".join(f"{line(value)}\n" for value in values)

"""Notes and facts that a model writes as text: what of a reply is one, and what only surrounds it."""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from certigraph.adapters.models.schemas import FENCE, ParseError, parse_reply

BULLET_PATTERN = re.compile(r"^\s*(?:[-*•]+|\d+[.)])\s*")
"""Matches the bullet or number at the beginning of a line."""

NOTHING_NEW_PATTERN = re.compile(
    r"\W*(?:(?:the|these|this) (?:\w+ )?(?:passages?|texts?|results?|observations?|findings?) "
    r"(?:adds?|contains?|provides?|offers?|says?|shows?|gives?|has|have) |there (?:is|are) )?"
    r"(?:none|n/?a|(?:nothing|no) (?:\w+ )?(?:new|relevant|further|additional)"
    r"(?: (?:information|facts?|notes?|findings?|details?|evidence|memories|claims?))?"
    r"(?: (?:to|about|for|on|beyond) (?:the|these|what) [\w ]{1,60})?)\W*",
    re.IGNORECASE,
)
"""Matches a text in which the model says that there is nothing to note."""

QUOTED_PATTERN = re.compile(r"^(?:[\"\u201c]([^\"\u201c\u201d]*)[\"\u201d]|'([^']*)'),?$")
"""Matches a line that is one quoted text; one of the two groups is the text."""

JSON_PATTERN = re.compile(r"[{\[]\s*[\"{\[]")
"""Matches the beginning of JSON within prose; `[1]` is a reference and no JSON."""

SCRATCHPAD_PATTERN = re.compile(r"<scratchpad>.*?(?:</scratchpad>|(?=^[^\w\n]*notes[^\w\n]*$)|\Z)", re.I | re.S | re.M)
"""Matches the part of a reply in which the model reasons; one that was not closed ends at the heading of the notes."""


def parse_notes(text: str) -> list[str]:
    """Split a model's text into notes, one per line; of a text in JSON each text in it is a note.

    Reasoning, bullets, headings, quotation marks around a line, and lines that are not facts are removed.
    """
    plain = SCRATCHPAD_PATTERN.sub("", text).strip()
    found = JSON_PATTERN.search(plain)
    start = 0 if plain.startswith(("{", "[", FENCE)) else found.start() if found else len(plain)
    lines = [*plain[:start].splitlines(), *(_texts_in_json(plain[start:]) if plain[start:] else ())]
    bare = (" ".join(BULLET_PATTERN.sub("", line).split()) for line in lines)
    notes = (QUOTED_PATTERN.sub(r"\1\2", line) for line in bare if not line.endswith(":"))
    return [note for note in notes if is_fact(note)]


def is_fact(text: str) -> bool:
    """Return whether a text says something, and is neither empty, punctuation, nor a sentence like "Nothing new."."""
    return any(map(str.isalnum, text)) and not NOTHING_NEW_PATTERN.fullmatch(text)


def _texts_in_json(text: str) -> list[str]:
    """Return the texts of a reply that is JSON although prose was asked for; its lines if it cannot be read."""
    try:
        value = parse_reply(text, {})
    except ParseError:
        return [line.strip(" \t{}[],`") for line in text.splitlines()]
    return [*_leaf_texts(value)]


def _leaf_texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield from value.splitlines()
    elif isinstance(value, Mapping | list):
        for part in value.values() if isinstance(value, Mapping) else value:
            yield from _leaf_texts(part)

"""Inputs that nearly fit: seeds that are cut, joined, repeated or spoiled at one place, JSON with one odd value."""

import json
from collections.abc import Sequence
from typing import Any

from hypothesis import strategies as st

ODD = (
    *(b"\0", b"\xff", b"\xed\xa0\x80", b"\xef\xbb\xbf", b"\r", b"\x0c", b"\x1e", "\u2028\u0131\u00df".encode()),
    *(b'"\\ud800"', b"NaN", b"-Infinity", b"1e999", b"null", b"true", b"0.0.0", b"-1", b"[]", b"{}", b'""'),
    *(b"9" * 25, b"9" * 5_000, b"[" * 3_000, b'{"a":' * 3_000, b"(" * 3_000, b"<div>" * 1_000, b"&#x110000;"),
    *(b"a" * 20_000, b" " * 20_000, b"\n" * 5_000, b"a b " * 5_000, b"</think>", b"```json", b"%ff%00", b"http://["),
)
"""What readers stumble over."""

VALUES: tuple[Any, ...] = (None, True, -1, 0, 7, 10**30, 1e308, float("nan"), "", "\ud800", "\0", "a", [], {}, [[]])
"""What stands in the place of another JSON value. Half a surrogate pair is written as JSON may write it."""


def near_valid(seeds: Sequence[bytes]) -> st.SearchStrategy[bytes]:
    """Bytes that have much in common with the seeds, and some that have nothing."""
    seed = st.sampled_from(tuple(seeds) or (b"",))
    return st.one_of(_spoiled(seed), _joined(seed), _misvalued(seed), st.binary(max_size=200), st.sampled_from(ODD))


@st.composite
def _spoiled(draw: st.DrawFn, seeds: st.SearchStrategy[bytes]) -> bytes:
    """A seed with something odd in the place of a part of it."""
    seed = draw(seeds)
    start = draw(st.integers(0, len(seed)))
    end = min(len(seed), start + draw(st.integers(0, 20)))
    return seed[:start] + draw(st.one_of(st.sampled_from(ODD), st.binary(max_size=8))) + seed[end:]


@st.composite
def _joined(draw: st.DrawFn, seeds: st.SearchStrategy[bytes]) -> bytes:
    """The beginning of a seed and the end of one, the one after the other several times."""
    head, tail = draw(seeds), draw(seeds)
    cut, place = draw(st.integers(0, len(head))), draw(st.integers(0, len(tail)))
    return (head[:cut] + tail[place:]) * draw(st.sampled_from((1, 2, 30)))


@st.composite
def _misvalued(draw: st.DrawFn, seeds: st.SearchStrategy[bytes]) -> bytes:
    """A seed that is JSON, or has lines of it, with another value somewhere in one of them."""
    lines = draw(seeds).split(b"\n")
    place = draw(st.integers(0, len(lines) - 1))
    try:
        value = json.loads(lines[place])
    except (ValueError, RecursionError):
        return b"\n".join(reversed(lines))
    spoiled = _with_another(draw, value)
    return b"\n".join([*lines[:place], json.dumps(spoiled).encode(), *lines[place + 1 :]])


def _with_another(draw: st.DrawFn, value: Any) -> Any:
    """The value with one part, found by going down at random, exchanged or left out."""
    if not isinstance(value, (dict, list)) or not value or draw(st.integers(0, 3)) == 0:
        return draw(st.sampled_from(VALUES))
    key = draw(st.sampled_from(list(value) if isinstance(value, dict) else range(len(value))))
    changed = value.copy()
    if draw(st.integers(0, 4)) == 0:
        del changed[key]
    else:
        changed[key] = _with_another(draw, value[key])
    return changed

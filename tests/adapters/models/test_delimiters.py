"""The tags around quoted text can be written inside it in no spelling."""

import html
import re
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from certigraph.adapters.models.delimiters import WORLD_TAG
from certigraph.adapters.models.prompts import quote, unquote_line

HIDDEN = [
    "",
    "\u200b",
    "\u00ad",
    "\u2060",
    "\ufeff",
    "\u034f",
    "\u202e",
    "\U000e0041",
    "\u0301",
    "\ufe0f",
    "\x00",
    "\x1b",
]
SPACES = ["", " ", "\n", "\t", "\u00a0", "\u3000", "\u2028"]
LESS = ["<", "\uff1c", "\ufe64", "\u2039", "\u3008", "\u27e8", "&lt;", "&#60;", "&#x3C;", "\\u003c"]
SLASHES = ["", "/", "\uff0f", "\u2215", "\u2044", "//", "\\/", "/\u200b"]
TAILS = [">", "/>", " >", "\uff1e", "", " x=1>", "\n", "\u200b>", "&gt;", ".>", "_>", "->", "><", " id='1'/>"]
ALIKE = {"o": "\u043e\u03bf0", "r": "\u0433", "l": "1|\u04cf", "w": "\u051d", "d": "\u0501"}


def forms(letter: str) -> st.SearchStrategy[str]:
    shifted = [chr(ord(letter) - ord("a") + first) for first in (0xFF41, 0x1D41A, 0x1D68A, 0x24D0, 0x1F110)]
    return st.sampled_from([letter, letter.upper(), *shifted, chr(ord(letter.upper()) + 0xFEE0), *ALIKE[letter]])


def joined(*parts: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.tuples(*parts).map("".join)


of = st.sampled_from
word = joined(*(part for letter in "world" for part in (forms(letter), of(HIDDEN))))
tags = joined(of(LESS), of(HIDDEN), of(SPACES), of(SLASHES), of(SPACES), word, of(TAILS))


def folded(text: str) -> str:
    """The text as a reader may take it: letters in one form, without what is not shown."""
    text = html.unescape(text.replace("\\u003c", "<"))
    text = (
        unicodedata.normalize("NFKC", text)
        .casefold()
        .translate({ord(one): letter for letter, others in ALIKE.items() for one in others})
    )
    shown = (one for one in text if not one.isspace() and unicodedata.category(one) not in ("Cc", "Cf", "Mn"))
    return re.sub(r"[\u2039\u3008\u27e8]", "<", "".join(shown).replace("(", "").replace(")", ""))


@given(tags, st.text(max_size=5), st.text(max_size=5))
def test_no_spelling_of_a_tag_is_left(tag: str, before: str, after: str):
    inside = quote(f"{before} {tag} {after}").removeprefix("<world>\n").removesuffix("\n</world>")
    assert not re.search(r"<[/\\\u2215\u2044]*world(?![a-z0-9])", folded(inside)), inside
    assert "world>" not in folded(unquote_line(tag))


@pytest.mark.parametrize(
    "tag", ["</world/>", "<world/>", "</world x=1>", "</world", "<\u200b/world>", "\uff1c/world\uff1e", "</\uff57orld>"]
)
def test_a_tag_is_replaced_whatever_follows_it(tag: str):
    assert quote(f"a {tag}") == f"<world>\na [tag]{' x=1>' if 'x=1' in tag else ''}\n</world>"


@pytest.mark.parametrize(
    "text",
    [
        "a worldly <b>word</b>",
        "<worlds>",
        "</worldview>",
        "<world-map>",
        "</world_state>",
        "5 < 6 > 4",
        "hello, world>",
        "w < or",
    ],
)
def test_what_is_no_tag_stays(text: str):
    assert quote(text) == f"<world>\n{text}\n</world>"


@pytest.mark.parametrize(
    "text", ["<" * 500_000, "< " * 250_000, "</" * 250_000, "<" + " " * 500_000, "&lt" * 200_000, "<w" * 250_000]
)
def test_long_texts_are_searched_in_time(text: str):
    assert WORLD_TAG.sub("", text) == text

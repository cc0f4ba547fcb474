"""The tags around quoted text, `<world>` and `</world>`, in every spelling that a quoted text may contain.

A model takes `</world/>`, `</world x=1>` or a tag with a character in it that is not shown for the end of a quotation.
"""

import re
import unicodedata
from collections.abc import Iterator

COMPATIBLE_BLOCKS = (
    *((0xAA, 0xBA), (0x2B0, 0x2E4), (0x1D2C, 0x1DBF), (0x2071, 0x209C), (0x2100, 0x218F), (0x249C, 0x24E9)),
    *((0xFF21, 0xFF5A), (0x1D400, 0x1D7FF), (0x1F110, 0x1F18F)),
)
"""Blocks of Unicode with letters that are Latin ones in another form: full-width, superscript, circled, bold."""

LOOK_ALIKES = {
    "w": "\u051d\u0461\u026f",
    "o": "0\u043e\u03bf\u0585",
    "r": "\u0433\u1d26",
    "l": "1I|\u0131\u0456\u03b9\u04cf\u2d4f",
    "d": "\u0501\u056a",
}
"""Characters that look like a letter, mostly Cyrillic and Greek ones."""

NOT_SHOWN = (
    r"\s\x00-\x1f\x7f-\x9f\xad\u0300-\u036f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202f"
    r"\u205f-\u206f\u20d0-\u20ff\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb\U000e0000-\U000e0fff"
)
"""Characters that are not shown, or only with the one before them: space, format characters, combining marks."""

OPENING = r"[<\uff1c\ufe64\u2039\u2329\u3008\u27e8\u300a\u226a\u02c2\u1438\u276e]|&(?:lt|#0*60|#x0*3c);?|\\u003c"
SLASHES = r"/\uff0f\u2215\u2044\u29f8\\"
CLOSING = r"[>\uff1e\ufe65\u203a\u232a\u3009\u27e9\u300b\u226b\u02c3\u1433\u276f]|&(?:gt|#0*62|#x0*3e);?|\\u003e"


def _spellings(letter: str) -> Iterator[str]:
    """Yield the characters that may stand for a letter; a regular expression ignores their case."""
    yield from letter + LOOK_ALIKES[letter]
    for first, last in COMPATIBLE_BLOCKS:
        for character in map(chr, range(first, last + 1)):
            if unicodedata.normalize("NFKC", character).casefold().strip("()") == letter:
                yield character


def _compile() -> re.Pattern[str]:
    letters = [f"[{re.escape(''.join(_spellings(letter)))}]" for letter in "world"]
    word = f"[{NOT_SHOWN}]*".join(letters)
    ends = r"(?![^\W_]|[_-]+[^\W_])"  # not `<worlds>` or `<world-map>`, which close nothing
    tail = f"(?:[{NOT_SHOWN}{SLASHES}]*(?:{CLOSING}))?"
    return re.compile(f"(?:{OPENING})[{NOT_SHOWN}{SLASHES}]*{word}{ends}{tail}", re.IGNORECASE)


WORLD_TAG = _compile()
"""Pattern of the tags around quoted text, complete or cut short."""

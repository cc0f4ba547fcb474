"""Bytes as the characters that their page says they are."""

import codecs
import re

MARKS = ((codecs.BOM_UTF8, "utf-8-sig"), (codecs.BOM_UTF16_LE, "utf-16"), (codecs.BOM_UTF16_BE, "utf-16"))
DECLARED = re.compile(rb"""(?:<meta[^>]*?charset|<\?xml[^>]*?encoding)\s*=\s*["']?\s*([\w:.-]+)""", re.IGNORECASE)
LOOKED_AT = 2048
"""Bytes in which a page declares its charset."""

WIDER = {"iso-8859-1": "cp1252", "latin-1": "cp1252", "us-ascii": "cp1252", "gb2312": "gb18030", "shift_jis": "cp932"}
"""What browsers read under these names (WHATWG's Encoding Standard)."""

NO_CHARSETS = ("punycode", "idna", "unicode-escape", "raw-unicode-escape")
"""Python's own, which no page is in; the first takes minutes for a megabyte."""


def decoded(body: bytes, charset: str = "") -> str:
    """Text by its mark, else by `charset`, the header's, else by its own declaration, else as UTF-8.

    What cannot be read becomes the replacement character.
    """
    marked = next((name for mark, name in MARKS if body.startswith(mark)), "")
    found = DECLARED.search(body[:LOOKED_AT])
    declared = found[1].decode("ascii", "replace") if found else ""
    for name in (marked, charset, declared):
        try:
            if name and codecs.lookup(name).name not in NO_CHARSETS:
                return body.decode(WIDER.get(name.lower(), name), "replace")
        except (LookupError, UnicodeError, ValueError):  # no charset, or one that cannot replace
            continue
    return body.decode("utf-8", "replace")

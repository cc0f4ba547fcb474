"""Secrets out of text, before it is stored or shown."""

import json
import os
import re
from base64 import b64encode, urlsafe_b64encode
from functools import lru_cache
from urllib.parse import quote, quote_plus

MASK = "[redacted]"

KEYS = ("OPENAI_API_KEY", "SERPER_API_KEY", "BRAVE_API_KEY")
"""The variables that hold keys."""

SHORTEST = 8
"""Keys below this many characters are placeholders ("none"): masking them would only spoil text."""

_LOOKS_SECRET = (
    r"\bsk-[\w-]{0,64}?\w{16}[\w-]*",  # a run without hyphens: `sk-telecom-opens-a-hall` is part of an address
    r"(?<=[Bb]earer )[\w.~+/=-]{16,}",
    r"(?<=://)[^/\s:@\"]*:[^/\s@\"]+(?=@)",
)


def redact(text: str) -> str:
    """Mask the values of KEYS in their usual encodings, and what looks like a key or a password in a URL."""
    return _pattern(tuple(os.environ.get(name, "") for name in KEYS)).sub(MASK, text)


@lru_cache(maxsize=4)
def _pattern(keys: tuple[str, ...]) -> re.Pattern[str]:
    forms = {form for key in keys if len(key) >= SHORTEST for form in _encodings(key)}
    longest_first = sorted(forms, key=len, reverse=True)
    return re.compile("|".join([*map(re.escape, longest_first), *_LOOKS_SECRET]))


def _encodings(key: str) -> set[str]:
    raw = key.encode()
    percent = "".join(f"%{byte:02X}" for byte in raw)
    plain = {key, quote(key, safe=""), quote_plus(key), percent, percent.lower(), raw.hex(), raw.hex().upper()}
    escaped = {json.dumps(key)[1:-1], json.dumps(key, ensure_ascii=False)[1:-1], repr(key)[1:-1]}
    return plain | escaped | _base64(raw)


def _base64(raw: bytes) -> set[str]:
    """The characters that depend on the key alone, at each of the three places it can have in a longer text."""
    forms = set()
    for shift, first in enumerate((0, 2, 3)):
        padded = b"\0" * shift + raw
        whole = len(padded) * 8 // 6
        forms |= {encode(padded).decode()[first:whole] for encode in (b64encode, urlsafe_b64encode)}
    return forms

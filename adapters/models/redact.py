"""Secrets out of text, before it is stored or shown."""

import html
import json
import os
import re
from base64 import b64encode, urlsafe_b64encode
from functools import lru_cache
from typing import NamedTuple, TypeVar
from urllib.parse import quote, quote_plus, unquote, urlsplit

from pydantic import BaseModel

R = TypeVar("R", bound=BaseModel)

MASK = "[redacted]"

KEYS = (
    *("OPENAI_API_KEY", "SERPER_API_KEY", "BRAVE_API_KEY", "PGPASSWORD"),
    *("ANTHROPIC_API_KEY", "GOOGLE_API_KEY", "MISTRAL_API_KEY", "GROQ_API_KEY", "TOGETHER_API_KEY"),
    *("OPENROUTER_API_KEY", "AZUREAI_API_KEY", "HF_TOKEN", "LANGSMITH_API_KEY"),
)
"""The variables that hold keys: certigraph's own, and those of services that inspect and LangChain talk to."""

ADDRESSES = ("CERTIGRAPH_POSTGRES", "CERTIGRAPH_OPENSEARCH_URL", "CERTIGRAPH_BASE_URL", "SEARXNG_URL")
"""The variables that hold addresses, with a password in them where the server wants one."""

SHORTEST = 8
"""Secrets below this many characters are placeholders ("none"): masking them would only spoil text."""

_LOOKS_SECRET = (
    # a run without hyphens: `sk-telecom-opens-a-hall` is part of an address; JSON ends a line by a letter
    ("sk-", re.compile(r"(?:\b|(?<=\\[nrtbf]))sk-[\w-]{0,64}?\w{16}[\w-]*"), MASK),
    ("earer ", re.compile(r"([Bb]earer )[\w.~+/=-]{16,}"), rf"\1{MASK}"),
    # no backslash: in JSON a line's end is one, and `https://a.org`, `Mail:b@c` on the next line are no password
    ("://", re.compile(r"(://)[^/\s:@\"\\]*:[^/\s@\"\\]+(?=@)"), rf"\1{MASK}"),
)
"""What looks like a key, or a password in a URL, each with a text that it cannot do without."""

_PASSWORD = re.compile(r"\bpassword\s*=\s*(?:'([^']*)'|(\S+))")
_WORDS = re.compile(r"[a-z0-9]{6,}")


class _Known(NamedTuple):
    """The secrets of this machine: what finds their forms, and texts of which one stands in every such form."""

    pattern: re.Pattern[str] | None
    signs: tuple[str, ...]


def redact(text: str) -> str:
    """Mask the values of KEYS and the passwords of ADDRESSES in their usual encodings, and what looks like a secret.

    A text without any is searched at about 200 MB a second. A secret that is cut in two, or encoded twice, is missed.
    """
    known = _known(tuple(map(os.environ.get, KEYS + ADDRESSES)))
    if known.pattern:
        lowered = text.lower()
        if any(sign in lowered for sign in known.signs):
            text = known.pattern.sub(MASK, text)
    for sign, pattern, masked in _LOOKS_SECRET:
        if sign in text:
            text = pattern.sub(masked, text)
    return text


def redacted(record: R) -> R:
    """The record with its texts masked; itself where there is nothing to mask."""
    plain = record.model_dump_json()
    safe = redact(plain)
    return record if safe == plain else type(record).model_validate_json(safe)


@lru_cache(maxsize=4)
def _known(values: tuple[str | None, ...]) -> _Known:
    keys, addresses = values[: len(KEYS)], values[len(KEYS) :]
    told = [*filter(None, keys), *(password for address in filter(None, addresses) for password in _passwords(address))]
    forms = {form for secret in told if len(secret) >= SHORTEST for form in _encodings(secret)}
    if not forms:
        return _Known(None, ())
    longest_first = sorted(forms, key=len, reverse=True)
    pattern = re.compile("|".join(map(re.escape, longest_first)), re.IGNORECASE)
    return _Known(pattern, tuple({_sign(form.lower()) for form in forms}))


def _passwords(address: str) -> set[str]:
    """Of a URL, as it stands and as it is meant, or of libpq's `host=... password=...`."""
    try:
        told = urlsplit(address).password or ""
    except ValueError:  # no URL, and what reads it says so
        told = ""
    named = (quoted or bare for quoted, bare in _PASSWORD.findall(address))
    return {told, unquote(told), *named}


def _sign(form: str) -> str:
    """Its longest run of letters and digits, which most encodings leave alone, so that forms share it."""
    return max(_WORDS.findall(form), key=len, default=form)


def _encodings(key: str) -> set[str]:
    raw = key.encode(errors="surrogateescape")
    percent = "".join(f"%{byte:02x}" for byte in raw)
    escaped = {json.dumps(key)[1:-1], json.dumps(key, ensure_ascii=False)[1:-1], repr(key)[1:-1], html.escape(key)}
    again = {json.dumps(form)[1:-1] for form in escaped}
    plain = {key, quote(raw), quote(raw, safe=""), quote_plus(raw), percent, raw.hex()}
    return plain | escaped | again | _base64(raw)


def _base64(raw: bytes) -> set[str]:
    """The characters that depend on the key alone, at each of the three places it can have in a longer text."""
    forms = set()
    for shift, first in enumerate((0, 2, 3)):
        padded = b"\0" * shift + raw
        whole = len(padded) * 8 // 6
        forms |= {encode(padded).decode()[first:whole] for encode in (b64encode, urlsafe_b64encode)}
    return forms

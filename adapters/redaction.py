"""Redaction of secrets in texts and records."""

import html
import json
import logging
import os
import re
import warnings
from base64 import b64encode, urlsafe_b64encode
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any, NamedTuple, TypeVar
from urllib.parse import parse_qsl, quote, quote_plus, unquote, urlsplit

from pydantic import BaseModel

from certigraph.state.records import Record

R = TypeVar("R", bound=BaseModel)

MASK = "[redacted]"

KEYS = (
    *("OPENAI_API_KEY", "SERPER_API_KEY", "BRAVE_API_KEY", "PGPASSWORD"),
    *("ANTHROPIC_API_KEY", "GOOGLE_API_KEY", "MISTRAL_API_KEY", "GROQ_API_KEY", "TOGETHER_API_KEY"),
    *("OPENROUTER_API_KEY", "AZUREAI_API_KEY", "HF_TOKEN", "LANGSMITH_API_KEY"),
)
"""The variables that hold keys: certigraph's own, and those of services that inspect and LangChain talk to."""

ADDRESSES = (
    *("CERTIGRAPH_POSTGRES", "CERTIGRAPH_OPENSEARCH_URL", "CERTIGRAPH_INDEX", "CERTIGRAPH_BASE_URL"),
    *("SEARXNG_URL", "SERPER_URL", "BRAVE_URL", "OPENAI_BASE_URL", "RAY_ADDRESS"),
)
"""The variables that hold addresses. All but scheme, host and port of one may be secret."""

PLACEHOLDERS = frozenset(
    (
        *("none", "null", "empty", "unused", "dummy", "fake", "test", "local", "key", "token", "ollama", "lm-studio"),
        *("nokey", "no-key", "not-needed", "placeholder", "sk-no-key-required"),
    )
)
"""What is set as a key where none is needed; never masked, whatever its case."""

SHORTEST = 4
"""Characters; what is shorter is masked nowhere."""

LONG = 8
"""Characters from which on a secret is masked inside words too, and in hexadecimal and base64 form."""

ORDINARY_LETTERS, ORDINARY_DIGITS = 24, 12
"""Below so many characters a secret of letters alone, or of digits alone, is an ordinary one."""

IDENTITY = frozenset((
    "type", "kind", "id", "run_id", "run", "created", "graph", "benchmark", "node", "scope", "subtask", "episode",
    "digest", "role", "model", "schema_name", "ending", "forced", "method", "rubric", "judge", "replaced",
))  # fmt: skip
"""Fields of certigraph's records, in JSON too, by which runs, nodes and types are known: never masked."""

TAGS = frozenset(("type", "role", "source"))
"""Fields that tell the records of other libraries apart: never masked."""

MESSAGES = frozenset(("message", "failure"))
"""Fields of records that hold the message of an error."""

DATA = frozenset(("constants", "args", "data", "answer", "request", "response"))
"""Fields of records that hold JSON from outside, in which keys are texts and IDENTITY means nothing."""

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
_NO_TOKEN = re.compile(
    r"v\d+\w{0,6}|api|openai|azure|search|deployments|engines|inference|proxy|serving(-endpoints)?|compatible-mode|chat"
    r"|completions|models|embeddings",
    re.IGNORECASE,
)
"""Segments of paths that are no secrets."""

_USED: dict[str, None] = {}
"""Addresses that were given otherwise than by a variable, as `remember_address` got them."""


def show_address(address: str) -> str:
    """Format an address for messages: scheme, host and port alone, for user, path and query may be secrets."""
    try:
        parts = urlsplit(address if "://" in address else f"//{address}")
        host, port = parts.hostname or "", parts.port
    except ValueError:
        return "an address that cannot be read"
    scheme = f"{parts.scheme}://" if parts.scheme else ""
    return scheme + (f"[{host}]" if ":" in host else host) + (f":{port}" if port else "")


def remember_address(address: str) -> str:
    """Have the secret parts of an address masked from now on, as of those in ADDRESSES; returns the address."""
    if "://" in address or "@" in address:
        _USED[address] = None
    return address


def mask_logs() -> None:
    """Have the clients of endpoints log without secrets; they name whole addresses. Doing it again changes nothing."""
    for name in _CLIENT_LOGGERS:
        logging.getLogger(name).addFilter(_mask_log)


def _mask_log(entry: logging.LogRecord) -> bool:
    try:
        plain = entry.getMessage()
    except (TypeError, ValueError):  # logging itself reports a message that does not fit its arguments
        return True
    if (safe := redact_message(plain)) != plain:
        entry.msg, entry.args = safe, ()
    return True


_CLIENT_LOGGERS = ("httpx", "httpcore.connection", "httpcore.http11", "httpcore.http2", "openai._base_client")


def redact(text: str) -> str:
    """Mask distinct secrets of KEYS and ADDRESSES in their usual encodings, and what looks like a secret.

    A text without any is searched at about 200 MB a second. A secret that is cut in two, or encoded twice, is missed.
    """
    known = _known_now()
    if known.anywhere:
        lowered = text.lower()
        if any(sign in lowered for sign in known.signs):
            text = known.anywhere.sub(MASK, text)
    for sign, pattern, masked in _LOOKS_SECRET:
        if sign in text:
            text = pattern.sub(masked, text)
    return text


def redact_message(text: str) -> str:
    """Mask all secrets in the message of an error, ordinary ones too where they are words of their own."""
    known = _known_now()
    text = redact(text)
    return known.in_messages.sub(MASK, text) if known.in_messages else text


def redacted(record: R) -> R:
    """The record with its texts masked; itself where there is nothing to mask.

    Kept as they are: names of fields, fields of IDENTITY, and keys of dictionaries; those in DATA are masked. Of
    records of other libraries only TAGS are kept.
    """
    known, lowered = _known_now(), record.model_dump_json().lower()
    signs = (*known.signs, *known.message_signs, *(sign for sign, _, _ in _LOOKS_SECRET))
    return _masked_record(record) if any(sign in lowered for sign in signs) else record


def redacted_value(value: Any) -> Any:
    """A value from outside, of JSON or of records, with its texts and keys masked; itself where nothing is."""
    return _masked(value, redact, data=True)


def _masked_record(record: R) -> R:
    masked_field = _masked_field if isinstance(record, Record) else _masked_foreign
    changed = {}
    for name in (*type(record).model_fields, *(record.model_extra or ())):
        value = getattr(record, name)
        safe = masked_field(name, value)
        if safe is not value:
            changed[name] = safe
    return record.model_copy(update=changed) if changed else record


def _masked_field(name: str, value: Any) -> Any:
    if name in IDENTITY and not isinstance(value, BaseModel):
        return value
    return _masked(value, redact_message if name in MESSAGES else redact, data=name in DATA)


def _masked_foreign(name: str, value: Any) -> Any:
    return value if name in TAGS else _masked(value, redact, data=True)


def _masked(value: Any, mask: Callable[[str], str], *, data: bool) -> Any:
    """The value with its texts masked. `data`: it is from outside as a whole, keys of dictionaries too."""
    if isinstance(value, str):
        safe = mask(value)
        return value if safe == value else safe
    if isinstance(value, BaseModel):
        return _masked_record(value)
    if isinstance(value, dict):
        if data:
            pairs = [(_masked(key, mask, data=True), _masked(part, mask, data=True)) for key, part in value.items()]
        else:
            pairs = [(key, _masked_field(key, part)) for key, part in value.items()]
        same = all(new is key and one is part for (new, one), (key, part) in zip(pairs, value.items(), strict=True))
        return value if same else dict(_unlike(pairs))
    if isinstance(value, (list, tuple)):
        parts = [_masked(part, mask, data=data) for part in value]
        if all(new is part for new, part in zip(parts, value, strict=True)):
            return value
        return type(value)(*parts) if hasattr(value, "_fields") else type(value)(parts)
    return value


def _unlike(pairs: list[tuple[Any, Any]]) -> Iterator[tuple[Any, Any]]:
    """The pairs under keys that differ: two that became the same are numbered."""
    seen: set[Any] = set()
    for key, part in pairs:
        number, fresh = 1, key
        while fresh in seen:
            number += 1
            fresh = f"{key} {number}"
        seen.add(fresh)
        yield fresh, part


class _Known(NamedTuple):
    """The secrets of this machine: what finds their forms, and texts of which one stands in every such form."""

    anywhere: re.Pattern[str] | None
    signs: tuple[str, ...]
    in_messages: re.Pattern[str] | None
    message_signs: tuple[str, ...]


def _known_now() -> _Known:
    return _known(tuple(map(os.environ.get, KEYS + ADDRESSES)), tuple(_USED))


@lru_cache(maxsize=4)
def _known(values: tuple[str | None, ...], used: tuple[str, ...]) -> _Known:
    named = list(zip(KEYS + ADDRESSES, values, strict=True))
    secrets = [_Secret(name, value, warned=True) for name, value in named[: len(KEYS)] if value]
    addresses = [(name, value) for name, value in named[len(KEYS) :] if value] + [("an address", one) for one in used]
    secrets += [secret for name, address in addresses for secret in _parts(name, address)]
    secrets = [secret for secret in secrets if secret.value and secret.value.lower() not in PLACEHOLDERS]
    for name in dict.fromkeys(secret.name for secret in secrets if secret.warned and _is_ordinary(secret.value)):
        _warn(name)
    kept = [secret.value for secret in secrets if len(secret.value) >= SHORTEST]
    distinct = {value for value in kept if not _is_ordinary(value)}
    ordinary = set(kept) - distinct
    long = {form for value in distinct if len(value) >= LONG for form in _encodings(value)}
    long |= {form for value in ordinary if len(value) >= LONG for form in _bytewise(value)}
    short = {form for value in distinct if len(value) < LONG for form in _written(value)}
    words = {form for value in ordinary for form in _written(value)}
    return _Known(_pattern(long, short), _signs(long | short), _pattern(set(), words), _signs(words))


class _Secret(NamedTuple):
    name: str
    """Of the variable."""
    value: str
    warned: bool
    """Whether it lets somebody in, so that an ordinary one is worth a warning."""


def _is_ordinary(secret: str) -> bool:
    letters, digits = any(map(str.isalpha, secret)), any(map(str.isdigit, secret))
    if len(secret) < SHORTEST:
        return True
    if letters and digits:
        return False
    return len(secret) < (ORDINARY_DIGITS if digits else ORDINARY_LETTERS)


def _warn(name: str) -> None:
    warnings.warn(
        f"the secret in {name} is short or an ordinary word, so that it is masked in messages of errors only: "
        "use a longer, random one; where none is needed, set none",
        stacklevel=2,
    )


def _parts(name: str, address: str) -> Iterator[_Secret]:
    """What may be secret in a URL, as it stands and as it is meant, or in libpq's `host=... password=...`."""
    for quoted, bare in _PASSWORD.findall(address):
        yield _Secret(name, quoted or bare, warned=True)
    try:
        url = urlsplit(address if "://" in address else f"//{address}")
        user, password, _ = url.username or "", url.password or "", url.port
    except ValueError:  # no URL, and what reads it reports that
        return
    if "://" not in address and not user:
        return
    values = [part.partition("=")[2] or part for part in re.split("[&;]", url.query)]
    values += [value for _, value in parse_qsl(url.query)]
    web = url.scheme in ("http", "https")
    for value in dict.fromkeys([user, unquote(user)]):
        yield _Secret(name, value, warned=web and not password)
    for value in dict.fromkeys([password, unquote(password)]):
        yield _Secret(name, value, warned=True)
    for value in dict.fromkeys([*values, url.fragment]):
        yield _Secret(name, value, warned=False)
    if web:
        # the last segment of CERTIGRAPH_INDEX is the name of the index
        yield from _segments(name, url.path.rpartition("/")[0] if name == "CERTIGRAPH_INDEX" else url.path)


def _segments(name: str, path: str) -> Iterator[_Secret]:
    """Of a path what is no usual word of one: after its slash, and alone where it looks like a token."""
    for segment in path.split("/"):
        if len(segment) >= SHORTEST and not _NO_TOKEN.fullmatch(segment):
            yield _Secret(name, f"/{segment}", warned=False)
            pieces = re.split("[-_.]", segment)
            if any(len(piece) >= LONG and not _is_ordinary(piece) for piece in pieces):
                yield _Secret(name, segment, warned=False)


def _pattern(inside: set[str], apart: set[str]) -> re.Pattern[str] | None:
    """Finds forms inside words, whatever their case, and others that are words of their own; the longest first."""
    parts = [(form, f"(?i:{re.escape(form)})") for form in inside]
    for form in apart:
        before = r"(?:(?<![^\W_])|(?<=\\[nrtbf]))" if form[0].isalnum() else ""
        parts.append((form, before + re.escape(form) + (r"(?![^\W_])" if form[-1].isalnum() else "")))
    parts.sort(key=lambda part: len(part[0]), reverse=True)
    return re.compile("|".join(pattern for _, pattern in parts)) if parts else None


def _signs(forms: set[str]) -> tuple[str, ...]:
    """Of each form its longest run of letters and digits, which most encodings leave alone, so that forms share it."""
    return tuple({max(_WORDS.findall(form.lower()), key=len, default=form.lower()) for form in forms})


def _encodings(secret: str) -> set[str]:
    return _written(secret) | _bytewise(secret)


def _written(secret: str) -> set[str]:
    """As text, escaped and quoted."""
    raw = secret.encode(errors="surrogateescape")
    escaped = {json.dumps(secret)[1:-1], json.dumps(secret, ensure_ascii=False)[1:-1]}
    escaped |= {repr(secret)[1:-1], html.escape(secret)}
    again = {json.dumps(form)[1:-1] for form in escaped}
    return {secret, quote(raw), quote(raw, safe=""), quote_plus(raw)} | escaped | again


def _bytewise(secret: str) -> set[str]:
    """As bytes: every one with a percent sign, hexadecimal, and base64."""
    raw = secret.encode(errors="surrogateescape")
    return {"".join(f"%{byte:02x}" for byte in raw), raw.hex()} | _base64(raw)


def _base64(raw: bytes) -> set[str]:
    """The characters that depend on the key alone, at each of the three places it can have in a longer text."""
    forms = set()
    for shift, first in enumerate((0, 2, 3)):
        padded = b"\0" * shift + raw
        whole = len(padded) * 8 // 6
        forms |= {encode(padded).decode()[first:whole] for encode in (b64encode, urlsafe_b64encode)}
    return forms

"""Redaction of secrets in texts, error messages and records.

Secrets are the values of the environment variables KEY_VARIABLES, the secret parts of those in ADDRESS_VARIABLES, and
what looks like a key. `redact` masks a text, `redact_message` the message of an error, `redact_record` a record.
"""

import html
import json
import logging
import os
import re
import warnings
from base64 import b64encode, urlsafe_b64encode
from collections.abc import Callable, Iterator, Mapping
from functools import cache, lru_cache
from typing import Any, NamedTuple, TypeVar
from urllib.parse import parse_qsl, quote, quote_plus, unquote, urlsplit

from pydantic import BaseModel

from certigraph.state.records import Record

R = TypeVar("R", bound=BaseModel)

MASK = "[redacted]"

KEY_VARIABLES = (
    *("OPENAI_API_KEY", "SERPER_API_KEY", "BRAVE_API_KEY", "PGPASSWORD"),
    *("ANTHROPIC_API_KEY", "GOOGLE_API_KEY", "MISTRAL_API_KEY", "GROQ_API_KEY", "TOGETHER_API_KEY"),
    *("OPENROUTER_API_KEY", "AZUREAI_API_KEY", "HF_TOKEN", "LANGSMITH_API_KEY"),
)
"""Environment variables that hold API keys: certigraph's, and those of services that Inspect and LangChain use."""

ADDRESS_VARIABLES = (
    *("CERTIGRAPH_POSTGRES", "CERTIGRAPH_OPENSEARCH_URL", "CERTIGRAPH_INDEX", "CERTIGRAPH_BASE_URL"),
    *("SEARXNG_URL", "SERPER_URL", "BRAVE_URL", "OPENAI_BASE_URL", "RAY_ADDRESS"),
)
"""Environment variables that hold addresses. Everything but scheme, host and port may be secret."""

PLACEHOLDERS = frozenset(
    (
        *("none", "null", "empty", "unused", "dummy", "fake", "test", "local", "key", "token", "ollama", "lm-studio"),
        *("nokey", "no-key", "not-needed", "placeholder", "sk-no-key-required"),
    )
)
"""Values that are set as a key where none is needed; never masked, in upper or lower case."""

MIN_SECRET_CHARACTERS = 4
"""Minimum number of characters of a secret that is masked."""

LONG_SECRET = 8
"""Minimum number of characters of a secret that is masked inside words, and in hexadecimal and base64 form."""

MIN_DISTINCT_LETTERS, MIN_DISTINCT_DIGITS = 24, 12
"""Minimum length of a secret of letters only, or with digits and no letters, that counts as distinct.

A shorter one may be an ordinary word or number, and is masked only in the messages of errors.
"""

IDENTITY_FIELDS = frozenset((
    "type", "kind", "id", "run_id", "run", "created", "graph", "benchmark", "node", "scope", "subtask", "episode",
    "digest", "role", "model", "schema_name", "ending", "forced", "method", "rubric", "judge", "replaced",
))  # fmt: skip
"""Fields of certigraph's records, in JSON too, that identify runs, nodes and types: never masked."""

TAG_FIELDS = frozenset(("type", "role", "source"))
"""Fields that identify the type of records of other libraries: never masked."""

MESSAGE_FIELDS = frozenset(("message", "failure"))
"""Fields of records that hold the message of an error."""

DATA_FIELDS = frozenset(("constants", "args", "data", "answer", "request", "response"))
"""Fields of records that hold JSON from outside, where keys are texts too and IDENTITY_FIELDS have no meaning."""

_SECRET_PATTERNS = (
    # 16 characters without hyphens: `sk-telecom-opens-a-hall` is part of an address; in JSON `\n` may precede a key
    ("sk-", re.compile(r"(?:\b|(?<=\\[nrtbf]))sk-[\w-]{0,64}?\w{16}[\w-]*"), MASK),
    ("earer ", re.compile(r"([Bb]earer )[\w.~+/=-]{16,}"), rf"\1{MASK}"),
    # no backslash: JSON writes a line break as one; a URL and an e-mail address on the next line are not a password
    ("://", re.compile(r"(://)[^/\s:@\"\\]*:[^/\s@\"\\]+(?=@)"), rf"\1{MASK}"),
)
"""Patterns of keys and of passwords in URLs, each with a substring that every match contains and its replacement."""

_PASSWORD = re.compile(r"\bpassword\s*=\s*(?:'([^']*)'|(\S+))")
_WORDS = re.compile(r"[a-z0-9]{6,}")
_ORDINARY_SEGMENT = re.compile(
    r"v\d+\w{0,6}|api|openai|azure|search|deployments|engines|inference|proxy|serving(-endpoints)?|compatible-mode|chat"
    r"|completions|models|embeddings",
    re.IGNORECASE,
)
"""Segments of paths that are not secret."""

_REMEMBERED_ADDRESSES: dict[str, None] = {}
"""Addresses that were passed to `remember_address`, used as an ordered set."""


def show_address(address: str) -> str:
    """Format an address for messages: scheme, host and port only, because user, path and query may be secret."""
    try:
        parts = urlsplit(address if "://" in address else f"//{address}")
        host, port = parts.hostname or "", parts.port
    except ValueError:
        return "an address that cannot be read"
    scheme = f"{parts.scheme}://" if parts.scheme else ""
    return scheme + (f"[{host}]" if ":" in host else host) + (f":{port}" if port else "")


def remember_address(address: str) -> str:
    """Treat the secret parts of an address as secrets from now on, as for ADDRESS_VARIABLES; returns the address."""
    if "://" in address or "@" in address:
        _REMEMBERED_ADDRESSES[address] = None
    return address


def mask_logs() -> None:
    """Mask secrets in the logs of endpoint clients, which contain full addresses. May be called more than once."""
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
    """Mask secrets in their usual encodings, unless they may be ordinary words, and what looks like a key.

    A text without secrets is searched at about 200 MB/s. A secret that is split, or encoded twice, is missed.
    """
    return _mask_text(text, _current_patterns())


def _mask_text(text: str, patterns: "_SecretPatterns") -> str:
    if patterns.anywhere:
        lowered = text.lower()
        if any(sign in lowered for sign in patterns.signs):
            text = patterns.anywhere.sub(MASK, text)
    for sign, pattern, masked in _SECRET_PATTERNS:
        if sign in text:
            text = pattern.sub(masked, text)
    return text


def redact_message(text: str) -> str:
    """Mask all secrets in the message of an error; ordinary words among them only where they are separate words."""
    patterns = _current_patterns()
    text = _mask_text(text, patterns)
    return patterns.in_messages.sub(MASK, text) if patterns.in_messages else text


def redact_record(record: R) -> R:
    """Return the record with its texts masked; the same object if there is nothing to mask.

    Not masked: names of fields, IDENTITY_FIELDS, and keys of dictionaries outside DATA_FIELDS. In records of other
    libraries only TAG_FIELDS are kept.
    """
    return redact_to_json(record)[0]


def redact_to_json(record: R) -> tuple[R, str]:
    """Return the record as `redact_record` does, and its JSON."""
    text = record.model_dump_json()
    patterns, lowered = _current_patterns(), text.lower()
    signs = (*patterns.signs, *patterns.message_signs, *(sign for sign, _, _ in _SECRET_PATTERNS))
    masked = _mask_record(record) if any(map(lowered.__contains__, signs)) else record
    return masked, text if masked is record else masked.model_dump_json()


def redact_value(value: Any, mask: Callable[[str], str] = redact) -> Any:
    """Return JSON or records from outside with all secrets masked in texts and in dictionary keys.

    If there is nothing to mask, it is the same object. Objects of other types stay as they are.
    """
    return _mask_value(value, mask, data=True)


def _mask_record(record: R) -> R:
    masked_field = _mask_field if isinstance(record, Record) else _mask_foreign_field
    changed = {}
    for name in (*type(record).model_fields, *(record.model_extra or ())):
        value = getattr(record, name)
        safe = masked_field(name, value)
        if safe is not value:
            changed[name] = safe
    return record.model_copy(update=changed) if changed else record


def _mask_field(name: str, value: Any) -> Any:
    if name in IDENTITY_FIELDS and not isinstance(value, BaseModel):
        return value
    return _mask_value(value, redact_message if name in MESSAGE_FIELDS else redact, data=name in DATA_FIELDS)


def _mask_foreign_field(name: str, value: Any) -> Any:
    return value if name in TAG_FIELDS else _mask_value(value, redact, data=True)


def _mask_value(value: Any, mask: Callable[[str], str], *, data: bool) -> Any:
    """Mask the texts of a value. `data`: it comes from outside, so that keys of dictionaries are masked too."""
    if isinstance(value, str):
        safe = mask(value)
        return value if safe == value else safe
    if isinstance(value, BaseModel):
        return _mask_record(value)
    if isinstance(value, dict):
        if data:
            pairs = [
                (_mask_value(key, mask, data=True), _mask_value(part, mask, data=True)) for key, part in value.items()
            ]
        else:
            pairs = [(key, _mask_field(key, part)) for key, part in value.items()]
        unchanged = all(
            new is key and masked is part for (new, masked), (key, part) in zip(pairs, value.items(), strict=True)
        )
        return value if unchanged else dict(_number_equal_keys(pairs))
    if isinstance(value, (list, tuple)):
        parts = [_mask_value(part, mask, data=data) for part in value]
        if all(new is part for new, part in zip(parts, value, strict=True)):
            return value
        return type(value)(*parts) if hasattr(value, "_fields") else type(value)(parts)
    return value


def _number_equal_keys(pairs: list[tuple[Any, Any]]) -> Iterator[tuple[Any, Any]]:
    """Number keys that became equal by masking, so that no pair is lost."""
    seen: set[Any] = set()
    for key, part in pairs:
        number, fresh = 1, key
        while fresh in seen:
            number += 1
            fresh = f"{key} {number}"
        seen.add(fresh)
        yield fresh, part


class _SecretPatterns(NamedTuple):
    """Patterns that match this machine's secrets in all encodings, and substrings of which every match contains one."""

    anywhere: re.Pattern[str] | None
    signs: tuple[str, ...]
    in_messages: re.Pattern[str] | None
    message_signs: tuple[str, ...]


_VARIABLES = KEY_VARIABLES + ADDRESS_VARIABLES
_ENVIRONMENT: Mapping[Any, Any] = vars(os.environ)["_data"]
_ENCODED_VARIABLES = tuple(map(os.environ.encodekey, _VARIABLES))  # bytes, or upper-case texts on Windows


def _current_patterns() -> _SecretPatterns:
    # `os.environ.get` would take longer for all variables than the search for secrets does
    return _compile_patterns(tuple(map(_ENVIRONMENT.get, _ENCODED_VARIABLES)), tuple(_REMEMBERED_ADDRESSES))


@lru_cache(maxsize=4)
def _compile_patterns(values: tuple[Any, ...], other_addresses: tuple[str, ...]) -> _SecretPatterns:
    texts = ("" if value is None else os.environ.decodevalue(value) for value in values)
    variables = list(zip(_VARIABLES, texts, strict=True))
    secrets = [_Secret(name, value, warned=True) for name, value in variables[: len(KEY_VARIABLES)] if value]
    addresses = [(name, value) for name, value in variables[len(KEY_VARIABLES) :] if value] + [
        ("an address", address) for address in other_addresses
    ]
    secrets += [secret for name, address in addresses for secret in _secrets_of_address(name, address)]
    secrets = [secret for secret in secrets if secret.value and secret.value.lower() not in PLACEHOLDERS]
    for name in dict.fromkeys(secret.name for secret in secrets if secret.warned and _is_ordinary(secret.value)):
        _warn_ordinary(name)
    values_to_mask = [secret.value for secret in secrets if len(secret.value) >= MIN_SECRET_CHARACTERS]
    distinct = {value for value in values_to_mask if not _is_ordinary(value)}
    ordinary = set(values_to_mask) - distinct
    long = {form for value in distinct if len(value) >= LONG_SECRET for form in _encodings(value)}
    long |= {form for value in ordinary if len(value) >= LONG_SECRET for form in _byte_forms(value)}
    short = {form for value in distinct if len(value) < LONG_SECRET for form in _text_forms(value)}
    words = {form for value in ordinary for form in _text_forms(value)}
    return _SecretPatterns(
        _pattern(long, short), _longest_runs(long | short), _pattern(set(), words), _longest_runs(words)
    )


class _Secret(NamedTuple):
    name: str
    """Name of the environment variable."""
    value: str
    warned: bool
    """Whether the secret gives access to a service, so that a warning is issued if it may be an ordinary word."""


def _is_ordinary(secret: str) -> bool:
    letters, digits = any(map(str.isalpha, secret)), any(map(str.isdigit, secret))
    if len(secret) < MIN_SECRET_CHARACTERS:
        return True
    if letters and digits:
        return False
    return len(secret) < (MIN_DISTINCT_DIGITS if digits else MIN_DISTINCT_LETTERS)


@cache  # once a process and name: the patterns are compiled again for every address that is remembered
def _warn_ordinary(name: str) -> None:
    warnings.warn(
        f"the secret in {name} is short or an ordinary word, so that it is masked only in error messages: "
        "use a longer, random one, or unset the variable if none is needed",
        stacklevel=2,
    )


def _secrets_of_address(name: str, address: str) -> Iterator[_Secret]:
    """Yield the parts of an address that may be secret, with and without URL quoting.

    The address is a URL or libpq's `host=... password=...`.
    """
    for quoted, bare in _PASSWORD.findall(address):
        yield _Secret(name, quoted or bare, warned=True)
    try:
        url = urlsplit(address if "://" in address else f"//{address}")
        user, password, _ = url.username or "", url.password or "", url.port
    except ValueError:  # no URL; the code that uses it reports that
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
        yield from _secrets_of_path(name, url.path.rpartition("/")[0] if name == "CERTIGRAPH_INDEX" else url.path)


def _secrets_of_path(name: str, path: str) -> Iterator[_Secret]:
    """Yield unusual segments of a path: with the slash before them, and alone if they look like a token."""
    for segment in path.split("/"):
        if len(segment) >= MIN_SECRET_CHARACTERS and not _ORDINARY_SEGMENT.fullmatch(segment):
            yield _Secret(name, f"/{segment}", warned=False)
            pieces = re.split("[-_.]", segment)
            if any(len(piece) >= LONG_SECRET and not _is_ordinary(piece) for piece in pieces):
                yield _Secret(name, segment, warned=False)


def _pattern(inside: set[str], apart: set[str]) -> re.Pattern[str] | None:
    """Compile a pattern of literal texts: `inside` anywhere and in any case, `apart` only as separate words.

    Longer texts are tried first.
    """
    parts = [(form, f"(?i:{re.escape(form)})") for form in inside]
    for form in apart:
        before = r"(?:(?<![^\W_])|(?<=\\[nrtbf]))" if form[0].isalnum() else ""
        parts.append((form, before + re.escape(form) + (r"(?![^\W_])" if form[-1].isalnum() else "")))
    parts.sort(key=lambda part: len(part[0]), reverse=True)
    return re.compile("|".join(pattern for _, pattern in parts)) if parts else None


def _longest_runs(forms: set[str]) -> tuple[str, ...]:
    """Return the longest run of letters and digits of each encoded secret, in lower case; most encodings share it."""
    return tuple({max(_WORDS.findall(form.lower()), key=len, default=form.lower()) for form in forms})


def _encodings(secret: str) -> set[str]:
    return _text_forms(secret) | _byte_forms(secret)


def _text_forms(secret: str) -> set[str]:
    """Return the encodings of a secret as text: unchanged, escaped (JSON, Python, HTML) and quoted for URLs."""
    raw = secret.encode(errors="surrogateescape")
    escaped = {json.dumps(secret)[1:-1], json.dumps(secret, ensure_ascii=False)[1:-1]}
    escaped |= {repr(secret)[1:-1], html.escape(secret)}
    escaped_twice = {json.dumps(form)[1:-1] for form in escaped}
    return {secret, quote(raw), quote(raw, safe=""), quote_plus(raw)} | escaped | escaped_twice


def _byte_forms(secret: str) -> set[str]:
    """Return the encodings of a secret's bytes: percent-encoded, hexadecimal and base64."""
    raw = secret.encode(errors="surrogateescape")
    return {"".join(f"%{byte:02x}" for byte in raw), raw.hex()} | _base64_forms(raw)


def _base64_forms(raw: bytes) -> set[str]:
    """Return the base64 characters that depend on the secret alone, for each of its three offsets in a longer text."""
    forms = set()
    for shift, start in enumerate((0, 2, 3)):
        padded = b"\0" * shift + raw
        end = len(padded) * 8 // 6
        forms |= {encode(padded).decode()[start:end] for encode in (b64encode, urlsafe_b64encode)}
    return forms

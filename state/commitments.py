"""Commitments: which tools a task may use, fixed before any tool's answer was read.

A text in a tool's answer can order an agent to call other tools, or the right ones with other values. What was
committed to before it was read cannot be changed by it. There are two levels: the tools of the task, and for each
argument the tools whose answers may supply its value.

A model can be led to write a value in any form: a stranger's text may encode it, split it, or describe it. So a value
is not sought in what strangers wrote. It has to stand in what the user or an allowed tool wrote.
"""

import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from decimal import Decimal, InvalidOperation
from functools import lru_cache
from html import unescape
from typing import Any, Literal, NamedTuple

from certigraph.state.provenance import SourcedText
from certigraph.state.run import AnsweredCall, Commitment
from certigraph.state.tools import ToolCall

CommitmentLevel = Literal["tools", "arguments"]
"""What is committed to: the tools that a task may use, or also where the values of their arguments come from."""

MIN_SHARED_WORDS = 5
"""Number of words in a row that a text shares with an answer if it was copied from there.

A shorter value is taken for a name, and has to stand somewhere as a whole.
"""

MIN_ACCOUNT = 8
"""Least number of letters and digits without a mark between them that are taken for an account or a key."""


def source_answers(answers: Iterable[AnsweredCall]) -> list[SourcedText]:
    """Return what tools answered, with its source.

    A call that was not made has none: the reason of a refusal, or what a person answered, is not a tool's text.
    """
    return [SourcedText(text=one.answer, tools=(one.tool,), given=texts_in(one.args)) for one in answers if one.made]


def texts_in(args: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the texts and numbers in the arguments of a call."""
    return tuple(map(str, _leaves(args)))


def describe_commitment(commitment: Commitment) -> str:
    """Describe a commitment for those who plan and act."""
    outside = [tool for tool in commitment.approvable if tool not in commitment.tools]
    if not commitment.tools and not outside:
        return "No tool may be called for this task; the answer is handed in with finish."
    lines = ["The tools above were chosen for this task before its first answer was read. No other can be called."]
    if outside:
        lines.append(f"These were not chosen, and a person is asked before each of their calls: {', '.join(outside)}.")
    if commitment.origins is not None:
        supplied = [
            f"- {argument} of {tool}: from {', '.join(sources)}{_note_worked_out(commitment, tool, argument)}"
            for tool, arguments in commitment.origins.items()
            for argument, sources in arguments.items()
        ]
        lines += [ORIGIN_RULE, *(supplied or ["- nothing"])]
    return "\n".join(lines)


def _note_worked_out(commitment: Commitment, tool: str, argument: str) -> str:
    return ", or worked out" if argument in commitment.worked_out.get(tool, ()) else ""


ORIGIN_RULE = """\
Once an answer was read, names, numbers, dates and short values in arguments have to stand in the task or in an answer \
that is allowed for the argument. What is worked out stands in none: it can be used only where that is allowed, and \
before an answer of any other tool was read. A longer text may be worded freely. Allowed are:"""


def find_problem(
    commitment: Commitment,
    call: ToolCall,
    task: str,
    answers: Sequence[SourcedText],
    schema: Mapping[str, Any] | None = None,
) -> str:
    """Return why a call goes beyond a commitment; empty if it does not.

    Until an answer was read, all values pass. After that, identifiers, numbers and values of fewer than five words have
    to stand in the task or in an allowed answer. An argument that may be worked out can hold others, but no address,
    path or account, as long as all that was read is allowed for it. A longer text may be worded freely, but repeats no
    five words of a text that is not allowed. Case, white space, characters without a width and other forms of letters
    and numbers make no difference.

    Args:
        commitment: what was committed to.
        call: the call.
        task: everything that the user wrote.
        answers: what tools answered so far.
        schema: JSON schema of the tool's arguments, whose names and listed values are known.
    """
    if call.name not in commitment.tools:
        allowed = ", ".join(commitment.tools) or "none"
        return f"{call.name} was not committed to before the first answer was read; committed to: {allowed}"
    if commitment.origins is None:
        return ""
    known = [SourcedText(text=task), SourcedText(text="\n".join(_list_choices(schema or {})))]
    free_names = schema is not None and call.args.keys() - schema.get("properties", {}).keys()
    for name, value in call.args.items() if answers else ():
        suppliers = frozenset(commitment.origins.get(call.name, {}).get(name, ()))
        is_allowed = [bool(one.tools) and suppliers.issuperset(one.tools) for one in answers]
        others = [one for one, allowed in zip(answers, is_allowed, strict=True) if not allowed]
        supplied = [one for one, allowed in zip(answers, is_allowed, strict=True) if allowed and one.is_answer]
        is_own = name in commitment.worked_out.get(call.name, ()) and not others
        content = [name, value] if free_names else value
        if part := _find_foreign_part(content, [*known, *supplied], others, is_own=is_own):
            where = f"{name if name.isidentifier() else repr(name):.80} of {call.name} holds {part!r:.80}"
            named = f" or in an answer of {', '.join(sorted(suppliers))}" if suppliers else ""
            return f"{where}, which has to stand in the task{named}"
    return ""


def _leaves(value: Any) -> Iterator[str | Decimal]:
    """Yield the texts and numbers in an argument, keys too; truth values say too little to have an origin."""
    match value:
        case bool() | None:
            return
        case str():
            yield value
        case int() | float():
            yield Decimal(repr(value))
        case Mapping():
            for key, part in value.items():
                yield str(key)
                yield from _leaves(part)
        case list() | tuple():
            for part in value:
                yield from _leaves(part)


def _list_choices(schema: Any) -> Iterator[str]:
    """Yield the names of arguments and the values that a schema lists."""
    if isinstance(schema, list):
        for part in schema:
            yield from _list_choices(part)
    if not isinstance(schema, Mapping):
        return
    for key, part in schema.items():
        if key in ("enum", "const", "default"):
            yield from map(str, _leaves(part))
        elif key == "properties" and isinstance(part, Mapping):
            yield from part
            yield from _list_choices([*part.values()])
        else:
            yield from _list_choices(part)


def _find_foreign_part(value: Any, known: Sequence[SourcedText], others: Sequence[SourcedText], *, is_own: bool) -> str:
    """Return a part of an argument that stands in no known text, where it would have to; empty without one.

    Args:
        value: the argument.
        known: texts whose values it may hold.
        others: texts of which it may repeat nothing.
        is_own: whether it may hold what the agent has worked out.
    """

    def is_known(part: str | Decimal) -> bool:
        return any(_supplies(one, part) for one in known)

    for leaf in _leaves(value):
        if isinstance(leaf, Decimal):
            if not (is_own or is_known(leaf)):
                return str(leaf)
            continue
        if not leaf.strip() or is_known(leaf):
            continue
        names = [word for word in _identifiers(leaf) if not is_own or _is_address(word)]
        names += _GROUPED_ACCOUNT.findall(_fold(leaf))
        if unknown := next((word for word in names if not is_known(word)), ""):
            return unknown
        words = _LETTERS.findall(_fold(leaf))
        if len(words) < MIN_SHARED_WORDS and not is_own:
            return leaf
        runs = (words[start : start + MIN_SHARED_WORDS] for start in range(len(words) - MIN_SHARED_WORDS + 1))
        for letters, run in {"".join(run): run for run in runs}.items():
            if _is_in_any(letters, others) and not _is_in_any(letters, known):
                return " ".join(run)
    return ""


def _supplies(source: SourcedText, part: str | Decimal) -> bool:
    return _holds(source.text, part) and not any(_holds(text, part) for text in source.given)


def _is_in_any(letters: str, sources: Sequence[SourcedText]) -> bool:
    return any(letters in _normalise(one.text).prose for one in sources)


# What is compared: texts in a form in which it makes no difference how they are written.

_WORD = re.compile(r"[^\W_]+")
_LETTERS = re.compile(r"[^\W\d_]+")
_TOKEN = re.compile(r"[^\s\"'`<>()\[\]{},;|]+")
_NUMBER = re.compile(r"(?:(?<!\w)-)?(?<![^\W_])\d+(?:[.,]\d+)*(?:e[+-]?\d+(?!\w))?")
_ABBREVIATION = re.compile(r"(?:[^\W\d_]\.)+[^\W\d_]?")
"""A word such as "e.g." or "p.m.", which names nothing."""


_ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|x([0-9a-fA-F]{2})|[nrt]|\n\s*\\?)")
"""Escapes of JSON and YAML, in which tools answer: of characters, white space, and the end of a folded line."""


def _read_escape(found: re.Match[str]) -> str:
    code = found[1] or found[2]
    return chr(int(code, 16)) if code else " "


_SENTENCE_END = re.compile(r"(?<=[a-z])\.(?=[A-Z][a-z])")
"""A full stop after which the space is missing, which would make one name of two words."""


class _Normal(NamedTuple):
    """A text in the forms in which texts are compared."""

    folded: str
    letters: str
    """Its letters and digits alone."""
    prose: str
    """Its letters alone."""


@lru_cache(maxsize=128)
def _normalise(text: str) -> _Normal:
    folded = _fold(text)
    return _Normal(folded, "".join(_WORD.findall(folded)), "".join(_LETTERS.findall(folded)))


def _fold(text: str) -> str:
    """Return a text in one form of its letters, without case and without characters that have no width."""
    folded = unicodedata.normalize("NFKC", _ESCAPE.sub(_read_escape, unescape(text)))
    folded = _SENTENCE_END.sub(". ", folded)
    if not folded.isascii():
        folded = "".join(letter for letter in folded if unicodedata.category(letter) != "Cf")
    return folded.casefold()


@lru_cache(maxsize=32)
def _numbers_in(text: str) -> frozenset[Decimal]:
    found = map(_parse_number, _NUMBER.findall(_normalise(text).folded))
    return frozenset(number for number in found if number is not None)


def _parse_number(text: str) -> Decimal | None:
    """Parse a number with or without separators of thousands: `1,500.00`, `1.500,00`, `0,5`; None for other texts."""
    if not _NUMBER.fullmatch(text):
        return None
    if re.fullmatch(r"[\d.-]*,\d+", text) and ("." in text or not re.fullmatch(r"-?\d{1,3},\d{3}", text)):
        text = text.replace(".", "").replace(",", ".")
    try:
        return Decimal(text.replace(",", ""))
    except InvalidOperation:
        return None


def _identifiers(text: str) -> Iterator[str]:
    """Yield the words of a text that name something exactly: addresses, numbers, dates, file names."""
    for token in _TOKEN.findall(_fold(text)):
        word = token.strip(".:!?*-\u2013\u2014\u2019")
        has_marks = any(not letter.isalpha() and letter not in "-\u2019!?" for letter in word)
        if has_marks and _WORD.search(word) and not _ABBREVIATION.fullmatch(word):
            yield word


_PORT = re.compile(r"[^\W\d_]{2}:\d")
"""End of a host's name, with the port."""

_GROUPED_ACCOUNT = re.compile(r"\b[a-z]{2}\d{2}(?:[ -]?[a-z0-9]{2,4}){2,}\b|\+\d[\d ()/-]{6,}\d")
"""Number of a bank account or of a telephone, which may be written in groups."""


def _is_address(word: str) -> bool:
    """Return whether a word is an address, a path or an account, which nobody works out."""
    runs = _WORD.findall(word)
    has_letters = any(letter.isalpha() for letter in word)
    is_telephone = word.startswith("+") and sum(letter.isdigit() for letter in word) > 6
    is_account = any(len(run) >= MIN_ACCOUNT and not run.isalpha() and not run.isdigit() for run in runs)
    return is_telephone or bool(
        has_letters and (is_account or any(mark in word for mark in "@./\\#") or _PORT.search(word))
    )


def _holds(text: str, part: str | Decimal) -> bool:
    """Return whether a text holds a number, or a name as a whole: not as a piece of a longer name or address."""
    if isinstance(part, Decimal):
        return part in _numbers_in(text)
    found, wanted = _normalise(text), _fold(part)
    letters = "".join(_WORD.findall(wanted))
    if not letters:
        return f" {' '.join(wanted.split())} " in f" {' '.join(found.folded.split())} "
    number = _parse_number(wanted.strip())
    if number is not None and number in _numbers_in(text):
        return True
    if letters not in found.letters:
        return False
    characters = "".join(wanted.split())
    gap = r"[\s-]*" if characters.isalnum() else r"\s*"  # accounts and telephone numbers are written in groups
    pattern = gap.join(map(re.escape, characters))
    before, after = r"(?<![\w@.+%-])", r"(?!\w|[.@-][^\W_])"
    if any(mark in wanted for mark in "@./\\"):  # a piece of a path names another one
        before, after = r"(?<![\w@.+%/-])", r"(?!\w|[.@/-][^\W_])"
    return bool(re.search(f"{before}{pattern}{after}", found.folded))

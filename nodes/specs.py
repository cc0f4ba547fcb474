"""Specs: the name and arguments of an operator, and their form as text, which keeps the types of the arguments.

A run's header records specs as JSON. The command line, sweep files and the logs of evaluations have them as text.
"""

import json
from collections.abc import Mapping
from typing import Annotated

from pydantic import Field, JsonValue

from certigraph.adapters.json_lines import parse_json, parse_json_at
from certigraph.nodes.catalogue import OPERATORS
from certigraph.state.endings import UnknownName
from certigraph.state.records import Record


class Spec(Record):
    """An operator's name and arguments. A name with a colon refers to a user's operator: `module:attribute`."""

    name: str
    args: dict[str, Annotated["Spec | JsonValue", Field(union_mode="left_to_right")]] = Field(default_factory=dict)

    def __str__(self) -> str:
        """Format the spec as `parse_spec` reads it: `structured:missing=false,start=question`."""
        shown = [f"{key}={_format_argument(value)}" for key, value in self.args.items()]
        return ":".join([self.name, ",".join(shown)]) if shown else self.name


Argument = Spec | JsonValue

QUOTED_CHARACTERS = frozenset('",()[]{}+')
"""Characters that separate or enclose arguments and swaps. A text with one of them is written in double quotes."""


def _format_argument(value: Argument) -> str:
    if isinstance(value, Spec):
        return value.name if value.name in OPERATORS and not value.args else f"({value})"
    if isinstance(value, str) and _needs_no_quotes(value):
        return value
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return text.replace("e+", "e") if isinstance(value, float) else text  # a `+` would end a swap


def _needs_no_quotes(text: str) -> bool:
    is_plain = text.isprintable() and not QUOTED_CHARACTERS & {*text}
    return text != "" and is_plain and _to_argument(text.strip()) == text


# The reader of the text.

PYTHON_WORDS: Mapping[str, JsonValue] = {"True": True, "False": False, "None": None}
"""Python's words for true, false and null, which are read as those."""

MAX_NESTED_SPECS = 20
"""Maximum number of parentheses around a spec. In a header, nested specs are nested JSON, which has a maximum depth."""


def parse_spec(text: str) -> Spec:
    """Parse `OPERATOR` or `FACTORY:key=value,...`, as in `capped:depth=1`; the exact inverse of `str(spec)`.

    A value is JSON, the name of one of certigraph's operators, or a spec in parentheses, as in
    `shadow:gate=(exhaustion_gate:patience=3)`. Any other value is a text.

    Raises:
        UnknownName: an argument has no value, or quotes or brackets are not closed.
    """
    reader = _SpecReader(text)
    spec = reader.read_spec()
    reader.check_end()
    return spec


def split_swaps(text: str) -> list[str]:
    """Split swaps, `SLOT=OPERATOR`, that are joined by `+`. A `+` in quotes or brackets belongs to an argument.

    Raises:
        UnknownName: as `parse_spec` does.
    """
    swaps, start = list[str](), 0
    while (equals := text.find("=", start)) >= 0:
        reader = _SpecReader(text, equals + 1)
        reader.read_spec("+")
        reader.check_end("+")
        swaps.append(text[start : reader.at])
        if reader.at == len(text):
            return swaps
        start = reader.at + 1
    return [*swaps, text[start:]]


class _SpecReader:
    """Reader of a text; `at` is the index of the first character that is not read yet.

    A spec extends to the end of the text, or to the character `end` outside quotes and brackets.
    """

    def __init__(self, text: str, at: int = 0) -> None:
        self.text, self.at, self._depth = text, at, 0

    def read_spec(self, end: str = "") -> Spec:
        head = self._read_word(f"=,{end}")
        if not self.text.startswith("=", self.at):
            return Spec(name=head)
        name, _, key = head.rpartition(":")  # the name may have a colon too: `module:make:depth=2`
        args: dict[str, Argument] = {}
        while key:
            if not self._skip("="):
                raise self._error(f"the argument {key} has no value")
            args[key.strip()] = self._read_argument(end)
            while self._skip(","):
                pass
            key = self._read_word(f"=,{end}")
        return Spec(name=name, args=args)

    def check_end(self, end: str = "") -> None:
        """Raise UnknownName unless the whole text, or all before the character `end`, is read."""
        if self.at < len(self.text) and self.text[self.at] != end:
            raise self._error(f"nothing can be read at {self.text[self.at :]!r}")

    def _read_argument(self, end: str) -> Argument:
        if self._skip("("):
            value: Argument = self._read_nested()
        elif self.text.startswith(('"', "[", "{"), self.at):
            value = self._read_json()
        else:
            return _to_argument(self._read_word(f",{end}"))
        if rest := self._read_word(f",{end}"):
            raise self._error(f"{rest!r} follows a complete value")
        return value

    def _read_nested(self) -> Spec:
        self._depth += 1
        if self._depth > MAX_NESTED_SPECS:
            raise self._error(f"operators are nested deeper than {MAX_NESTED_SPECS} levels")
        spec = self.read_spec(")")
        if not self._skip(")"):
            raise self._error("a closing parenthesis is missing")
        self._depth -= 1
        return spec

    def _read_json(self) -> JsonValue:
        value: JsonValue
        try:
            value, self.at = parse_json_at(self.text, self.at)
        except ValueError as error:
            raise self._error(f"{self.text[self.at :]!r} does not begin with JSON ({error})") from error
        return value

    def _read_word(self, stops: str) -> str:
        """Read up to one of the characters `stops`. Return what is read, without the spaces around it."""
        start = self.at
        while self.at < len(self.text) and self.text[self.at] not in stops:
            self.at += 1
        return self.text[start : self.at].strip()

    def _skip(self, character: str) -> bool:
        """Skip spaces, then the character. Return whether the character was there."""
        while self.text[self.at : self.at + 1].isspace():
            self.at += 1
        found = self.text.startswith(character, self.at)
        self.at += found
        return found

    def _error(self, problem: str) -> UnknownName:
        form = 'write OPERATOR:key=value,...; a text with commas, quotes or brackets in double quotes: key="a, b"'
        return UnknownName(f"operator {self.text!r} cannot be read: {problem}; {form}")


def _to_argument(word: str) -> Argument:
    if word in OPERATORS:
        return Spec(name=word)
    if word in PYTHON_WORDS:
        return PYTHON_WORDS[word]
    try:
        value: JsonValue = parse_json(word)
    except ValueError:
        return word
    return value

"""Commitments: which tools a task may use, fixed before any tool's answer was read.

A text in a tool's answer can order an agent to call other tools, or the right ones with other values. What was
committed to before it was read cannot be changed by it. There are two levels: the tools of the task, and for each
argument the tools whose answers may supply its value.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal, NamedTuple

from certigraph.state.run import Commitment, Evidence
from certigraph.state.tools import NOT_MADE, ToolCall

CommitmentLevel = Literal["tools", "arguments"]
"""What is committed to: the tools that a task may use, or also where the values of their arguments come from."""

ENTRY_HEADING = re.compile(r"^\[call \d+ of action \d+: (\w+)\(", re.MULTILINE)
"""Heading of an answer in the evidence (`state.tools.add_answers`)."""

MIN_SHARED_WORDS = 5
"""Number of words in a row that a text shares with a tool's answer if it was copied from there."""

_TOKEN = re.compile(r"[^\s\"'`<>()\[\]{},;]+")
_WORD = re.compile(r"\w+")


class SourcedText(NamedTuple):
    """A text and the tools that may have written it."""

    text: str
    tools: frozenset[str]
    is_answer: bool = True
    """Whether the text is the answer itself, and not a model's summary of answers."""


def split_answers(evidence: Evidence) -> list[SourcedText]:
    """Split the evidence into the answers of the tools."""
    headings = list(ENTRY_HEADING.finditer(evidence.view))
    starts = [heading.start() for heading in headings]
    ends = [*starts[1:], len(evidence.view)] if starts else []
    texts = (evidence.view[heading.end() : end].partition("\n")[2] for heading, end in zip(headings, ends, strict=True))
    return [
        SourcedText(text, frozenset({heading[1]}))
        for heading, text in zip(headings, texts, strict=True)
        if not text.startswith(NOT_MADE)  # the reason for which a call was refused is not a tool's answer
    ]


def describe_commitment(commitment: Commitment) -> str:
    """Describe a commitment for those who plan and act."""
    if not commitment.tools:
        return "No tool may be called for this task; the answer is handed in with finish."
    lines = [f"Of the tools above, only these and finish may be called for this task: {', '.join(commitment.tools)}."]
    if commitment.origins is not None:
        lines.append(
            "Arguments hold what the task says and what you work out or write yourself. From answers may come:"
        )
        lines += [
            f"- {argument} of {tool}: from {', '.join(sources)}"
            for tool, arguments in commitment.origins.items()
            for argument, sources in arguments.items()
        ] or ["- nothing"]
    return "\n".join(lines)


def find_problem(commitment: Commitment, call: ToolCall, task: str, answers: Sequence[SourcedText]) -> str:
    """Return why a call goes beyond a commitment; empty if it does not.

    A value that stands in the task is the user's. Any other value that stands in a tool's answer comes from there, and
    so do identifiers and sequences of five words within a longer text. Values that stand nowhere were made by the
    model.

    Args:
        commitment: what was committed to.
        call: the call.
        task: everything that the user wrote.
        answers: what tools answered so far.
    """
    if call.name not in commitment.tools:
        allowed = ", ".join(commitment.tools) or "none"
        return f"{call.name} was not committed to before the first answer was read; committed to: {allowed}"
    if commitment.origins is None:
        return ""
    allowed_by_argument = commitment.origins.get(call.name, {})
    for name, value in call.args.items():
        allowed_tools = frozenset(allowed_by_argument.get(name, ()))
        for text in _leaves(value):
            if found := _find_foreign_part(text, task, answers, allowed_tools):
                allowed = f" or from the answers of {', '.join(sorted(allowed_tools))}" if allowed_tools else " alone"
                where = f"{name} of {call.name} holds {found.text!r:.80}, from an answer of"
                return f"{where} {', '.join(sorted(found.tools))}; it may come from the task{allowed}"
    return ""


def _leaves(value: Any) -> Iterator[str]:
    """Yield the texts and numbers in an argument; truth values say too little to have an origin."""
    match value:
        case bool() | None:
            return
        case str():
            yield value
        case int() | float():
            yield f"{value:g}" if isinstance(value, float) else str(value)
        case Mapping():
            for part in value.values():
                yield from _leaves(part)
        case list():
            for part in value:
                yield from _leaves(part)


def _find_foreign_part(
    text: str, task: str, answers: Sequence[SourcedText], allowed: frozenset[str]
) -> SourcedText | None:
    """Return a part of a text that comes from an answer which is not allowed, with its source; None without one."""
    for part in (*_identifiers(text), *_word_sequences(text), text):
        if not part.strip() or _contains(task, part):
            continue
        holders = [answer for answer in answers if _contains(answer.text, part)]
        # a summary says nothing about the source of what an answer holds as well
        sources = [one.tools for one in holders if one.is_answer] or [one.tools for one in holders]
        if sources and not any(tools & allowed for tools in sources):
            return SourcedText(part, sources[0])
    return None


def _identifiers(text: str) -> Iterable[str]:
    """Return the words of a text that name something exactly: addresses, numbers of accounts, file names."""
    words = (word.strip(".:!?") for word in _TOKEN.findall(text))
    return [word for word in words if len(word) >= 4 and re.search(r"[\d@/._]", word)]


def _word_sequences(text: str) -> Iterator[str]:
    words = _WORD.findall(text)
    for start in range(len(words) - MIN_SHARED_WORDS + 1):
        yield " ".join(words[start : start + MIN_SHARED_WORDS])


def _contains(text: str, part: str) -> bool:
    """Return whether a text holds a part as whole words, case, white space and punctuation between words aside."""
    words = _WORD.findall(part.casefold())
    return bool(words) and f" {' '.join(words)} " in f" {' '.join(_WORD.findall(text.casefold()))} "

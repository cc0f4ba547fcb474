"""What is rejected by its words alone, before any model is asked (SDP paper, appendices A.5 and A.6)."""

import re
from collections.abc import Sequence

from certigraph.adapters.retrieval.analyzer import words
from certigraph.state.chains import Hop

MOST_WORDS = 15
"""Words of a MuSiQue answer."""

_UNABLE = r"\b(?:cannot|can't|could not|couldn't|unable to)"
NEGATION = re.compile(
    r"\b(?:do|does|did)(?: not|n't) "
    r"(?:provide|mention|specify|state|say|give|contain|name|tell|indicate|identify|answer)\b"
    r"|\b(?:is|are|was|were|been|be)(?: not|n't) (?:explicitly |directly |clearly )?"
    r"(?:mentioned|specified|provided|stated|given|named|listed|available|indicated|identified|disclosed)\b"
    r"|\b(?:never|nowhere|not) (?:explicitly |directly )?(?:mentioned|specified|provided|stated|available)\b"
    r"|\bno (?:information|mention|evidence|answer|details?|data|passages?|paragraphs?)\b"
    rf"|{_UNABLE} be (?:found|determined|answered|inferred|established)\b"
    rf"|{_UNABLE} (?:determine|answer|infer|tell|find (?:an?|any|the) (?:answer|info))"
)
"""How a finding or an answer says that nothing was found."""

GARBAGE = re.compile(
    r"(?:un(?:known|clear|certain|available|determined|specified|answerable)|not (?:applicable|sure|known)|n a|none"
    r"|nothing|no (?:idea|answer)|null|nan|i (?:do not|don t) know|it is unknown|tbd|string"
    r"|(?:the )?(?:answer|finding|entity))?"
)
"""Whole texts, as words, that answer nothing; some are a question's own field names given back."""

_ARTICLES = ("a", "an", "the")
_LEAD = r"(?:(?:in|on|at|by|of|for|about|during|since|until) )?"
_TIME = re.compile(_LEAD + r"(?:when|(?:what|which) (?:exact )?(?:year|date|day|month|decade|century))\b")
_COUNT = re.compile(_LEAD + r"how (?:many|much|old|long|far|tall)\b")
_POLAR = re.compile(r"(?:is|are|was|were|do|does|did|has|have|had|can|could|will|would|should)\b")
_DATED = re.compile(
    r"\d|\b(?:(?:january|february|march|april|may|june|july|august|september|october|november|december)|"
    r"(?:spring|summer|autumn|fall|winter)|(?:centur|decade|week|month|year|season|era\b|today|tonight|never))"
)
_COUNTED = re.compile(
    r"\d|\b(?:zero|no|one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|\w+teen|twenty|thirty|forty|fifty|"
    r"sixty|seventy|eighty|ninety|hundreds?|thousands?|millions?|billions?|half|dozens?|both|once|twice|several)\b"
)


def no_finding(text: str) -> str:
    """Why a finding is none; empty where it may be one."""
    return no_answer(text) if text.strip() else "no finding: the paragraphs shown do not answer this"


def no_answer(text: str) -> str:
    """Why an answer is none; empty where it may be one."""
    if GARBAGE.fullmatch(" ".join(words(text))):
        return f"{text.strip()!r} answers nothing"
    negated = NEGATION.search(text.lower())
    return f"it says that nothing was found ({negated[0]!r})" if negated else ""


def no_short_answer(question: str, answer: str, chain: Sequence[Hop]) -> str:
    """Why an answer cannot be MuSiQue's; empty where it may be, as it is of all 308 references in our sample."""
    if len(answer.split()) > MOST_WORDS:
        return f"{len(answer.split())} words, where an answer has at most {MOST_WORDS}"
    said = _content(answer)
    if _holds(_content(question), said):
        return f"{answer!r} stands in the question itself"
    *before, last = [_content(hop.entity) for hop in chain] or [[]]
    if said in before and said != last:
        return f"{answer!r} is an entity on the way, not the end of the chain"
    return _mismatch(question.lower().strip(), answer.lower())


def _mismatch(question: str, answer: str) -> str:
    """Why an answer is not of the sort that its question's first words ask for."""
    if _TIME.match(question) and not _DATED.search(answer):
        return "the question asks for a time, and the answer names none"
    if _COUNT.match(question) and not _COUNTED.search(answer):
        return "the question asks for a number, and the answer names none"
    if _POLAR.match(question) and " or " not in question and words(answer)[:1] not in (["yes"], ["no"]):
        return "the question asks for yes or no"
    return ""


def _content(text: str) -> list[str]:
    return [word for word in words(text) if word not in _ARTICLES]


def _holds(whole: Sequence[str], part: Sequence[str]) -> bool:
    return any(whole[start : start + len(part)] == part for start in range(len(whole) - len(part) + 1))

"""The question to a model how many conditions of a plan hold by what tools answered, and what its verdict rests on.

A verdict counts only with something that code can find: words of an answer, calls that were made and did not fail, or,
for what must not have happened, the complete list of calls whose effect lasts. What nobody but the agent or a person
wrote is never found: arguments, refused calls, and what a person answered in place of a tool.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from itertools import pairwise
from typing import Annotated, Any, NamedTuple

from langgraph.runtime import Runtime
from pydantic import BaseModel, Field

from certigraph.adapters.models.calls import ask
from certigraph.adapters.models.prompts import (
    bullet_list,
    format_facts,
    numbered_list,
    one_line,
    paragraphs,
    quote,
    unquote_line,
)
from certigraph.adapters.models.schemas import Reasoning, Requested
from certigraph.adapters.models.scripts import collect_citations
from certigraph.adapters.protocols import Context
from certigraph.nodes.verdicts import MAX_JUDGED_CONDITIONS
from certigraph.nodes.work_records import is_long, judge_prompt
from certigraph.state.records import CHECK, Action, Ground, Predicate, Verdict
from certigraph.state.run import ANSWER_ACTIONS, AnsweredCall
from certigraph.state.sdp import ValidateView
from certigraph.state.tools import ANSWER_ARGUMENT, format_call


class Grounded(BaseModel):
    """What every verdict over tools names that it rests on."""

    reason: Reasoning
    evidence: Annotated[str, Requested] = ""
    by_calls: Annotated[list[int], Requested] = []
    absence: Annotated[str, Requested] = ""


class GroundedHolds(Grounded):
    """Answer schema for a verdict on a plan: a reason, what it rests on, how many conditions hold."""

    reachable: Annotated[bool, Requested] = True
    holds: int = Field(ge=0, le=MAX_JUDGED_CONDITIONS, strict=True)


class NotingHolds(GroundedHolds):
    """Answer schema for a verdict over so many calls that the first ones may soon be out of sight."""

    established: Annotated[list[str], Requested] = []
    outdated: Annotated[list[int], Requested] = []


class Grounds(NamedTuple):
    """What a verdict rests on, as far as code found it."""

    kinds: tuple[Ground, ...] = ()
    calls: tuple[int, ...] = ()
    """Numbers of the calls, from 1."""
    shown: str = ""
    """The words that were found, and the calls, for a reader."""
    problems: tuple[str, ...] = ()
    """What was named and not found; a verdict with any certifies nothing."""


async def ask_grounded_verdict(
    state: ValidateView, runtime: Runtime[Context], *, tail: Sequence[Predicate], notes: str = ""
) -> Verdict:
    """Ask a model how many conditions hold now, counted from the first one on without a gap, and by what.

    If what the model names is not found, it is asked once more; if that is not found either, nothing is certified.

    Args:
        state: the view of Validate.
        runtime: the run's runtime.
        tail: the conditions to be judged.
        notes: what is known besides the answers.
    """
    judged, calls = tail[:MAX_JUDGED_CONDITIONS], state["answers"]
    conditions = f"Conditions, in order:\n{numbered_list(one.text for one in judged)}"
    later = len(state["tail"]) - len(judged)
    parts = (conditions, LATER.format(count=later) if later else "", _describe_claim(state["action"]), notes)
    prompt = await judge_prompt(state["task"], calls, paragraphs(*parts, GROUNDED_QUESTION), runtime)
    form: type[GroundedHolds] = GroundedHolds
    if await is_long(prompt, runtime):
        form = NotingHolds
        facts = format_facts(state["facts"]) if state["facts"] else ""
        prompt = prompt._replace(user=paragraphs(prompt.user, facts, NOTING_QUESTION))
    prompt = prompt._replace(user=paragraphs(prompt.user, HOLDS_QUESTION))
    with collect_citations() as cited:
        answer = await ask(prompt, form, role="validator", runtime=runtime)
        grounds = find_grounds(answer, calls)
        if answer.holds and grounds.problems and not cited:
            again = NOT_FOUND.format(holds=answer.holds, problems=quote(bullet_list(grounds.problems)))
            prompt = prompt._replace(user=f"{prompt.user}\n\n{again}")
            answer = await ask(prompt, form, role="validator", runtime=runtime)
            grounds = find_grounds(answer, calls)
    verdict = _to_verdict(answer, grounds, len(judged), state)
    if not cited:
        return verdict
    depth = min(answer.holds, len(judged))
    return verdict.model_copy(update={"depth": depth, "decided_by": "oracle", "evidence": cited[-1]})


def _describe_claim(action: Action) -> str:
    """Return what the agent says in place of a call: that the target holds, or its answer."""
    if action.kind in ANSWER_ACTIONS:
        return f"{ANSWER_HEADING}\n{quote(str(action.args.get(ANSWER_ARGUMENT, '')))}"
    return CLAIM if action.kind == CHECK else ""


def _to_verdict(answer: GroundedHolds, grounds: Grounds, most: int, state: ValidateView) -> Verdict:
    is_grounded = answer.holds > 0 and not grounds.problems
    found = {"evidence": grounds.shown, "rests_on": grounds.kinds, "calls": grounds.calls} if is_grounded else {}
    missing = "nothing was found that shows it: " if answer.holds > 0 and not is_grounded else ""
    noted, facts = isinstance(answer, NotingHolds) and answer, dict(enumerate(state["facts"], 1))
    return Verdict(
        depth=min(answer.holds, most) if is_grounded else 0,
        reason=f"{missing}{answer.reason}",
        decided_by="model",
        facts=tuple(filter(None, map(unquote_line, noted.established))) if noted else (),
        outdated=tuple(facts[number].text for number in noted.outdated if number in facts) if noted else (),
        unreachable=not answer.reachable and answer.holds < most,
        **found,
    )


def lasting_calls(calls: Sequence[AnsweredCall]) -> list[tuple[int, AnsweredCall]]:
    """Return the calls that were made and whose effect lasts, with their numbers, from 1."""
    return [(number, one) for number, one in enumerate(calls, 1) if one.made and one.lasting]


def find_grounds(answer: Grounded, calls: Sequence[AnsweredCall]) -> Grounds:
    """Find what a model named for its verdict: words in answers, calls, the list of calls whose effect lasts.

    Args:
        answer: the model's answer.
        calls: the calls so far, in order.
    """
    parts = [
        find_quotations(answer.evidence, calls),
        _find_calls(answer.by_calls, calls),
        _find_absence(unquote_line(answer.absence), calls),
    ]
    problems = tuple(problem for part in parts for problem in part.problems)
    kinds = tuple(kind for part in parts for kind in part.kinds)
    return Grounds(
        kinds,
        tuple(sorted({number for part in parts for number in part.calls})),
        "; ".join(part.shown for part in parts if part.shown),
        problems if problems or kinds else ("nothing was named",),
    )


def _find_calls(named: Sequence[int], calls: Sequence[AnsweredCall]) -> Grounds:
    made = {number: one for number, one in enumerate(calls, 1) if one.made and one.quotable and not one.failed}
    found = tuple(number for number in dict.fromkeys(named) if number in made)
    shown = "; ".join(f"call {number}: {format_call(made[number].tool, made[number].args)}" for number in found)
    problems = tuple(f"call {number} was not made, or it failed" for number in named if number not in made)
    return Grounds(("calls",) if found else (), found, shown, problems)


def _find_absence(absent: str, calls: Sequence[AnsweredCall]) -> Grounds:
    if says_nothing(absent):
        return Grounds()
    numbers = tuple(number for number, _ in lasting_calls(calls))
    listed = ", ".join(map(str, numbers)) or "there is none"
    return Grounds(("absence",), numbers, f"{absent} (all calls whose effect lasts: {listed})")


def says_nothing(text: str) -> bool:
    """Return whether a text only says in words that a field is left empty, as models do where they may leave it so."""
    return " ".join(re.findall(r"[^\W_]+", text)).casefold() in NOTHING


NOTHING = frozenset(
    ("", "none", "no", "nothing", "n a", "na", "nil", "null", "empty", "not applicable", "nothing is missing")
)


def find_quotations(evidence: str, calls: Sequence[AnsweredCall]) -> Grounds:
    """Find passages in the answers of calls that were made.

    White space, case and marks of Markdown do not matter. A passage stands on a line of its own, and may leave words
    out where it has dots or a semicolon. It neither begins nor ends inside a word.

    Args:
        evidence: the passages.
        calls: the calls so far, in order.
    """
    answers = [(number, one, _searched(one)) for number, one in enumerate(calls, 1) if one.made and one.quotable]
    whole = _trim(evidence)
    passages = [whole] if _find_passage(whole, answers) else [_trim(line) for line in evidence.splitlines()]
    numbers, shown, problems, short = list[int](), list[str](), list[str](), list[str]()
    for passage in passages:
        if says_nothing(passage) and not _find_passage(passage, answers):
            continue
        parts = [passage] if _find_passage(passage, answers) else [_trim(part) for part in LEFT_OUT.split(passage)]
        found = {part: _find_passage(part, answers) for part in parts if part}
        if not found or not all(found.values()):
            problems += [f"no answer has the words {part!r}" for part, where in found.items() if not where]
        elif not any(_tells(part, answers) for part in found):
            short.append(f"{passage!r} is too short to show anything")
        else:
            numbers += [number for where in found.values() for number in where]
            shown.append(" ... ".join(found))
    problems += [] if numbers else short  # among others it counts as not named
    return Grounds(("quotes",) if numbers else (), tuple(dict.fromkeys(numbers)), " ... ".join(shown), tuple(problems))


def has_words(passage: str, text: str, *, least: int = 1) -> bool:
    """Return whether a text has a passage, as whole words; it may leave words out as `find_quotations` says.

    Args:
        passage: the passage.
        text: the text.
        least: minimum number of words of the passage.
    """
    searched, whole = _set_apart(_squeeze(text)), _trim(passage)
    parts = [_squeeze(part) for part in (whole, *LEFT_OUT.split(whole))]
    found = [_set_apart(part) in searched for part in parts if len(_words_of(part)) >= least]
    return bool(found) and (found[0] or (len(found) > 1 and all(found[1:])))


LEFT_OUT = re.compile(r"[;…]|\.\.\.")

UNSPACED = (
    r"\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u19e0-\u19ff\ua9e0-\ua9ff\uaa60-\uaa7f"  # Thai, Lao, Burmese, Khmer
    r"\u3005-\u3007\u3040-\u312f\u31a0-\u31bf\u31f0-\u31ff\uff66-\uff9f"  # kana, bopomofo
    r"\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"  # Chinese characters
)
"""Scripts that put no spaces between words, as ranges of a regular expression."""

COMBINING = (
    r"\u0300-\u036f\u0483-\u0489\u0591-\u05c7\u0610-\u061a\u064b-\u065f\u0670\u06d6-\u06ed\u0711\u0730-\u074a"
    r"\u07a6-\u07b0\u08ca-\u08ff\u0900-\u0963\u0966-\u0dff\u0f71-\u0fbc\u00ad\u200c\u200d\u2060"
)
"""Accents, vowel signs and invisible joiners, which belong to a word without being letters to `re`."""

JOINER = "\u2060"

LETTER = rf"(?:[^\W{UNSPACED}]|\d)"
"""A letter of a script that puts spaces between words, or a digit of any script."""

SPACED = rf"(?:{LETTER}|[{COMBINING}])"

WHOLE_WORDS = re.compile(rf"(?:[-\u2212](?=\d))?{SPACED}+(?:(?:[-\u2010\u2011]|(?<=\d)[.,](?=\d)){SPACED}+)*")
"""What no passage is cut out of: `non-refundable` and `-1,049.90` are one word, `state:open` and `17;open` are two."""

WORDS = re.compile(rf"(?P<unspaced>(?:(?!\d)[{UNSPACED}])+)|(?P<spaced>{LETTER}(?:[.,:@/-]*{SPACED})*)")

GAPS = re.compile(r"\\[nrt]|[|#>]")
"""What parts words as white space does: line breaks and tabs as JSON writes them, ends of cells and of tags."""

MARKS = re.compile(r"[*_`~\\]+")

Answers = Sequence[tuple[int, AnsweredCall, str]]
"""Numbers of calls, the calls, and their answers as they are searched."""


def _squeeze(text: str) -> str:
    return one_line(MARKS.sub("", GAPS.sub(" ", text))).casefold()


def _set_apart(squeezed: str) -> str:
    """Put signs that no squeezed text has around each word, so that a search finds no part of a word."""
    return WHOLE_WORDS.sub("\n\\g<0>\r", squeezed)


def _words_of(text: str, given: AbstractSet[str] = frozenset()) -> list[str]:
    """Return the words of a text that are not given.

    Where a script has no spaces, any two characters in a row are a word, so that four count as three words; a character
    is given if a given word has it, and what is left of a run is a word only if two characters in a row are left.

    Args:
        text: the text, squeezed.
        given: words that are left out.
    """
    words = list[str]()
    for found in WORDS.finditer(text):
        run = "".join(filter(str.isalnum, found["unspaced"] or ""))  # vowel signs do not count
        if len(run) > 1:
            around = ({one, run[max(at - 1, 0) : at + 1], run[at : at + 2]} for at, one in enumerate(run))
            own = [one if near.isdisjoint(given) else "" for one, near in zip(run, around, strict=True)]
            words += [first + second for first, second in pairwise(own) if first and second]
        elif (word := found["spaced"] or run) and word not in given:
            words.append(word)
    return words


def _trim(passage: str) -> str:
    return one_line(passage).strip("\"' ").removeprefix("- ")


def _searched(one: AnsweredCall) -> str:
    """Return the answer of a call as it is searched: words set apart, no arguments that an error may repeat."""
    answer = _squeeze(one.answer)
    for text in _given_texts(one) if one.failed else ():
        # a joiner in their place keeps the rest of a word from becoming a word
        answer = answer.replace(text, JOINER) if _is_telling(_words_of(text)) else answer
    return _set_apart(answer)


def _find_passage(passage: str, answers: Answers) -> list[int]:
    """Return the numbers of the calls whose answers have the passage."""
    words = _squeeze(passage)
    return [number for number, one, answer in answers if words and _shows(one, answer, words)]


def _shows(one: AnsweredCall, answer: str, words: str) -> bool:
    """Return whether an answer has the words, and has some of them by itself: not as an argument of its call."""
    return _set_apart(words) in answer and bool(_own_words(one, words))


def _own_words(one: AnsweredCall, words: str) -> list[str]:
    """Return the words that do not stand in the arguments of a call, which its answer or its error may repeat."""
    return _words_of(words, {word for text in _given_texts(one) for word in _words_of(text)})


def _given_texts(one: AnsweredCall) -> list[str]:
    return [_squeeze(text) for text in _texts_of([*one.args.values()])]


def _texts_of(value: Any) -> Iterator[str]:
    match value:
        case str() | int() | float():
            yield str(value)
        case Mapping():
            yield from _all_texts([*value.keys(), *value.values()])
        case list() | tuple():
            yield from _all_texts(value)


def _all_texts(values: Iterable[Any]) -> Iterator[str]:
    return (text for value in values for text in _texts_of(value))


def _is_telling(words: Sequence[str]) -> bool:
    """Return whether words say enough to be found by no chance: three words, or one that is a name with a number."""
    return len(words) >= 3 or any(len(word) >= 4 and re.search(r"[\d@/]", word) for word in words)


def _tells(passage: str, answers: Answers) -> bool:
    """Return whether a passage says enough by what an answer has of itself; a whole answer may be short."""
    words = _squeeze(passage)
    searched = _set_apart(words)
    for _, one, answer in answers:
        if searched in answer:
            own = _own_words(one, words)
            is_whole = searched == answer and not one.failed and 2 * len(own) >= len(_words_of(words))
            if is_whole or _is_telling(own):
                return True
    return False


CLAIM = "The agent says that the first condition holds already, which the answers have to bear out."

ANSWER_HEADING = "The agent has now handed in this answer:"

LATER = "(The plan has {count} more after these, not judged here.)"

NOT_FOUND = """\
You answered this before, with {holds} for `holds`, and something is wrong with what you named for it:
{problems}
Answer again. Count only what the answers, or calls that were made and did not fail, show."""

GROUNDED_QUESTION = """\
How many of the conditions have come true by now, counted from the first one on without a gap? One about something that
happens and passes (was read, was sent) counts once an answer shows that it happened; one about how things are has to
hold now, or to have given way to a later one that has come true. A condition that you count is taken as proven from
then on, so count none that is merely likely.

Give, in this order:
- reason: what the answers show about each condition, in the order of the conditions and by their words. Where one does
  not hold, say what is missing and which step comes next.
- evidence: words of the answers, copied exactly (line breaks and spaces do not matter), that show each condition that
  you count, each passage on a line of its own, three words or more. Nothing else counts: no argument of a call, no call
  that was not made, no word of a person or of the agent. Empty if no answer has words for it.
- by_calls: the numbers of calls that show by themselves, in place of words, what you count, such as that something was
  looked up or done. They have to be made and not to have failed. Otherwise an empty list.
- absence: where a condition that you count is about what must not have happened, what it is that none of all the calls
  whose effect lasts has done, in a few words; the same where nothing had to be done. Otherwise empty.
- reachable: false only if an answer shows that the first condition that does not hold cannot come true any more as it
  is worded. Otherwise true."""

NOTING_QUESTION = """\
- established: what the answers show that later steps may need when it is out of sight: exact names, figures, contents,
  what is done, what is missing. One short statement each; an empty list if there is nothing new.
- outdated: the numbers of the established facts above that are no longer true."""

HOLDS_QUESTION = "- holds: how many hold; 0 if the first one does not."

__all__ = [
    "Grounded",
    "GroundedHolds",
    "Grounds",
    "ask_grounded_verdict",
    "find_grounds",
    "find_quotations",
    "has_words",
    "lasting_calls",
]

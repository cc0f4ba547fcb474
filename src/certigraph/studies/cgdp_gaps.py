"""The gaps G1 to G7 of a search agent: kinds of failure that the CGDP paper names, decided for each run by rules."""

import re
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from math import ceil
from typing import Any, NamedTuple

from certigraph.adapters.retrieval.bm25 import terms, title_keys, words
from certigraph.evaluation.frame_rows import MEMORY_NODE, FrameRow
from certigraph.nodes.react import MAX_PARAGRAPHS
from certigraph.nodes.transcripts import format_whole_turns
from certigraph.state.run import (
    Turn,
    jaccard,
    remembered_turns,
)
from certigraph.state.search import lines_with_sources
from certigraph.studies.cgdp_runs import BELIEFS, IRCOT, STRUCTURED, StudyRun

# Phrases that say that nothing is known, in the open questions of a belief and in abstentions.

NO_EVIDENCE_PHRASES = (
    *(
        "no evidence",
        "no information",
        "no relevant",
        "no mention",
        "no data",
        "no answer",
        "not found",
        "not mentioned",
    ),
    *("not provided", "not specified", "not stated", "not available", "not enough information", "insufficient"),
    *("unanswerable", "cannot be answered", "cannot be determined", "could not be determined"),
)
"""Phrases that say that nothing is known, matched as complete words in lower case. The list is certigraph's, not the
CGDP paper's."""

EMPTY_ANSWERS = ("none", "n/a", "na", "unknown", "nothing", "")
"""Texts that say that nothing is known when they are the complete text."""

_PHRASES = re.compile(rf"\b({'|'.join(map(re.escape, NO_EVIDENCE_PHRASES))})\b")


def is_no_evidence(text: str) -> bool:
    """Return whether a text, which should be a question or an answer, only says that nothing is known."""
    plain = " ".join(text.lower().split())
    return plain.strip(" .?!-") in EMPTY_ANSWERS or _PHRASES.search(plain) is not None


# Cost and degradation of beliefs: reorganisation (CGDP, H.4) and 'no evidence' artefacts (table 4).

EXTRACTOR_ROLE = "extractor"


def belief_fields(seen: StudyRun) -> FrameRow:
    """Compute what reorganising the belief of a run took, and whether the belief has an artefact (CGDP, H.4, table 4).

    `reorganisations` counts how often a model reorganised the belief. `artefact`: an open question of the belief only
    says that nothing is known. Both are missing for memory conditions that cannot have them. A reorganisation takes the
    calls of the role `extractor` after the first successful one, which extracts facts; failed attempts before it do not
    count.
    """
    if seen.arm.memory not in BELIEFS:
        return {}
    calls, questions, before = list[Mapping[str, Any]](), list[str](), 0
    for event in seen.events:
        belief: Any = (event.update or {}).get("belief", {}) if event.node == MEMORY_NODE else {}
        questions += belief.get("questions", ())
        count = belief.get("reorganised", before)
        if count > before:
            extracting = [call for call in event.calls if call["role"] == EXTRACTOR_ROLE]
            first = next((n for n, call in enumerate(extracting) if not call.get("failure")), len(extracting))
            calls += extracting[first + 1 :]
        before = count
    return {
        "reorganisations": seen.belief.reorganised,
        "reorganisation_calls": len(calls),
        "reorganisation_tokens": sum(call.get("input_tokens", 0) + call.get("output_tokens", 0) for call in calls),
        "artefact": any(map(is_no_evidence, questions)) if seen.arm.memory == STRUCTURED else None,
    }


# The rules that decide whether a run shows a gap of its harness; GAPS has their definitions. A rule returns True or
# False, or None where the benchmark's gold data does not allow a decision.

MIN_CORRECT_SCORE = 0.5
"""Score, 0 to 1, from which an answer counts as correct."""

EARLY_SHARE = 0.5
"""Share of the search rounds that count as early; the rounds after them count as late."""

MIN_GOAL_OVERLAP = 1 / 3
"""Share of a late action's content words that must, on average, occur in the question or in gold passages found before.
Below it the run shows gap G2."""

MIN_LATE_ROUNDS = 3
"""Minimum number of search rounds of a run for gap G2."""

MIN_GROUNDED_SHARE = 0.5
"""Share of the content words which the answer adds to the question that must occur in retrieved text. Below it the run
shows gap G3."""

MAX_PREMATURE_ROUNDS = 2
"""Maximum number of search rounds of a run that stopped too early, gap G4 (CGDP, A.2)."""

REPEAT_SIMILARITY, MIN_REPEATED_PAIRS = 0.5, 2
"""Jaccard similarity above which an action repeats the one before, and number of repetitions in a row that count as
stagnation (CGDP, A.2)."""


def has_lost_evidence(seen: StudyRun) -> bool | None:
    """Decide whether a run shows gap G1, "evidence not persisted"; None if the gold data does not allow a decision."""
    if not seen.support:
        return None
    early = _search_turns(seen)[: _early_rounds(len(seen.rounds))]
    retrieved = {source for turn in early for source in turn.sources} & seen.support.keys()
    context = f" {' '.join(words(_final_context(seen)))} "
    return _is_wrong(seen) and not all(_mentions(context, seen.support[source]) for source in retrieved)


def has_displaced_goal(seen: StudyRun) -> bool | None:
    """Decide whether a run shows gap G2, "goal displacement"; None if the gold data does not allow a decision."""
    if not seen.support:
        return None
    if not _is_wrong(seen) or len(seen.rounds) < MIN_LATE_ROUNDS:
        return False
    first = _early_rounds(len(seen.rounds))
    shares = [_goal_overlap(seen, index) for index in range(first, len(seen.rounds))]
    return sum(shares) / len(shares) < MIN_GOAL_OVERLAP


def is_parametric(seen: StudyRun) -> bool | None:
    """Decide whether a run shows gap G3, "parametric dominance": the answer is not based on retrieved text."""
    own = set(terms(seen.answer)) - set(terms(seen.task.goal))
    if not own or is_no_evidence(seen.answer):
        return False
    retrieved = {word for turn in _search_turns(seen) for word in terms(turn.observation)}
    return len(own & retrieved) / len(own) < MIN_GROUNDED_SHARE


def is_premature(seen: StudyRun) -> bool | None:
    """Decide whether a run shows gap G4, "premature stop": a wrong answer after few rounds, by the agent's decision."""
    return _is_wrong(seen) and seen.stopped_itself and len(seen.rounds) <= MAX_PREMATURE_ROUNDS


def is_stagnant(seen: StudyRun) -> bool | None:
    """Decide whether a run shows gaps G5 and G6, "retrieval stagnation": the agent repeated similar actions."""
    longest = streak = 0
    for before, after in pairwise(seen.rounds):
        streak = streak + 1 if jaccard(before.action, after.action) > REPEAT_SIMILARITY else 0
        longest = max(longest, streak)
    return longest >= MIN_REPEATED_PAIRS


def is_misaligned(seen: StudyRun) -> bool | None:
    """Decide whether a run shows gap G7, "evidence-action misalignment"; None if the question has an answer."""
    return None if seen.answerable else _is_wrong(seen)


def _is_wrong(seen: StudyRun) -> bool:
    return seen.score < MIN_CORRECT_SCORE


def _early_rounds(rounds: int) -> int:
    return ceil(rounds * EARLY_SHARE)


def _search_turns(seen: StudyRun) -> Sequence[Turn]:
    """Return the search turns of a run, without the turn of the final answer."""
    return list(seen.state["turns"])[: len(seen.rounds)]


def _final_context(seen: StudyRun) -> str:
    """Return the text that the agent saw before its last decision: belief and transcript."""
    turns = remembered_turns({**seen.state, "turns": list(_search_turns(seen))})  # type: ignore[typeddict-item]
    most = MAX_PARAGRAPHS if seen.arm.harness == IRCOT else None
    return "\n".join([seen.belief.text, *format_whole_turns(turns[_count_left_out(seen) :], paragraphs=most)])


def _count_left_out(seen: StudyRun) -> int:
    calls = [call for event in seen.events if event.node in ("decide", "answer") for call in event.calls]
    cuts: Any = calls[-1].get("cut") or () if calls else ()
    return next((int(match[1]) for cut in cuts if (match := re.match(r"the oldest (\d+) of", cut))), 0)


def _mentions(context: str, title: str) -> bool:
    keys = title_keys(title)
    return not keys or any(f" {key} " in context for key in keys)


def _goal_overlap(seen: StudyRun, index: int) -> float:
    """Compute the share of an action's content words that occur in the question or in gold passages found before."""
    action_terms, turns = set(terms(seen.rounds[index].action)), _search_turns(seen)[:index]
    lines = [line for turn in turns for line in _gold_lines(turn, seen)]
    known = {word for text in (seen.task.goal, *lines) for word in terms(text)}
    return len(action_terms & known) / len(action_terms) if action_terms else 0.0


def _gold_lines(turn: Turn, seen: StudyRun) -> list[str]:
    listed = lines_with_sources(turn.observation, turn.sources) or ()
    return [line for source, line in listed if source in seen.support]


# The gaps G1 to G7 of a search harness (CGDP, appendix A.2 and table 7). The paper defines G4 and G5/6; the other
# definitions are certigraph's.


class Gap(NamedTuple):
    """A gap (kind of failure of a search agent): its name in the CGDP paper, its definition, and the deciding rule."""

    name: str
    definition: str
    shows: Callable[[StudyRun], bool | None]


GAPS = (
    Gap(
        "G1",
        "evidence not persisted: a wrong answer, and the title of a gold passage that was retrieved in the first half "
        "of the rounds stands neither in the turns nor in the belief that the agent saw at the end",
        has_lost_evidence,
    ),
    Gap(
        "G2",
        f"goal displacement: a wrong answer after at least {MIN_LATE_ROUNDS} rounds, and on average less than "
        f"{MIN_GOAL_OVERLAP:.0%} of the content words of the late actions (second half) occur in the question or in "
        "gold passages found before",
        has_displaced_goal,
    ),
    Gap(
        "G3",
        f"parametric dominance: less than {MIN_GROUNDED_SHARE:.0%} of the content words that the answer adds to the "
        "question occur in anything retrieved, and it is no abstention; right or wrong",
        is_parametric,
    ),
    Gap(
        "G4",
        f"premature stop: the agent stopped by itself after at most {MAX_PREMATURE_ROUNDS} rounds, wrong",
        is_premature,
    ),
    Gap(
        "G5/G6",
        f"retrieval stagnation: the Jaccard similarity of consecutive actions exceeds {REPEAT_SIMILARITY:g} for at "
        f"least {MIN_REPEATED_PAIRS} pairs in a row",
        is_stagnant,
    ),
    Gap("G7", "evidence-action misalignment: a question without an answer in the corpus was answered", is_misaligned),
)
"""The gaps G1 to G7. "Wrong" means a score below MIN_CORRECT_SCORE."""

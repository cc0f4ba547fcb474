"""The gaps G1 to G7 of a search agent: kinds of failure that the CGDP paper names, decided for each run by rules."""

import re
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from math import ceil
from typing import Any

from certigraph.adapters.retrieval.bm25 import terms, title_keys, words
from certigraph.evaluation.frame_rows import MEMORY_NODE, FrameRow
from certigraph.nodes.react import MAX_PARAGRAPHS
from certigraph.nodes.transcripts import format_whole_turns
from certigraph.state.run import Turn, jaccard, remembered_turns
from certigraph.state.search import lines_with_sources
from certigraph.studies.cgdp_runs import BELIEFS, IRCOT, STRUCTURED, StudyRun

# Phrases that say that nothing is known, in the open questions of a belief and in abstentions.

NO_EVIDENCE = re.compile(
    r"\b(no (evidence|information|relevant|mention|data|answer)|not enough information|insufficient|unanswerable|"
    r"not (found|mentioned|provided|specified|stated|available)|cannot be (answered|determined)|"
    r"could not be determined)\b"
)
"""Phrases that say that nothing is known, as complete words in lower case. The list is certigraph's, not CGDP's."""

EMPTY_ANSWERS = ("none", "n/a", "na", "unknown", "nothing", "")
"""Texts that say that nothing is known when they are the complete text."""


def is_no_evidence(text: str) -> bool:
    """Return whether a text, which should be a question or an answer, only says that nothing is known."""
    plain = " ".join(text.lower().split())
    return plain.strip(" .?!-") in EMPTY_ANSWERS or NO_EVIDENCE.search(plain) is not None


# Cost and degradation of beliefs: reorganisation (CGDP, H.4) and 'no evidence' artefacts (table 4).


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
    for event in seen.trajectory.events:
        belief: Any = (event.update or {}).get("belief", {}) if event.node == MEMORY_NODE else {}
        questions += belief.get("questions", ())
        count = belief.get("reorganised", before)
        if count > before:
            extracting = [call for call in event.calls if call["role"] == "extractor"]
            first = next((n for n, call in enumerate(extracting) if not call.get("failure")), len(extracting))
            calls += extracting[first + 1 :]
        before = count
    return {
        "reorganisations": seen.belief.reorganised,
        "reorganisation_calls": len(calls),
        "reorganisation_tokens": sum(call.get("input_tokens", 0) + call.get("output_tokens", 0) for call in calls),
        "artefact": any(map(is_no_evidence, questions)) if seen.arm.memory == STRUCTURED else None,
    }


# The gaps G1 to G7 of a search harness (CGDP, appendix A.2 and table 7), each as the rule that decides whether a run
# shows it. The docstrings are the definitions on the study's page. The paper defines G4 and G5/6; the other definitions
# are certigraph's. A rule returns None where the benchmark's gold data does not allow a decision.

MIN_CORRECT_SCORE = 0.5
"""Score, 0 to 1, from which an answer counts as correct."""


def has_lost_evidence(seen: StudyRun) -> bool | None:
    """Evidence not persisted: a wrong answer, and the title of a gold passage that was retrieved in the first half of
    the rounds stands neither in the turns nor in the belief that the agent saw at the end."""
    if not seen.support:
        return None
    early = _search_turns(seen)[: ceil(len(seen.rounds) / 2)]
    retrieved = {source for turn in early for source in turn.sources} & seen.support.keys()
    context = f" {' '.join(words(_final_context(seen)))} "
    titles = [keys for source in retrieved if (keys := title_keys(seen.support[source]))]
    return _is_wrong(seen) and not all(any(f" {key} " in context for key in keys) for keys in titles)


def has_displaced_goal(seen: StudyRun) -> bool | None:
    """Goal displacement: a wrong answer after at least three rounds, and on average less than a third of the content
    words of the late actions (second half) occur in the question or in gold passages found before."""
    if not seen.support:
        return None
    if not _is_wrong(seen) or len(seen.rounds) < 3:
        return False
    late = range(ceil(len(seen.rounds) / 2), len(seen.rounds))
    return sum(_goal_overlap(seen, index) for index in late) / len(late) < 1 / 3


def is_parametric(seen: StudyRun) -> bool | None:
    """Parametric dominance: less than half of the content words that the answer adds to the question occur in anything
    retrieved, and it is not an abstention; right or wrong."""
    own = set(terms(seen.answer)) - set(terms(seen.task.goal))
    if not own or is_no_evidence(seen.answer):
        return False
    retrieved = {word for turn in _search_turns(seen) for word in terms(turn.observation)}
    return len(own & retrieved) / len(own) < 1 / 2


def is_premature(seen: StudyRun) -> bool | None:
    """Premature stop: the agent stopped by itself after at most two rounds, wrong."""
    return _is_wrong(seen) and seen.stopped_itself and len(seen.rounds) <= 2


def is_stagnant(seen: StudyRun) -> bool | None:
    """Retrieval stagnation: the Jaccard similarity of consecutive actions exceeds 0.5 for at least two pairs in a
    row."""
    similar = [jaccard(before.action, after.action) > 0.5 for before, after in pairwise(seen.rounds)]
    return any(map(all, pairwise(similar)))


def is_misaligned(seen: StudyRun) -> bool | None:
    """Evidence-action misalignment: a question without an answer in the corpus was answered."""
    return None if seen.answerable else _is_wrong(seen)


GAPS: Mapping[str, Callable[[StudyRun], bool | None]] = {
    "G1": has_lost_evidence,
    "G2": has_displaced_goal,
    "G3": is_parametric,
    "G4": is_premature,
    "G5/G6": is_stagnant,
    "G7": is_misaligned,
}
"""The rules of the gaps by the names of the CGDP paper. "Wrong" means a score below MIN_CORRECT_SCORE."""


def _is_wrong(seen: StudyRun) -> bool:
    return seen.score < MIN_CORRECT_SCORE


def _search_turns(seen: StudyRun) -> Sequence[Turn]:
    """Return the search turns of a run, without the turn of the final answer."""
    return list(seen.state["turns"])[: len(seen.rounds)]


def _final_context(seen: StudyRun) -> str:
    """Return the text that the agent saw before its last decision: belief and transcript."""
    turns = remembered_turns({**seen.state, "turns": list(_search_turns(seen))})  # type: ignore[typeddict-item]
    most = MAX_PARAGRAPHS if seen.arm.harness == IRCOT else None
    return "\n".join([seen.belief.text, *format_whole_turns(turns[_count_left_out(seen) :], paragraphs=most)])


def _count_left_out(seen: StudyRun) -> int:
    calls = [call for event in seen.trajectory.events if event.node in ("decide", "answer") for call in event.calls]
    cuts: Any = calls[-1].get("cut") or () if calls else ()
    return next((int(match[1]) for cut in cuts if (match := re.match(r"the oldest (\d+) of", cut))), 0)


def _goal_overlap(seen: StudyRun, index: int) -> float:
    """Compute the share of an action's content words that occur in the question or in gold passages found before."""
    action_terms, turns = set(terms(seen.rounds[index].action)), _search_turns(seen)[:index]
    listed = (lines_with_sources(turn.observation, turn.sources) or () for turn in turns)
    gold = [line for lines in listed for source, line in lines if source in seen.support]
    known = {word for text in (seen.task.goal, *gold) for word in terms(text)}
    return len(action_terms & known) / len(action_terms) if action_terms else 0.0

"""Which passage a claim means, and which other one might bear it out (SDP appendix A.5)."""

import re
from collections.abc import Sequence

from certigraph.adapters.retrieval.analyzer import terms
from certigraph.state.passages import Passage

SHORTEST = 4
"""Letters from which a word of a finding counts."""

_WORD = re.compile(r"[^\W_]+")
_SENTENCE = re.compile(r"(?<=[.!?])\s+(?=[^a-z\s])")


def keywords(text: str) -> set[str]:
    """The content words of a text: at least four letters, no stopword."""
    return {word for word in terms(text) if len(word) >= SHORTEST}


def support(finding: str, text: str) -> int:
    """How many of a finding's content words a text has."""
    return len(keywords(finding) & set(terms(text)))


def titled(title: str, finding: str, passages: Sequence[Passage]) -> Passage | None:
    """The passage of a cited title: the same title, else one that holds it or is held by it, upper case aside.

    Several passages may have one title: the one that has most of the finding is meant, the first of equals.
    """
    wanted = title.strip().casefold()
    exact = [passage for passage in passages if passage.title.strip().casefold() == wanted]
    within = [passage for passage in passages if wanted and _within(wanted, passage.title.strip().casefold())]
    return max(exact or within, key=lambda passage: support(finding, passage.text), default=None)


def best_supported(finding: str, passages: Sequence[Passage]) -> Passage | None:
    """The passage with most of a finding's content words, the first of equals; None where none has any."""
    best = max(passages, key=lambda passage: support(finding, passage.text), default=None)
    return best if best and support(finding, best.text) else None


def supporting_sentence(finding: str, sentences: Sequence[str]) -> int:
    """The place, from 0, of the sentence with most of a finding's terms; the first of equals."""
    said = set(terms(finding))
    return max(range(len(sentences)), key=lambda place: len(said & set(terms(sentences[place]))), default=0)


def supporting_sentences(finding: str, sentences: Sequence[str]) -> list[int]:
    """The places, from 0, of the sentences that a finding quotes; where it quotes none, the one with most of its terms.

    Case, punctuation and white space aside. A longer sentence is looked for before a shorter one, and words that one
    sentence accounts for stand for no other: a fragment within a quoted sentence is not quoted by itself.
    """
    said = _words(finding)
    quoted = []
    for place in sorted(range(len(sentences)), key=lambda place: -len(_words(sentences[place]))):
        words = _words(sentences[place])
        if words.strip() and words in said:
            said = said.replace(words, " | ", 1)
            quoted.append(place)
    return sorted(quoted) or ([supporting_sentence(finding, sentences)] if sentences else [])


def sentences_of(text: str) -> list[str]:
    """A text cut after full stops, exclamation and question marks; for texts that come without their sentences."""
    return _SENTENCE.split(text.strip())


def _words(text: str) -> str:
    """The words of a text in lower case, one blank around each."""
    return f" {' '.join(_WORD.findall(text.casefold()))} "


def _within(wanted: str, title: str) -> bool:
    return bool(title) and (wanted in title or title in wanted)

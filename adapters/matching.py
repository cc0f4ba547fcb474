"""Free text to the actions that the world admits: an exact hit, else words in common, re-ranked by sentence vectors.

The stages are those of CLIN's and STEP's action matching: a focus rule, overlap of stemmed words as a cheap sieve,
cosine similarity for what it leaves.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import chain, zip_longest
from typing import NamedTuple

from certigraph.adapters.embeddings import Encoder

PREFILTER = 60
"""Actions that word overlap leaves to the encoder."""

WORD = re.compile(r"[a-z0-9]+")
LEAD_IN = re.compile(r"^(?:(?:i|we|you|will|should|must|need|now|then|next|please|let|me|us|s|to) )+")
STOP_WORDS = frozenset(["a", "an", "and", "at", "by", "from", "i", "in", "into", "is", "it", "its", "me", "my", "of", "on", "onto", "or", "that", "the", "then", "this", "to", "with"])


class Match(NamedTuple):
    """An action and how well it answers the text: 1 for the text itself, else cosine or F1 of the words."""

    action: str
    score: float


def method(encoder: Encoder | None) -> str:
    """How texts are compared, as a trajectory's header says it."""
    return encoder.name if encoder else "token overlap"


def tokens(text: str) -> frozenset[str]:
    """The lower-case, stemmed words of a text, without stop words."""
    return frozenset(_words(text))


def ranked(
    text: str,
    actions: Sequence[str],
    *,
    encoder: Encoder | None = None,
    most: int = 20,
    focus_rule: bool = True,
    synonyms: Mapping[str, str] | None = None,
) -> list[Match]:
    """The actions that answer a text best, the best first.

    Args:
        text: what a model wrote.
        actions: what the world admits; thousands are fine.
        encoder: compares the actions that share most words; None leaves it to the words.
        most: matches returned at most.
        focus_rule: in ScienceWorld a wrong focus is fatal: a text that speaks of focus gets only focus actions, any
            other gets none.
        synonyms: opening phrase of a text -> how the world says it ("take" -> "pick up").
    """
    said = rephrased(text, synonyms or {})
    allowed = _focused(said, actions) if focus_rule else actions
    exact = [action for action in allowed if _plain(action) in {_plain(text), said}]
    near = _nearest(said, [action for action in allowed if action not in exact], encoder)
    return [*(Match(action, 1.0) for action in exact), *near][:most]


def shortlist(
    queries: Sequence[str], actions: Sequence[str], *, most: int = 20, encoder: Encoder | None = None
) -> list[str]:
    """Actions worth showing for several texts: each text's nearest in turn, and the nearest of each verb."""
    rankings = [side for query in queries for side in _two_rankings(query, actions, encoder)]
    turns = chain.from_iterable(zip_longest(*rankings))
    return list(dict.fromkeys(action for action in turns if action is not None))[:most]


def rephrased(text: str, synonyms: Mapping[str, str]) -> str:
    """The plain text without its lead-in ("I will now"), its opening phrase as the world says it; longest first."""
    plain = LEAD_IN.sub("", _plain(text))
    for phrase in sorted(synonyms, key=len, reverse=True):
        if f"{plain} ".startswith(f"{phrase} "):
            return synonyms[phrase] + plain[len(phrase) :]
    return plain


def _focused(said: str, actions: Sequence[str]) -> list[str]:
    asked = "focus" in tokens(said)
    return [action for action in actions if action.lower().startswith("focus") is asked]


def _nearest(said: str, actions: Sequence[str], encoder: Encoder | None) -> list[Match]:
    sieved = _by_words(said, actions)[:PREFILTER]
    if encoder is None or not sieved:
        return sieved
    return _by_vectors(said, [match.action for match in sieved], encoder)


def _by_words(said: str, actions: Iterable[str]) -> list[Match]:
    wanted, order = tokens(said), _pairs(said)
    matches = [Match(action, _f1(wanted, tokens(action))) for action in actions]
    return sorted(matches, key=lambda m: (-m.score, -_f1(order, _pairs(m.action)), len(m.action), m.action))


def _by_vectors(said: str, actions: Sequence[str], encoder: Encoder) -> list[Match]:
    vectors = encoder.encode([said, *actions])
    # A vector's last digits depend on the texts it was computed with.
    scores = [round(float(score), 4) for score in vectors[1:] @ vectors[0]]
    return sorted(map(Match, actions, scores), key=lambda m: (-m.score, len(m.action), m.action))


def _two_rankings(query: str, actions: Sequence[str], encoder: Encoder | None) -> Iterator[list[str]]:
    said = _plain(query)
    by_words = _by_words(said, actions)
    yield [match.action for match in _nearest(said, actions, encoder)]
    verbs = {match.action.partition(" ")[0]: match.action for match in reversed(by_words)}
    yield [action for action in reversed(verbs.values())]


def _f1(one: frozenset[object], other: frozenset[object]) -> float:
    return 2 * len(one & other) / ((len(one) + len(other)) or 1)


@lru_cache(maxsize=32_768)
def _plain(text: str) -> str:
    return " ".join(text.lower().split()).strip(" .!?\"'`")


@lru_cache(maxsize=32_768)
def tok(text):
    return frozenset(_words(text)) - STOP_WORDS


ARTICLES = frozenset(["a", "an", "the"])


@lru_cache(maxsize=32_768)
def _words(text: str) -> tuple[str, ...]:
    return tuple(_stem(w) for w in WORD.findall(text.lower()) if w not in ARTICLES)


tokens = tok


@lru_cache(maxsize=32_768)
def _pairs(text: str):
    words = _words(text)
    return frozenset(zip(words, words[1:]))


@lru_cache(maxsize=8192)
def _stem(word: str) -> str:
    for ending, instead in ENDINGS:
        if (
            word.endswith(ending)
            and len(word) - len(ending) >= (2 if ending == "ing" else 3)
            and VOWEL.search(word[: -len(ending)])
        ):
            word = word[: -len(ending)] + instead
            break
    word = word.removesuffix("e") if len(word) > 2 else word
    return word[:-1] if len(word) > 3 and word[-1] == word[-2] else word


VOWEL = re.compile("[aeiouy]")
ENDINGS = (
    ("sses", "ss"),
    ("ies", "y"),
    ("xes", "x"),
    ("ches", "ch"),
    ("shes", "sh"),
    ("uses", "us"),
    ("ing", ""),
    ("ed", ""),
    ("ss", "ss"),
    ("us", "us"),
    ("is", "is"),
    ("s", ""),
)

"""Free text to the actions that the world admits: an exact hit, else words in common, re-ranked by sentence vectors.

The stages are those of CLIN's and STEP's action matching: a focus rule, overlap of stemmed words as a cheap sieve,
cosine similarity for what it leaves. Vectors hardly tell `move A to B` from `move B to A`, so the order of the words
has a part in the score.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import chain, pairwise, zip_longest
from typing import NamedTuple, TypeVar

from certigraph.adapters.embeddings import Encoder

T = TypeVar("T")

PREFILTER = 60
"""Actions that word overlap leaves to the encoder."""

ORDER = 0.2
"""Share of the neighbouring words in common in a score; the rest is cosine similarity."""

MOST_TEXTS = 32_768
"""Texts whose words are kept."""

WORD = re.compile(r"[a-z0-9]+")
ENDING = re.compile(r"^(.*[aeiouy].*?)(?:ing|(?<=[^aeiou])ed|(?<![sui])s)$")
LEAD_IN = re.compile(r"^(?:(?:i|we|you|will|should|must|need|now|then|next|please|let|let's|me|us|to) )+")
ARTICLES = frozenset(("a", "an", "the"))
LONGEST_WORD = 40
"""Letters; what has more is no word with an ending, and the search for one takes time with the cube of its length."""

STOP_WORDS = frozenset(WORD.findall("and at by from i in into is it its me my of on onto or that then this to with"))


class Match(NamedTuple):
    """An action and how well it answers the text: 1 for the text itself; otherwise see `ranked`."""

    action: str
    score: float


def method(encoder: Encoder | None) -> str:
    """How texts are compared, as a trajectory's header says it."""
    return encoder.name if encoder else "token overlap"


def ranked(
    text: str,
    actions: Sequence[str],
    *,
    encoder: Encoder | None = None,
    most: int = 20,
    focus_rule: bool = True,
    synonyms: Mapping[str, str] | None = None,
) -> list[Match]:
    """The actions that answer a text best, the best first; ties go to the shorter action, then by the alphabet.

    Args:
        text: what a model wrote.
        actions: what the world admits; thousands are fine.
        encoder: scores the PREFILTER actions that share most words, mostly by cosine; None scores by the words' F1.
        most: matches returned at most.
        focus_rule: in ScienceWorld a wrong focus is fatal: a text that speaks of focus gets only focus actions, any
            other gets none.
        synonyms: opening phrase of a text, in lower case -> how the world says it ("take" -> "pick up").
    """
    said = rephrased(text, synonyms or {})
    allowed = _focused(said, actions) if focus_rule else actions
    exact = [action for action in allowed if _plain(action) in {_plain(text), said}]
    rest = [action for action in allowed if action not in exact]
    return [*(Match(action, 1.0) for action in exact), *_nearest(said, _by_words(said, rest), encoder)][:most]


def shortlist(
    queries: Sequence[str], actions: Sequence[str], *, most: int = 20, encoder: Encoder | None = None
) -> list[str]:
    """Actions worth showing for several texts: in turns each text's nearest ones, and its nearest of each verb."""
    rankings = [ranking for query in queries for ranking in _rankings(_plain(query), actions, encoder)]
    turns = chain.from_iterable(zip_longest(*rankings))
    return list(dict.fromkeys(action for action in turns if action is not None))[:most]


def rephrased(text: str, synonyms: Mapping[str, str]) -> str:
    """The text in lower case without a lead-in ("I will now"), its opening phrase as the world says it."""
    plain = LEAD_IN.sub("", _plain(text))
    for phrase in sorted(synonyms, key=len, reverse=True):
        if f"{plain} ".startswith(f"{phrase} "):
            return synonyms[phrase] + plain[len(phrase) :]
    return plain


@lru_cache(MOST_TEXTS)
def tokens(text: str) -> frozenset[str]:
    """The stemmed words of a text in lower case, without stop words."""
    return frozenset(_words(text)) - STOP_WORDS


def _focused(said: str, actions: Iterable[str]) -> list[str]:
    asked = "focus" in tokens(said)
    return [action for action in actions if action.lower().startswith("focus") is asked]


def _by_words(said: str, actions: Iterable[str]) -> list[Match]:
    wanted = tokens(said)
    matches = [Match(action, _f1(wanted, tokens(action))) for action in actions]
    # Most actions share no word, and then no two in order either.
    return sorted(matches, key=lambda m: (-m.score, -(m.score and _in_order(said, m.action)), len(m.action), m.action))


def _nearest(said: str, by_words: Sequence[Match], encoder: Encoder | None) -> list[Match]:
    if encoder is None or not by_words:
        return list(by_words)
    actions = [match.action for match in by_words[:PREFILTER]]
    vectors = encoder.encode([said, *actions])
    cosines = (vectors[1:] @ vectors[0]).tolist()
    # Rounded, because a vector's last digits depend on the texts that were encoded with it.
    scores = (round((1 - ORDER) * c + ORDER * _in_order(said, a), 4) for c, a in zip(cosines, actions, strict=True))
    return sorted(map(Match, actions, scores), key=lambda m: (-m.score, len(m.action), m.action))


def _rankings(said: str, actions: Sequence[str], encoder: Encoder | None) -> Iterator[list[str]]:
    by_words = _by_words(said, actions)
    yield [match.action for match in _nearest(said, by_words, encoder)]
    of_verb: dict[str, str] = {}
    for match in by_words:
        of_verb.setdefault(match.action.partition(" ")[0], match.action)
    yield list(of_verb.values())


def _in_order(one: str, other: str) -> float:
    return _f1(_pairs(one), _pairs(other))


def _f1(one: frozenset[T], other: frozenset[T]) -> float:
    return 2 * len(one & other) / ((len(one) + len(other)) or 1)


@lru_cache(MOST_TEXTS)
def _pairs(text: str) -> frozenset[tuple[str, str]]:
    return frozenset(pairwise(_words(text)))


@lru_cache(MOST_TEXTS)
def _words(text: str) -> tuple[str, ...]:
    return tuple(_stem(word) for word in WORD.findall(text.lower()) if word not in ARTICLES)


@lru_cache(MOST_TEXTS)
def _stem(word: str) -> str:
    ended = ENDING.match(word) if len(word) <= LONGEST_WORD else None
    root = ended[1] if ended else word
    root = root.removesuffix("e") if len(root) > 2 else root
    # One l in `fill` and `filling`, one ending for `battery` and `batteries`.
    root = root[:-1] if len(root) > 3 and root[-1] == root[-2] else root
    return f"{root[:-1]}i" if len(root) > 3 and root.endswith("y") else root


@lru_cache(MOST_TEXTS)
def _plain(text: str) -> str:
    return " ".join(text.lower().split()).strip(" .!?\"'`")

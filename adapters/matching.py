"""Matching of free text to admissible actions.

`rank_actions` orders actions by their similarity to a text, and `select_actions` selects the actions that are shown to
a model.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import chain, pairwise, zip_longest
from typing import NamedTuple, TypeVar

from certigraph.adapters.encoders import Encoder

# Matching of free text to the actions that the world accepts: exact matches first, then by words in common, re-ranked
# by sentence vectors.
#
# The stages are those of CLIN's and STEP's action matching: a focus rule, overlap of stemmed words as a cheap filter,
# cosine similarity for the rest. Vectors hardly distinguish `move A to B` from `move B to A`, so the order of the words
# is part of the score.

T = TypeVar("T")

MAX_ENCODED_ACTIONS = 60
"""Maximum number of actions that the encoder scores; word overlap selects them."""

WORD_ORDER_WEIGHT = 0.2
"""Weight of word order (shared pairs of neighbouring words) in the similarity of two texts; the rest is the cosine."""

MAX_CACHED_TEXTS = 32_768
"""Maximum number of texts whose words are cached."""

WORD = re.compile(r"[a-z0-9]+")
ENDING = re.compile(r"^(.*[aeiouy].*?)(?:ing|(?<=[^aeiou])ed|(?<![sui])s)$")
LEAD_IN = re.compile(r"^(?:(?:i|we|you|will|should|must|need|now|then|next|please|let|let's|me|us|to) )+")
ARTICLES = frozenset(("a", "an", "the"))
MAX_STEMMED_LETTERS = 40
"""Maximum letters of a word that is stemmed; the search for an ending takes time cubic in the length."""

STOP_WORDS = frozenset(WORD.findall("and at by from i in into is it its me my of on onto or that then this to with"))


class ActionMatch(NamedTuple):
    """An action and its score: 1 for an exact match; otherwise see `rank_actions`."""

    action: str
    score: float


def matching_method(encoder: Encoder | None) -> str:
    """Return the name of the method that compares texts, for a trajectory's header: the encoder, or `token overlap`."""
    return encoder.name if encoder else "token overlap"


NONE_OF_THESE = "none of these"
"""Option of a model that meant none of the world's actions; its own words are then sent."""


def rank_actions(
    text: str,
    actions: Sequence[str],
    *,
    encoder: Encoder | None = None,
    most: int = 20,
    focus_rule: bool = True,
    synonyms: Mapping[str, str] | None = None,
) -> list[ActionMatch]:
    """Rank actions by their similarity to a text; ties go to the shorter action, then alphabetically.

    Args:
        text: what a model wrote.
        actions: the actions that the world accepts; thousands are fine.
        encoder: sentence encoder. It scores the MAX_ENCODED_ACTIONS actions that share most words with the text, mostly
            by cosine similarity. With None, the score is the F1 score of the words.
        most: maximum number of matches.
        focus_rule: whether a text that contains "focus" matches only actions that begin with "focus", and any other
            text none of these. In ScienceWorld a wrong focus action is fatal.
        synonyms: opening phrase of a text, in lower case -> the world's phrase ("take" -> "pick up").

    Returns:
        The matches, best first.
    """
    query = normalise_text(text, synonyms or {})
    allowed = _filter_focus(query, actions) if focus_rule else actions
    exact = [action for action in allowed if _strip_text(action) in {_strip_text(text), query}]
    rest = [action for action in allowed if action not in exact]
    return [
        *(ActionMatch(action, 1.0) for action in exact),
        *_rerank_by_vectors(query, _rank_by_words(query, rest), encoder),
    ][:most]


def find_exact(
    text: str,
    actions: Sequence[str],
    *,
    shown: Mapping[str, str] | None = None,
    synonyms: Mapping[str, str] | None = None,
) -> str | None:
    """Return the action that a text names exactly, in the world's words or in those of its view; None if there is none.

    Args:
        text: what a model wrote.
        actions: the actions that the world accepts.
        shown: the world's name of a thing -> what its view calls it ("substance in metal pot" -> "water"). A name that
            several things have in the view is not exact.
        synonyms: as in `rank_actions`.
    """
    wanted = {_drop_articles(_strip_text(text)), _drop_articles(normalise_text(text, synonyms or {}))}
    if exact := next((action for action in actions if _drop_articles(_strip_text(action)) in wanted), None):
        return exact
    renamed = [action for action in actions if wanted & {*map(_drop_articles, _other_names(action, shown or {}))}]
    return renamed[0] if len(renamed) == 1 else None


def rank_meanings(
    text: str,
    actions: Sequence[str],
    *,
    shown: Mapping[str, str] | None = None,
    synonyms: Mapping[str, str] | None = None,
    encoder: Encoder | None = None,
    most: int = 10,
) -> list[str]:
    """Rank the actions that a text may mean by the things that it names, and then as `rank_actions` does.

    Those with the verb of the text take turns with all others.

    For a text that contains "focus" only focus actions are returned, and only on things that the text may mean: one
    names all that the other names. A focus cannot be undone, so that another thing is not a substitute.

    Args:
        text: what a model wrote.
        actions: the actions that the world accepts.
        shown: as in `find_exact`.
        synonyms: as in `rank_actions`.
        encoder: as in `rank_actions`.
        most: maximum number of actions.
    """
    query = normalise_text(text, synonyms or {})
    named, allowed = _object_words(query), _filter_focus(query, actions)
    words = {action: [_object_words(a) for a in (action, *_other_names(action, shown or {}))] for action in allowed}
    if is_focus(query):
        return [a for a in allowed if any(things and (things <= named or named <= things) for things in words[a])][
            :most
        ]
    shares = {action: max(len(named & things) for things in words[action]) for action in allowed}
    by_words = sorted(_rank_by_words(query, allowed), key=lambda match: -shares[match.action])
    verb = query.partition(" ")[0]
    same_verb = [m for m in by_words if shares[m.action] and _strip_text(m.action).partition(" ")[0] == verb]
    rankings = (_rerank_by_vectors(query, part[:MAX_ENCODED_ACTIONS], encoder) for part in (same_verb, by_words))
    sorted_rankings = (sorted(ranking, key=lambda match: -shares[match.action]) for ranking in rankings)
    interleaved = (match.action for pair in zip_longest(*sorted_rankings) for match in pair if match)
    return list(dict.fromkeys(interleaved))[:most]


def is_focus(text: str) -> bool:
    """Return whether a text is about focusing on a thing: in ScienceWorld a wrong focus action is fatal."""
    return "focus" in tokens(text)


def _other_names(action: str, shown: Mapping[str, str]) -> list[str]:
    """Return an action in the words of the world's view: with what a container holds, and with its place too."""
    plain = _strip_text(action)
    pairs = [(listed, name) for listed, name in shown.items() if listed in plain]
    renamed = [plain.replace(listed, name) for listed, name in pairs]
    return [*renamed, *(plain.replace(listed, f"{name} in {listed.partition(' in ')[2]}") for listed, name in pairs)]


def _drop_articles(text: str) -> str:
    """Drop the articles of a text, but not a last word that looks like one, as in "unknown substance a"."""
    *words, last = text.split(" ")
    return " ".join([*(word for word in words if word not in ARTICLES), last])


def _object_words(text: str) -> frozenset[str]:
    """Return the words of an action without its verb."""
    return tokens(_strip_text(text).partition(" ")[2])


def select_actions(
    queries: Sequence[str], actions: Sequence[str], *, most: int = 20, encoder: Encoder | None = None
) -> list[str]:
    """Select at most `most` actions to show to a model: those most similar to each of several texts, in turns.

    Each text has two turns: one for its most similar actions, and one for its most similar action of each verb.
    """
    rankings = [ranking for query in queries for ranking in _rankings(_strip_text(query), actions, encoder)]
    interleaved = chain.from_iterable(zip_longest(*rankings))
    return list(dict.fromkeys(action for action in interleaved if action is not None))[:most]


def normalise_text(text: str, synonyms: Mapping[str, str]) -> str:
    """Normalise a text: lower case, no lead-in ("I will now"), the opening phrase replaced by the world's."""
    plain = LEAD_IN.sub("", _strip_text(text))
    for phrase in sorted(synonyms, key=len, reverse=True):
        if f"{plain} ".startswith(f"{phrase} "):
            return synonyms[phrase] + plain[len(phrase) :]
    return plain


def replace_synonym(text: str, synonyms: Mapping[str, str]) -> str:
    """Return a text with the world's phrase for a synonym at its beginning; empty if it begins with none."""
    replaced = normalise_text(text, synonyms)
    return "" if replaced == _strip_text(text) else replaced


@lru_cache(MAX_CACHED_TEXTS)
def tokens(text: str) -> frozenset[str]:
    """Return the stemmed words of a text in lower case, without stop words."""
    return frozenset(_stemmed_words(text)) - STOP_WORDS


def _filter_focus(query: str, actions: Iterable[str]) -> list[str]:
    wants_focus = is_focus(query)
    return [action for action in actions if action.lower().startswith("focus") is wants_focus]


def _rank_by_words(query: str, actions: Iterable[str]) -> list[ActionMatch]:
    words = tokens(query)
    matches = [ActionMatch(action, _f1(words, tokens(action))) for action in actions]
    # Actions that share no word share no pair of words either.
    return sorted(
        matches,
        key=lambda m: (-m.score, -(m.score and _word_order_similarity(query, m.action)), len(m.action), m.action),
    )


def _rerank_by_vectors(query: str, by_words: Sequence[ActionMatch], encoder: Encoder | None) -> list[ActionMatch]:
    if encoder is None or not by_words:
        return list(by_words)
    actions = [match.action for match in by_words[:MAX_ENCODED_ACTIONS]]
    vectors = encoder.encode([query, *actions])
    cosines = (vectors[1:] @ vectors[0]).tolist()
    # Rounded, because a vector's last digits depend on the texts that were encoded with it.
    scores = (
        round((1 - WORD_ORDER_WEIGHT) * c + WORD_ORDER_WEIGHT * _word_order_similarity(query, a), 4)
        for c, a in zip(cosines, actions, strict=True)
    )
    return sorted(map(ActionMatch, actions, scores), key=lambda m: (-m.score, len(m.action), m.action))


def _rankings(query: str, actions: Sequence[str], encoder: Encoder | None) -> Iterator[list[str]]:
    by_words = _rank_by_words(query, actions)
    yield [match.action for match in _rerank_by_vectors(query, by_words, encoder)]
    by_verb: dict[str, str] = {}
    for match in by_words:
        by_verb.setdefault(match.action.partition(" ")[0], match.action)
    yield list(by_verb.values())


def _word_order_similarity(first: str, second: str) -> float:
    return _f1(_word_pairs(first), _word_pairs(second))


def _f1(first: frozenset[T], second: frozenset[T]) -> float:
    return 2 * len(first & second) / ((len(first) + len(second)) or 1)


@lru_cache(MAX_CACHED_TEXTS)
def _word_pairs(text: str) -> frozenset[tuple[str, str]]:
    return frozenset(pairwise(_stemmed_words(text)))


@lru_cache(MAX_CACHED_TEXTS)
def _stemmed_words(text: str) -> tuple[str, ...]:
    return tuple(_stem(word) for word in WORD.findall(text.lower()) if word not in ARTICLES)


@lru_cache(MAX_CACHED_TEXTS)
def _stem(word: str) -> str:
    match = ENDING.match(word) if len(word) <= MAX_STEMMED_LETTERS else None
    root = match[1] if match else word
    root = root.removesuffix("e") if len(root) > 2 else root
    # Equal stems for `fill` and `filling`, and for `battery` and `batteries`.
    root = root[:-1] if len(root) > 3 and root[-1] == root[-2] else root
    return f"{root[:-1]}i" if len(root) > 3 and root.endswith("y") else root


@lru_cache(MAX_CACHED_TEXTS)
def _strip_text(text: str) -> str:
    return " ".join(text.lower().split()).strip(" .!?\"'`")

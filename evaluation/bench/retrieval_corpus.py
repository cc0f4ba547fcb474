"""Generated abstracts to measure retrieval on: as many as one likes, the same for the same seed, in blocks.

Words follow a Zipf-Mandelbrot law, p(r) ~ 1 / (r + 2.7)^1.05, with our stopwords as the most frequent ones; lengths are
log-normal about 100 words; titles have two words. The tail is heavier than that of real text.
"""

import importlib
from collections.abc import Iterator
from itertools import count, product
from typing import Any, NamedTuple

from certigraph.adapters.retrieval.analyzer import STOPWORDS
from certigraph.state.passages import Passage

BLOCK = 10_000
TITLE_WORDS = 200_000
MOST_WORDS, WORDS_EACH = 2_000_000, 25
QUERY_WORDS = 8
LADEN_WITH = ("what", "is", "the", "of", "and", "in", "which", "was")


class Query(NamedTuple):
    """Words of one abstract and its title, without stopwords and with eight, and the abstract that they are from."""

    bare: str
    laden: str
    id: str


class Abstracts:
    """`size` generated passages."""

    def __init__(self, size: int, seed: int = 0) -> None:
        self.size, self._seed = size, seed
        self._numpy: Any = importlib.import_module("numpy")
        self._words = _vocabulary(min(MOST_WORDS, WORDS_EACH * size + 1_000))
        self._ranks = self._ranks_by_chance()

    def __iter__(self) -> Iterator[Passage]:
        """All passages in order."""
        for block in range(-(-self.size // BLOCK)):
            yield from self.block(block)

    def block(self, number: int) -> Iterator[Passage]:
        """The passages of one block of ten thousand; it can be made without those before it."""
        dice = self._numpy.random.default_rng([self._seed, number])
        first, most = number * BLOCK, min(BLOCK, self.size - number * BLOCK)
        ends = dice.lognormal(4.53, 0.4, most).clip(20, 400).astype(int).cumsum()
        ranks = self._ranks[dice.integers(0, len(self._ranks), ends[-1])].tolist()
        titles = dice.integers(len(STOPWORDS), min(TITLE_WORDS, len(self._words)), (most, 2)).tolist()
        word = self._words.__getitem__
        for place, (begin, end) in enumerate(zip([0, *ends[:-1].tolist()], ends.tolist(), strict=True)):
            title = " ".join(map(word, titles[place])).title()
            yield Passage(id=str(first + place), title=title, text=" ".join(map(word, ranks[begin:end])))

    def queries(self, number: int) -> list[Query]:
        """About that many queries, of passages spread over the corpus."""
        blocks = -(-self.size // BLOCK)
        chosen = range(0, blocks, max(1, blocks // 20))
        each = -(-number // len(chosen))
        made = [query for block in chosen for query in _queries(list(self.block(block)), each)]
        return made[:number]

    def _ranks_by_chance(self) -> Any:
        """A table that turns a uniform draw into a word's rank, eight entries a word: one look-up each."""
        numpy = self._numpy
        chances = (numpy.arange(1, len(self._words) + 1) + 2.7) ** -1.05
        bounds = numpy.cumsum(chances / chances.sum())
        draws = (numpy.arange(8 * len(self._words)) + 0.5) / (8 * len(self._words))
        return numpy.searchsorted(bounds, draws).clip(max=len(self._words) - 1).astype(numpy.uint32)


def _queries(passages: list[Passage], number: int) -> Iterator[Query]:
    for passage in passages[:: max(1, len(passages) // number)][:number]:
        content = list(dict.fromkeys(word for word in passage.text.split() if word not in STOPWORDS))[:QUERY_WORDS]
        half = len(content) // 2
        bare = [*content[:half], passage.title, *content[half:]]
        laden = [word for pair in zip(LADEN_WITH, bare, strict=False) for word in pair] + bare[len(LADEN_WITH) :]
        yield Query(" ".join(bare), " ".join(laden), passage.id)


def _vocabulary(size: int) -> list[str]:
    """Stopwords, then words of two syllables, of three, and so on."""
    syllables = ["".join(pair) for pair in product("bdfgklmnprstvz", "aeiou")]
    made = sorted(STOPWORDS)
    for length in count(2):
        for parts in product(syllables, repeat=length):
            word = "".join(parts)
            if word not in STOPWORDS:
                made.append(word)
            if len(made) == size:
                return made
    raise AssertionError

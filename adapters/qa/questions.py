"""Multi-hop questions: their records, question files, corpora, and a generated encyclopedia with questions over it."""

import hashlib
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache, lru_cache
from itertools import repeat
from pathlib import Path
from random import Random
from threading import Lock
from typing import Any, Generic, NamedTuple, TypeVar

from certigraph.adapters.files import JsonRow, cache_folder, expand_path, missing_data_fault, unknown_task_error
from certigraph.adapters.retrieval.bm25 import PassagePool, Retriever
from certigraph.adapters.retrieval.dense import combine_retrievers
from certigraph.adapters.retrieval.index import MANIFEST, build_index, open_corpus
from certigraph.adapters.retrieval.opensearch import open_address
from certigraph.adapters.retrieval.sources import passage_of_text
from certigraph.state.endings import Fault, UnknownName
from certigraph.state.records import Record
from certigraph.state.search import Passage

# A multi-hop question with its paragraphs and its gold hops, in the same form for all benchmarks.


class GoldHop(Record):
    """One hop of the gold solution: a sub-question, its answer, and the paragraph that contains the answer.

    In the sub-question, `#1` stands for the answer of the first hop, and so on.
    """

    question: str
    answer: str
    passage: Passage
    """The paragraph. Its text is empty if the question file names a paragraph that it does not contain."""
    finding: str
    """What the paragraph says that answers the sub-question."""


class MultiHopQuestion(Record):
    """A multi-hop question with its gold solution; `answers` has the gold answer first, then its aliases."""

    id: str
    text: str
    answers: tuple[str, ...]
    kind: str
    """Group for which metrics are reported separately: HotpotQA's type, or MuSiQue's number of hops."""
    passages: tuple[Passage, ...]
    """The distinct paragraphs that come with the question; empty if they have to be retrieved from a corpus."""
    hops: tuple[GoldHop, ...]
    """The hops of the gold solution, in an order in which they can be answered; empty if the file has none."""


def distinct_passages(paragraphs: Iterable[tuple[str, str]]) -> dict[str, Passage]:
    """Convert paragraphs (title, text) to distinct passages by id.

    A paragraph with neither title nor text is dropped; one of both is enough to find it.
    """
    passages = (passage_of_text(title, text) for title, text in paragraphs if title.strip() or text.strip())
    return {passage.id: passage for passage in passages}


def substitute_answers(question: str, answers: Sequence[str]) -> str:
    """Replace `#1`, `#2`, ... in a hop's question with the answers of the first hop, the second hop, ..."""
    for number, answer in reversed(list(enumerate(answers, 1))):
        question = question.replace(f"#{number}", answer)
    return question


# Finding question files, and checking the ids of their rows.

SUFFIXES = (".jsonl.gz", ".jsonl", ".json", ".json.gz")
"""Accepted suffixes of question files, the preferred one first."""


def find_question_file(benchmark: str, folder: Path, stems: Sequence[str]) -> Path:
    """Return the first existing question file in a folder.

    Args:
        benchmark: name of the benchmark, for messages.
        folder: the folder.
        stems: file names without suffix, the preferred one first; each may have any of SUFFIXES.

    Raises:
        Fault: ("data") there is no such file.
    """
    for stem in stems:
        for suffix in SUFFIXES:
            if (path := folder / f"{stem}{suffix}").is_file():
                return path
    names = ", ".join(f"{stem}{SUFFIXES[0]}" for stem in stems)
    expected = f"one of {names} (also as {', '.join(SUFFIXES[1:])})"
    raise missing_data_fault(benchmark, folder, expected) from FileNotFoundError(names)


def check_unique_ids(rows: Sequence[tuple[JsonRow, str]]) -> None:
    """Check that the ids of rows are unique.

    Raises:
        Fault: ("data") two rows have the same id; the message names the places of both.
    """
    places: dict[str, str] = {}
    for row, id_ in rows:
        if id_ in places:
            raise Fault("data", f"{row.where}: the id {id_!r} is taken by {places[id_]}: give each question its own")
        places[id_] = row.where


# The questions of a benchmark by split.

Q = TypeVar("Q", bound=MultiHopQuestion)

SPLITS = ("dev", "train")
"""Names of the splits, the default first. No two questions of both splits together have the same id."""


class QuestionBank(Generic[Q]):
    """The questions of a benchmark by split and by id. A split is read when it is first needed.

    Args:
        name: name of the benchmark, for messages.
        read: function that returns the questions of a split by id. It raises Fault ("data") if the file is missing or
            malformed.
    """

    def __init__(self, name: str, read: Callable[[str], Mapping[str, Q]]) -> None:
        self.name = name
        self._read = cache(read)

    def split(self, name: str = "") -> Sequence[Q]:
        """Return the questions of a split, by default dev.

        Raises:
            UnknownName: there is no such split; the message lists the splits.
        """
        if name and name not in SPLITS:
            raise UnknownName(f"{self.name} has no split {name!r}; known: {', '.join(SPLITS)}")
        return tuple(self._read(name or SPLITS[0]).values())

    def question(self, id_: str) -> Q:
        """Return the question with an id, from any split that exists.

        Raises:
            UnknownName: there is no such question; the message lists some valid ids.
        """
        splits = self._readable()
        for questions in splits.values():
            if id_ in questions:
                return questions[id_]
        split, known = next(iter(splits.items()))
        raise unknown_task_error(self.name, id_, f"those of the question file, here {len(known)} in {split}", known)

    def all(self) -> Iterator[Q]:
        """Iterate over the questions of all splits that exist."""
        for questions in self._readable().values():
            yield from questions.values()

    def passages(self) -> dict[str, Passage]:
        """Return the distinct paragraphs of all splits that exist, by id."""
        return {passage.id: passage for question in self.all() for passage in question.passages}

    def _readable(self) -> Mapping[str, Mapping[str, Q]]:
        read, missing = {}, []
        for split in SPLITS:
            try:
                read[split] = self._read(split)
            except Fault as fault:
                if not isinstance(fault.__cause__, FileNotFoundError):  # a missing split is fine if another exists
                    raise
                missing.append(fault)
        if not read:
            raise missing[0]
        return read


# Retrievers for a question: over the paragraphs that come with it, or over a corpus on disk.

INDEX_VARIABLE = "CERTIGRAPH_INDEX"
"""Environment variable that names the index of the user's own corpus.

Its value is a folder that `certigraph index` wrote, or an index of an OpenSearch server, `https://HOST:9200/NAME`.
"""

MAX_RETRIEVERS = 256
"""Maximum number of cached retrievers. Building one takes a millisecond, computing its sentence vectors a second."""


class PassageCorpus(NamedTuple):
    """A corpus as a retriever, and its passages by id.

    `passages` is None if the corpus cannot list them; then it has no sentence vectors.
    """

    corpus: Retriever
    passages: Mapping[str, Passage] | None


class Retrievers:
    """The retrievers of a benchmark, for any weight `alpha` of BM25 against sentence vectors (None: BM25 alone).

    `pool` returns the retriever over the paragraphs of one question, `corpus` that over a corpus on disk. Passages
    whose title the query names come first. Among a question's own paragraphs, this raises the share of the gold
    paragraphs in the first two passages (0.72 instead of 0.63 on HotpotQA dev, 0.48 instead of 0.42 on MuSiQue dev).
    """

    def __init__(self, bank: QuestionBank[Any], source: str) -> None:
        """Create the retrievers for the questions of `bank`.

        Args:
            bank: the questions.
            source: where the questions come from, as given to `certigraph index`.
        """
        self._bank, self._source = bank, source
        self.pool = lru_cache(maxsize=MAX_RETRIEVERS)(self._pool)
        self._mixed = lru_cache(maxsize=MAX_RETRIEVERS)(self._mixture)
        self._library: PassageCorpus | None = None
        self._lock = Lock()

    def corpus(self, alpha: float | None) -> Retriever:
        """Return the retriever over the corpus named by CERTIGRAPH_INDEX, else over all paragraphs of the benchmark.

        The paragraphs are indexed on first use. Their sentence vectors are also computed on first use, about 15 per
        second and core, and saved. The user's own corpus is searched by BM25 alone. The attribute `name` of the
        retriever tells which method it uses.

        Args:
            alpha: weight of BM25 against sentence vectors, 0 to 1; None means BM25 alone.

        Raises:
            Fault: CERTIGRAPH_INDEX names no complete index, or tantivy is missing. The message has the command that
                helps.
        """
        with self._lock:
            self._library = self._library or self._opened()
            return self._mixed(alpha)

    def _pool(self, question: str, alpha: float | None) -> Retriever:
        passages = self._bank.question(question).passages
        lexical = PassagePool(passages)
        return lexical if alpha is None else combine_retrievers(lexical, passages, alpha)

    def _mixture(self, alpha: float | None) -> Retriever:
        assert self._library is not None, "opened by corpus()"
        corpus, passages = self._library
        if alpha is None or passages is None:
            return corpus
        return combine_retrievers(corpus, tuple(passages.values()), alpha, folder=cache_folder() / "vectors")

    def _opened(self) -> PassageCorpus:
        if given := os.environ.get(INDEX_VARIABLE):
            return PassageCorpus(_open_index(given), None)
        passages = self._bank.passages()
        # The folder is named after the paragraphs' ids, which are digests of their text, so that changed questions get
        # a new index.
        digest = hashlib.sha256("\n".join(passages).encode()).hexdigest()
        folder = cache_folder() / "indexes" / f"{self._bank.name}-{digest[:12]}"
        if not (folder / MANIFEST).is_file():
            folder.parent.mkdir(parents=True, exist_ok=True)
            build_index(passages.values(), folder, source=self._source)
        return PassageCorpus(open_corpus(folder), passages)


def _open_index(index: str) -> Retriever:
    return open_address(index) if "://" in index else open_corpus(expand_path(index))


# A generated encyclopedia of people, towns, companies and novels that are related. The same seed gives the same pages.

PER_KIND = 14
"""Number of entries of each kind (people, towns, companies, novels)."""

FIRST = ("Ada", "Bruno", "Celia", "Dorian", "Edda", "Florin", "Greta", "Hanno", "Ilka", "Jorin", "Kerstin", "Ludo")
STARTS = ("Bar", "Cor", "Del", "Fen", "Gal", "Hol", "Kel", "Lam", "Mer", "Nor", "Pel", "Ros", "Sel", "Tav", "Ulm")
MIDDLES = ("a", "e", "i", "o", "u", "ari", "eno", "ila", "omi", "une")
TOWN_ENDS = ("burg", "ford", "wick", "haven", "stead", "mouth")
PERSON_ENDS = ("sen", "ler", "rich", "nov", "dal", "mann")
RIVER_ENDS = ("se", "ne", "ba", "ra", "der", "lt")
COMPANY_TRADES = ("Instruments", "Foundry", "Textiles", "Publishing", "Optics", "Shipyard")
BOOK_THINGS = ("Lantern", "Orchard", "Harbour", "Compass", "Winter", "Mirror", "Bridge", "Garden")


class EncyclopediaEntry(NamedTuple):
    """One page of the generated encyclopedia.

    The first sentence says what the entry is, each further sentence states one fact. `facts` has the facts by relation,
    such as "birthplace".
    """

    title: str
    kind: str
    sentences: tuple[str, ...]
    facts: dict[str, str]

    def sentence_index(self, relation: str) -> int:
        """Return the index, from 0, of the sentence that states the fact of a relation."""
        return 1 + list(self.facts).index(relation)


FACT_SENTENCES = {
    "birthplace": "{title} was born in {value}.",
    "employer": "For many years {title} worked for {value}.",
    "river": "{title} lies on the river {value}.",
    "county": "The town belongs to {value}.",
    "founder": "It was founded by {value}.",
    "seat": "It has its head office in {value}.",
    "founded": "{title} was founded in {value}.",
    "author": "{title} was written by {value}.",
    "publisher": "It was first published by {value}.",
}
"""Template of the sentence that states a fact, by relation."""
FIRST_SENTENCES = {
    "person": "{title} is remembered as an engineer and traveller.",
    "town": "{title} is a market town.",
    "company": "{title} is a company.",
    "book": "{title} is a novel.",
}
"""Template of the first sentence of an entry, by kind of entry."""


def generate_encyclopedia(seed: int | str) -> dict[str, EncyclopediaEntry]:
    """Generate an encyclopedia, and return its entries by title."""
    random = Random(f"{seed} encyclopedia")
    names = _Names(random)
    people = [names.new(lambda: f"{random.choice(FIRST)} {names.word(PERSON_ENDS)}") for _ in range(PER_KIND)]
    towns = [names.new(lambda: names.word(TOWN_ENDS)) for _ in range(PER_KIND)]
    companies = [names.new(lambda: f"{names.word(('',))} {random.choice(COMPANY_TRADES)}") for _ in range(PER_KIND)]
    novels = [names.new(lambda: f"The {random.choice(BOOK_THINGS)} of {names.word(('',))}") for _ in range(PER_KIND)]
    rivers = [names.new(lambda: names.word(RIVER_ENDS)) for _ in towns]
    years = random.sample(range(1790, 1990), 2 * PER_KIND)
    # Only half of the towns are birthplaces, so that some people come from the same one.
    birthplaces, seats = random.choices(towns[::2], k=PER_KIND), random.sample(towns, PER_KIND)
    founders, authors = random.sample(people, PER_KIND), random.sample(people, PER_KIND)
    entries = [
        *(
            _entry(t, "person", birthplace=birthplaces[n], employer=random.choice(companies))
            for n, t in enumerate(people)
        ),
        *(_entry(t, "town", river=rivers[n], county=f"{names.word(('',))} County") for n, t in enumerate(towns)),
        *(
            _entry(t, "company", founder=founders[n], seat=seats[n], founded=str(years[n]))
            for n, t in enumerate(companies)
        ),
        *(_entry(t, "book", author=authors[n], publisher=random.choice(companies)) for n, t in enumerate(novels)),
    ]
    return {entry.title: entry for entry in entries}


def _entry(title: str, kind: str, **facts: str) -> EncyclopediaEntry:
    sentences = (FACT_SENTENCES[relation].format(title=title, value=value) for relation, value in facts.items())
    return EncyclopediaEntry(title, kind, (FIRST_SENTENCES[kind].format(title=title), *sentences), facts)


class _Names:
    """Generator of names that do not repeat."""

    def __init__(self, random: Random) -> None:
        self._random, self._used = random, set[str]()

    def word(self, ends: tuple[str, ...]) -> str:
        return f"{self._random.choice(STARTS)}{self._random.choice(MIDDLES)}{self._random.choice(ends)}"

    def new(self, make: Callable[[], str]) -> str:
        name = make()
        while name in self._used:
            name = make()
        self._used.add(name)
        return name


# Questions over the generated encyclopedia: chains of two to four hops, comparisons, and yes-or-no questions.

CHAINS: Mapping[int, Sequence[tuple[str, ...]]] = {
    2: (
        ("person", "birthplace", "county"),
        ("company", "founder", "birthplace"),
        ("book", "publisher", "seat"),
        ("book", "author", "birthplace"),
        ("company", "seat", "river"),
    ),
    3: (
        ("company", "founder", "birthplace", "river"),
        ("book", "publisher", "founder", "birthplace"),
        ("person", "employer", "seat", "county"),
    ),
    4: (
        ("book", "publisher", "founder", "birthplace", "county"),
        ("person", "employer", "founder", "birthplace", "river"),
    ),
}
"""Chains of facts by number of hops: the kind of entry from which a chain starts, then the relations to follow."""

PHRASES = {
    "birthplace": "the birthplace of {}",
    "employer": "the employer of {}",
    "founder": "the founder of {}",
    "seat": "the town where {} has its head office",
    "author": "the author of {}",
    "publisher": "the first publisher of {}",
}
"""Phrase that stands for the answer of a relation inside a longer question, by relation."""
RELATION_QUESTIONS = {
    "birthplace": "In which town was {} born?",
    "employer": "Which company did {} work for?",
    "county": "Which county does {} belong to?",
    "river": "Which river flows by {}?",
    "founder": "Who founded {}?",
    "seat": "In which town does {} have its head office?",
    "author": "Who wrote {}?",
    "publisher": "Which company first published {}?",
}
"""Question that asks for one fact, by relation."""


class GeneratedHop(NamedTuple):
    """One hop of a generated question: a sub-question, the entry and the relation it asks about, and its answer."""

    question: str
    entry: EncyclopediaEntry
    relation: str
    answer: str


class GeneratedQuestion(NamedTuple):
    """A generated question, its hops (`steps`), and the pages that come with the question in random order."""

    question: str
    answer: str
    steps: tuple[GeneratedHop, ...]
    pages: tuple[EncyclopediaEntry, ...]


def generate_chains(seed: int | str, hops: Sequence[int], pages: int) -> Iterator[GeneratedQuestion]:
    """Generate one question for each number in `hops`, which is its number of hops. All questions are different.

    Args:
        seed: seed of the encyclopedia and the questions.
        hops: number of hops of each question.
        pages: number of pages that come with each question.
    """
    world, random, used = generate_encyclopedia(seed), Random(f"{seed} chains"), set[str]()
    for number, length in enumerate(hops):
        kind, *relations = CHAINS[length][number % len(CHAINS[length])]
        starts = [entry for entry in world.values() if entry.kind == kind]
        candidates = (_chain(world, start, relations) for start in random.sample(starts, len(starts)))
        question, steps = next((q, s) for q, s in candidates if q not in used and _has_no_shortcut(s))
        used.add(question)
        yield GeneratedQuestion(question, steps[-1].answer, steps, _pages(world, steps, pages, random))


def generate_comparisons(seed: int | str, count: int, pages: int) -> Iterator[GeneratedQuestion]:
    """Generate `count` questions, each with `pages` pages.

    They ask in turn which of two companies is older, and whether two people were born in the same town.
    """
    world, random, used = generate_encyclopedia(seed), Random(f"{seed} comparisons"), set[str]()
    for number in range(count):
        kind, compared = (("company", _compare_age), ("person", _compare_birthplace))[number % 2]
        entries = [entry for entry in world.values() if entry.kind == kind]
        candidates = (compared(*random.sample(entries, 2)) for _ in repeat(None))
        # Every other yes-or-no question needs the answer yes, which random pairs give more rarely.
        question, answer, steps = next(
            candidate
            for candidate in candidates
            if candidate[0] not in used and (number % 4 != 1 or candidate[1] == "yes")
        )
        used.add(question)
        yield GeneratedQuestion(question, answer, steps, _pages(world, steps, pages, random))


def _chain(
    world: Mapping[str, EncyclopediaEntry], start: EncyclopediaEntry, relations: Sequence[str]
) -> tuple[str, tuple[GeneratedHop, ...]]:
    steps, entry, phrase = list[GeneratedHop](), start, start.title
    for number, relation in enumerate(relations):
        answer = entry.facts[relation]
        steps.append(
            GeneratedHop(
                RELATION_QUESTIONS[relation].format(f"#{number}" if number else start.title), entry, relation, answer
            )
        )
        last = number == len(relations) - 1
        phrase = (RELATION_QUESTIONS if last else PHRASES)[relation].format(phrase)
        entry = entry if last else world[answer]
    return phrase, tuple(steps)


def _has_no_shortcut(steps: Sequence[GeneratedHop]) -> bool:
    """Return whether every hop of a chain leads to a page not visited before, so that no hop can be skipped."""
    titles = [step.entry.title for step in steps]
    return len(set(titles)) == len(titles) and steps[-1].answer not in titles


def _compare_age(one: EncyclopediaEntry, other: EncyclopediaEntry) -> tuple[str, str, tuple[GeneratedHop, ...]]:
    first = min(one, other, key=lambda entry: entry.facts["founded"])
    question = f"Which company was founded first, {one.title} or {other.title}?"
    return question, first.title, _comparison_steps("founded", "In which year was {} founded?", one, other)


def _compare_birthplace(one: EncyclopediaEntry, other: EncyclopediaEntry) -> tuple[str, str, tuple[GeneratedHop, ...]]:
    same = one.facts["birthplace"] == other.facts["birthplace"]
    question = f"Were {one.title} and {other.title} born in the same town?"
    return (
        question,
        "yes" if same else "no",
        _comparison_steps("birthplace", RELATION_QUESTIONS["birthplace"], one, other),
    )


def _comparison_steps(relation: str, question: str, *entries: EncyclopediaEntry) -> tuple[GeneratedHop, ...]:
    return tuple(
        GeneratedHop(question.format(entry.title), entry, relation, entry.facts[relation]) for entry in entries
    )


def _pages(
    world: Mapping[str, EncyclopediaEntry], steps: Sequence[GeneratedHop], count: int, random: Random
) -> tuple[EncyclopediaEntry, ...]:
    needed = list({step.entry.title: step.entry for step in steps}.values())
    others = [entry for entry in world.values() if entry not in needed]
    pages = [*needed, *random.sample(others, count - len(needed))]
    random.shuffle(pages)
    return tuple(pages)

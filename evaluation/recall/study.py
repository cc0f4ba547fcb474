"""`certigraph study retrieval`: recall of five retrievers side by side, the question asked once and hop by hop."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from certigraph.adapters.caching import cache_folder
from certigraph.adapters.embeddings import Encoder, encoder, how_to_install
from certigraph.adapters.retrieval.sources import read_passages
from certigraph.evaluation.extras import TABLES, equipped
from certigraph.evaluation.recall.questions import FILES, Asked, read_questions
from certigraph.evaluation.recall.scoring import BASE, MEASURES, ONCE, Scores, methods, scored
from certigraph.state.endings import Fault, UnknownName
from certigraph.state.records import Record


class Recall(Record):
    """One measure of a method on a split: the mean over questions, 0 to 1, with its 95 % interval (t over questions).

    `difference`, 0 for itself, is to BM25 with the question asked once, its interval a paired bootstrap's, `p` the paired
    t-test's after Holm over the split's differences.
    """

    split: str
    method: str
    queries: str
    measure: str
    mean: float
    low: float | None
    high: float | None
    difference: float
    difference_low: float | None
    difference_high: float | None
    p: float | None


class Corpus(Record):
    """What a split's questions were asked of: the distinct paragraphs of its file."""

    split: str
    file: str
    questions: int
    hops: int
    passages: int


class RecallStudy(Record):
    """All figures; `encoder` is None where vectors were left out."""

    corpora: tuple[Corpus, ...]
    recalls: tuple[Recall, ...]
    encoder: str | None


def recall_study(
    data: Path,
    *,
    splits: Sequence[str] = tuple(FILES),
    dense: bool = True,
    vectors: Path | None = None,
    told: Callable[[str], None] | None = None,
) -> RecallStudy:
    """Ask every question of its split's paragraphs.

    Args:
        data: the data folder, with hotpotqa/ and musique/.
        splits: names of FILES.
        dense: also vectors, and mixtures with them: half a minute per thousand paragraphs the first time.
        vectors: where vectors are kept; certigraph's cache folder by default.
        told: called with a split before it is measured.

    Raises:
        UnknownName: there is no such split.
        Fault: a file is missing or malformed, or a library is.
    """
    equipped("recall studies", *TABLES)
    if unknown := [split for split in splits if split not in FILES]:
        raise UnknownName(f"no split {unknown[0]!r}; there are {', '.join(FILES)}")
    model = _model() if dense else None
    corpora, recalls = [], []
    for split in splits:
        (told or print_nothing)(split)
        corpus, scores = _measured(split, data, model, vectors or cache_folder() / "vectors")
        corpora.append(corpus)
        recalls += _recalls(split, scores)
    return RecallStudy(corpora=tuple(corpora), recalls=tuple(recalls), encoder=model.name if model else None)

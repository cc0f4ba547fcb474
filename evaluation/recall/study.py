"""`certigraph study retrieval`: recall of five retrievers side by side, the question asked once and hop by hop."""

from collections.abc import Callable, Sequence
from pathlib import Path

from certigraph.adapters.caching import cache_folder
from certigraph.adapters.embeddings import Encoder, encoder, how_to_install
from certigraph.adapters.retrieval.sources import read_passages
from certigraph.evaluation.extras import TABLES, equipped
from certigraph.evaluation.recall.figures import Corpus, Recall, RecallStudy, recalls
from certigraph.evaluation.recall.questions import FILES, read_questions
from certigraph.evaluation.recall.scoring import methods, scored
from certigraph.state.endings import Fault, UnknownName


def recall_study(
    data: Path,
    *,
    splits: Sequence[str] = tuple(FILES),
    dense: bool = True,
    vectors: Path | None = None,
    told: Callable[[Corpus], None] | None = None,
) -> RecallStudy:
    """Ask every question of the paragraphs of its file.

    Args:
        data: the data folder, with hotpotqa/ and musique/.
        splits: names of FILES.
        dense: also vectors, and mixtures with them: half a minute per thousand paragraphs the first time.
        vectors: where vectors are kept; certigraph's cache folder by default.
        told: called with a split's corpus before it is measured.

    Raises:
        UnknownName: there is no such split.
        Fault: a file is missing or malformed, or a library is missing.
    """
    equipped("studies", *TABLES)
    if unknown := [split for split in splits if split not in FILES]:
        raise UnknownName(f"no split {unknown[0]!r}; there are {', '.join(FILES)}")
    model = _model() if dense else None
    corpora: list[Corpus] = []
    found: list[Recall] = []
    for split in splits:
        path = data / FILES[split]
        questions, passages = read_questions(path), list(read_passages(path))
        hops = sum(len(asked.hops) for asked in questions)
        corpora.append(
            Corpus(split=split, file=FILES[split], questions=len(questions), hops=hops, passages=len(passages))
        )
        if told:
            told(corpora[-1])
        retrievers = methods(passages, model, vectors or cache_folder() / "vectors")
        found += recalls(split, scored(questions, retrievers))
    return RecallStudy(corpora=tuple(corpora), recalls=tuple(found), encoder=model.name if model else None)


def _model() -> Encoder:
    model = encoder()
    if model is None:
        raise Fault(
            "data", f"vectors need {how_to_install()}; or leave them out: certigraph study retrieval --no-dense"
        )
    return model

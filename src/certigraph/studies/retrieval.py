"""Study of retrieval recall on multi-hop questions (`certigraph study retrieval`).

A multi-hop question needs several passages. BM25, two-stage, dense and hybrid retrieval are compared, BM25 and hybrid
also with a reranker, with the whole question as one query, and with one query per hop (passage).
"""

import json
import re
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Sequence
from itertools import chain, product, zip_longest
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from certigraph.adapters.encoders import Encoder, find_encoder, install_advice
from certigraph.adapters.files import cache_folder, read_rows, replace_text
from certigraph.adapters.retrieval.bm25 import PassagePool, Retriever
from certigraph.adapters.retrieval.dense import Dense, Hybrid
from certigraph.adapters.retrieval.reranker import (
    DEFAULT_CANDIDATES,
    DEFAULT_RERANKER,
    Reranked,
    Reranker,
    find_reranker,
    load_reranker,
    reranker_advice,
)
from certigraph.adapters.retrieval.sources import question_paragraphs, read_passages
from certigraph.evaluation.measures import RECALL_METHODS
from certigraph.evaluation.plots import add_panels, assign_colours, draw_grid, open_figure
from certigraph.evaluation.statistics import adjust_p_values, compare_paired, is_significant, mean_of
from certigraph.runtime.texts import format_count
from certigraph.state.endings import Fault, UnknownName
from certigraph.state.records import Record
from certigraph.state.search import Passage
from certigraph.studies.tables import join_intervals, print_frames

# Multi-hop questions with their evidence, and the queries of their hops as if every intermediate answer were known.

SPLIT_FILES = {
    "hotpotqa train": "hotpotqa/train_distractor.jsonl.gz",
    "hotpotqa dev": "hotpotqa/dev_distractor.jsonl.gz",
    "musique train": "musique/musique_ans_train.jsonl.gz",
    "musique dev": "musique/musique_ans_dev.jsonl.gz",
}
"""Files of the splits under the data folder, in the official layout."""


class EvidenceQuestion(NamedTuple):
    """A question, the ids of its supporting passages (`gold`), and the queries of its hops.

    In MuSiQue the queries are the steps of the question's decomposition, with `#n` replaced by the gold answer of step
    n. HotpotQA has no decomposition. For a bridge question the queries are the question, and the question with the
    title of the supporting paragraph that it does not name (the last one if it names none or both). For a comparison
    they are the two titles to compare.
    """

    id: str
    text: str
    gold: frozenset[str]
    hops: tuple[str, ...]


def read_questions(path: Path) -> list[EvidenceQuestion]:
    """Read the questions in a file of HotpotQA or MuSiQue.

    Raises:
        Fault: the file is missing, or a row has another layout or no supporting paragraph.
    """
    try:
        rows = list(read_rows(path))
    except Fault as fault:
        raise Fault("data", f"no questions in {path} ({fault}): set CERTIGRAPH_DATA to the folder above") from fault
    return [_parse_question(row.value, row.where) for row in rows]


def _parse_question(row: dict[str, Any], where: str) -> EvidenceQuestion:
    try:
        question = _parse_musique(row) if "question_decomposition" in row else _parse_hotpotqa(row)
    except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
        raise Fault("data", f"{where}: not a question of HotpotQA or MuSiQue ({error!r})") from error
    if not question.gold:
        reason = f"question {question.id!r} has no supporting paragraph, so no recall: leave it out"
        raise Fault("data", f"{where}: {reason}")
    return question


def _parse_musique(row: dict[str, Any]) -> EvidenceQuestion:
    def fill(query: str) -> str:
        return re.sub(r"#(\d+)", lambda match: answers[int(match[1]) - 1], query)

    passages = zip(question_paragraphs(row), row["paragraphs"], strict=True)
    gold = frozenset(passage.id for passage, paragraph in passages if paragraph["is_supporting"])
    steps = row["question_decomposition"]
    answers = [step["answer"] for step in steps]
    return EvidenceQuestion(row["id"], row["question"], gold, tuple(fill(step["question"]) for step in steps))


def _parse_hotpotqa(row: dict[str, Any]) -> EvidenceQuestion:
    titles = list(dict.fromkeys(title for title, _ in row["supporting_facts"]))
    gold = frozenset(passage.id for passage in question_paragraphs(row) if passage.title in titles)
    question = row["question"]
    unnamed = [title for title in titles if title.partition(" (")[0].lower() not in question.lower()]
    bridge = (question, f"{question} {(unnamed or titles)[-1]}")
    return EvidenceQuestion(row["_id"], question, gold, tuple(titles) if row["type"] == "comparison" else bridge)


# The hits of a retriever, with one query or hop by hop, and the share of the evidence in them.

MAX_HITS = 10
"""Maximum number of hits of a query."""

BASE_METHOD = "bm25"
"""The retrieval method with which the others are compared."""

ONCE, INTERLEAVED, EACH_HOP = "question", "hops, k in all", "hops, k each"
"""Kinds of queries: the question alone; a query per hop, with k hits in all; a query per hop, with k hits of each."""

HitFunction = Callable[[int], Collection[str]]
"""Function that takes k and returns the ids of the k best hits."""

RecallScores = dict[tuple[str, str, str], dict[str, list[float]]]
"""Scores of questions: (method, kind of queries, measure) -> question id -> list with one score, 0 to 1."""

MEASURES: dict[str, Callable[[HitFunction, frozenset[str]], float]] = {
    "R@2": lambda hits, gold: compute_recall(hits(2), gold),
    "R@5": lambda hits, gold: compute_recall(hits(5), gold),
    "R@10": lambda hits, gold: compute_recall(hits(10), gold),
    "all@10": lambda hits, gold: float(gold <= set(hits(10))),
}
"""Measures of recall: share of a question's supporting passages among k hits, and whether all are among ten hits."""


class CachedReranker:
    """A reranker that scores each pair of query and text once. Different retrievers find many of the same passages."""

    def __init__(self, reranker: Reranker) -> None:
        self.name = reranker.name
        self._reranker = reranker
        self._scores: dict[tuple[str, str], float] = {}

    def score(self, query: str, texts: Sequence[str]) -> list[float]:
        """Return one score for each text: higher is better. Raises Fault as the reranker does."""
        new = [text for text in dict.fromkeys(texts) if (query, text) not in self._scores]
        scores = self._reranker.score(query, new)
        self._scores |= {(query, text): score for text, score in zip(new, scores, strict=True)}
        return [self._scores[query, text] for text in texts]


def create_retrievers(
    passages: Sequence[Passage], encoder: Encoder | None, vectors: Path, reranker: Reranker | None = None
) -> dict[str, Retriever]:
    """Create the retrievers to compare: BM25, two-stage (BM25 with titles first), dense vectors, and hybrids of both.

    Args:
        passages: the corpus.
        encoder: the sentence encoder; None leaves out dense and hybrid retrieval.
        vectors: folder in which vectors are stored.
        reranker: reorders the first results of BM25 and of a hybrid, in rows such as "bm25 + reranker"; None leaves
            out these rows.
    """
    plain = PassagePool(passages, boost_titles=False)
    created: dict[str, Retriever] = {BASE_METHOD: plain, "two-stage": PassagePool(passages)}
    if encoder is not None:
        dense = Dense(passages, encoder, folder=vectors)
        mixed = {f"hybrid {alpha}": Hybrid(plain, dense, alpha=alpha) for alpha in (0.9, 0.5)}
        created |= {"dense": dense, **mixed}
    if reranker is None:
        return created
    cached = CachedReranker(reranker)
    chosen = [method for method in (BASE_METHOD, "hybrid 0.5") if method in created]
    return created | {f"{method} + reranker": Reranked(created[method], cached) for method in chosen}


def score_questions(questions: Iterable[EvidenceQuestion], retrievers: dict[str, Retriever]) -> RecallScores:
    """Compute every measure of every retrieval method, with every kind of queries, on every question."""
    scores = defaultdict[tuple[str, str, str], dict[str, list[float]]](dict)
    for question in questions:
        for method, retriever in retrievers.items():
            for queries, hits in hits_of(retriever, question).items():
                for measure, measure_hits in MEASURES.items():
                    scores[method, queries, measure][question.id] = [measure_hits(hits, question.gold)]
    return dict(scores)


def hits_of(retriever: Retriever, question: EvidenceQuestion) -> dict[str, HitFunction]:
    """Search with the question alone, and with its hops: the hits of the hops interleaved, and k hits of each hop.

    Returns:
        For each kind of queries, the function that takes k and returns the ids of the hits.
    """
    once, *hops = (
        [hit.passage.id for hit in retriever.search(query, MAX_HITS)] for query in (question.text, *question.hops)
    )
    interleaved = list(dict.fromkeys(id for id in chain.from_iterable(zip_longest(*hops)) if id is not None))
    return {
        ONCE: lambda k: once[:k],
        INTERLEAVED: lambda k: interleaved[:k],
        EACH_HOP: lambda k: [id for hop in hops for id in hop[:k]],
    }


def compute_recall(hits: Collection[str], gold: frozenset[str]) -> float:
    """Compute the share of `gold` among the hits."""
    return len(gold.intersection(hits)) / len(gold)


# The results of a recall study.


class Recall(Record):
    """One measure of a retrieval method on a split: the mean over questions, 0 to 1, with its 95 % interval.

    `difference` is the difference to plain BM25 with the question as the only query. Its interval is that of a paired
    BCa bootstrap, `p` is from the paired t-test, and `p_holm` is adjusted by Holm's method over all differences of the
    split. They are None for plain BM25 with the question itself.
    """

    split: str
    method: str
    queries: str
    measure: str
    mean: float
    low: float | None
    high: float | None
    difference: float | None = None
    difference_low: float | None = None
    difference_high: float | None = None
    p: float | None = None
    p_holm: float | None = None


class StudyCorpus(Record):
    """Corpus of a split: number of distinct paragraphs in the split's file (`passages`), of questions and of hops."""

    split: str
    file: str
    questions: int
    hops: int
    passages: int


class RecallStudy(Record):
    """All results of a recall study; `encoder` is None if dense and hybrid retrieval were left out.

    `reranker` is the cross-encoder with the digest of its weights, and `candidates` the number of results that it
    reorders; None if the rows with a reranker were left out.
    """

    corpora: tuple[StudyCorpus, ...]
    recalls: tuple[Recall, ...]
    encoder: str | None
    reranker: str | None = None
    candidates: int | None = None
    statistics: dict[str, str] = RECALL_METHODS
    """Statistical method behind every interval and p-value, by field of `Recall`."""


def recalls_of_split(split: str, scores: RecallScores) -> list[Recall]:
    """Compute the recalls of a split, in order of the kind of queries and then of the method."""
    keys = sorted(scores, key=lambda key: (ONCE, INTERLEAVED, EACH_HOP).index(key[1]))
    figures = [_recall(split, key, scores) for key in keys]
    adjusted = adjust_p_values([figure.p for figure in figures])
    return [figure.model_copy(update={"p_holm": p}) for figure, p in zip(figures, adjusted, strict=True)]


def _recall(split: str, key: tuple[str, str, str], scores: RecallScores) -> Recall:
    method, queries, measure = key
    mean = mean_of([score for [score] in scores[key].values()], top=1.0)
    figures = {"mean": mean.mean, "low": mean.low, "high": mean.high}
    if (method, queries) != (BASE_METHOD, ONCE):
        change = compare_paired(scores[BASE_METHOD, ONCE, measure], scores[key])
        figures |= {"difference": change.mean, "difference_low": change.low, "difference_high": change.high}
        figures["p"] = change.p
    return Recall.model_validate({"split": split, "method": method, "queries": queries, "measure": measure, **figures})


# Output of the command `study retrieval`.


def print_recall(study: RecallStudy) -> None:
    """Print the recalls of each split and their differences to plain BM25, with 95 % intervals, in points of 100."""
    table = pd.DataFrame([one.model_dump() for one in study.recalls])
    bounded = ["mean", "low", "high", "difference", "difference_low", "difference_high"]
    shown = join_intervals(table.assign(**{name: 100 * table[name].astype(float) for name in bounded}), ".1f")
    questions = {corpus.split: corpus.questions for corpus in study.corpora}
    for_split = [(one, questions[one.split]) for one in study.recalls]
    apart = [is_significant(one.difference_low, one.difference_high, n, one.p_holm) for one, n in for_split]
    shown["difference"] += ["*" if significant else "" for significant in apart]
    tables = {}
    for corpus in study.corpora:
        counts = ((corpus.questions, "question"), (corpus.hops, "hop"), (corpus.passages, "passage"))
        sizes = ", ".join(format_count(n, name) for n, name in counts)
        of_split = shown[shown["split"] == corpus.split]
        for title, value in ((sizes, "mean"), (f"difference to {BASE_METHOD} asked the question once", "difference")):
            wide = of_split.pivot_table(value, ["queries", "method"], "measure", aggfunc="first", sort=False)
            tables[f"{corpus.split}: {title}"] = wide.reset_index()
    intervals = f"{RECALL_METHODS['low, high']}; of differences {RECALL_METHODS['difference_low, difference_high']}"
    stars = "*: told apart (p of Holm within 5 %)"
    print_frames(tables, notes=[stars, f"intervals: {intervals}", _describe_reranker(study)])


def _describe_reranker(study: RecallStudy) -> str:
    if study.reranker:
        return f"reranker: {study.reranker}, on the first {study.candidates} results"
    installed = find_reranker() is not None
    reason = "left out (--rerank none)" if installed else f"{DEFAULT_RERANKER} is not installed: {reranker_advice()}"
    return f"reranker: not measured, {reason}"


# Files of a recall study: the results as JSON, and the chart.


def write_recall(study: RecallStudy, out: Path) -> tuple[Path, ...]:
    """Write the results to recall.json, and draw them as recall.png and recall.svg."""
    out.mkdir(parents=True, exist_ok=True)
    path = out / "recall.json"
    replace_text(path, json.dumps(study.model_dump(mode="json"), indent=1) + "\n")
    draw_recall(study, path.with_suffix(""))
    return path, path.with_suffix(".png"), path.with_suffix(".svg")


def draw_recall(study: RecallStudy, path: Path) -> None:
    """Draw the recalls: a column of panels per split, and a dot with its 95 % interval per method and measure.

    In the upper panels the question is the only query, in the lower panels there is one query per hop.
    """
    table = pd.DataFrame([one.model_dump() for one in study.recalls])
    mean = table["mean"]
    low, high = (table[bound].astype(float).fillna(mean) for bound in ("low", "high"))
    table = table.assign(mean=100 * mean, below=100 * (mean - low), above=100 * (high - mean))
    splits, colours = [corpus.split for corpus in study.corpora], assign_colours(table["method"].unique())
    with open_figure(path, 0.6 + 1.75 * len(splits), 4.2) as figure:
        rows = product(((ONCE, "asked once"), (INTERLEAVED, "hop by hop, k in all")), splits)
        panels = add_panels(figure, 2 * len(splits), len(splits))
        for ((queries, title), split), panel in zip(rows, panels, strict=True):
            panel.set_title(f"{split}, {title}", fontsize=6.5)
            panel.set(ylim=(0, 103), xlim=(-0.6, len(MEASURES) - 0.4))
            panel.set_xticks(range(len(MEASURES)), list(MEASURES), fontsize=7)
            draw_grid(panel, "y")
            shown = table[(table["queries"] == queries) & (table["split"] == split)]
            for place, (method, dots) in enumerate(shown.groupby("method", sort=False)):
                shift = min(0.15, 0.75 / len(colours)) * (place - (len(colours) - 1) / 2)
                places = [list(MEASURES).index(measure) + shift for measure in dots["measure"]]
                style: dict[str, Any] = {"fmt": "o", "markersize": 3, "elinewidth": 0.8, "label": method}
                bars = dots["below"], dots["above"]
                panel.errorbar(places, dots["mean"], bars, color=colours[str(method)], **style)
        handles, labels = panels[0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside upper left", ncols=5 * len(splits) // 4, fontsize=7.5)
        figure.supylabel("supporting passages found, %", fontsize=8)


# The study.


def recall_study(
    data: Path,
    *,
    splits: Sequence[str] = tuple(SPLIT_FILES),
    dense: bool = True,
    rerank: str | None = None,
) -> RecallStudy:
    """Measure the recall of every retriever on the questions of some splits.

    For each split the retrievers search in all paragraphs of the split's file.

    Args:
        data: the data folder, with hotpotqa/ and musique/.
        splits: names of splits, from SPLIT_FILES.
        dense: also compare dense and hybrid retrieval; vectors take half a minute per thousand paragraphs the first
            time.
        rerank: cross-encoder of the rows with a reranker; "none" leaves them out. By default they are measured with
            DEFAULT_RERANKER if it is installed.

    Raises:
        UnknownName: there is no such split.
        Fault: a file is missing or malformed, or a library or a named model is missing.
    """
    if unknown := [split for split in splits if split not in SPLIT_FILES]:
        raise UnknownName(f"no split {unknown[0]!r}; there are {', '.join(SPLIT_FILES)}")
    model = find_encoder() if dense else None
    if dense and model is None:
        leave_out = "or leave them out: certigraph study retrieval --no-dense"
        raise Fault("data", f"vectors need {install_advice()}; {leave_out}")
    reranker = None if rerank == "none" else find_reranker() if rerank is None else load_reranker(rerank)
    corpora, figures = list[StudyCorpus](), list[Recall]()
    for split in splits:
        path = data / SPLIT_FILES[split]
        questions, passages = read_questions(path), list(read_passages(path))
        sizes = {"questions": len(questions), "passages": len(passages), "hops": sum(len(q.hops) for q in questions)}
        corpora.append(StudyCorpus(split=split, file=SPLIT_FILES[split], **sizes))
        retrievers = create_retrievers(passages, model, cache_folder() / "vectors", reranker)
        figures += recalls_of_split(split, score_questions(questions, retrievers))
    return RecallStudy(
        corpora=tuple(corpora),
        recalls=tuple(figures),
        encoder=model.name if model else None,
        reranker=reranker.label if reranker else None,
        candidates=DEFAULT_CANDIDATES if reranker else None,
    )

"""The study of retrieval recall."""

import json
import re
from collections.abc import Callable, Collection, Iterable, Sequence
from itertools import chain, groupby, zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from rich.console import Console
from rich.table import Table

from certigraph.adapters.files import cache_folder, read_rows
from certigraph.adapters.matching import Encoder, encoder, how_to_install
from certigraph.adapters.processes import TABLES, equipped
from certigraph.adapters.retrieval.bm25 import Pool, Retriever
from certigraph.adapters.retrieval.dense import Dense, Hybrid
from certigraph.adapters.retrieval.sources import question_paragraphs, read_passages
from certigraph.evaluation.measures import RECALL
from certigraph.evaluation.plots import FAINT, colours, grid, picture
from certigraph.evaluation.statistics import holm, mean_of, paired, told_apart
from certigraph.runtime.html import counted
from certigraph.state.records import Fault, Record, UnknownName
from certigraph.state.search import Passage

if TYPE_CHECKING:
    from matplotlib.axes import Axes


# Multi-hop questions with their evidence, and what one would ask hop by hop if every bridge entity were known.

FILES = {
    "hotpotqa train": "hotpotqa/train_distractor.jsonl.gz",
    "hotpotqa dev": "hotpotqa/dev_distractor.jsonl.gz",
    "musique train": "musique/musique_ans_train.jsonl.gz",
    "musique dev": "musique/musique_ans_dev.jsonl.gz",
}
"""Split -> its file under the data folder, in the official layout."""


class Asked(NamedTuple):
    """A question, the ids of the passages that support it, and the queries of its hops.

    MuSiQue's queries are the steps of its decomposition, `#n` replaced by the gold answer of step n. HotpotQA has none:
    a bridge question is asked as it stands, then with the title of the supporting paragraph that it does not name (the
    last one, if that leaves both or none); a comparison is asked by the two titles that it compares.
    """

    id: str
    text: str
    gold: frozenset[str]
    hops: tuple[str, ...]


def read_questions(path: Path) -> list[Asked]:
    """The questions of a file. Raises Fault where it is missing, or a row has another layout or no support."""
    try:
        rows = list(read_rows(path))
    except Fault as fault:
        raise Fault("data", f"no questions in {path} ({fault}): set CERTIGRAPH_DATA to the folder above") from fault
    return [_asked(row.value, row.where) for row in rows]


def _asked(row: dict[str, Any], place: str) -> Asked:
    try:
        asked = _musique(row) if "question_decomposition" in row else _hotpotqa(row)
    except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
        raise Fault("data", f"{place}: not a question of HotpotQA or MuSiQue ({error!r})") from error
    if not asked.gold:
        raise Fault("data", f"{place}: question {asked.id!r} has no supporting paragraph, so no recall: leave it out")
    return asked


def _musique(row: dict[str, Any]) -> Asked:
    passages = zip(question_paragraphs(row), row["paragraphs"], strict=True)
    gold = frozenset(passage.id for passage, paragraph in passages if paragraph["is_supporting"])
    steps = row["question_decomposition"]
    answers = [step["answer"] for step in steps]
    return Asked(row["id"], row["question"], gold, tuple(_filled(step["question"], answers) for step in steps))


def _filled(query: str, answers: Sequence[str]) -> str:
    return re.sub(r"#(\d+)", lambda found: answers[int(found[1]) - 1], query)


def _hotpotqa(row: dict[str, Any]) -> Asked:
    titles = list(dict.fromkeys(title for title, _ in row["supporting_facts"]))
    gold = frozenset(passage.id for passage in question_paragraphs(row) if passage.title in titles)
    question = row["question"]
    hops = tuple(titles) if row["type"] == "comparison" else (question, f"{question} {_bridge(question, titles)}")
    return Asked(row["_id"], question, gold, hops)


def _bridge(question: str, titles: Sequence[str]) -> str:
    unnamed = [title for title in titles if title.partition(" (")[0].lower() not in question.lower()]
    return (unnamed or titles)[-1]


# What a retriever finds for a question, asked once or hop by hop, and the share of the evidence in it.

MOST = 10
BASE = "bm25"
ONCE, WOVEN, EACH = "question", "hops, k in all", "hops, k each"

Finding = Callable[[int], Collection[str]]
"""k -> the ids of the passages found."""

Scores = dict[tuple[str, str, str], dict[str, list[float]]]
"""(method, queries, measure) -> question -> its one score, 0 to 1."""

MEASURES: dict[str, Callable[[Finding, frozenset[str]], float]] = {
    "R@2": lambda found, gold: recall(found(2), gold),
    "R@5": lambda found, gold: recall(found(5), gold),
    "R@10": lambda found, gold: recall(found(10), gold),
    "all@10": lambda found, gold: float(gold <= set(found(10))),
}
"""Share of a question's supporting passages among k hits; whether all of them are among ten."""


def methods(passages: Sequence[Passage], encoder: Encoder | None, vectors: Path) -> dict[str, Retriever]:
    """What is compared: BM25 over title and text, with titles first, vectors, and BM25 mixed with vectors."""
    plain = Pool(passages, boost_titles=False)
    lexical: dict[str, Retriever] = {BASE: plain, "two-stage": Pool(passages)}
    if encoder is None:
        return lexical
    dense = Dense(passages, encoder, folder=vectors)
    mixed = {f"hybrid {alpha}": Hybrid(plain, dense, alpha=alpha) for alpha in (0.9, 0.5)}
    return {**lexical, "dense": dense, **mixed}


def scored(questions: Iterable[Asked], retrievers: dict[str, Retriever]) -> Scores:
    """Every measure of every method on every question."""
    scores: Scores = {}
    for asked in questions:
        for method, retriever in retrievers.items():
            for queries, found in findings(retriever, asked).items():
                for measure, of in MEASURES.items():
                    scores.setdefault((method, queries, measure), {})[asked.id] = [of(found, asked.gold)]
    return scores


def findings(retriever: Retriever, asked: Asked) -> dict[str, Finding]:
    """The hits of the question alone; those of its hops taken in turn, k in all; and k hits of each hop."""
    once = _ids(retriever, asked.text)
    hops = [_ids(retriever, query) for query in asked.hops]
    woven = list(dict.fromkeys(id for id in chain.from_iterable(zip_longest(*hops)) if id is not None))
    return {
        ONCE: lambda k: once[:k],
        WOVEN: lambda k: woven[:k],
        EACH: lambda k: [id for hop in hops for id in hop[:k]],
    }


def recall(found: Collection[str], gold: frozenset[str]) -> float:
    """The share of `gold` that was found."""
    return len(gold.intersection(found)) / len(gold)


def _ids(retriever: Retriever, query: str) -> list[str]:
    return [hit.passage.id for hit in retriever.search(query, MOST)]


# The figures of a recall study: what is stored, and how scores become it.


class Recall(Record):
    """One measure of a method on a split: the mean over questions, 0 to 1, with its 95 % interval (t over questions).

    `difference` is to plain BM25 with the question asked once; its interval is a paired bootstrap's, and `p` the
    paired t-test's, `p_holm` the same after Holm over all differences of the split. Plain BM25's own are None.
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
    statistics: dict[str, str] = RECALL
    """The method of every interval and p, by field."""


def recalls(split: str, scores: Scores) -> list[Recall]:
    """A split's figures: the question asked once, then hop by hop; method by method in each."""
    keys = sorted(scores, key=lambda key: (ONCE, WOVEN, EACH).index(key[1]))
    found = [_recall(split, key, scores) for key in keys]
    adjusted = holm([one.p for one in found])
    return [one.model_copy(update={"p_holm": p}) for one, p in zip(found, adjusted, strict=True)]


def _recall(split: str, key: tuple[str, str, str], scores: Scores) -> Recall:
    method, queries, measure = key
    mean = mean_of([score for [score] in scores[key].values()], top=1.0)
    one = Recall(
        split=split, method=method, queries=queries, measure=measure, mean=mean.mean, low=mean.low, high=mean.high
    )
    if (method, queries) == (BASE, ONCE):
        return one
    apart = paired(scores[BASE, ONCE, measure], scores[key])
    beside = {"difference": apart.mean, "difference_low": apart.low, "difference_high": apart.high, "p": apart.p}
    return one.model_copy(update=beside)


# What the command `study retrieval` says.

WIDTH = 110
"""Columns that a row takes, also where there is no terminal."""


def print_recall(study: RecallStudy) -> None:
    """For each split the recalls and their differences to plain BM25, with 95 % intervals, in points of 100."""
    console = Console(width=WIDTH, highlight=False, soft_wrap=True)
    for corpus in study.corpora:
        mine = [one for one in study.recalls if one.split == corpus.split]
        sizes = [
            counted(corpus.questions, "question"),
            counted(corpus.hops, "hop"),
            counted(corpus.passages, "passage"),
        ]
        console.print(f"{corpus.split}: {', '.join(sizes)}", style="bold")
        console.print(_table(mine, corpus.questions))
    console.print(
        "second line: difference to bm25 asked the question once; bold where told apart (p of Holm within 5 %)"
    )
    console.print(f"intervals: {RECALL['low, high']}; of differences {RECALL['difference_low, difference_high']}")


def _table(recalls: Sequence[Recall], questions: int) -> Table:
    table = Table("", *MEASURES, box=None)
    for queries, asked in groupby(recalls, key=lambda one: one.queries):
        table.add_row(queries, style="italic")
        for method, group in groupby(asked, key=lambda one: one.method):
            cells = list(group)
            table.add_row(method, *map(_mean, cells))
            if cells[0].difference is not None:
                table.add_row("", *(_difference(one, questions) for one in cells), style="dim")
    return table


def _mean(one: Recall) -> str:
    return f"{100 * one.mean:.1f}{_interval(one.low, one.high, '.1f')}"


def _difference(one: Recall, questions: int) -> str:
    if one.difference is None:
        return ""
    low, high = one.difference_low, one.difference_high
    shown = f"{100 * one.difference:+.1f}{_interval(low, high, '+.1f')}"
    apart = told_apart(None if low is None or high is None else (low, high), questions, one.p_holm)
    return f"[bold not dim]{shown}[/]" if apart else shown


def _interval(low: float | None, high: float | None, form: str) -> str:
    return "" if low is None or high is None else f" ({100 * low:{form}} to {100 * high:{form}})"


# A recall study as files: every figure as JSON, and the picture drawn from it.

NAME = "recall.json"
TITLES = {ONCE: "asked once", WOVEN: "hop by hop, k in all"}
"""The queries that are drawn, a row of panels each, and how they are called above a panel."""


def write_recall(study: RecallStudy, out: Path) -> tuple[Path, ...]:
    """Write recall.json, and draw recall.png and recall.svg from it. Raises Fault where matplotlib is missing."""
    equipped("figures", "matplotlib")
    out.mkdir(parents=True, exist_ok=True)
    path = out / NAME
    path.write_text(json.dumps(study.model_dump(mode="json"), indent=1) + "\n", encoding="utf-8")
    draw_recall(RecallStudy.model_validate_json(path.read_bytes()), path.with_suffix(""))
    return path, path.with_suffix(".png"), path.with_suffix(".svg")


def draw_recall(study: RecallStudy, path: Path) -> None:
    """A column a split, the question asked once above and hop by hop below; a dot a method with its 95 % interval."""
    splits = [corpus.split for corpus in study.corpora]
    colour = colours(list(dict.fromkeys(one.method for one in study.recalls)))
    with picture(path, 0.6 + 1.75 * len(splits), 4.2) as figure:
        panels = grid(figure, len(TITLES) * len(splits), len(splits))
        places = [(queries, split) for queries in TITLES for split in splits]
        for (queries, split), panel in zip(places, panels, strict=True):
            shown = [one for one in study.recalls if (one.queries, one.split) == (queries, split)]
            panel.set_title(f"{split}, {TITLES[queries]}", fontsize=6.5)
            _frame(panel)
            for place, method in enumerate(colour):
                shift = 0.15 * (place - (len(colour) - 1) / 2)
                _dots(panel, [one for one in shown if one.method == method], shift, colour[method])
        handles, labels = panels[0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside upper left", ncols=len(colour), fontsize=7.5)
        figure.supylabel("supporting passages found, %", fontsize=8)


def _frame(panel: "Axes") -> None:
    panel.set(ylim=(0, 103), xlim=(-0.6, len(MEASURES) - 0.4))
    panel.set_xticks(range(len(MEASURES)), list(MEASURES), fontsize=7)
    panel.grid(axis="y", color=FAINT, linewidth=0.4)
    panel.set_axisbelow(True)


def _dots(panel: "Axes", recalls: Sequence[Recall], shift: float, colour: str) -> None:
    places = [list(MEASURES).index(one.measure) + shift for one in recalls]
    means = [100 * one.mean for one in recalls]
    lows = [100 * (one.mean - (one.mean if one.low is None else one.low)) for one in recalls]
    highs = [100 * ((one.mean if one.high is None else one.high) - one.mean) for one in recalls]
    panel.errorbar(
        places, means, (lows, highs), fmt="o", markersize=3, elinewidth=0.8, color=colour, label=recalls[0].method
    )


# `certigraph study retrieval`: recall of five retrievers side by side, the question asked once and hop by hop.


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

"""Multi-hop questions with their evidence, and what one would ask hop by hop if every bridge entity were known."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from certigraph.adapters.retrieval.rows import question_paragraphs
from certigraph.adapters.rows import read_rows
from certigraph.state.endings import Fault

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

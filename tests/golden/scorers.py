"""What the official scorers give on gold answers and on wrong ones, over the shared data."""

import gzip
import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from golden.normalise import lines
from golden.runs import caches

from certigraph.adapters.retrieval.answers import measure_answer
from certigraph.benchmarks.hotpotqa.benchmark import read_questions as read_hotpotqa
from certigraph.benchmarks.hotpotqa.benchmark import score_prediction as hotpotqa_scores
from certigraph.benchmarks.locomo.benchmark import is_abstention, official_score
from certigraph.benchmarks.locomo.conversations import read_conversations
from certigraph.benchmarks.musique.benchmark import read_questions as read_musique
from certigraph.benchmarks.musique.benchmark import score_prediction as musique_scores
from certigraph.benchmarks.research.scoring import score_answer as research_score
from certigraph.benchmarks.travelplanner.queries import find_split_file, read_queries
from certigraph.benchmarks.travelplanner.sandbox import open_store
from certigraph.benchmarks.travelplanner.scoring import aggregate_scores, score_plan
from certigraph.benchmarks.webshop.products import (
    Product,
    ShopGoal,
    build_goals,
    build_written_goals,
    compute_reward,
    read_catalogue,
)

QUESTIONS = 40
"""Questions of each benchmark."""


def _folder(benchmark: str) -> Path:
    return Path(os.environ["CERTIGRAPH_DATA"]) / benchmark


def _rows(path: Path) -> list[Any]:
    with gzip.open(path, "rt", encoding="utf-8") as file:
        return [json.loads(row) for row in file]


def _answers(gold: str) -> dict[str, str]:
    """The gold answer, the same in other letters, more than it, a part of it, and two wrong ones."""
    words = gold.split()
    return {
        "gold": gold,
        "upper": f"The {gold.upper()}.",
        "more": f"It is {gold}, I think",
        "part": " ".join(words[: (len(words) + 1) // 2]),
        "none": "No information available",
        "wrong": "a blue elephant",
    }


def _rounded(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _rounded(one) for key, one in value.items()}
    return round(value, 9) if isinstance(value, float) else value


def _lines(rows: Iterator[dict[str, Any]]) -> str:
    return lines(_rounded(row) for row in rows)


def travelplanner() -> str:
    """Each recorded plan: what passed (1), failed (0) or was not evaluated (-), and the rates of each model."""
    folder = _folder("travelplanner")
    sandbox = open_store(folder / "database", Path(caches()))
    queries = {query.idx: query for query in read_queries(find_split_file(folder, "validation"))}
    signs = {True: "1", False: "0", None: "-"}

    def rows() -> Iterator[dict[str, Any]]:
        by_model: dict[str, list[Any]] = {}
        for row in _rows(folder / "scored_plans.jsonl.gz"):
            score = score_plan(queries[row["idx"]], row["plan"], sandbox)
            by_model.setdefault(row["model"], []).append(score)
            verdicts = {
                kind: "".join(signs[one.passed] for _, one in sorted(judged.items()))
                for kind, judged in (("commonsense", score.commonsense), ("hard", score.hard))
            }
            yield {"model": row["model"][:12], "idx": row["idx"], "cost": score.cost, **verdicts}
        for model, scores in by_model.items():
            yield {"model": model, **aggregate_scores([*scores, score_plan(queries[2], None, sandbox)])}

    return _lines(rows())


def assistantbench() -> str:
    """The recorded answers, and for each gold answer an empty and a wrong one."""

    def rows() -> Iterator[dict[str, Any]]:
        for row in _rows(_folder("assistantbench") / "scorer_golden.jsonl.gz"):
            gold = row["gold_answer"]
            for name, answer in (("recorded", row["answer"]), ("gold", gold), ("empty", ""), ("wrong", "elephant 7")):
                yield {"id": row["id"][:8], "answer": name, **research_score(answer, gold)._asdict()}

    return _lines(rows())


def hotpotqa() -> str:
    """Answers with all, half or none of the supporting facts."""

    def rows() -> Iterator[dict[str, Any]]:
        for question in [*read_hotpotqa(_folder("hotpotqa"), "dev").values()][:QUESTIONS]:
            facts = sorted(question.facts)
            supports = {"gold": facts, "upper": facts[::2], "more": [*facts, ("Elephant", 0)], "part": None}
            for name, answer in _answers(question.answers[0]).items():
                support = supports.get(name, [])
                found = hotpotqa_scores(question, answer, None if support is None else frozenset(support))
                yield {"id": question.id, "answer": name, **found}

    return _lines(rows())


def musique() -> str:
    """Answers with all, half or none of the supporting paragraphs."""

    def rows() -> Iterator[dict[str, Any]]:
        for question in [*read_musique(_folder("musique"), "dev").values()][:QUESTIONS]:
            numbers = sorted(question.support)
            supports = {"gold": numbers, "upper": numbers[::2], "more": [*numbers, 99], "part": None}
            for name, answer in _answers(question.answers[0]).items():
                support = supports.get(name, [])
                found = musique_scores(question, answer, None if support is None else frozenset(support))
                yield {"id": question.id, "answer": name, **found}

    return _lines(rows())


def locomo() -> str:
    """Questions of all categories, the first of each conversation."""

    def rows() -> Iterator[dict[str, Any]]:
        for talk in read_conversations(_folder("locomo") / "locomo10.shared.json.gz").values():
            for number, question in enumerate(talk.questions[: QUESTIONS * 4 : 8]):
                scores = {name: official_score(answer, question) for name, answer in _answers(question.answer).items()}
                denied = [name for name, answer in _answers(question.answer).items() if is_abstention(answer)]
                yield {"id": f"{talk.id}/{8 * number}", "category": question.category, "abstains": denied, **scores}

    return _lines(rows())


def swe_qa() -> str:
    """Measures of text: a gold answer against itself, its first sentence, its first half, and a wrong answer."""

    def rows() -> Iterator[dict[str, Any]]:
        for row in _rows(_folder("swe_qa") / "flask.jsonl.gz")[: QUESTIONS // 2]:
            gold = row["answer"]
            answers = {"gold": gold, "sentence": gold.split(". ")[0], "half": gold[: len(gold) // 2], "wrong": "No."}
            yield {name: measure_answer(answer, [gold]) for name, answer in answers.items()}

    return _lines(rows())


def webshop() -> str:
    """Purchases for goals of both kinds: the wanted product as wanted, with other options, with none; another product.

    WebShop's own goal.py (commit 64fa2a5, with thefuzz 0.19.0 and the nouns of certigraph) gave the same rewards.
    """
    catalogue = read_catalogue(_folder("webshop"))
    goals = {**dict([*build_goals(catalogue).items()][:: 2 * QUESTIONS]), **build_written_goals(catalogue)}
    asins = [*catalogue.products]

    def rows() -> Iterator[dict[str, Any]]:
        for id_, goal in goals.items():
            wanted = catalogue.products[goal.asin]
            for bought, options in _purchases(goal, wanted, catalogue.products[asins[asins.index(goal.asin) - 1]]):
                reward = compute_reward(goal, wanted, bought, [*options.values()])
                yield {"id": id_, "bought": bought.asin, "chosen": options, **reward._asdict()}

    return _lines(rows())


def _purchases(goal: ShopGoal, wanted: Product, other: Product) -> Iterator[tuple[Product, dict[str, str]]]:
    right = {name: next((v for v in values if v in goal.values), "") for name, values in wanted.options.items()}
    yield wanted, {name: value for name, value in right.items() if value}
    if wanted.options:
        for step in (1, -1):
            moved = {
                name: values[(values.index(right[name]) + step) % len(values) if right[name] else 0]
                for name, values in wanted.options.items()
            }
            yield wanted, moved
        yield wanted, {}
    yield other, {name: values[0] for name, values in other.options.items()}


SCORERS: dict[str, Callable[[], str]] = {
    "travelplanner": travelplanner,
    "assistantbench": assistantbench,
    "hotpotqa": hotpotqa,
    "musique": musique,
    "locomo": locomo,
    "swe_qa": swe_qa,
    "webshop": webshop,
}
"""By the folder of the data that each needs."""

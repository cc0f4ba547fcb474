"""A tiny search benchmark and the scripted agents that answer it, for the tests of CGDP's study.

Its questions show one behaviour each: `found` is searched for in two rounds and answered right, `looped` asks for the
same words until somebody stops it and forgets what it knew after four rounds, `hasty` answers wrong at once, and
`swapped` has no answer in the corpus and gets one.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from certigraph.adapters.models.schemas import minimal_instance
from certigraph.adapters.models.scripts import current_situation
from certigraph.adapters.protocols import Benchmark, Limits, Responder
from certigraph.adapters.retrieval.answers import token_f1
from certigraph.adapters.retrieval.bm25 import PassagePool
from certigraph.benchmarks.qa.benchmark import SearchOutcome, SearchWorld
from certigraph.state.records import Record, Scores, Task
from certigraph.state.search import Passage

FORGOTTEN = 4
"""Rounds after which the looping agent answers wrong."""

TEXTS = {
    "Ada Ferrum": "Ada Ferrum founded the Ferrum Works in Oakport.",
    "Ferrum Works": "The Ferrum Works built bridges for the city of Oakport.",
    "Oakport": "Oakport lies on the river Silt.",
    "Brugg": "Brugg is a village of weavers.",
    "Silt": "The Silt is a river with herons.",
    "Tarn": "Tarn is known for its lamps.",
}
PASSAGES = {title: Passage(id=f"p{n}", title=title, text=text) for n, (title, text) in enumerate(TEXTS.items(), 1)}


class Gold(Record):
    """What is known of a question: its answer, the titles of its passages, and whether it has an answer at all."""

    text: str
    answer: str
    titles: tuple[str, ...]
    answerable: bool = True

    @property
    def answers(self) -> tuple[str, ...]:
        """The reference answers."""
        return (self.answer,)


class GoldHop(Record):
    """A gold step, as search benchmarks name it."""

    passage: Passage


class GoldWithHops(Gold):
    """The gold with the steps it takes."""

    hops: tuple[GoldHop, ...] = ()


QUESTIONS = {
    "found": Gold(text="By which river did Ada Ferrum found works?", answer="Silt", titles=("Ada Ferrum", "Oakport")),
    "looped": Gold(text="What did the Ferrum Works build?", answer="bridges", titles=("Ferrum Works",)),
    "hasty": Gold(text="What is Brugg a village of?", answer="weavers", titles=("Brugg",)),
    "swapped": Gold(text="What is Oakport known for?", answer="", titles=(), answerable=False),
}


class Riddles(Benchmark):
    """The benchmark. Its expert plays every harness from the questions' script."""

    name = "riddles"
    briefing = "Passages about Oakport."
    configurations = ("",)
    answers = True

    def __init__(self, data: Path | None = None, config: str = "", *, limits: Limits | None = None) -> None:
        self.limits = limits or Limits(steps=40, passages=2)
        self.pool = PassagePool(list(PASSAGES.values()))

    def tasks(self, split: str = "") -> Sequence[Task]:
        return [self.task(name) for name in QUESTIONS]

    def task(self, task_id: str) -> Task:
        return Task(benchmark=self.name, id=task_id, goal=QUESTIONS[task_id].text)

    def open(self, task: Task) -> SearchWorld:
        return SearchWorld(lambda alpha: self.pool, lambda outcome: self.judged(task, outcome), k=self.limits.passages)

    def gold(self, task: Task) -> GoldWithHops:
        gold = QUESTIONS[task.id]
        hops = tuple(GoldHop(passage=PASSAGES[title]) for title in gold.titles)
        return GoldWithHops(**gold.model_dump(), hops=hops)

    def score_answer(self, task: Task, answer: str) -> Scores:
        return Scores(value=token_f1(answer, QUESTIONS[task.id].answer), answer=answer)

    def judged(self, task: Task, outcome: SearchOutcome) -> Scores:
        return self.score_answer(task, outcome.answer or "")

    def expert(self) -> Responder:
        return respond


def respond(prompt: str, schema: dict[str, Any]) -> Any:
    """The scripted model of every harness."""
    situation, fields = current_situation(), frozenset(schema.get("properties", ()))
    assert situation
    task, turns = situation.state["task"].id, len(situation.state.get("turns", ()))
    if "sentence" in fields:
        return {"sentence": _sentence(task, turns)}
    if {"tool", "text"} <= fields:
        tool, text = _move(task, turns)
        return {**minimal_instance(schema), "thought": "so", "tool": tool, "text": text}
    if fields in ({"answer"}, {"reasoning", "answer"}):
        return {**minimal_instance(schema), "answer": _final(task, turns)}
    if "resolved" in fields:
        return {"facts": _facts(turns), "resolved": [], "questions": ["no evidence yet"] if task == "looped" else []}
    if fields in FIXED:
        return FIXED[fields]
    return f"note {turns}, fresh" if schema.get("type") == "string" else minimal_instance(schema)


def _facts(turns: int) -> list[dict[str, str]]:
    return [{"fact": f"fact {turns} {n}", "source": "Oakport"} for n in range(3)]


FIXED = {
    frozenset({"facts", "questions"}): {"facts": _facts(1), "questions": []},
    frozenset({"hypotheses"}): {"hypotheses": ["up the river", "down the river", "by the lamps"]},
}
"""Answers to questions that every task gives alike."""


def _sentence(task: str, turns: int) -> str:
    tool, text = _move(task, turns)
    return text if tool == "search" else f"So the answer is: {text}"


def _move(task: str, turns: int) -> tuple[str, str]:
    if task == "found":
        return ("search", ("Ada Ferrum", "Oakport river")[turns]) if turns < 2 else ("finish", "Silt")
    if task == "looped":
        return "search", "Ferrum Works build"
    return ("search", QUESTIONS[task].text) if turns < 1 else ("finish", "lamps")


def _final(task: str, turns: int) -> str:
    return QUESTIONS[task].answer if turns <= FORGOTTEN else "roofs"

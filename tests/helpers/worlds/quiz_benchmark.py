"""A question over a handful of paragraphs, and a model whose answers are given, for SDP's multi-hop operators."""

import asyncio
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from langgraph.runtime import Runtime

from certigraph.adapters.models.schemas import minimal_instance
from certigraph.adapters.models.scripts import ScriptedChat
from certigraph.adapters.protocols import Context, Limits, Operator
from certigraph.adapters.retrieval.bm25 import PassagePool
from certigraph.benchmarks.qa.benchmark import SearchWorld
from certigraph.benchmarks.qa.operators import create_operators
from certigraph.graphs import sdp
from certigraph.state.records import Scores, Task
from certigraph.state.search import Passage

QUESTION = "In which country is the town where the author of Glass Harbour was born?"
HARBOUR = Passage(
    id="p1", title="Glass Harbour (novel)", text="Glass Harbour is a novel that Ida Brandt wrote in 1931."
)
BRANDT = Passage(id="p2", title="Ida Brandt", text="Ida Brandt, a writer of sea stories, was born in Tolmin.")
TOLMIN = Passage(id="p3", title="Tolmin", text="Tolmin is a small town in northwestern Slovenia.")
PARK = Passage(id="p4", title="Harbour Park", text="Harbour Park is a garden of glass houses, opened in 1931.")
PASSAGES = (HARBOUR, BRANDT, TOLMIN, PARK)
SUBQUESTIONS = ["Who wrote Glass Harbour?", "Where was #1 born?", "In which country is #2?"]

QUOTED = re.compile(r"<world>\n(.*?)\n</world>", re.DOTALL)

Answers = Mapping[str, Sequence[Any]]


class Quiz:
    """A benchmark of one question.

    Args:
        retrieves: whether passages have to be searched for.
        options: of the operators.
    """

    name, briefing, material, answers = "quiz", "search[WORDS] and finish[ANSWER]", "Paragraphs.", True

    def __init__(
        self,
        *,
        retrieves: bool = False,
        limits: Limits | None = None,
        passages: Sequence[Passage] = PASSAGES,
        id_: str = "3hop1__1_2_3",
        question: str = QUESTION,
        **options: bool,
    ) -> None:
        self.retrieves, self.passages, self.id, self.question, self.options = (
            retrieves,
            passages,
            id_,
            question,
            options,
        )
        self.limits = limits or Limits(attempts=3, replans=2, steps=25, passages=2 if retrieves else 10)

    def task(self, task_id: str) -> Task:
        return Task(benchmark=self.name, id=self.id, goal=self.question)

    def open(self, task: Task) -> SearchWorld:
        return SearchWorld(
            lambda alpha: self.library(task),
            lambda outcome: Scores(value=float(outcome.answer == "Slovenia"), answer=outcome.answer),
            k=2,
            given=() if self.retrieves else self.passages,
        )

    def library(self, task: Task) -> PassagePool:
        return PassagePool(self.passages)

    def operators(self) -> Mapping[str, Operator]:
        return create_operators(self, **self.options)


class ScriptedModel:
    """Gives the answers to each kind of question in order, the last one again and again; keeps the prompts by kind.

    Where quotations are asked for and none are given, it quotes all of the first text that it is shown.

    Args:
        answers: what tells the kind (a field of the answer) -> the answers, or their other fields.
    """

    def __init__(self, **answers: Sequence[Any]) -> None:
        self.answers = {kind: list(given) for kind, given in answers.items()}
        self.prompts: dict[str, list[str]] = {}

    def __call__(self, prompt: str, schema: dict[str, Any]) -> Any:
        kind = next((kind for kind in self.answers if kind in schema["properties"]), None)
        assert kind is not None, f"a model was asked for {[*schema['properties']]}: {prompt[-300:]}"
        self.prompts.setdefault(kind, []).append(prompt)
        given = self.answers[kind]
        answer = given.pop(0) if len(given) > 1 else given[0]
        filled = {**minimal_instance(schema), **(answer if isinstance(answer, dict) else {kind: answer})}
        if "quotes" in filled and not filled["quotes"]:
            filled["quotes"] = QUOTED.findall(prompt)[:1]
        return filled


def finding_of(entity: str, finding: str, title: str) -> dict[str, Any]:
    """The model's finding."""
    return {"found": True, "title": title, "finding": finding, "entity": entity}


NOT_FOUND = {"found": False, "title": "", "finding": "", "entity": ""}
FINDINGS = [
    finding_of("Ida Brandt", "Ida Brandt wrote it.", "Glass Harbour"),
    finding_of("Tolmin", "She was born in Tolmin.", "Ida Brandt"),
    finding_of("Slovenia", "Tolmin is a town in Slovenia.", "Tolmin"),
]


def call_operator(
    operator: str,
    view: Any,
    scripted_model: ScriptedModel | None = None,
    quiz: Quiz | None = None,
    window: int = 0,
) -> Any:
    """What an operator makes of a view; by default without a question to any model."""
    quiz = quiz or Quiz(strict=True)
    context = Context(benchmark=quiz, chat=ScriptedChat(responder=scripted_model or ScriptedModel()), window=window)
    runtime = Runtime(context=context)
    call: Callable[..., Any] = quiz.operators()[operator]
    [value] = asyncio.run(call(view, runtime)).values()
    return value


def run_sdp(quiz: Quiz, scripted_model: ScriptedModel, **swaps: Any) -> dict[str, Any]:
    """The final state of a run of SDP."""
    context = Context(benchmark=quiz, chat=ScriptedChat(responder=scripted_model))
    return sdp.build(**swaps).invoke({"task": quiz.task("")}, context=context)


def taken_actions(state: Mapping[str, Any]) -> list[str]:
    """What was done in a run."""
    return [step.action.text for step in state["history"]]

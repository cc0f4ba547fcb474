"""What the authors of lessons are shown of an episode, and which episodes are worth a lesson."""

import asyncio
from typing import Any

import pytest
from helpers.worlds.records_world import Records
from langgraph.runtime import Runtime
from langgraph.store.memory import InMemoryStore

from certigraph.adapters.models.scripts import ScriptedChat
from certigraph.adapters.protocols import Context, Limits, Operator
from certigraph.nodes.lessons import gain_insights, memorise, reflect
from certigraph.state.records import Action, Observation, Scores, Task
from certigraph.state.run import Turn, create_turn
from certigraph.state.step import Lesson, Trial

TURNS = (
    Turn(action="activate sink", observation="The sink is now activated.", reward=0.08),
    create_turn(
        "",
        Action(text="focus on sink", args={"written": "focus on water", "offered": ["focus on drain"]}),
        Observation(text="You focus on the sink.", reward=-1.08),
    ),
)
LOST = Trial(number=1, scores=Scores(value=0.08, parts={"raw": -100.0}), ending="world_ended", steps=2)
WON = Trial(number=1, scores=Scores(value=1.0), ending="goal", steps=2)
CUT = Trial(number=1, scores=Scores(value=0.0), ending="limit:subtasks", steps=2)

AUTHORS = pytest.mark.parametrize("operator", [reflect, gain_insights, memorise])


class Author:
    """Writes the same lesson again and again, and keeps the prompts by the fields of their forms."""

    def __init__(self) -> None:
        self.prompts: list[tuple[str, str]] = []

    def __call__(self, prompt: str, schema: dict[str, Any]) -> Any:
        fields = schema.get("properties", {})
        kind = next((name for name in ("insights", "subtasks") if name in fields), "text")
        self.prompts.append((kind, prompt))
        return {"reasoning": "", kind: [f"NEW-{kind}"]} if fields else "NEW-text"

    def prompt(self, kind: str) -> str:
        return next(prompt for one, prompt in self.prompts if one == kind)


def learned(
    operator: Operator, author: Author, trial: Trial = LOST, trials: int = 3, memory: str = "", **seen: Any
) -> tuple[Lesson, ...]:
    view = {
        "task": Task(benchmark="records", id="only", goal="boil water"),
        "trial": trial,
        "turns": TURNS,
        "lessons": (Lesson(trial=0, report="R", insights=("OLD-insight",), strategy=("OLD-strategy",)),),
        **seen,
    }
    context = Context(
        benchmark=Records({}), chat=ScriptedChat(responder=author), limits=Limits(trials=trials), memory=memory
    )
    lessons: tuple[Lesson, ...] = asyncio.run(operator(view, Runtime(context=context, store=InMemoryStore())))[
        "lessons"
    ]
    return lessons


@AUTHORS
def test_what_was_written_and_what_was_offered_stand_next_to_the_action_that_was_taken(operator: Operator):
    author = Author()
    learned(operator, author)
    for _, prompt in author.prompts:
        assert "Action: focus on sink (written as: focus on water)" in prompt
        assert "focus on drain" in prompt


@AUTHORS
def test_an_episode_that_was_lost_has_one_score_and_its_first_points_are_shown(operator: Operator):
    author = Author()
    learned(operator, author)
    for _, prompt in author.prompts:
        assert "Score 8 of 100" in prompt
        assert "-108" not in prompt
        assert "[+8 points]" in prompt


def test_the_strategy_is_written_with_the_new_insights_and_the_old_strategy_in_sight():
    author = Author()
    lesson = learned(memorise, author)[-1]
    assert [kind for kind, _ in author.prompts] == ["insights", "subtasks"]
    assert "OLD-insight" in author.prompt("insights")
    assert all(
        text in author.prompt("subtasks") for text in ("NEW-insights", "OLD-strategy", "activate sink [+8 points]")
    )
    assert (lesson.insights, lesson.strategy) == (("NEW-insights",), ("NEW-subtasks",))


@AUTHORS
@pytest.mark.parametrize(
    ("trial", "trials", "memory", "is_used"),
    [
        (LOST, 2, "", True),
        (LOST, 1, "", False),
        (LOST, 1, "shared", True),
        (WON, 2, "", False),
        (WON, 2, "shared", True),
        (CUT, 1, "", True),
    ],
)
def test_nothing_is_learned_that_no_episode_can_use(
    operator: Operator, trial: Trial, trials: int, memory: str, is_used: bool
):
    author = Author()
    lessons = learned(operator, author, trial, trials, memory)
    assert bool(author.prompts) == is_used
    assert len(lessons) == 1 + is_used

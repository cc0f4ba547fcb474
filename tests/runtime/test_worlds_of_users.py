"""Mistakes in a user's own world are found and named: they are the world's, and neither a method's nor nobody's."""

from pathlib import Path
from typing import Any

import pytest

import certigraph
from certigraph import Benchmark, Context, Environment, Limits, Observation, Scores, Task
from certigraph.graphs import react
from certigraph.state.endings import UnknownName

CONTEXT = Context(model="scripted:first")


class Counter(Environment):
    count = 0

    def reset(self) -> Observation:
        self.count = 0
        return Observation(text="0")

    def step(self, action: Any) -> Observation:
        self.count += 1
        return Observation(text=str(self.count), done=self.count == 3, solved=self.count == 3)

    def admissible(self) -> list[str]:
        return ["add"]

    def score(self) -> Scores:
        return Scores(value=self.count / 3)


class Counting(Benchmark):
    name, limits = "counting", Limits(steps=9)

    def __init__(self, world: Any = Counter, tasks: Any = None) -> None:
        self.world, self.all = world, tasks

    def tasks(self, split: str = "") -> Any:
        return [Task(benchmark=self.name, id="three", goal="count to 3")] if self.all is None else self.all

    def open(self, task: Task) -> Any:
        return self.world()


class RaisingScore(Counter):
    def score(self) -> Scores:
        raise AttributeError("nope")


class NumberScore(Counter):
    def score(self) -> Any:
        return 1


class LargeScore(Counter):
    def score(self) -> Scores:
        return Scores(value=100)


class TextStep(Counter):
    def step(self, action: Any) -> Any:
        return "one"


class TextReset(Counter):
    def reset(self) -> Any:
        return "zero"


@pytest.mark.parametrize(
    ("world", "named"),
    [
        (RaisingScore, ("RaisingScore.score", "nope")),
        (NumberScore, ("NumberScore.score returned 1", "certigraph.Scores")),
        (LargeScore, ("LargeScore.score returned the score 100", "between 0 and 1")),
        (TextStep, ("TextStep.step returned 'one'", "certigraph.Observation")),
        (TextReset, ("TextReset.reset returned 'zero'", "certigraph.Observation")),
        (lambda: None, ("Counting.open returned None", "certigraph.Environment")),
    ],
)
def test_a_mistake_of_a_world_ends_the_run_by_its_name(world: Any, named: tuple[str, ...], tmp_path: Path):
    with pytest.warns(certigraph.RunFailedWarning):
        result = certigraph.run("react", Counting(world), context=CONTEXT, out=tmp_path)
    assert result.ending == "error:environment"
    assert [part for part in named if part not in result.message] == []
    assert result.scores is None or world is TextStep


def test_a_limit_stays_the_ending_of_a_run_that_cannot_be_scored(tmp_path: Path):
    context = CONTEXT.model_copy(update={"limits": Limits(steps=2)})
    result = certigraph.run("react", Counting(RaisingScore), context=context, out=tmp_path)
    assert (result.ending, result.scores) == ("limit:steps", None)


@pytest.mark.parametrize(
    ("benchmark", "error", "message"),
    [
        (Counting(tasks=[]), UnknownName, "counting has no tasks: let its method `tasks` return"),
        (
            Counting(tasks=["three"]),
            UnknownName,
            "has the task 'three': let its methods return certigraph.Task",
        ),
        (Counting, TypeError, r"the class Counting: give an instance, Counting\(\)"),
    ],
)
def test_a_benchmark_without_usable_tasks_says_so_before_the_run(
    benchmark: Any, error: type[Exception], message: str, tmp_path: Path
):
    with pytest.raises(error, match=message):
        certigraph.run("react", benchmark, context=CONTEXT, out=tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_an_unknown_task_without_a_benchmark_says_that_none_was_named(tmp_path: Path):
    with pytest.raises(UnknownName, match=r"no task 'Refund order 17\.'.*no benchmark was named: name one"):
        certigraph.run("sdp", task="Refund order 17.", out=tmp_path)


def test_a_graph_that_is_not_compiled_is_compiled(tmp_path: Path):
    result = certigraph.run(react.build().builder, Counting(), context=CONTEXT, out=tmp_path)  # type: ignore[arg-type]
    assert result.ending in ("goal", "finished")

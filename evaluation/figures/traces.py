"""Episodes as score curves, read from the trajectories of finished runs."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from pydantic import Field

from certigraph.evaluation.comparing.rows import steps_of
from certigraph.evaluation.finding import trajectory_files
from certigraph.evaluation.settings import graph_module
from certigraph.evaluation.shipped import GRAPHS
from certigraph.evaluation.sound import legible
from certigraph.graphs.assembly import operators_of
from certigraph.nodes.specs import Spec
from certigraph.state.endings import Fault
from certigraph.state.reading import read_trajectory
from certigraph.state.records import Record, Task
from certigraph.state.trajectory import Event, Header, Trajectory

FULL = 100.0
"""The score of a solved task."""


class Method(Record):
    """What is compared: a graph, the operators swapped into it, and the model behind it."""

    graph: str
    swaps: tuple[str, ...] = ()
    model: str = ""

    def __str__(self) -> str:
        """As the command line would say it: `step planner=none`."""
        return " ".join([self.graph, *self.swaps])


class Trace(Record):
    """One episode. `scores[i]` is the score so far, 0 to 100, after `actions[i]`: the last positive one that was seen.

    So a fatal -100 keeps what came before it (STEP, section 4.1). `episode` counts from 1 within its run, `last` marks
    the run's last one. `task` leaves out ScienceWorld's split and variation, whose variations are samples of a task.
    """

    run: str
    method: Method
    task: str
    task_id: str
    episode: int = Field(ge=1)
    last: bool
    actions: tuple[str, ...]
    scores: tuple[float, ...]

    def at(self, step: int) -> float:
        """The score after that many actions, kept once the episode is over."""
        return self.scores[min(step, len(self.scores)) - 1] if step and self.scores else 0.0

    @property
    def final(self) -> float:
        """The score of the episode."""
        return self.at(len(self.scores))

    @property
    def solved(self) -> bool:
        """Whether the episode reached the goal."""
        return self.final >= FULL


def read_traces(folders: Iterable[Path]) -> tuple[list[Trace], list[Path]]:
    """The episodes of all finished runs below the folders, and the runs left out: unfinished, or ended by an error.

    Raises:
        Fault: a folder is missing, or no run below them is finished.
    """
    traces: list[Trace] = []
    left_out: list[Path] = []
    folders = list(folders)
    for path in dict.fromkeys(found for folder in folders for found in trajectory_files(folder)):
        trajectory = read_trajectory(path)
        if trajectory.footer is None or trajectory.footer.ending.startswith("error:"):
            left_out.append(path.parent)
        else:
            traces += traces_of(trajectory)
    if not traces:
        named = " ".join(map(str, folders))
        raise Fault("data", f"no episode of a finished run below {named}: give folders that `certigraph run` wrote")
    return traces, left_out


def traces_of(trajectory: Trajectory) -> list[Trace]:
    """The episodes of one run; those in which nothing was done are none. Raises Fault as `method_of` does."""
    with legible(trajectory.header.run_id):
        return _traces(trajectory)


def _traces(trajectory: Trajectory) -> list[Trace]:
    header = trajectory.header
    episodes = [steps for steps in _episodes(trajectory.events) if steps]
    return [
        Trace(
            run=header.run_id,
            method=method_of(header),
            task=_task(header.task),
            task_id=header.task.id,
            episode=number,
            last=number == len(episodes),
            actions=tuple(step["history"][-1]["action"]["text"] for step in steps),
            scores=tuple(_so_far(step["observation"] for step in steps)),
        )
        for number, steps in enumerate(episodes, 1)
    ]


def method_of(header: Header) -> Method:
    """The method of a run: what its graph's operators differ in from the usual ones is swapped.

    Raises:
        Fault: ("data") the header names what is no operator.
    """
    usual = operators_of(graph_module(header.graph).graph) if header.graph in GRAPHS else {}
    with legible(header.run_id):
        swapped = {s: Spec.model_validate(spec) for s, spec in header.operators.items() if spec != usual.get(s)}
    return Method(graph=header.graph, swaps=tuple(f"{s}={spec}" for s, spec in swapped.items()), model=_model(header))


def _episodes(events: Iterable[Event]) -> Iterator[list[dict[str, Any]]]:
    """The updates of `act`, episode by episode: a log begun anew begins one, a sub-task's is none."""
    steps: list[dict[str, Any]] = []
    for event in events:
        if "history" in event.replaced and not event.scope:
            yield steps
            steps = []
        elif event.update and steps_of(event) and "observation" in event.update:
            steps.append(event.update)
    yield steps


def _so_far(observations: Iterable[dict[str, Any]]) -> Iterator[float]:
    """The world's own score where it tells one, else its rewards, in percent, added up."""
    kept = earned = 0.0
    for observation in observations:
        earned = min(FULL, earned + FULL * observation.get("reward", 0.0))
        score = float(observation.get("data", {}).get("score", earned))
        kept = score if score > 0 else kept
        yield kept


def _task(task: Task) -> str:
    if task.benchmark.partition(":")[0] == "scienceworld":
        return task.id.rpartition("/")[-1].partition(":")[0]
    return f"{task.benchmark} {task.id}"


def _model(header: Header) -> str:
    roles: Any = header.context.get("roles") or {}
    return " ".join([str(header.context.get("model", "")), *(f"{role}={name}" for role, name in roles.items())])

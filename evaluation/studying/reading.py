"""Finished runs of a study, read one at a time with what its analyses need."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from certigraph.adapters.protocols import Benchmark, Limits
from certigraph.evaluation.comparing.cells import done_cells, ended_cells
from certigraph.evaluation.comparing.plan import Plan
from certigraph.evaluation.studying.arms import Arm, arm_of, is_arm
from certigraph.evaluation.studying.truths import Truth, truth_of
from certigraph.state.beliefs import Belief, Round, belief_of
from certigraph.state.searching import FINISH, parsed
from certigraph.state.trajectory import Event, Trajectory


class Seen(NamedTuple):
    """A finished run. `state` is the graph's at its end; `judge` scores an answer to its question, 0 to 1."""

    arm: Arm
    trial: int
    trajectory: Trajectory
    state: Any
    truth: Truth
    limits: Limits
    judge: Callable[[str], float]

    @property
    def events(self) -> Sequence[Event]:
        """What the method needed: work that a resume did anew counts once."""
        return self.trajectory.events

    @property
    def question(self) -> str:
        """The task's own words."""
        return self.trajectory.header.task.goal

    @property
    def rounds(self) -> Sequence[Round]:
        """The rounds of search; the final answer is none."""
        found: Sequence[Round] = self.state["rounds"]
        return found

    @property
    def belief(self) -> Belief:
        """What was believed at the end."""
        return belief_of(self.state)

    @property
    def score(self) -> float:
        """The benchmark's verdict, 0 to 1; 0 where a run came to none."""
        footer = self.trajectory.footer
        return footer.scores.value if footer and footer.scores else 0.0

    @property
    def answer(self) -> str:
        """What was handed in; empty where nothing was."""
        footer = self.trajectory.footer
        return str(footer.scores.answer or "") if footer and footer.scores else ""

    @property
    def forced(self) -> str:
        """What forced the answer: the gate, spent rounds, ...; empty where the agent handed it in or none was given."""
        action = self.state.get("action")
        return str(action.args.get("forced", "")) if action and action.kind == FINISH else ""

    @property
    def stopped_itself(self) -> bool:
        """Whether the agent handed an answer in by its own decision."""
        action = self.state.get("action")
        meant = parsed(action) if action else None
        return meant is not None and meant.kind == FINISH and not self.forced


def errors_in(plan: Plan, folder: Path) -> pd.DataFrame:
    """The arms of which an error ended runs, a line a kind of ending: `ending`, and `count` of so many `runs`.

    No other table has these runs, and the next call tries them again.
    """
    arms = plan.model_copy(update={"methods": tuple(filter(is_arm, plan.methods))})
    ended = [(cell.method.name, trajectory.ending) for cell, trajectory in ended_cells(arms, folder)]
    runs, counts = Counter(method for method, _ in ended), Counter(ended)
    lines = [(*key, count, runs[key[0]]) for key, count in counts.items() if key[1].startswith("error:")]
    return pd.DataFrame(lines, columns=["method", "ending", "count", "runs"])


def seen_in(plan: Plan, folder: Path, benchmark: Benchmark) -> Iterator[Seen]:
    """The study's runs that have their ending, in the order of the plan."""
    live: Any = benchmark
    arms = plan.model_copy(update={"methods": tuple(filter(is_arm, plan.methods))})
    for cell, trajectory in done_cells(arms, folder):
        task = trajectory.header.task
        yield Seen(
            arm=arm_of(cell.method),
            trial=cell.trial,
            trajectory=trajectory,
            state=trajectory.state(),
            truth=truth_of(live, task),
            limits=plan.limits,
            judge=lambda answer, task=task: live.score_answer(task, answer).value,  # type: ignore[misc]
        )

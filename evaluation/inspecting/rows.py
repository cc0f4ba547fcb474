"""What a benchmark's task came to: the record that goes from a run through inspect's log into the figures."""

from certigraph.evaluation.result import Result
from certigraph.state.endings import FAULTS, INTERRUPTED
from certigraph.state.records import Record, Usage
from certigraph.state.trajectory import Footer

ROW = "certigraph"
"""Where a sample's store holds its row, and the name of the score that carries it."""


class Row(Record):
    """One run of a task: how it ended and what it came to. `certified` and `planned` count predicates."""

    id: str
    trial: int = 0
    """Which repetition of the task it was."""
    run: str = ""
    """Name of the run's folder."""
    certified: int = 0
    planned: int = 0
    steps: int = 0
    """World steps, of the last episode where there were several."""
    footer: Footer

    @property
    def ending(self) -> str:
        """How the run ended."""
        return self.footer.ending

    @property
    def fault(self) -> bool:
        """Whether the world or its data failed, so that no rate counts the run."""
        return self.ending in FAULTS

    @property
    def scored(self) -> bool:
        """Whether rates count the run: it has an ending, and no fault."""
        return not self.fault and self.ending != INTERRUPTED

    @property
    def value(self) -> float:
        """The official verdict in [0, 1]; 0 where the world could not be asked."""
        return self.footer.scores.value if self.footer.scores else 0.0

    @property
    def cost(self) -> float | None:
        """The price of the answer where the benchmark reports one: dollars in TravelPlanner."""
        return self.footer.scores.parts.get("cost") if self.footer.scores else None

    @property
    def seconds(self) -> float:
        """Wall-clock inside nodes."""
        return self.footer.usage.seconds

    @property
    def tokens(self) -> int:
        """Input and output tokens."""
        return self.footer.usage.input_tokens + self.footer.usage.output_tokens


def row_of(task_id: str, result: Result, trial: int = 0) -> Row:
    """The row of a finished run."""
    footer = result.trajectory.footer or unfinished()
    planned = len(result.state.get("plan", []))
    certified = len(result.certified.predicates)
    return Row(
        id=task_id,
        trial=trial,
        run=result.folder.name,
        certified=certified,
        planned=planned,
        steps=len(result.state.get("history", [])),
        footer=footer,
    )


def unfinished() -> Footer:
    """The footer of a run that was cut off before it could write one."""
    return Footer(ending=INTERRUPTED, usage=Usage(node="all"))

"""What makes a run, as plain values that can be sent to another machine."""

from pathlib import Path
from typing import Self

from pydantic import JsonValue

from certigraph.adapters.context import Context
from certigraph.evaluation.inspecting.rows import Row, unfinished
from certigraph.evaluation.keeping import usual_checkpoints
from certigraph.evaluation.scaling.shared import is_url
from certigraph.state.records import Record


class Job(Record):
    """One run to be carried to its ending in a folder of its own, begun there or gone on with.

    Objects that live in this process do not travel: a context's chat model, world and callbacks are left behind.
    """

    graph: str
    operators: dict[str, JsonValue]
    """As `operators_of` gives them, and headers keep them."""
    benchmark: str
    """Its name, a configuration included."""
    task: str
    context: Context
    """Models by certigraph's own names; the trial, the budget and the data folder are its."""
    out: str
    """The folder, or the URL, that holds the run's folder."""
    run: str
    """The name of the run's folder."""

    def anywhere(self) -> Self:
        """The same where nothing depends on which process does it: no relative path, no live object.

        A run whose checkpoints belong on a server has them there, or fails where a worker's machine does not name one.
        """
        given = {name: _absolute(getattr(self.context, name)) for name in ("data", "cache")}
        given["checkpoints"] = self.context.checkpoints or usual_checkpoints()
        context = Context.model_validate({**self.context.model_dump(), **given})
        return self.model_copy(update={"context": context, "out": _absolute(self.out)})

    def failed(self, ending: str, message: str) -> Row:
        """The row of a run that nobody could carry to an ending of its own."""
        footer = unfinished().model_copy(update={"ending": ending, "message": message})
        return Row(id=self.task, trial=self.context.trial, run=self.run, footer=footer)


def _absolute(place: str | None) -> str | None:
    return str(Path(place).expanduser().resolve()) if place and not is_url(place) else place

"""How one run of an evaluation is carried out: in this process behind inspect's bridge, or by a worker elsewhere."""

from collections.abc import Mapping
from contextlib import nullcontext
from typing import NamedTuple

from inspect_ai.agent import AgentState, agent_bridge
from inspect_ai.log import transcript
from inspect_ai.model import get_model
from inspect_ai.solver import TaskState
from inspect_ai.util import LimitExceededError
from pydantic import JsonValue

from certigraph.adapters.context import Context
from certigraph.adapters.models.chat import is_scripted
from certigraph.adapters.protocols import Benchmark
from certigraph.evaluation.completing import completed
from certigraph.evaluation.inspecting.bridged import minds_of
from certigraph.evaluation.inspecting.journal import Cell
from certigraph.evaluation.inspecting.models import NO_MODEL
from certigraph.evaluation.inspecting.rows import Row, row_of
from certigraph.evaluation.scaling.job import Job
from certigraph.evaluation.scaling.pool import Pool
from certigraph.evaluation.scaling.shared import Shared
from certigraph.evaluation.settings import AnyGraph
from certigraph.graphs.assembly import operators_of
from certigraph.state.trajectory import Event, Line

SCRIPTED = "scripted:expert"
"""The model where neither the task nor inspect names one."""


class Ran(NamedTuple):
    """What a run came to, the model that it asked, and the limit of inspect's that stopped it."""

    row: Row
    model: str
    limit: LimitExceededError | None = None


class Runs(NamedTuple):
    """What the runs of an evaluation have in common; without a model's name the choice is inspect's."""

    graph: AnyGraph
    benchmark: str
    live: Benchmark
    model: str
    context: Context
    out: str

    async def on_workers(self, pool: Pool, cell: Cell, run: str) -> Ran:
        """Have a worker carry a run to its ending; it asks the model itself."""
        context = self.context.model_copy(update={"model": self.model or SCRIPTED, "trial": cell.trial})
        job = Job(
            graph=self.graph.name,
            operators=operators_of(self.graph),
            benchmark=self.benchmark,
            task=cell.task,
            context=context,
            out=self.out,
            run=run,
        )
        row = await pool.done(job)
        Shared(self.out).drop(run)  # what was fetched to see how far it had come
        return Ran(row, context.model)

    async def here(self, state: TaskState, cell: Cell, run: str) -> Ran:
        """Carry a run to its ending in this process, with inspect's model behind the bridge."""
        context = self.context.model_copy(update={"model": _model(self.model), "trial": cell.trial})
        minds = minds_of(context, self.live)
        given = context.model_copy(update={"chat": minds})
        shared = Shared(self.out)
        # a script asks inspect for nothing
        async with agent_bridge(AgentState(messages=state.messages)) if minds else nullcontext():
            result = await completed(shared.run(run), self.graph, self.live, cell.task, given, listener=_note)
        row = row_of(cell.task, result, cell.trial)
        shared.keep(run)
        return Ran(row, context.model, minds.limit if minds else None)


def _model(name: str) -> str:
    if is_scripted(name):
        return name
    active = str(get_model())
    return SCRIPTED if active == NO_MODEL else active


def _note(line: Line) -> None:
    """Show verdicts and certificates in inspect's transcript."""
    if isinstance(line, Event) and line.update and (told := _told(line.update)):
        transcript().info(told, source=f"certigraph.{line.node}")


def _told(update: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
    return {key: update[key] for key in ("verdict", "certificates") if update.get(key)}

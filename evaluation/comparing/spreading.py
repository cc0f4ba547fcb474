"""Carries the cells of a comparison out on the workers of a Ray cluster, in place of this process."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from certigraph.adapters.context import Context
from certigraph.adapters.protocols import Benchmark
from certigraph.evaluation.comparing.cells import Cell, carry_out, recorded, run_of
from certigraph.evaluation.comparing.compare import Carry
from certigraph.evaluation.comparing.plan import Plan
from certigraph.state.endings import Fault
from certigraph.state.trajectory import Trajectory

if TYPE_CHECKING:
    from certigraph.evaluation.scaling.pool import Pool


class Workers(NamedTuple):
    """Processes of a Ray cluster: its address, as `pooled` takes it, and how many; one a processor by default."""

    address: str
    processes: int | None = None


@contextmanager
def spread(plan: Plan, workers: Workers | None, at_once: int) -> Iterator[tuple[Carry, int]]:
    """What carries a cell out inside the block, and how many at once: in this process where there are no workers.

    With workers an `at_once` of 1 stands for as many as fit on them. The comparison's folder must be one that they see.

    Raises:
        Fault: Ray is missing, or there is no such cluster.
    """
    if workers is None:
        yield carry_out, at_once
        return
    from certigraph.evaluation.scaling.cluster import pooled

    asked = at_once if at_once > 1 else None
    with pooled(workers.address, plan.model, workers=workers.processes, at_once=asked) as pool:
        yield partial(_on_workers, pool, plan.benchmark), asked or pool.workers * pool.at_once


async def _on_workers(pool: "Pool", name: str, cell: Cell, context: Context, benchmark: Benchmark) -> Trajectory:
    from certigraph.evaluation.scaling.job import Job

    job = Job(
        graph=cell.method.graph,
        operators=cell.method.operators,
        benchmark=name,
        task=cell.task,
        context=context.model_copy(update={"trial": cell.trial}),
        out=str(cell.folder),
        run=run_of(cell, benchmark),
    )
    row = await pool.done(job)
    if trajectory := recorded(cell):
        return trajectory
    raise Fault("environment", row.footer.message)

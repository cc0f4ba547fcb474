"""Runs a graph as inspect's solver: one sample is one run."""

from collections.abc import Sequence

from inspect_ai.model import ModelOutput
from inspect_ai.solver import Generate, Solver, TaskState, solver

from certigraph.adapters.benchmarks import load_benchmark
from certigraph.adapters.context import Context
from certigraph.adapters.faults.again import begun_again
from certigraph.adapters.faults.rates import Faults
from certigraph.evaluation.budgets import allowance, must_be_priced, roles_in
from certigraph.evaluation.inspecting.journal import Cell, Journal
from certigraph.evaluation.inspecting.rows import ROW, Row, unfinished
from certigraph.evaluation.inspecting.runs import Runs
from certigraph.evaluation.scaling.cluster import active_pool
from certigraph.evaluation.settings import build_graph, parse_swap


class RunError(Exception):
    """A run ended in an error; inspect records the sample as failed, and a retry takes it up again."""


@solver
def certified_run(
    graph: str,
    benchmark: str,
    *,
    swaps: dict[str, str],
    model: str = "",
    roles: Sequence[str] = (),
    budget: Sequence[str] = (),
    data: str = "",
    cache: str = "",
    faults: str = "",
    out: str = "runs",
    journal: str = "",
    fail_on: int = 0,
) -> Solver:
    """Run a graph on the benchmark's task of the sample's id; the run's row is left in the sample's store.

    Args:
        graph: a graph's name.
        benchmark: a benchmark's name, its configuration included.
        swaps: operators by slot, as in `{"validate": "capped:depth=1"}`.
        model: a scripted model; any other name leaves the choice to inspect.
        roles: other models for some roles, as `ROLE=MODEL`; those that are no scripts are inspect's model roles.
        budget: what a run may spend and its method's limits, as `KEY=N`.
        data: data folder, or the empty string for the default.
        cache: folder of the models' replies, or the empty string for none.
        faults: faults to inject, as `timeout=0.1,crash=0.01`; empty: none.
        out: the folder in which every run gets a folder of its own.
        journal: name of the file there by which a retry finds the runs again; empty: none.
        fail_on: failed runs after which no more are begun; 0: any number may fail.
    """
    compiled = build_graph(graph, dict(parse_swap(f"{slot}={text}") for slot, text in swaps.items()))
    live = load_benchmark(benchmark, data or None)
    spending, limits = allowance(budget, live.limits)
    by_role = roles_in(roles)
    must_be_priced((model, *by_role.values()), spending)
    Faults.read(faults)
    given = {"data": data or None, "cache": cache or None, "faults": faults}
    context = Context(roles=by_role, budget=spending, limits=limits, **given)
    runs = Runs(compiled, benchmark, live, model, context, out)
    noted = Journal(out, journal)
    failed: list[Row] = []

    async def solve(state: TaskState, generate: Generate) -> TaskState:
        cell = Cell(str(state.sample_id), state.epoch - 1)
        if fail_on and len(failed) >= fail_on:
            row = _left_out(cell, f"not begun: {fail_on} runs have failed")
            state.store.set(ROW, row.model_dump(mode="json"))
            raise RunError(row.footer.message)
        run, pool = noted.run_of(cell, graph, live.task(cell.task)), active_pool()
        tried = runs._replace(context=begun_again(context, noted.times(cell)))
        ran = await (tried.on_workers(pool, cell, run) if pool else tried.here(state, cell, run))
        state.store.set(ROW, ran.row.model_dump(mode="json"))
        state.output = ModelOutput.from_content(ran.model, ran.row.ending)
        if ran.limit:
            raise ran.limit
        if ran.row.ending.startswith("error:"):
            failed.append(ran.row)
            raise RunError(f"{ran.row.ending}: {ran.row.footer.message} (run: {ran.row.run})")
        return state

    return solve


def _left_out(cell: Cell, why: str) -> Row:
    return Row(id=cell.task, trial=cell.trial, footer=unfinished().model_copy(update={"message": why}))

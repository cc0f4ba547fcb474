"""Runs a graph as inspect's solver: one sample is one run, with inspect's model behind the bridge."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext

from inspect_ai.agent import AgentState, agent_bridge
from inspect_ai.log import transcript
from inspect_ai.model import ModelOutput, get_model
from inspect_ai.solver import Generate, Solver, TaskState, solver
from pydantic import JsonValue

from certigraph.adapters.benchmarks import load_benchmark
from certigraph.adapters.context import Context
from certigraph.adapters.models.chat import is_scripted
from certigraph.adapters.protocols import Benchmark
from certigraph.evaluation.budgets import allowance, roles_in
from certigraph.evaluation.inspecting.bridged import minds_of
from certigraph.evaluation.inspecting.journal import Cell, Journal
from certigraph.evaluation.inspecting.models import NO_MODEL
from certigraph.evaluation.inspecting.rows import ROW, Row, row_of
from certigraph.evaluation.keeping import drop_checkpoints
from certigraph.evaluation.result import Result
from certigraph.evaluation.run import aresume, arun
from certigraph.evaluation.settings import AnyGraph, build_graph, parse_swap
from certigraph.state.endings import INTERRUPTED
from certigraph.state.trajectory import Event, Header, Line

SCRIPTED = "scripted:expert"
"""The model where neither the task nor inspect names one."""


class RunError(Exception):
    """A run ended in an error; inspect records the sample as failed, and a retry runs it again."""


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
    out: str = "runs",
    journal: str = "",
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
        out: the folder in which every run gets a folder of its own.
        journal: name of the file there by which a retry finds the runs again; empty: none.
    """
    compiled = build_graph(graph, dict(parse_swap(f"{slot}={text}") for slot, text in swaps.items()))
    live = load_benchmark(benchmark, data or None)
    spending, limits = allowance(budget, live.limits)
    fixed = Context(roles=roles_in(roles), data=data or None, cache=cache or None, budget=spending, limits=limits)
    runs = Journal(out, journal)

    async def solve(state: TaskState, generate: Generate) -> TaskState:
        cell = Cell(str(state.sample_id), state.epoch - 1)
        context = fixed.model_copy(update={"model": _model(model), "trial": cell.trial})
        minds = minds_of(context, live)
        context = context.model_copy(update={"chat": minds})
        # a script asks inspect for nothing
        async with agent_bridge(AgentState(messages=state.messages)) if minds else nullcontext():
            result = await _finished(runs, cell, compiled, live, context, out)
        await drop_checkpoints(result.folder, result.ending, context)
        row = row_of(cell.task, result, cell.trial)
        state.store.set(ROW, row.model_dump(mode="json"))
        state.output = ModelOutput.from_content(context.model, row.ending)
        if minds and minds.limit:
            raise minds.limit
        _refuse_errors(row)
        return state

    return solve


async def _finished(runs: Journal, cell: Cell, graph: AnyGraph, live: Benchmark, context: Context, out: str) -> Result:
    """The cell's run as it ended, gone on with where a crash cut it off; a new one where it failed or is missing."""
    folder = runs.begun(cell)
    begun = Result(folder) if folder else None
    if begun and begun.ending == INTERRUPTED:
        return await aresume(begun.folder, benchmark=live, chat=context.chat, listener=_note)
    if begun and not begun.ending.startswith("error:"):
        return begun
    listener = _noting(runs, cell)
    return await arun(graph, live, live.task(cell.task), context=context, out=out, listener=listener)


def _noting(runs: Journal, cell: Cell) -> Callable[[Line], None]:
    def listener(line: Line) -> None:
        if isinstance(line, Header):
            runs.note(cell, line.run_id)
        _note(line)

    return listener


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


def _refuse_errors(row: Row) -> None:
    if row.ending.startswith("error:"):
        raise RunError(f"{row.ending}: {row.footer.message} (run: {row.run})")

"""inspect_ai tasks, scorers and solvers.

Each benchmark is a task of inspect: `inspect eval certigraph/travelplanner -T graph=sdp -T validate=always_pass`.
"""

import json
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from itertools import chain, islice, zip_longest

from inspect_ai import Task as InspectTask
from inspect_ai import task as register_task
from inspect_ai.dataset import MemoryDataset, Sample
from inspect_ai.model import GenerateConfig, Model, ModelOutput
from inspect_ai.scorer import Metric, SampleScore, Score, Scorer, Target, Value, metric, scorer
from inspect_ai.solver import Generate, Solver, TaskState, solver
from inspect_ai.util import registry_info

from certigraph.adapters.benchmarks import BENCHMARKS, load_benchmark
from certigraph.adapters.faults import Faults, begun_again
from certigraph.adapters.models.chat_models import is_scripted
from certigraph.adapters.protocols import ROLES, Context
from certigraph.evaluation.inspect_runs import Cell, Journal, Runs, certigraph, inspect_model
from certigraph.evaluation.workers import active_pool
from certigraph.graphs.assembly import operators_of
from certigraph.runtime.registry import allowance, build_graph, must_be_priced, parse_swap, roles_in
from certigraph.runtime.result import ROW, Row, unfinished_footer
from certigraph.state.records import Fault, Task

# Samples of a benchmark's tasks.

STRATA = ("level", "days", "task")
"""Constants of tasks whose values define the strata of a stratified sample, where a benchmark has them."""


def dataset(name: str, tasks: Sequence[Task]) -> MemoryDataset:
    """Convert tasks to samples; a sample has the id of its task.

    Raises:
        Fault: ("data") an id has a NUL, at which names in inspect's logs end: the sample would be lost.
    """
    if invalid := [task.id for task in tasks if "\0" in task.id]:
        raise Fault("data", f"inspect's logs cannot hold the task {invalid[0]!r}: give it an id without NUL")
    samples = [Sample(id=task.id, input=task.goal, metadata=dict(task.constants)) for task in tasks]
    return MemoryDataset(samples, name=name)


def stratified(tasks: Sequence[Task], n: int) -> list[Task]:
    """Select `n` tasks evenly over level, length and kind, in the order of the list. The selection is deterministic."""
    groups = defaultdict(list)
    for task in tasks:
        groups[tuple(str(task.constants.get(name)) for name in STRATA)].append(task)
    rounds = chain.from_iterable(zip_longest(*(groups[key] for key in sorted(groups))))
    chosen = {task.id for task in islice(filter(None, rounds), n)}
    return [task for task in tasks if task.id in chosen]


# The official score as inspect's score, and the benchmark's figures as inspect's metrics.


@metric(scores="unreduced")
def official(benchmark: str, data: str = "") -> Metric:
    """Create the metric with the benchmark's official figures over all scored runs, epochs included."""

    def figures(scores: list[SampleScore]) -> Value:
        rows = [Row.model_validate(score.score.metadata) for score in scores]
        runs = [(row.id, row.footer) for row in rows if row.scored]
        # inspect also calls the metric before the first run has ended
        return dict(load_benchmark(benchmark, data or None).figures(runs)) if runs else {}

    return figures


@scorer(metrics=[], name=ROW)
def verdict() -> Scorer:
    """Create the scorer that reads the world's score from the row of the run; 0 for a run without a score.

    Runs in which the world or its data failed, and unfinished runs, are unscored: inspect's metrics leave them out.
    """

    async def score(state: TaskState, target: Target) -> Score:
        stored = state.store.get(ROW)
        missing = Row(id=str(state.sample_id), trial=state.epoch - 1, footer=unfinished_footer())
        row = Row.model_validate(stored) if stored else missing
        scores = row.footer.scores
        if not row.scored:
            metadata = row.model_dump(mode="json")
            return Score.unscored(reason=row.ending, explanation=row.footer.message or row.ending, metadata=metadata)
        return Score(
            value=row.value,
            answer=json.dumps(scores.answer, ensure_ascii=False) if scores and scores.answer else None,
            explanation=_explained(row),
            metadata=row.model_dump(mode="json"),
        )

    return score


def _explained(row: Row) -> str:
    parts = row.footer.scores.parts if row.footer.scores else {}
    lines = [f"{name}: {part:g}" for name, part in parts.items() if part is not None]
    return "\n".join([f"{row.ending}, {row.certified} of {row.planned} predicates certified", *lines])


# The solver, which runs a graph: one sample is one run.


class RunError(Exception):
    """A run ended in an error: inspect records the sample as failed, and a retry repeats or resumes the run."""


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
    """Create the solver that runs a graph on the task with the sample's id and stores the run's row in the sample.

    Args:
        graph: a graph's name.
        benchmark: a benchmark's name, its configuration included.
        swaps: operators by slot, as in `{"validate": "capped:depth=1"}`.
        model: a scripted model; with any other name inspect chooses the model.
        roles: other models for some roles, as `ROLE=MODEL`; those that are not scripted are inspect's model roles.
        budget: limits of a run and of its method, as `KEY=N`.
        data: data folder, or the empty string for the default.
        cache: folder of the models' replies, or the empty string for none.
        faults: faults to inject, as `timeout=0.1,crash=0.01`; empty: none.
        out: folder that holds a folder for each run.
        journal: name of the file in `out` by which a retry finds the runs; empty: none.
        fail_on: number of failed runs after which no more are started; 0: no maximum.
    """
    compiled = build_graph(graph, dict(parse_swap(f"{slot}={text}") for slot, text in swaps.items()))
    live = load_benchmark(benchmark, data or None)
    run_budget, limits = allowance(budget, live.limits)
    by_role = roles_in(roles)
    must_be_priced((model, *by_role.values()), run_budget)
    Faults.read(faults)
    options = {"data": data or None, "cache": cache or None, "faults": faults}
    context = Context(roles=by_role, budget=run_budget, limits=limits, **options)
    runs = Runs(compiled, benchmark, live, model, context, out)
    run_journal = Journal(out, journal)
    failed: list[Row] = []

    async def solve(state: TaskState, generate: Generate) -> TaskState:
        cell = Cell(str(state.sample_id), state.epoch - 1)
        if fail_on and len(failed) >= fail_on:
            row = _left_out(cell, f"not started: {fail_on} runs have failed")
            state.store.set(ROW, row.model_dump(mode="json"))
            raise RunError(row.footer.message)
        run, pool = run_journal.find_or_name_run(cell, graph, live.task(cell.task)), active_pool()
        runner = runs._replace(context=begun_again(context, run_journal.restarts(cell)))
        result = await (runner.run_on_worker(pool, cell, run) if pool else runner.run_here(state, cell, run))
        state.store.set(ROW, result.row.model_dump(mode="json"))
        state.output = ModelOutput.from_content(result.model, result.row.ending)
        if result.limit:
            raise result.limit
        if result.row.ending.startswith("error:"):
            failed.append(result.row)
            raise RunError(f"{result.row.ending}: {result.row.footer.message} (run: {result.row.run})")
        return state

    return solve


def _left_out(cell: Cell, reason: str) -> Row:
    return Row(id=cell.task, trial=cell.trial, footer=unfinished_footer().model_copy(update={"message": reason}))


# The benchmarks as inspect tasks.

OneOrMore = str | int | list[str]
"""Type of an argument on inspect's command line, which parses numbers and splits at commas."""

RETRIES = 0
"""Number of times that inspect repeats a failed request: none, because the budget would not count these requests. Runs
repeat requests and count them."""


def task_of(benchmark: str) -> Callable[..., InspectTask]:
    """Create the inspect task of a benchmark and register it under the benchmark's name."""

    @register_task(name=benchmark)
    def benchmark_task(
        graph: str = "sdp",
        config: str = "",
        model: OneOrMore = "",
        data: str = "",
        split: str = "",
        ids: OneOrMore = "",
        stratify: int = 0,
        trials: int = 1,
        role: OneOrMore = "",
        budget: OneOrMore = "",
        cache: str = "",
        faults: OneOrMore = "",
        out: str = "runs",
        journal: str = "",
        fail_on: int = 0,
        **swaps: OneOrMore,
    ) -> InspectTask:
        """A graph on a benchmark.

        Args:
            graph: a graph's name.
            config: a configuration of the benchmark: `paper`, and in ScienceWorld `drafted`.
            model: name of a model in certigraph; unset: inspect's --model, else scripted:expert.
            data: data folder; unset: CERTIGRAPH_DATA, else a generated world.
            split: split of the tasks; unset: the benchmark's default.
            ids: ids of the tasks, in place of a split.
            stratify: number of tasks, chosen evenly over difficulty, length and kind; 0: all of them in order.
            trials: runs of each task, like inspect's --epochs.
            role: other models for some roles: `executor=local`, like inspect's --model-role.
            budget: limits of a run and of its method: `calls=20,steps=30`.
            cache: folder that caches the replies of models, so that no request is paid for twice.
            faults: faults to inject into models and worlds: `timeout=0.1,crash=0.01,seed=3`.
            out: folder that holds a folder for each run.
            journal: name of the file in `out` by which a retry after a crash finds the runs.
            fail_on: number of failed runs after which no more are started; 0: no maximum.
            **swaps: operators by slot: `validate="capped:depth=1"`.
        """
        name = f"{benchmark}:{config}" if config else benchmark
        live = load_benchmark(name, data or None)
        tasks = [live.task(task_id) for task_id in _listed(ids)] if ids else live.tasks(split)
        operators = {slot: ",".join(_listed(text)) for slot, text in swaps.items()}
        model_name, roles = ",".join(_listed(model)), _by_role(role)
        return InspectTask(
            dataset=dataset(name, stratified(tasks, stratify) if stratify else tasks),
            solver=certified_run(
                graph,
                name,
                swaps=operators,
                model=model_name,
                roles=roles,
                budget=_listed(budget),
                data=data,
                cache=cache,
                faults=",".join(_listed(faults)),
                out=out,
                journal=journal,
                fail_on=fail_on,
            ),
            scorer=verdict(),
            metrics=[official(name, data)],
            model=inspect_model(model_name),
            model_roles=_model_roles(roles_in(roles)),
            epochs=trials,
            config=_generation(model_name),
            # a failed run is recorded and scored with what it achieved; other runs continue, a retry repeats the failed
            continue_on_fail=True,
            score_on_error=True,
            metadata={
                "graph": graph,
                "benchmark": name,
                "model": model_name,
                "budget": _listed(budget),
                "swaps": operators,
                "operators": _operators(graph, operators),
            },
        )

    return benchmark_task


def _generation(model: str) -> GenerateConfig:
    # llama.cpp has one slot here: a second run would only wait, and the two would evict each other's prompt cache
    connections = 1 if model.startswith("local") else None
    return GenerateConfig(temperature=0, max_retries=RETRIES, max_connections=connections)


def _model_roles(roles: Mapping[str, str]) -> dict[str, str | Model]:
    models = {role: inspect_model(name) for role, name in roles.items() if not is_scripted(name)}
    return {role: model for role, model in models.items() if model}


def _listed(value: OneOrMore) -> list[str]:
    return [str(part) for part in (value if isinstance(value, list) else [value]) if part != ""]


def _by_role(value: OneOrMore) -> list[str]:
    """Join `ROLE=MODEL` items that inspect split at a comma of the model's name: `simulated:act=0.2,seed=3`."""
    joined: list[str] = []
    for part in _listed(value):
        if joined and part.partition("=")[0] not in ROLES:
            joined[-1] += f",{part}"
        else:
            joined.append(part)
    return joined


def _operators(graph: str, swaps: Mapping[str, str]) -> dict[str, object]:
    compiled = build_graph(graph, dict(parse_swap(f"{slot}={text}") for slot, text in swaps.items()))
    return dict(operators_of(compiled))


# The objects that inspect loads for the entry point `inspect_ai`: a task per benchmark, and the models.

__all__ = ["TASKS", "certigraph", "registered"]

TASKS = {name: task_of(name) for name in BENCHMARKS}


def registered(task: str) -> str:
    """Return the registered name of a task: `certigraph/NAME` where certigraph is installed, else `NAME`."""
    return registry_info(TASKS[task.rpartition("/")[2]]).name

"""Tasks, scorers and solvers for Inspect (the package `inspect_ai`).

Each benchmark is an Inspect task: `inspect eval certigraph/travelplanner -T graph=sdp -T validate=always_pass`.
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
from certigraph.adapters.faults import Faults, restarted_context
from certigraph.adapters.models.chat_models import is_scripted
from certigraph.adapters.models.profiles import check_profile_name
from certigraph.adapters.protocols import ROLES, Context
from certigraph.evaluation.inspect_runs import RunJournal, SampleRun, SampleRunner, certigraph, inspect_model
from certigraph.evaluation.tool_worlds import check_evaluable, check_unattended
from certigraph.evaluation.workers import active_pool
from certigraph.graphs.assembly import operators_of
from certigraph.runtime.registry import build_graph, check_priced, parse_budget, parse_roles, parse_swap
from certigraph.runtime.result import ROW_KEY, BenchmarkRow, unfinished_footer
from certigraph.state.records import INTERRUPTED, Fault, Task

# Samples of a benchmark's tasks.

STRATUM_CONSTANTS = ("level", "days", "task")
"""Task constants whose values define the strata of a stratified sample; a benchmark may lack some of them."""


def create_dataset(name: str, tasks: Sequence[Task]) -> MemoryDataset:
    """Convert tasks to an Inspect dataset; each sample has the id of its task.

    Raises:
        Fault: ("data") a task id contains a NUL character. Names in Inspect's logs end there, so the sample would be
            lost.
    """
    if invalid := [task.id for task in tasks if "\0" in task.id]:
        raise Fault("data", f"inspect's logs cannot hold the task {invalid[0]!r}: give it an id without NUL")
    samples = [Sample(id=task.id, input=task.goal, metadata=dict(task.constants)) for task in tasks]
    return MemoryDataset(samples, name=name)


def select_stratified_tasks(tasks: Sequence[Task], n: int) -> list[Task]:
    """Select `n` tasks, spread evenly over difficulty level, number of days and kind of task.

    The selection is deterministic and keeps the order of `tasks`.
    """
    groups = defaultdict(list)
    for task in tasks:
        groups[tuple(str(task.constants.get(name)) for name in STRATUM_CONSTANTS)].append(task)
    rounds = chain.from_iterable(zip_longest(*(groups[key] for key in sorted(groups))))
    chosen = {task.id for task in islice(filter(None, rounds), n)}
    return [task for task in tasks if task.id in chosen]


# The official score as Inspect's score, and the benchmark's metrics as Inspect's metrics.


@metric(scores="unreduced")
def official(benchmark: str, data: str = "") -> Metric:
    """Create the Inspect metric that computes the benchmark's official metrics over the scored runs of all epochs."""

    def figures(scores: list[SampleScore]) -> Value:
        rows = [BenchmarkRow.model_validate(score.score.metadata) for score in scores]
        runs = [(row.id, row.footer) for row in rows if row.scored]
        # Inspect also calls the metric before the first run has ended
        return dict(load_benchmark(benchmark, data or None).figures(runs)) if runs else {}

    return figures


@scorer(metrics=[], name=ROW_KEY)
def verdict() -> Scorer:
    """Create the Inspect scorer, which returns the score that the solver stored in the sample.

    A run that ended without a score counts as 0. Unfinished runs, and runs in which the world or its data failed, are
    marked as unscored, so that Inspect's metrics leave them out.
    """

    async def score(state: TaskState, target: Target) -> Score:
        stored = state.store.get(ROW_KEY)
        missing = BenchmarkRow(id=str(state.sample_id), trial=state.epoch - 1, footer=unfinished_footer())
        row = BenchmarkRow.model_validate(stored) if stored else missing
        scores = row.footer.scores
        if not row.scored:
            metadata = row.model_dump(mode="json")
            return Score.unscored(reason=row.ending, explanation=row.footer.message or row.ending, metadata=metadata)
        return Score(
            value=row.value,
            answer=json.dumps(scores.answer, ensure_ascii=False) if scores and scores.answer else None,
            explanation=_format_explanation(row),
            metadata=row.model_dump(mode="json"),
        )

    return score


def _format_explanation(row: BenchmarkRow) -> str:
    parts = row.footer.scores.parts if row.footer.scores else {}
    lines = [f"{name}: {part:g}" for name, part in parts.items() if part is not None]
    return "\n".join([f"{row.ending}, {row.certified} of {row.planned} predicates certified", *lines])


# The solver, which runs a graph: one sample is one run.


class RunError(Exception):
    """A run ended in an error. Inspect then records the sample as failed, and a retry repeats or resumes the run."""


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
    profile: str = "",
    faults: str = "",
    out: str = "runs",
    journal: str = "",
    fail_on: int = 0,
) -> Solver:
    """Create the Inspect solver that runs a graph on the task of a sample.

    The task has the id of the sample. The summary of the run (`BenchmarkRow`) is stored in the sample for the scorer.

    Args:
        graph: a graph's name.
        benchmark: a benchmark's name with its configuration, as in `travelplanner:paper`.
        swaps: operators that replace the graph's own, by slot, as in `{"validate": "capped:depth=1"}`.
        model: name of a scripted model. With any other name, requests go to the model that Inspect has chosen.
        roles: other models for some roles, as `ROLE=MODEL`; those that are not scripted are Inspect's model roles.
        budget: limits of a run and of its method, as `KEY=N`.
        data: data folder, or the empty string for the default.
        cache: folder that caches the models' replies, or the empty string for no cache.
        profile: size of prompts and answers, `full` or `small`; empty: by the context window of each model.
        faults: faults to inject, as `timeout=0.1,crash=0.01`; empty: none.
        out: folder in which each run gets its own folder.
        journal: name of the file in `out` that records which run belongs to which sample, so that a retry finds the
            runs; empty: no such file.
        fail_on: number of failed runs after which no more are started; 0: no maximum.
    """
    compiled = build_graph(graph, dict(parse_swap(f"{slot}={text}") for slot, text in swaps.items()))
    check_unattended(compiled)
    live = load_benchmark(benchmark, data or None)
    run_budget, limits = parse_budget(budget, live.limits)
    by_role = parse_roles(roles)
    check_priced((model, *by_role.values()), run_budget)
    Faults.read(faults)
    options = {"data": data or None, "cache": cache or None, "faults": faults}
    context = Context(roles=by_role, budget=run_budget, limits=limits, profile=check_profile_name(profile), **options)
    runs = SampleRunner(compiled, benchmark, live, model, context, out)
    run_journal = RunJournal(out, journal)
    failed: list[BenchmarkRow] = []

    async def solve(state: TaskState, generate: Generate) -> TaskState:
        cell = SampleRun(str(state.sample_id), state.epoch - 1)
        if fail_on and len(failed) >= fail_on:
            row = _unstarted_row(cell, f"not started: {fail_on} runs have failed")
            state.store.set(ROW_KEY, row.model_dump(mode="json"))
            raise RunError(row.footer.message)
        run, pool = run_journal.find_or_name_run(cell, graph, live.task(cell.task)), active_pool()
        runner = runs._replace(context=restarted_context(context, run_journal.restarts(cell)))
        result = await (runner.run_on_worker(pool, cell, run) if pool else runner.run_here(state, cell, run))
        state.store.set(ROW_KEY, result.row.model_dump(mode="json"))
        state.output = ModelOutput.from_content(result.model, result.row.ending)
        if result.limit:
            raise result.limit
        if result.row.ending == INTERRUPTED:
            raise RunError(
                f"the run {result.row.run} waits for an answer: certigraph resume {result.row.run} --answer ..."
            )
        if result.row.ending.startswith("error:"):
            failed.append(result.row)
            raise RunError(f"{result.row.ending}: {result.row.footer.message} (run: {result.row.run})")
        return state

    return solve


def _unstarted_row(cell: SampleRun, reason: str) -> BenchmarkRow:
    return BenchmarkRow(
        id=cell.task, trial=cell.trial, footer=unfinished_footer().model_copy(update={"message": reason})
    )


# The benchmarks as Inspect tasks.

OneOrMore = str | int | list[str]
"""Type of an argument on Inspect's command line, which parses numbers and splits at commas."""

INSPECT_RETRIES = 0
"""Number of times that Inspect repeats a failed request. It is 0 because a run's budget would not count such requests:
the run itself repeats them and counts them."""


def task_of(benchmark: str) -> Callable[..., InspectTask]:
    """Create the Inspect task of a benchmark and register it under the benchmark's name."""
    return register_task(name=benchmark)(_task_function(benchmark))


def _task_function(benchmark: str) -> Callable[..., InspectTask]:
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
        profile: str = "",
        faults: OneOrMore = "",
        out: str = "runs",
        journal: str = "",
        fail_on: int = 0,
        **swaps: OneOrMore,
    ) -> InspectTask:
        """Run a graph on the tasks of a benchmark.

        Args:
            graph: a graph's name.
            config: a configuration of the benchmark: `paper`, and in ScienceWorld `drafted`.
            model: certigraph's name of a model; unset: Inspect's --model, else scripted:expert.
            data: data folder; unset: CERTIGRAPH_DATA, else a generated world.
            split: split of the tasks; unset: the benchmark's default.
            ids: ids of the tasks, in place of a split.
            stratify: number of tasks, chosen evenly over difficulty, length and kind; 0: all of them in order.
            trials: runs of each task, like Inspect's --epochs.
            role: other models for some roles: `executor=local`, like Inspect's --model-role.
            budget: limits of a run and of its method: `calls=20,steps=30`.
            cache: folder that caches the replies of models, so that no request is paid for twice.
            profile: size of prompts and answers, `full` or `small`; unset: by the context window of each model.
            faults: faults to inject into models and worlds: `timeout=0.1,crash=0.01,seed=3`.
            out: folder in which each run gets its own folder.
            journal: name of the file in `out` that records the run of each sample, so that a retry after a crash finds
                the runs.
            fail_on: number of failed runs after which no more are started; 0: no maximum.
            **swaps: operators that replace the graph's own, by slot: `validate="capped:depth=1"`.
        """
        name = f"{benchmark}:{config}" if config else benchmark
        live = load_benchmark(name, data or None)
        tasks = [live.task(task_id) for task_id in _to_list(ids)] if ids else live.tasks(split)
        check_evaluable(live, (), episodes=trials)
        operators = {slot: ",".join(_to_list(text)) for slot, text in swaps.items()}
        model_name, roles = ",".join(_to_list(model)), _role_models(role)
        return InspectTask(
            dataset=create_dataset(name, select_stratified_tasks(tasks, stratify) if stratify else tasks),
            solver=certified_run(
                graph,
                name,
                swaps=operators,
                model=model_name,
                roles=roles,
                budget=_to_list(budget),
                data=data,
                cache=cache,
                profile=profile,
                faults=",".join(_to_list(faults)),
                out=out,
                journal=journal,
                fail_on=fail_on,
            ),
            scorer=verdict(),
            metrics=[official(name, data)],
            model=inspect_model(model_name),
            model_roles=_model_roles(parse_roles(roles)),
            epochs=trials,
            config=_generate_config(model_name),
            # a failed run is recorded and scored with what it achieved; other runs continue, a retry repeats the failed
            continue_on_fail=True,
            score_on_error=True,
            metadata={
                "graph": graph,
                "benchmark": name,
                "model": model_name,
                "roles": parse_roles(roles),
                "budget": _to_list(budget),
                "swaps": operators,
                "operators": _operators(graph, operators),
            },
        )

    return benchmark_task


def _generate_config(model: str) -> GenerateConfig:
    # llama.cpp has one slot here: a second run would only wait, and the two would evict each other's prompt cache
    connections = 1 if model.startswith("local") else None
    return GenerateConfig(temperature=0, max_retries=INSPECT_RETRIES, max_connections=connections)


def _model_roles(roles: Mapping[str, str]) -> dict[str, str | Model]:
    models = {role: inspect_model(name) for role, name in roles.items() if not is_scripted(name)}
    return {role: model for role, model in models.items() if model}


def _to_list(value: OneOrMore) -> list[str]:
    return [str(part) for part in (value if isinstance(value, list) else [value]) if part != ""]


def _role_models(value: OneOrMore) -> list[str]:
    """Rejoin `ROLE=MODEL` items that Inspect split at a comma in the model's name: `simulated:act=0.2,seed=3`."""
    joined: list[str] = []
    for part in _to_list(value):
        if joined and part.partition("=")[0] not in ROLES:
            joined[-1] += f",{part}"
        else:
            joined.append(part)
    return joined


def _operators(graph: str, swaps: Mapping[str, str]) -> dict[str, object]:
    compiled = build_graph(graph, dict(parse_swap(f"{slot}={text}") for slot, text in swaps.items()))
    return dict(operators_of(compiled))


# The objects that Inspect loads for the entry point `inspect_ai`: a task per benchmark, and the models.

__all__ = ["TASKS", "certigraph", "own_task", "registered_name"]

TASKS = {name: task_of(name) for name in BENCHMARKS}


@register_task(name="own")
def own_task(benchmark: str, **options: OneOrMore) -> InspectTask:
    """Run a graph on a user's own benchmark: `inspect eval certigraph/own -T benchmark=mypackage.worlds:MyBenchmark`.

    Args:
        benchmark: `module:attribute` or the name of an entry point; a configuration may follow.
        **options: the arguments of the shipped benchmarks' tasks, such as `graph` and `ids`, except `config`.
    """
    return _task_function(benchmark)(**options)


def registered_name(task: str) -> str:
    """Return the name of a task in Inspect's registry: `certigraph/NAME` if certigraph is installed, else `NAME`."""
    return registry_info(TASKS.get(task.rpartition("/")[2], own_task)).name

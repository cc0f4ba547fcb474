"""Tasks, scorers and solvers for Inspect (the package `inspect_ai`).

Each benchmark is an Inspect task: `inspect eval certigraph/travelplanner -T graph=sdp -T validate=always_pass`.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any

from inspect_ai import Task as InspectTask
from inspect_ai import task as register_task
from inspect_ai.dataset import MemoryDataset, Sample
from inspect_ai.model import GenerateConfig, ModelOutput
from inspect_ai.scorer import Metric, SampleScore, Score, Scorer, Target, Value, metric, scorer
from inspect_ai.solver import Generate, Solver, TaskState, solver
from inspect_ai.util import registry_info
from pydantic import BeforeValidator, Field

from certigraph.adapters.benchmarks import load_benchmark, shipped_benchmarks
from certigraph.adapters.faults import Faults, restarted_context
from certigraph.adapters.models.chat_models import is_scripted
from certigraph.adapters.protocols import ROLES, Benchmark, Context
from certigraph.evaluation.comparison import select_stratified_tasks
from certigraph.evaluation.inspect_runs import (
    RunJournal,
    SampleResult,
    SampleRun,
    certigraph,
    inspect_model,
    row_listener,
    run_sample,
)
from certigraph.evaluation.jobs import RunJob
from certigraph.evaluation.tool_worlds import check_evaluable, check_unattended
from certigraph.graphs.assembly import operators_of
from certigraph.runtime.graph_sources import AnyGraph
from certigraph.runtime.registry import build_graph, check_priced, parse_budget, parse_roles, parse_swap
from certigraph.runtime.result import ROW_KEY, BenchmarkRow, unfinished_footer
from certigraph.state.endings import INTERRUPTED, Fault
from certigraph.state.records import Record, Task

# Samples of a benchmark's tasks.


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
        parts = [f"{name}: {part:g}" for name, part in (scores.parts if scores else {}).items() if part is not None]
        return Score(
            value=row.value,
            answer=json.dumps(scores.answer, ensure_ascii=False) if scores and scores.answer else None,
            explanation="\n".join([f"{row.ending}, {row.certified} of {row.planned} predicates certified", *parts]),
            metadata=row.model_dump(mode="json"),
        )

    return score


# The options of a task.

OneOrMore = str | int | list[str]
"""Type of an argument on Inspect's command line, which parses numbers and splits at commas."""


def _to_list(value: OneOrMore) -> list[str]:
    return [str(part) for part in (value if isinstance(value, list) else [value]) if part != ""]


def _to_text(value: OneOrMore) -> str:
    return ",".join(map(str, value)) if isinstance(value, list) else str(value)


def _to_roles(value: OneOrMore) -> list[str]:
    """Rejoin `ROLE=MODEL` items that Inspect split at a comma in the model's name: `simulated:act=0.2,seed=3`."""
    joined: list[str] = []
    for part in _to_list(value):
        if joined and part.partition("=")[0] not in ROLES:
            joined[-1] += f",{part}"
        else:
            joined.append(part)
    return joined


Text = Annotated[str, BeforeValidator(_to_text)]
Texts = Annotated[list[str], BeforeValidator(_to_list)]


class TaskOptions(Record):
    """Options of an Inspect task, given as `-T KEY=VALUE`; every other key is a slot, with an operator of one's own."""

    graph: Text = "sdp"
    """Name of a graph."""
    config: Text = ""
    """A configuration of the benchmark: `paper`, and in ScienceWorld `drafted`."""
    model: Text = ""
    """certigraph's name of a model; unset: Inspect's --model, else scripted:expert."""
    data: Text = ""
    """Data folder; unset: CERTIGRAPH_DATA, else a generated world."""
    split: Text = ""
    """Split of the tasks; unset: the benchmark's default."""
    ids: Texts = Field(default_factory=list)
    """Ids of the tasks, in place of a split."""
    stratify: int = 0
    """Number of tasks, chosen evenly over difficulty, length and kind; 0: all of them in order."""
    trials: int = 1
    """Runs of each task, like Inspect's --epochs."""
    role: Annotated[list[str], BeforeValidator(_to_roles)] = Field(default_factory=list)
    """Other models for some roles: `executor=local`; those that are not scripted are Inspect's model roles."""
    budget: Texts = Field(default_factory=list)
    """Limits of a run and of its method: `calls=20,steps=30`."""
    cache: Text = ""
    """Folder that caches the replies of models, so that no request is paid for twice."""
    window: int = Field(default=0, ge=0)
    """Tokens of the models' context window, where neither they nor their endpoint say it, or less is to be used."""
    faults: Text = ""
    """Faults to inject into models and worlds: `timeout=0.1,crash=0.01,seed=3`."""
    out: Text = "runs"
    """Folder in which each run gets its own folder."""
    journal: Text = ""
    """Name of the file in `out` that records the run of each sample, so that a retry finds it; unset: no such file."""
    fail_on: int = 0
    """Number of failed runs after which no more are started; 0: no maximum."""
    keep_prompts: bool = False
    """Whether each run keeps its prompts and replies in its folder."""
    swaps: dict[str, str] = Field(default_factory=dict)
    """Operators that replace the graph's own, by slot: `{"validate": "capped:depth=1"}`."""

    @property
    def roles(self) -> dict[str, str]:
        """Name of the model of each role in `role`."""
        return parse_roles(self.role)

    def build(self) -> AnyGraph:
        """Build the compiled graph with the swapped operators."""
        return build_graph(self.graph, dict(parse_swap(f"{slot}={text}") for slot, text in self.swaps.items()))


def parse_options(arguments: Mapping[str, OneOrMore]) -> TaskOptions:
    """Parse the arguments of a task; those that name no option are operators by slot."""
    known = {key: value for key, value in arguments.items() if key in TaskOptions.model_fields}
    swaps = {slot: _to_text(text) for slot, text in arguments.items() if slot not in known}
    return TaskOptions.model_validate({"swaps": swaps, **known})


# The solver, which runs a graph: one sample is one run.


class RunError(Exception):
    """A run ended in an error. Inspect then records the sample as failed, and a retry repeats or resumes the run."""


@solver
def certified_run(benchmark: str, options: dict[str, Any]) -> Solver:
    """Create the Inspect solver that runs a graph on the task of a sample, with the fields of `TaskOptions`.

    The task has the id of the sample. The summary of the run (`BenchmarkRow`) is stored in the sample for the scorer.
    """
    given = TaskOptions.model_validate(options)
    compiled = given.build()
    check_unattended(compiled)
    live = load_benchmark(benchmark, given.data or None)
    context = _create_context(given, live)
    operators = operators_of(compiled)
    journal = RunJournal(given.out, given.journal)
    failed: list[BenchmarkRow] = []

    async def solve(state: TaskState, generate: Generate) -> TaskState:
        cell = SampleRun(str(state.sample_id), state.epoch - 1)
        if given.fail_on and len(failed) >= given.fail_on:
            reason = f"not started: {given.fail_on} runs have failed"
            footer = unfinished_footer().model_copy(update={"message": reason})
            row = BenchmarkRow(id=cell.task, trial=cell.trial, footer=footer)
            state.store.set(ROW_KEY, row.model_dump(mode="json"))
            raise RunError(reason)
        run = journal.find_or_name_run(cell, given.graph, live.task(cell.task))
        job = RunJob(
            graph=compiled.name,
            operators=operators,
            benchmark=benchmark,
            task=cell.task,
            context=restarted_context(context, journal.restarts(cell)).model_copy(update={"trial": cell.trial}),
            out=given.out,
            run=run,
            keep_prompts=given.keep_prompts,
        )
        result = await run_sample(job, given.model, compiled, live, state)
        state.store.set(ROW_KEY, result.row.model_dump(mode="json"))
        row_listener.get()(result.row)
        state.output = ModelOutput.from_content(result.model, result.row.ending)
        if result.row.ending.startswith("error:") and not result.limit:
            failed.append(result.row)
        _raise_unfinished(result)
        return state

    return solve


def _create_context(given: TaskOptions, live: Benchmark) -> Context:
    """Create the context of the runs, except the model, which Inspect may choose."""
    run_budget, limits = parse_budget(given.budget, live.limits)
    check_priced((given.model, *given.roles.values()), run_budget)
    Faults.read(given.faults)
    return Context(
        roles=given.roles,
        budget=run_budget,
        limits=limits,
        window=given.window,
        data=given.data or None,
        cache=given.cache or None,
        faults=given.faults,
    )


def _raise_unfinished(result: SampleResult) -> None:
    """Raise the error by which Inspect records that a run did not come to an ending of its own."""
    row = result.row
    if result.limit:
        raise result.limit
    if row.ending == INTERRUPTED:
        raise RunError(f"the run {row.run} waits for an answer: certigraph resume {row.run} --answer ...")
    if row.ending.startswith("error:"):
        raise RunError(f"{row.ending}: {row.footer.message} (run: {row.run})")


# The benchmarks as Inspect tasks.

INSPECT_RETRIES = 0
"""Number of times that Inspect repeats a failed request. It is 0 because a run's budget would not count such requests:
the run itself repeats them and counts them."""


def task_of(benchmark: str) -> Callable[..., InspectTask]:
    """Create the Inspect task of a benchmark and register it under the benchmark's name."""

    def benchmark_task(**options: OneOrMore) -> InspectTask:
        """Run a graph on the tasks of a benchmark; the options are those of `TaskOptions`."""
        return _create_task(benchmark, parse_options(options))

    return register_task(name=benchmark)(benchmark_task)


def _create_task(benchmark: str, given: TaskOptions) -> InspectTask:
    name = f"{benchmark}:{given.config}" if given.config else benchmark
    live = load_benchmark(name, given.data or None)
    tasks = [live.task(task_id) for task_id in given.ids] or live.tasks(given.split)
    check_evaluable(live, (), episodes=given.trials)
    roles = {role: inspect_model(model) for role, model in given.roles.items() if not is_scripted(model)}
    # llama.cpp has one slot here: a second run would only wait, and the two would evict each other's prompt cache
    connections = 1 if given.model.startswith("local") else None
    return InspectTask(
        dataset=create_dataset(name, select_stratified_tasks(tasks, given.stratify) if given.stratify else tasks),
        solver=certified_run(name, given.model_dump(exclude_defaults=True)),
        scorer=verdict(),
        metrics=[official(name, given.data)],
        model=inspect_model(given.model),
        model_roles={role: model for role, model in roles.items() if model},
        epochs=given.trials,
        config=GenerateConfig(temperature=0, max_retries=INSPECT_RETRIES, max_connections=connections),
        # a failed run is recorded and scored with what it achieved; other runs continue, a retry repeats the failed
        continue_on_fail=True,
        score_on_error=True,
        metadata={
            "graph": given.graph,
            "benchmark": name,
            "model": given.model,
            "roles": given.roles,
            "budget": given.budget,
            "swaps": given.swaps,
            "operators": dict(operators_of(given.build())),
        },
    )


# The objects that Inspect loads for the entry point `inspect_ai`: a task per benchmark, and the models.

__all__ = ["TASKS", "certigraph", "own_task", "registered_name"]

TASKS = {name: task_of(name) for name in shipped_benchmarks()}


@register_task(name="own")
def own_task(benchmark: str, **options: OneOrMore) -> InspectTask:
    """Run a graph on a user's own benchmark: `inspect eval certigraph/own -T benchmark=mypackage.worlds:MyBenchmark`.

    Args:
        benchmark: `module:attribute` or the name of an entry point; a configuration may follow.
        **options: the arguments of the shipped benchmarks' tasks, such as `graph` and `ids`, except `config`.
    """
    return _create_task(benchmark, parse_options(options))


def registered_name(task: str) -> str:
    """Return the name of a task in Inspect's registry: `certigraph/NAME` if certigraph is installed, else `NAME`."""
    return registry_info(TASKS.get(task.rpartition("/")[2], own_task)).name

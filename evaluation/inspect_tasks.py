"""inspect_ai tasks, scorers and solvers."""

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

# A benchmark's tasks as inspect's samples.

STRATA = ("level", "days", "task")
"""Constants over whose values a stratified sample is spread, where a benchmark's tasks have them."""


def dataset(name: str, tasks: Sequence[Task]) -> MemoryDataset:
    """One sample a task; its id is the task's.

    Raises:
        Fault: ("data") an id has a NUL: its sample would be lost, for the names in inspect's logs end there.
    """
    if cut := [task.id for task in tasks if "\0" in task.id]:
        raise Fault("data", f"inspect's logs cannot hold the task {cut[0]!r}: give it an id without NUL")
    samples = [Sample(id=task.id, input=task.goal, metadata=dict(task.constants)) for task in tasks]
    return MemoryDataset(samples, name=name)


def stratified(tasks: Sequence[Task], n: int) -> list[Task]:
    """`n` tasks, as many of each level, length and kind as there are, in the list's order; always the same ones."""
    groups = defaultdict(list)
    for task in tasks:
        groups[tuple(str(task.constants.get(name)) for name in STRATA)].append(task)
    rounds = chain.from_iterable(zip_longest(*(groups[key] for key in sorted(groups))))
    chosen = {task.id for task in islice(filter(None, rounds), n)}
    return [task for task in tasks if task.id in chosen]


# The official verdict as inspect's score, and the benchmark's own figures as inspect's metrics.


@metric(scores="unreduced")
def official(benchmark: str, data: str = "") -> Metric:
    """The figures that the benchmark itself reports, over every scored run, epochs included."""

    def figures(scores: list[SampleScore]) -> Value:
        rows = [Row.model_validate(score.score.metadata) for score in scores]
        runs = [(row.id, row.footer) for row in rows if row.scored]
        # inspect also asks before the first run has ended
        return dict(load_benchmark(benchmark, data or None).figures(runs)) if runs else {}

    return figures


@scorer(metrics=[], name=ROW)
def verdict() -> Scorer:
    """Read the world's verdict off the row that the run left; 0 for a run without one.

    Unscored, which inspect leaves out of its metrics: runs in which the world or its data failed, and unfinished ones.
    """

    async def score(state: TaskState, target: Target) -> Score:
        stored = state.store.get(ROW)
        lost = Row(id=str(state.sample_id), trial=state.epoch - 1, footer=unfinished_footer())
        row = Row.model_validate(stored) if stored else lost
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
    told = [f"{name}: {part:g}" for name, part in parts.items() if part is not None]
    return "\n".join([f"{row.ending}, {row.certified} of {row.planned} predicates certified", *told])


# Runs a graph as inspect's solver: one sample is one run.


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
    return Row(id=cell.task, trial=cell.trial, footer=unfinished_footer().model_copy(update={"message": why}))


# The benchmarks as inspect tasks: `inspect eval certigraph/travelplanner -T graph=sdp -T validate=always_pass`.

OneOrMore = str | int | list[str]
"""What inspect makes of an argument on its command line: a number where it looks like one, a list at every comma."""

RETRIES = 0
"""How often inspect repeats a failed request, which would be no call of the budget: runs repeat and count theirs."""


def task_of(benchmark: str) -> Callable[..., InspectTask]:
    """The inspect task of a benchmark, registered under its name."""

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
            model: certigraph's name of a model; unset: inspect's --model, else scripted:expert.
            data: data folder; unset: CERTIGRAPH_DATA, else a generated world.
            split: split of the tasks; unset: the benchmark's default.
            ids: ids of the tasks, in place of a split.
            stratify: number of tasks, spread over difficulty, length and kind; 0: all of them in order.
            trials: runs of each task; inspect's --epochs does the same.
            role: other models for some roles: `executor=local`; as inspect's --model-role does.
            budget: what a run may spend and its method's limits: `calls=20,steps=30`.
            cache: folder that keeps the replies of models, so that a question is paid once.
            faults: faults to inject into models and worlds: `timeout=0.1,crash=0.01,seed=3`.
            out: the folder in which every run gets a folder of its own.
            journal: name of the file in `out` by which a retry after a crash finds every run again.
            fail_on: failed runs after which no more are begun; 0: any number may fail.
            **swaps: operators by slot: `validate="capped:depth=1"`.
        """
        name = f"{benchmark}:{config}" if config else benchmark
        live = load_benchmark(name, data or None)
        tasks = [live.task(task_id) for task_id in _listed(ids)] if ids else live.tasks(split)
        given = {slot: ",".join(_listed(text)) for slot, text in swaps.items()}
        mind, roles = ",".join(_listed(model)), _by_role(role)
        return InspectTask(
            dataset=dataset(name, stratified(tasks, stratify) if stratify else tasks),
            solver=certified_run(
                graph,
                name,
                swaps=given,
                model=mind,
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
            model=inspect_model(mind),
            model_roles=_model_roles(roles_in(roles)),
            epochs=trials,
            config=_generation(mind),
            # a failed run is recorded and scored as what it left; the others go on, and a retry takes only the failed
            continue_on_fail=True,
            score_on_error=True,
            metadata={
                "graph": graph,
                "benchmark": name,
                "model": mind,
                "budget": _listed(budget),
                "swaps": given,
                "operators": _operators(graph, given),
            },
        )

    return benchmark_task


def _generation(model: str) -> GenerateConfig:
    # llama.cpp here has one slot: a second run would only wait, and each would push the other's prefix out of its cache
    at_once = 1 if model.startswith("local") else None
    return GenerateConfig(temperature=0, max_retries=RETRIES, max_connections=at_once)


def _model_roles(roles: Mapping[str, str]) -> dict[str, str | Model]:
    made = {role: inspect_model(name) for role, name in roles.items() if not is_scripted(name)}
    return {role: model for role, model in made.items() if model}


def _listed(value: OneOrMore) -> list[str]:
    return [str(part) for part in (value if isinstance(value, list) else [value]) if part != ""]


def _by_role(value: OneOrMore) -> list[str]:
    """`ROLE=MODEL` each; a model's name may hold commas, at which inspect has cut it: `simulated:act=0.2,seed=3`."""
    whole: list[str] = []
    for part in _listed(value):
        if whole and part.partition("=")[0] not in ROLES:
            whole[-1] += f",{part}"
        else:
            whole.append(part)
    return whole


def _operators(graph: str, swaps: Mapping[str, str]) -> dict[str, object]:
    compiled = build_graph(graph, dict(parse_swap(f"{slot}={text}") for slot, text in swaps.items()))
    return dict(operators_of(compiled))


# What inspect loads for the name `certigraph` (entry point `inspect_ai`): a task per benchmark, and the models.

__all__ = ["TASKS", "certigraph", "registered"]

TASKS = {name: task_of(name) for name in BENCHMARKS}


def registered(task: str) -> str:
    """The name under which this process knows a task of ours; installed it is `certigraph/NAME`, else only `NAME`."""
    return registry_info(TASKS[task.rpartition("/")[2]]).name

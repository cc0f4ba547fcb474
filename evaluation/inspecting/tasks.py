"""The benchmarks as inspect tasks: `inspect eval certigraph/travelplanner -T graph=sdp -T validate=always_pass`."""

from collections.abc import Callable, Mapping

from inspect_ai import Task as InspectTask
from inspect_ai import task as register_task
from inspect_ai.model import GenerateConfig, Model

from certigraph.adapters.benchmarks import load_benchmark
from certigraph.adapters.context import ROLES
from certigraph.adapters.models.chat import is_scripted
from certigraph.evaluation.budgets import roles_in
from certigraph.evaluation.inspecting.dataset import dataset, stratified
from certigraph.evaluation.inspecting.models import inspect_model
from certigraph.evaluation.inspecting.scorer import official, verdict
from certigraph.evaluation.inspecting.solver import certified_run
from certigraph.evaluation.settings import build_graph, parse_swap
from certigraph.graphs.assembly import operators_of

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

"""Graphs, operators, budgets and settings by name.

Builds graphs from names and from the operators in a trajectory's header, saves and loads the settings of a run, and
parses the `KEY=VALUE` texts of a command line.
"""

import inspect
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from importlib import import_module
from importlib.metadata import version
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from pydantic import JsonValue, ValidationError

from certigraph.adapters.benchmarks import benchmarks_with, check_ready, load_benchmark
from certigraph.adapters.encoders import find_encoder, install_advice, load_encoder
from certigraph.adapters.files import MAX_SETTINGS_BYTES, read_bytes
from certigraph.adapters.imports import check_names, warn_if_hidden
from certigraph.adapters.matching import matching_method
from certigraph.adapters.models.chat_models import (
    chat_model,
    check_model_available,
    check_model_name,
    label_object,
    model_label,
)
from certigraph.adapters.models.prices import format_missing_price, price_of
from certigraph.adapters.protocols import ROLES, Benchmark, Budget, Context, Limits
from certigraph.adapters.redaction import MASK, show_address
from certigraph.adapters.retrieval.reranker import load_reranker
from certigraph.graphs import GRAPH_GROUP
from certigraph.graphs.assembly import operators_of, slot_names, swapped_specs
from certigraph.graphs.catalogue import OPERATORS, known_operators, slots_by_operator
from certigraph.graphs.operator_names import benchmark_operators, name_generic_operators
from certigraph.nodes.slots import build_operator, spec_of
from certigraph.nodes.specs import Spec, parse_spec
from certigraph.runtime.files import SETTINGS_FILE
from certigraph.runtime.graph_sources import AnyGraph, own_graph
from certigraph.state.defaults import DEFAULT_ENCODER, MATCHING_ENCODER
from certigraph.state.endings import Fault, UnknownName
from certigraph.state.trajectory import Header

# Names of graphs and operators.

METHOD_GRAPHS = (
    "sdp",
    "tdp",
    "step",
    "react",
    "react_reward",
    "mcts",
    "reflexion",
    "clin",
    "plan_and_solve",
    "plan_and_act",
    "cot",
)
"""Names of the graphs that act in a world until a task is done."""

REWARD_GRAPHS = ("statefactory", "monotonic", "reward_judge", "reward_head")
"""Names of the graphs that predict the rewards of recorded trajectories."""

SUBTASK_GRAPHS = ("subtask",)
"""Names of the graphs that work on a part of a task inside another graph."""

SEARCH_GRAPHS = ("pbai", "ircot", "memgpt", "iter_retgen", "hypotheses")
"""Names of the graphs that search for the answer to a question."""

GRAPHS = {name: f"certigraph.graphs.{name}" for name in METHOD_GRAPHS + SEARCH_GRAPHS + REWARD_GRAPHS + SUBTASK_GRAPHS}
"""Module of each of certigraph's graphs, by name of the graph."""


def check_takes_answers(graph: str, benchmark: Benchmark) -> None:
    """Check that a benchmark asks questions if a graph searches for answers.

    Raises:
        UnknownName: the benchmark takes no answers.
    """
    if graph in SEARCH_GRAPHS and not benchmark.answers:
        known = f"{benchmarks_with('answers')} and tools of your own do"
        raise UnknownName(f"{graph} searches for an answer, and {benchmark.name} takes none; {known}")


# Graph, operators and context of a run. The trajectory's header holds what may be shared; `local.json` in the run's
# folder holds the rest, paths included.


def graph_module(name: str) -> Any:
    """Import the module of one of certigraph's graphs. Raises UnknownName, which lists these graphs."""
    if name not in GRAPHS:
        raise UnknownName(f"unknown graph {name!r}; known: {', '.join(sorted(GRAPHS))}")
    return import_module(GRAPHS[name])


PAPER_SUFFIX = ":paper"
"""End of the name of a graph whose operators are those of its paper: `sdp:paper`."""


def split_configuration(name: str) -> tuple[str, dict[str, Spec]]:
    """Return the name of a graph, and the swaps by which its configuration differs from the default.

    `GRAPH:paper` is the paper's loop word for word (`PAPER` in the graph's module). Any other name has no swaps.
    """
    graph = name.removesuffix(PAPER_SUFFIX)
    if graph == name or graph not in GRAPHS:
        return name, {}
    operators = getattr(graph_module(graph), "PAPER", None)
    if operators is None:
        known = ", ".join(one for one in GRAPHS if hasattr(graph_module(one), "PAPER"))
        raise UnknownName(f"{graph} has no configuration `paper`; {known} have one")
    return graph, {slot: spec_of(operator) for slot, operator in operators.items()}


def paper_swaps(graph: str) -> dict[str, str]:
    """Return the operators by slot by which `GRAPH:paper` differs from the graph; none if it has no such name."""
    operators = getattr(graph_module(graph), "PAPER", {}) if graph in GRAPHS else {}
    return {slot: str(spec_of(operator)) for slot, operator in operators.items()}


def graph_slots(name: str) -> list[str]:
    """List the slots for operators of a graph, optional ones included. Raises UnknownName as `build_graph` does."""
    name, _ = split_configuration(name)
    return slot_names(graph_module(name).build) if name in GRAPHS else own_graph(name, GRAPHS).slots()


def build_graph(name: str, swaps: Mapping[str, Spec] | None = None) -> AnyGraph:
    """Build a graph by name, with the operators in `swaps` in place of its default ones.

    Args:
        name: a key of GRAPHS, one with `:paper` after it, or for a user's own graph the name of an entry point or
            `module:attribute`; see `runtime.graph_sources`.
        swaps: descriptions of operators by slot.

    Raises:
        UnknownName: the graph, a slot or an operator is unknown, or a user's own one cannot be imported or built.
    """
    name, paper = split_configuration(name)
    specs = {**paper, **(swaps or {})}
    if name not in GRAPHS:
        return own_graph(name, GRAPHS).build(_build_operators(specs))
    warn_if_hidden(name, GRAPH_GROUP, "graph")
    module = graph_module(name)
    slots = slot_names(module.build)
    for slot in sorted(set(specs) - set(slots)):  # a wrong slot is reported before the operator in it
        others = [other for other in GRAPHS if slot in graph_slots(other)]
        advice = f"; {', '.join(others)} {'has' if len(others) == 1 else 'have'} {slot}" if others else ""
        raise UnknownName(f"no operator slot {slot!r}", slot, slots, f"{name} has: {', '.join(slots)}{advice}")
    try:
        graph: AnyGraph = module.build(**_build_operators(specs))
    except TypeError as error:
        raise UnknownName(str(error)) from error
    return graph


def check_encoders(operators: Mapping[str, JsonValue]) -> None:
    """Check that the sentence encoders that a graph's operators use are installed.

    Args:
        operators: descriptions of the operators by slot, as `operators_of` returns them.

    Raises:
        Fault: ("model") an encoder is not installed; the message has the command that installs it.
    """
    for spec in map(Spec.model_validate, operators.values()):
        if spec.name in ENCODING_OPERATORS:
            load_encoder(str(spec.args.get("encoder", DEFAULT_ENCODER)))


ENCODING_OPERATORS = ("route", "reward_guided")
"""Names of the operators that compare texts with a sentence encoder."""


def check_retrieval(operators: Mapping[str, JsonValue], benchmark: Benchmark) -> None:
    """Check that a graph can search as its operators were set to: with their sentence vectors and cross-encoders.

    An `alpha` that is only the default is not checked: without an encoder, such a search is BM25 alone.

    Args:
        operators: descriptions of the operators by slot, as `operators_of` returns them.
        benchmark: the benchmark.

    Raises:
        UnknownName: the benchmark does not rerank.
        Fault: ("model") a cross-encoder is not installed, or no sentence encoder although an `alpha` below 1 was set;
            the message has the command that installs it.
    """
    names = [name for name in _search_arguments(operators, "rerank") if name and isinstance(name, str)]
    if names and not benchmark.reranks:
        known = f"{benchmarks_with('reranks')} do"
        raise UnknownName(f"{benchmark.name} does not rerank what it finds: leave out rerank={names[0]}; {known}")
    for name in names:
        load_reranker(name)
    weights = [alpha for alpha in _search_arguments(operators, "alpha") if isinstance(alpha, int | float) and alpha < 1]
    if weights and benchmark.reranks and find_encoder() is None:
        fix = f"{install_advice()}, or set alpha=1, which is BM25 alone"
        raise Fault("model", f"alpha={weights[0]:g} needs the sentence encoder {DEFAULT_ENCODER!r}: {fix}")


def reranker_versions(*graphs: Mapping[str, JsonValue]) -> dict[str, str]:
    """Return the cross-encoders of graphs, given by their operators, as `reranker` with the digests of their weights.

    The result is empty if none reranks. Raises Fault as `check_retrieval` does.
    """
    named = dict.fromkeys(name for operators in graphs for name in _search_arguments(operators, "rerank"))
    labels = [load_reranker(name).label for name in named if name and isinstance(name, str)]
    return {"reranker": ", ".join(labels)} if labels else {}


def check_same_rerankers(operators: Mapping[str, JsonValue], versions: Mapping[str, str]) -> None:
    """Check that the cross-encoders here have the weights with which a run was started, before it is resumed.

    Raises:
        Fault: ("model") they have others, or are not installed.
    """
    here, started = reranker_versions(operators).get("reranker", ""), versions.get("reranker", "")
    if here != started:
        fix = "install those, or start the run again"
        raise Fault("model", f"the run was started with the reranker {started or 'none'}, and here is {here}: {fix}")


SEARCHING_OPERATORS = ("pursue", "reason", "generate", "manage", "retrieving")
"""Names of the operators whose arguments `alpha` and `rerank` say how the world searches."""


def _search_arguments(operators: Mapping[str, JsonValue], argument: str) -> list[Spec | JsonValue]:
    specs = chain.from_iterable(_with_inner(Spec.model_validate(spec)) for spec in operators.values())
    return [spec.args[argument] for spec in specs if spec.name in SEARCHING_OPERATORS and argument in spec.args]


def _with_inner(spec: Spec) -> Iterator[Spec]:
    yield spec
    for value in spec.args.values():
        if isinstance(value, Spec):
            yield from _with_inner(value)


def _build_operators(specs: Mapping[str, Spec]) -> dict[str, Any]:
    return {slot: _build_operator(slot, spec) for slot, spec in specs.items()}


def _build_operator(slot: str, spec: Spec) -> Any:
    if spec.name in GRAPHS:  # a graph in place of an operator solves a part of the task
        spec = Spec(name="solve", args={"graph": spec.name, **spec.args})
    try:
        return build_operator(spec, OPERATORS, known_operators())
    except TypeError as error:
        taken = list(inspect.signature(OPERATORS[spec.name]).parameters) if spec.name in OPERATORS else []
        arguments = f"{spec.name} takes {', '.join(taken)}; " if taken else ""
        example = "gate=either:one=gap_gate,other=(exhaustion_gate:patience=3)"
        form = f"write SLOT=FACTORY:key=value,...; a value may be an operator: {example}"
        raise UnknownName(f"{slot}={spec} cannot be built: {error}; {arguments}{form}") from error


def rebuild_graph(name: str, operators: Mapping[str, JsonValue]) -> AnyGraph:
    """Build a graph again from the specs of its operators.

    Args:
        name: name of the graph.
        operators: specs of its operators by slot, by their generic names. Default operators need not be registered.

    Raises:
        Fault: ("data") an argument of an operator was a secret, which the header does not hold.
    """
    masked = [slot for slot, spec in operators.items() if MASK in json.dumps(spec)]
    if masked:
        fix = "read the secret from the environment inside the operator, and start the run again"
        raise Fault("data", f"the operator in {', '.join(masked)} was given a secret, which no trajectory keeps: {fix}")
    return build_graph(name, swaps_of(name, operators))


def swaps_of(name: str, operators: Mapping[str, JsonValue]) -> dict[str, Spec]:
    """Return the operators that are not the defaults of the graph, by slot.

    For a user's own graph `operators` lists no others, so that the graph is not imported here.
    """
    defaults = operators_of(graph_module(name).graph) if name in GRAPHS else {}
    return swapped_specs(operators, defaults)


def header_swaps(header: Header) -> dict[str, Spec]:
    """Return the operators of a run that are not the defaults of its graph, by slot.

    The benchmark's own operator in place of a default one is no swap.
    """
    swaps = swaps_of(header.graph, name_generic_operators(header.operators, header.task.benchmark))
    usual = graph_module(header.graph).graph.builder.operators if header.graph in GRAPHS else {}
    own = benchmark_operators(header.operators, header.task.benchmark)

    def is_usual(slot: str) -> bool:
        replaced = getattr(usual.get(slot), "replaced_by", ())
        return slot in own and parse_spec(own[slot]).name.rpartition(".")[2] in replaced

    return {slot: spec for slot, spec in swaps.items() if not is_usual(slot)}


def parse_swap(text: str) -> tuple[str, Spec]:
    """Parse `SLOT=OPERATOR` or `SLOT=FACTORY:key=value,...`, as in `validate=capped:depth=1`.

    Return the slot and the description of the operator.

    Raises:
        UnknownName: there is no `=`, or `parse_spec` cannot read the operator.
    """
    slot, equals, rest = text.partition("=")
    if not equals:
        raise UnknownName(f"{text!r} is not a swap; write SLOT=OPERATOR, for example validate=always_pass")
    operator = slot.partition(":")[0]
    if slot != operator and operator in OPERATORS:
        raise UnknownName(f"{text!r} names no slot; write {slots_by_operator()[operator][0]}={text}")
    return slot, parse_spec(rest)


def shareable_context(context: Context) -> dict[str, JsonValue]:
    """Return the part of a context that a header may hold: no paths, and no secrets in addresses."""
    unset = () if context.group else ("group",)
    plain: dict[str, JsonValue] = context.model_dump(mode="json", exclude={"data", "cache", *unset})
    roles: dict[str, JsonValue] = {role: model_name(model) for role, model in context.roles.items()}
    roles |= {role: label_object(chat) for role, chat in context.chats.items()}
    source = context.data or ""
    data = show_address(source) if "://" in source else Path(source).name
    return {**plain, "model": _label_of_model(context), "roles": roles, "data": data}


def _label_of_model(context: Context) -> str:
    return label_object(context.chat) if context.chat is not None else model_name(context.model)


def model_name(model: str) -> str:
    """Return the name of a model as a header may hold it. For weights in a file, the folder is left out."""
    kind, _, name = model.partition(":")
    return f"{kind}:{Path(name).name}" if kind == "local" and name else model


def current_versions() -> dict[str, str]:
    """Return the versions of packages that decide how a run behaves, and the method that matches texts to actions."""
    return {**_installed_versions(), "matching": matching_method(find_encoder(MATCHING_ENCODER))}


@cache
def _installed_versions() -> dict[str, str]:
    return {name: version(name) for name in ("certigraph", "langgraph", "langchain-core", "pydantic")}


def save_settings(folder: Path, context: Context) -> None:
    """Save the complete context in the run's folder, so that the run can be resumed on this machine."""
    paths = {"data": context.data, "cache": context.cache}
    absolute = {name: str(Path(path).resolve()) if path else None for name, path in paths.items()}
    plain = context.model_copy(update=absolute).model_dump_json()
    (folder / SETTINGS_FILE).write_text(plain, encoding="utf-8")


def load_settings(folder: Path) -> Context:
    """Load the context with which a run was started.

    Raises:
        Fault: ("data") the file with the context is missing or damaged.
    """
    path = folder / SETTINGS_FILE
    if not path.is_file():
        raise Fault("data", f"{path} is missing: resume a run on the machine and in the folder where it was started")
    try:
        return Context.model_validate_json(read_bytes(path, MAX_SETTINGS_BYTES))
    except ValidationError as error:
        raise Fault("data", f"{path} holds no settings of a run: restore it, or start the run again") from error


# Parsing of the `KEY=VALUE` texts of a command line.

R = TypeVar("R", Budget, Limits)


class BudgetAndLimits(NamedTuple):
    """Budget of a run, and limits of its episodes and its method."""

    budget: Budget
    limits: Limits


def parse_roles(texts: Sequence[str]) -> dict[str, str]:
    """Parse `ROLE=MODEL` texts into a dict of models by role. Names in Inspect's form, PROVIDER/NAME, are not checked.

    Raises:
        UnknownName: a role or a form of model is unknown; the message lists the known ones.
    """
    models = _parse_pairs(texts, "executor=local")
    check_names(models, ROLES, "no role")
    for model in models.values():
        if "/" not in model:
            check_model_name(model)
    return models


def parse_budget(texts: Sequence[str], limits: Limits, budget: Budget | None = None) -> BudgetAndLimits:
    """Parse `KEY=N` texts and return a budget and limits with these changes.

    Args:
        texts: the changes.
        limits: limits to change.
        budget: budget to change; by default the default budget.

    Raises:
        UnknownName: a key is unknown or its value is out of range.
    """
    amounts = _parse_pairs(texts, "steps=120")
    known = {*Budget.model_fields, *Limits.model_fields} - {"priced"}
    check_names(amounts, sorted(known), "no budget")
    return BudgetAndLimits(_apply_amounts(budget or Budget(), amounts), _apply_amounts(limits, amounts))


def create_context(
    model: str,
    roles: Sequence[str] | None,
    data: str | None,
    budget: Sequence[str] | None,
    benchmark: str,
    cache: str | None = None,
    window: int = 0,
) -> Context:
    """Create the context of a run from the texts of a command line.

    Args:
        model: name of the model.
        roles: `ROLE=MODEL` texts.
        data: data folder.
        budget: `KEY=N` texts.
        benchmark: name of the benchmark, whose limits are the defaults.
        cache: folder for replies of models.
        window: tokens of the models' context window (`Context.window`).

    Raises:
        UnknownName: a benchmark, role, model or key is unknown, or a value is out of range.
        Fault: a key, weights, a server or data are missing.
    """
    models = {role: check_model_name(name) for role, name in parse_roles(roles or []).items()}
    for name in {model, *models.values()}:
        check_model_available(name)
    live = load_benchmark(benchmark, data)
    check_ready(live)
    limits = parse_budget(budget or [], live.limits)
    return Context(
        model=check_model_name(model),
        roles=models,
        window=window,
        data=data,
        budget=limits.budget,
        limits=limits.limits,
        cache=cache,
    )


def check_priced(models: Iterable[str], budget: Budget) -> None:
    """Check that the prices of the models are known if the budget limits dollars.

    Raises:
        Fault: the price of a model is not known, or the model cannot be created.
    """
    for name in filter(lambda model: model.startswith("openai:"), models if budget.priced else ()):
        model = chat_model(name)
        if price_of(model) is None:
            raise Fault("model", format_missing_price(model_label(model), budget.usd))


def _parse_pairs(texts: Sequence[str], example: str) -> dict[str, str]:
    pairs = [text.partition("=") for text in texts]
    if bad := [name for name, equals, _ in pairs if not equals]:
        raise UnknownName(f"{bad[0]!r} is not KEY=VALUE; write for example {example}")
    return {name: value for name, _, value in pairs}


def _apply_amounts(record: R, amounts: Mapping[str, str]) -> R:
    kind = type(record)
    changes: dict[str, object] = {key: value for key, value in amounts.items() if key in kind.model_fields}
    if "usd" in changes:
        changes["priced"] = True
    try:
        return kind.model_validate({**record.model_dump(), **changes})
    except ValidationError as error:
        first = error.errors()[0]
        key = str(first["loc"][0])
        usual = getattr(kind(), key)
        fix = "" if usual is None else f"; by default {key}={usual}"
        raise UnknownName(f"--budget {key}={first['input']}: {first['msg']}{fix}") from error

"""What it takes to build a run again: its graph, operators and context.

The trajectory's header holds what may be shared; the run folder's `local.json` holds the rest, paths included.
"""

import json
from collections.abc import Mapping
from functools import cache
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import Any

from langgraph.graph.state import CompiledStateGraph
from pydantic import JsonValue, ValidationError

from certigraph.adapters.context import Context
from certigraph.adapters.embeddings import NAME, encoder, needed_encoder
from certigraph.adapters.matching import method
from certigraph.adapters.models.chat import model_label
from certigraph.adapters.models.redact import MASK, show_address
from certigraph.adapters.rows import MOST_SETTINGS, file_bytes
from certigraph.evaluation.naming import SETTINGS
from certigraph.evaluation.shipped import GRAPHS, OPERATORS
from certigraph.graphs.assembly import operators_of, swapped
from certigraph.nodes.specs import Spec, operator_from
from certigraph.state.endings import Fault, UnknownName
from certigraph.state.json_text import json_value

LIVE = "live:"
"""Marks in a header a model that was handed over as an object and cannot be made from its name."""

AnyGraph = CompiledStateGraph[Any, Context, Any, Any]


def graph_module(name: str) -> Any:
    """The module of a graph. Raises UnknownName listing the known graphs."""
    if name not in GRAPHS:
        raise UnknownName(f"unknown graph {name!r}; known: {', '.join(sorted(GRAPHS))}")
    return import_module(GRAPHS[name])


def build_graph(name: str, swaps: Mapping[str, Spec] | None = None) -> AnyGraph:
    """A graph by name, with operators by their specs."""
    module = graph_module(name)
    made = {slot: _operator(slot, spec) for slot, spec in (swaps or {}).items()}
    try:
        graph: AnyGraph = module.build(**made)
    except TypeError as error:
        raise UnknownName(str(error)) from error
    return graph


def check_encoders(operators: Mapping[str, JsonValue]) -> None:
    """Make sure, before any run begins, that the sentence encoders of operators are installed.

    Args:
        operators: by slot, as `operators_of` gives them.

    Raises:
        Fault: ("model") one is not; the message has the command that installs it.
    """
    for spec in map(Spec.model_validate, operators.values()):
        if spec.name in ENCODING:
            needed_encoder(str(spec.args.get("encoder", NAME)))


ENCODING = ("route", "reward_guided")
"""Operators that compare texts by a sentence encoder."""


def _operator(slot: str, spec: Spec) -> Any:
    if spec.name in GRAPHS:  # a graph where an operator is asked for: it works on a part of the task
        spec = Spec(name="solve", args={"graph": spec.name, **spec.args})
    try:
        return operator_from(spec, OPERATORS)
    except TypeError as error:
        form = "write SLOT=FACTORY:key=value,...; a value may be an operator: gate=either:one=gap_gate,other=no_gate"
        raise UnknownName(f"{slot}={spec} cannot be made: {error}; {form}") from error


def rebuilt_graph(name: str, operators: Mapping[str, JsonValue]) -> AnyGraph:
    """The graph whose operators a header describes; those it has anyway need no name of their own.

    Raises:
        Fault: ("data") an argument of an operator held a secret, which the header does not have.
    """
    masked = [slot for slot, spec in operators.items() if MASK in json.dumps(spec)]
    if masked:
        fix = "read the secret from the environment inside the operator, and start the run again"
        raise Fault("data", f"the operator in {', '.join(masked)} was given a secret, which no trajectory keeps: {fix}")
    return build_graph(name, swaps_of(name, operators))


def swaps_of(name: str, operators: Mapping[str, JsonValue]) -> dict[str, Spec]:
    """The operators of a header that are not the graph's own, by slot; all of them where the graph is unknown here."""
    usual = operators_of(graph_module(name).graph) if name in GRAPHS else {}
    return swapped(operators, usual)


def parse_swap(text: str) -> tuple[str, Spec]:
    """Read `SLOT=OPERATOR` or `SLOT=FACTORY:key=value,...`, as in `validate=capped:depth=1`.

    Raises:
        UnknownName: there is no `=`.
    """
    slot, equals, rest = text.partition("=")
    if not equals:
        raise UnknownName(f"{text!r} is no swap; write SLOT=OPERATOR, for example validate=always_pass")
    name, _, arguments = _split_arguments(rest)
    pairs = (pair.partition("=") for pair in arguments.split(",") if pair)
    return slot, Spec(name=name, args={key: _value(value) for key, _, value in pairs})


def _split_arguments(text: str) -> tuple[str, str, str]:
    """`module:make:depth=2` at the last colon before its first argument."""
    if "=" not in text:
        return text, "", ""
    before, _, after = text.partition("=")
    name, colon, key = before.rpartition(":")
    return name, colon, f"{key}={after}"


def shareable(context: Context) -> dict[str, JsonValue]:
    """The context without paths: what a header may hold."""
    plain: dict[str, JsonValue] = context.model_dump(mode="json", exclude={"data", "cache"})
    roles: dict[str, JsonValue] = {role: model_name(model) for role, model in context.roles.items()}
    given = context.data or ""
    data = show_address(given) if "://" in given else Path(given).name
    return {**plain, "model": _mind(context), "roles": roles, "data": data}


def _mind(context: Context) -> str:
    if context.chat is not None:
        return f"{LIVE}{model_label(context.chat)}"
    return model_name(context.model)


def model_name(model: str) -> str:
    """A model's name as it may leave the machine: of weights in a file the file's name alone."""
    kind, _, name = model.partition(":")
    return f"{kind}:{Path(name).name}" if kind == "local" and name else model


def versions() -> dict[str, str]:
    """Versions of the packages that decide how a run behaves, and how texts are matched to actions here."""
    return {**_installed(), "matching": method(encoder())}


@cache
def _installed() -> dict[str, str]:
    return {name: version(name) for name in ("certigraph", "langgraph", "langchain-core", "pydantic")}


def save_local(folder: Path, context: Context) -> None:
    """Keep the whole context beside the trajectory, for `resume` on this machine."""
    paths = {"data": context.data, "cache": context.cache}
    whole = {name: str(Path(path).resolve()) if path else None for name, path in paths.items()}
    plain = context.model_copy(update=whole).model_dump_json()
    (folder / SETTINGS).write_text(plain, encoding="utf-8")


def load_local(folder: Path) -> Context:
    """The context that a run was started with."""
    path = folder / SETTINGS
    if not path.is_file():
        raise Fault("data", f"{path} is missing: a run is resumed on the machine, and in the folder, it began in")
    try:
        return Context.model_validate_json(file_bytes(path, MOST_SETTINGS))
    except ValidationError as error:
        raise Fault("data", f"{path} holds no settings of a run: restore it, or start the run anew") from error


def _value(text: str) -> "Spec | JsonValue":
    if text in OPERATORS:
        return Spec(name=text)
    try:
        value: JsonValue = json_value(text)
    except ValueError:
        return text
    return value

"""Sweep files: their records and their expansion into comparisons."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from pathlib import Path as File
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import BeforeValidator, Field, ValidationError

from certigraph.adapters.processes import library
from certigraph.adapters.protocols import Context
from certigraph.evaluation.compare import Choice, Order, order
from certigraph.evaluation.comparison import Method, method_of
from certigraph.runtime.registry import context_from, graph_module
from certigraph.state.records import Fault, Record, UnknownName

# YAML as plain texts, lists and dictionaries, and the line each of them stands in.
#
# Every scalar stays the text it is: `4-0`, `1:30` and `no` are task ids here, no number, time or truth value. No tag
# makes an object, and what a file could grow by is refused: aliases, duplicate keys, deep nesting, great size.

LARGEST = 256 * 1024
"""Bytes."""

DEEPEST = 12
"""Levels of nesting; a sweep has five."""

KeyPath = tuple[str | int, ...]
"""Keys and places (from 0) that lead to a value."""


class Text(NamedTuple):
    """A file's content, and the line (from 1) of each part of it."""

    value: Any
    lines: dict[KeyPath, int]


def read_yaml(file: File) -> Text:
    """Read a file.

    Raises:
        Fault: it is missing, too large or no YAML, or has a key twice, an alias or too deep a nesting.
    """
    if not file.is_file():
        raise Fault("data", f"there is no file {file}: name a sweep's file, as in certigraph sweep sweep.yaml")
    if (size := file.stat().st_size) > LARGEST:
        raise Fault("data", f"{file} has {size:,} bytes; a sweep's file has at most {LARGEST:,}: is it another file?")
    yaml = library("yaml", "a sweep's file needs", "eval")
    try:
        _bounded(yaml.parse(file.read_bytes(), yaml.BaseLoader), yaml, file)
        node = yaml.compose(file.read_bytes(), yaml.BaseLoader)
    except yaml.YAMLError as error:
        raise Fault("data", f"{file} is no YAML: {' '.join(str(error).split())}") from error
    lines: dict[KeyPath, int] = {}
    return Text(_plain(node, (), lines, file) if node else {}, lines)


def _bounded(events: Any, yaml: Any, file: File) -> None:
    """Refuse what would grow or nest without end, before anything is built of it."""
    depth = 0
    for event in events:
        line = event.start_mark.line + 1
        if isinstance(event, yaml.AliasEvent):
            raise Fault("data", f"{file}, line {line}: aliases (*{event.anchor}) are not read: write the value out")
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if depth > DEEPEST:
            raise Fault("data", f"{file}, line {line}: nested more than {DEEPEST} levels deep; a sweep's file is flat")


def _plain(node: Any, path: KeyPath, lines: dict[KeyPath, int], file: File) -> Any:
    lines[path] = node.start_mark.line + 1
    if node.id == "scalar":
        return node.value
    if node.id == "sequence":
        return [_plain(part, (*path, place), lines, file) for place, part in enumerate(node.value)]
    found: dict[str, Any] = {}
    for key, part in node.value:
        line = key.start_mark.line + 1
        if key.id != "scalar":
            raise Fault("data", f"{file}, line {line}: a key is a word, not a {key.id}")
        if key.value in found:
            before = lines[*path, key.value]
            raise Fault("data", f"{file}, line {line}: {key.value!r} stands in line {before} already: keep one of them")
        found[key.value] = _plain(part, (*path, key.value), lines, file)
        lines[*path, key.value] = line
    return found


# What a sweep's file may say: the record of it, key by key.

Name = Annotated[str, Field(min_length=1)]
Amounts = dict[str, float]


def _case(given: Any) -> Any:
    return {"name": given} if isinstance(given, str) else given


class Choosing(Record):
    """Which tasks of a benchmark: ids, or a split and how many of it."""

    tasks: tuple[Name, ...] = ()
    split: str = ""
    limit: int = Field(0, ge=0)
    """The first ones; 0: all."""
    stratify: bool = False
    """Spread the limit over difficulty and length instead."""


class Case(Choosing):
    """One benchmark of a sweep. What it does not say of its tasks, the file's own `limit`, `split`, ... say."""

    name: Name
    label: str = ""
    """What tables call it; told apart by this, a benchmark may stand in a sweep twice."""

    @property
    def title(self) -> str:
        """The label, else the name."""
        return self.label or self.name


class Most(Record):
    """What all runs of a sweep may spend together. Once it is reached no run is begun; those under way end."""

    usd: float | None = Field(None, gt=0, allow_inf_nan=False)
    """Refuses models without a known price."""
    tokens: int | None = Field(None, gt=0)
    """Input and output tokens together."""
    calls: int | None = Field(None, gt=0)
    hours: float | None = Field(None, gt=0, allow_inf_nan=False)
    """Wall-clock hours of one start of the sweep: the same command goes on for as many again."""


class Sweep(Choosing):
    """Everything a sweep's file may say. `most` and `at_once` may change between two starts, the rest may not.

    Each of `operators` is a variant, slot -> operator; `{}` is the graph as it is. `budget` is a run's, with the
    graph's limits, as `--budget` names them.
    """

    benchmarks: tuple[Annotated[Case, BeforeValidator(_case)], ...] = Field(min_length=1, max_length=100)
    graphs: tuple[Name, ...] = Field(min_length=1, max_length=100)
    operators: tuple[dict[str, Name], ...] = Field(({},), min_length=1, max_length=100)
    model: Name = "scripted:expert"
    roles: dict[str, Name] = Field(default_factory=dict)
    trials: int = Field(1, ge=1, le=1_000)
    budget: Amounts = Field(default_factory=dict)
    most: Most = Most()
    at_once: int = Field(1, ge=1, le=1_000)
    """Runs under way at a time."""
    data: Name | None = None
    """Folders are seen from the folder of the file."""
    cache: Name | None = None
    faults: str = ""
    checkpoints: Literal["", "postgres"] = ""

    def choosing(self, case: Case) -> Choosing:
        """The tasks of a benchmark: what its entry says, and for the rest the file."""
        said = {key: getattr(case, key) for key in Choosing.model_fields if key in case.model_fields_set}
        return Choosing(**{**{key: getattr(self, key) for key in Choosing.model_fields}, **said})


# A sweep's file, read and checked: every mistake is told with its line, its key and what would do.

TOLD = 5
"""Mistakes that are told at once."""

INNER: Mapping[str, type[Record]] = {"benchmarks": Case, "most": Most}
"""The records inside a sweep's, by their key."""


def read_sweep(file: Path) -> Sweep:
    """The sweep that a YAML file describes.

    Raises:
        Fault: the file is missing or unusable; the message has line, key, value and what is known.
    """
    text = read_yaml(file)
    try:
        sweep = Sweep.model_validate(text.value)
    except ValidationError as error:
        found = error.errors()
        more = f"; and {len(found) - TOLD} more" if len(found) > TOLD else ""
        raise Fault("data", f"{file}, {'; '.join(_told(one, text) for one in found[:TOLD])}{more}") from error
    _apart(sweep, file)
    return sweep


def folder_name(case: Case) -> str:
    """The name of the folder in which a benchmark's comparison is kept."""
    return "".join(c if c.isalnum() or c in "-_" else "-" for c in case.title)[:80].strip("-") or "benchmark"


def _apart(sweep: Sweep, file: Path) -> None:
    """Refuse what is there twice: benchmarks of one name, graphs, variants."""
    cases = [case.title for case in sweep.benchmarks]
    if twice := _twice([folder_name(case).lower() for case in sweep.benchmarks]):
        raise Fault("data", f"{file}: benchmarks has {cases[twice]!r} twice: give one of them another `label`")
    if twice := _twice(sweep.graphs):
        raise Fault("data", f"{file}: graphs has {sweep.graphs[twice]!r} twice: keep one of them")
    if twice := _twice([sorted(variant.items()) for variant in sweep.operators]):
        raise Fault("data", f"{file}: operators has {sweep.operators[twice]} twice: keep one of them")


def _twice(names: Sequence[Any]) -> int:
    """The place of the first one that was there before; 0 for none."""
    return next((place for place, name in enumerate(names) if name in names[:place]), 0)


def _told(error: Any, text: Text) -> str:
    path = tuple(error["loc"])
    line = next((text.lines[path[:n]] for n in range(len(path), -1, -1) if path[:n] in text.lines), 1)
    where = ".".join(str(part + 1) if isinstance(part, int) else str(part) for part in path)
    if error["type"] == "extra_forbidden":
        return f"line {line}: no key {where!r}; known: {', '.join(_known(path))}"
    if error["type"] == "missing":
        return f"line {line}: {where!r} is missing"
    given = f", not {_short(error['input'])}" if not isinstance(error["input"], Sweep) else ""
    return f"line {line}: {where or 'the file'}: {error['msg']}{given}"


def _known(path: Iterable[str | int]) -> list[str]:
    first, *rest = path
    kind = INNER[str(first)] if rest else Sweep
    return sorted(kind.model_fields)


def _short(value: Any) -> str:
    told = repr(value)
    return told if len(told) <= 60 else f"{told[:59]}…"


# A sweep's graphs x variants as the methods of its comparisons, and its benchmarks as their orders.


class Expansion(NamedTuple):
    """The methods, each graph's own first where the file has it; and what is left out and why."""

    methods: tuple[Method, ...]
    left_out: tuple[str, ...]


def expanded(sweep: Sweep, *, import_own: bool = True) -> Expansion:
    """Every graph with every variant for which it has the slots.

    Args:
        sweep: what the file says.
        import_own: whether operators named `module:attribute` are imported; else their names are taken as they are.

    Raises:
        UnknownName: a graph, slot or operator is unknown, or no graph has the slots of a variant.
    """
    slots = {graph: slots_of(graph) for graph in sweep.graphs}
    methods: list[Method] = []
    left_out = [told for variant in sweep.operators if (told := _unfit(variant, slots))]
    for graph, mine in slots.items():
        for variant in sweep.operators:
            if set(variant) <= set(mine):
                _add(_varied(graph, variant, import_own=import_own), methods, left_out)
    return Expansion(tuple(methods), tuple(left_out))


def slots_of(graph: str) -> list[str]:
    """The slots whose operators may be exchanged, optional ones included. Raises UnknownName for an unknown graph."""
    return list(graph_module(graph).Operators.__annotations__)


def order_of(sweep: Sweep, case: Case, methods: tuple[Method, ...], home: Path) -> Order:
    """The comparison of the methods on one benchmark; `home` is the file's folder.

    Raises:
        UnknownName: a benchmark, split, task, role, model or budget is unknown.
        Fault: a key, weights, a server or data are missing.
    """
    chosen = sweep.choosing(case)
    choice = Choice(chosen.tasks, chosen.split, chosen.limit, sweep.trials, chosen.stratify)
    return order(methods, case.name, choice, _context(sweep, case, home))


def _context(sweep: Sweep, case: Case, home: Path) -> Context:
    roles = [f"{role}={model}" for role, model in sweep.roles.items()]
    budget = [f"{key}={value:.12g}" for key, value in sweep.budget.items()]
    data, cache = (str(home / Path(path).expanduser()) if path else None for path in (sweep.data, sweep.cache))
    context = context_from(sweep.model, roles, data, budget, case.name, cache)
    return context.model_copy(update={"faults": sweep.faults, "checkpoints": sweep.checkpoints})


def _varied(graph: str, variant: Mapping[str, str], *, import_own: bool) -> Method:
    name = f"{graph} {_named(variant)}" if variant else graph
    swaps = [f"{slot}={operator}" for slot, operator in variant.items()]
    return method_of(name, graph, swaps, import_own=import_own)


def _add(method: Method, methods: list[Method], left_out: list[str]) -> None:
    same = (m for m in methods if (m.graph, m.operators) == (method.graph, method.operators))
    if twin := next(same, None):
        left_out.append(f"{method.name} has the operators of {twin.name}: run once")
    else:
        methods.append(method)


def _unfit(variant: Mapping[str, str], slots: Mapping[str, list[str]]) -> str:
    """Which graphs a variant is not run in, and why; nothing where it fits all."""
    lacking = {graph: [slot for slot in variant if slot not in mine] for graph, mine in slots.items()}
    if all(lacking.values()):
        known = "; ".join(f"{graph}: {', '.join(mine)}" for graph, mine in slots.items())
        raise UnknownName(f"no graph of the sweep has the slots of {_named(variant)}; {known}")
    unfit = ", ".join(f"{graph} (no slot {', '.join(names)})" for graph, names in lacking.items() if names)
    return f"{_named(variant)} is not run in {unfit}" if unfit else ""


def _named(variant: Mapping[str, str]) -> str:
    return "+".join(f"{slot}={operator}" for slot, operator in variant.items()) or "its own operators"

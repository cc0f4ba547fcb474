"""Sweep files in YAML: a reader, the records that describe a sweep, and its expansion into comparisons.

A sweep runs graphs with variants of their operators on several benchmarks.
"""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from pathlib import Path as File
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import BeforeValidator, Field, ValidationError

from certigraph.adapters.benchmarks import is_own
from certigraph.adapters.processes import import_extra
from certigraph.adapters.protocols import Context
from certigraph.evaluation.compare import Choice, ComparisonJob, build_job
from certigraph.evaluation.comparison import ComparedMethod, build_method
from certigraph.runtime.registry import GRAPHS, create_context, graph_slots
from certigraph.state.records import Fault, Record, UnknownName

# The YAML reader, which returns strings, lists and dictionaries with their line numbers.
#
# Every scalar is read as a string: `4-0`, `1:30` and `no` are task ids here, not a number, a time or a truth value.
# Tags create no objects, and aliases, duplicate keys, deep nesting and large files are refused.

MAX_FILE_BYTES = 256 * 1024
"""Maximum size of a file in bytes."""

MAX_DEPTH = 12
"""Maximum number of levels of nesting; a sweep has five."""

KeyPath = tuple[str | int, ...]
"""Keys and list indices (from 0) that lead to a value in a YAML file."""


class YamlText(NamedTuple):
    """Content of a YAML file, and the line (from 1) of each of its values."""

    value: Any
    lines: dict[KeyPath, int]


def read_yaml(file: File) -> YamlText:
    """Read a YAML file.

    Raises:
        Fault: the file is missing, too large or not YAML, or has a duplicate key, an alias or too many levels of
            nesting.
    """
    if not file.is_file():
        raise Fault("data", f"there is no file {file}: name a sweep's file, as in certigraph sweep sweep.yaml")
    if (size := file.stat().st_size) > MAX_FILE_BYTES:
        raise Fault(
            "data", f"{file} has {size:,} bytes; a sweep's file has at most {MAX_FILE_BYTES:,}: is it another file?"
        )
    yaml = import_extra("yaml", "a sweep's file needs", "eval")
    try:
        _check_bounds(yaml.parse(file.read_bytes(), yaml.BaseLoader), yaml, file)
        node = yaml.compose(file.read_bytes(), yaml.BaseLoader)
    except yaml.YAMLError as error:
        raise Fault("data", f"{file} is no YAML: {' '.join(str(error).split())}") from error
    lines: dict[KeyPath, int] = {}
    return YamlText(_to_plain(node, (), lines, file) if node else {}, lines)


def _check_bounds(events: Any, yaml: Any, file: File) -> None:
    """Raise Fault if a YAML file has aliases or deep nesting, before any object is built from it."""
    depth = 0
    for event in events:
        line = event.start_mark.line + 1
        if isinstance(event, yaml.AliasEvent):
            raise Fault("data", f"{file}, line {line}: aliases (*{event.anchor}) are not read: write the value out")
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if depth > MAX_DEPTH:
            raise Fault(
                "data", f"{file}, line {line}: nested more than {MAX_DEPTH} levels deep; a sweep's file is flat"
            )


def _to_plain(node: Any, path: KeyPath, lines: dict[KeyPath, int], file: File) -> Any:
    lines[path] = node.start_mark.line + 1
    if node.id == "scalar":
        return node.value
    if node.id == "sequence":
        return [_to_plain(part, (*path, index), lines, file) for index, part in enumerate(node.value)]
    content: dict[str, Any] = {}
    for key, part in node.value:
        line = key.start_mark.line + 1
        if key.id != "scalar":
            raise Fault("data", f"{file}, line {line}: a key is a word, not a {key.id}")
        if key.value in content:
            first_line = lines[*path, key.value]
            raise Fault("data", f"{file}, line {line}: {key.value!r} is already in line {first_line}: keep one of them")
        content[key.value] = _to_plain(part, (*path, key.value), lines, file)
        lines[*path, key.value] = line
    return content


# The records of a sweep's file.

Name = Annotated[str, Field(min_length=1)]
BudgetAmounts = dict[str, float]


def _to_case(given: Any) -> Any:
    return {"name": given} if isinstance(given, str) else given


class TaskSelection(Record):
    """Selection of a benchmark's tasks: by ids, or by a split and a number of tasks."""

    tasks: tuple[Name, ...] = ()
    split: str = ""
    limit: int = Field(default=0, ge=0)
    """Number of tasks, from the start of the split; 0: all."""
    stratify: bool = False
    """Choose the `limit` tasks evenly over difficulty and length, and not from the start of the split."""


class SweepBenchmark(TaskSelection):
    """One benchmark of a sweep. If it omits keys of the task selection, those at the top level of the file apply."""

    name: Name
    label: str = ""
    """Name of the benchmark in tables. With different labels a sweep can have the same benchmark twice."""

    @property
    def title(self) -> str:
        """The label of the benchmark, or its name if it has no label."""
        return self.label or self.name


class TotalLimits(Record):
    """Total budget of a sweep.

    When a limit is reached no more runs are started; executing runs continue to their end.
    """

    usd: float | None = Field(default=None, gt=0, allow_inf_nan=False)
    """US dollars; an error if the price of a model is not known."""
    tokens: int | None = Field(default=None, gt=0)
    """Input and output tokens together."""
    calls: int | None = Field(default=None, gt=0)
    hours: float | None = Field(default=None, gt=0, allow_inf_nan=False)
    """Wall-clock hours since the sweep was started or resumed; a resumed sweep has this number of hours again."""


class Sweep(TaskSelection):
    """Content of a sweep file, which describes graphs and operator variants to run on benchmarks.

    When a sweep is resumed, only `most` and `at_once` may have changed, and benchmarks may have been added.

    Each of `operators` is a variant, slot -> operator; `{}` is the unchanged graph. `budget` has the limits of a run
    and of the graph's method, with the keys of `--budget`.
    """

    benchmarks: tuple[Annotated[SweepBenchmark, BeforeValidator(_to_case)], ...] = Field(min_length=1, max_length=100)
    graphs: tuple[Name, ...] = Field(min_length=1, max_length=100)
    operators: tuple[dict[str, Name], ...] = Field(default=({},), min_length=1, max_length=100)
    model: Name = "scripted:expert"
    roles: dict[str, Name] = Field(default_factory=dict)
    trials: int = Field(default=1, ge=1, le=1_000)
    budget: BudgetAmounts = Field(default_factory=dict)
    most: TotalLimits = TotalLimits()
    at_once: int = Field(default=1, ge=1, le=1_000)
    """Number of concurrent runs."""
    data: Name | None = None
    """Data folder. Like `cache`, a relative path is relative to the folder of the file."""
    cache: Name | None = None
    profile: Literal["", "full", "small"] = ""
    faults: str = ""
    checkpoints: Literal["", "postgres"] = ""

    def selection_of(self, case: SweepBenchmark) -> TaskSelection:
        """Return the task selection of a benchmark: its own keys, and the file's top-level keys for the others."""
        own = {key: getattr(case, key) for key in TaskSelection.model_fields if key in case.model_fields_set}
        return TaskSelection(**{**{key: getattr(self, key) for key in TaskSelection.model_fields}, **own})


# Reading and validation: a message names line, key and valid values for every mistake.

MAX_MISTAKES = 5
"""Maximum number of mistakes in one message."""

INNER_RECORDS: Mapping[str, type[Record]] = {"benchmarks": SweepBenchmark, "most": TotalLimits}
"""Types of the records that are nested in a sweep, by key."""


def read_sweep(file: Path) -> Sweep:
    """Read a sweep from a YAML file.

    Raises:
        Fault: the file is missing or unusable; the message has line, key, value and the known names.
    """
    text = read_yaml(file)
    try:
        sweep = Sweep.model_validate(text.value)
    except ValidationError as error:
        mistakes = error.errors()
        more = f"; and {len(mistakes) - MAX_MISTAKES} more" if len(mistakes) > MAX_MISTAKES else ""
        raise Fault(
            "data", f"{file}, {'; '.join(_format_mistake(mistake, text) for mistake in mistakes[:MAX_MISTAKES])}{more}"
        ) from error
    _check_unique(sweep, file)
    return sweep


def folder_name(case: SweepBenchmark) -> str:
    """Return the name of the folder that holds the comparison on a benchmark."""
    return "".join(c if c.isalnum() or c in "-_" else "-" for c in case.title)[:80].strip("-") or "benchmark"


def _check_unique(sweep: Sweep, file: Path) -> None:
    """Raise Fault if a sweep names a benchmark, graph or variant twice."""
    cases = [case.title for case in sweep.benchmarks]
    if index := _first_duplicate([folder_name(case).lower() for case in sweep.benchmarks]):
        raise Fault("data", f"{file}: benchmarks has {cases[index]!r} twice: give one of them another `label`")
    if index := _first_duplicate(sweep.graphs):
        raise Fault("data", f"{file}: graphs has {sweep.graphs[index]!r} twice: keep one of them")
    if index := _first_duplicate([sorted(variant.items()) for variant in sweep.operators]):
        raise Fault("data", f"{file}: operators has {sweep.operators[index]} twice: keep one of them")


def _first_duplicate(names: Sequence[Any]) -> int:
    """Return the index at which a name is repeated for the first time; 0 if no name is repeated."""
    return next((index for index, name in enumerate(names) if name in names[:index]), 0)


def _format_mistake(error: Any, text: YamlText) -> str:
    path = tuple(error["loc"])
    line = next((text.lines[path[:n]] for n in range(len(path), -1, -1) if path[:n] in text.lines), 1)
    where = ".".join(str(part + 1) if isinstance(part, int) else str(part) for part in path)
    if error["type"] == "extra_forbidden":
        return f"line {line}: no key {where!r}; known: {', '.join(_known_keys(path))}"
    if error["type"] == "missing":
        return f"line {line}: {where!r} is missing"
    given = f", not {_shorten(error['input'])}" if not isinstance(error["input"], Sweep) else ""
    return f"line {line}: {where or 'the file'}: {error['msg']}{given}"


def _known_keys(path: Iterable[str | int]) -> list[str]:
    first, *rest = path
    kind = INNER_RECORDS[str(first)] if rest else Sweep
    return sorted(kind.model_fields)


def _shorten(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:59]}…"


# Expansion of a sweep: graphs x variants as methods, and a comparison for each benchmark.


class Expansion(NamedTuple):
    """Methods of a sweep, and messages about the combinations of graph and operators that are left out."""

    methods: tuple[ComparedMethod, ...]
    left_out: tuple[str, ...]


def expand_sweep(sweep: Sweep, *, import_own: bool = True) -> Expansion:
    """Combine every graph of a sweep with every variant whose slots the graph has.

    Args:
        sweep: content of the file.
        import_own: whether operators and graphs named `module:attribute` are imported; otherwise their names are not
            checked, and such a graph is assumed to have the slots of every variant.

    Raises:
        UnknownName: a graph, slot or operator is unknown, or no graph has the slots of a variant.
    """
    every = [slot for variant in sweep.operators for slot in variant]
    slots = {graph: graph_slots(graph) if import_own or graph in GRAPHS else every for graph in sweep.graphs}
    methods: list[ComparedMethod] = []
    left_out = [message for variant in sweep.operators if (message := _explain_unfit(variant, slots))]
    for graph, known in slots.items():
        for variant in sweep.operators:
            if set(variant) <= set(known):
                _add_method(_build_method(graph, variant, import_own=import_own), methods, left_out)
    return Expansion(tuple(methods), tuple(left_out))


def order_of(
    sweep: Sweep, case: SweepBenchmark, methods: tuple[ComparedMethod, ...], folder: Path, *, import_own: bool = True
) -> ComparisonJob:
    """Build the comparison of the methods on one benchmark of a sweep; `folder` is the folder of the sweep file.

    Raises:
        UnknownName: the benchmark is a user's own and `import_own` is false; or a benchmark, split, task, role, model
            or key of the budget is unknown.
        Fault: an API key, model weights, a server or data are missing.
    """
    if not import_own and is_own(case.name):
        reason = f"{case.name} is a benchmark of your own, whose tasks and limits are in code that is not imported here"
        raise UnknownName(f"{reason}: start the sweep without --dry-run")
    selection = sweep.selection_of(case)
    choice = Choice(selection.tasks, selection.split, selection.limit, sweep.trials, selection.stratify)
    return build_job(methods, case.name, choice, _context_of(sweep, case, folder))


def _context_of(sweep: Sweep, case: SweepBenchmark, folder: Path) -> Context:
    roles = [f"{role}={model}" for role, model in sweep.roles.items()]
    budget = [f"{key}={value:.12g}" for key, value in sweep.budget.items()]
    data, cache = (str(folder / Path(path).expanduser()) if path else None for path in (sweep.data, sweep.cache))
    context = create_context(sweep.model, roles, data, budget, case.name, cache, sweep.profile)
    return context.model_copy(update={"faults": sweep.faults, "checkpoints": sweep.checkpoints})


def _build_method(graph: str, variant: Mapping[str, str], *, import_own: bool) -> ComparedMethod:
    name = f"{graph} {_variant_name(variant)}" if variant else graph
    swaps = [f"{slot}={operator}" for slot, operator in variant.items()]
    return build_method(name, graph, swaps, import_own=import_own)


def _add_method(method: ComparedMethod, methods: list[ComparedMethod], left_out: list[str]) -> None:
    same = (m for m in methods if (m.graph, m.operators) == (method.graph, method.operators))
    if twin := next(same, None):
        left_out.append(f"{method.name} has the operators of {twin.name}: run once")
    else:
        methods.append(method)


def _explain_unfit(variant: Mapping[str, str], slots: Mapping[str, list[str]]) -> str:
    """Format a message about the graphs that lack slots of a variant; empty if all graphs have the slots."""
    missing = {graph: [slot for slot in variant if slot not in graph_slots] for graph, graph_slots in slots.items()}
    if all(missing.values()):
        known = "; ".join(f"{graph}: {', '.join(graph_slots)}" for graph, graph_slots in slots.items())
        raise UnknownName(f"no graph of the sweep has the slots of {_variant_name(variant)}; {known}")
    unfit = ", ".join(f"{graph} (no slot {', '.join(names)})" for graph, names in missing.items() if names)
    return f"{_variant_name(variant)} is not run in {unfit}" if unfit else ""


def _variant_name(variant: Mapping[str, str]) -> str:
    return "+".join(f"{slot}={operator}" for slot, operator in variant.items()) or "its own operators"

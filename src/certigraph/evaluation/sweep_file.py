"""Sweep files in YAML: a reader, the records that describe a sweep, and its expansion into comparisons.

A sweep runs graphs with variants of their operators on several benchmarks.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

import yaml
from pydantic import BeforeValidator, Field, ValidationError, model_validator

from certigraph.adapters.benchmarks import is_own
from certigraph.adapters.protocols import Context
from certigraph.evaluation.compare import ComparisonJob, build_job
from certigraph.evaluation.comparison import Choice, ComparedMethod, build_method
from certigraph.runtime.registry import GRAPHS, create_context, graph_slots
from certigraph.state.endings import Fault, UnknownName
from certigraph.state.records import Record

# The YAML loader. Aliases, duplicate keys, deep nesting and large files are refused.

MAX_FILE_BYTES = 256 * 1024
"""Maximum size of a file in bytes."""

MAX_DEPTH = 12
"""Maximum number of levels of nesting; a sweep has five."""

KeyPath = tuple[str | int, ...]
"""Keys and list indices (from 0) that lead to a value in a YAML file."""


class SweepLoader(yaml.BaseLoader):
    """YAML loader that creates only texts, lists and dictionaries, and stores the line (from 1) of each value.

    Unlike `yaml.safe_load` it leaves scalars as they are: `4-0`, `1:30` and `no` are ids of tasks here, not a number, a
    time or a truth value.
    """

    def __init__(self, text: bytes) -> None:
        super().__init__(text)
        self.lines: dict[KeyPath, int] = {}
        self._depth = 0

    def compose_node(self, parent: Any, index: Any) -> Any:
        """Compose a node; refuse aliases and deep nesting before anything is built from them."""
        event: Any = self.peek_event()  # type: ignore[no-untyped-call]
        if isinstance(event, yaml.AliasEvent):
            raise self._mistake(event, f"aliases (*{event.anchor}) are not read: write the value out")
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise self._mistake(event, f"nested more than {MAX_DEPTH} levels deep; a sweep's file is flat")
        node = super().compose_node(parent, index)
        self._depth -= 1
        return node

    def read(self) -> Any:
        """Return the content of the file; an empty dictionary if it is empty."""
        node = self.get_single_node()
        return self._to_plain(node, ()) if node else {}

    def _to_plain(self, node: Any, path: KeyPath) -> Any:
        self.lines.setdefault(path, node.start_mark.line + 1)  # a value of a dictionary has the line of its key
        if node.id == "scalar":
            return node.value
        if node.id == "sequence":
            return [self._to_plain(part, (*path, index)) for index, part in enumerate(node.value)]
        content: dict[str, Any] = {}
        for key, part in node.value:
            if key.id != "scalar":
                raise self._mistake(key, f"a key is a word, not a {key.id}")
            place = (*path, key.value)
            if place in self.lines:
                raise self._mistake(key, f"{key.value!r} is already in line {self.lines[place]}: keep one of them")
            self.lines[place] = key.start_mark.line + 1
            content[key.value] = self._to_plain(part, place)
        return content

    def _mistake(self, place: Any, message: str) -> Fault:
        return Fault("data", f"line {place.start_mark.line + 1}: {message}")


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
    window: int = Field(default=0, ge=0)
    faults: str = ""
    checkpoints: Literal["", "postgres"] = ""

    @model_validator(mode="before")
    @classmethod
    def _update_former(cls, content: Any) -> Any:
        return Context.update_former(dict(content)) if isinstance(content, dict) else content

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
        Fault: the file is missing, too large or unusable; the message has line, key, value and the known names.
    """
    if not file.is_file():
        lines = "graphs: [sdp] and benchmarks: [NAME]"
        raise Fault("data", f"there is no file {file}: certigraph sweep needs one with at least the lines {lines}")
    if (size := file.stat().st_size) > MAX_FILE_BYTES:
        limit = f"a sweep's file has at most {MAX_FILE_BYTES:,}"
        raise Fault("data", f"{file} has {size:,} bytes; {limit}: is it another file?")
    try:
        loader = SweepLoader(file.read_bytes())
        sweep = _validate(loader.read(), loader.lines)
    except yaml.YAMLError as error:
        raise Fault("data", f"{file} is no YAML: {' '.join(str(error).split())}") from error
    except Fault as fault:
        raise Fault("data", f"{file}, {fault}") from fault
    _check_unique(sweep, file)
    return sweep


def _validate(content: Any, lines: Mapping[KeyPath, int]) -> Sweep:
    try:
        return Sweep.model_validate(content)
    except ValidationError as error:
        mistakes = error.errors()
        more = f"; and {len(mistakes) - MAX_MISTAKES} more" if len(mistakes) > MAX_MISTAKES else ""
        shown = "; ".join(_format_mistake(mistake, lines) for mistake in mistakes[:MAX_MISTAKES])
        raise Fault("data", f"{shown}{more}") from error


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


def _format_mistake(error: Any, lines: Mapping[KeyPath, int]) -> str:
    path = tuple(error["loc"])
    line = next((lines[path[:n]] for n in range(len(path), -1, -1) if path[:n] in lines), 1)
    where = ".".join(str(part + 1) if isinstance(part, int) else str(part) for part in path)
    if error["type"] == "extra_forbidden":
        kind = INNER_RECORDS[str(path[0])] if len(path) > 1 else Sweep
        return f"line {line}: no key {where!r}; known: {', '.join(sorted(kind.model_fields))}"
    if error["type"] == "missing":
        return f"line {line}: {where!r} is missing"
    given = repr(error["input"])
    shown = given if len(given) <= 60 else f"{given[:59]}…"
    return f"line {line}: {where or 'the file'}: {error['msg']}" + (
        f", not {shown}" if not isinstance(error["input"], Sweep) else ""
    )


# Expansion of a sweep: graphs x variants as methods, and a comparison for each benchmark.


class Expansion(NamedTuple):
    """Methods of a sweep, and messages about the combinations of graph and operators that are left out."""

    methods: list[ComparedMethod]
    left_out: list[str]


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
            if not set(variant) <= set(known):
                continue
            name = f"{graph} {_variant_name(variant)}" if variant else graph
            swaps = [f"{slot}={operator}" for slot, operator in variant.items()]
            method = build_method(name, graph, swaps, import_own=import_own)
            same = (m for m in methods if (m.graph, m.operators) == (method.graph, method.operators))
            if twin := next(same, None):
                left_out.append(f"{name} has the operators of {twin.name}: run once")
            else:
                methods.append(method)
    return Expansion(methods, left_out)


def order_of(
    sweep: Sweep, case: SweepBenchmark, methods: Sequence[ComparedMethod], folder: Path, *, import_own: bool = True
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
    roles = [f"{role}={model}" for role, model in sweep.roles.items()]
    budget = [f"{key}={value:.12g}" for key, value in sweep.budget.items()]
    data, cache = (str(folder / Path(path).expanduser()) if path else None for path in (sweep.data, sweep.cache))
    context = create_context(sweep.model, roles, data, budget, case.name, cache, sweep.window)
    context = context.model_copy(update={"faults": sweep.faults, "checkpoints": sweep.checkpoints})
    selection = sweep.selection_of(case)
    split, limit, stratify = selection.split, selection.limit, selection.stratify
    choice = Choice(ids=selection.tasks, split=split, limit=limit, trials=sweep.trials, stratify=stratify)
    return build_job(methods, case.name, choice, context)


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

"""Graphs, operators, budgets and settings by name."""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from langgraph.graph.state import CompiledStateGraph
from pydantic import JsonValue, ValidationError

from certigraph.adapters.benchmarks import load_benchmark, usable
from certigraph.adapters.files import MOST_SETTINGS, file_bytes
from certigraph.adapters.matching import NAME, encoder, method, needed_encoder
from certigraph.adapters.models.chat_models import chat_model, check_model, model_label, ready
from certigraph.adapters.models.usage import price_of, unpriced
from certigraph.adapters.protocols import ROLES, Benchmark, Budget, Context, Limits
from certigraph.adapters.redaction import MASK, show_address
from certigraph.adapters.research.operators import force_accept
from certigraph.graphs.assembly import operators_of, swapped
from certigraph.graphs.hypotheses import explore
from certigraph.graphs.tdp import solve
from certigraph.nodes.beliefs import filtered, freeform, grounded, lobotomized, native, structured
from certigraph.nodes.factored_states import (
    extract_state,
    interpret_goal,
    offline_goal,
    prompted_goal,
    prompted_state,
    symbolic_goal,
    symbolic_state,
)
from certigraph.nodes.gates import (
    either,
    exhaustion_gate,
    gap_gate,
    judged_gate,
    no_gate,
    resampling,
    shadow,
    smooth_gate,
)
from certigraph.nodes.goal_checks import recheck, votes, world_check
from certigraph.nodes.lookahead import (
    appraise,
    choose_by_reward,
    greedy,
    listed,
    predicted,
    propose_actions,
    rehearsed,
    reward_guided,
    shortlisted,
)
from certigraph.nodes.mcts import backpropagate, most_visited, select
from certigraph.nodes.plans import plan, supervise
from certigraph.nodes.react import decide, decide_freely, execute, pursue
from certigraph.nodes.rewards import constant, judge_reward, monotonic, route, supervised
from certigraph.nodes.sdp import always_pass, capped, give_up, replan, validate
from certigraph.nodes.search import (
    abstain,
    aggregate,
    answer,
    force_pass,
    generate,
    hypothesise,
    manage,
    reason,
    retrieving,
    unforced,
)
from certigraph.nodes.slots import Spec, operator_from
from certigraph.nodes.step import gain_insights, memorise, none, planner, reflect
from certigraph.nodes.tdp import decompose, revise, undivided, unrevised
from certigraph.nodes.world import act
from certigraph.runtime.files import SETTINGS
from certigraph.state.records import Fault, UnknownName, json_value

# What a command line may name without saying where it is: the graphs and their operators.

METHODS = (
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
REWARDS = ("statefactory", "monotonic", "reward_judge", "reward_head")
"""Graphs that predict rewards along recorded trajectories."""

PARTS = ("subtask",)
"""Graphs that solve a part of a task inside another one."""

SEARCHES = ("pbai", "ircot", "memgpt", "iter_retgen", "hypotheses")

GRAPHS = {name: f"certigraph.graphs.{name}" for name in METHODS + SEARCHES + REWARDS + PARTS}

OPERATORS: dict[str, Callable[..., Any]] = {
    "abstain": abstain,
    "act": act,
    "aggregate": aggregate,
    "always_pass": always_pass,
    "answer": answer,
    "appraise": appraise,
    "backpropagate": backpropagate,
    "capped": capped,
    "choose_by_reward": choose_by_reward,
    "constant": constant,
    "decide": decide,
    "decompose": decompose,
    "decide_freely": decide_freely,
    "either": either,
    "execute": execute,
    "exhaustion_gate": exhaustion_gate,
    "explore": explore,
    "extract_state": extract_state,
    "filtered": filtered,
    "force_accept": force_accept,
    "force_pass": force_pass,
    "freeform": freeform,
    "gain_insights": gain_insights,
    "gap_gate": gap_gate,
    "generate": generate,
    "give_up": give_up,
    "greedy": greedy,
    "grounded": grounded,
    "hypothesise": hypothesise,
    "interpret_goal": interpret_goal,
    "judge_reward": judge_reward,
    "judged_gate": judged_gate,
    "listed": listed,
    "lobotomized": lobotomized,
    "manage": manage,
    "memorise": memorise,
    "monotonic": monotonic,
    "most_visited": most_visited,
    "native": native,
    "no_gate": no_gate,
    "none": none,
    "offline_goal": offline_goal,
    "plan": plan,
    "planner": planner,
    "predicted": predicted,
    "propose_actions": propose_actions,
    "prompted_goal": prompted_goal,
    "prompted_state": prompted_state,
    "pursue": pursue,
    "reason": reason,
    "reflect": reflect,
    "rehearsed": rehearsed,
    "replan": replan,
    "resampling": resampling,
    "recheck": recheck,
    "revise": revise,
    "retrieving": retrieving,
    "route": route,
    "reward_guided": reward_guided,
    "select": select,
    "shadow": shadow,
    "shortlisted": shortlisted,
    "smooth_gate": smooth_gate,
    "solve": solve,
    "structured": structured,
    "supervise": supervise,
    "supervised": supervised,
    "symbolic_goal": symbolic_goal,
    "symbolic_state": symbolic_state,
    "undivided": undivided,
    "unforced": unforced,
    "unrevised": unrevised,
    "validate": validate,
    "votes": votes,
    "world_check": world_check,
}
"""Shipped operators that a command line may name."""


def must_take_answers(what: str, benchmark: Benchmark) -> None:
    """Raises UnknownName where a benchmark has no questions: what searches for answers has nothing to do there."""
    if not getattr(benchmark, "answers", False):
        told = "assistantbench, hotpotqa, locomo, musique, swe_qa and web do"
        raise UnknownName(f"{what} searches for an answer, and {benchmark.name} takes none; {told}")


# What it takes to build a run again: its graph, operators and context.
#
# The trajectory's header holds what may be shared; the run folder's `local.json` holds the rest, paths included.

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


# `KEY=VALUE` texts of a command line, read into models by role, a budget and limits.

R = TypeVar("R", Budget, Limits)


class Allowance(NamedTuple):
    """What a run may spend, and its method's own limits."""

    budget: Budget
    limits: Limits


def roles_in(texts: Sequence[str]) -> dict[str, str]:
    """Models by role from `ROLE=MODEL`; inspect's own names of models, PROVIDER/NAME, are let through.

    Raises:
        UnknownName: a role or a form of model is unknown; the message lists the known ones.
    """
    named = _pairs(texts, "executor=local")
    if unknown := sorted(set(named) - set(ROLES)):
        raise UnknownName(f"no role {unknown[0]!r}; known: {', '.join(ROLES)}")
    for model in named.values():
        if "/" not in model:
            check_model(model)
    return named


def allowance(texts: Sequence[str], limits: Limits, budget: Budget | None = None) -> Allowance:
    """Budget and limits with the changes `KEY=N`.

    Raises:
        UnknownName: a key is unknown or its value is out of range.
    """
    amounts = _pairs(texts, "steps=120")
    known = {*Budget.model_fields, *Limits.model_fields} - {"priced"}
    if unknown := sorted(set(amounts) - known):
        raise UnknownName(f"no budget {unknown[0]!r}; known: {', '.join(sorted(known))}")
    return Allowance(_changed(budget or Budget(), amounts), _changed(limits, amounts))


def context_from(
    model: str,
    roles: Sequence[str] | None,
    data: str | None,
    budget: Sequence[str] | None,
    benchmark: str,
    cache: str | None = None,
) -> Context:
    """The context of a run on a benchmark, from texts.

    Raises:
        UnknownName: a benchmark, role, model or key is unknown, or a value is out of range.
        Fault: a key, weights, a server or data are missing.
    """
    named = {role: check_model(name) for role, name in roles_in(roles or []).items()}
    for name in {model, *named.values()}:
        ready(name)
    live = load_benchmark(benchmark, data)
    usable(live)
    allowed = allowance(budget or [], live.limits)
    return Context(
        model=check_model(model), roles=named, data=data, budget=allowed.budget, limits=allowed.limits, cache=cache
    )


def must_be_priced(models: Iterable[str], budget: Budget) -> None:
    """Make sure that a limit of dollars can hold, before anything is asked.

    Raises:
        Fault: dollars are limited and a model of an endpoint has no known price; or it could not be asked at all.
    """
    for name in filter(lambda model: model.startswith("openai:"), models if budget.priced else ()):
        model = chat_model(name)
        if price_of(model) is None:
            raise Fault("model", unpriced(model_label(model), budget.usd))


def _pairs(texts: Sequence[str], example: str) -> dict[str, str]:
    pairs = [text.partition("=") for text in texts]
    if bad := [name for name, equals, _ in pairs if not equals]:
        raise UnknownName(f"{bad[0]!r} is not KEY=VALUE; write for example {example}")
    return {name: value for name, _, value in pairs}


def _changed(record: R, amounts: Mapping[str, str]) -> R:
    kind = type(record)
    mine: dict[str, object] = {key: value for key, value in amounts.items() if key in kind.model_fields}
    if "usd" in mine:
        mine["priced"] = True
    try:
        return kind.model_validate({**record.model_dump(), **mine})
    except ValidationError as error:
        first = error.errors()[0]
        raise UnknownName(f"--budget {first['loc'][0]}={first['input']}: {first['msg']}") from error

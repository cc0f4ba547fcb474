"""`agent`: any method's graph around the user's own model and tools, for a LangGraph application.

The graph takes messages or a goal, and returns messages. Two nodes are added to those of the method: `receive` makes a
task of the input, and `respond` makes a message of the answer. There is a third one, `check`, if the effect of a tool
lasts, and a fourth one, `approve`, with `interrupt_on`.
"""

from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import aclosing
from datetime import datetime
from importlib import import_module
from typing import Annotated, Any, Literal, cast, get_args, get_type_hints

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AnyMessage, ToolMessage
from langchain_core.runnables import Runnable, RunnableConfig
from langchain_core.runnables.config import ensure_config, merge_configs
from langgraph.cache.base import BaseCache
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.graph import END, START
from langgraph.graph.message import _messages_delta_reducer
from langgraph.runtime import Runtime
from langgraph.store.base import BaseStore
from langgraph.types import Checkpointer
from langgraph.utils.runnable import RunnableCallable  # type: ignore[attr-defined]
from pydantic import TypeAdapter
from typing_extensions import TypedDict, Unpack

from certigraph.adapters.models.chat_models import check_model_available, is_local
from certigraph.adapters.models.given import model_fields, role_fields
from certigraph.adapters.models.prompts import clip, one_line
from certigraph.adapters.models.served_contexts import SERVED_FIELDS, check_client_context
from certigraph.adapters.protocols import Budget, Context, Limits, Operator
from certigraph.adapters.spans import find_span, note_on_span
from certigraph.adapters.tools.answer_forms import ResponseForm, ResponseFormat
from certigraph.adapters.tools.checks import Checks, warn_of_unused
from certigraph.adapters.tools.definitions import DEADLINE
from certigraph.adapters.tools.outcomes import Effect
from certigraph.adapters.tools.positions import CHECKPOINTER_KEY, RUNTIME_KEY, require_checkpointer
from certigraph.adapters.tools.rules import Corrections, FactForms, Rules, load_rules
from certigraph.adapters.tools.thread_clocks import acheck_thread_clock, check_thread_clock
from certigraph.adapters.tools.world import RESPONSE_ARGUMENT, ToolLike, Tools
from certigraph.graphs.assembly import Assembly, EpisodicGraph, Schemas, create_state, extend_state, run_in_place
from certigraph.nodes.answer_audits import judge_answer
from certigraph.nodes.approval import InterruptOn, approvals
from certigraph.nodes.beliefs import SEARCH_SLOTS
from certigraph.nodes.call_checks import check_calls
from certigraph.nodes.commitments import commit
from certigraph.nodes.events import write_answer
from certigraph.nodes.executors import Executor, hand_over, load_executor_tools
from certigraph.nodes.lessons import check_template, find_owner, learn_nothing, no_lessons
from certigraph.nodes.messages import CUT_OFF, answer_by_observation, close_calls, show_choice
from certigraph.nodes.requests import (
    AROUND_KEY,
    CERTIFIED_KEY,
    INPUT_FORM,
    OPEN_KEY,
    THE_GOAL,
    name_target,
    note_sources,
    read_surroundings,
    receive_request,
)
from certigraph.nodes.tools import STOPPED_TEXT, find_ended
from certigraph.state.channels import SNAPSHOT_EVERY, ReadChannel, TurnsChannel
from certigraph.state.commitments import CommitmentLevel
from certigraph.state.effects import effects_of
from certigraph.state.endings import FINISHED, GOAL, QUESTION, Fault, LimitReached, Refused
from certigraph.state.provenance import Provenance
from certigraph.state.records import Action, Certificate, Observation, Spent, Usage
from certigraph.state.run import ANSWER_ACTIONS
from certigraph.state.tools import (
    ANSWER_ARGUMENT,
    BEGAN,
    MESSAGE_KEY,
    calls_of,
    describe_bugs,
    describe_failure,
    id_of_message,
    name_ending,
    next_message_id,
    reasons_refused,
)
from certigraph.state.trajectory import total_usage

Method = Literal["sdp", "tdp", "step", "react", "plan_and_act", "pbai"]
"""Methods that can drive an agent with tools."""

METHODS: tuple[Method, ...] = get_args(Method)


NESTED_SUPERSTEPS = 10_000
"""Supersteps of an agent inside another graph; budget and limits end its turns long before."""

THREAD_FORM = (
    "an agent with a checkpointer saves its progress under the name of a thread: give "
    'config={"configurable": {"thread_id": "..."}}, the same one to go on'
)


Messages = Annotated[list[AnyMessage], TurnsChannel(_messages_delta_reducer, snapshot_frequency=SNAPSHOT_EVERY)]
"""A conversation. A checkpoint stores what was added, and all of it where a turn begins."""


class AgentInput(TypedDict, total=False):
    """Input of an agent: messages, the last of which says what to do, or a goal."""

    messages: Messages
    goal: str


class AgentOutput(TypedDict, total=False):
    """Output of an agent."""

    messages: Messages
    certificates: list[Certificate]
    """What was certified, in order; empty for methods that certify nothing."""
    ending: str
    """How the turn ended: `goal` (certified), `finished` (an answer that nothing certifies), `gave_up`, ..."""
    ending_reason: str
    """Why it ended so, as the method or its planner says; empty where the ending says all."""
    turn_usage: dict[str, Any]
    """What the turn spent, as plain JSON: calls, tokens, `usd` and `seconds`, and the same of each node in `nodes`."""
    structured_response: Any
    """The answer in the form of `response_format`; None without it, or where no answer was given."""
    effects: list[dict[str, Any]]
    """The calls of this turn that were made and whose effect lasts, as plain JSON (`state.effects.Effect`)."""


class AgentKeys(TypedDict, total=False):
    """Keys that an agent adds to the state of its method."""

    messages: Messages
    goal: str
    ending: str
    ending_reason: str
    turn_usage: dict[str, Any]
    structured_response: Any
    stopped: dict[str, str] | None
    """The limit that the turn has reached, by `ending` and `reason`; None while it goes on."""
    effects: list[dict[str, Any]]
    provenance: Provenance
    executor_state: dict[str, Any]
    """What the graph of an executor ended with; absent without one."""


class CertificateKeys(TypedDict, total=False):
    """Key of agents whose method certifies nothing."""

    certificates: list[Certificate]


class AgentOperators(TypedDict, total=False):
    """Keywords of `agent`, one for each slot that any of the methods has."""

    begin: Operator
    reset: Operator
    recall: Operator
    commit: Operator
    propose: Operator
    realize: Operator
    decompose: Operator
    solve: Operator | EpisodicGraph | str
    gather: Operator
    revise: Operator
    planner: Operator
    plan: Operator
    executor: Operator
    execute: Operator
    decide: Operator
    align: Operator
    check: Operator | None
    approve: Operator
    act: Operator
    memory: Operator | str
    extract: Operator | str
    gate: Operator
    assess: Operator
    supervise: Operator
    validate: Operator
    audit: Operator
    revalidate: Operator
    certify: Operator
    replan: Operator
    conclude: Operator
    answer: Operator
    deliver: Operator


class AgentGraph(EpisodicGraph):
    """A compiled agent. Its context holds model, tools and limits; a caller may set single fields of it."""

    def __init__(
        self,
        *,
        agent_context: Context,
        method: Method,
        own_schema: type[Any] | None = None,
        raise_limits: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.agent_context, self.method, self.own_schema = agent_context, method, own_schema
        self.raise_limits = raise_limits

    @property
    def world(self) -> Tools:
        """The agent's tools as the world in which it acts."""
        return cast(Tools, self.agent_context.benchmark)

    served_fields = SERVED_FIELDS

    def stream(self, input: Any, config: Any = None, **kwargs: Any) -> Iterator[Any]:  # noqa: D102 - as LangGraph's
        arguments = self._complete(input, config, kwargs)
        check_thread_clock(self, config)
        return super().stream(input, self._in_place(config), **arguments)

    async def astream(self, input: Any, config: Any = None, **kwargs: Any) -> AsyncIterator[Any]:  # noqa: D102
        arguments = self._complete(input, config, kwargs)
        await acheck_thread_clock(self, config)
        chunks: Any = super().astream(input, self._in_place(config), **arguments)
        async with aclosing(chunks):
            async for chunk in chunks:
                yield chunk

    def default_context(self) -> Context:
        """Return the agent's own context."""
        return self.agent_context

    def _in_place(self, config: Any) -> Any:
        """Return the configuration of a run; in another graph, with what that graph knows and a limit of its own.

        LangGraph hands on the recursion limit of the graph around it, whose supersteps say nothing about those of the
        agent.
        """
        nested = CHECKPOINTER_KEY in ensure_config(config).get("configurable", {})
        if (around := read_surroundings(config)) is not None:
            given = (config or {}).get("configurable") or {}
            config = {**(config or {}), "configurable": {**given, AROUND_KEY: around}}
        if not nested:
            return config
        return {**(config or {}), "recursion_limit": (self.config or {}).get("recursion_limit", NESTED_SUPERSTEPS)}

    def get_context_jsonschema(self) -> dict[str, Any]:
        """Return the form of the fields that a client of a server may set; an empty model is the agent's own."""
        form = super().get_context_jsonschema()
        other = {"default": "", "description": "another model for this run; unset: the agent's own"}
        return {**form, "properties": {**form["properties"], "model": {**form["properties"]["model"], **other}}}

    def _complete(self, input: Any, config: Any, arguments: dict[str, Any]) -> dict[str, Any]:
        """Return the arguments of a run with the agent's context, and with checkpoints that are saved before effects.

        Raises:
            Fault: ("data") the input is a text, or no thread is named for a checkpointer; ("environment") checkpoints
                would be saved only at the end, so that a crash would lose effects.
        """
        if isinstance(input, str):
            raise Fault("data", INPUT_FORM)
        nested = CHECKPOINTER_KEY in (config or {}).get("configurable", {})
        given = arguments.get("context") or limits_around(ensure_config(config))
        changes: dict[str, Any] = {"context": self.complete_context(given)}
        if not nested and isinstance(self.checkpointer, BaseCheckpointSaver):
            if "thread_id" not in merge_configs(self.config, ensure_config(config)).get("configurable", {}):
                raise Fault("data", THREAD_FORM)
            if arguments.get("durability") == "exit":
                reason = "durability='exit' saves nothing before the run has ended, so that effects might happen twice"
                raise Fault("environment", f"{reason}: leave durability out")
            changes["durability"] = "sync"
        return {**arguments, **changes}

    def complete_context(self, given: Any) -> Context:
        """Return the agent's context with the fields that the caller set; a context of the caller's own is in `own`.

        A context that is JSON, as clients of a server give it, lowers budget and limits, and raises them only with
        `raise_limits`.
        """
        may_raise = self.raise_limits or not isinstance(given, Mapping)
        if given is None:
            return self.agent_context
        if self.own_schema and not isinstance(given, Context):
            own = TypeAdapter(self.own_schema).validate_python(given) if isinstance(given, Mapping) else given
            return self.agent_context.model_copy(update={"own": own})
        if isinstance(given, Mapping) and set(given) <= set(Context.model_fields):
            check_client_context(given)
            given = Context.model_validate(given)
        if not isinstance(given, Context):
            return self.agent_context.model_copy(update={"own": given})
        fields = {name: getattr(given, name) for name in given.model_fields_set}
        if not may_raise:
            own = self.agent_context
            fields |= {"budget": lower_budget(own.budget, fields["budget"])} if "budget" in fields else {}
            limits = own.limits or self.world.limits
            fields |= {"limits": lower_limits(limits, fields["limits"])} if fields.get("limits") else {}
        if "roles" in fields:  # a model object of a role would take precedence over its name
            kept = {role: chat for role, chat in self.agent_context.chats.items() if role not in given.roles}
            fields = {"chats": kept, **fields}
        if "chat" not in fields and (name := fields.pop("model", "")):
            fields |= {"chat": None, **model_fields(name)}  # a model object would take precedence over the name
        return self.agent_context.model_copy(update=fields)


def limits_around(config: RunnableConfig) -> dict[str, Any] | Context | None:
    """Return `budget` and `limits` of the context of the graph around an agent; None if it has neither.

    The context of an agent around this one is for that agent alone.
    """
    runtime = config.get("configurable", {}).get(RUNTIME_KEY)
    context = runtime.context if runtime else None
    if isinstance(context, Context):
        if context.benchmark is not None or not {"budget", "limits"} & context.model_fields_set:
            return None
        return Context(**{name: getattr(context, name) for name in ("budget", "limits") if getattr(context, name)})
    if isinstance(context, Mapping):
        return {name: context[name] for name in ("budget", "limits") if context.get(name)} or None
    kinds = {"budget": Budget, "limits": Limits}
    found = {name: value for name, kind in kinds.items() if isinstance(value := getattr(context, name, None), kind)}
    return Context(**found) if found else None


def lower_budget(own: Budget, given: Budget) -> Budget:
    """Return a budget with the lower of two amounts of each kind."""
    least = {name: min(getattr(own, name), getattr(given, name)) for name in ("calls", "tokens", "usd", "seconds")}
    return own.model_copy(update={**least, "priced": own.priced or given.priced})


def lower_limits(own: Limits, given: Limits) -> Limits:
    """Return limits with those of the second that are lower; in some of them 0 stands for no limit."""
    allowed, least = own.effective(), dict[str, Any]()
    for name in given.model_fields_set:
        usual, wanted = getattr(allowed, name), getattr(given, name)
        unlimited = name in ("repeats", "rounds", "gold")
        if wanted is not None and (wanted or not unlimited):
            least[name] = wanted if unlimited and not usual else min(usual, wanted)
    return own.model_copy(update=least)


def agent(
    method: Method = "sdp",
    *,
    model: BaseChatModel | Runnable[Any, Any] | str,
    roles: Mapping[str, BaseChatModel | Runnable[Any, Any] | str] | None = None,
    tools: Sequence[ToolLike] = (),
    effects: Mapping[str, Effect] | None = None,
    interrupt_on: InterruptOn | None = None,
    commitments: CommitmentLevel | None = "tools",
    response_format: ResponseFormat | None = None,
    instructions: str = "",
    checks: Checks | None = None,
    rules: Rules | None = None,
    facts: FactForms | None = None,
    after: Corrections | None = None,
    state_schema: type[Any] | None = None,
    context_schema: type[Any] | None = None,
    budget: Budget | None = None,
    limits: Limits | None = None,
    on_limit: Literal["answer", "raise"] = "answer",
    raise_limits: bool = False,
    deadline: float = DEADLINE,
    checkpointer: Checkpointer = None,
    store: BaseStore | None = None,
    lessons: Sequence[str] | None = None,
    cache: BaseCache[Any] | None = None,
    name: str | None = None,
    **operators: Unpack[AgentOperators],
) -> AgentGraph:
    """Build an agent that works with the user's own tools.

    Args:
        method: how it works: sdp (certified conditions), tdp, step, react, plan_and_act or pbai.
        model: a LangChain chat model, a Runnable that answers as one (`with_fallbacks`, `with_retry`, `bind`), or its
            name: one of certigraph's, or as in LangChain's `init_chat_model`.
        roles: other models for some roles, as `{"validator": model}`: planner, executor, validator, extractor, memory.
        tools: LangChain tools (those of an MCP server included) and functions with type hints, plain or async. A dict
            such as `{"type": "web_search"}` names a tool that the model's provider executes. With an executor they are
            found in its graph; give those of an executor in which they cannot be found.
        effects: tools whose calls may be repeated, as `{"lookup": "repeatable"}`, and rules such as
            `{"refund": Once(key=..., scope="thread")}`. The effect of every other call happens once in a turn, whatever
            is resumed, replayed or forked; this needs a checkpointer.
        interrupt_on: tools about whose calls a person decides (`approve`, `edit`, `reject`, `respond`), in LangChain's
            form: `{"refund": True}`, or a dict with `allowed_decisions` and `description` in place of True.
        commitments: what the agent commits to before it reads a tool's answer, by one more call of the model: the
            `tools` that the task may use, or also the origin of their `arguments`; None for nothing. Calls beyond that
            are refused, or need approval where `interrupt_on` names the tool.
        response_format: form of the answer, as in LangChain's `create_agent`: a pydantic class, TypedDict, dataclass,
            JSON schema, a union of classes, or one of LangChain's strategies. None for text.
        instructions: what the agent must know besides its tools.
        checks: functions that decide conditions of a plan before a model judges them, by the form of the conditions:
            `{"Order {order} is refunded.": is_refunded}`. Each gets the values by name, and the calls that were made
            with their answers if it has a parameter `calls`. It returns whether the condition holds, or that and a text
            that shows it.
        rules: by tool, a function of a call and the facts, or several, that decide before the call is made whether it
            may be: `{"refund_order": may_be_refunded}`. Each returns `Allow()`, `Forbidden(sentence, fact, next)`,
            `Unknown(read=tool)`, or None to say nothing; the validator then judges. Calls whose effect lasts are
            checked in any case, unless `check=None` leaves the check out.
        facts: by tool, under which name its answer stands in the facts: `{"get_order": "orders[order_id]"}`.
        after: by tool, a function of the facts, the call and its answer that corrects the facts.
        state_schema: TypedDict with further keys of the graph's state, its input and its output.
        context_schema: class of the context that callers give to a run, if it is not certigraph's. Tools read it by
            `langgraph.runtime.get_runtime`, operators as `runtime.context.own`.
        budget: what a turn may spend.
        limits: limits of the method.
        on_limit: what happens where one of both is used up. `answer` ends the turn with a message that says so and the
            ending `limit:...`; the next turn has all of the budget again. `raise` raises LimitReached, after which
            `invoke(None, config, context=Context(budget=...))` goes on with a larger one.
        raise_limits: whether a context that is JSON, as clients of a server give it, may also raise budget and limits.
            Without it they can only be lowered. A `Context` object may always raise them.
        deadline: seconds after which a call of a tool without an answer, or a check without a result, is given up.
        checkpointer: a LangGraph checkpointer, which interrupts and resuming need. As a node of another graph the agent
            uses the checkpointer of that graph. Its durability may be "sync" or "async": before a call whose effect
            happens once, the agent waits until the state is saved. "exit" is refused.
        store: a LangGraph store.
        lessons: labels of the namespace in which `step` keeps what a turn taught, for later turns, as in LangMem:
            `("{user_id}",)` is a memory of each user, by `config["configurable"]["user_id"]`. The store's namespace is
            `("lessons", NAME, *labels, ...)` with the agent's name, so agents of one name share it. None: none is kept.
        cache: a LangGraph cache of nodes.
        name: name of the graph; None for that of the method.
        **operators: operators of the method by slot, as in `certigraph.graphs.sdp.build`. `sdp` takes one more,
            `executor`: an agent that works through the conditions of the plan with its own model and tools, such as one
            of `create_agent` or deepagents, any graph with `messages`, or a Runnable of these. The model then plans
            and judges. There are no commitments, since the executor chooses its calls itself.

    Returns:
        A compiled LangGraph graph. Its input is `{"messages": [...]}` or `{"goal": ...}`; its output has `messages`,
        `certificates`, `effects`, `ending`, `ending_reason`, `turn_usage` and `structured_response`.

    Raises:
        ValueError: there is no such method, a tool or a check cannot be used, the method would use no check, or the
            model is a script of benchmarks.
        TypeError: a keyword names no slot of the method, or a tool is none.
        Fault: ("model") the key of a named model, its package or its weights are missing.
    """
    _check_choices(method, checks, commitments, interrupt_on, operators, lessons)
    if method == "sdp" and (executor := operators.pop("executor", None)) is not None:
        given = {"interrupt_on": interrupt_on, "response_format": response_format}
        worker = _check_executor(executor, {**given, "rules": rules, "facts": facts, "after": after}, commitments)
        world = load_executor_tools(worker, tools, effects, instructions, checks, deadline=deadline, limits=limits)
        commitments = None
        operators = {"check": None, "realize": hand_over, "act": Executor(worker), **operators}
    else:
        world = Tools(
            tools,
            effects=effects,
            response_format=response_format,
            instructions=instructions,
            checks=checks,
            deadline=deadline,
            limits=limits,
            asks_user=True,
        )
    world.state_keys = frozenset(get_type_hints(state_schema)) if state_schema else frozenset()
    world.agent = name or method
    if interrupt_on is not None and not isinstance(interrupt_on, Mapping):
        example = '{"refund_order": True}'
        raise TypeError(f"interrupt_on={interrupt_on!r:.100}: give a dict by names of tools, such as {example}")
    if unknown := sorted(set(interrupt_on or {}) - set(world.loaded)):
        known = ", ".join(world.loaded)
        raise ValueError(f"interrupt_on names {unknown[0]!r}, which is not a tool; the tools are {known}")
    if interrupt_on:
        operators = {"approve": approvals(interrupt_on), **operators}
    if commitments:
        approvable = [tool for tool, rule in (interrupt_on or {}).items() if rule]
        chosen_by: dict[str, Any] = {"approvable": approvable} if approvable else {}
        draft = _find_draft(method, operators)
        operators = {"commit": commit(level=commitments, **chosen_by, **draft), **operators}
    if lessons is not None:
        world.lessons = (name or method, *check_template(lessons))
    elif method == "step":
        operators = {"recall": no_lessons, "memory": learn_nothing, **operators}
    if method == "react" and SEARCH_SLOTS.isdisjoint(operators) and "audit" not in operators:
        operators = {"audit": judge_answer, **operators}
    chosen_operators = add_check(operators, world, rules, facts, after)
    chosen_operators = {name: operator for name, operator in chosen_operators.items() if operator is not None}
    approved = next((tool for tool, rule in (interrupt_on or {}).items() if rule), "")
    graph = _assemble_agent(
        method, state_schema, chosen_operators, approved, commitments == "arguments", world.response_format
    )
    compiled = graph.compile(checkpointer=checkpointer, store=store, cache=cache, name=name or method)
    chosen: dict[str, Any] = {"budget": budget} if budget else {}
    fields = {**model_fields(model), **role_fields(roles or {})}
    for named in (fields.get("model", ""), *fields["roles"].values()):
        if named and not is_local(named):  # the weights of a local model are loaded when it is used
            check_model_available(named)
    context = Context(benchmark=world, limits=limits, on_limit=on_limit, **fields, **chosen)
    return AgentGraph(
        agent_context=context,
        method=method,
        own_schema=context_schema,
        raise_limits=raise_limits,
        **vars(compiled),
    )


def _find_draft(method: Method, operators: Mapping[str, Any]) -> dict[str, Any]:
    """Return what is asked for together with the commitment: only what a shipped operator would ask for next."""
    if method == "sdp" and "propose" not in operators:
        return {"draft": "plan"}
    shares = method == "react" and {"decide", *SEARCH_SLOTS}.isdisjoint(operators)
    return {"draft": "action"} if shares else {}


def add_check(
    operators: Mapping[str, Any],
    world: Tools,
    rules: Rules | None,
    facts: FactForms | None,
    after: Corrections | None,
) -> dict[str, Any]:
    """Return the operators with the check of calls whose effect lasts, unless no tool has one or it is left out.

    Raises:
        ValueError: rules are given together with a check of the caller's own, or are about no tool.
        TypeError: a declaration has another form.
    """
    declared: dict[str, Any] = {"rules": rules, "facts": facts, "after": after}
    given = {name: value for name, value in declared.items() if value}
    if "check" in operators:
        if given:
            keyword, fix = next(iter(given)), "give them to its operator, check=check_calls(...), or leave check= out"
            raise ValueError(f"check= takes the place of {keyword}=: {fix}")
        return {**operators}
    load_rules(rules or {}, facts or {}, after or {}).check_tools(world)
    if all(map(world.is_look_up, world.loaded)):
        return {**operators}
    operator = check_calls(**given)
    if not isinstance(solver := operators.get("solve", ""), str):  # the caller's graph has operators of its own
        if given:
            keyword, fix = next(iter(given)), "build it with check=check_calls(...)"
            raise ValueError(f"{keyword}= belongs into the graph that solves the sub-tasks: {fix}")
        return {**operators}
    if solver:
        return {**operators, "solve": _method_module("tdp").solve(graph=solver, check=operator)}
    return {**operators, "check": operator}


def _check_choices(
    method: str,
    checks: Checks | None,
    commitments: CommitmentLevel | None,
    interrupt_on: InterruptOn | None,
    operators: Mapping[str, Any],
    lessons: Sequence[str] | None,
) -> None:
    """Check what `agent` was given before anything is built."""
    if method not in METHODS:
        raise ValueError(f"no method {method!r} for an agent; the methods are {', '.join(METHODS)}")
    if checks and method != "sdp" and not (method == "tdp" and "solve" in operators):
        fix = "use method='sdp', or method='tdp' with solve='sdp'"
        raise ValueError(f"checks decide conditions of a plan, and {method} certifies none: {fix}")
    if commitments not in (None, *get_args(CommitmentLevel)):
        levels = ", ".join(map(repr, get_args(CommitmentLevel)))
        raise ValueError(f"commitments={commitments!r}: give {levels} or None")
    if commitments and "commit" in operators:
        raise ValueError("commit= takes the place of the commitments of an agent: give commitments=None beside it")
    if lessons is not None and method != "step":
        raise ValueError(f"lessons={lessons!r:.100}: {method} learns none; use method='step'")
    if interrupt_on and "approve" in operators:
        raise ValueError("approve= takes the place of interrupt_on=: give one of them")


def _check_executor(
    executor: object, given: Mapping[str, Any], commitments: CommitmentLevel | None
) -> Runnable[Any, Any]:
    """Return an executor that can work; check that nothing is given that only its own graph can do."""
    if not isinstance(executor, Runnable):
        fix = "give an agent that takes and returns messages, as create_agent(...) is"
        raise TypeError(f"executor={executor!r:.100} is not a graph and no other Runnable: {fix}")
    places = {
        "interrupt_on": "HumanInTheLoopMiddleware in the executor asks a person",
        "response_format": "the answer is the text with which the executor ends",
        **dict.fromkeys(
            ("rules", "facts", "after"), "certigraph.middleware.Certified in the executor checks its calls"
        ),
    }
    if wrong := next((name for name in places if given[name]), ""):
        raise ValueError(f"{wrong}= is not for the calls of an executor: {places[wrong]}")
    if commitments == "arguments":
        raise ValueError("commitments='arguments' is not for the calls of an executor, which chooses them itself")
    return executor


def _assemble_agent(
    method: Method,
    further: type[Any] | None,
    operators: Mapping[str, Any],
    approved: str,
    keeps_origins: bool,
    form: ResponseForm | None,
) -> Assembly:
    module = _method_module(method)
    keys = AgentKeys if "certificates" in module.State.__annotations__ else extend_state(AgentKeys, CertificateKeys)
    response = Annotated[Any, ReadChannel(form.read)] if form else Any
    answer = create_state("Answer", {"structured_response": response})
    outer = (extend_state(answer, keys), AgentInput, extend_state(answer, AgentOutput))
    schemas = Schemas(*(extend_state(schema, further) for schema in outer))
    graph: Assembly = module.builder(schemas, **operators)
    [first] = [target for source, target in graph.edges if source == START]
    graph.insert("receive", run_in_place(_create_receive(approved, keeps_origins)), between=(START, first))
    certifies = not {"certify", "audit"}.isdisjoint(graph.nodes)
    respond = _create_respond(module, certifies=certifies)
    graph.add_node("respond", run_in_place(respond), input_schema=graph.state_schema)
    graph.redirect(None, END, "respond")
    inner = [node for node in graph.nodes if node not in ("receive", "respond")]
    for node in inner:
        graph.nodes[node].runnable = _note_work(graph.nodes[node].runnable)
    graph.add_exits("limit", "respond", lambda state: bool(state.get("stopped")), inner)
    graph.add_edge("respond", END)
    graph.gives_result = False
    return graph


def _method_module(method: str) -> Any:
    return import_module(f"certigraph.graphs.{method}")


def _explain_ending(module: Any, ending: str, state: Any) -> str:
    """Return why a turn ended so: the words of its method, and why its last call was not made or failed, if so."""
    seen = state.get("observation")
    if isinstance(seen, Observation) and seen.text == STOPPED_TEXT:
        return STOPPED_TEXT
    reason = "; ".join(
        filter(
            None, [*describe_bugs(state["history"]), str(module.message(state)) if hasattr(module, "message") else ""]
        )
    )
    last = next((step.action for step in reversed(state["history"]) if calls_of(step.action)), None)
    refused = [f"not made: {one}" for one in reasons_refused(last) if one not in reason] if last else []
    if ending == GOAL:
        return reason
    if ending == FINISHED:
        return "; ".join(filter(None, [reason, *refused]))
    return "; ".join(filter(None, [reason, *refused, describe_failure(state["history"])]))


# The nodes around the method, and what surrounds each of its nodes.

NO_RESULTS: dict[str, Any] = {
    **{"ending": "", "ending_reason": "", "turn_usage": {}, "structured_response": None, "stopped": None},
    "effects": [],
}
"""Values of an agent's results when a turn begins."""


def _note_work(node: Any) -> RunnableCallable:
    """Return a node of an agent that also shows in the conversation what it chose or took.

    It notes in the state why the turn ends, a limit or a call that was denied twice, and what a sub-task had done by
    then.

    A limit is raised instead where the context says so.
    """

    def note(reached: LimitReached | Refused, runtime: Runtime[Context]) -> dict[str, Any]:
        if isinstance(reached, LimitReached) and runtime.context.on_limit == "raise":
            raise reached
        reason = reached.happened if isinstance(reached, LimitReached) else str(reached)
        usage = [*reached.inner_usage, *([reached.usage] if reached.usage else [])]
        spent = sum((one.spent() for one in usage), Spent())
        kept = {"usage": usage, "messages": [*reached.messages], "outcomes": [*reached.outcomes]}
        return {
            "stopped": {"ending": reached.ending, "reason": reason},
            "spent": spent,
            **{key: values for key, values in kept.items() if values},
        }

    def noting(state: Any, config: RunnableConfig, runtime: Runtime[Context]) -> Any:
        try:
            return show_work(node.name, state, node.invoke(state, config), runtime)
        except (LimitReached, Refused) as reached:
            return note(reached, runtime)

    async def anoting(state: Any, config: RunnableConfig, runtime: Runtime[Context]) -> Any:
        try:
            return show_work(node.name, state, await node.ainvoke(state, config), runtime)
        except (LimitReached, Refused) as reached:
            return note(reached, runtime)

    return RunnableCallable(noting, anoting, name=node.name, trace=False)


def show_work(node: str, state: Any, returned: Any, runtime: Runtime[Context]) -> Any:
    """Return what a node returned, with the messages that an action makes in the conversation.

    Args:
        node: name of the node.
        state: the state before it ran.
        returned: what it returned: an update, or an update with commands.
        runtime: the node's runtime.
    """
    update, *commands = returned if isinstance(returned, list) else [returned]
    world = runtime.context.benchmark
    if not (isinstance(update, Mapping) and isinstance(world, Tools)):
        return returned
    messages = list[Any]()
    approval = update.get("approval")  # of STEP's Evaluator, who may send a choice back before it counts
    if approval is not None and approval.approved:
        messages = show_choice(state, state["action"], world.agent, str(state.get("thought") or ""))
    elif isinstance(chosen := update.get("action"), Action) and node not in ("executor", "act"):
        messages = show_choice(state, chosen, world.agent, str(update.get("thought") or ""))
    elif update.get("history") and not any("messages" in (one.update or ()) for one in commands) and node == "act":
        messages = list(answer_by_observation(state, state["action"], update["observation"]))
    shown = {**update, "messages": messages}
    return ([shown, *commands] if commands else shown) if messages else returned


def _create_receive(approved: str, keeps_origins: bool) -> Any:
    """Create the first node.

    Args:
        approved: a tool whose calls wait for a person, for whom the run must be saved; empty if there is none.
        keeps_origins: whether the origin of what others wrote is kept.
    """

    async def receive(state: Any, runtime: Runtime[Context], config: RunnableConfig) -> dict[str, Any]:
        if approved:
            require_checkpointer(f"approval of {approved}", config)
        began = datetime.now().astimezone().strftime("%A, %Y-%m-%d %H:%M %z")
        constants, world = {**find_owner(runtime), BEGAN: began}, cast(Tools, runtime.context.benchmark)
        ended = await find_ended(state, world)
        request = receive_request(state, config, constants, keeps_origins=keeps_origins, lasts=world.lasts, ended=ended)
        return {**request, **NO_RESULTS}

    return receive


def _create_respond(module: Any, *, certifies: bool) -> Any:
    keeps_certificates = "certificates" in module.State.__annotations__

    def respond(state: Any, runtime: Runtime[Context]) -> dict[str, Any]:
        """Make a message of the answer, and name the ending."""
        history = state["history"]
        answers = (number for number, step in enumerate(history) if step.action.kind in ANSWER_ACTIONS)
        place = max(answers, default=None)
        action = None if place is None else history[place].action
        ending = name_ending(module.ending(state), history, judged=bool(state.get("certificates")))
        reason = _explain_ending(module, ending, state)
        if stopped := state.get("stopped"):
            ending, reason = stopped["ending"], stopped["reason"]
        text = _word_answer(action, ending, reason, certifies=certifies)
        write_answer(text, ending, reason, runtime)
        if isinstance(world := runtime.context.benchmark, Tools):
            attempted = [attempt.target for attempt in state.get("attempts", ())]
            certified = [target for certificate in state.get("certificates", ()) for target in certificate.targets]
            warn_of_unused(world.checks, [*state.get("plan", ()), *attempted, *certified])
        # what a tool of the model's provider found has no record
        known = isinstance(world, Tools) and not any(tool.provided for tool in world.offered())
        metadata = {
            **{"ending": ending, "ending_reason": reason},
            **_list_conditions(state, ending, certifies=certifies),
            **(note_sources(state) if known else {}),
        }
        effects = effects_of(state)
        if (span := find_span()) is not None:
            denied = [one for one in state.get("checks", ()) if one.is_denied and one.action]
            records = {"certificates": state.get("certificates", ()), "denied": denied, "effects": effects}
            note_on_span(span, ending=ending, reason=reason, **records)
        shown = str(action.args.get(MESSAGE_KEY, "")) if action else ""
        closed, id = _end_messages(state, shown, len(history) if place is None else place, reason)
        answer = AIMessage(text, id=id, name=world.agent if isinstance(world, Tools) else None)
        return {
            "messages": [*closed, answer.model_copy(update={"response_metadata": metadata})],
            "ending": ending,
            "ending_reason": reason,
            "turn_usage": _sum_usage(state["usage"]),
            "effects": [effect.as_output() for effect in effects],
            "structured_response": action.args.get(RESPONSE_ARGUMENT) if action else None,
            **({} if keeps_certificates else {"certificates": []}),
        }

    return respond


def _word_answer(action: Action | None, ending: str, reason: str, *, certifies: bool) -> str:
    """Return the text of the last message: the answer, and in one sentence whether something is missing.

    Args:
        action: the action that handed in the answer; None without an answer.
        ending: how the turn ended.
        reason: why it ended so.
        certifies: whether the method certifies conditions.
    """
    text, cut = (
        str(action.args.get(ANSWER_ARGUMENT, "")) if action else "",
        f"{ending}{f': {reason}' if reason else ''}",
    )
    if not (action and text):
        return f"I could not complete this ({cut})."
    # a form of the user's holds no sentence
    if ending in (GOAL, FINISHED, QUESTION) or RESPONSE_ARGUMENT in action.args:
        return text
    missing = "The goal was not certified" if certifies and not ending.startswith("limit:") else INCOMPLETE
    return f"{text}\n\n({missing}: {clip(one_line(cut), MAX_REASON)}.)"


INCOMPLETE = "The work was not completed"

MAX_REASON = 300
"""Maximum characters of the reason in the sentence after an answer; `ending_reason` has all of it."""


def _list_conditions(state: Any, ending: str, *, certifies: bool) -> dict[str, list[str]]:
    """Return the texts of certified and of open conditions, for the metadata of an answer."""
    if not certifies:
        return {CERTIFIED_KEY: [], OPEN_KEY: []}
    certificates = [one for one in state.get("certificates", ()) if not one.forced]
    done = [target for one in certificates for target in one.targets]
    left = list(state.get("plan", ())[state.get("head", 0) :])
    texts = [[name_target(one) for one in part] for part in (done, left)]
    if not state.get("plan") and ending != GOAL:
        texts[1] = [THE_GOAL]
    return dict(zip((CERTIFIED_KEY, OPEN_KEY), texts, strict=True))


def _end_messages(state: Any, shown: str, place: int, reason: str) -> tuple[list[ToolMessage], str | None]:
    """Return answers to calls that were chosen and not made, and the id of the last message.

    Args:
        state: state of the agent.
        shown: id of the message as which the answer was streamed; empty if it was not.
        place: number of steps before the action that handed in the answer.
        reason: why the turn ends.
    """
    messages, episode = state["messages"], state.get("episode", "")
    text = f"{CUT_OFF} ({reason})" if reason else CUT_OFF
    closed = close_calls(messages, next_message_id(state), text)
    id = shown or id_of_message(episode, place)
    return closed, None if any(one.id == id for one in messages) else id


def _sum_usage(usage: Sequence[Usage]) -> dict[str, Any]:
    """Return what a turn spent in all, and by node, as plain JSON."""
    nodes: dict[str, list[Usage]] = {}
    for one in usage:
        nodes.setdefault(one.node, []).append(one)
    total, *parts = (total_usage(part).model_dump(exclude={"node"}) for part in (usage, *nodes.values()))
    return {**total, "nodes": dict(zip(nodes, parts, strict=True))}


__all__ = ["METHODS", "AgentGraph", "AgentInput", "AgentOutput", "Method", "agent"]

"""`agent`: any method's graph around the user's own model and tools, for a LangGraph application.

The graph takes messages or a goal, and returns messages. Two nodes are added to those of the method: `receive` makes a
task of the input, and `respond` makes a message of the answer. With `interrupt_on` there is a third one, `approve`.
"""

from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from importlib import import_module
from typing import Annotated, Any, Literal, cast, get_args

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage
from langchain_core.runnables import Runnable, RunnableConfig
from langchain_core.runnables.config import ensure_config, merge_configs
from langgraph.cache.base import BaseCache
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.graph import END, START
from langgraph.graph.message import add_messages
from langgraph.runtime import Runtime
from langgraph.store.base import BaseStore
from langgraph.types import Checkpointer
from pydantic import BaseModel, TypeAdapter
from typing_extensions import TypedDict, Unpack

from certigraph.adapters.extras import import_extra
from certigraph.adapters.models.chat_models import (
    check_model_available,
    is_known_model,
    is_local,
    is_scripted,
)
from certigraph.adapters.models.composed_chat import as_chat_model
from certigraph.adapters.protocols import Budget, Context, Limits, Operator
from certigraph.adapters.tools.checks import Checks, warn_of_unused
from certigraph.adapters.tools.definitions import DEADLINE
from certigraph.adapters.tools.positions import CHECKPOINTER_KEY, require_checkpointer
from certigraph.adapters.tools.world import CONDITION, RESPONSE_ARGUMENT, Effect, ToolLike, Tools
from certigraph.graphs.assembly import Assembly, EpisodicGraph, Schemas, extend_state, run_in_place
from certigraph.nodes.approval import InterruptOn, approvals
from certigraph.nodes.commitments import commit
from certigraph.nodes.events import write_answer
from certigraph.nodes.lessons import learn_nothing, no_lessons
from certigraph.nodes.tools import STOPPED_TEXT
from certigraph.state.commitments import CommitmentLevel
from certigraph.state.endings import FINISHED, GOAL, WORLD_ENDED, Fault
from certigraph.state.records import Certificate, Observation, Task
from certigraph.state.run import ANSWER_ACTIONS, FINISH
from certigraph.state.tools import MESSAGE_KEY, REQUEST_ID, TOOLS_NAME, calls_of, describe_failure, reasons_refused

Method = Literal["sdp", "tdp", "step", "react", "plan_and_act", "pbai"]
"""Methods that can drive an agent with tools."""

METHODS: tuple[Method, ...] = get_args(Method)

SERVED_FIELDS = ("model", "window", "budget", "limits")
"""Fields of the context that a client of a server may set."""

SHARED_LESSONS = "agent"
"""Name under which STEP keeps its lessons in the store, shared by all threads."""

INPUT_FORM = 'the input needs {"messages": [("user", "...")]} or {"goal": "..."}'

THREAD_FORM = (
    "an agent with a checkpointer saves its progress under the name of a thread: give "
    'config={"configurable": {"thread_id": "..."}}, the same one to go on'
)


class AgentInput(TypedDict, total=False):
    """Input of an agent: messages, the last of which says what to do, or a goal."""

    messages: Annotated[list[AnyMessage], add_messages]
    goal: str


class AgentOutput(TypedDict, total=False):
    """Output of an agent."""

    messages: Annotated[list[AnyMessage], add_messages]
    certificates: list[Certificate]
    """What was certified, in order; empty for methods that certify nothing."""
    ending: str
    """How the turn ended: `goal` (certified), `finished` (an answer that nothing certifies), `gave_up`, ..."""
    ending_reason: str
    """Why it ended so, as the method or its planner says; empty where the ending says all."""
    structured_response: Any
    """The answer in the form of `response_format`; None without it, or where no answer was given."""


class AgentKeys(TypedDict, total=False):
    """Keys that an agent adds to the state of its method."""

    messages: Annotated[list[AnyMessage], add_messages]
    goal: str
    ending: str
    ending_reason: str
    structured_response: Any


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
        self, *, agent_context: Context, method: Method, own_schema: type[Any] | None = None, **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        self.agent_context, self.method, self.own_schema = agent_context, method, own_schema

    @property
    def world(self) -> Tools:
        """The agent's tools as the world in which it acts."""
        return cast(Tools, self.agent_context.benchmark)

    def stream(self, input: Any, config: Any = None, **kwargs: Any) -> Iterator[Any]:  # noqa: D102 - as LangGraph's
        return super().stream(input, config, **self._complete(input, config, kwargs))

    def astream(self, input: Any, config: Any = None, **kwargs: Any) -> AsyncIterator[Any]:  # noqa: D102
        return super().astream(input, config, **self._complete(input, config, kwargs))

    def default_context(self) -> Context:
        """Return the agent's own context."""
        return self.agent_context

    def get_context_jsonschema(self) -> dict[str, Any]:
        """Return the form of the fields that a client of a server may set; an empty model is the agent's own."""
        form = Context.model_json_schema()
        shown = {name: part for name, part in form["properties"].items() if name in SERVED_FIELDS}
        model = {**shown["model"], "default": "", "description": "another model for this run; unset: the agent's own"}
        return {**form, "properties": {**shown, "model": model}}

    def _complete(self, given: Any, config: Any, arguments: dict[str, Any]) -> dict[str, Any]:
        """Return the arguments of a run with the agent's context, and with checkpoints that are saved before effects.

        Raises:
            Fault: ("data") the input is a text, or no thread is named for a checkpointer; ("environment") checkpoints
                would be saved only at the end, so that a crash would lose effects.
        """
        if isinstance(given, str):
            raise Fault("data", INPUT_FORM)
        nested = CHECKPOINTER_KEY in (config or {}).get("configurable", {})
        changes: dict[str, Any] = {"context": self.complete_context(arguments.get("context"))}
        if not nested and isinstance(self.checkpointer, BaseCheckpointSaver):
            if "thread_id" not in merge_configs(self.config, ensure_config(config)).get("configurable", {}):
                raise Fault("data", THREAD_FORM)
            if arguments.get("durability") == "exit":
                reason = "durability='exit' saves nothing before the run has ended, so that effects might happen twice"
                raise Fault("environment", f"{reason}: leave durability out")
            changes["durability"] = "sync"
        return {**arguments, **changes}

    def complete_context(self, given: Any) -> Context:
        """Return the agent's context with the fields that the caller set; a context of the caller's own is in `own`."""
        if given is None:
            return self.agent_context
        if self.own_schema and not isinstance(given, Context):
            own = TypeAdapter(self.own_schema).validate_python(given) if isinstance(given, Mapping) else given
            return self.agent_context.model_copy(update={"own": own})
        if isinstance(given, Mapping) and set(given) <= set(Context.model_fields):
            given = Context.model_validate(given)
        if not isinstance(given, Context):
            return self.agent_context.model_copy(update={"own": given})
        fields = {name: getattr(given, name) for name in given.model_fields_set}
        if "roles" in fields:  # a model object of a role would take precedence over its name
            kept = {role: chat for role, chat in self.agent_context.chats.items() if role not in given.roles}
            fields = {"chats": kept, **fields}
        if "chat" not in fields and (name := fields.pop("model", "")):
            fields |= {"chat": None, **_model_fields(name)}  # a model object would take precedence over the name
        return self.agent_context.model_copy(update=fields)


def agent(
    method: Method = "sdp",
    *,
    model: BaseChatModel | Runnable[Any, Any] | str,
    roles: Mapping[str, BaseChatModel | Runnable[Any, Any] | str] | None = None,
    tools: Sequence[ToolLike],
    effects: Mapping[str, Effect] | None = None,
    interrupt_on: InterruptOn | None = None,
    commitments: CommitmentLevel | None = "tools",
    response_format: type[BaseModel] | None = None,
    instructions: str = "",
    checks: Checks | None = None,
    state_schema: type[Any] | None = None,
    context_schema: type[Any] | None = None,
    budget: Budget | None = None,
    limits: Limits | None = None,
    deadline: float = DEADLINE,
    checkpointer: Checkpointer = None,
    store: BaseStore | None = None,
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
        tools: LangChain tools (those of an MCP server included) and functions with type hints, plain or async.
        effects: tools whose calls may be repeated, as `{"lookup": "repeatable"}`. The effect of every other call
            happens once, whatever is resumed, replayed or forked; this needs a checkpointer.
        interrupt_on: tools about whose calls a person decides (`approve`, `edit`, `reject`, `respond`), in LangChain's
            form: `{"refund": True}`, or a dict with `allowed_decisions` and `description` in place of True.
        commitments: what the agent commits to before it reads a tool's answer, by one more call of the model: the
            `tools` that the task may use, or also the origin of their `arguments`; None for nothing. Calls beyond that
            are refused, or need approval where `interrupt_on` names the tool.
        response_format: pydantic model of the answer.
        instructions: what the agent must know besides its tools.
        checks: functions that decide conditions of a plan before a model judges them, by the form of the conditions:
            `{"Order {order} is refunded.": is_refunded}`. Each gets the values by name, and what the tools answered if
            it has a parameter `evidence`. It returns whether the condition holds, or that and a text that shows it.
        state_schema: TypedDict with further keys of the graph's state, its input and its output.
        context_schema: class of the context that callers give to a run, if it is not certigraph's. Tools read it by
            `langgraph.runtime.get_runtime`, operators as `runtime.context.own`.
        budget: what a run may spend.
        limits: limits of the method.
        deadline: seconds after which a call of a tool without an answer, or a check without a result, is given up.
        checkpointer: a LangGraph checkpointer, which interrupts and resuming need. As a node of another graph the agent
            uses the checkpointer of that graph. Its durability may be "sync" or "async": before a call whose effect
            happens once, the agent waits until the state is saved. "exit" is refused.
        store: a LangGraph store.
        cache: a LangGraph cache of nodes.
        name: name of the graph; None for that of the method.
        **operators: operators of the method by slot, as in `certigraph.graphs.sdp.build`.

    Returns:
        A compiled LangGraph graph. Its input is `{"messages": [...]}` or `{"goal": ...}`; its output has `messages`,
        `certificates`, `ending`, `ending_reason` and `structured_response`.

    Raises:
        ValueError: there is no such method, a tool or a check cannot be used, the method would use no check, or the
            model is a script of benchmarks.
        TypeError: a keyword names no slot of the method, or a tool is none.
        Fault: ("model") the key of a named model, its package or its weights are missing.
    """
    _check_choices(method, checks, commitments, operators)
    world = Tools(
        tools,
        effects=effects,
        response_format=response_format,
        instructions=instructions,
        checks=checks,
        deadline=deadline,
        limits=limits,
    )
    if interrupt_on is not None and not isinstance(interrupt_on, Mapping):
        example = '{"refund_order": True}'
        raise TypeError(f"interrupt_on={interrupt_on!r:.100}: give a dict by names of tools, such as {example}")
    if unknown := sorted(set(interrupt_on or {}) - set(world.loaded)):
        known = ", ".join(world.loaded)
        raise ValueError(f"interrupt_on names {unknown[0]!r}, which is not a tool; the tools are {known}")
    if interrupt_on:
        operators = {"approve": approvals(interrupt_on), **operators}
    if commitments:
        operators = {"commit": commit(level=commitments), **operators}
    if method == "step" and store is None:
        operators = {"recall": no_lessons, "memory": learn_nothing, **operators}
    approved = next((tool for tool, rule in (interrupt_on or {}).items() if rule), "")
    graph = _assemble_agent(method, state_schema, operators, approved)
    compiled = graph.compile(checkpointer=checkpointer, store=store, cache=cache, name=name or method)
    chosen: dict[str, Any] = {"memory": SHARED_LESSONS} if store else {}
    chosen |= {"budget": budget} if budget else {}
    fields = {**_model_fields(model), **_role_fields(roles or {})}
    for named in (fields.get("model", ""), *fields["roles"].values()):
        if named and not is_local(named):  # the weights of a local model are loaded when it is used
            check_model_available(named)
    context = Context(benchmark=world, limits=limits, **fields, **chosen)
    return AgentGraph(agent_context=context, method=method, own_schema=context_schema, **vars(compiled))


def _check_choices(
    method: str, checks: Checks | None, commitments: CommitmentLevel | None, operators: Mapping[str, Any]
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


def _assemble_agent(method: Method, further: type[Any] | None, operators: Mapping[str, Any], approved: str) -> Assembly:
    module = _method_module(method)
    keys = AgentKeys if "certificates" in module.State.__annotations__ else extend_state(AgentKeys, CertificateKeys)
    schemas = Schemas(*(extend_state(schema, further) for schema in (keys, AgentInput, AgentOutput)))
    graph: Assembly = module.builder(schemas, **operators)
    [first] = [target for source, target in graph.edges if source == START]
    graph.insert("receive", run_in_place(_create_receive(approved)), between=(START, first))
    graph.add_node("respond", run_in_place(_create_respond(module)), input_schema=graph.state_schema)
    graph.redirect(None, END, "respond")
    graph.add_edge("respond", END)
    return graph


def _method_module(method: str) -> Any:
    return import_module(f"certigraph.graphs.{method}")


def _explain_ending(module: Any, ending: str, state: Any) -> str:
    """Return why a turn ended so: the words of its method, and why its last call was not made or failed, if so."""
    seen = state.get("observation")
    if isinstance(seen, Observation) and seen.text == STOPPED_TEXT:
        return STOPPED_TEXT
    reason = str(module.message(state)) if hasattr(module, "message") else ""
    if ending in (GOAL, FINISHED):
        return reason
    last = next((step.action for step in reversed(state["history"]) if calls_of(step.action)), None)
    refused = [f"not made: {one}" for one in reasons_refused(last) if one not in reason] if last else []
    return "; ".join(filter(None, [reason, *refused, describe_failure(state["history"])]))


def _role_fields(roles: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of the context for the models of roles: those by name, and the objects."""
    given = {role: _model_fields(model, f"roles[{role!r}]") for role, model in roles.items()}
    return {
        "roles": {role: fields["model"] for role, fields in given.items() if "model" in fields},
        "chats": {role: fields["chat"] for role, fields in given.items() if "chat" in fields},
    }


def _model_fields(model: Any, keyword: str = "model") -> dict[str, Any]:
    if (chat := as_chat_model(model)) is not None:
        return {"chat": chat}
    if not isinstance(model, str):
        script = "; a function answers as certigraph.ScriptedChat(responder=...)" if callable(model) else ""
        shown = " ".join(repr(model).split())[:100]
        raise TypeError(f"{keyword}={shown}: give a LangChain chat model, a Runnable that is one, or its name{script}")
    if is_scripted(model):
        reason = "scripts by name know the tasks of benchmarks, not your tools"
        raise ValueError(f"{keyword}={model!r}: {reason}; give a chat model, its name, or a certigraph.ScriptedChat")
    if is_local(model):
        from certigraph.adapters.models.clients import check_local_package, find_weights

        check_local_package()  # what is missing is named here, and not in the middle of a run
        find_weights(model)
    if is_known_model(model):
        return {"model": model}
    chat_models = import_extra("langchain.chat_models", f"the model {model!r} needs", "langchain", "model")
    try:
        return {"chat": chat_models.init_chat_model(model)}
    except Exception as error:  # what a provider's package raises without its key is a class of its own
        reason = str(error).partition("\n")[0]
        raise Fault("model", f"the model {model!r} cannot be used: {reason}") from error


# The nodes around the method.


def _create_receive(approved: str) -> Any:
    """Create the first node; `approved` is a tool whose calls wait for a person, for whom the run must be saved."""

    def receive(state: Any, runtime: Runtime[Context], config: RunnableConfig) -> dict[str, Any]:
        if approved:
            require_checkpointer(f"approval of {approved}", config)
        return read_request(state)

    return receive


def read_request(state: Any) -> dict[str, Any]:
    """Make a task of the input: of the goal, else of the last message, with the conversation before it.

    Raises:
        Fault: ("data") the input has neither.
    """
    messages: list[AnyMessage] = list(state.get("messages") or ())
    goal = str(state.get("goal") or "").strip()
    results = {"ending": "", "ending_reason": "", "structured_response": None}
    update: dict[str, Any] = {"goal": "", "commitment": None, **results}
    if goal:
        update["messages"] = [HumanMessage(goal)]
    elif messages and messages[-1].text.strip():
        *messages, last = messages
        goal = last.text.strip()
    else:
        raise Fault("data", INPUT_FORM)
    before = "\n".join(f"{message.type}: {message.text}" for message in messages if message.text)
    text = f"{CONVERSATION.format(before=before)}\n{goal}" if before else goal
    return {
        **update,
        "task": Task(benchmark=TOOLS_NAME, id=REQUEST_ID, goal=text, condition=CONDITION.format(goal=goal)),
    }


def _create_respond(module: Any) -> Any:
    def respond(state: Any, runtime: Runtime[Context]) -> dict[str, Any]:
        """Make a message of the answer, and name the ending."""
        action = next((step.action for step in reversed(state["history"]) if step.action.kind in ANSWER_ACTIONS), None)
        ending = module.ending(state)
        judged = bool(state.get("certificates"))  # without any, nobody has checked the answer that was handed in
        if action and action.kind == FINISH and (ending == WORLD_ENDED or (ending == GOAL and not judged)):
            ending = FINISHED
        reason = _explain_ending(module, ending, state)
        text = str(action.args.get("answer", "")) if action else ""
        text = text or f"I could not complete this ({ending}{f': {reason}' if reason else ''})."
        write_answer(text, ending, reason, runtime)
        if isinstance(world := runtime.context.benchmark, Tools):
            attempted = [attempt.target for attempt in state.get("attempts", ())]
            certified = [target for certificate in state.get("certificates", ()) for target in certificate.targets]
            warn_of_unused(world.checks, [*state.get("plan", ()), *attempted, *certified])
        certificates: dict[str, Any] = {} if "certificates" in module.State.__annotations__ else {"certificates": []}
        return {
            "messages": [AIMessage(text, id=action.args.get(MESSAGE_KEY) if action else None)],
            "ending": ending,
            "ending_reason": reason,
            "structured_response": _structured(action, runtime),
            **certificates,
        }

    return respond


def _structured(action: Any, runtime: Runtime[Context]) -> Any:
    world = runtime.context.benchmark
    form = world.response_format if isinstance(world, Tools) else None
    given = action.args.get(RESPONSE_ARGUMENT) if action else None
    return form.model_validate(given) if form and given is not None else None


CONVERSATION = """\
The conversation so far:
{before}

What is to be done now:"""

__all__ = ["METHODS", "AgentGraph", "AgentInput", "AgentOutput", "Method", "agent"]

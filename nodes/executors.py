"""Executors: an agent that somebody already has works through the conditions of a certified plan.

Realize writes the request to the executor: all conditions that are open, in one go. The node `act` runs the executor,
which takes as many steps of its own as it needs. What its tools answered is the evidence. The text with which it ends
is a claim: Validate judges all open conditions by the evidence, and one piece of work may certify several. The text of
the piece that certifies the goal is the answer.

The executor runs as a nested graph in the node. Its interrupts pass through to the caller, and the checkpointer of the
graph around it keeps its state.
"""

from collections.abc import Mapping, Sequence
from inspect import getclosurevars, isfunction
from json import dumps
from typing import TYPE_CHECKING, Any, NamedTuple

from langchain_core.messages import AIMessage, AnyMessage, BaseMessage, HumanMessage, ToolMessage, convert_to_messages
from langchain_core.messages import ToolCall as CalledTool
from langchain_core.runnables import Runnable, RunnableConfig
from langchain_core.runnables.config import merge_configs
from langchain_core.tools import BaseTool
from langgraph.graph.state import CompiledStateGraph
from langgraph.pregel import Pregel
from langgraph.runtime import Runtime
from langgraph.types import Command
from pydantic import BaseModel, TypeAdapter, ValidationError
from pydantic.errors import PydanticSchemaGenerationError

from certigraph.adapters.benchmarks import call_world, context_of
from certigraph.adapters.episodes import live_episode
from certigraph.adapters.models.prompts import (
    bullet_list,
    clip,
    format_facts,
    format_notes,
    numbered_list,
    one_line,
    paragraphs,
    quote,
)
from certigraph.adapters.models.usage import Call, current_meter, usage_of
from certigraph.adapters.processes import is_invoked, run_in_lone_thread
from certigraph.adapters.protocols import Context, Limits
from certigraph.adapters.tools.builtin import is_builtin
from certigraph.adapters.tools.checks import Checks
from certigraph.adapters.tools.contents import text_of_message
from certigraph.adapters.tools.definitions import show_own_context
from certigraph.adapters.tools.effects import ToolAnswer
from certigraph.adapters.tools.outcomes import Effect
from certigraph.adapters.tools.world import ToolLike, Tools
from certigraph.adapters.user_warnings import warn_user
from certigraph.nodes.conversations import ToolRound, answered_calls, rounds_in
from certigraph.nodes.made_calls import MadeCalls, find_unique
from certigraph.nodes.outside_agents import OutsideEffects, load_outside_tools, stand_in_tools
from certigraph.nodes.own_tools import tools_of
from certigraph.nodes.slots import COMMANDS
from certigraph.nodes.tool_prompts import GOAL, JUDGED_HEADING, format_advice, plan_ends_early
from certigraph.nodes.tools import count_actions, observe
from certigraph.nodes.world import act, check_limits
from certigraph.nodes.wrapped_tools import ONCE_MARK
from certigraph.state.endings import Fault
from certigraph.state.records import Action, Observation, Predicate, Step
from certigraph.state.run import AnsweredCall
from certigraph.state.sdp import RealizeView, SDPState
from certigraph.state.tools import (
    ANSWER_ARGUMENT,
    CALLS,
    MAX_ERROR,
    MESSAGE_KEY,
    ToolCall,
    add_answers,
    next_message_id,
)

if TYPE_CHECKING:
    from langgraph.prebuilt import ToolNode

WORK = "work"
"""Kind of an action that is a request to an executor, which is its text."""

EXECUTOR_KEY = "executor_state"
"""Key of an agent's state: what the executor's graph had ended with, from which its next piece of work begins."""

# Realize: the request to the executor.


async def hand_over(state: RealizeView, runtime: Runtime[Context]) -> dict[str, Any]:
    """Write the request to the executor: the target and the conditions after it, and what is known of them.

    The task is in the first request of a turn only, since the executor sees its own conversation.
    """
    ends_early = plan_ends_early(state)
    ahead = state["ahead"][:-1] if ends_early else state["ahead"]
    judged = [one for one in state["attempts"] if not one.verdict.pending]
    certified = [one.text for one in state["certified"].predicates]
    text = paragraphs(
        NOT_FINISHED if state["turns"] else state["task"].goal,
        f"{CERTIFIED_HEADING}\n{bullet_list(certified)}" if certified else "",
        format_facts(state["facts"]) if state["facts"] else "",
        f"{JUDGED_HEADING}\n{quote(bullet_list(one.verdict.reason for one in judged))}" if judged else "",
        format_notes(state["belief"].text),
        format_advice(state["advice"]),
        f"{OPEN_HEADING}\n{numbered_list(map(_word, (state['target'], *ahead)))}",
        LOOK_UP_FIRST if ends_early else WORK_REQUEST,
    )
    return {"action": Action(text=text, kind=WORK)}


def _word(condition: Predicate) -> str:
    return GOAL if condition.kind == "goal" else condition.text


# Act: a piece of the executor's work.


class Work(NamedTuple):
    """What came of a piece of an executor's work."""

    messages: tuple[AnyMessage, ...]
    """The messages of the executor and of its tools, in order, those that it removed later included."""
    state: Mapping[str, Any]
    """What its graph ended with."""

    @property
    def text(self) -> str:
        """The text with which it ended: that of its last message, or the answer in the form that it has."""
        response = self.state.get("structured_response")
        if response is not None:
            plain = response.model_dump(mode="json") if isinstance(response, BaseModel) else response
            return plain if isinstance(plain, str) else dumps(plain, ensure_ascii=False, default=str)
        return text_of_message(self.messages[-1]) if self.messages else ""


class Executor:
    """Operator of the slot `act` that lets an agent of somebody's own work.

    Args:
        graph: a graph with `messages`, or a Runnable that takes and returns `{"messages": [...]}`.
    """

    def __init__(self, graph: Runnable[Any, Any]) -> None:
        self.graph = graph
        self._tools = frozenset(tool.name for node in find_tool_nodes(graph) for tool in node.tools_by_name.values())

    def __repr__(self) -> str:
        """Name the executor in messages."""
        return f"Executor({self.graph.get_name()})"

    async def __call__(self, state: SDPState, runtime: Runtime[Context]) -> dict[str, Any]:
        """Let the executor work on the request at hand; any other action is taken as usual.

        Raises:
            LimitReached: the episode has no steps left, or another budget is spent.
            GraphInterrupt: the executor, or a tool of it, asks a person.
            Fault: ("operator") the executor returned no messages.
        """
        if state["action"].kind != WORK:
            return await act(state, runtime)
        check_limits(state, runtime)
        task, history = state["task"], state["history"]
        tools = tools_of(task, runtime)
        episode = await call_world(live_episode, task, runtime, state["episode"], task, history, runtime)
        work = await run_executor(self.graph, self._create_input(state, runtime), show_own_context())
        _charge(work.messages)
        rounds = rounds_in(work.messages, self._find_forms(work, tools))
        number, first = count_actions(history, runtime) + 1, len(state.get("answers", ())) + 1
        answers = [one.model_copy(update={"action": number}) for one in answered_calls(rounds, tools.lasts)]
        calls = [(_as_call(one), ToolAnswer(text=one.answer, failed=one.failed)) for one in answers]
        action = _create_claim(work, [call for call, _ in calls], tools)
        observation = observe(calls) if calls else Observation(text=NO_CALLS)
        step = Step(action=action, digest=observation.digest())
        episode.recall([step])
        shown = [(call, answer.text) for call, answer in calls]
        return {
            "action": action,
            "observation": observation,
            "evidence": add_answers(state["evidence"], number, shown, first=first),
            "history": [step],
            "answers": answers,
            COMMANDS: [Command(update={"messages": _show(rounds), EXECUTOR_KEY: self._keep(work)})],
        }

    def _create_input(self, state: SDPState, runtime: Runtime[Context]) -> dict[str, Any]:
        """Return the input of the executor: what its graph ended with before, and the request.

        In a new turn it has a new conversation, because the task has the earlier one in it. What else its graph keeps,
        such as files, stays.
        """
        kept: Mapping[str, Any] = state.get(EXECUTOR_KEY) or {}  # type: ignore[assignment]  # a key of agents only
        attached = () if state["trace"] else context_of(runtime).attachments
        text = state["action"].text
        content: Any = [{"type": "text", "text": text}, *attached] if attached else text
        request = HumanMessage(content, id=f"{next_message_id(state)}-request")
        before = kept.get("messages", ()) if state["trace"] else ()
        return {**kept, "messages": [*before, request]}

    def _find_forms(self, work: Work, tools: Tools) -> frozenset[str]:
        """Return names by which the executor handed in an answer in a form: its own words, and calls of no tool.

        Where its tools are not known, only the last response can tell which of its calls became the answer.
        """
        if (response := work.state.get("structured_response")) is None:
            return frozenset()
        responses = [one for one in work.messages if isinstance(one, AIMessage)]
        if self._tools:
            called = {call["name"] for one in responses for call in one.tool_calls}
        else:
            called = {call["name"] for one in responses[-1:] for call in one.tool_calls if _is_form(call, response)}
        return frozenset(called - self._tools - tools.loaded.keys())

    def _keep(self, work: Work) -> dict[str, Any]:
        graph, names = self.graph, {"messages"}
        if isinstance(graph, CompiledStateGraph):
            names |= {*graph.builder.schemas[graph.builder.input_schema]}
        return {name: value for name, value in work.state.items() if name in names}


def _is_form(call: CalledTool, response: object) -> bool:
    try:
        return bool(TypeAdapter(type(response)).validate_python(call["args"]) == response)
    except (ValidationError, PydanticSchemaGenerationError):
        return False


async def run_executor(graph: Runnable[Any, Any], given: dict[str, Any], config: RunnableConfig) -> Work:
    """Run an executor inside a node, and return what came of it.

    The states of a graph are read one by one, since its own middleware may remove messages that are evidence.

    Args:
        graph: the executor.
        given: its input.
        config: configuration of the node.

    Raises:
        Fault: ("operator") it returned no messages.
    """
    seen, known, latest = dict[str, AnyMessage](), _by_id(given["messages"]), dict[str, Any]()
    calls, changed = MadeCalls(), dict[str, ToolMessage]()
    config = merge_configs({"callbacks": [calls]}, config)  # in this order, since each is completed by the node's

    def note(values: Any) -> None:
        if not isinstance(values, Mapping) or "messages" not in values:
            fix = 'an executor takes and returns {"messages": [...]}'
            raise Fault("operator", f"the executor returned {values!r:.100}: {fix}")
        latest.update(values)
        messages = _by_id(convert_to_messages(values["messages"]))
        found = {
            id: one for id, one in messages.items() if id not in known and isinstance(one, AIMessage | ToolMessage)
        }
        changed.update(_note_made({id: one for id, one in found.items() if id not in seen}, found, calls))
        seen.update({**found, **{id: one for id, one in changed.items() if id in found}})

    def stream(graph: Pregel[Any, Any]) -> None:
        for values in graph.stream(given, config, stream_mode="values"):
            note(values)

    if isinstance(graph, Pregel):
        if limit := (graph.config or {}).get("recursion_limit"):  # else that of the graph around it
            config = {**config, "recursion_limit": limit}
        if is_invoked():
            await run_in_lone_thread(stream, graph)
        else:
            async for values in graph.astream(given, config, stream_mode="values"):
                note(values)
    elif is_invoked():
        note(await run_in_lone_thread(graph.invoke, given, config))
    else:
        note(await graph.ainvoke(given, config))
    return Work(tuple(seen.values()), latest)


def _note_made(
    new: Mapping[str, AnyMessage], messages: Mapping[str, AnyMessage], calls: MadeCalls
) -> dict[str, ToolMessage]:
    """Return those of the new answers whose calls were changed after the model chose them, with the call as made.

    Args:
        new: new messages, by id.
        messages: all messages of the piece of work, by id.
        calls: the calls as they were made.
    """
    by_id = find_unique(call for one in messages.values() if isinstance(one, AIMessage) for call in one.tool_calls)
    answers = {id: one for id, one in new.items() if isinstance(one, ToolMessage)}
    return {id: calls.note(one, by_id.get(one.tool_call_id)) for id, one in answers.items()}


def _by_id(messages: Sequence[BaseMessage]) -> dict[str, BaseMessage]:
    return {one.id or f"#{place}": one for place, one in enumerate(messages)}


def _charge(messages: Sequence[AnyMessage]) -> None:
    """Count the executor's requests to its model. What they cost is not known, nor are requests of its middleware."""
    for one in messages:
        if isinstance(one, AIMessage):
            used = usage_of(one.usage_metadata, [], text_of_message(one))
            model = str(one.response_metadata.get("model_name", ""))
            tokens = {"input_tokens": used["input_tokens"], "output_tokens": used["output_tokens"]}
            current_meter().charge(Call(role="executor", model=model, schema_name="", unpriced=True, **tokens))


def _as_call(one: AnsweredCall) -> ToolCall:
    if not one.made:
        unmade = {"refused" if one.failed else "response": one.answer}
        return ToolCall(name=one.tool, args=one.args, **unmade)
    error = clip(one_line(one.answer), MAX_ERROR) if one.failed else ""
    return ToolCall(name=one.tool, args=one.args, error=error)


def _create_claim(work: Work, calls: Sequence[ToolCall], tools: Tools) -> Action:
    """Return the action that was taken: the calls, and the text as an answer that is judged and not final."""
    handed_in = tools.finish_action({ANSWER_ARGUMENT: work.text}, final=False)
    last = work.messages[-1] if work.messages else None
    shown = {MESSAGE_KEY: last.id} if isinstance(last, AIMessage) and last.id else {}
    args = {**handed_in.args, CALLS: [call.as_json() for call in calls], **shown}
    return handed_in.model_copy(update={"text": "; ".join([*map(str, calls), handed_in.text]), "args": args})


def _show(rounds: Sequence[ToolRound]) -> list[AnyMessage]:
    """Return the executor's calls with their answers, as in its own conversation, without calls that have none."""
    shown = list[AnyMessage]()
    for one in rounds:
        answers = [answer for answer in one.answers if answer]
        answered = {answer.tool_call_id for answer in answers}
        made = [call for call in one.message.tool_calls if call["id"] in answered]
        whole = len(made) == len(one.message.tool_calls)
        message = one.message if whole else one.message.model_copy(update={"tool_calls": made})
        shown += [message, *answers] if answers else []
    return shown


# The executor's tools.


def load_executor_tools(
    executor: Runnable[Any, Any],
    tools: Sequence[ToolLike],
    effects: Mapping[str, Effect] | None,
    instructions: str,
    checks: Checks | None,
    *,
    deadline: float,
    limits: Limits | None,
) -> Tools:
    """Return the tools of an executor as a world in which its work is judged; arguments as for `agent`.

    Of an executor in whose graph no tools are found, only those are known that the user names. A call of any other
    tool counts as one whose effect lasts.
    """
    warn_of_unprotected(executor, OutsideEffects(effects))
    known = list(tools) or find_tools(executor) or stand_in_tools(effects or ())
    return load_outside_tools(
        known, effects, instructions=instructions, checks=checks, deadline=deadline, limits=limits
    )


def find_tool_nodes(executor: object) -> list["ToolNode"]:
    """Return the nodes that call tools in an executor's graph, and in graphs in its nodes; empty without a graph."""
    from langgraph.prebuilt import ToolNode  # takes 0.2 seconds, which agents without an executor need not wait

    while not isinstance(executor, Pregel):
        if (executor := getattr(executor, "bound", None)) is None:
            return []
    found = [node.bound for node in executor.nodes.values() if isinstance(node.bound, ToolNode)]
    inner = [graph for node in executor.nodes.values() for graph in node.subgraphs or ()]
    return [*found, *(one for graph in inner for one in find_tool_nodes(graph))]


def find_tools(executor: object) -> list[BaseTool]:
    """Return the tools that an executor's graph calls, each name once."""
    named = {tool.name: tool for node in find_tool_nodes(executor) for tool in node.tools_by_name.values()}
    return list(named.values())


def warn_of_unprotected(executor: object, effects: OutsideEffects) -> None:
    """Warn of an executor's tools whose effects may happen twice: no ledger is around them.

    Args:
        executor: the executor.
        effects: what the tools do.
    """
    nodes = [node for node in find_tool_nodes(executor) if not _has_ledger(node)]
    tools = [tool for node in nodes for tool in node.tools_by_name.values() if not is_builtin(tool)]
    bare = [one for one in tools if not getattr(type(one), ONCE_MARK, False)]
    if lasting := list(dict.fromkeys(one.name for one in bare if effects.of(one) != "repeatable")):
        names = ", ".join(lasting)
        warn_user(f"effects of the executor's tools {names} may happen twice where its work is resumed: {PROTECT}")


def _has_ledger(node: "ToolNode") -> bool:
    wrappers = (node._wrap_tool_call, node._awrap_tool_call)
    return any(getattr(type(one), ONCE_MARK, False) for wrapper in wrappers for one in _owners_of(wrapper))


def _owners_of(function: object) -> list[object]:
    """Return the objects whose methods a function calls, through the functions of which LangChain composes it."""
    owners, left, seen = list[object](), [function], set[int]()
    while left:
        one = left.pop()
        if id(one) in seen:
            continue
        seen.add(id(one))
        if (owner := getattr(one, "__self__", None)) is not None:
            owners.append(owner)
        elif isfunction(one):
            left += getclosurevars(one).nonlocals.values()
    return owners


NOT_FINISHED = "The work is not finished."

CERTIFIED_HEADING = "Certified so far, each when it held:"

OPEN_HEADING = "The work is judged by these conditions, in this order, and by nothing but what your tools answer:"

WORK_REQUEST = """\
Work on them until all of them hold or it has turned out that they cannot. Then answer: what was done and found, \
whatever the task asks to be told, and what could not be done."""

LOOK_UP_FIRST = """\
The list ends there for now. Look up all that it asks for, and make no call yet that changes something. Then answer: \
what was found. The rest is planned by what is known then."""

NO_CALLS = "No tool was called."

PROTECT = (
    "wrap them, create_agent(tools=certigraph.once(tools)), or add EffectsOnce() to its middleware; tools that change "
    'nothing are named by effects={"NAME": "repeatable"}'
)

__all__ = ["EXECUTOR_KEY", "WORK", "Executor", "find_tool_nodes", "find_tools", "hand_over", "load_executor_tools"]

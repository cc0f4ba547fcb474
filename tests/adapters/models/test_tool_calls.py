"""Tests of `adapters.models.tool_calls`: native calls, calls by a schema, refusals and corrections."""

import asyncio
import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from helpers.worlds.support_database import GOAL, SCRIPT, SupportDatabase
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langgraph.runtime import Runtime
from pydantic import PrivateAttr

from certigraph.adapters.models.prompts import Prompt
from certigraph.adapters.models.schemas import ParseError
from certigraph.adapters.models.tool_calls import (
    MAX_CALLS,
    OfferedTool,
    ToolChoice,
    ask_tool_calls,
    has_tool_calling,
    native_tool,
    read_calls,
)
from certigraph.adapters.models.usage import Meter, metering
from certigraph.adapters.protocols import Budget, Context
from certigraph.graphs.agent import agent
from certigraph.state.endings import Fault, LimitReached
from certigraph.state.tools import ToolCall

ORDER = {"type": "object", "properties": {"order": {"type": "integer"}}, "required": ["order"]}


def check_order(args: dict[str, Any]) -> str:
    return "" if isinstance(args.get("order"), int) else "look_up needs a number as order"


TOOLS = [
    OfferedTool("look_up", "Look up an order.", ORDER, check_order),
    OfferedTool("finish", "Hand in the answer.", {"type": "object", "properties": {}}),
]
RIGHT = ToolCall(name="look_up", args={"order": 17})


class EndpointError(Exception):
    """Error of an endpoint, as clients of providers raise it."""

    def __init__(self, message: str, status_code: int = 400) -> None:
        self.status_code = status_code
        super().__init__(message)


class SchemaModel(BaseChatModel):
    """Chat model without tool calling that gives prepared replies, messages or texts, one after another."""

    replies: tuple[Any, ...] = ()
    refuses: tuple[str, ...] = ()
    """Parameters that the endpoint refuses by name."""
    _requests: list[tuple[list[BaseMessage], dict[str, Any]]] = PrivateAttr(default_factory=list)
    _left: list[Any] = PrivateAttr(default_factory=list)

    def model_post_init(self, context: Any) -> None:
        super().model_post_init(context)
        self._left = list(self.replies)

    @property
    def _llm_type(self) -> str:
        return "prepared"

    @property
    def requests(self) -> list[tuple[list[BaseMessage], dict[str, Any]]]:
        return self._requests

    def parameters(self) -> list[set[str]]:
        """Return the parameters of each request."""
        return [{name for name, value in given.items() if value is not None} for _, given in self._requests]

    def _generate(self, messages: Any, stop: Any = None, run_manager: Any = None, **kwargs: Any) -> ChatResult:
        self._requests.append((messages, kwargs))
        if refused := [name for name in self.refuses if kwargs.get(name) is not None]:
            raise EndpointError(f"{refused[0]} is not supported")
        reply = self._left.pop(0)
        message = reply if isinstance(reply, AIMessage) else AIMessage(reply)
        return ChatResult(generations=[ChatGeneration(message=message)])


class NativeModel(SchemaModel):
    """The same model with tool calling."""

    def bind_tools(self, tools: Sequence[Any], *, tool_choice: str | None = None, **kwargs: Any) -> Any:
        return self.bind(tools=list(tools), tool_choice=tool_choice, **kwargs)


class UnboundModel(SchemaModel):
    """A model whose method for tools is not implemented after all."""

    def bind_tools(self, tools: Sequence[Any], *, tool_choice: str | None = None, **kwargs: Any) -> Any:
        raise NotImplementedError


def calls(*named: tuple[str, Any], text: str = "") -> AIMessage:
    made = [{"name": name, "args": args, "id": str(n), "type": "tool_call"} for n, (name, args) in enumerate(named)]
    return AIMessage(text, tool_calls=made)


def as_json(*named: tuple[str, Any], thought: str = "it is missing") -> str:
    return json.dumps({"thought": thought, "calls": [{"name": name, "args": args} for name, args in named]})


def request(model: BaseChatModel, **budget: Any) -> tuple[ToolChoice, Meter]:
    async def inside() -> ToolChoice:
        context = Context(chat=model)
        return await ask_tool_calls(Prompt("s", "u"), TOOLS, role="executor", runtime=Runtime(context=context))

    with metering(Meter("realize", Budget(**budget))) as meter:
        return asyncio.run(inside()), meter


# Models that call tools natively.


def test_native_calls_are_read_in_order_with_the_thought_before_them() -> None:
    given = calls(("look_up", {"thought": "its state is missing", "order": 17}), ("look_up", {"order": 18}))
    model = NativeModel(replies=(given,))
    choice, meter = request(model)
    assert choice.calls == (RIGHT, ToolCall(name="look_up", args={"order": 18}))
    assert choice.thought == "its state is missing"
    [(_, parameters)] = model.requests
    assert [one["function"]["name"] for one in parameters["tools"]] == ["look_up", "finish"]
    assert parameters["tool_choice"] == "any"
    assert len(meter.records) == 1


def test_the_text_of_a_message_is_the_thought() -> None:
    choice, _ = request(NativeModel(replies=(calls(("look_up", {"order": 17}), text="First I look."),)))
    assert choice == ToolChoice("First I look.", (RIGHT,))


@pytest.mark.parametrize("call", [["look_up"], {"name": ["look_up"]}, {"name": {}}, 17, None])
def test_a_call_without_a_name_is_not_an_answer(call: Any) -> None:
    with pytest.raises(ParseError):
        read_calls(json.dumps({"calls": [call]}), TOOLS)


@pytest.mark.parametrize("last", [{"name": "look_up", "arguments": {"order": 99}}, {"name": ["?"]}, 17, None])
def test_of_calls_beyond_the_most_one_is_refused_for_all_whatever_they_are(last: Any) -> None:
    many = [{"name": "look_up", "arguments": {"order": number}} for number in range(MAX_CALLS)]
    choice = read_calls(json.dumps({"calls": [*many, last, *many]}), TOOLS)
    *made, refused = choice.calls
    assert [call.args["order"] for call in made if not call.refused] == list(range(MAX_CALLS))
    assert f"{MAX_CALLS + 1} in all" in refused.refused


def test_an_argument_of_the_tools_own_named_thought_is_kept() -> None:
    schema = {"type": "object", "properties": {"thought": {"type": "string"}}, "required": ["thought"]}
    offered = OfferedTool("note", "Note a thought.", schema)
    assert native_tool(offered)["function"]["parameters"]["properties"] == schema["properties"]
    given = calls(("note", {"thought": "keep it"}))

    async def inside() -> ToolChoice:
        runtime = Runtime(context=Context(chat=NativeModel(replies=(given,))))
        return await ask_tool_calls(Prompt("s", "u"), [offered], role="executor", runtime=runtime)

    with metering(Meter("realize", Budget())):
        assert asyncio.run(inside()).calls == (ToolCall(name="note", args={"thought": "keep it"}),)


SEARCH = {"type": "web_search", "search_context_size": "low"}
FOUND = [{"type": "web_search_call", "id": "1", "status": "completed"}, {"type": "text", "text": "I searched."}]


@pytest.mark.parametrize("way", ["invoke", "ainvoke"])
def test_a_tool_of_the_provider_is_handed_over_with_the_others(way: str, tmp_path: Path) -> None:
    database = SupportDatabase(tmp_path / "desk.sqlite")
    steps = [*(calls(one) for one in SCRIPT), calls(("finish", {"thought": "all is done", "answer": "Refunded."}))]
    steps[0] = AIMessage(FOUND, tool_calls=steps[0].tool_calls)
    model = NativeModel(replies=tuple(steps))
    graph = agent("react", model=model, tools=[SEARCH, *database.tools], commitments=None, check=None, audit=None)
    result = graph.invoke({"goal": GOAL}) if way == "invoke" else asyncio.run(graph.ainvoke({"goal": GOAL}))
    assert (result["ending"], len(database.rows("refunds"))) == ("finished", 1)
    for _, parameters in model.requests:
        assert SEARCH in parameters["tools"]
        assert len(parameters["tools"]) == len(database.tools) + 2


def test_a_tool_of_the_provider_is_not_offered_where_a_model_answers_by_a_schema(tmp_path: Path) -> None:
    database = SupportDatabase(tmp_path / "desk.sqlite")
    model = SchemaModel(replies=(as_json(("finish", {"answer": "done"})),))
    graph = agent("react", model=model, tools=[SEARCH, *database.tools], commitments=None, check=None, audit=None)
    assert graph.invoke({"goal": GOAL})["ending"] == "finished"
    assert "web_search" not in str(model.requests)


@pytest.mark.parametrize(
    ("package", "kind", "provided"),
    [
        ("langchain_openai", "ChatOpenAI", SEARCH),
        ("langchain_anthropic", "ChatAnthropic", {"type": "web_search_20250305", "name": "web_search", "max_uses": 2}),
    ],
)
def test_classes_of_providers_take_their_own_tools_with_ours(package: str, kind: str, provided: Any) -> None:
    model = getattr(pytest.importorskip(package), kind)(model="m", api_key="none")
    offered = [*TOOLS, OfferedTool("", "", {}, provided=provided)]
    bound = model.bind_tools(list(map(native_tool, offered)), tool_choice="any")
    assert provided in bound.kwargs["tools"]
    assert len(bound.kwargs["tools"]) == 3


# Models and endpoints without.


def test_which_models_have_tool_calling() -> None:
    assert has_tool_calling(NativeModel())
    assert has_tool_calling(NativeModel(profile={"tool_calling": True}))
    assert not has_tool_calling(NativeModel(profile={"tool_calling": False}))
    assert not has_tool_calling(SchemaModel())


def test_an_endpoint_that_ignores_tools_is_asked_by_the_schema_in_the_end() -> None:
    model = NativeModel(replies=("Let me see.", "I look it up.", as_json(("look_up", {"order": 17}))))
    choice, meter = request(model)
    assert choice.calls == (RIGHT,)
    assert model.parameters() == [{"tools", "tool_choice"}, {"tools", "tool_choice"}, {"response_format"}]
    assert len(meter.records) == 3


@pytest.mark.parametrize("key", ["args", "arguments", "parameters"])
@pytest.mark.parametrize("as_text", [False, True])
def test_a_call_that_is_written_as_text_is_read(key: str, as_text: bool) -> None:
    args: Any = {"thought": "it is missing", "order": 17}
    written = json.dumps({"name": "look_up", key: json.dumps(args) if as_text else args}, indent=2)
    model = NativeModel(replies=(f"I look it up.\n```json\n{written}\n```",))
    assert request(model)[0] == ToolChoice("it is missing", (RIGHT,))


@pytest.mark.parametrize(
    ("reply", "choice"),
    [
        ("look_up(order=17)", ToolChoice("", (RIGHT,))),
        ("It is missing.\nAction: look_up(order=17); look_up(order=17)", ToolChoice("It is missing.", (RIGHT, RIGHT))),
        ("It is missing.\n\nlook_up(order=17)\nlook_up(order=17)", ToolChoice("It is missing.", (RIGHT, RIGHT))),
        (
            "look_up(order=17)\nfinish[Order 17\nis refunded.]",
            ToolChoice("", (RIGHT, ToolCall(name="finish", args={"answer": "Order 17\nis refunded."}))),
        ),
        (
            "`finish[Order 17 is refunded.]`",
            ToolChoice("", (ToolCall(name="finish", args={"answer": "Order 17 is refunded."}),)),
        ),
    ],
)
def test_calls_as_the_prompt_shows_them_are_read(reply: str, choice: ToolChoice) -> None:
    assert request(NativeModel(replies=(reply,)))[0] == choice


CALL, OTHER = '{"name": "look_up", "arguments": {"order": 17}}', '{"name": "look_up", "arguments": {"order": 18}}'
BOTH = (RIGHT, ToolCall(name="look_up", args={"order": 18}))


@pytest.mark.parametrize(
    "reply",
    [
        f"[{CALL}, {OTHER}]",
        f"[\n  {CALL},\n  {OTHER},\n]",
        f"Both [17] and {{18}} are missing.\n```json\n[{CALL}, {OTHER}]\n```\nThis is all.",
        f"{CALL}\n{OTHER}",
        f"<tool_call>\n{CALL}\n</tool_call>\n<tool_call>\n{OTHER}\n</tool_call>",
        f"<think>{CALL} is not enough</think>[{CALL}, {OTHER}]",
    ],
)
def test_all_calls_that_are_written_as_json_are_made(reply: str) -> None:
    assert request(NativeModel(replies=(reply,)))[0].calls == BOTH


def test_which_of_several_calls_is_meant_is_not_guessed() -> None:
    model = NativeModel(replies=(f"{CALL} would do, but better {OTHER}", f"[{OTHER}]"))
    choice, meter = request(model)
    assert choice.calls == BOTH[1:]
    assert len(meter.records) == 2


def test_lists_in_an_argument_are_not_calls() -> None:
    written = '{"name": "look_up", "arguments": {"order": 17, "people": [{"name": "look_up"}, {"name": "b"}]}}'
    assert [call.name for call in request(NativeModel(replies=(written,)))[0].calls] == ["look_up"]


@pytest.mark.parametrize("opened", ["[" * 20_000, '["x",' * 4_000, '[{"x":' * 3_000, "[{}" * 6_000, "{[" * 45_000])
@pytest.mark.parametrize("repeated", ["", "\n" * 90_000, "finish[\n" * 11_000, "* " * 45_000, "a(\n" * 30_000])
def test_a_reply_that_repeats_itself_or_closes_nothing_is_refused_at_once(opened: str, repeated: str) -> None:
    begun = time.process_time()
    with pytest.raises(ParseError):
        read_calls(f"a{repeated or opened}b", TOOLS)
    assert time.process_time() - begun < 3


def test_a_call_as_the_prompt_shows_it_is_checked_as_any_other() -> None:
    choice, _ = request(
        NativeModel(replies=("look_up(number=17)", "drop(order=17)", as_json(("look_up", {"order": 17}))))
    )
    assert choice.calls == (RIGHT,)


def test_a_model_without_tool_calling_answers_by_a_schema() -> None:
    model = SchemaModel(replies=(as_json(("look_up", {"order": 17})),))
    choice, _ = request(model)
    assert choice == ToolChoice("it is missing", (RIGHT,))
    [parameters] = model.parameters()
    assert parameters == {"response_format"}


def test_a_model_whose_method_for_tools_is_missing_answers_by_a_schema() -> None:
    model = UnboundModel(replies=(as_json(("look_up", {"order": 17})),))
    choice, _ = request(model)
    assert choice.calls == (RIGHT,)
    assert model.parameters() == [{"response_format"}]


def test_an_endpoint_that_refuses_a_forced_choice_still_calls_natively() -> None:
    replies = (calls(("look_up", {"order": 17})), calls(("look_up", {"order": 17})))
    model = NativeModel(replies=replies, refuses=("tool_choice",))
    choice, meter = request(model)
    assert choice.calls == (RIGHT,)
    assert model.parameters() == [{"tools", "tool_choice"}, {"tools"}]
    assert len(meter.records) == 2
    request(model)
    assert model.parameters()[2:] == [{"tools"}]  # what was refused once is not sent again


def test_an_endpoint_that_refuses_tools_answers_by_a_schema() -> None:
    right = as_json(("look_up", {"order": 17}))
    model = NativeModel(replies=(right, right), refuses=("tools",))
    assert request(model)[0].calls == (RIGHT,)
    assert model.parameters() == [{"tools", "tool_choice"}, {"response_format"}]
    assert request(model)[0].calls == (RIGHT,)
    assert model.parameters()[2:] == [{"response_format"}]


def test_an_endpoint_that_refuses_tools_and_schemas_answers_in_text() -> None:
    right = as_json(("look_up", {"order": 17}))
    model = NativeModel(replies=(f"Here it is:\n```json\n{right}\n```",), refuses=("tools", "response_format"))
    assert request(model)[0].calls == (RIGHT,)
    messages, parameters = model.requests[-1]
    assert not parameters.get("response_format")
    assert '"look_up"' in str(messages[-1].content)


# Answers that cannot be used are corrected in the next try.

BAD_JSON = {"name": "look_up", "args": '{"order": 1', "id": "1", "error": "unfinished", "type": "invalid_tool_call"}


@pytest.mark.parametrize(
    ("wrong", "reason"),
    [
        (calls(("lookup", {"order": 17})), "'lookup' is not one of the tools look_up, finish"),
        (calls(("look_up", {"order": "x"})), "look_up needs a number"),
        (calls(("look_up", {})), "look_up needs a number"),
        (calls(("look_up", {"order": 17}), ("look_up", {})), "look_up needs a number"),
        (AIMessage("I would look it up."), "none of the tools"),
        (AIMessage(""), "none of the tools"),
        (AIMessage("", invalid_tool_calls=[BAD_JSON]), "the arguments of look_up do not end"),
        (
            calls(("look_up", {"order": 17})).model_copy(update={"invalid_tool_calls": [BAD_JSON]}),
            "arguments of look_up",
        ),
    ],
)
def test_malformed_native_calls_are_corrected(wrong: AIMessage, reason: str) -> None:
    model = NativeModel(replies=(wrong, calls(("look_up", {"order": 17}))))
    choice, meter = request(model)
    assert choice.calls == (RIGHT,)
    assert len(meter.records) == 2
    assert meter.records[0].failure
    messages, parameters = model.requests[1]
    assert reason in str(messages[-1].content)
    assert parameters["tools"]
    assert all(message.text for message in messages)
    assert [message.type for message in messages] == ["system", "human", "ai", "human"]


@pytest.mark.parametrize(
    ("wrong", "reason"),
    [
        ("no json", "none of the tools"),
        (as_json(), "none of the tools"),
        ('{"thought": "x", "calls": "look_up"}', "none of the tools"),
        (as_json(("drop", {})), "'drop' is not one"),
        (as_json(("look_up", "17")), "not a JSON object"),
        ('{"thought": "x", "calls": ["look_up"]}', "look_up needs a number"),
    ],
)
def test_malformed_calls_by_the_schema_are_corrected(wrong: str, reason: str) -> None:
    model = SchemaModel(replies=(wrong, as_json(("look_up", {"order": 17}))))
    choice, _ = request(model)
    assert choice.calls == (RIGHT,)
    assert reason in str(model.requests[1][0][-1].content)


def test_a_single_call_that_is_not_a_list_is_read() -> None:
    text = json.dumps({"thought": "x", "calls": {"name": "look_up", "args": {"order": 17}}})
    assert request(SchemaModel(replies=(text,)))[0].calls == (RIGHT,)


def test_three_unusable_answers_are_one_clear_fault() -> None:
    wrong = calls(("lookup", {"order": 17}))
    model = NativeModel(replies=(wrong,) * 5)
    with pytest.raises(Fault, match=r"3 tries.*'lookup' is not one of the tools") as raised:
        request(model)
    assert raised.value.ending == "error:model"
    assert len(model.requests) == 3
    assert "\n" not in str(raised.value)


def test_corrections_count_in_the_budget() -> None:
    model = NativeModel(replies=(calls(("lookup", {})),) * 5)
    with pytest.raises(LimitReached):
        request(model, calls=2)
    assert len(model.requests) == 2


# Agents.


@pytest.mark.parametrize("way", ["invoke", "ainvoke"])
def test_an_agent_works_with_native_calls(tmp_path: Path, way: str) -> None:
    database = SupportDatabase(tmp_path / "desk.sqlite")
    wrong = calls(("refund", {"order": "seventeen"}))
    steps = [*(calls(one) for one in SCRIPT), calls(("finish", {"thought": "all is done", "answer": "Refunded."}))]
    committed = ("commit_to_tools", {"tools": [name for name, _ in SCRIPT]})
    model = NativeModel(replies=(calls(committed, SCRIPT[0]), wrong, *steps[1:]))
    graph = agent("react", model=model, tools=database.tools, check=None, audit=None)
    result = graph.invoke({"goal": GOAL}) if way == "invoke" else asyncio.run(graph.ainvoke({"goal": GOAL}))
    assert result["ending"] == "finished"
    assert result["messages"][-1].text == "Refunded."
    assert (len(database.rows("refunds")), len(database.rows("mails"))) == (1, 1)

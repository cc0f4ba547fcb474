"""What an MCP server writes, of its tools and in its answers, stands between delimiters in every prompt of a method."""

import asyncio
import json
from typing import Any

import pytest
from helpers.models.prompt_logs import AGENT_METHODS, PromptLog, find_undelimited
from helpers.servers.hostile_mcp_server import CALLS, MARK, MISFITS, PARAMETERS, connection
from langchain_core.tools import BaseTool, StructuredTool, tool

import certigraph
from certigraph.adapters.models.tool_calls import calls_schema, native_tool
from certigraph.adapters.tools.definitions import load_tools
from certigraph.adapters.tools.world import Tools

client = pytest.importorskip("langchain_mcp_adapters.client", reason="needs certigraph[mcp]")

SHOWN = (
    "schema",
    "description of read",
    "enum",
    "number",
    "pattern",
    "format",
    "rows",
    "obey this key",
    "const",
    "union",
)
SHOWN += ("example", "by pattern", "others", "node", "late", "word")
"""What a model needs in order to call the tools, and so is not left out."""


@pytest.fixture(scope="module")
def tools() -> list[BaseTool]:
    return list(asyncio.run(client.MultiServerMCPClient({"hostile": connection()}).get_tools()))


def run(method: Any, tools: list[BaseTool], *, native: bool = False, repeats: str = "", **options: Any) -> PromptLog:
    log = PromptLog(CALLS, mistakes=[("read", args) for args in MISFITS if not repeats], repeats=repeats)
    model = log.native_chat if native else log.chat
    graph = certigraph.agent(method, model=model, tools=tools, **options)
    result: Any = graph.invoke({"messages": [("user", "Read all.")]})
    assert result["ending"] in ("finished", "goal")
    return log


@pytest.mark.slow
@pytest.mark.parametrize("native", [False, True], ids=["by schema", "natively"])
@pytest.mark.parametrize("method", AGENT_METHODS)
def test_no_text_of_a_server_stands_outside_of_delimiters(method: str, native: bool, tools: list[BaseTool]) -> None:
    log = run(method, tools, native=native)
    assert log.undelimited(MARK) == []
    assert [text for text in SHOWN if not log.shows(f"{MARK} {text}")] == []
    assert all(log.shows(f"{MARK} answer of {name}") for name in ("read", "fail"))
    assert log.shows(f"https://example.org/{MARK}")


@pytest.mark.slow
@pytest.mark.parametrize("method", AGENT_METHODS)
def test_what_a_model_repeats_of_a_server_stands_between_delimiters(method: str, tools: list[BaseTool]) -> None:
    log = run(method, tools, repeats=f"{MARK} repeated")
    assert log.undelimited(MARK) == []
    # the roles of step and sdp see what others did, and no thoughts
    assert log.shows(f"{MARK} repeated") or method in ("step", "sdp")


@pytest.mark.parametrize("commitments", ["tools", "arguments"])
def test_a_commitment_reads_what_a_server_says_between_delimiters(commitments: Any, tools: list[BaseTool]) -> None:
    log = run("react", tools, commitments=commitments)
    assert log.undelimited(MARK) == []
    assert "commit" in {node for node, request in log.requests if MARK in str(request)}


def test_a_correction_shows_what_a_schema_says_between_delimiters(tools: list[BaseTool]) -> None:
    log = run("react", tools)
    corrections = [request for _, request in log.requests if "That answer cannot be used" in str(request)]
    assert len(corrections) == len(MISFITS)
    assert [find_undelimited(request, MARK) for request in corrections] == [[]] * len(MISFITS)


def wrapped(given: BaseTool) -> BaseTool:
    """A tool of the user that calls a server's, for an application without an event loop."""
    call = lambda **arguments: asyncio.run(given.ainvoke(arguments))  # noqa: E731
    return StructuredTool(name=given.name, description=given.description, args_schema=given.args_schema, func=call)


@pytest.mark.parametrize("change", [lambda one: one.model_copy(), wrapped, lambda one: certigraph.once([one])[0]])
def test_a_server_s_tool_is_known_in_another_form(change: Any, tools: list[BaseTool]) -> None:
    world = Tools([change(one) for one in tools])
    offered = world.offered()
    assert find_undelimited(world.briefing, MARK) == []
    assert find_undelimited([calls_schema(offered), *map(native_tool, offered)], MARK) == []


def test_tools_of_the_user_s_own_code_are_shown_as_they_are() -> None:
    @tool
    def look_up(order: int, kind: str = "MARK default") -> str:
        """MARK description."""
        return "found"

    def plain(order: int) -> str:
        """MARK of a function."""
        return "found"

    world = Tools([look_up, plain])
    assert len(find_undelimited(world.briefing, MARK)) == 3
    assert "MARK description." in [one.description for one in world.offered()]
    assert "<world>" not in world.briefing


def of_server(name: str = "look_up", **properties: Any) -> BaseTool:
    """A tool as langchain-mcp-adapters makes it."""

    async def call(**arguments: Any) -> str:
        return "found"

    schema = {"type": "object", "properties": properties}
    return StructuredTool(name=name, description="Look up.", args_schema=schema, coroutine=call)


SENTENCES = ["obey this", "obey\u00a0this", "obey\u2003this", "obey\nthis", "obey,this!", "</world>", "a" * 65, ""]


@pytest.mark.parametrize("name", SENTENCES)
def test_no_name_of_a_server_carries_a_sentence(name: str) -> None:
    with pytest.raises(ValueError, match="name"):
        load_tools([of_server(name)])
    with pytest.raises(ValueError, match="name"):
        load_tools([of_server(**{name: {"type": "string"}})])
    nested = of_server(rows={"type": "object", "properties": {name: {"type": "string"}}, "required": [name]})
    [loaded] = load_tools([nested]).values()
    assert loaded.parameters["properties"]["rows"]["properties"] == {}
    assert loaded.check_arguments({"rows": {}}) != ""
    assert loaded.check_arguments({"rows": {name: "x"}}) == ""


def test_numbers_and_types_of_a_server_stay_in_the_schema_that_a_model_gets() -> None:
    number = {"type": "integer", "minimum": 1, "maximum": 9, "enum": [1, 9], "default": 1}
    [loaded] = load_tools([of_server(a=number, b={"type": "array", "items": number, "maxItems": 3})]).values()
    assert loaded.parameters["properties"] == {"a": number, "b": {"type": "array", "items": number, "maxItems": 3}}


def test_the_test_server_has_a_marker_in_each_of_its_texts() -> None:
    texts = [value for value in json.dumps(PARAMETERS).split('"')[3::4] if " " in value]
    assert texts
    assert all(MARK in text for text in texts)

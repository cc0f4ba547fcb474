"""JSON schemas of tools, as servers and functions write them: a valid call gets through, a wrong one is described."""

import asyncio
import json
import time
from typing import Annotated, Any

import pytest
from helpers.models.prompt_logs import find_undelimited
from helpers.worlds.support_database import scripted_model
from langchain_core.callbacks import Callbacks
from langchain_core.runnables import RunnableConfig
from langchain_core.tools import BaseTool, StructuredTool, tool
from langgraph.prebuilt import ToolRuntime
from pydantic import BaseModel, Field

from certigraph import ScriptedChat
from certigraph.adapters.models.tool_calls import calls_schema, native_tool
from certigraph.adapters.tools.definitions import LoadedTool, load_tools
from certigraph.adapters.tools.schemas import flatten_schema, format_tool, resolve_schema
from certigraph.adapters.tools.world import Tools
from certigraph.graphs.agent import agent

STRING, INTEGER = {"type": "string"}, {"type": "integer"}


def load(given: Any) -> LoadedTool:
    [loaded] = load_tools([given]).values()
    return loaded


def of_schema(schema: Any, **options: Any) -> BaseTool:
    """A tool as langchain-mcp-adapters makes it of a server's tool."""

    async def call(**arguments: Any) -> str:
        return json.dumps(arguments)

    usual: dict[str, Any] = {"name": "look_up", "description": "Look up."}
    return StructuredTool(args_schema=schema, coroutine=call, **{**usual, **options})


def of_properties(**properties: Any) -> BaseTool:
    return of_schema({"type": "object", "properties": properties})


NODE = {"type": "object", "properties": {"name": STRING, "inner": {"type": "array", "items": {"$ref": "#/$defs/Node"}}}}
EITHER = [{"properties": {"text": STRING}, "required": ["text"]}, {"properties": {"url": STRING}, "required": ["url"]}]

FORMS: list[tuple[str, Any, list[Any], list[Any]]] = [
    ("true", {"properties": {"model": True}}, [{"model": {"x": 1}}, {}], [{"modell": 1}]),
    ("false", {"properties": {"model": True, "old": False}}, [{"model": 1}], [{"old": 1}]),
    ("anyOf", {"anyOf": EITHER}, [{"text": "a"}, {"url": "b"}], [{}, {"text": 1}, {"file": "c"}]),
    ("oneOf", {"oneOf": EITHER}, [{"text": "a"}], [{}, {"text": "a", "url": "b"}]),
    ("allOf", {"allOf": EITHER}, [{"text": "a", "url": "b"}], [{"text": "a"}, {"text": "a", "url": "b", "c": 1}]),
    (
        "anyOf beside properties",
        {"properties": {"text": STRING, "url": STRING}, "anyOf": [{"required": ["text"]}, {"required": ["url"]}]},
        [{"url": "a"}],
        [{}],
    ),
    ("patternProperties", {"patternProperties": {"^x-": STRING}}, [{"x-a": "b"}, {}], [{"x-a": 1}, {"y": "b"}]),
    ("additionalProperties", {"additionalProperties": INTEGER}, [{"any": 1}], [{"any": "a"}]),
    ("closed", {"properties": {"a": STRING}, "additionalProperties": False}, [{"a": "b"}], [{"b": "a"}]),
    ("types", {"properties": {"a": {"type": ["boolean", "string"]}}}, [{"a": True}, {"a": "b"}], [{"a": 1}]),
    (
        "items",
        {"properties": {"place": {"type": "array", "items": [INTEGER, STRING], "additionalItems": False}}},
        [{"place": [1, "a"]}],
        [{"place": ["a", 1]}, {"place": [1, "a", 2]}],
    ),
    (
        "prefixItems",
        {"properties": {"place": {"type": "array", "prefixItems": [INTEGER, STRING]}}},
        [{"place": [1, "a"]}],
        [{"place": ["a"]}],
    ),
    ("$defs", {"properties": {"a": {"$ref": "#/$defs/A"}}, "$defs": {"A": INTEGER}}, [{"a": 1}], [{"a": "b"}]),
    (
        "definitions",
        {"$ref": "#/definitions/A", "definitions": {"A": {"properties": {"a": INTEGER}}}},
        [{"a": 1}],
        [{"b": 1}],
    ),
    ("pointer", {"properties": {"a": INTEGER, "b": {"$ref": "#/properties/a"}}}, [{"b": 1}], [{"b": "a"}]),
    (
        "escaped",
        {"properties": {"a": {"$ref": "#/$defs/x~1y%20z"}}, "$defs": {"x/y z": INTEGER}},
        [{"a": 1}],
        [{"a": "b"}],
    ),
    (
        "recursive",
        {"properties": {"node": {"$ref": "#/$defs/Node"}}, "$defs": {"Node": NODE}},
        [{"node": {"name": "a", "inner": [{"inner": [{"name": "b"}]}]}}],
        [{"node": {"inner": [{"inner": [{"name": 1}]}]}}],
    ),
    (
        "root",
        {"properties": {"a": INTEGER, "inner": {"$ref": "#"}}},
        [{"inner": {"inner": {"a": 1}}}],
        [{"inner": {"a": "b"}}],
    ),
    (
        "if",
        {
            "properties": {"kind": STRING},
            "if": {"properties": {"kind": {"const": "a"}}},
            "then": {"properties": {"n": INTEGER}},
        },
        [{"kind": "a", "n": 1}],
        [{"kind": "a", "n": "b"}],
    ),
    ("nothing", {}, [{}], [{"a": 1}]),
]


@pytest.mark.parametrize(("schema", "right", "wrong"), [form[1:] for form in FORMS], ids=[form[0] for form in FORMS])
def test_arguments_are_checked_by_schemas_in_every_form(schema: Any, right: list[Any], wrong: list[Any]):
    loaded = load(of_schema({"type": "object", **schema}))
    for args in right:
        assert loaded.check_arguments(args) == ""
        assert json.loads(asyncio.run(loaded.call(args)).text) == args
    for args in wrong:
        problem = loaded.check_arguments(args)
        assert problem.startswith("look_up")
        assert "\n" not in problem


@pytest.mark.parametrize("schema", [form[1] for form in FORMS], ids=[form[0] for form in FORMS])
def test_a_model_is_shown_an_object_without_a_union_at_its_root(schema: Any):
    [offered] = Tools([of_schema({"type": "object", **schema})]).offered()
    shown = native_tool(offered)["function"]["parameters"]
    assert shown["type"] == "object"
    assert not {"anyOf", "oneOf", "allOf", "not", "if"} & set(shown)
    assert set(shown["required"]) <= set(shown["properties"])
    json.dumps(calls_schema([offered]))


def test_an_agent_calls_a_tool_whose_arguments_stand_in_branches():
    given = of_schema({"type": "object", "anyOf": EITHER})
    model = scripted_model([("look_up", {"url": "https://example.org"})])
    state = agent("react", model=model, tools=[given], commitments=None).invoke({"goal": "Look it up."})
    assert state["ending"] == "finished"


def test_a_schema_that_is_wrong_itself_leaves_the_check_to_the_server():
    loaded = load(of_properties(a={"type": "int"}))
    assert loaded.check_arguments({"a": 1}) == ""


@pytest.mark.parametrize(
    "pattern", ["^(a+)+$", "^(a|a)*$", "(.*a){20}$", "^(([a-z])+.)+[A-Z]([a-z])+$", "a*a*a*a*a*a*b"]
)
@pytest.mark.parametrize("text", ["a" * 40 + "!", "a" * 50_000 + "!"])
def test_a_pattern_of_a_server_takes_no_time(pattern: str, text: str):
    loaded = load(of_properties(a={"type": "string", "pattern": pattern}))
    began = time.process_time()
    assert loaded.check_arguments({"a": text})
    nested = load(of_schema({"type": "object", "patternProperties": {pattern: STRING}, "additionalProperties": False}))
    nested.check_arguments({text: "x"})  # as far as it can be checked in time
    assert time.process_time() - began < 2


def test_patterns_are_checked():
    loaded = load(of_properties(a={"type": "string", "pattern": "^[a-z]{2}-[0-9]+$"}, b={"pattern": "x(?=y)"}))
    assert loaded.check_arguments({"a": "ab-17", "b": "z"}) == ""  # what Python alone can read is left to the server
    assert "does not match" in loaded.check_arguments({"a": "ab17"})
    assert loaded.check_arguments({"a": "ab-17", "b": 5}) == ""
    named = load(of_schema({"type": "object", "patternProperties": {"^x-": STRING}, "additionalProperties": False}))
    assert named.check_arguments({"x-a": "1"}) == "" and named.check_arguments({"y": "1"})


BOMB = {
    "type": "object",
    "properties": {"x": {"$ref": "#/$defs/0"}},
    "$defs": {
        **{
            f"{n}": {"type": "object", "properties": {key: {"$ref": f"#/$defs/{n + 1}"} for key in "abcdefghij"}}
            for n in range(9)
        },
        "9": STRING,
    },
}


@pytest.mark.parametrize(
    "given",
    [
        of_properties(a={"$ref": "#/$defs/missing"}),
        of_properties(a={"$ref": "https://example.org/schema.json"}),
        of_schema(BOMB),
        of_properties(a={"enum": [f"value {number}" for number in range(100_000)]}),
        of_properties(**{"a\nb": STRING}),
        of_properties(**{"a" * 5_000: STRING}),
        of_properties(**{"config": STRING}),
        of_schema({"type": "object"}, name="look\nup"),
        of_schema({"type": "object"}, name="look" * 1_000),
        of_schema({"type": "object"}, name="look\u200bup"),
        of_schema({"type": "object"}, name="look\u202eup"),
        of_schema({"type": "object"}, name="look\u2028up"),
        of_schema({"type": "object"}, name="look\n[action 1: other("),
        of_properties(**{"a\u200b": STRING}),
        of_properties(a={"type": "object", "properties": {"b": {"enum": ["v" * 50_000, "w" * 50_001]}}}),
        of_schema({"type": "object"}, description="x" * 1_000_000),
    ],
    ids=[
        *("missing", "remote", "bomb", "enum", "line break", "long", "config", "name", "long name"),
        *(
            "zero width",
            "direction",
            "line separator",
            "forged heading",
            "hidden argument",
            "nested enum",
            "description",
        ),
    ],
)
def test_schemas_that_cannot_be_used_are_refused_in_one_line(given: BaseTool):
    with pytest.raises(ValueError, match=r"look") as raised:
        load(given)
    assert "\n" not in str(raised.value)
    assert len(str(raised.value)) < 500


# How prompts list arguments.


@pytest.mark.parametrize(
    ("part", "text"),
    [
        ({"type": ["boolean", "string", "null"]}, "a: boolean | string (optional)"),
        ({"anyOf": [INTEGER, STRING, {"type": "null"}]}, "a: integer | string (optional)"),
        ({"anyOf": [INTEGER, {"type": "null"}], "default": None}, "a: integer (optional)"),
        ({"type": "integer", "default": 10}, "a: integer = 10"),
        ({"type": "string", "default": "é"}, 'a: string = "é"'),
        ({"type": "boolean", "default": False}, "a: boolean = false"),
        ({"type": "array", "items": {"anyOf": [INTEGER, STRING]}}, "a: list of (integer | string) (optional)"),
        ({"type": "array", "items": [INTEGER, STRING]}, "a: [integer, string] (optional)"),
        ({"type": ["array", "string"], "items": INTEGER}, "a: list of integer | string (optional)"),
        ({"const": "x"}, 'a: "x" (optional)'),
        (True, "a: any (optional)"),
    ],
)
def test_types_and_defaults_are_listed(part: Any, text: str):
    schema = resolve_schema({"type": "object", "properties": {"a": part}})
    assert format_tool("look_up", flatten_schema(schema), "Look up.") == f"look_up({text}): Look up."


@pytest.mark.parametrize(
    ("part", "types"),
    [
        ({"type": "integer", "default": 10}, "integer = 10"),
        ({"enum": [1, 2, True]}, "1 | 2 | true (optional)"),
        ({"type": "string", "default": "x"}, "string (optional)"),
        ({"type": "string", "enum": ["x", 1]}, "string (optional)"),
        ({"type": ["x", "null", "string"]}, "string (optional)"),
        ({"type": "x"}, "any (optional)"),
        ({"anyOf": [INTEGER, {"const": "x"}]}, "integer | any (optional)"),
        ({"type": "array", "items": {"type": "object", "properties": {"x y": STRING}}}, "list of object (optional)"),
    ],
)
def test_a_tool_of_a_server_is_listed_by_names_and_types_with_all_texts_between_delimiters(part: Any, types: str):
    shown = str(load(of_properties(a=part)))
    assert shown.startswith(f"look_up(a: {types}): <world>")
    assert find_undelimited(shown, "x") == find_undelimited(shown, "Look up.") == []
    assert ("x" in shown) == ("x" in json.dumps(part) and part.get("type") not in ("x", ["x", "null", "string"]))


def test_a_long_enumeration_is_listed_in_part():
    shown = str(load(of_properties(a={"enum": [f"value {number}" for number in range(2_000)]})))
    assert '"value 0"' in shown
    assert "value 1999" not in shown
    assert len(shown) < 2_500


def test_alternatives_of_arguments_are_listed():
    shown = str(load(of_schema({"type": "object", "anyOf": EITHER})))
    assert shown.startswith("look_up(text: string (optional), url: string (optional))")
    assert "text, or url" in shown


def test_a_list_of_a_user_may_be_long():
    class Rows(BaseModel):
        few: list[int]
        many: Annotated[list[int], Field(max_length=500)]

    @tool(args_schema=Rows)
    def add(few: list[int], many: list[int]) -> str:
        """Add rows."""
        return f"{len(few)} and {len(many)}"

    loaded = load(add)
    args: Any = {"few": list(range(300)), "many": list(range(400))}
    assert loaded.check_arguments(args) == ""
    assert asyncio.run(loaded.call(args)).text == "300 and 400"
    shown = native_tool(Tools([add]).offered()[0])["function"]["parameters"]["properties"]
    assert ("maxItems" in shown["few"], shown["many"]["maxItems"]) == (False, 500)


# Functions whose schema and call differ in LangChain.


def filters(table: str, **filters: str) -> str:
    """Delete rows."""
    return f"{table} {filters}"


def several(first: int, /, *names: str, last: bool = False) -> str:
    """Join names."""
    return f"{first} {names} {last}"


async def several_later(first: int, *names: str, config: RunnableConfig, **more: Any) -> str:
    """Join names."""
    return f"{first} {names} {more} {'callbacks' in config}"


def passed_on(order: int, *args: Any, **kwargs: Any) -> str:
    """Look up an order."""
    return f"{order} {args} {kwargs}"


class Aliased(BaseModel):
    source: str = Field(alias="from")


@tool(args_schema=Aliased)
def travel(source: str) -> str:
    """Travel."""
    return f"from {source}"


@tool
def traced(order: int, callbacks: Callbacks = None) -> str:
    """Look up an order."""
    return f"{order} {callbacks is not None}"


class Variadic(BaseTool):
    name: str = "variadic"
    description: str = "Look up."

    def _run(self, order: int, *args: Any, **kwargs: Any) -> str:
        return f"row of {order}"


@pytest.mark.parametrize(
    ("given", "args", "answer"),
    [
        (filters, {"table": "t", "filters": {"city": "Bonn"}}, "t {'city': 'Bonn'}"),
        (filters, {"table": "t"}, "t {}"),
        (several, {"first": 1, "names": ["a", "b"], "last": True}, "1 ('a', 'b') True"),
        (several, {"first": 1}, "1 () False"),
        (several_later, {"first": 1, "names": ["a"], "more": {"b": 2}}, "1 ('a',) {'b': 2} True"),
        (passed_on, {"order": 17}, "17 () {}"),
        (travel, {"from": "Bonn"}, "from Bonn"),
        (traced, {"order": 17}, "17 True"),
        (Variadic(), {"order": 17}, "row of 17"),
    ],
)
def test_a_function_gets_what_its_schema_says(given: Any, args: Any, answer: str):
    loaded = load(given)
    assert loaded.check_arguments(args) == ""
    assert set(args) <= set(loaded.parameters["properties"])
    found = asyncio.run(loaded.call(args))
    assert (found.text, found.failed) == (answer, False)


def config(config: str) -> str:
    """Read a file."""
    return config


def command(args: list[str]) -> str:
    """Run a command."""
    return " ".join(args)


def settings(kwargs: dict[str, str]) -> str:
    """Set values."""
    return str(kwargs)


def ring(callbacks: list[str]) -> str:
    """Call back numbers."""
    return str(callbacks)


def lead(run_manager: str) -> str:
    """Name a manager."""
    return run_manager


def start(runtime: str) -> str:
    """Start a program."""
    return runtime


class Narrow(BaseModel):
    order: int
    further: int = 1


@tool(args_schema=Narrow)
def narrow(order: int) -> str:
    """Look up an order."""
    return f"{order}"


class Later(BaseTool):
    name: str = "later"
    description: str = "Look up."

    def _run(self, *args: Any, **kwargs: Any) -> str:
        raise NotImplementedError

    async def _arun(self, order: int) -> str:
        return f"{order}"


@pytest.mark.parametrize(
    ("given", "name"),
    [
        (config, "config"),
        (command, "args"),
        (settings, "kwargs"),
        (ring, "callbacks"),
        (lead, "run_manager"),
        (start, "runtime"),
        (narrow, "further"),
        (Later(), "order"),
        (tool(filters), "filters"),
        (of_properties(self=STRING), "self"),
        (of_properties(runtime=STRING), "runtime"),
    ],
)
def test_a_tool_that_no_call_reaches_is_refused_when_it_is_loaded(given: Any, name: str):
    with pytest.raises(ValueError, match=f"'{name}'") as raised:
        load(given)
    assert "\n" not in str(raised.value)


def test_what_langchain_gives_does_not_count():
    def look_up(order: int, runtime: ToolRuntime, config: RunnableConfig) -> str:
        """Look up an order."""
        return f"{order} {runtime.tool_call_id == 'x'} {'configurable' in config}"

    loaded = load(look_up)
    assert set(loaded.parameters["properties"]) == {"order"}
    assert asyncio.run(loaded.call({"order": 17}, id="x")).text == "17 True True"


# Hints of servers, and tools of providers.


@pytest.mark.parametrize(
    ("hints", "effects", "repeatable"),
    [
        ({"readOnlyHint": True}, {}, True),
        ({"idempotentHint": True, "destructiveHint": True}, {}, True),
        ({"readOnlyHint": False, "destructiveHint": False}, {}, False),
        ({"readOnlyHint": "yes"}, {}, False),
        ({}, {}, False),
        ({"readOnlyHint": True}, {"look_up": "once"}, False),
        ({"readOnlyHint": False}, {"look_up": "repeatable"}, True),
    ],
)
def test_hints_of_a_server_say_what_may_be_repeated(hints: Any, effects: Any, repeatable: bool):
    tools = Tools([of_schema({"type": "object"}, metadata=hints)], effects=effects)
    assert tools.is_repeatable("look_up") == repeatable


def test_calls_that_set_a_value_keep_their_order():
    written: list[int] = []

    def setting(seconds: float) -> Any:
        async def write(**arguments: Any) -> str:
            await asyncio.sleep(seconds)
            written.append(arguments["value"])
            return "written"

        return write

    schema = {"type": "object", "properties": {"value": INTEGER}}
    common: dict[str, Any] = {"description": "Set.", "args_schema": schema, "metadata": {"idempotentHint": True}}
    tools = [
        StructuredTool(name=name, coroutine=setting(seconds), **common)
        for name, seconds in (("slow", 0.05), ("fast", 0.0))
    ]
    calls = [{"name": "slow", "args": {"value": 1}}, {"name": "fast", "args": {"value": 2}}]
    replies = iter([calls, [{"name": "finish", "args": {"answer": "done"}}]])
    model = ScriptedChat(responder=lambda prompt, schema: {"thought": "", "calls": next(replies)})
    agent("react", model=model, tools=tools, commitments=None, audit=None).invoke({"goal": "Set both."})
    assert written == [1, 2]


SEARCH = {"type": "web_search", "search_context_size": "low"}


def test_a_tool_of_the_provider_is_handed_to_the_model_and_never_called():
    tools = Tools([of_properties(a=STRING), SEARCH])
    assert list(tools.loaded) == ["look_up"]
    assert [native_tool(one) for one in tools.offered() if one.provided] == [SEARCH]


def test_a_dict_that_describes_a_function_is_refused():
    described = {"type": "function", "function": {"name": "look_up", "parameters": {"type": "object"}}}
    with pytest.raises(TypeError, match="give the function itself"):
        Tools([of_properties(a=STRING), described])

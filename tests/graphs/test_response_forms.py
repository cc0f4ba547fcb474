"""Answers in a form of the caller's: every form that LangChain's `create_agent` takes, and what it returns for it."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Generic, Literal, TypeVar, Union

import pytest
from langchain.agents import create_agent
from langchain.agents.structured_output import ProviderStrategy, ToolStrategy
from langchain_core.language_models import GenericFakeChatModel
from langchain_core.messages import AIMessage
from langgraph.checkpoint.memory import InMemorySaver
from pydantic import BaseModel, Field, RootModel, field_validator
from typing_extensions import TypedDict

from certigraph import ScriptedChat, agent, serializer
from certigraph.graphs.agent import AgentGraph

THREAD: Any = {"configurable": {"thread_id": "1"}}
T = TypeVar("T")


class Mail(BaseModel):
    """A field with another name than the model gives it."""

    sender: str = Field(alias="from")
    to: str


class Cents(BaseModel):
    """A validator that changes the value."""

    amount: int

    @field_validator("amount")
    @classmethod
    def to_cents(cls, amount: int) -> int:
        return 100 * amount


class Cat(BaseModel):
    kind: Literal["cat"]
    lives: int = 9


class Dog(BaseModel):
    kind: Literal["dog"]
    tricks: list[str]


class Owner(BaseModel):
    pet: Annotated[Cat | Dog, Field(discriminator="kind")]


class Page(BaseModel, Generic[T]):
    items: list[T]
    following: "Page[T] | None" = None


class Row(TypedDict):
    a: int


@dataclass
class Data:
    a: int


SCHEMA: dict[str, Any] = {"title": "Sum", "type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}

FORMS: dict[str, tuple[Any, dict[str, Any]]] = {
    "alias": (Mail, {"from": "ann", "to": "bob"}),
    "changing": (Cents, {"amount": 300}),
    "discriminated": (Owner, {"pet": {"kind": "dog", "tricks": ["sit"]}}),
    "generic": (Page[int], {"items": [1, 2], "following": {"items": [3]}}),
    "dict": (Row, {"a": 1}),
    "dataclass": (Data, {"a": 1}),
    "schema": (SCHEMA, {"a": 1}),
}
"""Form and what the model gives, of the forms that are one object."""


class CallingModel(GenericFakeChatModel):
    """A model that calls the tools that its script names."""

    def bind_tools(self, tools: Any, **options: Any) -> Any:
        """Return the model as it is."""
        return self


def look(q: str) -> str:
    """Look something up."""
    return "found"


def build(form: Any, args: Mapping[str, Any], method: Any = "react", **options: Any) -> AgentGraph:
    def answers(prompt: str, schema: Any) -> Any:
        if "conditions" in schema["properties"]:
            return {"reasoning": "", "conditions": []}
        if "holds" in schema["properties"]:
            return {"reason": "", "holds": 1, "absence": "nothing had to be done", "reachable": True}
        return {"thought": "", "calls": [{"name": "finish", "args": dict(args)}]}

    settings: Any = {"commitments": None, "response_format": form, **options}
    return agent(method, model=ScriptedChat(responder=answers), tools=[look], **settings)


def answer_of(graph: AgentGraph, config: Any = None) -> Any:
    return graph.invoke({"messages": [("user", "Who?")]}, config)["structured_response"]


@pytest.mark.parametrize("wrap", [lambda form: form, ToolStrategy, ProviderStrategy])
@pytest.mark.parametrize("name", FORMS)
def test_an_answer_is_what_create_agent_returns_for_the_same_form(name: str, wrap: Any):
    form, args = FORMS[name]
    strategy = ToolStrategy(form)
    call = {"name": strategy.schema_specs[0].name, "args": args, "id": "1", "type": "tool_call"}
    model = CallingModel(messages=iter([AIMessage("", tool_calls=[call])]))
    theirs = create_agent(model, [look], response_format=strategy).invoke({"messages": [("user", "Who?")]})
    ours = answer_of(build(wrap(form), args))
    assert ours == theirs["structured_response"]
    assert type(ours) is type(theirs["structured_response"])


@pytest.mark.parametrize(
    ("form", "given", "read"),
    [
        (ToolStrategy(Cat | Dog), {"kind": "cat"}, Cat(kind="cat")),
        (ToolStrategy(Union[Cat, Dog]), {"kind": "dog", "tricks": []}, Dog(kind="dog", tricks=[])),  # noqa: UP007
        (ToolStrategy({"oneOf": [SCHEMA, {**SCHEMA, "title": "Other"}]}), {"a": 1}, {"a": 1}),
        (Cat | Dog, {"kind": "cat"}, Cat(kind="cat")),
        (Annotated[Cat | Dog, Field(discriminator="kind")], {"kind": "cat"}, Cat(kind="cat")),
        (list[int], [1, 2], [1, 2]),
        (RootModel[list[Row]], [{"a": 1}], RootModel[list[Row]]([{"a": 1}])),
        ({"type": "array", "items": {"$ref": "#/definitions/n"}, "definitions": {"n": {"type": "integer"}}}, [1], [1]),
    ],
)
def test_forms_that_are_not_one_object_are_handed_in_as_the_answer(form: Any, given: Any, read: Any):
    graph = build(form, {"answer": given})
    state = graph.invoke({"messages": [("user", "Who?")]})
    assert state["structured_response"] == read
    assert type(state["structured_response"]) is type(read)
    assert json.loads(state["messages"][-1].text) == given


@pytest.mark.parametrize("method", ["react", "sdp"])
def test_an_agent_keeps_what_the_model_gave_and_reads_it_once(method: Any):
    seen = []

    class Counted(BaseModel):
        amount: int

        @field_validator("amount")
        @classmethod
        def count(cls, amount: int) -> int:
            seen.append(amount)
            return amount + 1

    state = build(Counted, {"amount": 300}, method).invoke({"messages": [("user", "Who?")]})
    assert (state["structured_response"], seen) == (Counted.model_construct(amount=301), [300])
    assert json.loads(state["messages"][-1].text) == {"amount": 300}


@pytest.mark.parametrize("name", FORMS)
def test_a_run_that_stopped_before_its_last_node_gives_the_same_answer(name: str):
    form, args = FORMS[name]
    saver = InMemorySaver(serde=serializer())
    first = build(form, args, checkpointer=saver)
    stopped: Any = first.invoke({"messages": [("user", "Who?")]}, THREAD, interrupt_before=["respond"])
    assert stopped["structured_response"] is None
    resumed = build(form, args, checkpointer=saver)
    answer: Any = resumed.invoke(None, THREAD)["structured_response"]
    assert answer == answer_of(build(form, args))
    kept = build(form, args, checkpointer=saver).get_state(THREAD).values["structured_response"]
    assert kept == answer and type(kept) is type(answer)


@pytest.mark.parametrize(
    "form",
    [{"answer": str}, {}, "an answer", 3, object(), {"$ref": "#/$defs/Missing"}, type("Strange", (), {})],
)
def test_a_form_of_another_kind_is_refused_in_one_line(form: Any):
    with pytest.raises(TypeError, match="response_format") as refused:
        build(form, {})
    assert "\n" not in str(refused.value)


def test_an_answer_that_does_not_fit_is_asked_for_again():
    given = iter([{"a": "three"}, {"b": 1}, {"a": 3}])

    def answers(prompt: str, schema: Any) -> Any:
        return {"thought": "", "calls": [{"name": "finish", "args": next(given)}]}

    options: Any = {"commitments": None, "audit": None, "response_format": Data}
    graph = agent("react", model=ScriptedChat(responder=answers), tools=[look], **options)
    assert answer_of(graph) == Data(3)

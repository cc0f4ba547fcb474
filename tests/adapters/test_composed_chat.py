"""Runnables that behave as chat models, and model objects by role."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from langchain.chat_models import init_chat_model
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.runnables import ConfigurableField, RunnableLambda
from pydantic import BaseModel, PrivateAttr

import certigraph
from certigraph.adapters.composed_chat import ComposedChat, as_chat_model
from certigraph.adapters.models.faults import FaultyModel
from certigraph.adapters.models.schemas import minimal_instance
from certigraph.adapters.protocols import Budget, Context
from certigraph.state.endings import Fault, LimitReached
from certigraph.state.records import Spent


class OfficeModel(BaseChatModel):
    """Model that looks an order up and hands in the answer, by native calls, and answers a schema minimally."""

    model_name: str = "first"
    failures: int = 0
    """Number of requests that fail before one is answered."""
    temperature: float | None = None
    _requests: list[dict[str, Any]] = PrivateAttr(default_factory=list)

    @property
    def _llm_type(self) -> str:
        return "office"

    @property
    def requests(self) -> list[dict[str, Any]]:
        return self._requests

    def bind_tools(self, tools: Any, **kwargs: Any) -> Any:
        return self.bind(tools=tools, **kwargs)

    def _generate(self, messages: Any, stop: Any = None, run_manager: Any = None, **kwargs: Any) -> ChatResult:
        self._requests.append({**kwargs, "temperature": kwargs.get("temperature", self.temperature)})
        if len(self._requests) <= self.failures:
            raise ConnectionError("the office is closed")
        known = "order 17 is paid" in str([message.content for message in messages])
        if kwargs.get("tools"):
            call = ("finish", {"answer": "It is paid."}) if known else ("look_up", {"order": 17})
            message = AIMessage("", tool_calls=[{"name": call[0], "args": {"thought": "t", **call[1]}, "id": "1"}])
        else:
            schema = kwargs["response_format"]["json_schema"]["schema"]
            given: dict[str, Any] = {"conditions": ["Order 17 was looked up."], "holds": int(known), "reachable": True}
            given["evidence"] = "order 17 is paid" if known else ""
            fields = {name: value for name, value in given.items() if name in schema["properties"]}
            message = AIMessage(json.dumps({**minimal_instance(schema), **fields}))
        return ChatResult(generations=[ChatGeneration(message=message)])


def look_up(order: int) -> str:
    """Look up an order."""
    return f"order {order} is paid"


def ask_agent(model: Any, method: Any = "sdp", config: Any = None, **settings: Any) -> dict[str, Any]:
    graph = certigraph.agent(method, model=model, tools=[look_up], commitments=None, check=None, audit=None, **settings)
    answer: dict[str, Any] = graph.invoke({"goal": "Was order 17 paid?"}, config)
    return answer


Compose = Callable[[BaseChatModel], Any]

COMPOSITIONS: dict[str, Compose] = {
    "with_fallbacks": lambda model: model.with_fallbacks([OfficeModel()]),
    "fallback of a broken model": lambda model: OfficeModel(failures=1_000).with_fallbacks([model]),
    "with_retry": lambda model: model.with_retry(stop_after_attempt=2),
    "bind": lambda model: model.bind(temperature=0.5),
    "with_config": lambda model: model.with_config(tags=["office"]),
    "configurable_fields": lambda model: model.configurable_fields(temperature=ConfigurableField(id="temperature")),
    "configurable_alternatives": lambda model: model.configurable_alternatives(
        ConfigurableField(id="office"), default_key="first", other=OfficeModel()
    ),
    "all together": lambda model: (
        model.bind(temperature=0.5)
        .with_retry(stop_after_attempt=2)
        .with_fallbacks([OfficeModel()])
        .with_config(tags=["x"])
    ),
}


@pytest.mark.parametrize("compose", COMPOSITIONS.values(), ids=[*COMPOSITIONS])
def test_an_agent_works_with_what_langchain_composes_of_chat_models(compose: Compose) -> None:
    model = OfficeModel()
    assert ask_agent(compose(model))["ending"] == "goal"
    assert {"tools" in request for request in model.requests} == {True, False}, "natively, and by the schema"


def test_what_is_bound_to_a_model_is_sent_with_every_request() -> None:
    model = OfficeModel()
    ask_agent(model.bind(temperature=0.5).with_retry())
    assert {request["temperature"] for request in model.requests} == {0.5}


def test_a_context_takes_a_composition_too() -> None:
    model = OfficeModel()
    context = Context(chat=model.with_retry())
    graph = certigraph.agent("react", model=OfficeModel(), tools=[look_up], commitments=None, check=None, audit=None)
    assert graph.invoke({"goal": "Was order 17 paid?"}, context=context)["ending"] == "finished"
    assert len(model.requests) == 2


@pytest.mark.slow
def test_a_run_configures_the_model_of_init_chat_model(monkeypatch: pytest.MonkeyPatch) -> None:
    import langchain.chat_models.base as chat_models

    made = {name: OfficeModel(model_name=name) for name in ("first", "second")}
    monkeypatch.setattr(chat_models, "_init_chat_model_helper", lambda model, **fields: made[model])
    model = init_chat_model()
    config = {"configurable": {"model": "second"}}
    assert ask_agent(model, config=config)["ending"] == "goal"
    assert (len(made["first"].requests), len(made["second"].requests) > 3) == (0, True)
    with pytest.raises(Fault, match="configurable"):
        ask_agent(init_chat_model())


def spent(method: Any, model: Any, **budget: Any) -> Spent:
    graph = certigraph.agent(
        method, model=model, tools=[look_up], commitments=None, check=None, audit=None, budget=Budget(**budget)
    )
    states = list(graph.stream({"goal": "Was order 17 paid?"}, stream_mode="values"))
    return states[-1]["spent"] if isinstance(states[-1]["spent"], Spent) else Spent(**states[-1]["spent"])


@pytest.mark.parametrize(
    "compose",
    [
        lambda model: model.with_retry(stop_after_attempt=3, wait_exponential_jitter=False),
        lambda model: model.with_fallbacks([model, model]),
        lambda model: model.with_fallbacks([model.with_retry(stop_after_attempt=2, wait_exponential_jitter=False)]),
    ],
    ids=["retries", "fallbacks", "both"],
)
def test_each_request_of_a_composition_counts(compose: Compose) -> None:
    model = OfficeModel(failures=2)
    assert spent("react", compose(model)).calls == len(model.requests) == 4


@pytest.mark.parametrize(
    "compose",
    [
        lambda model: model.with_retry(stop_after_attempt=9, wait_exponential_jitter=False),
        lambda model: model.with_fallbacks([model] * 8),
    ],
    ids=["retries", "fallbacks"],
)
def test_a_composition_sends_no_request_beyond_the_budget(compose: Compose) -> None:
    model = OfficeModel(failures=100)
    with pytest.raises(LimitReached):
        ask_agent(compose(model), "react", budget=Budget(calls=3), on_limit="raise")
    assert len(model.requests) == 3


def test_faults_are_injected_in_front_of_a_composition() -> None:
    model = OfficeModel()
    faulty = FaultyModel(chat=as_chat_model(model.with_retry()), faults="timeout=0.3,seed=1")
    used = spent("react", faulty)
    assert (len(model.requests), used.calls) == (2, 2 + sum(faulty.injected.values()))


def test_roles_have_models_of_their_own() -> None:
    model, validator = OfficeModel(), OfficeModel(model_name="second")
    assert ask_agent(model, roles={"validator": validator.with_retry()})["ending"] == "goal"
    forms = [[request["response_format"]["json_schema"]["name"] for request in one.requests if "tools" not in request]
             for one in (model, validator)]  # fmt: skip
    assert all(forms) and not set(forms[0]) & set(forms[1])
    assert not any("tools" in request for request in validator.requests), "the executor keeps the other model"


def test_a_role_that_is_not_one_is_refused() -> None:
    with pytest.raises(ValueError, match="judge"):
        certigraph.agent(model=OfficeModel(), roles={"referee": OfficeModel()}, tools=[look_up])


class Form(BaseModel):
    answer: str


@pytest.mark.parametrize(
    "given",
    [
        5,
        RunnableLambda(lambda messages: messages),
        OfficeModel().bind_tools([look_up]),
        OfficeModel().bind(response_format={"type": "json_object"}),
        OfficeModel() | RunnableLambda(lambda message: message.text),
        OfficeModel().with_fallbacks([RunnableLambda(lambda messages: AIMessage("x"))]),
    ],
    ids=["number", "function", "tools", "form", "chain", "fallback"],
)
def test_what_does_not_answer_as_a_chat_model_is_refused_in_one_line(given: Any) -> None:
    for refuse in (
        lambda: certigraph.agent(model=given, tools=[look_up]),
        lambda: certigraph.agent(model=OfficeModel(), roles={"validator": given}, tools=[look_up]),
    ):
        with pytest.raises(TypeError) as refused:
            refuse()
        assert "\n" not in str(refused.value)
    with pytest.raises((TypeError, ValueError)):
        Context(chat=given)


def test_the_attributes_of_a_composition_are_those_of_its_first_model() -> None:
    first, second = OfficeModel(), OfficeModel(model_name="second")
    composed = as_chat_model(first.with_fallbacks([second]).with_retry())
    assert isinstance(composed, ComposedChat)
    assert (composed.models, composed.model_name) == ([first, second], "first")

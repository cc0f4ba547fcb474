"""Tests of `adapters.models.calls`."""

import asyncio
import base64
import json
import warnings
from collections.abc import Coroutine
from enum import Enum
from typing import Annotated, Any, Literal, TypeVar
from urllib.parse import quote

import pytest
from helpers.processes.children import run_code
from helpers.servers.endpoint_stub import stub
from hypothesis import given
from hypothesis import strategies as st
from langgraph.runtime import Runtime
from pydantic import Field

from certigraph import Context as Context_certigraph
from certigraph import ScriptedModelWarning
from certigraph.adapters.models.calls import ask, ask_text, choose, warn_scripted_default
from certigraph.adapters.models.chat_models import (
    chat_model,
    describe_model,
    describe_models,
    label_object,
)
from certigraph.adapters.models.prices import FREE_PRICE, cost_in_usd, price_of
from certigraph.adapters.models.prompts import Prompt
from certigraph.adapters.models.schemas import (
    MAX_CHARS,
    ParseError,
    bound_schema,
    minimal_instance,
    parse_reply,
    schema_of,
)
from certigraph.adapters.models.scripts import ScriptedChat
from certigraph.adapters.models.usage import Call, Meter, current_meter, metering
from certigraph.adapters.protocols import Budget, Context
from certigraph.adapters.redaction import redact
from certigraph.graphs import sdp
from certigraph.state.endings import Fault, LimitReached, UnknownName
from certigraph.state.records import Record, Usage

T = TypeVar("T")
PROMPT = Prompt("You pick hotels.", "Which one?")
KEY = "sk-proj/9+aé=%zz 'q\"Zz77xyz0123456789"


class Stay(Record):
    hotel: Literal["Inn", "Lodge"]
    nights: int = Field(ge=1)


class Color(Enum):
    RED = "red"
    BLUE = "blue"


class Tree(Record):
    label: str = Field(min_length=2)
    children: list["Tree"]
    next: "Tree | None"


class Everything(Record):
    color: Color
    flag: bool
    share: float = Field(gt=0.5)
    count: int = Field(le=-3)
    nothing: None
    pair: tuple[int, Literal["x"]]
    stays: Annotated[list[Stay], Field(min_length=2)]
    either: Stay | str
    table: dict[str, int]
    skipped: str = "kept out"


def run(coroutine: Coroutine[Any, Any, T]) -> T:
    return asyncio.run(coroutine)


def live(model: Any, **kwargs: Any) -> Runtime[Context]:
    return Runtime(context=Context(chat=model, **kwargs))


def metered(coroutine: Coroutine[Any, Any, T], **budget: Any) -> tuple[T | Exception, Meter]:
    async def inside() -> T | Exception:
        try:
            return await coroutine
        except (Fault, LimitReached) as error:
            return error

    with metering(Meter("propose", Budget(**budget))) as meter:
        return run(inside()), meter


# --- asking ---------------------------------------------------------------------------------------------------------


class Spy(ScriptedChat):
    seen: list[list[str]] = Field(default_factory=list)

    def _generate(self, messages: Any, *args: Any, **kwargs: Any) -> Any:
        self.seen.append([m.content for m in messages])
        return super()._generate(messages, *args, **kwargs)


GOOD = '{"hotel": "Inn", "nights": 2}'


def test_a_wrong_answer_is_repaired_from_the_last_try_alone_and_every_try_is_counted() -> None:
    spy = Spy(replies=("prose", '{"hotel": "Ritz", "nights": 2}', GOOD))
    answer, meter = metered(ask(PROMPT, Stay, role="executor", runtime=live(spy)))
    assert answer == Stay(hotel="Inn", nights=2)
    assert [bool(call.failure) for call in meter.records] == [True, True, False]
    assert meter.calls == 3 and meter.usage(1.5).calls == 3 and meter.usage(1.5).seconds == 1.5
    assert meter.input_tokens == sum(call.input_tokens for call in meter.records) > 0
    _, second, third = spy.seen
    assert second[2] == "prose" and "not a JSON object" in second[3]
    assert "Ritz" in third[2] and "hotel: Input should be 'Inn' or 'Lodge'" in third[3] and "prose" not in third


def test_three_unusable_answers_are_a_fault_that_names_model_schema_and_answer() -> None:
    model = ScriptedChat(replies=("a", "b", "see " + "c" * 5000, GOOD), model_name="tiny")
    fault, meter = metered(ask(PROMPT, Stay, role="executor", runtime=live(model)))
    assert isinstance(fault, Fault) and fault.ending == "error:model" and meter.calls == 3
    assert "tiny gave no Stay in 3 tries" in str(fault) and "see ccc" in str(fault) and len(str(fault)) < 1000


def test_choose_takes_one_of_the_texts_only() -> None:
    model = ScriptedChat(replies=('{"choice": "Castle"}', "**Lodge**", "choice: Inn", "nothing"))
    runtime = live(model)
    assert run(choose(PROMPT, ["Inn", "Lodge"], role="x", runtime=runtime)) == "Lodge"
    assert run(choose(PROMPT, ["Inn", "Lodge"], role="x", runtime=runtime)) == "Inn"
    with pytest.raises(ValueError, match="at least one option"):
        run(choose(PROMPT, [], role="x", runtime=runtime))


@pytest.mark.slow
def test_the_options_stand_in_the_schema_only_after_an_answer_that_is_none_of_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with stub(*(json.dumps({"choice": text}) for text in ("Castle", "Lodge", "Inn"))) as server:
        monkeypatch.setenv("CERTIGRAPH_BASE_URL", server.url)
        monkeypatch.setenv("OPENAI_API_KEY", "none")
        runtime = Runtime(context=Context(model="openai:stub"))
        answers = [run(choose(PROMPT, options, role="x", runtime=runtime)) for options in (["Inn", "Lodge"], ["Inn"])]
    assert answers == ["Lodge", "Inn"]
    fields = [body["response_format"]["json_schema"]["schema"]["properties"]["choice"] for body in server.requests]
    assert [field.get("enum") for field in fields] == [None, ["Inn", "Lodge"], None]
    assert fields[0] == fields[2]


def test_roles_and_the_expert_decide_who_answers() -> None:
    class Benchmark:
        def expert(self) -> Any:
            return lambda prompt, schema: {"choice": schema["properties"]["choice"]["enum"][-1]}

    context = Context(benchmark=Benchmark(), roles={"validator": "scripted:first"})
    runtime = Runtime(context=context)
    assert run(choose(PROMPT, ["Inn", "Lodge"], role="planner", runtime=runtime)) == "Lodge"
    assert run(choose(PROMPT, ["Inn", "Lodge"], role="validator", runtime=runtime)) == "Inn"
    assert run(ask_text(PROMPT, role="validator", runtime=runtime)) == ""


# --- the budget -----------------------------------------------------------------------------------------------------


def test_a_loop_stops_at_exactly_the_budgeted_calls_even_in_parallel() -> None:
    def question() -> Coroutine[Any, Any, str]:
        return choose(PROMPT, ["a", "b"], role="x", runtime=Runtime(context=Context()))

    async def forever() -> None:
        while True:
            await question()

    async def burst() -> None:
        await asyncio.gather(*(question() for _ in range(30)))

    for loop in (forever, burst):
        stopped, meter = metered(loop(), calls=7)
        assert isinstance(stopped, LimitReached) and stopped.kind == "calls" and meter.calls == len(meter.records) == 7


def test_what_was_spent_before_counts_for_each_kind() -> None:
    usage = Usage(node="a", calls=2, input_tokens=60, output_tokens=40, usd=0.5, seconds=9)
    before = usage.spent() + usage.spent()
    spent = {"calls": 4, "tokens": 200, "usd": 1.0, "seconds": 18.0}
    for kind, amount in spent.items():
        short = amount - 1 if kind != "usd" else 0.9
        with pytest.raises(LimitReached) as stopped:
            Meter("b", Budget(**{kind: short}), before).check()
        assert stopped.value.kind == kind and stopped.value.ending == f"limit:{kind}"
        Meter("b", Budget(**{kind: amount + 1}), before).check(calls=1)


def test_spent_calls_stop_the_next_call_but_not_a_step_that_needs_none() -> None:
    meter = Meter("act", Budget(calls=1, usd=0))
    meter.charge(Call(role="x", model="m", schema_name="s", input_tokens=3))
    meter.check()
    with pytest.raises(LimitReached), meter.open_call(Call(role="x", model="m", schema_name="s"), FREE_PRICE):
        pytest.fail("the call must not happen")


def test_meters_do_not_leak_out_of_their_block() -> None:
    with metering(Meter("a", Budget())) as outer:
        with metering(Meter("b", Budget())) as inner:
            assert current_meter() is inner
        assert current_meter() is outer
    assert current_meter() not in (inner, outer) and current_meter().budget == Budget()


# --- parsing --------------------------------------------------------------------------------------------------------

SCHEMA = schema_of(Stay)


@pytest.mark.slow
@given(st.sampled_from(["Inn", "Lodge"]), st.integers(1, 10**6), st.sampled_from(["", "Sure!\n", "<think>{}</think>"]))
def test_the_same_answer_is_read_from_each_of_its_disguises(hotel: str, nights: int, before: str) -> None:
    expected = {"hotel": hotel, "nights": nights}
    plain = json.dumps(expected)
    disguises = [
        plain,
        f"```json\n{plain}\n```",
        plain[:-1] + ",}",
        plain + "}",
        plain.replace('"', "'"),
        f"hotel: {hotel}\nnights = {nights}",
    ]
    assert [parse_reply(before + text, SCHEMA) for text in disguises] == [expected] * len(disguises)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ('{"hotel": "' + "x" * MAX_CHARS + '"}', "characters"),
        ('{"hotel": ' * 40 + "1" + "}" * 40, "deeper"),
        ("[" * 90_000, "does not end"),
        ('{"nights": 1e999}', "number inf"),
        ('{"nights": NaN}', "number nan"),
        ('{"nights": 9223372036854775808}', "64 bits"),
        ('{"hotel": "\\ud800"}', "surrogate"),
        ("7" * 5000, "not a JSON object"),
        ("", "not a JSON object"),
    ],
)
def test_hostile_answers_are_refused_for_what_they_are(text: str, why: str) -> None:
    with pytest.raises(ParseError, match=why):
        parse_reply(text, SCHEMA)


# --- schemas and scripted models ------------------------------------------------------------------------------------


@pytest.mark.parametrize("model", [Stay, Everything, Tree])
def test_the_least_instance_fits_its_schema(model: type[Record]) -> None:
    for schema in (model.model_json_schema(), schema_of(model)):
        model.model_validate(minimal_instance(schema))


@pytest.mark.slow
def test_schemas_are_bounded_everywhere_and_free_of_references_unless_recursive() -> None:
    def open_ended(node: Any) -> bool:
        if isinstance(node, list):
            return any(map(open_ended, node))
        if not isinstance(node, dict):
            return False
        text = node.get("type") == "string" and not node.keys() & {"enum", "const", "maxLength"}
        return text or (node.get("type") == "array" and "maxItems" not in node) or any(map(open_ended, node.values()))

    assert open_ended(Everything.model_json_schema()) and not open_ended(schema_of(Everything, 3_000))
    assert "$ref" not in json.dumps(schema_of(Everything)) and "$ref" in json.dumps(schema_of(Tree))
    assert not open_ended(schema_of(Tree, 3_000))
    kept = {"type": "object", "properties": {"title": {"type": "string", "maxLength": 5}}}
    assert bound_schema(kept) == kept


@pytest.mark.slow
def test_a_scripted_run_imports_no_endpoint_client() -> None:
    code = (
        "import asyncio, sys\n"
        "from langgraph.runtime import Runtime\n"
        "from certigraph.adapters.protocols import Context\n"
        "from certigraph.adapters.models import Prompt, choose\n"
        "asyncio.run(choose(Prompt('', ''), ['a'], role='x', runtime=Runtime(context=Context())))\n"
        "assert not {'openai', 'langchain_openai', 'xllamacpp', 'inspect_ai'} & sys.modules.keys()"
    )
    done = run_code(code)
    assert done.returncode == 0, done.stderr


# --- endpoints ------------------------------------------------------------------------------------------------------


@pytest.fixture
def openai(monkeypatch: pytest.MonkeyPatch) -> Any:
    def runtime(url: str) -> Runtime[Context]:
        monkeypatch.setenv("CERTIGRAPH_BASE_URL", url)
        return Runtime(context=Context(model="openai:stub"))

    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    return runtime


def test_an_endpoint_is_queried_in_schema_mode_and_its_usage_arrives(openai: Any) -> None:
    with stub(GOOD) as server:
        runtime = openai(server.url)
        # a second event loop gets the same cached model
        for _ in range(2):
            answer, meter = metered(ask(PROMPT, Stay, role="executor", runtime=runtime))
            assert answer == Stay(hotel="Inn", nights=2)
        assert (meter.input_tokens, meter.output_tokens, meter.cached_tokens, meter.usd) == (100, 10, 64, 0.0)
        sent = server.requests[0]
        assert sent["response_format"]["json_schema"] == {"name": "Stay", "schema": SCHEMA, "strict": False}
        assert sent["temperature"] == 0 and [m["role"] for m in sent["messages"]] == ["system", "user"]


def test_a_question_may_be_sampled_at_another_temperature_where_the_model_takes_one(openai: Any) -> None:
    with stub(GOOD) as server:
        for server.refuses_temperature in (False, True):
            shown = ask(PROMPT, Stay, role="executor", runtime=openai(server.url), temperature=0.3)
            assert metered(shown)[0] == Stay(hotel="Inn", nights=2)
        assert server.requests[0]["temperature"] == 0.3
        assert "temperature" not in server.requests[-1]
        assert "response_format" in server.requests[-1]


def test_an_endpoint_that_refuses_schema_mode_is_remembered_and_gets_the_schema_in_the_prompt(openai: Any) -> None:
    with stub("Inn", f"```\n{GOOD}\n```", refuses_schema=True) as server:
        runtime = openai(server.url)
        for calls in (3, 1):  # refused, "Inn" and the answer; the answer
            answer, meter = metered(ask(PROMPT, Stay, role="executor", runtime=runtime))
            assert answer == Stay(hotel="Inn", nights=2) and meter.calls == calls
        assert ["response_format" in request for request in server.requests] == [True, False, False, False]
        assert all(
            json.dumps(request["messages"]).count("fits this JSON schema") == 1 for request in server.requests[1:]
        )


def test_the_reasoning_effort_in_a_models_name_is_sent_to_the_endpoint_and_only_then(openai: Any) -> None:
    with stub(GOOD) as server:
        runtime = openai(server.url)
        for name in ("openai:stub?effort=medium", "openai:stub"):
            runtime.context.model = name
            metered(ask(PROMPT, Stay, role="executor", runtime=runtime))
    sent = [(request["model"], request.get("reasoning_effort")) for request in server.requests]
    assert sent == [("stub", "medium"), ("stub", None)]
    with_effort, without = (
        chat_model(name)._identifying_params for name in ("openai:stub?effort=medium", "openai:stub")
    )
    assert with_effort != without  # or kept replies of one would serve the other


def test_an_endpoint_that_refuses_an_effort_and_a_name_without_one_are_reported(openai: Any) -> None:
    with stub(GOOD, status=400) as server:
        runtime = openai(server.url)
        runtime.context.model = "openai:stub?effort=medium"
        fault, _ = metered(ask(PROMPT, Stay, role="executor", runtime=runtime))
        assert "remove ?effort=medium" in str(fault)
    with pytest.raises(UnknownName, match=r"openai:NAME\?effort=medium"):
        chat_model("openai:stub?effort=")


def test_an_answer_cut_short_is_counted_and_requested_again(openai: Any) -> None:
    with stub(GOOD, finish="length") as server:
        fault, meter = metered(ask(PROMPT, Stay, role="executor", runtime=openai(server.url)))
        assert "ended the answer early (length)" in str(fault) and (meter.calls, meter.output_tokens) == (3, 30)
        assert run(ask_text(PROMPT, role="executor", runtime=openai(server.url))) == GOOD


@pytest.mark.parametrize(("status", "remedy"), [(401, "OPENAI_API_KEY"), (404, "model's name"), (400, "context")])
def test_a_refusal_is_a_fault_with_its_remedy_and_without_the_key(
    openai: Any, monkeypatch: pytest.MonkeyPatch, status: int, remedy: str
) -> None:
    secret = "sentinel-0123456789"
    with stub("", status=status) as server:
        runtime = openai(server.url)
        monkeypatch.setenv("OPENAI_API_KEY", secret)
        fault, _ = metered(ask(PROMPT, Stay, role="executor", runtime=runtime))
    assert isinstance(fault, Fault) and remedy in str(fault) and "[redacted]" in str(fault) and secret not in str(fault)


def test_a_missing_key_is_a_fault_that_names_both_ways_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.delenv("CERTIGRAPH_BASE_URL", raising=False)
    with pytest.raises(Fault, match=r"OPENAI_API_KEY=.*CERTIGRAPH_BASE_URL="):
        chat_model("openai:gpt-4o-mini")


def test_a_bug_of_the_caller_is_not_blamed_on_the_model() -> None:
    def broken(prompt: str, schema: Any) -> Any:
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        run(choose(PROMPT, ["a"], role="x", runtime=live(ScriptedChat(responder=broken))))


def cost(name: str, usage: Any) -> float:
    return cost_in_usd(price_of(chat_model(name)), usage)


def test_prices_apply_to_openais_own_endpoint_and_cached_tokens_are_cheaper(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    monkeypatch.delenv("OPENAI_API_BASE", raising=False)
    monkeypatch.delenv("CERTIGRAPH_BASE_URL", raising=False)
    monkeypatch.setenv("OPENAI_API_KEY", "k" * 20)
    usage: Any = {"input_tokens": 1_000_000, "output_tokens": 1_000_000, "total_tokens": 2_000_000}
    assert cost("openai:gpt-4o-mini", usage) == pytest.approx(0.75)
    half_cached = {**usage, "input_token_details": {"cache_read": 500_000}}
    assert cost("openai:gpt-4o-mini", half_cached) == pytest.approx(0.7125)
    assert cost("openai:unheard-of", usage) == 0
    monkeypatch.setenv("CERTIGRAPH_BASE_URL", "http://127.0.0.1:9/v1")
    assert cost("openai:gpt-4o-mini", usage) == 0


# --- secrets --------------------------------------------------------------------------------------------------------


@given(before=st.binary(max_size=9), after=st.binary(max_size=9))
def test_the_key_is_masked_inside_longer_base64(before: bytes, after: bytes) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OPENAI_API_KEY", KEY)
        text = base64.b64encode(before + KEY.encode() + after).decode()
        assert "[redacted]" in redact(text) and len(redact(text)) < len(text) - len(KEY)


def test_the_keys_of_search_providers_are_masked_next_to_it(monkeypatch: pytest.MonkeyPatch) -> None:
    keys = {"OPENAI_API_KEY": KEY, "SERPER_API_KEY": "serper0123456789", "BRAVE_API_KEY": f"{KEY}-and-more"}
    for name, key in keys.items():
        monkeypatch.setenv(name, key)
    forms = [form for key in keys.values() for form in (key, quote(key, safe=""), key.encode().hex())]
    assert redact("|".join(forms)) == "|".join(["[redacted]"] * len(forms))
    monkeypatch.delenv("BRAVE_API_KEY")
    assert redact(f"{KEY}-and-more") == "[redacted]-and-more"


def test_an_expert_without_a_hash_answers_too():
    class Listed(list[str]):
        def __call__(self, prompt: str, schema: dict[str, Any]) -> Any:
            return self[0]

    model = chat_model("scripted:expert", expert=Listed(["right"]))
    assert model.invoke("What is it?").text == "right"


# A graph that is invoked without a model says once that a script answers; one whose model is named says nothing.

TASK = {"task": {"benchmark": "blocksworld", "id": "4-0"}}


@pytest.mark.parametrize("context", [None, Context_certigraph(), {"memory": ""}])
def test_the_default_model_is_announced_once(context: object) -> None:
    warn_scripted_default.cache_clear()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        sdp.graph.invoke(TASK, context=context)  # type: ignore[arg-type]
    (warning,) = [one for one in caught if one.category is ScriptedModelWarning]
    assert "scripted:expert: a script that knows the answer, no language model" in str(warning.message)


@pytest.mark.parametrize("context", [Context_certigraph(model="scripted:expert"), {"model": "scripted:expert"}])
def test_a_model_that_was_named_is_not(context: object) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error", ScriptedModelWarning)
        assert sdp.graph.invoke(TASK, context=context)["certificates"]  # type: ignore[arg-type]


def test_every_script_says_that_it_is_none_and_other_models_only_their_name() -> None:
    scripts = ("scripted:first", "scripted:expert", "scripted:random", "simulated", "simulated:act=0.2")
    assert all(describe_model(name).endswith(", no language model") for name in scripts)
    assert describe_model(label_object(ScriptedChat())).endswith("object, no language model")
    text = describe_models("openai:gpt-4o", {"validator": "scripted:first"})
    assert text.startswith("model openai:gpt-4o; validator scripted:first: a script that takes the first option")

"""Readers of what models write: JSON of an asked form, task graphs, plans, notes, and answers."""

import json
from typing import Any

from fuzzing.target import Target, join_texts, of_text, of_texts
from langchain_core.messages import AIMessage
from pydantic import BaseModel, ValidationError
from typing_extensions import TypedDict

from certigraph.adapters.matching import rank_actions
from certigraph.adapters.models.clients import _write_arguments_as_text
from certigraph.adapters.models.endpoint import _native_calls
from certigraph.adapters.models.prompts import quote, unquote_line
from certigraph.adapters.models.schemas import ParseError, parse_reply, schema_of
from certigraph.adapters.models.tool_calls import OfferedTool, read_calls
from certigraph.adapters.redaction import redact, redact_record
from certigraph.adapters.tools.answer_forms import ResponseForm
from certigraph.adapters.tools.contents import format_content
from certigraph.adapters.tools.memory import (
    MemoryRefusal,
    MemorySizes,
    append_to_core,
    format_page,
    rank_texts,
    replace_in_core,
)
from certigraph.adapters.tools.rules import load_rules, parse_fact_form
from certigraph.benchmarks.hotpotqa.benchmark import answer_scores
from certigraph.benchmarks.locomo.benchmark import is_abstention, stemmed_f1
from certigraph.benchmarks.research.operators import join_answers
from certigraph.benchmarks.research.plans import Decomposition, Found, ResearchTools
from certigraph.benchmarks.research.scoring import score_answer
from certigraph.benchmarks.travelplanner.written_plans import MalformedPlanError, read_plan, read_turn
from certigraph.nodes.answer_audits import answer_verdict_form
from certigraph.nodes.beliefs import Findings
from certigraph.nodes.call_checks import (
    CallConsent,
    CallProblem,
    ConsentedCalls,
    KnownWork,
    checked_calls_form,
    deny,
    read_finding,
)
from certigraph.nodes.factored_answers import ChangedObjects, apply_changes
from certigraph.nodes.memgpt import ManagedMove
from certigraph.nodes.notes import parse_notes
from certigraph.nodes.policies import SplitPolicy
from certigraph.nodes.tdp import Subtasks, to_nodes
from certigraph.nodes.verdicts import Holds
from certigraph.nodes.verification import verify
from certigraph.runtime.texts import split_answer
from certigraph.state.records import Observation, Task
from certigraph.state.rewards import FactoredState
from certigraph.state.run import AnsweredCall
from certigraph.state.tdp import Dag, decomposition_problems, repair_nodes
from certigraph.state.tools import ToolCall

ANSWER = b'{"reason": "it is", "holds": 1}'
STEPS = b'{"steps": [{"kind": "collect", "goal": "List the gyms."}]}'
NODES = b'{"nodes": [{"id": "n1", "task": "go", "needs": []}, {"id": "n2", "task": "come", "needs": ["n1"]}]}'
FACTS = b'{"facts": [{"fact": "A is B", "source": "A"}], "resolved": [], "questions": ["who?"]}'
MOVE = b'{"thought": "so", "tool": "core_memory_replace", "text": "a", "new": "b", "page": 1}'
OBJECTS = b'{"objects": [{"object": "egg 1", "attributes": [{"name": "location", "value": "table"}]}]}'
DAY = b'[{"days": 1, "current_city": "from A to B", "lunch": "-", "accommodation": "Inn, B"}]'

CALLS = b'{"thought": "so", "calls": [{"name": "pay", "args": {"amount": 3}}]}'
WRITTEN_CALLS = b"So I pay.\nAction: pay(amount=3); pay(amount=3)"

OFFERED = [OfferedTool("pay", "", {"type": "object", "properties": {"amount": {"type": "number"}}})]


class Note(TypedDict):
    """A form of an answer that a user may give."""

    title: str
    tags: list[str]


FORMS: tuple[type[BaseModel], ...] = (
    *(Holds, Decomposition, Found, ResearchTools, Subtasks, Findings, ChangedObjects),
    ManagedMove,
    checked_calls_form((1, 2), with_consent=True),
    checked_calls_form((1, 2), with_consent=True, with_left=True),
    answer_verdict_form(2),
    SplitPolicy,
)
"""Forms of every shape that models are asked for: numbers, literals, lists, objects in lists and in objects."""

TASK = Task(benchmark="tools", id="1", goal="Pay.")

PIECE = {"type": "object", "properties": {"choice": {"type": "string", "enum": ["go", "stay"]}}}


def _facts(form: str, answer: str) -> None:
    parse_fact_form(form)
    call = AnsweredCall(tool="get_order", args={"order": answer}, answer=answer)
    load_rules({}, {"get_order": form}, {}).read_facts([call, call])


def _quoted_words(words: str, text: str) -> None:
    known = KnownWork(TASK, text, text, [AnsweredCall(tool="get_order", answer=text)], (), 1)
    problem = CallProblem(call=1, outcome="forbidden", rule=words, fact=words, next=words)
    answer = ConsentedCalls(reason=words, problems=[problem], consent=[CallConsent(calls=[1, 2], words=words)])
    call = ToolCall(name="pay")
    for number in (1, 2):
        deny(call, read_finding(number, call, answer, known))


PAYMENT = ResponseForm({"type": "object", "properties": {"amount": {"type": "number"}}, "required": ["amount"]})
NOTE = ResponseForm(Note)


def _stored(value: Any) -> str:
    """What was read can be written down: as JSON, in UTF-8."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=False)
    text.encode()
    return text


def _form(text: str) -> None:
    for form in FORMS:
        schema = schema_of(form)
        try:
            _stored(form.model_validate(parse_reply(text, schema)).model_dump(mode="json"))
        except (ParseError, ValidationError):
            continue


def _tool_calls(text: str) -> None:
    _stored([call.as_json() for call in read_calls(text, OFFERED).calls])


def _structured_answer(text: str) -> None:
    """An answer that was checked can be read and written down."""
    for form in (PAYMENT, NOTE):
        try:
            args = parse_reply(text, form.schema)
        except ParseError:
            continue
        if isinstance(args, dict) and not form.check(args):
            assert form.read(args) == form.read(args)
            form.text(args).encode()


def _native_calls_of(text: str) -> str:
    """What a model wrote as the arguments of a call, as its client reads it and as we do."""
    response = {"choices": [{"message": {"tool_calls": [{"function": {"name": "pay", "arguments": text}}]}}]}
    _write_arguments_as_text(response, "message")
    call = {"name": "pay", "args": text, "id": "1", "error": None, "type": "invalid_tool_call"}
    return json.dumps(_native_calls(AIMessage("", invalid_tool_calls=[call]), None), allow_nan=False)


def _verified(text: str) -> bool:
    """A conversation in OpenAI's form, whose calls may hold anything as arguments, can be verified."""
    calls = [{"id": "1", "type": "function", "function": {"name": "pay", "arguments": text}}]
    messages = [{"role": "user", "content": "Pay."}, {"role": "assistant", "tool_calls": calls}]
    return verify(messages, ["It is paid."]).holds


def _task_graph(text: str) -> Dag:
    """A task graph that was refused is mended into one that is taken."""
    nodes = to_nodes(Subtasks.model_validate(parse_reply(text, schema_of(Subtasks))).nodes)
    list(decomposition_problems(nodes, 8))
    return Dag(nodes=repair_nodes(nodes, goal="settle it", most=8).nodes)


def _factored(text: str) -> FactoredState:
    return apply_changes(FactoredState(), ChangedObjects.model_validate(parse_reply(text, schema_of(ChangedObjects))))


def _deliver(text: str) -> None:
    _stored(read_plan(read_turn(text).plan))


def _remembered(text: str, old: str, new: str) -> None:
    """No edit makes core memory longer than it may be, and a page has a line for each result."""
    sizes = MemorySizes(core=60, page=2)
    assert len(format_page(rank_texts(old, [text, new]), 1, sizes).splitlines()) <= 3
    edited = replace_in_core(append_to_core((), text, sizes.core), old, new, sizes.core)
    assert sum(map(len, edited)) <= sizes.core
    assert all(len(line.splitlines()) == 1 for line in edited)


def _quoted(text: str) -> None:
    assert quote(text).count("</world>") == 1
    unquote_line(text)


def _redacted(text: str) -> object:
    """What a world says; half a surrogate pair is refused before."""
    whole = text.encode(errors="replace").decode()
    return redact(text), redact_record(Observation(text=whole, sources=(whole,)))


TARGETS = (
    Target(
        "model.json",
        of_text(lambda t: _stored(parse_reply(t, PIECE))),
        (ParseError,),
        (b'{"choice": "go"}', b"choice: go"),
    ),
    Target(
        "model.array", of_text(lambda t: _stored(parse_reply(t, {"type": "array"}))), (ParseError,), (b"[1, {}]", DAY)
    ),
    Target(
        "model.forms",
        of_text(_form),
        (),
        (ANSWER, STEPS, NODES, FACTS, OBJECTS, MOVE, b"<think>x</think>```json\n{}```"),
    ),
    Target("model.tool_calls", of_text(_tool_calls), (ParseError,), (CALLS, WRITTEN_CALLS)),
    Target(
        "model.structured_answer", of_text(_structured_answer), (), (b'{"amount": 3}', b'{"title": "a", "tags": []}')
    ),
    Target("model.native_calls", of_text(_native_calls_of), (), (b'{"amount": 3}', b'"{}"', b"3,")),
    Target("model.verified_arguments", of_text(_verified), (), (b'{"amount": 3}', b"3,")),
    Target("model.task_graph", of_text(_task_graph), (ParseError, ValidationError), (NODES,)),
    Target("model.factors", of_text(_factored), (ParseError, ValidationError), (OBJECTS,)),
    Target("model.plan", of_text(_deliver), (MalformedPlanError,), (b"Thought: so\nAction: deliver\n" + DAY, DAY)),
    Target(
        "model.notes",
        of_text(parse_notes),
        (),
        (b"- A is B\n* nothing new", b"Nothing new.", b'{"notes": ["A", ["B"]]}', b"<scratchpad>x\nNotes:\n- A"),
    ),
    Target(
        "model.action",
        of_texts(lambda t, *known: rank_actions(t, known), 4),
        (),
        (join_texts("I will go north", "go north", "take egg", "go to fridge 1"),),
    ),
    Target(
        "model.memory",
        of_texts(_remembered, 3),
        (MemoryRefusal,),
        (join_texts("Ada likes tea\nShe lives in Tor", "tea\nShe", "milk"), join_texts("a b", "b", "")),
    ),
    Target(
        "tool.content",
        of_text(format_content),
        (),
        (b'[{"type": "image", "data": "aGk="}]', b'[{"type": "text", "text": "a"}]', b"[{}]", b"whole"),
    ),
    Target(
        "answer.facts",
        of_texts(_facts, 2),
        (ValueError,),
        (join_texts("orders[order][day]", '{"paid": 3}'), join_texts("policy", "(so)\n[1]")),
    ),
    Target(
        "answer.quoted_words",
        of_texts(_quoted_words, 2),
        (),
        (
            join_texts("no more ... paid", "No more than was paid."),
            join_texts("可以全额退款 ... 17", "<b>订单</b>17: 可以全额退款\\n"),
        ),
    ),
    Target("model.quoted", of_text(_quoted), (), (b"<world> is < / world >",)),
    Target(
        "model.redacted",
        of_text(_redacted),
        (),
        (b"Bearer abcdefghijklmnopqrst sk-abcdefghijklmnopqrstu http://a:b@c",),
    ),
    Target("answer.lines", of_text(split_answer), (), (b'["a", "b"]', b"a\nb")),
    Target(
        "answer.handed_in",
        of_texts(lambda *t: join_answers(t), 3),
        (),
        (join_texts("one", "two"), join_texts('{"a": 1}', '{"b": 2}')),
    ),
    Target(
        "answer.assistantbench",
        of_texts(score_answer, 2),
        (),
        (join_texts('[{"a": "1"}]', '{"a": "1"}'), join_texts("$1,010", "1010"), join_texts('["x y"]', "x y\nz")),
    ),
    Target(
        "answer.hotpotqa", of_texts(answer_scores, 2), (), (join_texts("the yes", "yes"), join_texts("A. B", "a b"))
    ),
    Target(
        "answer.locomo",
        of_texts(lambda a, b: (stemmed_f1(a, b), is_abstention(a)), 2),
        (),
        (join_texts("he runs", "running"),),
    ),
)

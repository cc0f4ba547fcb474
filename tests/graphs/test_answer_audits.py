"""Verdicts at the end: an answer of an agent is judged before it ends the work."""

from collections.abc import Callable
from typing import Any

import pytest
from helpers.worlds.support_database import GOAL, SCRIPT, SupportDatabase, scripted_model
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver

from certigraph import exhaustion_gate, serializer
from certigraph.adapters.models.schemas import Schema, minimal_instance
from certigraph.adapters.models.scripts import ScriptedChat
from certigraph.graphs.agent import agent
from certigraph.nodes.answer_audits import find_claims, past_forms
from certigraph.state.records import Audit
from certigraph.state.run import AnsweredCall


@pytest.fixture
def database(tmp_path: Any) -> SupportDatabase:
    return SupportDatabase(tmp_path / "desk.sqlite")


class Auditor:
    """Answers by the script, and judges an answer by a function of how often it judged before."""

    def __init__(self, missing: Callable[[int], str] = lambda n: "", script: Any = SCRIPT, **answer: Any) -> None:
        self.audits: list[str] = []
        self.prompts: list[str] = []
        self._worker = scripted_model(script).responder
        self._missing, self._answer = missing, answer

    def __call__(self, prompt: str, schema: Schema) -> Any:
        if "missing" in schema.get("properties", {}):
            self.audits.append(prompt)
            given = {"by_calls": [2], "missing": self._missing(len(self.audits)), **self._answer}
            return {**minimal_instance(schema), **given}
        self.prompts.append(prompt)
        assert self._worker is not None
        reply = self._worker(prompt, schema)
        for call in reply.get("calls", ()) if isinstance(reply, dict) else ():
            if call["name"] == "finish":
                call["args"] = {**call["args"], **self._finish(len(self.audits))}
        return reply

    def _finish(self, audits: int) -> dict[str, Any]:
        return {"asks": False}


def run(database: SupportDatabase, auditor: Auditor, **options: Any) -> Any:
    graph = agent("react", model=ScriptedChat(responder=auditor), tools=database.tools, check=None, **options)
    return graph.invoke({"goal": GOAL})


def test_a_confirmed_answer_certifies_the_goal(database: SupportDatabase) -> None:
    result = run(database, auditor := Auditor())
    [certificate] = result["certificates"]
    assert (result["ending"], certificate.targets[0].kind, certificate.calls) == ("goal", "goal", (2,))
    assert certificate.decided_by == "model"
    assert len(auditor.audits) == 1


def test_a_verdict_that_rests_on_nothing_ends_the_work_and_certifies_nothing(database: SupportDatabase) -> None:
    result = run(database, Auditor(by_calls=[], evidence="words that no answer has"))
    assert (result["ending"], result["certificates"]) == ("finished", [])


def test_what_is_missing_is_sent_back_and_then_judged_again(database: SupportDatabase) -> None:
    auditor = Auditor(lambda n: "Send the mail as well." if n == 1 else "")
    result = run(database, auditor)
    assert (result["ending"], len(auditor.audits)) == ("goal", 2)
    assert any("Send the mail as well." in prompt for prompt in auditor.prompts)


@pytest.mark.parametrize(("turns", "returns"), [(1, 2), (2, 1)])
def test_an_answer_is_sent_back_twice_and_once_in_a_conversation(
    database: SupportDatabase, turns: int, returns: int
) -> None:
    auditor = Auditor(lambda n: "Something is missing.")
    graph = agent("react", model=ScriptedChat(responder=auditor), tools=database.tools, check=None)
    events, result = [], dict[str, Any]()
    messages = [("user", "Hello"), ("assistant", "How can I help?"), ("user", GOAL)][-2 * turns + 1 :]
    for mode, value in graph.stream({"messages": messages}, stream_mode=["custom", "values"]):
        events += [value] if mode == "custom" else []
        result = value if mode == "values" else result
    assert (result["ending"], result["ending_reason"]) == ("gave_up", "Something is missing.")
    assert len(auditor.audits) == returns + 1
    assert [event["reason"] for event in events if event["type"] == "not_done"] == ["Something is missing."] * len(
        auditor.audits
    )


class Asking(Auditor):
    """Ends its work with a question to the user."""

    text = "Which order do you mean?"

    def _finish(self, audits: int) -> dict[str, Any]:
        return {"asks": True, "answer": self.text}


class Claiming(Asking):
    text = "I refunded it. Is there anything else?"


class NotAsking(Asking):
    text = "Let me know."


@pytest.mark.parametrize(
    ("auditor", "judged", "ending"), [(Asking, 0, "question"), (Claiming, 1, "question"), (NotAsking, 1, "goal")]
)
def test_only_what_asks_the_user_and_claims_nothing_passes_unjudged(
    database: SupportDatabase, auditor: Any, judged: int, ending: str
) -> None:
    result = run(database, player := auditor(script=[], by_calls=[], absence="refunds"))
    assert (len(player.audits), result["ending"]) == (judged, ending)
    assert bool(result["certificates"]) == (ending == "goal"), "a question is not the end of the work"


def test_a_question_that_claims_what_was_not_done_is_sent_back(database: SupportDatabase) -> None:
    result = run(database, player := Claiming(lambda n: "Nothing was refunded.", script=[]))
    assert (result["ending"], len(player.audits)) == ("gave_up", 3)


@pytest.mark.parametrize("nothing", ["None", "n/a", "(none)", "Nothing is missing."])
def test_words_for_nothing_are_no_statement(database: SupportDatabase, nothing: str) -> None:
    result = run(database, player := Auditor(lambda n: nothing, evidence=nothing))
    assert (result["ending"], len(player.audits)) == ("goal", 1)
    database.clear()
    result = run(database, Auditor(script=[], by_calls=[], absence=nothing))
    assert (result["ending"], result["certificates"]) == ("finished", [])


def test_a_claim_is_compared_with_the_calls_of_its_own_turn(database: SupportDatabase) -> None:
    refunding = agent(
        "react", model=scripted_model(), tools=database.tools, check=None, audit=None,
        checkpointer=(saver := InMemorySaver(serde=serializer())),
    )  # fmt: skip
    thread: Any = {"configurable": {"thread_id": "1"}}
    assert refunding.invoke({"messages": [("user", GOAL)]}, thread)["effects"]
    player = Claiming(lambda n: "Nothing was refunded.", script=[])
    model = ScriptedChat(responder=player)
    claiming = agent("react", model=model, tools=database.tools, check=None, checkpointer=saver)
    result = claiming.invoke({"messages": [("user", "Refund order 18 as well.")]}, thread)
    assert (result["ending"], len(player.audits)) == ("gave_up", 2)


def test_the_answer_of_a_tool_is_not_judged_by_an_earlier_audit(database: SupportDatabase) -> None:
    @tool(return_direct=True)
    def report(text: str) -> str:
        """Report to the user."""
        return f"Report: {text}"

    class Reporting(Auditor):
        def __call__(self, prompt: str, schema: Schema) -> Any:
            reply = super().__call__(prompt, schema)
            if self.audits and "calls" in reply:
                reply["calls"] = [{"name": "report", "args": {"text": "all"}}]
            return reply

    player = Reporting(lambda n: "Report first.", script=[])
    graph = agent(
        "react", model=ScriptedChat(responder=player), tools=[*database.tools, report], check=None, commitments=None
    )
    result = graph.invoke({"goal": GOAL})
    assert (result["ending"], result["messages"][-1].text, len(player.audits)) == ("finished", "Report: all", 1)


@pytest.mark.parametrize("slots", [{"memory": "freeform"}, {"gate": exhaustion_gate()}])
def test_search_agents_over_tools_have_no_verdict_at_the_end(database: SupportDatabase, slots: Any) -> None:
    graph = agent("react", model=scripted_model(), tools=database.tools, **slots)
    assert "audit" not in graph.nodes


def test_an_own_audit_takes_its_place_and_none_leaves_it_out(database: SupportDatabase) -> None:
    def never(state: Any) -> Any:
        return {"audit": Audit(confirmed=False, reason="never")}

    own = run(database, player := Auditor(), audit=never)
    assert (own["ending"], own["ending_reason"], player.audits) == ("gave_up", "never", [])
    database.clear()
    without = run(database, player := Auditor(), audit=None)
    assert (without["ending"], player.audits) == ("finished", [])


# Claims that code can find.

REFUND = AnsweredCall(tool="refund_order", args={"order": 17}, answer="refunded")


@pytest.mark.parametrize(
    ("text", "calls", "claimed"),
    [
        ("I have cancelled your reservation.", (), ["cancel_reservation"]),
        ("Your order is refunded, the mail was sent.", (REFUND,), ["send_mail"]),
        ("Your order is refunded.", (REFUND,), []),
        ("Your order is refunded.", (REFUND.model_copy(update={"failed": True}),), ["refund_order"]),
        ("Shall I cancel it, refund it and send a mail?", (), []),
    ],
)
def test_claims_of_calls_that_were_not_made_are_found(text: str, calls: Any, claimed: list[str]) -> None:
    lasting = ["refund_order", "send_mail", "cancel_reservation"]
    assert find_claims(text, lasting, calls) == claimed


@pytest.mark.parametrize(
    ("tool", "form"),
    [
        ("book_flight", "booked"),
        ("updateOrder", "updated"),
        ("apply", "applied"),
        ("send", "sent"),
        ("ship", "shipped"),
    ],
)
def test_past_forms_of_names_of_tools(tool: str, form: str) -> None:
    assert form in past_forms(tool)


@given(st.text(max_size=40))
def test_any_name_has_past_forms_or_none(name: str) -> None:
    assert all(form == form.casefold() and len(form) > 1 for form in past_forms(name))


# Requests that two operators share.


def count_requests(database: SupportDatabase, method: Any, **options: Any) -> tuple[int, Any]:
    worker, count = scripted_model().responder, [0]
    assert worker is not None

    def respond(prompt: str, schema: Schema) -> Any:
        count[0] += 1
        reply = worker(prompt, schema)
        if "commit_to_tools" in str(schema):  # with the first call
            committed = {"name": "commit_to_tools", "args": {"tools": [name for name, _ in SCRIPT]}}
            reply = {**reply, "calls": [committed, *reply["calls"]]}
        return reply

    database.clear()
    model: Any = ScriptedChat(responder=respond)
    result = agent(method, model=model, tools=database.tools, check=None, **options).invoke({"goal": GOAL})
    return count[0], result


async def own_propose(state: Any, runtime: Any) -> Any:
    from certigraph.nodes.tool_plans import propose

    return await propose({**state, "draft": None}, runtime)


async def own_decide(state: Any, runtime: Any) -> Any:
    from certigraph.nodes.tool_choices import decide

    return await decide({**state, "draft": None}, runtime)


def own_commit(**options: Any) -> Any:
    from certigraph.nodes.commitments import commit

    return commit(**options)


@pytest.mark.parametrize(
    ("method", "swap"),
    [
        ("sdp", {"propose": own_propose}),
        ("sdp", {"commit": own_commit(), "commitments": None}),
        ("react", {"decide": own_decide}),
        ("react", {"commit": own_commit(), "commitments": None}),
    ],
    ids=["sdp: propose", "sdp: commit", "react: decide", "react: commit"],
)
def test_swapping_one_of_two_operators_that_share_a_request_restores_both(
    database: SupportDatabase, method: Any, swap: Any
) -> None:
    shared, result = count_requests(database, method)
    apart, other = count_requests(database, method, **swap)
    assert apart == shared + 1
    assert result["ending"] == other["ending"] != "gave_up"


@pytest.mark.parametrize("method", ["sdp", "react"])
def test_requests_are_not_shared_where_the_commitment_must_not_read_the_task(
    database: SupportDatabase, method: Any
) -> None:
    prompts = list[str]()
    worker = scripted_model().responder
    assert worker is not None

    def respond(prompt: str, schema: Schema) -> Any:
        if "tools" in schema.get("properties", {}) or "commit_to_tools" in str(schema):
            prompts.append(str(schema))
        return worker(prompt, schema)

    graph = agent(method, model=ScriptedChat(responder=respond), tools=database.tools, check=None)
    graph.invoke({"messages": [("user", "Hello"), ("assistant", "read by a stranger"), ("user", GOAL)]})
    assert len(prompts) == 1
    assert "conditions" not in prompts[0]
    assert "finish" not in prompts[0]

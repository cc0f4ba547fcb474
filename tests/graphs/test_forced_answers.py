"""The answer that a run gives when its work has ended: its prompt says what was done, and why the work ended."""

import asyncio
from typing import Any

import pytest
from helpers.worlds.support_database import CONDITIONS, GOAL, SupportDatabase
from langgraph.runtime import Runtime

from certigraph import Limits, ScriptedChat, Tools
from certigraph.adapters.models.schemas import minimal_instance
from certigraph.adapters.models.scripts import current_situation
from certigraph.adapters.protocols import Context
from certigraph.graphs.agent import agent
from certigraph.nodes.tool_choices import answer
from certigraph.state.records import Action, Attempt, Certificate, Predicate, Task, Verdict
from certigraph.state.run import AnsweredCall, Belief, Evidence, Stagnation
from certigraph.state.search import answer_view
from certigraph.state.tools import calls_of

ORDER = "order 17: 49.9 euros, paid by voucher 15.0"
FACT = "The voucher's part is not paid out."
OPEN = Predicate(text="Exactly what is due is refunded.")
WRONG = "49.9 euros were refunded where 34.9 are due"
NO_WAY = "The money has left, and no tool brings it back."


def attempt(verdict: Verdict) -> Attempt:
    return Attempt(position=1, target=OPEN, action=Action(text="refund"), digest="0" * 16, verdict=verdict)


def ended_state(**changes: Any) -> dict[str, Any]:
    """The state of a run of SDP that gave up after a wrong refund."""
    known = Predicate(text="The order is known.")
    found = attempt(Verdict(depth=1, reason="it was read", facts=(FACT,)))
    return {
        "task": Task(benchmark="tools", id="request", goal="Refund what is due for order 17."),
        "evidence": Evidence(view=ORDER),
        "plan": [known, OPEN, Predicate(text="The goal.", kind="goal")],
        "head": 1,
        "certificates": [
            Certificate(step=1, position=0, targets=(known,), action=Action(text="look"), digest="0" * 16)
        ],
        "attempts": [found, attempt(Verdict(depth=0, reason=WRONG)), attempt(Verdict(depth=0, pending=True))],
        "verdict": Verdict(depth=0, pending=True),
        "trace": [],
        "gave_up": NO_WAY,
        "answers": [
            AnsweredCall(tool="look_up", args={"order": 17}, answer=ORDER, lasting=False, action=1),
            AnsweredCall(tool="refund", args={"order": 17, "amount": 49.9}, answer="refunded 17: 49.9", action=2),
            AnsweredCall(tool="refund", args={"order": 18}, answer="not without consent", failed=True, made=False),
        ],
        **changes,
    }


def answer_prompt(state: dict[str, Any], window: int = 0) -> str:
    """The prompt in which a model is asked for the answer."""
    prompts = list[str]()

    def respond(prompt: str, schema: Any) -> Any:
        prompts.append(prompt)
        return {"thought": "", "calls": [{"name": "finish", "args": {"answer": "see above"}}]}

    def look_up(order: int) -> str:
        """Look up an order."""
        return ORDER

    world = Tools([look_up], effects={"look_up": "repeatable"})
    context = Context(benchmark=world, chat=ScriptedChat(responder=respond), window=window)
    asyncio.run(answer(answer_view(state), Runtime(context=context)))
    return prompts[0]


@pytest.mark.parametrize(
    "words",
    [
        WRONG,
        NO_WAY,
        OPEN.text,
        "The order is known.",
        ORDER,
        "refund(order=17, amount=49.9) [its effect lasts]\n refunded 17: 49.9",
        "refund(order=18) [not made]\n not without consent",
    ],
)
def test_the_prompt_says_once_what_was_done_and_why_the_work_ended(words: str) -> None:
    assert answer_prompt(ended_state()).count(words) == 1


def test_the_goal_is_not_repeated_as_a_condition() -> None:
    assert "The goal." not in answer_prompt(ended_state())


def test_facts_are_shown_where_the_window_has_no_space_for_all_answers() -> None:
    log = [AnsweredCall(tool="look_up", args={"order": n}, answer="long " * 400, lasting=False) for n in range(20)]
    state = ended_state(answers=[*ended_state()["answers"], *log])
    small, large = answer_prompt(state, window=4_096), answer_prompt(state)
    assert (FACT in small, FACT in large) == (True, False)
    assert "2. refund(order=17, amount=49.9)" in small.partition("All calls whose effect lasts")[2]
    assert ORDER in large and ORDER not in small


def test_a_gate_that_stopped_the_search_says_why() -> None:
    reason = "the last three searches brought nothing new"
    for stop in (True, False):
        gated = {"stagnation": Stagnation(stop=stop, reason=reason), "belief": Belief(notes=("It was refunded.",))}
        prompt = answer_prompt({**ended_state(plan=[], certificates=[], attempts=[], gave_up=""), **gated})
        assert (reason in prompt) == stop
        assert "It was refunded." in prompt


class Slipping:
    """Refunds ten euros too much. The validator finds that, and the planner gives up."""

    calls = ({"order": 17}, {"order": 17, "amount": 59.9})

    def __init__(self) -> None:
        self.prompts: list[str] = []

    def __call__(self, prompt: str, schema: Any) -> Any:
        situation, fields = current_situation(), schema["properties"]
        assert situation
        if "calls" in fields:
            made = sum(len(calls_of(step.action)) for step in situation.state["history"])
            if situation.node == "answer":
                self.prompts.append(prompt)
            if situation.node == "answer" or made == len(self.calls):
                return {"thought": "", "calls": [{"name": "finish", "args": {"answer": "It is refunded."}}]}
            name = ("look_up", "refund")[made]
            return {"thought": "", "calls": [{"name": name, "args": self.calls[made]}]}
        if "conditions" in fields:
            first = situation.node == "propose"
            return {"reasoning": "" if first else NO_WAY, "conditions": CONDITIONS[:2] if first else []}
        known = situation.view["tail"][0].text == CONDITIONS[0]
        reason = "it is eligible" if known else "59.9 euros left where 49.9 were due"
        return {
            **minimal_instance(schema),
            "reason": reason,
            "evidence": "eligible for a refund",
            "holds": int(known),
        }


def test_an_executor_that_slipped_reads_the_verdict_before_it_answers(database: SupportDatabase) -> None:
    model, limits = Slipping(), Limits(attempts=1, replans=1, steps=8)
    chat: Any = ScriptedChat(responder=model)
    effects: Any = {"look_up": "repeatable"}
    graph = agent("sdp", model=chat, tools=database.tools, effects=effects, commitments=None, limits=limits)
    state = graph.invoke({"goal": GOAL})
    assert (state["ending"], database.rows("refunds")) == ("gave_up", [(17, 59.9)])
    [prompt] = model.prompts
    for words in ("59.9 euros left where 49.9 were due", NO_WAY, CONDITIONS[0], CONDITIONS[1]):
        assert prompt.count(words) == 1, words
    assert "refund(order=17, amount=59.9) [its effect lasts]\n refunded 17: 59.9" in prompt

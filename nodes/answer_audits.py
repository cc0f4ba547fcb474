"""The verdict at the end: an answer of an agent with tools is judged before it ends the work.

What is missing is sent back to the agent as an instruction. An answer that only asks the user something is not an end,
and passes unjudged; so that no claim passes with it, code looks for words that say of a tool that was not called that
it was.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Annotated, Any, Literal, NotRequired

from langgraph.runtime import Runtime
from pydantic import Field, create_model
from typing_extensions import TypedDict

from certigraph.adapters.models.calls import ask
from certigraph.adapters.models.prompts import numbered_list, paragraphs, quote, unquote_line
from certigraph.adapters.models.schemas import Requested
from certigraph.adapters.protocols import Context
from certigraph.nodes.events import write_not_done
from certigraph.nodes.own_tools import tools_of
from certigraph.nodes.requests import requests_in
from certigraph.nodes.slots import Slot, Update
from certigraph.nodes.tool_verdicts import Grounded, Grounds, find_grounds, says_nothing
from certigraph.nodes.work_records import judge_prompt
from certigraph.state.endings import UnusableAnswer
from certigraph.state.records import Action, Audit, Certificate, Predicate, Task
from certigraph.state.run import FINISH, AnsweredCall, ReActState, Turn
from certigraph.state.tools import ANSWER_ARGUMENT, ASKS_ARGUMENT, MESSAGE_KEY

MAX_RETURNS, MAX_RETURNS_IN_CHAT = 2, 1
"""How often an answer is sent back, at most; in a conversation the user may say what is missing as well."""


class AnswerAuditView(TypedDict):
    """View of an audit of an answer: the task, the answer, and the record of the work."""

    task: Task
    action: Action
    """The action that hands in the answer."""
    answers: Sequence[AnsweredCall]
    """All calls so far, with their answers."""
    steps: int
    """Number of actions before."""
    conditions: NotRequired[Sequence[Predicate]]
    """Conditions that the work has to bring about and that are not certified; they are judged with the answer."""
    claims: NotRequired[bool]
    """Whether an answer that asks the user something is judged all the same, because it may say what was done."""


def answer_audit_view(state: ReActState) -> AnswerAuditView:
    """Return the part of the state that an audit of an answer may read."""
    return {
        "task": state["task"],
        "action": state["action"],
        "answers": tuple(state.get("answers", ())),
        "steps": len(state["history"]),
    }


class AnswerVerdict(Grounded):
    """Answer schema for the verdict on an answer: a reason, what it rests on, and what is missing."""

    missing: Annotated[str, Requested] = ""


class ConditionGrounds(Grounded):
    """Answer schema for a condition that holds, and what shows it."""

    condition: int


class ConditionsVerdict(AnswerVerdict):
    """Answer schema for the verdict on an answer and on conditions: besides, those that hold."""

    holds: Annotated[list[ConditionGrounds], Requested] = Field(default_factory=list)


async def judge_answer(state: AnswerAuditView, runtime: Runtime[Context]) -> dict[str, Any]:
    """Judge by the record of the work whether an answer may end it, and which conditions hold.

    A confirmed answer certifies the goal, if code finds what the verdict rests on, and if all conditions hold.
    """
    task, calls, action, conditions = state["task"], state["answers"], state["action"], state.get("conditions", ())
    tools = tools_of(task, runtime)
    text = str(action.args.get(ANSWER_ARGUMENT, ""))
    lasting = [name for name in tools.loaded if not tools.is_look_up(name)]
    asks = action.args.get(ASKS_ARGUMENT) and QUESTION_MARK.search(text)
    claims = state.get("claims") or find_claims(text, lasting, [one for one in calls if one.action])  # of this turn
    if asks and not claims:
        return {"audit": Audit(confirmed=True, judged=False)}
    listed = f"{CONDITIONS_HEADING}\n{numbered_list(one.text for one in conditions)}" if conditions else ""
    answered = f"{ASKING_HEADING if asks else ANSWER_HEADING}\n{quote(text)}"
    question = paragraphs(listed, answered, f"{AUDIT_QUESTION}{HOLDS_QUESTION if conditions else ''}")
    prompt = await judge_prompt(task, calls, question, runtime)
    try:
        verdict = await ask(prompt, answer_verdict_form(len(conditions)), role="validator", runtime=runtime)
    except UnusableAnswer as unusable:  # the work is done, and its answer is not lost
        return {"audit": Audit(confirmed=True, judged=False, reason=f"the answer was not judged: {unusable}")}
    certificates = _certify_conditions(verdict, state)
    left = [one for one in conditions if all(one not in certificate.targets for certificate in certificates)]
    missing = unquote_line(verdict.missing)
    if says_nothing(missing) and left and not asks:
        missing = NOT_SHOWN.format(conditions="; ".join(one.text for one in left))
    if not says_nothing(missing):
        return {"audit": Audit(confirmed=False, reason=missing), "certificates": certificates}
    if asks:
        return {"audit": Audit(confirmed=True, judged=False), "certificates": certificates}
    audit, grounds = Audit(confirmed=True, reason=unquote_line(verdict.reason)), find_grounds(verdict, calls)
    if not grounds.problems:
        goal = Predicate(text=task.condition or task.goal, kind="goal")
        certificates.append(_certificate_of(goal, grounds, state, position=len(conditions)))
    return {"audit": audit, "certificates": certificates}


@lru_cache(maxsize=64)
def answer_verdict_form(conditions: int) -> type[AnswerVerdict]:
    """Create the answer schema of a verdict on an answer and, if there are any, on so many conditions."""
    if not conditions:
        return AnswerVerdict
    number: Any = Literal[tuple(range(1, conditions + 1))]
    shown: Any = create_model("ConditionGrounds", __base__=ConditionGrounds, condition=(number, ...))
    holds: Any = Annotated[list[shown], Requested]
    return create_model("ConditionsVerdict", __base__=ConditionsVerdict, holds=(holds, []))


def _certify_conditions(verdict: AnswerVerdict, state: AnswerAuditView) -> list[Certificate]:
    """Return certificates of the conditions that hold by a verdict, if code finds what shows them."""
    conditions, found = state.get("conditions", ()), dict[int, Certificate]()
    holds: Sequence[ConditionGrounds] = verdict.holds if isinstance(verdict, ConditionsVerdict) else ()
    for one in holds:
        grounds = find_grounds(one, state["answers"])
        if not grounds.problems:
            place = one.condition - 1
            found.setdefault(place, _certificate_of(conditions[place], grounds, state, position=place))
    return [found[place] for place in sorted(found)]


def _certificate_of(target: Predicate, grounds: Grounds, state: AnswerAuditView, *, position: int) -> Certificate:
    return Certificate(
        step=max(state["steps"], 1),
        position=position,
        targets=(target,),
        action=state["action"],
        digest="",
        evidence=grounds.shown,
        decided_by="model",
        rests_on=grounds.kinds,
        calls=grounds.calls,
    )


def find_claims(text: str, lasting: Iterable[str], calls: Sequence[AnsweredCall]) -> list[str]:
    """Return the tools of which a text seems to say that they were called although they were not.

    Args:
        text: the text.
        lasting: names of the tools whose effect lasts.
        calls: the calls so far.
    """
    words = {word.casefold() for word in re.findall(r"[^\W\d_]+", text)}
    made = {one.tool for one in calls if one.made and not one.failed}
    return [name for name in lasting if name not in made and words & past_forms(name)]


def past_forms(tool: str) -> set[str]:
    """Return the words with which English says that a tool was called, by the verb with which its name begins."""
    found = re.match(r"[A-Z]?[a-z]+", tool)
    verb = found[0].casefold() if found else ""
    if not verb:
        return set()
    stem = verb[:-1] if verb.endswith(("e", "y")) else verb
    return {f"{verb}ed", f"{stem}ed", f"{stem}ied", f"{verb}{verb[-1]}ed", IRREGULAR.get(verb, f"{verb}ed")}


IRREGULAR: Mapping[str, str] = {
    "send": "sent",
    "pay": "paid",
    "make": "made",
    "buy": "bought",
    "sell": "sold",
    "write": "written",
    "give": "given",
    "set": "set",
    "put": "put",
    "begin": "begun",
}

QUESTION_MARK = re.compile(r"[?\uff1f\u061f\u055e\u1367]")
"""Question marks of the scripts that have one."""


def has_returns_left(state: ReActState) -> bool:
    """Return whether an answer may be sent back once more."""
    returned = sum(not audit.confirmed for audit in state.get("audits", ()))
    in_chat = len(requests_in(dict(state).get("messages", ()))) > 1  # type: ignore[arg-type]
    return returned <= (MAX_RETURNS_IN_CHAT if in_chat else MAX_RETURNS)


def _record_audit(state: ReActState, update: Update, runtime: Runtime[Context]) -> Update:
    audit: Audit = update["audit"].model_copy(update={"step": len(state["history"])})
    record = {"audits": [audit], "certificates": update.get("certificates", [])}
    if audit.confirmed:
        return record
    write_not_done(str(state["action"].args.get(MESSAGE_KEY, "")), audit.reason, runtime)
    text = SENT_BACK.format(missing=audit.reason)
    return {**record, "turns": [Turn(thought=state["thought"], action=FINISH, observation=text, accepted=False)]}


AUDIT = Slot(
    "audit", {"audit": Audit}, answer_audit_view, _record_audit, may_write={"certificates": Sequence[Certificate]}
)
"""Slot `audit` of an agent without a plan, before an answer is handed in. Optional."""

SENT_BACK = "The answer was not handed in yet. {missing}"

ANSWER_HEADING = "With this answer the agent wants to end the work:"
ASKING_HEADING = """\
With this answer the agent asks the user something, and goes on when they have replied. What has to wait for the reply
is not missing:"""

CONDITIONS_HEADING = "What the work has to bring about:"

NOT_SHOWN = "Nothing shows yet that this holds: {conditions}"

AUDIT_QUESTION = """\
May the work end so? Give, in this order:
- reason: go through all that was wanted, part by part: which calls and answers show that it is done, or which rule says
  that it must not be done? Does the answer claim what no call did, or leave out what it was to tell? Of what it says
  cannot be done: was there a look-up, or another way, that was not tried?
- evidence: words of answers, copied exactly, that show that it is done, each passage on a line of its own, three words
  or more; not words of the agent, of a person, or arguments of a call. Empty if no answer has words for it.
- by_calls: the numbers of calls that show by themselves, in place of words, what was done. Otherwise an empty list.
- absence: where nothing had to be done, or something must not have happened: what it is that none of all the calls
  whose effect lasts has done, in a few words. Otherwise empty.
- missing: what the agent has to do or to say before it may end, as an instruction that names the next step; empty if
  nothing is missing. What a rule forbids is not missing where the answer says so."""

HOLDS_QUESTION = """
- holds: which of the numbered conditions hold now, whether the work may end or not. For each: condition, its number;
  reason; and evidence, by_calls and absence as above, for this condition alone."""

__all__ = ["AUDIT", "AnswerAuditView", "answer_verdict_form", "find_claims", "has_returns_left", "judge_answer"]

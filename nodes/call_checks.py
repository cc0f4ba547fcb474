"""Check: judge calls whose effect lasts before they are made. The optional node `check`, between choosing and acting.

Rules of the user's code decide first. Where they have nothing to say, one request to the validator is about all such
calls of the action. A call that is not allowed is not made; the agent reads why, and what to do next. What was found
stands in the state as `CallCheck`.
"""

import json
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Annotated, Any, Literal, NamedTuple

from langgraph.config import get_config
from langgraph.runtime import Runtime
from pydantic import BaseModel, create_model

from certigraph.adapters.benchmarks import context_of
from certigraph.adapters.models.calls import ask
from certigraph.adapters.models.prompts import (
    bullet_list,
    clip,
    numbered_list,
    one_line,
    paragraphs,
    quote,
    unquote_line,
)
from certigraph.adapters.models.schemas import Reasoning, Requested
from certigraph.adapters.protocols import AsyncOperator, Context
from certigraph.adapters.tools.contents import text_of_message
from certigraph.adapters.tools.positions import CHECKPOINTER_KEY
from certigraph.adapters.tools.rules import (
    CallRules,
    Corrections,
    FactForms,
    Forbidden,
    RuleOutcome,
    Rules,
    Unknown,
    load_rules,
    tools_to_read,
)
from certigraph.adapters.tools.world import Tools
from certigraph.nodes.approval import ApprovalRule, ask_about, name_and_args, refuse_again
from certigraph.nodes.commitments import refuse_beyond_commitment
from certigraph.nodes.own_tools import tools_of
from certigraph.nodes.questions import Interview
from certigraph.nodes.requests import provenance_of, requests_in, words_of
from certigraph.nodes.slots import Slot, factory
from certigraph.nodes.tool_verdicts import find_quotations, has_words, says_nothing
from certigraph.nodes.tools import count_actions
from certigraph.nodes.work_records import judge_prompt
from certigraph.state.call_checks import CallCheck, CallOutcome, Consent
from certigraph.state.endings import Refused, UnusableAnswer
from certigraph.state.records import Action, Task
from certigraph.state.run import AnsweredCall, RunState
from certigraph.state.tools import BEGAN, REQUEST_ID, TOOLS_NAME, ToolCall, calls_of, format_call, replace_calls

ProblemOutcome = Literal["forbidden", "read_first", "ask_first"]
"""What a validator may find about a call that must not be made as it stands, the firmest first."""

MAX_REASON = 1_000
"""Maximum characters of a reason in a record."""


class CallProblem(BaseModel):
    """Answer schema for a call that must not be made as it stands."""

    call: int
    outcome: ProblemOutcome
    rule: str
    fact: str
    next: str


class CallConsent(BaseModel):
    """Answer schema for the words by which the user agreed to calls."""

    calls: list[int]
    words: str


class CheckedCalls(BaseModel):
    """Answer schema for a check of calls: the reason first."""

    reason: Reasoning
    problems: list[CallProblem]


class ConsentedCalls(CheckedCalls):
    """Answer schema for a check of calls to which the user may have agreed."""

    consent: Annotated[list[CallConsent], Requested] = []


class FinalCalls(CheckedCalls):
    """Answer schema for a check of calls that may be the last ones: besides, what is left to do."""

    left: Annotated[str, Requested] = ""


class KnownWork(NamedTuple):
    """What a check of calls knows: the task, what people wrote, and the records of the work so far."""

    task: Task
    instructions: str
    """What the agent's operator wrote, where the rules stand."""
    words: str
    """What people wrote, without what others wrote in the conversation."""
    answers: Sequence[AnsweredCall]
    """The calls so far, in order, with their answers."""
    checks: Sequence[CallCheck]
    """What was found about calls before."""
    action: int
    """Number of the action in which the calls were chosen, from 1."""
    is_part: bool = False
    """Whether the task is a part of what people wrote."""


@factory
def check_calls(
    *,
    rules: Rules | None = None,
    facts: FactForms | None = None,
    after: Corrections | None = None,
    judge: bool = True,
    on_denied: Literal["ask", "end"] = "ask",
    ask_left: bool = False,
) -> AsyncOperator:
    """Check calls whose effect lasts before they are made, by the user's rules and then by the validator.

    Args:
        rules: by tool, a function of the call and the facts, or several: `{"refund_order": may_be_refunded}`. Each
            returns `Allow()`, `Forbidden(sentence, fact, next)`, `Unknown(read=tool)`, or None to say nothing.
        facts: by tool, under which name its answer stands in the facts: `{"get_order": "orders[order_id]"}`.
        after: by tool, a function of the facts, the call and its answer that corrects the facts.
        judge: whether the validator is asked where rules have nothing to say; otherwise such calls are made.
        on_denied: what happens to a call of an agent's that was denied twice: `ask` lets a person decide, if the graph
            has a checkpointer; else the run ends with `refused`, as it does in evaluations.

    Raises:
        TypeError, ValueError: a declaration has another form.
    """
    if on_denied not in ("ask", "end"):
        raise ValueError(f"on_denied={on_denied!r}: give 'ask' or 'end'")
    declared = load_rules(rules or {}, facts or {}, after or {})

    async def check(state: RunState, runtime: Runtime[Context]) -> dict[str, Any]:
        tools = tools_of(state["task"], runtime)
        if tools.is_whole:
            declared.check_tools(tools)
        calls = [refuse_again(call, state["history"]) for call in calls_of(state["action"])]
        beyond = refuse_beyond_commitment(calls, state, runtime)
        waiting = find_waiting(_leave_approvable(calls, beyond, runtime), tools)
        if not waiting:
            return {"action": replace_calls(state["action"], calls) if calls else state["action"]}
        known, records = read_known_work(state, runtime), dict[int, CallCheck]()
        if stuck := [index for index in waiting if is_stuck(calls[index], known)]:
            # before any request to a model: the node runs from its beginning again when the person has answered
            chosen = [(calls[index], beyond[index].refused) for index in stuck]
            decided = await _ask_person(chosen, known, tools, judge, may_ask=on_denied == "ask")
            for index, (call, record) in zip(stuck, decided, strict=True):
                calls[index], records[index] = call, record
        left = [index for index in waiting if index not in records]
        shown = [call if index in waiting else beyond[index] for index, call in enumerate(calls)]
        by_rules = await _find_by_rules(declared, shown, left, known, tools, judge)
        shown = [deny(call, by_rules.get(index), judge) for index, call in enumerate(shown)]
        by_model = dict[int, CallCheck]()
        if judged := _find_judged(shown, left, by_rules):
            by_model = await judge_calls(shown, judged, known, tools, runtime, ask_left=ask_left)
        found = _choose_findings(shown, by_rules, by_model)
        calls = [deny(call, found.get(index), judge) for index, call in enumerate(calls)]
        records |= found
        return {"action": replace_calls(state["action"], calls), "checks": [records[index] for index in waiting]}

    return check


def _leave_approvable(
    calls: Sequence[ToolCall], beyond: Sequence[ToolCall], runtime: Runtime[Context]
) -> list[ToolCall]:
    """Return the calls, those beyond the run's commitment as refused unless a person may approve them later.

    The person is asked only about calls that passed the check, so that it has to see these as well.
    """
    commitment = context_of(runtime).commitment
    approvable = commitment.approvable if commitment else ()
    return [call if call.name in approvable else one for call, one in zip(calls, beyond, strict=True)]


def find_waiting(calls: Sequence[ToolCall], tools: Tools) -> list[int]:
    """Return the indexes of the calls that are checked: those to be made whose effect lasts.

    Args:
        calls: the calls of an action, those beyond the run's commitment as refused unless a person may approve them.
        tools: the tools of the run.
    """
    return [
        index
        for index, call in enumerate(calls)
        if call.is_made and call.name in tools.loaded and not tools.is_look_up(call.name)
    ]


def read_known_work(state: RunState, runtime: Runtime[Context]) -> KnownWork:
    """Return what a check of the calls that were just chosen knows."""
    entry, answers = context_of(runtime).entry, list(state.get("answers", ()))
    if entry and any(one.action for one in entry.answers):
        # this graph's own list begins with the calls of earlier sub-tasks, but not with what they were answered
        answers = [one for one in answers if one.action]
    if entry:
        answers = [*(one.model_copy(update={"action": 0}) for one in entry.answers), *answers]
    return KnownWork(
        state["task"],
        tools_of(state["task"], runtime).instructions,
        entry.words if entry else _words_of_people(state),
        answers,
        state.get("checks", ()),
        count_actions(state["history"], runtime) + 1,
        is_part=entry is not None,
    )


def _words_of_people(state: Mapping[str, Any]) -> str:
    if state.get("messages") and not provenance_of(state).handed_on:
        return "\n\n".join(map(text_of_message, requests_in(state["messages"])))
    return words_of(state)


MAX_DENIALS = 2
"""Number of actions in which a call was denied, with nothing new learnt since, after which it is not checked again."""

MAX_ALL_DENIALS = 4
"""Number of actions in which a call was denied in a turn, whatever was learnt, after which it is not checked again."""


def is_stuck(call: ToolCall, known: KnownWork) -> bool:
    """Return whether a call was denied so often that another check would be idle, or was rejected by a person.

    What a person rejected at the check is decided by a person again, for no check may overrule that.
    """
    checks = [one for one in _checks_of(call, known.checks) if one.action]
    if checks and checks[-1].is_denied and checks[-1].decided_by == "person":
        return True
    denied = {one.action for one in checks if one.is_denied and not _is_postponed(one)}
    seen, latest = set[str](), 0
    for one in known.answers:
        if (
            one.made
            and not one.failed
            and (key := json.dumps([one.tool, one.args, one.answer], sort_keys=True)) not in seen
        ):
            seen.add(key)
            latest = one.action
    # calls of the very action in which it was denied were answered after that
    return sum(action > latest for action in denied) >= MAX_DENIALS or len(denied) >= MAX_ALL_DENIALS


def _checks_of(call: ToolCall, checks: Sequence[CallCheck]) -> list[CallCheck]:
    return [one for one in checks if (one.tool, one.args) == (call.name, call.args)]


# A person's decision about a call that was denied twice.


async def _ask_person(
    chosen: Sequence[tuple[ToolCall, str]], known: KnownWork, tools: Tools, judge: bool, *, may_ask: bool
) -> list[tuple[ToolCall, CallCheck]]:
    """Let a person decide about calls, and return each with the record of the decision.

    Args:
        chosen: the calls, each with why it is beyond the run's commitment, if it is.
        known: what is known of the work.
        tools: the tools of the run.
        judge: whether the calls after one that is rejected are judged with that knowledge.
        may_ask: whether a person may be asked.

    Raises:
        Refused: nobody can be asked.
        GraphInterrupt: the person has not decided.
    """
    calls = [call for call, _ in chosen]
    latest = [_checks_of(call, known.checks)[-1] for call in calls]
    config = get_config()
    is_request = (known.task.benchmark, known.task.id) == (TOOLS_NAME, REQUEST_ID)  # nobody waits for a case
    if not (may_ask and is_request and config.get("configurable", {}).get(CHECKPOINTER_KEY)):
        raise Refused(
            f"{calls[0]} was denied before it was made, and chosen again: {latest[0].next or latest[0].reason}"
        )
    shown = [
        {**name_and_args(call), "description": STUCK.format(call=call, why=f"{describe_denial(one)} {beyond}".rstrip())}
        for (call, beyond), one in zip(chosen, latest, strict=True)
    ]
    rules = {call.name: ApprovalRule() for call in calls}
    decided = await ask_about(Interview(config), shown, calls, rules, tools.loaded)
    found = list[tuple[ToolCall, CallCheck]]()
    for call in decided:
        outcome: CallOutcome = "forbidden" if call.refused else "allowed"
        record = CallCheck(
            tool=call.name,
            args=call.args,
            outcome=outcome,
            reason=call.refused or call.response,
            decided_by="person",
            action=known.action,
        )
        changes = {"denied": judge} if call.refused else {"approved": not call.response}
        found.append((call.model_copy(update=changes), record))
    return found


STUCK = "{call} was denied more than once before it was made, and the agent chose it again. {why} Shall it be made?"


# What rules and the validator find.


async def _find_by_rules(
    declared: CallRules, calls: Sequence[ToolCall], left: Sequence[int], known: KnownWork, tools: Tools, judge: bool
) -> dict[int, CallCheck]:
    """Return what rules find about calls by their indexes; those about which they say nothing are left out.

    Facts come from calls that were answered. So where an earlier call of the action may change them, rules do not let
    a call pass: what they allow once, or up to a total, they would allow to each of the calls.

    Args:
        declared: the rules.
        calls: the calls of the action, those that are not made as refused.
        left: indexes of the calls that are checked.
        known: what is known of the work.
        tools: the tools of the run.
        judge: whether the validator is asked where rules have nothing to say.
    """
    outcomes = await declared.decide([calls[index] for index in left], known.answers, tools.deadline, tools.loaded)
    by_index, found, changed = dict(zip(left, outcomes, strict=True)), dict[int, CallCheck](), False
    for index, call in enumerate(calls):
        outcome = by_index.get(index)
        record = _to_record(call, outcome, known, judge) if outcome else None
        is_denied = record is not None and record.is_denied
        if outcome and changed and not is_denied and declared.rules.get(call.name):
            record, is_denied = _record_of(call, known).model_copy(update=POSTPONED), True
        if record:
            found[index] = record
        has_facts = call.name in declared.forms or call.name in declared.corrections
        changed |= has_facts and call.is_made and not is_denied and not tools.is_look_up(call.name)
    return found


POSTPONED: Mapping[str, str] = {
    "outcome": "read_first",
    "decided_by": "code",
    "reason": "Its rules depend on what calls before it in the same action will be answered.",
    "next": "Choose it again once the calls before it were answered.",
}
"""What is found about a call whose rules have to see the answers of calls that were chosen together with it."""


def _is_postponed(found: CallCheck) -> bool:
    """Return whether a call only had to wait for the calls before it, which is not a reason to leave it."""
    return (found.decided_by, found.reason) == ("code", POSTPONED["reason"])


def _to_record(call: ToolCall, found: RuleOutcome, known: KnownWork, judge: bool) -> CallCheck | None:
    """Return the record of what rules found; None if they have nothing to say."""
    record = CallCheck(tool=call.name, args=call.args, outcome="allowed", decided_by="code", action=known.action)
    match found.decision:
        case Forbidden(sentence, fact, next):
            texts = {"rule": f"{sentence}", "fact": f"{fact}", "next": f"{next}"}
            return record.model_copy(update={"outcome": "forbidden", **texts})
        case Unknown() as unknown:
            read = ", ".join(tools_to_read(unknown))
            return record.model_copy(update={"outcome": "read_first", "next": f"Call {read} first."})
        case None if judge:
            return None
        case None if found.broken:
            return record.model_copy(update={"outcome": "unchecked", "reason": found.broken})
    return record


def _find_judged(calls: Sequence[ToolCall], left: Sequence[int], by_rules: Mapping[int, CallCheck]) -> list[int]:
    """Return the indexes of the calls that the validator judges: those about which rules say nothing.

    A rule allows a call as if those before it were made. So once one is denied or may be, the validator judges what
    rules allow as well.
    """
    judged, may_lack = list[int](), False
    for index, call in enumerate(calls):
        is_silent = index in left and index not in by_rules
        if is_silent or (may_lack and index in left and not by_rules[index].is_denied):
            judged.append(index)
        may_lack |= is_silent or call.denied
    return judged


def _choose_findings(
    calls: Sequence[ToolCall], by_rules: Mapping[int, CallCheck], by_model: Mapping[int, CallCheck]
) -> dict[int, CallCheck]:
    """Return what counts of the findings by rules and by the validator, by the calls' indexes.

    What a rule allows counts unless a call before it is denied.

    Args:
        calls: the calls of the action, those that rules or a person denied as such.
        by_rules: what rules found.
        by_model: what the validator found.
    """
    found, lacks = dict[int, CallCheck](), False
    for index, call in enumerate(calls):
        first, second = (by_model, by_rules) if lacks else (by_rules, by_model)
        if record := first.get(index) or second.get(index):
            found[index] = record
        lacks |= call.denied or (record is not None and record.is_denied)
    return found


async def judge_calls(
    calls: Sequence[ToolCall],
    judged: Sequence[int],
    known: KnownWork,
    tools: Tools,
    runtime: Runtime[Context],
    *,
    ask_left: bool = False,
) -> dict[int, CallCheck]:
    """Ask the validator about some of the calls of an action, in one request; return what it found by their indexes.

    Without a usable answer the calls are not allowed.

    Args:
        calls: the calls of the action, those that are not made as refused.
        judged: indexes of the calls that are judged.
        known: what is known of the work.
        tools: the tools of the run.
        runtime: the operator's runtime.
        ask_left: whether it also says what is left to do after them.
    """
    numbers = tuple(index + 1 for index in judged)
    question, extra = format_question(calls, judged, known, tools), format_surroundings(known)
    question = f"{question}{LEFT_QUESTION}" if ask_left else question
    prompt = await judge_prompt(known.task, known.answers, question, runtime, extra=extra)
    form = checked_calls_form(numbers, with_consent=has_spoken(known), with_left=ask_left)
    try:
        answer = await ask(prompt, form, role="validator", runtime=runtime)
    except UnusableAnswer as unusable:
        unchecked = {
            "outcome": "unchecked",
            "reason": clip(one_line(str(unusable)), MAX_REASON),
            "next": UNCHECKED_NEXT,
        }
        return {index: _record_of(calls[index], known).model_copy(update=unchecked) for index in judged}
    return {index: read_finding(index + 1, calls[index], answer, known) for index in judged}


def _record_of(call: ToolCall, known: KnownWork) -> CallCheck:
    return CallCheck(tool=call.name, args=call.args, outcome="allowed", action=known.action)


@lru_cache(maxsize=64)
def checked_calls_form(numbers: tuple[int, ...], *, with_consent: bool, with_left: bool = False) -> type[CheckedCalls]:
    """Create the answer schema of a check of the calls with these numbers.

    Args:
        numbers: the numbers of the calls.
        with_consent: whether it has the user's consent.
        with_left: whether it has what is left to do after the calls.
    """
    number: Any = Literal[numbers]
    problem: Any = create_model("CallProblem", __base__=CallProblem, call=(number, ...))
    name, bases, fields = "CheckedCalls", [CheckedCalls], dict[str, Any]({"problems": (list[problem], ...)})
    if with_consent:
        consent: Any = create_model("CallConsent", __base__=CallConsent, calls=(list[number], ...))
        name, bases = "ConsentedCalls", [ConsentedCalls]
        fields["consent"] = (Annotated[list[consent], Requested], [])
    if with_left:
        bases = [ConsentedCalls, FinalCalls] if with_consent else [FinalCalls]
    return create_model(name, __base__=tuple(bases), **fields)


def has_spoken(known: KnownWork) -> bool:
    """Return whether the task has more than what people wrote, so that something may have been listed to the user."""
    return known.words.strip() != known.task.goal.strip()


def read_finding(number: int, call: ToolCall, answer: CheckedCalls, known: KnownWork) -> CallCheck:
    """Return what the validator found about one call. Words that it quotes and that code does not find are left out.

    Args:
        number: number of the call in the request.
        call: the call.
        answer: the validator's answer.
        known: what is known of the work.
    """
    completes = isinstance(answer, FinalCalls) and says_nothing(unquote_line(answer.left)) and not answer.problems
    record = _record_of(call, known).model_copy(
        update={"reason": clip(unquote_line(answer.reason), MAX_REASON), "completes": completes}
    )
    firmest = ("forbidden", "read_first", "ask_first")
    problems = sorted(
        (one for one in answer.problems if one.call == number), key=lambda one: firmest.index(one.outcome)
    )
    if problems:
        found = problems[0]
        rule, fact = unquote_line(found.rule), unquote_line(found.fact)
        texts = {
            "rule": rule if _is_rule(rule, known) else "",
            "fact": fact if _is_answered(fact, known) else "",
            "next": clip(unquote_line(found.next), MAX_REASON),
        }
        return record.model_copy(update={"outcome": found.outcome, **texts})
    consent = answer.consent if isinstance(answer, ConsentedCalls) else ()
    agreed = [unquote_line(one.words) for one in consent if number in one.calls]
    if not agreed:
        return record
    words = next((one for one in agreed if has_words(one, known.words)), None)
    if words is None:
        return record.model_copy(update={"outcome": "ask_first", "next": CONSENT_NEXT})
    return record.model_copy(update={"consent": Consent(words=words, values=call.args)})


LEAST_WORDS = 3
"""Minimum number of words of a rule that is quoted."""


def _is_rule(words: str, known: KnownWork) -> bool:
    texts = (known.instructions, known.words)
    return any(has_words(words, text, least=LEAST_WORDS) for text in texts) or _is_answered(words, known)


def _is_answered(words: str, known: KnownWork) -> bool:
    found = find_quotations(words, known.answers)
    return bool(found.kinds) and not found.problems


def deny(call: ToolCall, found: CallCheck | None, judge: bool = True) -> ToolCall:
    """Return the call as refused if it is not allowed.

    Args:
        call: the call.
        found: what was found about it; None if it was not checked.
        judge: whether the calls after it are judged with the knowledge that it is not made.
    """
    if found is None or not found.is_denied:
        return call
    denied = judge and found.outcome != "unchecked"
    return call.model_copy(update={"refused": describe_denial(found), "denied": denied})


def describe_denial(found: CallCheck) -> str:
    """Say why a call is not made, and what to do next."""
    parts = [
        DENIED[found.outcome],
        f"The rule: {found.rule}" if found.rule else found.reason,
        f"The fact: {found.fact}" if found.fact else "",
        f"Next: {found.next}" if found.next else "",
    ]
    return " ".join(part if part.endswith((".", "!", "?")) else f"{part}." for part in parts if part)


# The request to the validator.


def format_question(calls: Sequence[ToolCall], judged: Sequence[int], known: KnownWork, tools: Tools) -> str:
    """Return the question about calls: the calls of the action in order, their tools, and what was found before."""
    names = dict.fromkeys(calls[index].name for index in judged)
    numbers = ", ".join(str(index + 1) for index in judged)
    return QUESTION.format(
        calls=quote(numbered_list(f"{call}{_note_on(call, index in judged)}" for index, call in enumerate(calls))),
        tools=quote(bullet_list(str(tools.loaded[name]) for name in names)),
        before=_format_earlier([calls[index] for index in judged], known.checks),
        numbers=f"call {numbers}" if len(judged) == 1 else f"calls {numbers}",
        consent=CONSENT_QUESTION if has_spoken(known) else "",
    )


def _note_on(call: ToolCall, is_judged: bool) -> str:
    if call.refused:
        return f" [not made: {one_line(call.refused)}]"
    if call.response:
        return " [not made: a person answers in its place]"
    return "" if is_judged else " [not to be judged]"


def _format_earlier(calls: Sequence[ToolCall], checks: Sequence[CallCheck]) -> str:
    """Return the paragraphs about earlier denials of the calls, and about what the user agreed to."""
    names = {call.name for call in calls}
    denied = {
        f"{call}: {describe_denial(one)}": None for call in calls for one in _checks_of(call, checks) if one.is_denied
    }
    agreed = {(one.tool, json.dumps(one.consent.values), one.consent.words): one for one in checks if one.consent}
    consents = [
        f"{format_call(one.tool, one.consent.values)}: {one.consent.words!r}"
        for one in agreed.values()
        if one.consent and one.tool in names
    ]
    earlier = paragraphs(
        f"{EARLIER_DENIALS}\n{quote(bullet_list(denied))}" if denied else "",
        f"{EARLIER_CONSENTS}\n{quote(bullet_list(consents))}" if consents else "",
    )
    return f"{earlier}\n\n" if earlier else ""


def format_surroundings(known: KnownWork) -> str:
    """Return what a judge has to know besides the task and the calls: the whole request, and the time."""
    began = known.task.constants.get(BEGAN, "")
    return paragraphs(
        f"{WHOLE_REQUEST}\n{known.words}" if known.is_part else "", CLOCK.format(time=began) if began else ""
    )


DENIED: Mapping[CallOutcome, str] = {
    "forbidden": "Checked before it was made: it is forbidden as it stands, so this call was not made.",
    "read_first": "Checked before it was made: something has to be looked up first, so this call was not made.",
    "ask_first": "Checked before it was made: the user has to be asked first, so this call was not made.",
    "unchecked": "Not checked: the check gave no usable answer, so this call was not made.",
}
"""The first sentence of what the agent reads, by outcome."""

UNCHECKED_NEXT = "Choose it again if it is still right."
CONSENT_NEXT = (
    "Hand in an answer that lists to the user what is to be done, with all values, and asks whether they agree."
)

WHOLE_REQUEST = "The task is a part of what the user wants, who wrote:"
CLOCK = "The time: {time}, unless the instructions or the task name another date as today's."

EARLIER_DENIALS = "Found about the same calls before; judge them again by what is known now:"
EARLIER_CONSENTS = "The user agreed to these calls. It holds for the very same values, and for no call with others:"

QUESTION = """\
Calls that are about to be made, in this order:
{calls}

Their tools:
{tools}

{before}Judge {numbers}. A call is right if the task asks for it, no rule is against it, and all of its values are
right. What a user asks for may be against a rule, and what a user says happened counts only where no tool can answer.
Give, in this order:
- reason: for each of these calls, the rule and the facts that decide it. Work out amounts, dates and counts anew. Does
  anything have to come before it that is neither done nor among the calls before it? Was it done already? Does it make
  sense only after a call that is wrong or not made? Then it is wrong as well.
- problems: the calls that must not be made as they stand; an empty list if all are right. For each:
  - call: its number.
  - outcome: forbidden if a rule or a fact is against it; read_first if nobody can know before a tool has answered;
    ask_first if the user has to agree or to choose first, and has not done so for these values.
  - rule: words that state the rule, copied exactly from the instructions, the user's messages or an answer.
  - fact: words of an answer, copied exactly, on which the rule bears; empty if there are none.
  - next: what the agent has to do instead, with the right values: which call, which tool to read, or what to list to
    the user and to ask.
{consent}"""

CONSENT_QUESTION = """\
- consent: only where a rule demands that the user agrees: the numbers of the calls to which they agreed, and their
  words, copied exactly from a message of the user. They cover the calls that were listed to the user before, with the
  values that were listed; they cover nothing if the list was false. The agent's texts count as what was listed, and as
  nothing else.
"""
"""What is asked as well where the agent has spoken with the user."""

LEFT_QUESTION = """\
- left: what the task asks for that is still to be done once these calls were made, by a call or by a question to the
  user; empty if nothing is left but to answer.
"""
"""What is asked as well where the check may stand for a verdict on the answer."""

CHECK = Slot("check", {"action": Action}, may_write={"checks": Sequence[CallCheck]})
"""Slot `check`, between choosing an action and `approve`. Optional."""

__all__ = [
    "CHECK",
    "CallConsent",
    "CallProblem",
    "CheckedCalls",
    "KnownWork",
    "check_calls",
    "checked_calls_form",
    "deny",
    "describe_denial",
    "find_waiting",
    "is_stuck",
    "judge_calls",
    "read_finding",
    "read_known_work",
]

"""Settling calls whose outcome is unknown: by the rule of their tool, by a function of the user's, or by a person.

A call of an earlier turn is settled before anything else happens in the thread, and what is found is the first thing
that the agent reads.
"""

from collections.abc import Mapping

from certigraph.adapters.tools.contents import bound_text
from certigraph.adapters.tools.effects import REPEAT, Ledger, LedgerEntry, ToolAnswer
from certigraph.adapters.tools.outcomes import Once, look_up_outcome
from certigraph.nodes.questions import HAPPENED_TEXT, EnteredCall, QuestionLog
from certigraph.state.endings import Fault
from certigraph.state.tools import ToolCall


async def settle_by_rule(one: EnteredCall, rule: Once, ledger: Ledger) -> bool:
    """Settle a call of unknown outcome if its tool's rule can; return whether a person has to be asked.

    Args:
        one: the call, with its entry.
        rule: how the effect of the tool happens once.
        ledger: where the outcome is entered.
    """
    if rule.on_unknown == "ask" and ledger.lasts:
        return True
    if one.again:
        return False
    if callable(rule.on_unknown):
        found = await look_up_outcome(rule.on_unknown, one.call.args)
        if found is None or not isinstance(found, bool | str):
            return ledger.lasts
        if found is False:
            await ledger.note(one.key, one.entry.attempts - 1, REPEAT)
            return False
        text = found if isinstance(found, str) and found else HAPPENED_TEXT
        await ledger.finish(one.key, ToolAnswer(text=bound_text(text), lost=text == HAPPENED_TEXT))
        return False
    await ledger.finish(one.key, ToolAnswer(text=UNKNOWN_TEXT, failed=True, lost=True))
    return False


async def settle_earlier_turns(
    ledger: Ledger, rules: Mapping[str, Once], questions: QuestionLog
) -> list[tuple[ToolCall, str]]:
    """Settle the calls that earlier turns of the thread left open; return them with what was found.

    Args:
        ledger: the ledger of the thread.
        rules: how the effects of tools happen once, by the tool; a person is asked about the calls of other tools.
        questions: the questions of the node that runs, settled as far as they were answered.

    Raises:
        GraphInterrupt: a person has to decide about some of them.
    """
    decided = dict(questions.earlier_calls())
    unknown = []
    for key, entry in await ledger.find_open():
        one = EnteredCall(_call_of(entry), key, entry)
        if await settle_by_rule(one, rules.get(one.call.name, Once()), ledger):
            unknown.append(one)
        else:
            decided[key] = one.call
    if unknown:
        await questions.ask(unknown, earlier=True)
    return [(call, await _close(ledger, key)) for key, call in decided.items()]


def fault_of_running(call: ToolCall) -> Fault:
    """Return the fault of a run that came to a call which still runs elsewhere."""
    fix = "wait until it has ended, then invoke the thread again"
    return Fault("environment", f"another process is making the call {call}: {fix}")


def _call_of(entry: LedgerEntry) -> ToolCall:
    start = entry.start
    return ToolCall(name=start.name, args=start.args) if start else ToolCall(name="")


async def _close(ledger: Ledger, key: str) -> str:
    answer = (await ledger.read(key)).answer
    if answer is None:
        await ledger.close(key)
    return f"{EARLIER_TEXT} {answer.text if answer else UNDONE_TEXT}"


UNKNOWN_TEXT = (
    "The call was made, and whether it took effect is not known. Look at what it would have changed before you decide "
    "whether to make it again."
)
UNDONE_TEXT = "It was found since that it did not take effect."
EARLIER_TEXT = "(This call was made in an earlier turn.)"

__all__ = ["UNDONE_TEXT", "UNKNOWN_TEXT", "fault_of_running", "settle_by_rule", "settle_earlier_turns"]

"""What ReAct's agent goes by before it decides, for the operators that share its prompt and its shortlist."""

from certigraph.adapters.prompting import listed, quoted, shown
from certigraph.state.acting import REFUSED, DecideView

MOST_VIEW = 10_000
"""Characters of the world's view in a prompt, as Realize and Replan show it: 900 hid blocks from the 17th on."""

DECIDE = "{choice}"
"""Where ReAct's prompt stops telling and begins to ask."""


def told(state: DecideView, question: str) -> str:
    """Assignment, notes, turns and the world now, exactly as ReAct has them, then another question."""
    return _material(QUESTION.partition(DECIDE)[0], state) + question


def decided(state: DecideView, choice: str) -> str:
    """The same with ReAct's own question: a thought, then one action of a choice."""
    return _material(QUESTION, state, choice)


def queries(state: DecideView) -> list[str]:
    """What the relevant actions are similar to: the assignment, the latest thought, and advice that refuses nothing."""
    thoughts = [turn.thought for turn in state["turns"][-1:] if turn.thought]
    wanted = [advice for advice in state["advice"] if not advice.startswith(REFUSED)]
    return [state["assignment"], *thoughts, *wanted][:6]


def _material(form: str, state: DecideView, choice: str = "") -> str:
    return form.format(
        assignment=state["assignment"],
        advice=listed([*state["advice"], *state["belief"].text.splitlines()]),
        count=len(state["turns"]),
        turns=quoted(shown(state["turns"])),
        view=quoted(state["evidence"].view, MOST_VIEW),
        choice=choice,
    )


# What only grows comes first, what changes with every action last: the cached part of the prompt is the longer.
QUESTION = """\
Assignment: {assignment}

To keep in mind:
{advice}

Done so far ({count} actions), the latest with the world's answers:
{turns}

The world now:
{view}

{choice}
Think in one short sentence, then give the one action to take next. Do not repeat what had no effect.
"""

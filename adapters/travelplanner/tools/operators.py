"""Decide and Execute with TravelPlanner's tools, and MakePlan, which is a model's work and no tool of the world."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from langgraph.runtime import Runtime
from pydantic import BaseModel, Field

from certigraph.adapters.context import Context
from certigraph.adapters.models.ask import Prompt, ask, ask_text
from certigraph.adapters.prompting import TAG, clipped, listed, prompt, quoted, shown, unquoted
from certigraph.adapters.protocols import Operator
from certigraph.adapters.travelplanner.oneshot.operators import MOST_PLAN, RULES
from certigraph.adapters.travelplanner.oneshot.written import DELIVER
from certigraph.adapters.travelplanner.tools.forms import MAKE_PLAN
from certigraph.state.acting import DecideView
from certigraph.state.records import Action

MOST_TASK, MOST_ADVICE, MOST_EARLIER, MOST_ANSWER, MOST_VIEW = 1_500, 1_300, 1_200, 4_300, 2_500
"""Characters of the parts of a prompt: one stays under 12,000, and the latest answer is read whole where it can be."""

MOST_REQUEST, MOST_NOTES = 2_500, 7_000
"""The same of the prompt that asks for the plan."""

MOST_THOUGHT, MOST_WRITTEN = 160, 1_500
"""Characters of a thought, and of what one call may write to the notebook."""

MOST_SHOWN = 160
"""Characters of a call that later turns show."""


class Move(BaseModel):
    """The model's answer: a thought, a tool, and what the tool is given."""

    # The lengths bind a model under a grammar alone: of others what is too long is cut, for a refusal costs a call.
    thought: str = Field(json_schema_extra={"maxLength": MOST_THOUGHT})
    tool: Literal[
        "FlightSearch",
        "GoogleDistanceMatrix",
        "AccommodationSearch",
        "RestaurantSearch",
        "AttractionSearch",
        "CitySearch",
        "NotebookWrite",
        "MakePlan",
    ]
    text: str = Field(min_length=1, json_schema_extra={"maxLength": MOST_WRITTEN})


async def decide(state: DecideView, runtime: Runtime[Context]) -> dict[str, Any]:
    """Ask the model for a thought and a tool; where that is MakePlan, ask again, for the plan, and hand it in."""
    move = await ask(prompt(runtime, _question(state)), Move, role="executor", runtime=runtime)
    text = clipped(TAG.sub(" ", move.text).strip(), MOST_WRITTEN)
    action = await _plan_made(state, text, runtime) if move.tool == MAKE_PLAN else tool_used(move.tool, text)
    return {"thought": clipped(unquoted(move.thought), MOST_THOUGHT), "action": action}


def tool_operators() -> Mapping[str, Operator]:
    """The operators by slot: the agent of a whole task and that of a sub-task act alike, each on its assignment."""
    return {"decide": decide, "execute": decide}


def tool_used(tool: str, text: str) -> Action:
    """The call of a tool; a long note stands in its arguments, and its beginning in its text."""
    return Action(text=f"{tool}[{clipped(unquoted(text), MOST_SHOWN)}]", kind=tool, args={"query": text})


async def _plan_made(state: DecideView, request: str, runtime: Runtime[Context]) -> Action:
    """MakePlan: of all that was looked up, its prompt has what stands in the notebook and nothing else."""
    asked = clipped(f"{state['assignment']}\n{request}", MOST_REQUEST)
    system = RULES.format(reference=quoted(state["evidence"].view, MOST_NOTES))
    plan = await ask_text(Prompt(system, ASK_PLAN.format(request=asked)), role="planner", runtime=runtime)
    return Action(text=clipped(f"{DELIVER} {plan}", MOST_PLAN), kind=DELIVER, args={"plan": plan})


def _question(state: DecideView) -> str:
    turns, belief = state["turns"], state["belief"].text.splitlines()
    earlier = shown(turns[:-1], characters=80, within=MOST_EARLIER) if turns[1:] else "(none)"
    return QUESTION.format(
        assignment=clipped(state["assignment"], MOST_TASK),
        advice=_advice([*state["advice"], *belief]),
        earlier=quoted(earlier, MOST_EARLIER),
        latest=quoted(shown(turns[-1:], characters=MOST_ANSWER), MOST_ANSWER),
        notes=quoted(state["evidence"].view, MOST_VIEW),
    )


def _advice(told: Sequence[str]) -> str:
    """Each gets an equal part of the room, for the latest guidance comes last."""
    each = MOST_ADVICE // max(len(told), 1)
    return clipped(listed(clipped(text, max(each, 40)) for text in told), MOST_ADVICE)


QUESTION = """\
Assignment: {assignment}

To keep in mind:
{advice}

Earlier calls:
{earlier}

The latest call and its answer:
{latest}

The notebook:
{notes}

Think in one short sentence, then call one tool. Write down what the plan needs before you look up something else, for
an answer is shown in full only once. Look up nothing twice.
"""

PLAN_ASKED = "Write the whole plan now from what the notebook says, which is the reference information above"

ASK_PLAN = f"""\
Request: {{request}}

{PLAN_ASKED}: the JSON array and nothing else.
"""

BRIEFING = """\
You plan a trip with tools. Each call is a tool and its text:
FlightSearch: "CITY, CITY, 2022-03-15", the flights of a leg on a day.
GoogleDistanceMatrix: "CITY, CITY, MODE", how far it is and what it costs; the mode is self-driving or taxi.
AccommodationSearch, RestaurantSearch, AttractionSearch: "CITY", what the city has.
CitySearch: "STATE", the cities of a state.
NotebookWrite: what to keep: for the plan, copy whole lines with names, cities, days and prices.
MakePlan: the request in your words. It has the plan written from the request and the notebook alone, hands it in, and
so ends the task; call it once, when the notebook has the transport of every leg, a place to stay in every city,
restaurants for all meals, none twice, and an attraction for every day."""

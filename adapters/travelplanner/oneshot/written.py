"""What a model wrote -> a plan in the official form. Nothing is mended: how often this fails is a figure itself."""

import json
import re
from typing import NamedTuple

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from certigraph.adapters.models.parsing import MAX_CHARS, THOUGHT_ENDS
from certigraph.adapters.travelplanner.official.plans import Day

COST, DELIVER = "cost", "deliver"
"""The two things that can be done with a plan: have it added up, or hand it in, which ends the episode."""

ACTION = re.compile(rf"^\W{{0,20}}action\W{{1,20}}({COST}|{DELIVER})\b", re.IGNORECASE | re.MULTILINE)
THOUGHT = re.compile(r"^\W*thought\s*:\s*", re.IGNORECASE)
PLAN = re.compile(r"\[\s*\{")


class MalformedPlanError(ValueError):
    """The text holds no plan in the official form."""


class WrittenTurn(NamedTuple):
    """One turn of an agent that writes plans: its thought, what it does, and the text that should hold the plan."""

    thought: str
    kind: str
    plan: str


class WrittenDay(BaseModel):
    """A day in the official form. What is left out stays out: the official scorer judges that, not the form."""

    model_config = ConfigDict(extra="ignore")

    days: int = Field(0, ge=0, le=100)
    current_city: str
    transportation: str = ""
    breakfast: str = ""
    attraction: str = ""
    lunch: str = ""
    dinner: str = ""
    accommodation: str = ""


_DAYS = TypeAdapter(list[WrittenDay])


def read_turn(text: str) -> WrittenTurn:
    """Split an answer at its line `Action: cost|deliver`; one that names no action is a delivery as it stands."""
    bare = text.rpartition(THOUGHT_ENDS)[2].strip()
    action = ACTION.search(bare)
    if action is None:
        return WrittenTurn("", DELIVER, bare)
    thought = " ".join(THOUGHT.sub("", bare[: action.start()]).split())
    return WrittenTurn(thought, action[1].lower(), bare[action.end() :].strip())


def read_plan(text: str) -> list[Day]:
    """The first JSON array of days in a text, whatever stands around it.

    Raises:
        MalformedPlanError: there is none, it is no JSON, or a day has no `current_city` or an entry that is no text.
    """
    start = PLAN.search(text)
    if start is None or len(text) > MAX_CHARS:
        raise MalformedPlanError("no JSON array of days")
    try:
        value, _ = json.JSONDecoder().raw_decode(text, start.start())
        days = _DAYS.validate_python(value)
        _DAYS.dump_json(days)  # half a surrogate pair is a text to pydantic, and nothing that can be stored
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        day, *field = first["loc"]
        raise MalformedPlanError(f"day {int(day) + 1}: {'.'.join(map(str, field))}: {first['msg']}") from error
    except (ValueError, RecursionError) as error:
        raise MalformedPlanError(f"no valid JSON: {error}") from error
    return [day.model_dump(exclude_unset=True) for day in days]

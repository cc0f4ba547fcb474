"""A simulated planner that writes plans as text and spoils a known share of them: it checks figures, and is no model.

It sees the prompt alone, reads the reference information in it, and takes the cheapest of everything, three meals a
day. What the request asks for besides is left aside: its plans are well formed and nearly all affordable, seldom right.
"""

import json
import re
from collections.abc import Iterator
from math import ceil
from random import Random
from typing import Any, NamedTuple

from pydantic import Field

from certigraph.adapters.answering import least
from certigraph.adapters.models.schemas import Schema
from certigraph.adapters.models.scripted import TEXT
from certigraph.adapters.travelplanner.draft import NOTHING
from certigraph.adapters.travelplanner.official.plans import MEALS
from certigraph.adapters.travelplanner.oneshot.operators import ASK_OUTLINE, ASK_PLAN, ASK_TURN
from certigraph.adapters.travelplanner.oneshot.reference import ATTRACTIONS, RESTAURANTS, STAYS
from certigraph.state.records import Record

HEAD = re.compile(r"Day (?P<day>\d+) \(\S+\) (?:from (?P<origin>.+) to (?P<to>.+)|in (?P<city>.+))")
ENTRY = re.compile(r"(?P<text>.+) \| \$(?P<price>[\d.]+) a \w+(?: of (?P<seats>\d+)| for (?P<beds>\d+))?")
PEOPLE = re.compile(r"People: (\d+)")

ADVICE = "Write plain JSON, and take cheaper options."
FIRST_TURN = "(nothing)"


class SimulatedPlanner(Record):
    """A responder for `ScriptedChat`. Draws are by prompt and seed: the same question gets the same answer."""

    malformed: float = Field(0.0, ge=0, le=1)
    """Share of delivered plans that break off in the middle."""
    expensive: float = Field(0.0, ge=0, le=1)
    """Share of delivered plans that take the dearest of everything; with `malformed` at most 1."""
    seed: int = 0

    def __call__(self, prompt: str, schema: Schema) -> Any:
        """The answer to one question; questions that ask for no text get the least instance of their schema."""
        if schema != TEXT:
            return least(schema)
        if ASK_TURN in prompt and FIRST_TURN in prompt:
            return f"Thought: First see what the cheapest costs.\nAction: cost\n{_text(prompt, dearest=False)}"
        if ASK_TURN in prompt:
            return f"Thought: That will do.\nAction: deliver\n{self._delivered(prompt)}"
        if ASK_PLAN in prompt:
            return self._delivered(prompt)
        return "Take the cheapest of everything." if ASK_OUTLINE in prompt else ADVICE

    def _delivered(self, prompt: str) -> str:
        drawn = Random(f"{self.seed}:{prompt}").random()
        if drawn < self.malformed:
            whole = _text(prompt, dearest=False)
            return whole[: len(whole) // 2]
        return _text(prompt, dearest=drawn < self.malformed + self.expensive)


class Priced(NamedTuple):
    """An entry of the reference information and what it costs everybody, a night's or a meal's worth."""

    text: str
    cost: float


class Offers:
    """The reference information of a prompt: its days, and priced entries by list, the first to be taken first."""

    def __init__(self, prompt: str, *, dearest: bool) -> None:
        found = PEOPLE.search(prompt)
        self._people = int(found[1]) if found else 1
        self._lists = {
            head: sorted(map(self._priced, lines), key=_cost, reverse=dearest) for head, lines in _lists(prompt)
        }
        self._used = set[str]()

    def days(self) -> Iterator[re.Match[str]]:
        """The headings of the days."""
        return (head for text in self._lists if (head := HEAD.fullmatch(text)))

    def first(self, head: str, city: str) -> str:
        """What comes first in a list, as a plan writes it."""
        return self._named(self._lists.get(head, []), city)

    def next(self, head: str, city: str) -> str:
        """The first of a list that no day has used yet."""
        taken = self._named(
            [offer for offer in self._lists.get(head, []) if f"{offer.text}, {city}" not in self._used], city
        )
        self._used.add(taken)
        return taken

    def _named(self, offers: list[Priced], city: str) -> str:
        return (f"{offers[0].text}, {city}" if city else offers[0].text) if offers else NOTHING

    def _priced(self, line: str) -> Priced:
        entry = ENTRY.match(line)
        if entry is None:
            return Priced(line, 0.0)
        shared = entry["seats"] or entry["beds"]
        name = entry["text"].replace("\\n", "\n")
        return Priced(name, float(entry["price"]) * ceil(self._people / int(shared or 1)))


def _text(prompt: str, *, dearest: bool) -> str:
    offers = Offers(prompt, dearest=dearest)
    heads = list(offers.days())
    return json.dumps([_day(offers, head, last=head is heads[-1]) for head in heads], ensure_ascii=False)


def _day(offers: Offers, head: re.Match[str], *, last: bool) -> dict[str, object]:
    travels = head["city"] is None
    city = head["city"] or (head["origin"] if last else head["to"])
    sight = offers.next(f"{ATTRACTIONS} in {city}", city)
    return {
        "days": int(head["day"]),
        "current_city": f"from {head['origin']} to {head['to']}" if travels else city,
        "transportation": offers.first(head[0], "") if travels else NOTHING,
        **{meal: offers.next(f"{RESTAURANTS} in {city}", city) for meal in MEALS},
        "attraction": NOTHING if sight == NOTHING else f"{sight};",
        "accommodation": NOTHING if last else offers.first(f"{STAYS} in {city}", city),
    }


def _lists(prompt: str) -> Iterator[tuple[str, list[str]]]:
    head, lines = "", list[str]()
    for line in prompt.splitlines():
        if line.startswith("- "):
            lines.append(line.removeprefix("- "))
        elif line.endswith(":"):
            if head:
                yield head, lines
            head, lines = line.removesuffix(":"), []
    yield head, lines


def _cost(offer: Priced) -> float:
    return offer.cost

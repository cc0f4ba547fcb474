"""A corridor of rooms with a word in each, read one a step: episodes of any length, for measuring prompts.

A task is `deep-40`, forty rooms as one sub-task, or `wide-40`, the same rooms in sub-tasks of four. Every room answers
with as many characters as any other, so that whatever grows in a prompt grows by what the prompt holds.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

from certigraph.adapters.protocols import Limits, Operator, Responder
from certigraph.evaluation.studying.corridor_mind import DEEP, STRETCH, WIDE, respond
from certigraph.state.endings import UnknownName
from certigraph.state.records import Action, Observation, Scores, Task
from certigraph.state.searching import FINISH, SEARCH, parsed
from certigraph.state.trajectory import Footer

NAME = "corridor"

MOST = 96
"""Rooms; numbers have two digits, so that none is longer than another."""

ROOM = "Room {room:02}: the word is word-{room:02}. Its walls are bare, its lamp is lit, and its door leads on."


class Corridor:
    """The benchmark. An answer is right that is the last room's word."""

    name = NAME
    briefing = "A corridor of rooms. search[room 07] tells the word in room 07; finish[...] hands in an answer."
    configurations: Sequence[str] = ("",)
    answers = True
    tools = (SEARCH, FINISH)

    def __init__(self, data: Path | None = None, config: str = "") -> None:
        self.limits = Limits(steps=2 * MOST, nodes=MOST, revisions=MOST)

    def tasks(self, split: str = "") -> Sequence[Task]:
        """The shortest task of each kind."""
        return [self.task(f"{kind}-{STRETCH:02}") for kind in (DEEP, WIDE)]

    def task(self, task_id: str) -> Task:
        """Raises UnknownName where the id is not of the form `deep-40` or `wide-40`."""
        kind, _, rooms = task_id.partition("-")
        if kind not in (DEEP, WIDE) or not rooms.isdecimal() or not 0 < int(rooms) <= MOST:
            raise UnknownName(f"no task {task_id!r}; write deep-40 or wide-40, up to {MOST} rooms")
        goal = f"Read the words of rooms 01 to {int(rooms):02}, in order, and hand in the last one."
        return Task(benchmark=self.name, id=task_id, goal=goal)

    def open(self, task: Task) -> "Rooms":
        """The corridor; the same for all tasks."""
        return Rooms(f"word-{task.id.partition('-')[2]:0>2}")

    def operators(self) -> Mapping[str, Operator]:
        """None of its own."""
        return {}

    def expert(self) -> Responder:
        """Reads every room once, in order."""
        return respond

    def figures(self, runs: Sequence[tuple[str, Footer]]) -> dict[str, float]:
        """How many there are."""
        return {"n": len(runs)}


class Rooms:
    """The live world: nothing in it changes but that an answer ends it."""

    concurrent = False

    def __init__(self, word: str) -> None:
        self._word, self._answer = word, ""

    def reset(self) -> Observation:
        """At the door."""
        self._answer = ""
        return Observation(text=self.view())

    def step(self, action: Action) -> Observation:
        """Read a room or hand an answer in; anything else is refused."""
        meant = parsed(action)
        if meant and meant.kind == FINISH:
            self._answer = str(meant.args["answer"])
            return Observation(text="Handed in.", done=True)
        room = str(meant.args.get("query", "")).removeprefix("room ") if meant else ""
        if not room.isdecimal() or not 0 < int(room) <= MOST:
            return Observation(text=f"{action.text!r} is no room: write search[room 07]", accepted=False)
        return Observation(text=ROOM.format(room=int(room)))

    def view(self) -> str:
        """The same from every room."""
        return "A corridor of numbered rooms."

    def admissible(self) -> None:
        """Any room may be named."""

    def score(self) -> Scores:
        """Whether the answer is the last room's word."""
        return Scores(value=float(self._answer == self._word), answer=self._answer)

    def close(self) -> None:
        """Nothing is held."""

"""The live ScienceWorld."""

import re
import threading
import time
from collections.abc import Callable, Sequence
from functools import wraps
from typing import Concatenate, Literal, ParamSpec, TypeVar, cast

from certigraph.adapters.episodes import current_run
from certigraph.adapters.scienceworld.pool import POOL, Pool
from certigraph.adapters.scienceworld.simulator import Simulator
from certigraph.adapters.scienceworld.splits import Setting, Tally
from certigraph.state.records import Action, Arguments, Fault, Observation, Scores

# What the simulator's replies mean. It says everything in words; the sorts differ by text alone.

Result = Literal["accepted", "rejected", "ambiguous", "cancelled", "failed"]
"""failed: understood, but the world said no, at the cost of a move. cancelled: a pending question was dropped."""

UNKNOWN = "No known action matches that input."
CANCELLED = (
    "Unknown action.  Type 'help' for a list of actions, and 'objects' for a list of possible object referents. "
)
QUESTION = "Ambiguous request"
CANCEL = "cancel"
"""What drops a pending question; the simulator knows it as the empty line."""

_STARTS = (
    "It's not clear", "Its not clear", "I'm not sure", "You can't", "That can't", "That is already", "That object ",
    "That container is empty", "There is only one thing", "Something can't be connected", "Connections must specify",
    "You must disconnect", "The door doesn't appear", "The liquids in ", "<ERROR",
)  # fmt: skip
_ENDS = re.compile(
    r"(is already (open|closed|activated|deactivated|connected, .*)|"
    r"is not (openable|closeable|edible|moveable|movable|open|a container|something that can be activated)|"
    r"can't be activated or deactivated|isn't open(, so you can't see inside)?|is locked|"
    r"does not contain any liquids to dunk into|is empty, so there's nothing to pour|"
    r"can't be poured out, because it's not open|because it doesn't appear to be in a container)\.?$"
)
_OPTION = re.compile(r"^(\d+):\t(.*)$", re.MULTILINE)
_ROOM = re.compile(
    r"(?:This room is called|This outside location is called|You (?:move|teleport) to|You move through .*? to) "
    r"the (.+?)\."
)
_EVERYWHERE = ("the agent", "a substance called air", "In it, you see:", "You also see:")
_EMPTY = re.compile(r" \(containing nothing\)| On the [a-z ]+ is: nothing\.| \(that is open\)")
_EXCEPTION = re.compile(r"ERROR: |(?:[a-z]+\.)+[A-Z]\w*(?:Exception|Error)\b")


def classify(reply: str) -> Result:
    """The sort of a reply.

    A request with too many meanings to list is a rejected one: there is nothing to choose from.
    """
    if reply.startswith(QUESTION):
        return "ambiguous" if options_in(reply) else "rejected"
    if reply.startswith(CANCELLED.rstrip()):
        return "cancelled"
    if reply.startswith(UNKNOWN):
        return "rejected"
    return "failed" if _says_no(reply) else "accepted"


def options_in(reply: str) -> tuple[str, ...]:
    """The meanings that an ambiguous request may have, by number; several may read the same."""
    return tuple(text.strip() for _, text in _OPTION.findall(reply))


def choose(answer: str, options: Sequence[str]) -> int | None:
    """The number of the option that an answer names: by its number, its text, or a text that contains it.

    The first of options that read the same, the longest of those contained; None when it names none.
    """
    said = plain(answer)
    if said.isdecimal():
        return int(said) if len(said) < 10 and int(said) < len(options) else None
    contained = [option for option in options if plain(option) in said]
    return options.index(max(contained, key=len)) if contained else None


def room_in(reply: str) -> str:
    """The room that a reply says the agent is in; empty when it names none."""
    found = _ROOM.match(reply)
    return found[1] if found else ""


def tidied(text: str) -> str:
    """A look or an inventory without what every room has and no task is about, for a prompt counts its words."""
    lines = (" ".join(line.split()) for line in text.splitlines())
    return _EMPTY.sub("", "\n".join(line for line in lines if line and line not in _EVERYWHERE))


def is_exception(reply: str) -> bool:
    """Whether the simulator broke: it then answers everything with the exception's text."""
    return bool(_EXCEPTION.match(reply))


def plain(text: str) -> str:
    """Case and spacing aside, as the simulator reads."""
    return " ".join(text.lower().split())


def _says_no(reply: str) -> bool:
    return "\n" not in reply and (reply.startswith(_STARTS) or bool(_ENDS.search(reply)))


# The live ScienceWorld: one simulator, its moves and calls counted apart, its questions answered by their text.

P = ParamSpec("P")
T = TypeVar("T")


def _in_use(method: "Callable[Concatenate[ScienceWorld, P], T]") -> "Callable[Concatenate[ScienceWorld, P], T]":
    """A method during which the simulator is nobody else's."""

    @wraps(method)
    def locked(self: "ScienceWorld", /, *args: P.args, **kwargs: P.kwargs) -> T:
        with self._lock:
            try:
                return method(self, *args, **kwargs)
            finally:
                self.used = time.monotonic()

    return cast("Callable[Concatenate[ScienceWorld, P], T]", locked)


class ScienceWorld:
    """One episode. It is done at score 100, at a fatal mistake (-100), and at its limit of moves or calls.

    An observation's data: score (0 to 100, or -100), moves, calls, room, result (`replies.Result`). Where they apply:
    `new_room` and `look` (a room entered for the first time, and what it looks like), `options` (what an ambiguous
    action may mean), `chosen` (the one taken), `sent` (the simulator's input where it is not the action's text: an
    option's number, an empty line to cancel, None where nothing was sent), `ended` (goal, failed, moves, calls).
    While a question is pending, only an answer to it or "cancel" reaches the simulator.

    A world that is not used may lose its simulator to the next in the queue (`suspend`). When it is used again, it
    repeats in another one what was done.

    Args:
        setting: the episode.
        pool: where its simulator comes from and goes back to.
    """

    concurrent = False

    def __init__(self, setting: Setting, pool: Pool = POOL) -> None:
        self.setting = setting
        self._pool = pool
        self._lock = threading.RLock()
        self._open = False
        self._simulator: Simulator | None = None
        self.run: object = None
        self.used = time.monotonic()
        self._view: str | None = None
        self._admissible: list[str] | None = None
        self._start()

    @_in_use
    def reset(self) -> Observation:
        """The episode from its start, in a simulator that is alive; the first look around.

        Raises:
            Fault: ("environment") no simulator starts; says what to install.
        """
        if self._simulator is not None and not self._simulator.alive:
            self.close()
        simulator = self._simulator or self._borrowed()
        self._open = True
        self._start()
        return self._observe(self._loaded(simulator))

    @_in_use
    def step(self, action: Action) -> Observation:
        """Do one thing. `accepted` is False when the simulator did not understand, or asks which of several is meant.

        Raises:
            Fault: ("environment") the simulator died or broke, which is no doing of the agent's.
        """
        if self.tally.ended:
            return self._refuse("The episode is over.")
        self.tally.calls += 1
        if not self.options:
            return self._observe(self._sent(action.text))
        if plain(action.text) == CANCEL:
            return self._observe(self._sent(""), {"sent": ""})
        chosen = choose(action.text, self.options)
        if chosen is None:
            return self._refuse(f"Nothing was done. {self._question()}")
        return self._observe(self._sent(str(chosen)), {"sent": str(chosen), "chosen": self.options[chosen]})

    @_in_use
    def view(self) -> str:
        """The room, what is carried, the rooms seen, and the pending question; looked up once between two steps."""
        if self._view is None:
            seen = f"Rooms seen: {', '.join(self.rooms)}"
            shown = (tidied(text) for text in (self._live.look(), self._live.inventory()))
            parts = (*shown, seen, self._question())
            self._view = "\n".join(filter(None, parts))
        return self._view

    @_in_use
    def admissible(self) -> list[str]:
        """What the simulator lists, without resetting and asking for the task; to a pending question its answers."""
        if self.options:
            return list(dict.fromkeys(self.options))
        if self._admissible is None:
            self._admissible = [text for text in self._live.valid() if "reset" not in text and text != "task"]
        return list(self._admissible)

    def score(self) -> Scores:
        """The score that counts by the setting's rule, as a fraction; its parts are on 0 to 100."""
        return self.tally.scores()

    @_in_use
    def close(self) -> None:
        """Let another episode have the simulator."""
        self._open = False
        if self._simulator is not None:
            simulator, self._simulator = self._simulator, None
            self._pool.give_back(simulator)

    def suspend(self) -> Simulator | None:
        """Hand over the simulator, unless it is in use; the next call continues in another one.

        Only the pool calls it, which then lends or closes the simulator.
        """
        if not self._lock.acquire(blocking=False):
            return None
        try:
            simulator, self._simulator = self._simulator, None
            return simulator
        finally:
            self._lock.release()

    @property
    def _live(self) -> Simulator:
        if not self._open:
            raise Fault("environment", "this ScienceWorld is closed or was never reset: call reset() first")
        return self._simulator or self._resumed()

    def _borrowed(self) -> Simulator:
        self.run = current_run()
        self._simulator = self._pool.borrow(self)
        return self._simulator

    def _loaded(self, simulator: Simulator) -> str:
        return simulator.load(self.setting.task, self.setting.variation, self.setting.simplification)

    def _sent(self, text: str) -> str:
        reply = self._live.step(text)
        self._inputs.append((text, reply))
        return reply

    def _resumed(self) -> Simulator:
        """Another simulator, brought to where the last one was."""
        simulator = self._borrowed()
        try:
            self._loaded(simulator)
            for number, (text, reply) in enumerate(self._inputs, 1):
                if simulator.step(text) != reply:
                    differs = f"ScienceWorld answered {text!r} otherwise when step {number} was replayed"
                    raise Fault("environment", f"{differs}: start a new run")
        except BaseException:
            self._simulator = None
            self._pool.give_back(simulator)
            raise
        return simulator

    def _start(self) -> None:
        self.tally = Tally(self.setting)
        self._inputs: list[tuple[str, str]] = []
        self.room = ""
        self.rooms: list[str] = []
        self.options: tuple[str, ...] = ()
        self._view = self._admissible = None

    def _observe(self, reply: str, about: Arguments | None = None) -> Observation:
        if is_exception(reply):
            raise Fault(
                "environment",
                f"ScienceWorld's simulator broke in {self.setting.task}:{self.setting.variation}: {reply[:300]}; "
                "the agent is not to blame: start a new run, or leave this variation out",
            )
        self._view = self._admissible = None
        self.room = room_in(reply) or self.room
        entered = self.room not in self.rooms
        self.rooms += [self.room] if entered else []
        self.options = options_in(reply)
        reward = self.tally.count(self._live.score(), self._live.moves())
        more: Arguments = {**(about or {})}
        more |= {"new_room": True, "look": self._live.look().strip()} if entered else {}
        return self._observation(reply, classify(reply), reward, more)

    def _refuse(self, text: str) -> Observation:
        return self._observation(text, "rejected", 0.0, {"sent": None})

    def _observation(self, text: str, result: Result, reward: float, more: Arguments) -> Observation:
        data: Arguments = {**self.tally.data(), "result": result, "room": self.room, **more}
        if self.options:
            data["options"] = list(self.options)
        accepted = result not in {"rejected", "ambiguous"}
        done, solved = bool(self.tally.ended), self.tally.ended == "goal"
        return Observation(text=text, accepted=accepted, reward=reward, done=done, solved=solved, data=data)

    def _question(self) -> str:
        """What is pending, in words; empty when nothing is."""
        texts = "\n".join(dict.fromkeys(self.options))
        return f'Which of these is meant? Answer with one of these lines, or "{CANCEL}":\n{texts}' if texts else ""

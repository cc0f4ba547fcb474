"""The ScienceWorld environment: classification of the simulator's replies, and one episode in a simulator."""

import re
import threading
import time
from collections.abc import Callable, Sequence
from functools import wraps
from typing import Concatenate, Literal, ParamSpec, TypeVar, cast

from certigraph.adapters.episodes import current_run
from certigraph.adapters.protocols import Environment, StateCheck
from certigraph.benchmarks.scienceworld.objects import parse_focus
from certigraph.benchmarks.scienceworld.pool import DEFAULT_POOL, SimulatorPool
from certigraph.benchmarks.scienceworld.simulator import JavaSimulator
from certigraph.benchmarks.scienceworld.splits import EpisodeSetting, EpisodeTally
from certigraph.state.endings import Fault
from certigraph.state.records import Action, Arguments, Observation, Scores

# Replies. The simulator has no status codes: results are recognised by their text.

ReplyKind = Literal["accepted", "rejected", "ambiguous", "cancelled", "failed"]
"""Result of an action. ambiguous: the simulator asks which object is meant; cancelled: such a question was dropped;
failed: understood, but refused at the cost of a move."""

UNKNOWN_REPLY = "No known action matches that input."
CANCELLED_REPLY = (
    "Unknown action.  Type 'help' for a list of actions, and 'objects' for a list of possible object referents. "
)
QUESTION_PREFIX = "Ambiguous request"
PENDING_QUESTION = "Which of these is meant?"
"""Beginning of a pending question in the view."""
CANCEL = "cancel"
"""Action that drops a pending question; the simulator's input for it is an empty line."""

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
_MEASURED = re.compile(r"the thermometer measures a temperature of (-?\d+) degrees celsius", re.IGNORECASE)
_MEASURING = re.compile(r"^use thermometer.* on (?:the )?(.+?)\.?$", re.IGNORECASE)
"""Patterns of the reply to a measurement, and of the action with what is measured."""
_EVERYWHERE = ("the agent", "a substance called air", "In it, you see:", "You also see:")
_EMPTY = re.compile(r" \(containing nothing\)| On the [a-z ]+ is: nothing\.| \(that is open\)")
_EXCEPTION = re.compile(r"ERROR: |(?:[a-z]+\.)+[A-Z]\w*(?:Exception|Error)\b")


def classify_reply(reply: str) -> ReplyKind:
    """Classify a reply of the simulator.

    An ambiguous request without listed options counts as rejected, because there is nothing to choose from.
    """
    if reply.startswith(QUESTION_PREFIX):
        return "ambiguous" if parse_options(reply) else "rejected"
    if reply.startswith(CANCELLED_REPLY.rstrip()):
        return "cancelled"
    if reply.startswith(UNKNOWN_REPLY):
        return "rejected"
    return "failed" if _is_refusal(reply) else "accepted"


def parse_options(reply: str) -> tuple[str, ...]:
    """Parse the numbered options of an ambiguous request; several may have the same text."""
    return tuple(text.strip() for _, text in _OPTION.findall(reply))


def choose_option(answer: str, options: Sequence[str]) -> int | None:
    """Return the index of the option that an answer names: by its number, its text, or a text that contains it.

    Of equal options the first is chosen, of several contained ones the longest; None if the answer names none.
    """
    text = normalise_text(answer)
    if text.isdecimal():
        return int(text) if len(text) < 10 and int(text) < len(options) else None
    contained = [option for option in options if normalise_text(option) in text]
    return options.index(max(contained, key=len)) if contained else None


def parse_room(reply: str) -> str:
    """Parse the room that a reply says the agent is in; empty if it names none."""
    match = _ROOM.match(reply)
    return match[1] if match else ""


def simplify_view(text: str) -> str:
    """Shorten the description of a room or an inventory for a prompt: drop what every room has and no task needs.

    The simulator gives a wire and what its terminals are connected to without anything between them, as in "a black
    wireits terminal 1 is connected to". The shortened description separates them as that of any other part.
    """
    lines = (" ".join(line.split()) for line in text.splitlines())
    shown = _EMPTY.sub("", "\n".join(line for line in lines if line and line not in _EVERYWHERE))
    return re.sub(r"(?<=\bwire)(?=its terminal \d)", ". ", shown)


def is_exception(reply: str) -> bool:
    """Return whether the simulator failed; it then answers every input with the exception's text."""
    return bool(_EXCEPTION.match(reply))


def normalise_text(text: str) -> str:
    """Normalise case and spacing, as the simulator does."""
    return " ".join(text.lower().split())


def _is_refusal(reply: str) -> bool:
    return "\n" not in reply and (reply.startswith(_STARTS) or bool(_ENDS.search(reply)))


# The environment.

P = ParamSpec("P")
T = TypeVar("T")


def _with_lock(method: "Callable[Concatenate[ScienceWorld, P], T]") -> "Callable[Concatenate[ScienceWorld, P], T]":
    # Decorator of methods that use the simulator: holds the lock, so that the simulator cannot be taken away.

    @wraps(method)
    def locked(self: "ScienceWorld", /, *args: P.args, **kwargs: P.kwargs) -> T:
        with self._lock:
            try:
                return method(self, *args, **kwargs)
            finally:
                self.last_used = time.monotonic()

    return cast("Callable[Concatenate[ScienceWorld, P], T]", locked)


_LISTING = "(list the valid actions)"
"""Entry among the inputs of an episode for a listing of its valid actions."""


class ScienceWorld(Environment):
    """Environment of one episode. It ends at score 100, at a fatal mistake (-100), or at its limit of moves or calls.

    The `data` of an observation has: score (0 to 100, or -100), moves, calls, room, result (`ReplyKind`). Where they
    apply: `new_room` and `look` (a room was entered for the first time, and its description), `options` (the meanings
    of an ambiguous action), `chosen` (the meaning taken), `sent` (the simulator's input where it is not the action's
    text: an option's number, an empty line to cancel, None if nothing was sent), `ended` (goal, failed, moves, calls).
    After an ambiguous action the simulator asks which object is meant. Until this question is answered, only an answer
    or "cancel" is sent to the simulator.

    A world that is not used may lose its simulator to a waiting run (`suspend`). When it is used again, it replays its
    actions in another simulator.

    Args:
        setting: Setting of the episode.
        pool: Pool that lends the simulator.
    """

    concurrent = False
    listing_draws = True

    def __init__(self, setting: EpisodeSetting, pool: SimulatorPool = DEFAULT_POOL) -> None:
        self.setting = setting
        self._pool = pool
        self._lock = threading.RLock()
        self._open = False
        self._simulator: JavaSimulator | None = None
        self.run: object = None
        self.last_used = time.monotonic()
        self._view: str | None = None
        self._admissible: list[str] | None = None
        self._start()

    @_with_lock
    def reset(self) -> Observation:
        """Start the episode; returns the first look around.

        Raises:
            Fault: ("environment") no simulator starts; the message says what to install.
        """
        if self._simulator is not None and not self._simulator.alive:
            self.close()
        simulator = self._simulator or self._borrow()
        self._open = True
        self._start()
        return self._observe(self._load(simulator))

    @_with_lock
    def step(self, action: Action) -> Observation:
        """Execute an action. `accepted` is False if the simulator did not understand it, or if it is ambiguous.

        Raises:
            Fault: ("environment") the simulator ended or failed; the agent did not cause it.
        """
        if self.tally.ended:
            return self._refuse("The episode is over.")
        self.tally.calls += 1
        if not self.options:
            return self._observe(self._send(action.text), written=action.text)
        if normalise_text(action.text) == CANCEL:
            return self._observe(self._send(""), {"sent": ""})
        chosen = choose_option(action.text, self.options)
        if chosen is None:
            return self._refuse(f"Nothing was done. {self._question()}")
        return self._observe(self._send(str(chosen)), {"sent": str(chosen), "chosen": self.options[chosen]})

    @_with_lock
    def view(self) -> str:
        """Describe the room, the inventory, the rooms visited, and a pending question; cached until the next step."""
        if self._view is None:
            rooms = f"Rooms seen: {', '.join(self.rooms)}"
            shown = (simplify_view(text) for text in (self._live.look(), self._live.inventory()))
            parts = (*shown, rooms, self.tally.describe(), self._question())
            self._view = "\n".join(filter(None, parts))
        return self._view

    @_with_lock
    def admissible(self) -> list[str]:
        """List the valid actions except reset and task; while a question is pending, its options, and to cancel it.

        A question whose options read all alike cannot be cancelled: nothing else could be meant.
        """
        if self.options:
            options = list(dict.fromkeys(self.options))
            return options if len(options) == 1 else [*options, CANCEL]
        if self._admissible is None:
            self._admissible = [text for text in self._live.valid_actions() if "reset" not in text and text != "task"]
            self._inputs.append((_LISTING, ""))
        return list(self._admissible)

    def score(self) -> Scores:
        """Return the score by the setting's rule, as a fraction; its parts range from 0 to 100."""
        return self.tally.scores()

    @_with_lock
    def check_state(self, condition: str) -> StateCheck | None:
        """Check a condition in the simulator's object tree; None if the tree does not decide it.

        Raises:
            Fault: ("environment") the simulator ended or failed.
        """
        return self._live.check_state(condition, self.focus)

    @_with_lock
    def close(self) -> None:
        """Return the simulator to the pool."""
        self._open = False
        if self._simulator is not None:
            simulator, self._simulator = self._simulator, None
            self._pool.give_back(simulator)

    def suspend(self) -> JavaSimulator | None:
        """Give up the simulator and return it; None while it is in use. The next call continues in another one.

        Only the pool calls this method; it then lends or closes the simulator.
        """
        if not self._lock.acquire(blocking=False):
            return None
        try:
            simulator, self._simulator = self._simulator, None
            return simulator
        finally:
            self._lock.release()

    @property
    def _live(self) -> JavaSimulator:
        if not self._open:
            raise Fault("environment", "this ScienceWorld is closed or was never reset: call reset() first")
        return self._simulator or self._resume()

    def _borrow(self) -> JavaSimulator:
        self.run = current_run()
        self._simulator = self._pool.borrow(self)
        return self._simulator

    def _load(self, simulator: JavaSimulator) -> str:
        return simulator.load(self.setting.task, self.setting.variation, self.setting.simplification)

    def _send(self, text: str) -> str:
        reply = self._live.step(text)
        self._inputs.append((text, reply))
        return reply

    def _resume(self) -> JavaSimulator:
        # Brings another simulator to the state of the previous one by replaying all inputs, and all listings of
        # actions, for which the simulator draws random numbers.
        simulator = self._borrow()
        try:
            self._load(simulator)
            for number, (text, reply) in enumerate(self._inputs, 1):
                if text == _LISTING:
                    simulator.valid_actions()
                elif simulator.step(text) != reply:
                    differs = f"ScienceWorld gave another reply to {text!r} when step {number} was replayed"
                    raise Fault("environment", f"{differs}: start a new run")
        except BaseException:
            self._simulator = None
            self._pool.give_back(simulator)
            raise
        return simulator

    def _start(self) -> None:
        self.tally = EpisodeTally(self.setting)
        self._inputs: list[tuple[str, str]] = []
        self.room = self.focus = self.focused_as = ""
        self.measured: dict[str, float] = {}
        self.rooms: list[str] = []
        self.options: tuple[str, ...] = ()
        self._view = self._admissible = None

    def _observe(self, reply: str, about: Arguments | None = None, *, written: str = "") -> Observation:
        if is_exception(reply):
            raise Fault(
                "environment",
                f"ScienceWorld's simulator failed in {self.setting.task}:{self.setting.variation}: {reply[:300]}; "
                "the agent did not cause it: start a new run, or leave this variation out",
            )
        self._view = self._admissible = None
        self.room = parse_room(reply) or self.room
        if focus := parse_focus(reply):
            self.focus, self.focused_as = focus, normalise_text(written).removeprefix("focus on ")
        if measured := _MEASURED.search(reply):
            self.measured = {**self.measured, **{name: float(measured[1]) for name in _MEASURING.findall(written)}}
        entered = self.room not in self.rooms
        self.rooms += [self.room] if entered else []
        self.options = parse_options(reply)
        reward = self.tally.record(self._live.score(), self._live.moves())
        data: Arguments = {**(about or {})}
        data |= {"new_room": True, "look": self._live.look().strip()} if entered else {}
        return self._observation(reply, classify_reply(reply), reward, data)

    def _refuse(self, text: str) -> Observation:
        return self._observation(text, "rejected", 0.0, {"sent": None})

    def _observation(self, text: str, result: ReplyKind, reward: float, extra: Arguments) -> Observation:
        data: Arguments = {**self.tally.data(), "result": result, "room": self.room, **extra}
        if self.focus:
            data |= {"focus": self.focus, "focused_as": self.focused_as}
        if self.measured:
            data["measured"] = dict(self.measured)
        if self.options:
            data["options"] = list(self.options)
        accepted = result not in {"rejected", "ambiguous"}
        done, solved = bool(self.tally.ended), self.tally.ended == "goal"
        data |= {"goal": f"Score: {self.tally.score} of 100."} if solved else {}
        return Observation(text=text, accepted=accepted, reward=reward, done=done, solved=solved, data=data)

    def _question(self) -> str:
        # The pending question as text; empty if there is none.
        texts = "\n".join(dict.fromkeys(self.options))
        return f'{PENDING_QUESTION} Answer with one of these lines, or "{CANCEL}":\n{texts}' if texts else ""

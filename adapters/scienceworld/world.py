"""The live ScienceWorld: one simulator, its moves and calls counted apart, its questions answered by their text."""

import threading
import time
from collections.abc import Callable
from functools import wraps
from typing import Concatenate, ParamSpec, TypeVar, cast

from certigraph.adapters.episodes import current_run
from certigraph.adapters.scienceworld import replies
from certigraph.adapters.scienceworld.pool import POOL, Pool
from certigraph.adapters.scienceworld.scoring import Tally
from certigraph.adapters.scienceworld.setting import Setting
from certigraph.adapters.scienceworld.simulator import Simulator
from certigraph.state.endings import Fault
from certigraph.state.records import Action, Arguments, Observation, Scores

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
        if replies.plain(action.text) == replies.CANCEL:
            return self._observe(self._sent(""), {"sent": ""})
        chosen = replies.choose(action.text, self.options)
        if chosen is None:
            return self._refuse(f"Nothing was done. {self._question()}")
        return self._observe(self._sent(str(chosen)), {"sent": str(chosen), "chosen": self.options[chosen]})

    @_in_use
    def view(self) -> str:
        """The room, what is carried, the rooms seen, and the pending question; looked up once between two steps."""
        if self._view is None:
            seen = f"Rooms seen: {', '.join(self.rooms)}"
            shown = (replies.tidied(text) for text in (self._live.look(), self._live.inventory()))
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
        if replies.is_exception(reply):
            raise Fault(
                "environment",
                f"ScienceWorld's simulator broke in {self.setting.task}:{self.setting.variation}: {reply[:300]}; "
                "the agent is not to blame: start a new run, or leave this variation out",
            )
        self._view = self._admissible = None
        self.room = replies.room_in(reply) or self.room
        entered = self.room not in self.rooms
        self.rooms += [self.room] if entered else []
        self.options = replies.options_in(reply)
        reward = self.tally.count(self._live.score(), self._live.moves())
        more: Arguments = {**(about or {})}
        more |= {"new_room": True, "look": self._live.look().strip()} if entered else {}
        return self._observation(reply, replies.classify(reply), reward, more)

    def _refuse(self, text: str) -> Observation:
        return self._observation(text, "rejected", 0.0, {"sent": None})

    def _observation(self, text: str, result: replies.Result, reward: float, more: Arguments) -> Observation:
        data: Arguments = {**self.tally.data(), "result": result, "room": self.room, **more}
        if self.options:
            data["options"] = list(self.options)
        accepted = result not in {"rejected", "ambiguous"}
        done, solved = bool(self.tally.ended), self.tally.ended == "goal"
        return Observation(text=text, accepted=accepted, reward=reward, done=done, solved=solved, data=data)

    def _question(self) -> str:
        """What is pending, in words; empty when nothing is."""
        texts = "\n".join(dict.fromkeys(self.options))
        return (
            f'Which of these is meant? Answer with one of these lines, or "{replies.CANCEL}":\n{texts}' if texts else ""
        )

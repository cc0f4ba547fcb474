"""A twin of the simulator without Java: it knows one recorded path, and answers off it as the simulator would not."""

from typing_extensions import override

from certigraph.adapters.scienceworld import replies
from certigraph.adapters.scienceworld.pool import Pool
from certigraph.adapters.scienceworld.recording import Recording
from certigraph.adapters.scienceworld.setting import Setting
from certigraph.adapters.scienceworld.simulator import Simulator
from certigraph.adapters.scienceworld.world import ScienceWorld

_LOOKS = ("look around", "look")
_FREE = (*_LOOKS, "inventory", "task")
_COSTS = {"wait": 11, "wait1": 2, **dict.fromkeys(_FREE, 0)}


def twin(recording: Recording, setting: Setting | None = None) -> ScienceWorld:
    """A world that replays a recording, for tests; limited as the recording is, unless a setting says otherwise."""
    return ScienceWorld(setting or recording.setting, Pool(lambda: RecordedSimulator(recording), most=0, idle=None))


class RecordedSimulator(Simulator):
    """One path. The next recorded action, looks before it left out or not, gets the recorded reply; others do nothing.

    It shows the room as it was when last looked at, else as it will be when next looked at, lists the path's own
    actions as valid, and counts moves by the simulator's rules.
    """

    def __init__(self, recording: Recording) -> None:
        self.recording = recording
        self._alive = True
        self._restart()

    @property
    @override
    def alive(self) -> bool:
        return self._alive

    @override
    def load(self, task: str, variation: int, simplification: str) -> str:
        self._restart()
        return self._last

    @override
    def step(self, text: str) -> str:
        said = replies.plain(text)
        at = self._next(said)
        if at is not None:
            self._done, self._last = at + 1, self.recording.obs[at + 1]
            self._count(said)
        elif replies.options_in(self._last):
            self._cancel()
        else:
            self._last = self.look() if said in _LOOKS else replies.UNKNOWN
        return self._last

    @override
    def score(self) -> int:
        return self.recording.scores[self._done - 1] if self._done else self.recording.start

    @override
    def moves(self) -> int:
        return self._moves

    @override
    def look(self) -> str:
        told = [reply for reply in self.recording.obs[: self._done + 1] if replies.room_in(reply)]
        here = replies.room_in(told[-1])
        past, coming = reversed(told), self.recording.obs[self._done + 1 :]
        return next((r for r in (*past, *coming) if r.startswith("This ") and replies.room_in(r) == here), told[-1])

    @override
    def inventory(self) -> str:
        seen = self.recording.obs[: self._done + 1]
        return next((reply for reply in reversed(seen) if reply.startswith("In your inventory")), "")

    @override
    def valid(self) -> list[str]:
        return [action for action in dict.fromkeys(self.recording.gold) if not action.isdecimal()]

    @override
    def description(self) -> str:
        return self.recording.desc

    @override
    def close(self) -> None:
        self._alive = False

    def _restart(self) -> None:
        self._done = self._moves = 0
        self._last = self.recording.obs[0]

    def _next(self, said: str) -> int | None:
        """Where on the path an action is, if it is next."""
        for at in range(self._done, len(self.recording.gold)):
            planned = replies.plain(self.recording.gold[at])
            if said == planned:
                return at
            if planned not in _LOOKS:
                return None
        return None

    def _cancel(self) -> None:
        """Drop the question, as the path itself may do; else the path goes on with what raised it."""
        dropped = self.recording.obs[self._done + 1] == replies.CANCELLED
        self._done, self._last = self._done + (1 if dropped else -1), replies.CANCELLED
        self._moves += 1

    def _count(self, said: str) -> None:
        if replies.classify(self._last) not in {"rejected", "ambiguous"}:
            self._moves += _COSTS.get(said, 1)

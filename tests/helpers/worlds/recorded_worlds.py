"""ScienceWorld without Java: worlds that replay a recorded gold path, and know nothing else."""

from collections.abc import Sequence

from certigraph.adapters.protocols import StateCheck
from certigraph.benchmarks.scienceworld import world
from certigraph.benchmarks.scienceworld.pool import SimulatorPool
from certigraph.benchmarks.scienceworld.recordings import GoldRecording
from certigraph.benchmarks.scienceworld.splits import SPLITS, EpisodeSetting
from certigraph.benchmarks.scienceworld.world import ScienceWorld
from certigraph.state.records import Action, Task

_LOOKS = ("look around", "look")
_FREE = (*_LOOKS, "inventory", "task")
_COSTS = {"wait": 11, "wait1": 2, **dict.fromkeys(_FREE, 0)}


def recorded_setting(recording: GoldRecording) -> EpisodeSetting:
    """The setting of the recorded episode, without limits."""
    setting = SPLITS["gold"].setting(recording.task, recording.variation)
    return setting.model_copy(update={"simplification": recording.simplification})


def recorded_task(recording: GoldRecording) -> Task:
    """The task that was recorded, in the split `gold`, without the simulator."""
    id_ = f"gold/{recording.task}:{recording.variation}"
    constants = recorded_setting(recording).model_dump()
    return Task(benchmark="scienceworld", id=id_, goal=recording.desc, constants=constants)


def create_replay_world(recording: GoldRecording, setting: EpisodeSetting | None = None) -> ScienceWorld:
    """Create a world, for tests, that replays a recording; `setting` replaces the recording's own setting."""
    pool = SimulatorPool(lambda: RecordedSimulator(recording), max_free=0, idle=None)
    return ScienceWorld(setting or recorded_setting(recording), pool)


def replay_live(recordings: Sequence[GoldRecording]) -> list[tuple[list[str], list[object], list[str]]]:
    """Replay gold paths in the real simulator: replies, scores and views of each."""
    return [_replay(recording) for recording in recordings]


def _replay(recording: GoldRecording) -> tuple[list[str], list[object], list[str]]:
    live = ScienceWorld(recorded_setting(recording))
    seen, views = [live.reset()], [live.view()]
    for action in recording.actions:
        seen.append(live.step(Action(text=action)))
        views.append(live.view())
    live.close()
    return [one.text for one in seen], [one.data["score"] for one in seen[1:]], views


class RecordedSimulator:
    """Simulator that replays one recorded path: the next recorded action gets its reply, others have no effect.

    Recorded actions that only look around may be skipped. `look` returns the last recorded description of the room, or
    else the next one. The path's actions are listed as valid, and moves are counted by the simulator's rules.
    """

    def __init__(self, recording: GoldRecording) -> None:
        self.recording = recording
        self._alive = True
        self._restart()

    @property
    def alive(self) -> bool:
        return self._alive

    def load(self, task: str, variation: int, simplification: str) -> str:
        self._restart()
        return self._last

    def step(self, text: str) -> str:
        command = world.normalise_text(text)
        index = self._next(command)
        if index is not None:
            self._done, self._last = index + 1, self.recording.obs[index + 1]
            self._count(command)
        elif world.parse_options(self._last):
            self._cancel()
        else:
            self._last = self.look() if command in _LOOKS else world.UNKNOWN_REPLY
        return self._last

    def score(self) -> int:
        return self.recording.scores[self._done - 1] if self._done else self.recording.start

    def moves(self) -> int:
        return self._moves

    def look(self) -> str:
        replies = [reply for reply in self.recording.obs[: self._done + 1] if world.parse_room(reply)]
        room = world.parse_room(replies[-1])
        past, ahead = reversed(replies), self.recording.obs[self._done + 1 :]
        return next((r for r in (*past, *ahead) if r.startswith("This ") and world.parse_room(r) == room), replies[-1])

    def inventory(self) -> str:
        replies = self.recording.obs[: self._done + 1]
        return next((reply for reply in reversed(replies) if reply.startswith("In your inventory")), "")

    def valid_actions(self) -> list[str]:
        return [action for action in dict.fromkeys(self.recording.gold) if not action.isdecimal()]

    def description(self) -> str:
        return self.recording.desc

    def check_state(self, condition: str, focus: str) -> StateCheck | None:
        state = next((one for one in self.recording.states if one.text == condition), None)
        shown = f"recorded: {condition} (after action {self._done})"
        return StateCheck(self._done in state.held, shown) if state else None

    def close(self) -> None:
        self._alive = False

    def _restart(self) -> None:
        self._done = self._moves = 0
        self._last = self.recording.obs[0]

    def _next(self, command: str) -> int | None:
        # Index of an action on the path, if it is the next one.
        for index in range(self._done, len(self.recording.gold)):
            planned = world.normalise_text(self.recording.gold[index])
            if command == planned:
                return index
            if planned not in _LOOKS:
                return None
        return None

    def _cancel(self) -> None:
        # Drops the question. If the path does not drop it too, it continues with the action that raised it.
        dropped = self.recording.obs[self._done + 1] == world.CANCELLED_REPLY
        self._done, self._last = self._done + (1 if dropped else -1), world.CANCELLED_REPLY
        self._moves += 1

    def _count(self, command: str) -> None:
        if world.classify_reply(self._last) not in {"rejected", "ambiguous"}:
            self._moves += _COSTS.get(command, 1)

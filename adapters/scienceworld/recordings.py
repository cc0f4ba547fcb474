"""Gold paths (the simulator's own solutions) of ScienceWorld: recording, storing and checking them.

The module is also a command:

    python -m certigraph.adapters.scienceworld.recordings boil:0 freeze:0 --out FILE.jsonl.gz
    python -m certigraph.adapters.scienceworld.recordings --check
"""

import argparse
import gzip
import hashlib
import json
import sys
from collections.abc import Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from pydantic import ConfigDict, Field, model_validator

from certigraph.adapters.files import JsonRow, cache_folder, read_rows, replace_file
from certigraph.adapters.scienceworld import world
from certigraph.adapters.scienceworld.objects import PathState, parse_focus, select_states
from certigraph.adapters.scienceworld.pool import DEFAULT_POOL
from certigraph.adapters.scienceworld.simulator import VERSION, JavaSimulator
from certigraph.adapters.scienceworld.splits import SPLITS, EpisodeSetting, list_ids, setting_of
from certigraph.adapters.scienceworld.world import ScienceWorld
from certigraph.state.endings import Fault, Stopped, UnknownName
from certigraph.state.records import Action, Record, Task

# Recordings and their files.


class GoldRecording(Record):
    """Recorded gold path with the simulator's replies.

    `obs[0]` is the first look around, `obs[i + 1]` the reply to the action `gold[i]`, `scores[i]` the score after it.
    `resolved` holds the actions of `gold` as an agent would write them. If the simulator asks which object is meant, a
    number as the answer is replaced by the option's text, and an action that does not answer by "cancel". `firstdone`
    is the number (from 1) of the action that first reaches score 100; later actions only wait. `start` is the score
    after the first look, `moves` the simulator's count of moves at the end. `digest` is a hash of `obs` and `scores`.
    `states` are the conditions that become true on the way to score 100, read from the simulator's own state.
    """

    model_config = ConfigDict(frozen=True, extra="ignore", populate_by_name=True)

    task: str
    variation: int = Field(alias="var")
    simplification: str = Field(default="", alias="simp")
    desc: str
    gold: tuple[str, ...]
    resolved: tuple[str, ...]
    obs: tuple[str, ...]
    scores: tuple[int, ...]
    start: int = 0
    firstdone: int
    moves: int
    progress: str = ""
    digest: str
    states: tuple[PathState, ...] = ()

    @model_validator(mode="before")
    @classmethod
    def _completed(cls, row: dict[str, Any]) -> dict[str, Any]:
        expected = compute_digest(row["obs"], row["scores"])
        if row.get("digest", expected) != expected:
            raise ValueError(
                f"digest {row['digest']} of {row['task']} does not fit its replies, {expected}: record it again"
            )
        return {"resolved": _resolve_answers(row["gold"], row["obs"]), "digest": expected, **row}

    @property
    def actions(self) -> tuple[str, ...]:
        """Actions up to score 100 as an agent would write them (see `resolved`)."""
        return self.resolved[: self.firstdone]

    @property
    def setting(self) -> EpisodeSetting:
        """Setting of the recorded episode, without limits."""
        return (
            SPLITS["gold"].setting(self.task, self.variation).model_copy(update={"simplification": self.simplification})
        )

    @property
    def id(self) -> str:
        """Task id in the split `gold`."""
        return f"gold/{self.task}:{self.variation}"

    def as_task(self) -> Task:
        """Create the task that was recorded, without starting the simulator."""
        return Task(benchmark="scienceworld", id=self.id, goal=self.desc, constants=self.setting.model_dump())


def read_recordings(path: Path) -> tuple[GoldRecording, ...]:
    """Read the recordings of a gzipped JSONL file, one per line.

    Raises:
        Fault: ("data") the file or a line cannot be read; the message names the line.
    """
    return tuple(_parse_recording(row) for row in read_rows(path))


def write_recordings(path: Path, recordings: Iterable[GoldRecording]) -> None:
    """Write recordings to a gzipped JSONL file; equal recordings give equal bytes."""
    lines = "".join(json.dumps(r.model_dump(mode="json", by_alias=True)) + "\n" for r in recordings)
    with replace_file(path) as unfinished:
        unfinished.write_bytes(gzip.compress(lines.encode(), mtime=0))


def compute_digest(obs: Sequence[str], scores: Sequence[int]) -> str:
    """Hash replies and scores to sixteen hex digits."""
    return hashlib.sha256(json.dumps([list(obs), list(scores)]).encode()).hexdigest()[:16]


def _parse_recording(row: JsonRow) -> GoldRecording:
    try:
        return GoldRecording.model_validate(row.value)
    except (ValueError, KeyError, TypeError) as error:
        raise Fault("data", f"{row.where} is not a valid recording: {error}") from error


def _resolve_answers(gold: Sequence[str], obs: Sequence[str]) -> tuple[str, ...]:
    return tuple(
        _resolve_answer(action, world.parse_options(before)) for action, before in zip(gold, obs, strict=False)
    )


def _resolve_answer(action: str, options: Sequence[str]) -> str:
    if not options:
        return action
    number = world.choose_option(action, options)
    return world.CANCEL if number is None else options[number]


# Recording, and checking that replays in other processes give identical bytes.

CHECKED_TASKS = (
    "boil", "chemistry-mix", "find-animal", "freeze", "find-plant", "change-the-state-of-matter-of",
    "find-living-thing", "grow-plant", "identify-life-stages-1", "inclined-plane-determine-angle",
    "lifespan-longest-lived", "measure-melting-point-known-substance", "chemistry-mix-paint-secondary-color",
)  # fmt: skip
"""Tasks that `--check` replays by default."""


def record_gold(simulator: JavaSimulator, task: str, variation: int = 0, simplification: str = "") -> GoldRecording:
    """Get the gold path of a task from the simulator, and record its replies to it.

    This takes seconds; for the tasks on Mendelian genetics, one to two minutes.
    """
    simulator.load(task, variation, simplification, gold=True)
    gold, desc = simulator.gold_actions(), simulator.description()
    obs, start = [simulator.load(task, variation, simplification)], simulator.score()
    scores, focus, states = list[int](), "", [simulator.read_state("")]
    for action in gold:
        obs.append(simulator.step(action))
        scores.append(simulator.score())
        focus = parse_focus(obs[-1]) or focus
        states.append(simulator.read_state(focus))
    if 100 not in scores:
        raise Fault("environment", f"the gold path of {task}:{variation} ({simplification!r}) ends at {scores[-1:]}")
    row = {"task": task, "var": variation, "simp": simplification, "desc": desc, "gold": gold, "obs": obs}
    result = {"scores": scores, "start": start, "firstdone": scores.index(100) + 1, "moves": simulator.moves()}
    path = _resolve_answers(gold, obs)[: scores.index(100) + 1]
    selected = select_states(path, states[: len(path) + 1])
    return GoldRecording.model_validate({**row, **result, "progress": simulator.progress(), "states": selected})


FORMAT = 2
"""Format of the cached recordings. Those of another format are not read, and the paths are recorded again."""


def load_gold_recording(task: str, variation: int = 0, simplification: str = "") -> GoldRecording:
    """Return the recorded gold path of a task; recorded on first use on a machine, then read from a cache file."""
    name = f"gold{FORMAT}-{task}-{variation}{simplification and '-'}{simplification.replace(',', '-')}.jsonl.gz"
    path = cache_folder() / f"scienceworld-{VERSION}" / name
    if path.is_file():
        return read_recordings(path)[0]
    with DEFAULT_POOL.lend() as simulator:
        assert isinstance(simulator, JavaSimulator)
        recording = record_gold(simulator, task, variation, simplification)
    write_recordings(path, [recording])
    return recording


def replay_recordings(recordings: Sequence[GoldRecording]) -> list[tuple[str, str]]:
    """Replay each path in a world. Return two digests for each: of its replies and scores, and of the world's views."""
    return [_replay_path(recording) for recording in recordings]


def find_differences(recordings: Sequence[GoldRecording], processes: int = 3) -> list[str]:
    """Return the ids of recordings whose replays in `processes` separate processes do not all equal the recording."""
    with ProcessPoolExecutor(processes, mp_context=get_context("spawn"), max_tasks_per_child=1) as executor:
        runs = list(executor.map(replay_recordings, [recordings] * processes))
    replays = zip(recordings, zip(*runs, strict=True), strict=True)
    return [r.id for r, digests in replays if len(set(digests)) > 1 or digests[0][0] != _compute_path_digest(r)]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; the exit status is 1 if a replay differs, 2 if something is missing."""
    options = _create_parser().parse_args(arguments)
    names = options.tasks or ([f"{task}:0" for task in CHECKED_TASKS] if options.check else list_ids("variation-0"))
    try:
        recordings = [_record(name, options.simplification) for name in names]
        if options.out:
            write_recordings(options.out, recordings)
        wrong = find_differences(recordings, options.processes) if options.check else []
    except (Stopped, UnknownName) as problem:
        print(problem, file=sys.stderr)
        return 2
    for recording in recordings if options.check else []:
        print(f"{recording.id}: {'DIFFERS' if recording.id in wrong else 'identical'} in {options.processes} processes")
    return 1 if wrong else 0


def _create_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description="Record ScienceWorld's gold paths, and check their replay.")
    parser.add_argument("tasks", nargs="*", metavar="TASK:VARIATION", help="by default all thirty, variation 0")
    parser.add_argument("--out", type=Path, help="the gzipped JSONL file to write")
    parser.add_argument("--simplification", default="", help="'' (the default) or easy")
    parser.add_argument("--check", action="store_true", help="replay in separate processes; by default 13 tasks")
    parser.add_argument("--processes", type=int, default=3)
    return parser


def _record(name: str, simplification: str) -> GoldRecording:
    _, setting = setting_of(name)
    with DEFAULT_POOL.lend() as simulator:
        assert isinstance(simulator, JavaSimulator)
        recording = record_gold(simulator, setting.task, setting.variation, simplification)
    print(f"{recording.id}: {len(recording.gold)} actions, 100 at {recording.firstdone}, {recording.moves} moves")
    return recording


def _replay_path(recording: GoldRecording) -> tuple[str, str]:
    world = ScienceWorld(recording.setting)
    observations, views = [world.reset()], [world.view()]
    for action in recording.actions:
        observations.append(world.step(Action(text=action)))
        views.append(world.view())
    world.close()
    scores = [int(str(observation.data["score"])) for observation in observations[1:]]
    return compute_digest([o.text for o in observations], scores), hashlib.sha256(
        "\n".join(views).encode()
    ).hexdigest()[:16]


def _compute_path_digest(recording: GoldRecording) -> str:
    return compute_digest(recording.obs[: recording.firstdone + 1], recording.scores[: recording.firstdone])


if __name__ == "__main__":
    sys.exit(main())

"""Makes recordings of gold paths, and checks that they replay to the byte in other processes.

python -m certigraph.adapters.scienceworld.recorder boil:0 freeze:0 --out FILE.jsonl.gz
python -m certigraph.adapters.scienceworld.recorder --check
"""

import argparse
import hashlib
import sys
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

from certigraph.adapters.caching import cache_folder
from certigraph.adapters.scienceworld.java import JavaSimulator
from certigraph.adapters.scienceworld.pool import POOL
from certigraph.adapters.scienceworld.recording import Recording, digest, read_recordings, write_recordings
from certigraph.adapters.scienceworld.simulator import VERSION
from certigraph.adapters.scienceworld.splits import ids, setting_of
from certigraph.adapters.scienceworld.world import ScienceWorld
from certigraph.state.endings import Fault, Stopped, UnknownName
from certigraph.state.records import Action

CHECKED = (
    "boil", "chemistry-mix", "find-animal", "freeze", "find-plant", "change-the-state-of-matter-of",
    "find-living-thing", "grow-plant", "identify-life-stages-1", "inclined-plane-determine-angle",
    "lifespan-longest-lived", "measure-melting-point-known-substance", "chemistry-mix-paint-secondary-color",
)  # fmt: skip
"""The tasks whose replay `--check` compares."""


def record_gold(simulator: JavaSimulator, task: str, variation: int = 0, simplification: str = "") -> Recording:
    """Ask the simulator for its gold path, then walk it. Seconds; the mendelian tasks take one to two minutes."""
    simulator.load(task, variation, simplification, gold=True)
    gold, desc = simulator.gold_actions(), simulator.description()
    obs, start = [simulator.load(task, variation, simplification)], simulator.score()
    scores = []
    for action in gold:
        obs.append(simulator.step(action))
        scores.append(simulator.score())
    if 100 not in scores:
        raise Fault("environment", f"the gold path of {task}:{variation} ({simplification!r}) ends at {scores[-1:]}")
    row = {"task": task, "var": variation, "simp": simplification, "desc": desc, "gold": gold, "obs": obs}
    done = {"scores": scores, "start": start, "firstdone": scores.index(100) + 1, "moves": simulator.moves()}
    return Recording.model_validate({**row, **done, "progress": simulator.progress()})


def gold_recording(task: str, variation: int = 0, simplification: str = "") -> Recording:
    """The gold path with its replies; recorded on first use on this machine, then read from the cache."""
    name = f"gold-{task}-{variation}{simplification and '-'}{simplification.replace(',', '-')}.jsonl.gz"
    path = cache_folder() / f"scienceworld-{VERSION}" / name
    if path.is_file():
        return read_recordings(path)[0]
    with POOL.lend() as simulator:
        assert isinstance(simulator, JavaSimulator)
        recording = record_gold(simulator, task, variation, simplification)
    write_recordings(path, [recording])
    return recording


def replay(recordings: Sequence[Recording]) -> list[tuple[str, str]]:
    """Walk each path in a world: the digests of replies with scores, and of all views on the way."""
    return [_walk(recording) for recording in recordings]


def differing(recordings: Sequence[Recording], processes: int = 3) -> list[str]:
    """The ids whose replays in that many separate processes are not byte for byte the recorded ones, or not alike."""
    with ProcessPoolExecutor(processes, mp_context=get_context("spawn"), max_tasks_per_child=1) as executor:
        runs = list(executor.map(replay, [recordings] * processes))
    together = zip(recordings, zip(*runs, strict=True), strict=True)
    return [r.id for r, found in together if len(set(found)) > 1 or found[0][0] != _path_digest(r)]


def main(arguments: Sequence[str] | None = None) -> int:
    """The command; 1 when a replay differs, 2 when something is missing."""
    given = _parser().parse_args(arguments)
    names = given.tasks or ([f"{task}:0" for task in CHECKED] if given.check else ids("variation-0"))
    try:
        recordings = [_record(name, given.simplification) for name in names]
        if given.out:
            write_recordings(given.out, recordings)
        wrong = differing(recordings, given.processes) if given.check else []
    except (Stopped, UnknownName) as problem:
        print(problem, file=sys.stderr)
        return 2
    for recording in recordings if given.check else []:
        print(f"{recording.id}: {'DIFFERS' if recording.id in wrong else 'identical'} in {given.processes} processes")
    return 1 if wrong else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description="Record ScienceWorld's gold paths afresh, and check their replay.")
    parser.add_argument("tasks", nargs="*", metavar="TASK:VARIATION", help="by default all thirty, variation 0")
    parser.add_argument("--out", type=Path, help="the gzipped JSONL file to write")
    parser.add_argument("--simplification", default="", help="'' (the default) or easy")
    parser.add_argument("--check", action="store_true", help="replay in separate processes; by default 13 tasks")
    parser.add_argument("--processes", type=int, default=3)
    return parser


def _record(name: str, simplification: str) -> Recording:
    _, setting = setting_of(name)
    with POOL.lend() as simulator:
        assert isinstance(simulator, JavaSimulator)
        recording = record_gold(simulator, setting.task, setting.variation, simplification)
    print(f"{recording.id}: {len(recording.gold)} actions, 100 at {recording.firstdone}, {recording.moves} moves")
    return recording


def _walk(recording: Recording) -> tuple[str, str]:
    world = ScienceWorld(recording.setting)
    seen, views = [world.reset()], [world.view()]
    for action in recording.actions:
        seen.append(world.step(Action(text=action)))
        views.append(world.view())
    world.close()
    scores = [int(str(observation.data["score"])) for observation in seen[1:]]
    return digest([o.text for o in seen], scores), hashlib.sha256("\n".join(views).encode()).hexdigest()[:16]


def _path_digest(recording: Recording) -> str:
    return digest(recording.obs[: recording.firstdone + 1], recording.scores[: recording.firstdone])


if __name__ == "__main__":
    sys.exit(main())

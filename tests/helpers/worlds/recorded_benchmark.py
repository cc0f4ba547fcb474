"""ScienceWorld without Java: a benchmark of recorded gold paths, whose expert reads the recordings too."""

from collections.abc import Sequence
from functools import cache
from pathlib import Path

from certigraph.adapters.protocols import Responder
from certigraph.benchmarks.scienceworld.benchmark import ScienceWorldBenchmark
from certigraph.benchmarks.scienceworld.expert import create_expert
from certigraph.benchmarks.scienceworld.recordings import GoldRecording, read_recordings
from certigraph.benchmarks.scienceworld.world import ScienceWorld
from certigraph.state.records import Task
from helpers.worlds.recorded_worlds import create_replay_world, recorded_task


@cache
def gold_recordings() -> tuple[GoldRecording, ...]:
    """Gold paths of all thirty tasks with their world states.

    Made by `write_recordings(path, [load_gold_recording(task) for task in FAMILIES])`.
    """
    return read_recordings(Path(__file__).parent / "gold_paths.jsonl.gz")


class RecordedBenchmark(ScienceWorldBenchmark):
    """ScienceWorld whose tasks are those of some recordings, and whose worlds replay them.

    Args:
        recordings: gold paths, one a task.
        config: of SDP's operators.
    """

    def __init__(self, recordings: Sequence[GoldRecording], config: str = "") -> None:
        super().__init__(None, config)
        self.recorded = {recorded_task(recording).id: recording for recording in recordings}

    def task(self, task_id: str) -> Task:
        return recorded_task(self.recorded[task_id])

    def open(self, task: Task) -> ScienceWorld:
        return create_replay_world(self.recorded[task.id])

    def expert(self) -> Responder:
        paths = {(r.task, r.variation, r.simplification): r for r in self.recorded.values()}
        return create_expert(lambda *key: paths[key])

"""ScienceWorld without Java: a benchmark of recorded gold paths, whose expert reads the recordings too."""

from collections.abc import Sequence

from certigraph.adapters.protocols import Responder
from certigraph.adapters.scienceworld.benchmark import ScienceWorldBenchmark
from certigraph.adapters.scienceworld.expert import respond_for
from certigraph.adapters.scienceworld.recordings import Recording, twin
from certigraph.adapters.scienceworld.world import ScienceWorld
from certigraph.state.records import Task


class Twins(ScienceWorldBenchmark):
    """ScienceWorld whose tasks are those of some recordings, and whose worlds replay them.

    Args:
        recordings: gold paths, one a task.
        config: of SDP's operators.
    """

    def __init__(self, recordings: Sequence[Recording], config: str = "") -> None:
        super().__init__(None, config)
        self.recorded = {recording.id: recording for recording in recordings}

    def task(self, task_id: str) -> Task:
        return self.recorded[task_id].as_task()

    def open(self, task: Task) -> ScienceWorld:
        return twin(self.recorded[task.id])

    def expert(self) -> Responder:
        paths = {(r.task, r.variation, r.simplification): r for r in self.recorded.values()}
        return respond_for(lambda *key: paths[key])

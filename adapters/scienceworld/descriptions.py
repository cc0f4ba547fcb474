"""The tasks in words. Only the simulator knows them, so each is asked for once and then kept on disk."""

from certigraph.adapters.caching import cache_folder, whole_file
from certigraph.adapters.scienceworld.pool import POOL, Pool
from certigraph.adapters.scienceworld.simulator import VERSION


def describe(task: str, variation: int, simplification: str, pool: Pool = POOL) -> str:
    """The goal of a variation ("Your task is to ..."); the first time from the simulator, about a second.

    Raises:
        Fault: ("environment") it is not on disk yet and the simulator does not start.
    """
    name = f"{task}-{variation}{'-' if simplification else ''}{simplification.replace(',', '-')}.txt"
    path = cache_folder() / f"scienceworld-{VERSION}" / name
    if path.is_file():
        return path.read_text(encoding="utf-8")
    with pool.lend() as simulator:
        simulator.load(task, variation, simplification)
        goal = simulator.description()
    with whole_file(path) as unfinished:
        unfinished.write_text(goal, encoding="utf-8")
    return goal

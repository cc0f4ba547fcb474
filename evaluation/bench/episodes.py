"""How many episodes a minute a whole evaluation does, inspect_ai included, with a script in place of a model."""

from tempfile import TemporaryDirectory
from time import perf_counter, process_time

from certigraph.evaluation.evaluate import evaluate
from certigraph.state.endings import GOAL, Fault
from certigraph.state.records import Record

AT_ONCE = (1, 16)
BLOCKS = range(3, 7)


class Throughput(Record):
    """One evaluation of SDP on generated BlocksWorld tasks: seconds of wall-clock and of processor time in all."""

    at_once: int
    episodes: int
    seconds: float
    cpu: float

    @property
    def each(self) -> float:
        """Milliseconds of wall-clock per episode."""
        return 1_000 * self.seconds / self.episodes

    @property
    def cpu_each(self) -> float:
        """Milliseconds of processor time per episode."""
        return 1_000 * self.cpu / self.episodes


def throughputs(episodes: int) -> list[Throughput]:
    """Evaluate that many tasks, one at a time and sixteen at once.

    Raises:
        Fault: a run did not reach its goal, or inspect_ai is missing.
    """
    _evaluated(1, 1)  # loads inspect_ai and fills caches
    return [_evaluated(episodes, at_once) for at_once in AT_ONCE]


def _evaluated(episodes: int, at_once: int) -> Throughput:
    ids = [f"{BLOCKS[number % len(BLOCKS)]}-{number}" for number in range(episodes)]
    with TemporaryDirectory() as out:
        began, cpu = perf_counter(), process_time()
        done = evaluate("sdp", "blocksworld", ids=ids, out=out, max_samples=at_once, quiet=True)
        seconds, cpu = perf_counter() - began, process_time() - cpu
    if done.endings != {GOAL: episodes}:
        raise Fault("operator", f"of {episodes} runs not all reached the goal: {done.endings}; see `certigraph run`")
    return Throughput(at_once=at_once, episodes=episodes, seconds=seconds, cpu=cpu)

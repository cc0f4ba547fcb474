"""What a soak is made of: its plan, a line for each run, and the figures."""

from typing import NamedTuple

from certigraph.evaluation.bench.soak_held import Held
from certigraph.state.records import Record


class Plan(NamedTuple):
    """A soak: how many episodes, how many of them at once, and how many seconds late the endpoint replies."""

    episodes: int
    at_once: int
    delay: float


class Row(Record):
    """One run that ended: when and how, and what it took."""

    number: int
    graph: str
    run: str
    """Its folder's name; empty where it raised, which no run should."""
    ending: str
    seconds: float
    """Wall-clock from its call to its result."""
    calls: tuple[float, ...]
    """Seconds that each model call took, as the caller saw it."""
    cpu: float
    """Processor time of the whole process at its end."""
    memory: float
    """Resident MB of the process at its end."""


class Window(Record):
    """Consecutive episodes in the order in which they ended, from 0."""

    first: int
    end: int
    cpu_each: float
    """Milliseconds of processor time per episode."""
    memory: float
    """Resident MB at its end."""


class Overhead(Record):
    """Milliseconds that are added to what the endpoint takes: by certigraph, by its client, by waiting for both."""

    p50: float
    p99: float
    most: float


class Disk(Record):
    """What lies in the runs' folders: the runs that have a footer, megabytes of trajectories and of all else."""

    finished: frozenset[str]
    trajectories: float
    rest: float


class Soak(Record):
    """What a soak came to."""

    episodes: int
    at_once: int
    delay: float
    """Seconds that the endpoint took for every reply."""
    begun: int
    ended: int
    lost: int
    """Runs that ended and have no footer on disk."""
    endings: dict[str, dict[str, int]]
    """Runs by graph and ending."""
    seconds: float
    busy: float
    """The part of a processor that the process used."""
    load: tuple[float, float, float]
    """The machine's load average over the last 1, 5 and 15 minutes; the endpoint's own process is in it."""
    windows: tuple[Window, ...]
    flat: float
    """Processor time per episode of the last window in which all places were taken, to that of the second one."""
    grown: float
    """Resident memory at the end to that after the warm-up, less 1."""
    most_grown: float
    """The same of the most that any later episode left."""
    run: Overhead
    """Of a whole run."""
    call: Overhead
    """Of a model call."""
    trajectories: float
    """Megabytes that the runs' trajectories take on disk."""
    rest: float
    """Megabytes of all else in their folders."""
    start: Held
    """Before the first run, its graph built."""
    end: Held

"""Time per superstep: SDP's graph, the bare loop and the plain one, in laps that take turns."""

from collections.abc import Mapping, Sequence
from statistics import median
from typing import Literal

from certigraph.evaluation.bench.laps import Lap, Loop, Setting, lap
from certigraph.state.records import Record

SETTINGS = (
    Setting("sdp", "ainvoke"),
    Setting("bare", "ainvoke"),
    Setting("sdp", "invoke"),
    Setting("bare", "invoke"),
    Setting("sdp", "ainvoke", saver=True),
    Setting("bare", "ainvoke", saver=True),
    Setting("python", "for"),
)


class Speed(Record):
    """Wall-clock milliseconds per superstep of one loop, called in one way."""

    loop: Loop
    call: Literal["ainvoke", "invoke", "for"]
    saver: bool
    """Whether AsyncSqliteSaver kept checkpoints in a file, durability "async"."""
    supersteps: int
    best: float
    median: float
    own: float
    """The median without what the world took; there are no model calls."""
    ratio: float | None = None
    """SDP to the bare loop called alike: the median over the laps."""


def measured(rungs: int, repetitions: int) -> list[Speed]:
    """Each setting's speed on a ladder of that many rungs. Raises Fault when a loop did not reach its top."""
    for setting in SETTINGS:
        lap(setting, 1)  # the first call of anything pays for imports and caches
    rounds = [{setting: lap(setting, rungs) for setting in SETTINGS} for _ in range(repetitions)]
    return [_speed(setting, rounds) for setting in SETTINGS]


def _speed(setting: Setting, rounds: Sequence[Mapping[Setting, Lap]]) -> Speed:
    laps = [laps[setting] for laps in rounds]
    return Speed(
        **setting._asdict(),
        supersteps=laps[0].supersteps,
        best=min(lap.each for lap in laps),
        median=median(lap.each for lap in laps),
        own=median(lap.own for lap in laps),
        ratio=_to_bare(setting, rounds) if setting.loop == "sdp" else None,
    )


def _to_bare(setting: Setting, rounds: Sequence[Mapping[Setting, Lap]]) -> float:
    bare = setting._replace(loop="bare")
    return median(laps[setting].each / laps[bare].each for laps in rounds)

"""One run of a comparison as a row of figures, read from its trajectory."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from certigraph.evaluation.sound import legible
from certigraph.state.endings import FAULTS
from certigraph.state.records import Record
from certigraph.state.trajectory import Event, Trajectory

GATHER = "gather"
"""The node that brings what TDP's sub-tasks did in copies of the world into the world itself."""


class Prompted(Record):
    """Prompt tokens of one role, and how many of them the model had cached."""

    prompt_tokens: int = 0
    cached_tokens: int = 0

    @property
    def share(self) -> float:
        """Cached tokens per prompt token, 0 to 1."""
        return self.cached_tokens / self.prompt_tokens if self.prompt_tokens else 0.0


class Cost(Record):
    """What was spent: calls and tokens that were paid, US dollars, world steps, wall-clock seconds inside nodes."""

    calls: int
    prompt_tokens: int
    cached_tokens: int
    output_tokens: int
    steps: int
    seconds: float
    usd: float = 0.0
    roles: dict[str, Prompted]


class Row(Cost):
    """A finished run; `score` is 0 to 100, `trial` counts from 0."""

    method: str
    task: str
    trial: int = 0
    ending: str
    score: float
    solved: bool
    scored: bool = True
    """Whether the world gave a score at all."""
    run: str

    @property
    def verdict(self) -> bool | None:
        """Whether the scorer says that the task is solved; None without a score."""
        return self.solved if self.scored else None

    @property
    def fault(self) -> bool:
        """Whether the world or its data failed, so that no figure counts the run."""
        return self.ending in FAULTS


def cost_of(rows: Sequence[Row]) -> Cost:
    """What several runs cost together."""
    amounts = ("calls", "prompt_tokens", "cached_tokens", "output_tokens", "steps", "seconds", "usd")
    sums = {name: sum(getattr(row, name) for row in rows) for name in amounts}
    return Cost(**sums, roles=merged(row.roles for row in rows))


def by_task(rows: Sequence[Row], figure: str) -> dict[str, list[float]]:
    """One figure of each task's trials."""
    found = defaultdict[str, list[float]](list)
    for row in rows:
        found[row.task].append(float(getattr(row, figure)))
    return dict(found)


def row_of(method: str, task: str, trajectory: Trajectory, trial: int = 0) -> Row:
    """The row of a run that has its ending. One that came to no verdict, not even to a world, scores 0.

    Raises:
        Fault: ("data") the trajectory is of no such run.
    """
    footer, usage = trajectory.footer, trajectory.usage
    with legible(trajectory.header.run_id):
        steps = sum(map(steps_of, trajectory.events))
        roles = _roles([*trajectory.events, *trajectory.superseded])
    value = footer.scores.value if footer and footer.scores else 0.0
    return Row(
        method=method,
        task=task,
        trial=trial,
        ending=trajectory.ending,
        score=100 * value,
        solved=value >= 1,
        scored=bool(footer and footer.scores),
        calls=usage.calls,
        prompt_tokens=usage.input_tokens,
        cached_tokens=usage.cached_tokens,
        output_tokens=usage.output_tokens,
        steps=steps,
        seconds=usage.seconds,
        usd=usage.usd,
        roles=roles,
        run=trajectory.header.run_id,
    )


def merged(several: Iterable[Mapping[str, Prompted]]) -> dict[str, Prompted]:
    """The roles of several runs together."""
    sums: dict[str, Prompted] = {}
    for roles in several:
        for role, more in roles.items():
            known = sums.get(role, Prompted())
            sums[role] = Prompted(
                prompt_tokens=known.prompt_tokens + more.prompt_tokens,
                cached_tokens=known.cached_tokens + more.cached_tokens,
            )
    return sums


def steps_of(event: Event) -> int:
    """World steps of one event: what `act` added to the log, episode after episode, in inner graphs too.

    A log that is begun anew holds what was done before, and `gather` repeats what sub-tasks did.
    """
    repeats = event.node == GATHER or "history" in event.replaced
    log: Any = [] if repeats else (event.update or {}).get("history", [])
    return len(log)


def _roles(events: Iterable[Event]) -> dict[str, Prompted]:
    calls: list[dict[str, Any]] = [call for event in events for call in event.calls]
    return merged({call["role"]: _prompted(call)} for call in calls)


def _prompted(call: Mapping[str, Any]) -> Prompted:
    return Prompted(prompt_tokens=call.get("input_tokens", 0), cached_tokens=call.get("cached_tokens", 0))

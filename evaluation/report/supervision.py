"""The plans of an episode and the Supervisor's word after its actions, by world steps; empty for agents without."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from certigraph.state.subtask import Progress


class Remark(NamedTuple):
    """A line under a turn; `warns` where the Supervisor saw the plan fail."""

    text: str
    warns: bool = False


class Supervision:
    """The plan, how it was made anew, and how the Supervisor saw each step."""

    def __init__(self) -> None:
        self.plans: dict[int, tuple[str, ...]] = {}
        self.words: dict[int, Progress] = {}

    def take(self, step: int, update: Mapping[str, Any]) -> None:
        """Fold the update of one event, which came after so many steps."""
        if update.get("outline"):
            self.plans[step] = tuple(update["outline"])
        if update.get("progress"):
            self.words[step] = Progress.model_validate(update["progress"])

    @property
    def first(self) -> tuple[str, ...]:
        """The plan that was made first."""
        return next(iter(self.plans.values()), ())

    @property
    def latest(self) -> tuple[str, ...]:
        """The plan that is followed now."""
        return next(reversed(self.plans.values()), ())

    def remarks(self, step: int) -> list[Remark]:
        """What was said after the step: the judgement, what to do next, the plan if it was made anew."""
        said = [_judged(self.words[step])] if step in self.words else []
        if step in self.words and self.words[step].guidance:
            said.append(Remark(f"next: {self.words[step].guidance}"))
        if step in self.plans and step != min(self.plans) and self.plans[step] != self._before(step):
            said.append(Remark(f"⟲ plan made anew: {in_line(self.plans[step])}"))
        return [remark for remark in said if remark.text]

    def _before(self, step: int) -> tuple[str, ...]:
        return self.plans[max(number for number in self.plans if number < step)]


def in_line(plan: tuple[str, ...]) -> str:
    """The steps of a plan on one line."""
    return " · ".join(f"{number} {step}" for number, step in enumerate(plan, 1))


def _judged(progress: Progress) -> Remark:
    if progress.off_plan or progress.status == "failed":
        told = "off plan" if progress.off_plan else "failed"
        return Remark(f"{told}: {progress.reason}" if progress.reason else told, warns=True)
    told = "✓ completed" if progress.status == "completed" else ""
    return Remark(": ".join(filter(None, (told, progress.reason))))

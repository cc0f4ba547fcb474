"""Watching a run: a picture that changes in place on a terminal, one plain line an event that matters elsewhere."""

import threading
import time
from collections.abc import Iterator
from typing import Self

from rich.console import Console, RenderableType
from rich.live import Live

from certigraph.evaluation.live.fold import Watched
from certigraph.evaluation.live.frame import clean, frame
from certigraph.state.records import Certificate
from certigraph.state.trajectory import Event, Footer, Line

FRAMES_PER_SECOND = 8
LONGEST_LINE = 160


class LiveView:
    """Give it to `run` as the listener: `with LiveView() as view: run(..., listener=view)`.

    Args:
        console: where to show the run; standard output when not given.
        steps: the limit of world steps, shown beside the steps taken.
    """

    def __init__(self, console: Console | None = None, steps: int | None = None) -> None:
        self.run = Watched()
        self._console = console or Console()
        self._steps = steps
        self._began = time.monotonic()
        self._ended: float | None = None
        self._lock = threading.Lock()
        self._live = self._picture() if self._console.is_terminal else None

    def __enter__(self) -> Self:
        self._began = time.monotonic()
        if self._live:
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._live:
            self._live.stop()

    def __call__(self, line: Line) -> None:
        """Take one trajectory line; the picture follows at its own pace."""
        with self._lock:
            self.run.take(line)
            self._ended = time.monotonic() if isinstance(line, Footer) else None
        if self._live is None:
            for text in plain_lines(self.run, line):
                self._console.print(clean(text, LONGEST_LINE), markup=False, highlight=False, soft_wrap=True)

    def _picture(self) -> Live:
        return Live(
            console=self._console,
            get_renderable=self._frame,
            refresh_per_second=FRAMES_PER_SECOND,
            redirect_stdout=False,
            redirect_stderr=False,
        )

    def _frame(self) -> RenderableType:
        seconds = (self._ended or time.monotonic()) - self._began
        with self._lock:
            return frame(self.run, height=self._console.height, steps=self._steps, seconds=seconds)


def plain_lines(run: Watched, line: Line) -> Iterator[str]:
    """What a line of the trajectory is worth saying about the run that has just taken it, mostly nothing."""
    if isinstance(line, Footer):
        yield _ending(run, line)
    elif isinstance(line, Event):
        update = line.update or {}
        if update.get("certificates"):
            yield _certified(run, run.certificates[-1])
        if line.node == "replan":
            yield _replanned(run, "plan" in update)


def _certified(run: Watched, certificate: Certificate) -> str:
    text = certificate.targets[-1].text
    if certificate.restores is not None:
        return f"step {certificate.step}: returned to certified state {certificate.restores}: {text}"
    cascade = f" (cascade {certificate.depth})" if certificate.depth > 1 else ""
    return f"step {certificate.step}: certified {run.standing}/{run.whole}{cascade}: {text}"


def _replanned(run: Watched, found: bool) -> str:
    if not found:
        return f"step {run.steps}: replanning gave up: {run.target}"
    return f"step {run.steps}: replanned, {len(run.plan) - run.head} predicates from here: {run.target}"


def _ending(run: Watched, footer: Footer) -> str:
    score = f", score {footer.scores.value:.3g}" if footer.scores else ""
    message = f": {footer.message}" if footer.message else ""
    cost = f"{run.steps} steps, {run.spent['calls']:.0f} calls, {run.tokens:,} tokens"
    return f"ended {footer.ending}{score}, {run.standing}/{run.whole} certified, {cost}{message}"

"""Watching a run: a picture that changes in place on a terminal, one plain line an event that matters elsewhere."""

import threading
import time
from typing import Self

from rich.console import Console, RenderableType
from rich.live import Live

from certigraph.evaluation.live.fold import Watched
from certigraph.evaluation.live.frame import frame
from certigraph.evaluation.live.plain import plain_lines
from certigraph.evaluation.live.text import clean
from certigraph.state.trajectory import Footer, Header, Line

FRAMES_PER_SECOND = 8
LONGEST_LINE = 160
LONGEST_TASK = 2_000


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
            longest = LONGEST_TASK if isinstance(line, Header) else LONGEST_LINE
            for text in plain_lines(self.run, line):
                self._console.print(clean(text, longest), markup=False, emoji=False, highlight=False, soft_wrap=True)

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

"""The requests to the invented web of this process: collected in a list, or written to a file."""

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple
from unittest.mock import patch

from certigraph.benchmarks.assistantbench.server import GeneratedWebHandler

Answering = Callable[[GeneratedWebHandler], None]
METHODS = ("do_GET", "do_POST")


class WebRequest(NamedTuple):
    """A request as the server received it."""

    method: str
    host: str
    path: str


def request_of(handler: GeneratedWebHandler) -> WebRequest:
    return WebRequest(handler.command, handler.headers.get("Host", "").partition(":")[0].lower(), handler.path)


@contextmanager
def received_requests() -> Iterator[list[WebRequest]]:
    """Collect the requests that are received while the block runs, in order."""
    requests: list[WebRequest] = []

    def noting(answer: Answering) -> Answering:
        def note_and_answer(handler: GeneratedWebHandler) -> None:
            requests.append(request_of(handler))
            answer(handler)

        return note_and_answer

    with ExitStack() as stack:
        for name in METHODS:
            stack.enter_context(patch.object(GeneratedWebHandler, name, noting(getattr(GeneratedWebHandler, name))))
        yield requests


def log_requests(path: Path, most: int = 0) -> None:
    """Have this process write each answered request as a line `METHOD host path`: a killed one cannot be asked.

    Where `most` is given, the process dies with that line.
    """

    def logging(answer: Answering) -> Answering:
        def answer_and_log(handler: GeneratedWebHandler) -> None:
            answer(handler)
            with path.open("a", encoding="utf-8") as log:
                log.write(f"{' '.join(request_of(handler))}\n")
            if most and path.read_text(encoding="utf-8").count("\n") >= most:  # another thread may have counted on
                os.kill(os.getpid(), signal.SIGKILL)

        return answer_and_log

    for name in METHODS:
        setattr(GeneratedWebHandler, name, logging(getattr(GeneratedWebHandler, name)))

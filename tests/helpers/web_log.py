"""The requests that the invented web answers, written to a file: a process that is killed cannot be asked for them."""

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from certigraph.adapters.assistantbench.server import GeneratedWebServer


def log_requests(path: Path, most: int = 0) -> None:
    """Have the server of this process write each answered request as a line `METHOD host path`.

    Where `most` is given, the process dies with that line.
    """
    recorded = GeneratedWebServer.record

    @contextmanager
    def logging(self: GeneratedWebServer, method: str, host: str, asked: str) -> Iterator[None]:
        with recorded(self, method, host, asked):
            yield
        with path.open("a", encoding="utf-8") as log:
            log.write(f"{method} {host} {asked}\n")
        if most and path.read_text(encoding="utf-8").count("\n") >= most:  # another thread may have counted on
            os.kill(os.getpid(), signal.SIGKILL)

    GeneratedWebServer.record = logging  # type: ignore[method-assign]

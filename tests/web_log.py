"""The requests that the invented web answers, written to a file: a process that is killed cannot be asked for them."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from certigraph.adapters.assistantbench.generated.server import Server


def log_requests(path: Path) -> None:
    """Have the server of this process write each answered request as a line `METHOD host path`."""
    recorded = Server.recorded

    @contextmanager
    def logging(self: Server, method: str, host: str, asked: str) -> Iterator[None]:
        with recorded(self, method, host, asked):
            yield
        with path.open("a", encoding="utf-8") as log:
            log.write(f"{method} {host} {asked}\n")

    Server.recorded = logging  # type: ignore[method-assign]

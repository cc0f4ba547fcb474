"""Customer support as an MCP server: `python mcp_server.py stdio FILE` or `python mcp_server.py http FILE PORT`.

Every refund leaves a row in the SQLite file.
"""

import os
import signal
import socket
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

START_SECONDS = 30.0


def main(transport: str, path: str, port: str = "0") -> None:
    from mcp.server.fastmcp import FastMCP

    server = FastMCP("desk", host="127.0.0.1", port=int(port), log_level="ERROR")
    base = sqlite3.connect(path, isolation_level=None, timeout=30, check_same_thread=False)
    base.execute("CREATE TABLE IF NOT EXISTS refunds (number INTEGER, amount REAL)")

    @server.tool()
    def look_up(order: int) -> str:
        """Look up an order."""
        return f"order {order}: 49.9 euros, customer ann@example.org, eligible for a refund"

    @server.tool()
    def refund(order: int, amount: float) -> str:
        """Refund an order."""
        base.execute("INSERT INTO refunds VALUES (?, ?)", (order, amount))
        return f"refunded {order}: {amount}"

    @server.tool()
    def refuse(order: int) -> str:
        """Refuse an order."""
        raise ValueError(f"order {order} is locked")

    @server.tool()
    def stop_server(order: int) -> str:
        """End the server in the middle of a call."""
        os.kill(os.getpid(), signal.SIGKILL)
        return "never"

    server.run("stdio" if transport == "stdio" else "streamable-http")


def stdio_connection(path: Path) -> dict[str, Any]:
    """Return the connection of a server that is started for every session."""
    return {"transport": "stdio", "command": sys.executable, "args": [__file__, "stdio", str(path)]}


@contextmanager
def http_server(path: Path) -> Iterator[tuple[dict[str, Any], subprocess.Popen[bytes]]]:
    """Run a server in a child process inside the block; the value is its connection and the process."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    child = subprocess.Popen([sys.executable, __file__, "http", str(path), str(port)])
    try:
        _wait_until_open(port, child)
        yield {"transport": "streamable_http", "url": f"http://127.0.0.1:{port}/mcp"}, child
    finally:
        child.kill()
        child.wait()


def _wait_until_open(port: int, child: subprocess.Popen[bytes]) -> None:
    last = time.monotonic() + START_SECONDS
    while time.monotonic() < last and child.poll() is None:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.05)
    raise RuntimeError("the MCP server did not start")


if __name__ == "__main__":
    main(*sys.argv[1:])

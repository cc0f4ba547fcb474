"""`langgraph dev` in a folder of its own, and calls of its HTTP interface."""

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

LANGGRAPH = Path(sys.executable).with_name("langgraph")

READY_WITHIN = 120
"""Seconds; about 10 are usual."""

LOG, PROCESS = "server.log", "server.pid"
"""Files in the server's folder: what it writes, and the id of its process."""


@contextmanager
def serving(folder: Path, variables: Mapping[str, str]) -> Iterator[httpx.Client]:
    """Serve the graphs of FOLDER/langgraph.json; variables that name keys or services are taken away."""
    if not LANGGRAPH.is_file():
        pytest.skip("needs langgraph-cli: pip install 'certigraph[studio]'")
    port = free_port()
    command = [LANGGRAPH, "dev", "--no-browser", "--no-reload", "--port", str(port)]
    offline = {k: v for k, v in os.environ.items() if not k.startswith(("LANG", "OPENAI", "CERTIGRAPH"))}
    log, environment = folder / LOG, {**offline, **variables}
    with (
        log.open("w") as output,
        subprocess.Popen(command, cwd=folder, env=environment, stdout=output, stderr=output) as process,
    ):
        (folder / PROCESS).write_text(str(process.pid))
        client = httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=60)
        try:
            await_ready(client, process, log)
            yield client
        finally:
            client.close()
            process.terminate()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def await_ready(client: httpx.Client, process: subprocess.Popen[bytes], log: Path) -> None:
    ends = time.monotonic() + READY_WITHIN
    while time.monotonic() < ends and process.poll() is None:
        try:
            if client.get("/ok").is_success:
                return
        except httpx.TransportError:
            time.sleep(0.2)
    raise AssertionError(f"the server did not come up:\n{log.read_text()[-3000:]}")


def json_of(response: httpx.Response) -> Any:
    assert response.is_success, response.text
    return response.json()


def assistant(server: httpx.Client, graph: str) -> dict[str, Any]:
    (found,) = json_of(server.post("/assistants/search", json={"graph_id": graph}))
    return dict(found)


def new_thread(server: httpx.Client) -> str:
    return str(json_of(server.post("/threads", json={}))["thread_id"])


def run_to_end(server: httpx.Client, thread: str, **run: Any) -> dict[str, Any]:
    """The state when the run has ended, or its `__error__`."""
    return dict(json_of(server.post(f"/threads/{thread}/runs/wait", json=run)))


def stream(server: httpx.Client, thread: str, **run: Any) -> list[tuple[str, Any]]:
    """The events of a run: their names and data."""
    events, name = [], ""
    with server.stream("POST", f"/threads/{thread}/runs/stream", json=run) as response:
        for line in response.iter_lines():
            if line.startswith("event: "):
                name = line.removeprefix("event: ")
            elif line.startswith("data: "):
                events.append((name, json.loads(line.removeprefix("data: "))))
    return events

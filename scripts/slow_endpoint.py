"""A slow OpenAI-compatible endpoint, in a process of its own so that its cost is not counted.

It answers with the BlocksWorld expert, after a delay, in JSON schema mode. `soak.py` and `worker_speed.py` use it.
"""

import asyncio
import json
import multiprocessing
import os
import signal
from collections.abc import Iterator
from contextlib import closing, contextmanager
from functools import partial
from multiprocessing.connection import Connection
from time import perf_counter
from typing import Any

from certigraph.adapters.models.scripts import CHARS_PER_TOKEN, TEXT_SCHEMA
from certigraph.benchmarks.blocksworld.expert import answer_at, read_text

CONNECTION_BACKLOG = 1_024
"""Maximum number of connections that wait to be accepted; many runs may connect at the same time."""


@contextmanager
def slow_endpoint(delay: float) -> Iterator[str]:
    """Serve on a loopback port inside a block and yield the base URL; every reply takes `delay` seconds."""
    context = multiprocessing.get_context("spawn")
    parent_end, child_end = context.Pipe()
    process = context.Process(target=_run_server, args=(child_end, delay), daemon=True)
    process.start()
    child_end.close()  # the parent's copy, else the death of the process would not be detected
    try:
        with closing(parent_end):
            yield f"http://127.0.0.1:{parent_end.recv()}/v1"
    finally:
        process.join()


@contextmanager
def use_endpoint(url: str) -> Iterator[None]:
    """Inside a block, send the requests of `openai:` models to a URL, without the user's API key."""
    before = dict(os.environ)
    os.environ.update(CERTIGRAPH_BASE_URL=url, OPENAI_API_KEY="none")
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


def _run_server(connection: Connection, delay: float) -> None:
    # Ctrl-C reaches the complete process group; this process ends with the pipe
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    asyncio.run(_serve(connection, delay))


async def _serve(connection: Connection, delay: float) -> None:
    closed = asyncio.Event()
    asyncio.get_running_loop().add_reader(connection.fileno(), closed.set)
    server = await asyncio.start_server(partial(_handle_connection, delay), "127.0.0.1", 0, backlog=CONNECTION_BACKLOG)
    connection.send(server.sockets[0].getsockname()[1])
    await closed.wait()
    server.close()


async def _handle_connection(delay: float, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Answer one request and close the connection; certigraph's client sends one request per connection."""
    with closing(writer):
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").lower()
        status, reply = "404 Not Found", b"{}"  # of a GET, such as one that looks up the model's context window
        if head.startswith("post"):
            body = await reader.readexactly(int(head.partition("content-length:")[2].split("\r\n")[0]))
            received = perf_counter()
            status, reply = "200 OK", json.dumps(_build_completion(json.loads(body))).encode()
            await asyncio.sleep(delay - (perf_counter() - received))
        fields = f"Content-Type: application/json\r\nContent-Length: {len(reply)}\r\nConnection: close"
        writer.write(f"HTTP/1.1 {status}\r\n{fields}\r\n\r\n".encode() + reply)
        await writer.drain()


def _build_completion(request: dict[str, Any]) -> dict[str, Any]:
    prompt = "\n\n".join(str(message["content"]) for message in request["messages"])
    form = request.get("response_format")
    value = answer_at(read_text(prompt), form["json_schema"]["schema"] if form else TEXT_SCHEMA)
    text = json.dumps(value) if form else str(value)
    read, written = len(prompt) // CHARS_PER_TOKEN, len(text) // CHARS_PER_TOKEN
    usage = {"prompt_tokens": read, "completion_tokens": written, "total_tokens": read + written}
    choice = {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}
    about = {"id": "slow", "object": "chat.completion", "created": 0, "model": request["model"]}
    return {**about, "choices": [choice], "usage": usage}

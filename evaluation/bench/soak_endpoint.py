"""A slow OpenAI-compatible endpoint in a process of its own, so that what it costs is not counted.

It gives the BlocksWorld expert's answer to every question, late, in JSON schema mode.
"""

import asyncio
import json
import multiprocessing
import signal
from collections.abc import Iterator
from contextlib import closing, contextmanager
from functools import partial
from multiprocessing.connection import Connection
from time import perf_counter
from typing import Any

from certigraph.adapters.blocksworld.responder import respond
from certigraph.adapters.models.scripted import CHARS_PER_TOKEN, TEXT

WAITING = 1_024
"""Connections that may wait to be taken: as many as there are runs begin at once."""


@contextmanager
def slow_endpoint(delay: float) -> Iterator[str]:
    """Serve on a loopback port for the length of a block, every reply `delay` seconds late; yields the base URL."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=_process, args=(theirs, delay), daemon=True)
    process.start()
    theirs.close()  # ours to close too, or its death would go unnoticed
    try:
        with closing(ours):
            yield f"http://127.0.0.1:{ours.recv()}/v1"
    finally:
        process.join()


def _process(theirs: Connection, delay: float) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole group; this process ends with the pipe
    asyncio.run(_serve(theirs, delay))


async def _serve(theirs: Connection, delay: float) -> None:
    over = asyncio.Event()
    asyncio.get_running_loop().add_reader(theirs.fileno(), over.set)
    server = await asyncio.start_server(partial(_exchange, delay), "127.0.0.1", 0, backlog=WAITING)
    theirs.send(server.sockets[0].getsockname()[1])
    await over.wait()
    server.close()


async def _exchange(delay: float, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """One request a connection, as certigraph's own client asks."""
    with closing(writer):
        body = await _body(reader)
        asked = perf_counter()
        reply = json.dumps(_completion(json.loads(body))).encode()
        await asyncio.sleep(delay - (perf_counter() - asked))
        head = f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {len(reply)}\r\n"
        writer.write(f"{head}Connection: close\r\n\r\n".encode() + reply)
        await writer.drain()


async def _body(reader: asyncio.StreamReader) -> bytes:
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").lower()
    return await reader.readexactly(int(head.partition("content-length:")[2].split("\r\n")[0]))


def _completion(asked: dict[str, Any]) -> dict[str, Any]:
    prompt = "\n\n".join(str(message["content"]) for message in asked["messages"])
    form = asked.get("response_format")
    value = respond(prompt, form["json_schema"]["schema"] if form else TEXT)
    text = json.dumps(value) if form else str(value)
    read, written = len(prompt) // CHARS_PER_TOKEN, len(text) // CHARS_PER_TOKEN
    usage = {"prompt_tokens": read, "completion_tokens": written, "total_tokens": read + written}
    choice = {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}
    named = {"id": "soak", "object": "chat.completion", "created": 0, "model": asked["model"]}
    return {**named, "choices": [choice], "usage": usage}

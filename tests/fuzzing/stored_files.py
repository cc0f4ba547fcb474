"""Readers of what is kept between runs, where others may write too: caches, lessons, plans of worlds, prices."""

import asyncio
import json
from pathlib import Path
from typing import Any

from fuzzing.target import Read, Target, of_file, of_text
from langchain_core.outputs import Generation
from langgraph.runtime import Runtime
from langgraph.store.memory import InMemoryStore

from certigraph.adapters.json_lines import parse_json
from certigraph.adapters.models.prices import PRICES_EXAMPLE, _read_prices
from certigraph.adapters.models.reply_cache import ReplyCache
from certigraph.adapters.protocols import Context
from certigraph.adapters.web.protocol import WebPage
from certigraph.adapters.web.sources import PAGE_TYPE, WebCache
from certigraph.benchmarks.alfworld.benchmark import _read_plan
from certigraph.nodes.lessons import namespace_of, recall
from certigraph.state.endings import Fault
from certigraph.state.records import Task

LESSON: dict[str, Any] = {"trial": 1, "report": "Done.", "run": "r", "written": 1.0}


def _recalled(text: str) -> object:
    """Lessons in a store that others write to as well."""
    try:
        values = parse_json(text)
    except ValueError:
        return None
    store, runtime = InMemoryStore(), Runtime(context=Context(memory="shared"))
    task = Task(benchmark="b", id="t")
    for number, value in enumerate(values if isinstance(values, list) else []):
        if isinstance(value, dict):  # all that a store takes
            store.put(namespace_of(task, runtime), str(number), value)
    fields: Any = {"task": task, "lessons": (), "trial": 1}
    return asyncio.run(recall(fields, runtime.override(store=store)))


def _priced(path: Path) -> object:
    return _read_prices.__wrapped__(path, 0)


def _reply(path: Path) -> object:
    return ReplyCache(path.parent).lookup("[]", "{}")


def _reply_row(path: Path) -> object:
    """A reply whose text in the file these bytes are."""
    row, cache = path.read_text(errors="replace"), ReplyCache(path.parent)
    cache.update("[]", "{}", [Generation(text="")])
    cache._file.use(lambda opened: opened.execute("UPDATE replies SET reply = ?", (row,)))
    return _reply(path)


def _page(path: Path) -> object:
    return WebCache(path.parent, path.stem).get("who", "what", PAGE_TYPE, lambda: WebPage(url="u", title="t", text="x"))


def _page_row(path: Path) -> object:
    for before in path.parent.glob("*.sqlite*"):  # with a row that was refused, no later one would be read
        before.unlink()
    _page(path.with_suffix(".sqlite"))
    row, cache = path.read_text(errors="replace"), WebCache(path.parent, path.stem)
    cache._file().use(lambda opened: opened.execute("UPDATE answers SET answer = ?", (row,)))
    return _page(path.with_suffix(".sqlite"))


def _whole(read: Any, name: str) -> Read:
    """A reader of a file of SQLite, which has other files next to it."""

    def fresh(path: Path) -> object:
        for neighbour in path.parent.glob(f"{path.name}-*"):
            neighbour.unlink()
        return read(path)

    return of_file(fresh, name)


TARGETS = (
    Target("kept.prices", of_file(_priced, "p.toml"), (Fault,), (PRICES_EXAMPLE.encode(),)),
    Target("kept.world_plan", of_file(_read_plan, "plan.json"), (Fault,), (b'["go to fridge 1"]',)),
    Target("kept.lessons", of_text(_recalled), (Fault,), (json.dumps([LESSON]).encode(),)),
    Target("kept.replies", _whole(_reply, "replies.sqlite"), (Fault,), (b"",)),
    Target("kept.reply", of_file(_reply_row, "reply.json"), (Fault,), (b'{"text": "a"}',)),
    Target("kept.web_cache", _whole(_page, "web.sqlite"), (Fault,), (b"",)),
    Target("kept.web_page", of_file(_page_row, "page.json"), (Fault,), (b'{"url": "u", "title": "t", "text": "x"}',)),
)

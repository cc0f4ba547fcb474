"""Replies of models on disk, so that the same question is asked and paid once.

One SQLite file holds JSON texts and nothing that runs when read. Several processes may use it at once: a reply is one
statement, and of two the first stays.
"""

import asyncio
import hashlib
import json
import sqlite3
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import BaseMessage

from certigraph.adapters.caching import expanded
from certigraph.adapters.context import Context
from certigraph.adapters.models.chat import model_label
from certigraph.adapters.models.endpoint import Reply
from certigraph.adapters.models.schemas import Schema
from certigraph.adapters.models.scripted import ScriptedChat
from certigraph.adapters.models.token_counts import NO_USAGE
from certigraph.adapters.sqlite_cache import CacheFile
from certigraph.state.json_text import json_value

FILE = "replies.sqlite"
LAYOUT = 1
"""Version of the file's layout, as SQLite's user_version."""


class Kept(NamedTuple):
    """The place of one question's reply; nothing is found or kept where there is no cache."""

    file: Path | None
    key: str = ""

    async def find(self) -> Reply | None:
        """The reply that is kept, which costs nothing; None where there is none.

        Raises:
            Fault: ("data") the file is no cache of replies.
        """
        if self.file is None:
            return None
        return await asyncio.to_thread(_file(self.file).use, lambda replies: _read(replies, self.key))

    async def keep(self, reply: Reply) -> None:
        """Keep a reply that could be used. Raises as `find` does."""
        if self.file is not None and not reply.cached:
            await asyncio.to_thread(_file(self.file).use, lambda replies: _write(replies, self.key, reply))


def kept(
    context: Context, model: BaseChatModel, messages: Sequence[BaseMessage], name: str, schema: Schema | None
) -> Kept:
    """The place of the reply to a question: to these messages and schema, by this model, in this trial.

    A model is known by its name, its parameters and the endpoint that serves it; local ones, served at another address
    every time, by their weights. Scripted models need no cache, and a fault is never kept as a model's answer.
    """
    if context.cache is None or isinstance(model, ScriptedChat) or getattr(type(model), "spoils", False):
        return Kept(None)
    question = {
        "model": [model_label(model), model._identifying_params],
        "served": model.metadata or str(getattr(model, "openai_api_base", None)),
        "messages": [[message.type, message.content] for message in messages],
        "schema": [name, schema],
        "trial": context.trial,
    }
    plain = json.dumps(question, sort_keys=True, default=str)
    return Kept(expanded(context.cache) / FILE, hashlib.sha256(plain.encode()).hexdigest())


def _file(path: Path) -> CacheFile:
    return CacheFile(
        path,
        tables="CREATE TABLE replies (key TEXT PRIMARY KEY, reply TEXT NOT NULL)",
        version=LAYOUT,
        what="a cache of replies",
        fix="delete it, or name another folder: --cache FOLDER",
    )


def _read(replies: sqlite3.Connection, key: str) -> Reply | None:
    row = replies.execute("SELECT reply FROM replies WHERE key = ?", (key,)).fetchone()
    if row is None:
        return None
    reply: dict[str, Any] = json_value(row[0])
    return Reply(str(reply["text"]), NO_USAGE, 0.0, cut="", cached=True)


def _write(replies: sqlite3.Connection, key: str, reply: Reply) -> None:
    replies.execute("INSERT OR IGNORE INTO replies VALUES (?, ?)", (key, json.dumps({"text": reply.text})))

"""Cache of model replies, so that the same request is sent and paid once.

The cache has LangChain's interface: it is the file of `--cache FOLDER`, or the cache that a caller set in LangChain.
Only usable replies are stored, which LangChain's own use of a cache does not distinguish.
"""

import asyncio
import hashlib
import json
import sqlite3
from collections.abc import Awaitable, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from langchain_core.caches import RETURN_VAL_TYPE, BaseCache
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import BaseMessage
from langchain_core.outputs import Generation

from certigraph.adapters.composed_chat import spoils_answers
from certigraph.adapters.files import CacheFile, expand_path
from certigraph.adapters.json_lines import parse_json
from certigraph.adapters.models.chat_models import model_label
from certigraph.adapters.models.endpoint import ModelReply, langchain_cache
from certigraph.adapters.models.schemas import Schema
from certigraph.adapters.models.scripts import ScriptedChat
from certigraph.adapters.models.usage import NO_USAGE
from certigraph.adapters.protocols import Context
from certigraph.adapters.redaction import redact_message
from certigraph.state.endings import Fault

CACHE_FILE = "replies.sqlite"
"""Name of the cache's file."""
CACHE_VERSION = 1
"""Version of the cache file's layout, stored as SQLite's user_version."""

T = TypeVar("T")


class ReplyCache(BaseCache):
    """LangChain cache in one SQLite file of a folder, which is created if it is missing.

    The file holds JSON texts; reading it runs no code. Several processes may use it at once: a reply is one statement,
    and the first of two is kept. Every method raises Fault ("data") if the file is not a cache of replies.
    """

    def __init__(self, folder: str | Path) -> None:
        self._file = CacheFile(
            expand_path(folder) / CACHE_FILE,
            tables="CREATE TABLE replies (key TEXT PRIMARY KEY, reply TEXT NOT NULL)",
            version=CACHE_VERSION,
            what="a cache of replies",
            fix="delete it, or name another folder: --cache FOLDER",
        )

    def lookup(self, prompt: str, llm_string: str) -> RETURN_VAL_TYPE | None:
        """Return the stored reply to a prompt, or None."""
        text = self._file.use(lambda replies: _load_text(replies, _hash_request(prompt, llm_string)))
        return None if text is None else [Generation(text=text)]

    def update(self, prompt: str, llm_string: str, return_val: RETURN_VAL_TYPE) -> None:
        """Store the reply to a prompt, unless there is one already."""
        row = _hash_request(prompt, llm_string), json.dumps({"text": return_val[0].text})
        self._file.use(lambda replies: replies.execute("INSERT OR IGNORE INTO replies VALUES (?, ?)", row))

    def clear(self, **kwargs: Any) -> None:
        """Delete all replies."""
        self._file.use(lambda replies: replies.execute("DELETE FROM replies"))


def _hash_request(prompt: str, llm_string: str) -> str:
    return hashlib.sha256(f'{{"messages": {prompt}, {llm_string[1:]}'.encode()).hexdigest()


def _load_text(replies: sqlite3.Connection, key: str) -> str | None:
    row = replies.execute("SELECT reply FROM replies WHERE key = ?", (key,)).fetchone()
    return str(parse_json(row[0])["text"]) if row else None


class ReplyCacheEntry(NamedTuple):
    """Entry of one request in a cache; without a cache nothing is read or written."""

    cache: BaseCache | None
    prompt: str = ""
    """The messages as JSON."""
    llm_string: str = ""
    """Everything else that decides about the reply, as a JSON object: model, endpoint, schema and trial."""

    async def load(self) -> ModelReply | None:
        """Return the cached reply, which costs nothing; None if the cache has none.

        Raises:
            Fault: ("data") the file is not a cache of replies; ("environment") the caller's cache raised an error.
        """
        if self.cache is None:
            return None
        found = await _use(self.cache, self.cache.alookup(self.prompt, self.llm_string))
        return ModelReply(found[0].text, NO_USAGE, 0.0, cut="", cached=True) if found else None

    async def store(self, reply: ModelReply) -> None:
        """Store a usable reply. Raises as `load` does."""
        if self.cache is not None and not reply.cached:
            await _use(self.cache, self.cache.aupdate(self.prompt, self.llm_string, [Generation(text=reply.text)]))


async def _use(cache: BaseCache, work: Awaitable[T]) -> T:
    try:
        return await work
    except (Fault, asyncio.CancelledError):
        raise
    except Exception as error:
        message = f"the cache of replies, {type(cache).__name__}, failed: {type(error).__name__}: {error}"
        raise Fault("environment", redact_message(f"{message}; correct it, or set none")) from error


def reply_cache_entry(
    context: Context, model: BaseChatModel, messages: Sequence[BaseMessage], name: str, schema: Schema | None
) -> ReplyCacheEntry:
    """Return the cache entry of a request: these messages and schema, sent to this model in this trial.

    A model is identified by its name, its parameters and its endpoint. A local model, whose address changes, is
    identified by its weights instead. Replies of scripted models, and of models with injected faults, are not cached.
    """
    if isinstance(model, ScriptedChat) or spoils_answers(type(model)):
        return ReplyCacheEntry(None)
    cache = ReplyCache(context.cache) if context.cache is not None else langchain_cache(model)
    if cache is None:
        return ReplyCacheEntry(None)
    request = {
        "model": [model_label(model), model._identifying_params],
        "schema": [name, schema],
        "served": model.metadata or str(getattr(model, "openai_api_base", None)),
        "trial": context.trial,
    }
    prompt = json.dumps([[message.type, message.content] for message in messages], sort_keys=True, default=str)
    return ReplyCacheEntry(cache, prompt, json.dumps(request, sort_keys=True, default=str))

"""Memory functions of MemGPT (Packer et al., arXiv 2310.08560), also as LangChain tools over a LangGraph store.

There are three memories. Core memory is a short text that the agent always sees and edits. Archival memory keeps
entries that it searches page by page. Recall memory is the conversation, which it searches too.

`call_memory` carries out a call on any `AgentMemory`. MemGPT's graph calls it on the state of its run
(`nodes.memgpt`), and `memory_tools` makes LangChain tools of it for other agents.
"""

import hashlib
import math
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, NamedTuple, Protocol

from langchain_core.messages import BaseMessage
from langchain_core.tools import BaseTool, StructuredTool, ToolException
from langgraph.config import get_config, get_store
from langgraph.store.base import BaseStore, Item

from certigraph.adapters.models.prompts import clip, one_line
from certigraph.state.tools import ToolCall

CORE_APPEND, CORE_REPLACE = "core_memory_append", "core_memory_replace"
ARCHIVE_INSERT, ARCHIVE_SEARCH = "archival_memory_insert", "archival_memory_search"
RECALL_SEARCH = "conversation_search"

DESCRIPTIONS: Mapping[str, str] = {
    CORE_APPEND: "Add a line to core memory, which is always shown to you. Use it for what you must not lose.",
    CORE_REPLACE: "Replace a passage of core memory, given word for word, by another text; an empty text removes it.",
    ARCHIVE_INSERT: "Keep a text in archival memory, which has no limit and which you see only when you search it.",
    ARCHIVE_SEARCH: "Search archival memory. The results come in pages, the most relevant first.",
    RECALL_SEARCH: "Search the answers of the world and your thoughts, also those no longer shown. The results come in "
    "pages, the most relevant first.",
}
"""What each memory function does, by its name, as models read it."""


class MemorySizes(NamedTuple):
    """Bounds on core memory, and on what a search shows."""

    core: int = 2_000
    """Maximum number of characters of core memory."""
    page: int = 5
    """Maximum number of results on a page."""
    characters: int = 2_000
    """Maximum number of characters of one result; the rest is cut."""


class MemoryRefusal(ValueError):
    """A call that a memory function cannot carry out. The message is for the agent, which reads it as the answer."""


class AgentMemory(Protocol):
    """The memory of an agent, wherever it is kept."""

    def core(self) -> Sequence[str]:
        """Return the lines of core memory."""
        ...

    def write_core(self, lines: Sequence[str]) -> None:
        """Replace core memory."""
        ...

    def insert(self, text: str) -> bool:
        """Add an entry to archival memory. Return whether it is new: an entry is kept once, however often inserted."""
        ...

    def search(self, query: str) -> Sequence[str]:
        """Return the entries of archival memory that match a query, the best first."""
        ...

    def conversation(self) -> Sequence[str]:
        """Return recall memory as texts, oldest first.

        Raises:
            MemoryRefusal: there is no conversation here.
        """
        ...


# The functions.


def call_memory(memory: AgentMemory, call: ToolCall, sizes: MemorySizes) -> str:
    """Carry out a call of a memory function and return its answer.

    Args:
        memory: the agent's memory.
        call: name and arguments: `content` (append, insert), `old_content` and `new_content` (replace), or `query` and
            `page` (searches).
        sizes: bounds on core memory and pages.

    Raises:
        MemoryRefusal: the call cannot be carried out; the message says why.
    """
    args = call.args
    match call.name:
        case "core_memory_append":
            memory.write_core(append_to_core(memory.core(), str(args["content"]), sizes.core))
            return "Added to core memory."
        case "core_memory_replace":
            old, new = str(args["old_content"]), str(args["new_content"])
            memory.write_core(replace_in_core(memory.core(), old, new, sizes.core))
            return "Replaced in core memory."
        case "archival_memory_insert":
            text = str(args["content"]).strip()
            if not text:
                raise MemoryRefusal("the text is empty: give the text to keep")
            return "Kept in archival memory." if memory.insert(text) else "Archival memory has this entry already."
        case "archival_memory_search":
            return format_page(memory.search(str(args["query"])), args.get("page", 1), sizes)
        case "conversation_search":
            found = rank_texts(str(args["query"]), memory.conversation())
            return format_page(found, args.get("page", 1), sizes)
    raise MemoryRefusal(f"there is no memory function {call.name!r}; there are {', '.join(DESCRIPTIONS)}")


def append_to_core(lines: Sequence[str], content: str, most: int) -> tuple[str, ...]:
    """Return core memory with another text, line by line. A line that is there already is not added again.

    Raises:
        MemoryRefusal: the text is empty, or core memory would have more than `most` characters.
    """
    added = tuple(filter(None, map(one_line, content.splitlines())))
    if not added:
        raise MemoryRefusal("the text is empty: give the text to add")
    return _check_core(tuple(dict.fromkeys((*lines, *added))), most)


def replace_in_core(lines: Sequence[str], old: str, new: str, most: int) -> tuple[str, ...]:
    """Return core memory with every occurrence of a passage replaced; the passage may go over several lines.

    Raises:
        MemoryRefusal: the passage is not in core memory, or core memory would have more than `most` characters.
    """
    text, passage = "\n".join(lines), "\n".join(map(one_line, old.strip().splitlines()))
    if not passage or passage not in text:
        raise MemoryRefusal(f"core memory does not contain {clip(old, 200)!r}: give a passage of it word for word")
    changed = text.replace(passage, new.strip())
    return _check_core(tuple(dict.fromkeys(filter(None, map(one_line, changed.splitlines())))), most)


def _check_core(lines: tuple[str, ...], most: int) -> tuple[str, ...]:
    size = core_size(lines)
    if size > most:
        fix = f"shorten it with {CORE_REPLACE}, or use {ARCHIVE_INSERT}"
        raise MemoryRefusal(f"core memory would have {size:,} characters, and {most:,} is its limit: {fix}")
    return lines


def core_size(lines: Sequence[str]) -> int:
    """Count the characters of core memory, line ends included."""
    return sum(map(len, lines)) + len(lines)


def rank_texts(query: str, texts: Sequence[str]) -> list[str]:
    """Return the texts that have words of the query, those with most and rarest words first; of equals, the latest.

    A query without any word returns all texts, the latest first.
    """
    newest_first, wanted = list(reversed(texts)), _words_of(query)
    if not wanted:
        return newest_first
    shared = [wanted & _words_of(text) for text in newest_first]
    occurrences = Counter(word for words in shared for word in words)
    # summed in the order of the alphabet, because the order of a set differs from process to process
    scores = [sum(math.log1p(len(texts) / occurrences[word]) for word in sorted(words)) for words in shared]
    order = sorted((n for n, score in enumerate(scores) if score), key=lambda n: -scores[n])
    return [newest_first[n] for n in order]


def _words_of(text: str) -> set[str]:
    return set(re.findall(r"\w+", text.casefold()))


def format_page(found: Sequence[str], page: Any, sizes: MemorySizes) -> str:
    """Format one page of the results of a search, one result a line, under a line such as `Page 2 of 5 (23 found):`.

    Raises:
        MemoryRefusal: there is no page of that number.
    """
    if not found:
        return "Nothing was found."
    last = math.ceil(len(found) / sizes.page)
    if not isinstance(page, int) or not 1 <= page <= last:
        raise MemoryRefusal(
            f"there is no page {page!r:.50}: the results have {last} pages, so give a page of 1 to {last}"
        )
    shown = found[(page - 1) * sizes.page : page * sizes.page]
    lines = (f"- {clip(one_line(text), sizes.characters)}" for text in shown)
    return "\n".join([f"Page {page} of {last} ({len(found)} found):", *lines])


# Archival memory in a LangGraph store: one item an entry, under a key that the text determines.
#
# The key makes inserting idempotent. A call that is repeated, because the process was killed before its result was
# saved, writes the same item again.

Namespace = tuple[str, ...]

ITEMS_PER_REQUEST = 1_000
"""Number of items that are read from a store at a time."""


def memory_namespace(*labels: str) -> Namespace:
    """Return the namespace of a memory; other labels have another namespace."""
    return ("memory", *map(namespace_label, labels))


def namespace_label(text: str) -> str:
    """Return a text as a label of a namespace; other texts have other labels.

    LangGraph forbids labels that are empty or contain dots or NUL.
    """
    return text.replace("%", "%25").replace(".", "%2E").replace("\x00", "%00") or "%"


def store_entry(store: BaseStore, space: Namespace, text: str) -> bool:
    """Write an entry of archival memory to a store. Return whether it is new there."""
    key = hashlib.sha256(text.encode()).hexdigest()[:32]
    if store.get(space, key) is not None:
        return False
    store.put(space, key, {"text": text})
    return True


def search_store(store: BaseStore, space: Namespace, query: str) -> list[str] | None:
    """Return the entries of archival memory in the order of a store's own index; None if the store has no index."""
    items = store.search(space, query=query, limit=ITEMS_PER_REQUEST) if query.strip() else []
    ranked = [item for item in items if item.score is not None]
    return _texts_in(space, ranked) or None


def _texts_in(space: Namespace, items: Sequence[Item]) -> list[str]:
    # stores search by the beginning of a namespace, and another memory may have a longer one
    texts = (str(item.value.get("text", "")) for item in items if tuple(item.namespace) == space)
    return list(filter(None, texts))


class StoreMemory:
    """Memory of an agent in a LangGraph store.

    Args:
        store: the store.
        space: namespace of the memory, under which core and archival memory have a namespace each.
        messages: the conversation; None if it is not known.
    """

    def __init__(self, store: BaseStore, space: Namespace, messages: Sequence[Any] | None) -> None:
        self._store, self._messages = store, messages
        self._core_space, self._archive_space = (*space, "core"), (*space, "archival")

    def core(self) -> Sequence[str]:
        """Return the lines of core memory."""
        item = self._store.get(self._core_space, "core")
        return tuple(item.value.get("lines", ())) if item else ()

    def write_core(self, lines: Sequence[str]) -> None:
        """Replace core memory."""
        self._store.put(self._core_space, "core", {"lines": [*lines]}, index=False)

    def insert(self, text: str) -> bool:
        """Add an entry to archival memory. Return whether it is new."""
        return store_entry(self._store, self._archive_space, text)

    def search(self, query: str) -> Sequence[str]:
        """Return the entries of archival memory that match a query, ranked by the store's index if it has one."""
        ranked = search_store(self._store, self._archive_space, query)
        return rank_texts(query, self._entries()) if ranked is None else ranked

    def _entries(self) -> list[str]:
        items: dict[str, Item] = {}
        start = 0
        while page := self._store.search(self._archive_space, limit=ITEMS_PER_REQUEST, offset=start):
            items |= {f"{item.namespace} {item.key}": item for item in page}
            start += len(page)
        oldest_first = sorted(items.values(), key=lambda item: (item.created_at, item.key))
        return _texts_in(self._archive_space, oldest_first)

    def conversation(self) -> Sequence[str]:
        """Return the messages as texts, without the calls and answers of tools."""
        if self._messages is None:
            raise MemoryRefusal("the conversation cannot be searched here: this agent has no messages in its state")
        texts = [message for message in self._messages if isinstance(message, BaseMessage) and message.type != "tool"]
        return [f"{message.type}: {message.text}" for message in texts if message.text]


# The functions as LangChain tools.


def memory_tools(
    namespace: Sequence[str] | None = None, *, store: BaseStore | None = None, sizes: MemorySizes | None = None
) -> list[BaseTool]:
    """Return MemGPT's memory functions as LangChain tools, for any agent: a ToolNode, LangChain's, or certigraph's own.

    They keep core and archival memory in a LangGraph store. A call that cannot be carried out, such as the replacement
    of a text that is not in core memory, is an error that the agent reads. Repeated calls change nothing more.

    Args:
        namespace: labels under which the memory is kept, such as `("ada",)` for the memory of one user in all threads;
            None for a memory of each thread.
        store: the store; None for the store of the graph in which the tools are called.
        sizes: bounds on core memory and pages.

    Returns:
        The tools `core_memory_append`, `core_memory_replace`, `archival_memory_insert`, `archival_memory_search` and
        `conversation_search`. The last one searches `messages` in the state of the graph, which a ToolNode gives to it.

    Raises:
        ValueError: when a tool is called and there is no store, or neither a namespace nor a thread.
    """
    bounds = sizes or MemorySizes()

    def use(name: str, messages: Sequence[Any] | None = None, **args: Any) -> str:
        memory = StoreMemory(store or _store_of_graph(), _space_of(namespace), messages)
        try:
            return call_memory(memory, ToolCall(name=name, args=args), bounds)
        except MemoryRefusal as refusal:
            raise ToolException(str(refusal)) from refusal

    return [
        StructuredTool.from_function(
            function, description=DESCRIPTIONS[function.__name__], handle_tool_error=lambda error: f"Error: {error}"
        )
        for function in _memory_functions(use)
    ]


def _memory_functions(use: Callable[..., str]) -> Sequence[Callable[..., str]]:
    """Return the functions from which the tools are made; `use` calls a memory function by its name."""
    from langgraph.prebuilt import InjectedState

    def core_memory_append(content: str) -> str:
        return use(CORE_APPEND, content=content)

    def core_memory_replace(old_content: str, new_content: str) -> str:
        return use(CORE_REPLACE, old_content=old_content, new_content=new_content)

    def archival_memory_insert(content: str) -> str:
        return use(ARCHIVE_INSERT, content=content)

    def archival_memory_search(query: str, page: int = 1) -> str:
        return use(ARCHIVE_SEARCH, query=query, page=page)

    def conversation_search(
        query: str, page: int = 1, messages: Annotated[list[Any] | None, InjectedState("messages")] = None
    ) -> str:
        return use(RECALL_SEARCH, messages, query=query, page=page)

    return (
        core_memory_append,
        core_memory_replace,
        archival_memory_insert,
        archival_memory_search,
        conversation_search,
    )


def _store_of_graph() -> BaseStore:
    try:
        store = get_store()
    except (RuntimeError, KeyError):
        store = None
    if store is None:
        raise ValueError(
            "memory_tools found no store: compile the graph with store=..., or give memory_tools(store=...)"
        )
    return store


def _space_of(namespace: Sequence[str] | None) -> Namespace:
    if namespace:
        return memory_namespace(*namespace)
    try:
        thread = get_config().get("configurable", {}).get("thread_id")
    except RuntimeError:
        thread = None
    if not thread:
        fix = "give memory_tools(namespace=(...,)), or invoke the graph with a thread_id"
        raise ValueError(f"memory_tools found neither a namespace nor a thread: {fix}")
    return memory_namespace("thread", str(thread))

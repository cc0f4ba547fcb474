"""A run of MemGPT with checkpoints and a store in files, whose process may be killed anywhere: `run_or_resume`."""

import os
import signal
from pathlib import Path
from typing import Any

from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.store.sqlite import SqliteStore

from certigraph.adapters.models.scripts import ScriptedChat, current_situation
from certigraph.adapters.protocols import Context
from certigraph.graphs import memgpt
from certigraph.state.trajectory import serializer
from helpers.worlds.library_world import LibraryBenchmark

THREAD: Any = {"configurable": {"thread_id": "one"}}

MOVES = [
    {"tool": "archival_memory_insert", "text": "The Ren rises near Tor."},
    {"tool": "core_memory_append", "text": "Osk is fed by the Ren"},
    {"tool": "search", "text": "Ren"},
    {"tool": "archival_memory_insert", "text": "The Tor is a river too."},
    {"tool": "core_memory_replace", "text": "Osk is", "new": "Lake Osk is"},
    {"tool": "archival_memory_search", "text": "river", "page": 1},
    {"tool": "conversation_search", "text": "Ren", "page": 1},
    {"tool": "finish", "text": "Ada"},
]

AT_PUT = "put"


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def run_or_resume(folder: Path, death: str = "") -> dict[str, Any]:
    """The final state of the run in a folder, which goes on from its last checkpoint if there is one.

    `death` says where the process is killed: after the store was written (`put`), or as the model chooses the move of
    that number.
    """

    def choose(prompt: str, schema: Any) -> Any:
        situation = current_situation()
        assert situation
        done = len(situation.state["memory_turns"]) + len(situation.state["turns"])
        if death == str(done):
            die()
        return {"thought": f"thought {done}", **MOVES[done]}

    with (
        SqliteSaver.from_conn_string(str(folder / "checkpoints.sqlite")) as saver,
        SqliteStore.from_conn_string(str(folder / "store.sqlite")) as store,
    ):
        saver.serde = serializer()
        store.setup()
        graph, world, write = memgpt.build(checkpointer=saver, store=store), LibraryBenchmark(), store.put
        if death == AT_PUT:
            store.put = lambda *args, **kwargs: (write(*args, **kwargs), die())  # type: ignore[method-assign]
        context = Context(benchmark=world, chat=ScriptedChat(responder=choose))
        begun = saver.get_tuple(THREAD) is not None
        begin = None if begun else {"task": world.task("only")}
        # else a kill may lose the checkpoint in which the episode got its key, and its entries stay under that key
        state = graph.invoke(begin, THREAD, context=context, durability="sync")
        kept = [item.value["text"] for item in store.search(("memory", "one"), limit=100)]
        return {**state, "kept": kept}

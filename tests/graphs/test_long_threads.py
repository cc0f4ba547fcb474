"""Threads of many turns: what a turn, and a look at the state, read of the checkpoints before."""

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from helpers.worlds.support_database import SupportDatabase, scripted_model
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.checkpoint.sqlite import SqliteSaver

from certigraph import agent

THREAD: Any = {"configurable": {"thread_id": "long"}}
FEW, MANY = 4, 20


class Counting(JsonPlusSerializer):
    """Serializer that counts what it reads."""

    read = 0

    def loads_typed(self, data: tuple[str, bytes]) -> Any:
        """Read a value."""
        self.read += 1
        return super().loads_typed(data)


@pytest.mark.slow
@pytest.mark.parametrize("in_memory", [False, True])
@pytest.mark.parametrize("method", ["sdp", "tdp", "step", "react"])
def test_a_late_turn_reads_no_more_than_an_early_one(
    method: Any, in_memory: bool, database: SupportDatabase, tmp_path: Path
):
    with closing(sqlite3.connect(tmp_path / "threads.sqlite", check_same_thread=False)) as connection:
        serde = Counting()
        saver: BaseCheckpointSaver[Any] = InMemorySaver(serde=serde) if in_memory else SqliteSaver(connection)
        saver.serde = serde
        graph = agent(method, model=scripted_model(), tools=database.tools, checkpointer=saver)
        turns, looks = [], []
        for number in range(MANY):
            before = serde.read
            graph.invoke({"messages": [("user", f"Refund order 17, and note that this is request {number}.")]}, THREAD)
            turns.append(serde.read - before)
            before = serde.read
            state = graph.get_state(THREAD)
            looks.append(serde.read - before)
    assert len(state.values["messages"]) == 8 * MANY
    assert max(turns[FEW:]) <= 1.5 * max(turns[1:FEW])
    assert max(looks[FEW:]) <= 1.5 * max(looks[:FEW])

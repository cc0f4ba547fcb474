"""A chain of calls in an agent with `OrderedCalls`, whose first process ends in its middle."""

import asyncio
import os
from pathlib import Path
from typing import Any

from langchain.agents import create_agent
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver

from certigraph.middleware.ordered_calls import OrderedCalls
from helpers.models.calling_models import Caller

ASK: Any = {"messages": [("user", "Close the case.")]}
THREAD: Any = {"configurable": {"thread_id": "t"}}


def work_in_order(folder: Path, is_async: bool) -> None:
    """Make a chain of calls, or go on with it. The first process ends in its second call, before the effect."""

    def step(number: int) -> str:
        """Take a step."""
        if number == 2 and not (folder / "killed").exists():
            (folder / "killed").touch()
            os._exit(1)
        with (folder / "steps").open("a") as file:
            file.write(f"{number}\n")
        return f"step {number}"

    def carry_on(saver: Any, model: Caller) -> Any:
        return create_agent(model, [step], middleware=[OrderedCalls()], checkpointer=saver)

    model, path = (
        Caller(rounds=[[("step", {"number": number}) for number in (1, 2, 3)]]),
        str(folder / "checkpoints.sqlite"),
    )
    given = None if (folder / "killed").exists() else ASK
    if not is_async:
        with SqliteSaver.from_conn_string(path) as saver:
            carry_on(saver, model).invoke(given, THREAD, durability="sync")
        return

    async def work() -> None:
        async with AsyncSqliteSaver.from_conn_string(path) as saver:
            await carry_on(saver, model).ainvoke(given, THREAD, durability="sync")

    asyncio.run(work())

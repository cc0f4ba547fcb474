"""Customer support agents in child processes that are killed with SIGKILL, and resumed until they end."""

import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.types import Command

from certigraph.adapters.protocols import Context
from certigraph.adapters.tools.world import Tools
from certigraph.graphs.agent import agent
from certigraph.runtime.result import Result
from certigraph.runtime.run import resume, run
from certigraph.state.trajectory import serializer
from helpers.processes.prepared_processes import FORK
from helpers.sample_runs.killed_runs import run_folder
from helpers.worlds.support_database import GOAL, SupportDatabase, scripted_model

ANSWERS = {"refund": ("refunds", "refunded 17: 49.9"), "send_mail": ("mails", "mail sent to ann@example.org")}
"""Table and answer of each tool with an effect."""

EFFECTS: Any = {"look_up": "repeatable"}
PAUSE = 0.04
"""Seconds for which a tool waits before and after its effect, so that kills happen inside of tools as well."""


class Place(NamedTuple):
    """Where an agent works."""

    method: str
    folder: Path
    server: str = ""
    """Address of a Postgres server for the checkpoints; empty for a file."""
    as_run: bool = False
    """Whether it is a run of certigraph instead of a graph that is invoked."""

    @property
    def database(self) -> SupportDatabase:
        return SupportDatabase(self.folder / "desk.sqlite", before=lambda name: time.sleep(PAUSE))

    def count(self, name: str) -> int:
        """Lines that the children have written to a file."""
        path = self.folder / name
        return len(path.read_text().splitlines()) if path.exists() else 0

    def note(self, name: str) -> None:
        with (self.folder / name).open("a") as file:
            file.write("x\n")


@contextmanager
def open_saver(place: Place) -> Iterator[BaseCheckpointSaver[Any]]:
    if place.server:
        from langgraph.checkpoint.postgres import PostgresSaver

        with PostgresSaver.from_conn_string(place.server) as saver:
            saver.serde = serializer()
            saver.setup()
            yield saver
        return
    connection = sqlite3.connect(place.folder / "checkpoints.sqlite", check_same_thread=False, timeout=30)
    yield SqliteSaver(connection, serde=serializer())
    connection.close()


def decide(question: Any, database: SupportDatabase) -> Any:
    """The truth about the calls of a question, by the rows of the database."""
    decisions = []
    for call in question["calls"]:
        table, text = ANSWERS[call["name"]]
        decisions.append({"type": "happened", "result": text} if database.rows(table) else {"type": "repeat"})
    return {"decisions": decisions}


def carry(place: Place) -> None:
    """Begin the work of an agent, or go on with it, until it ends."""
    place.note("started")
    (_carry_run if place.as_run else _carry_graph)(place)
    place.note("ended")


def _carry_graph(place: Place) -> None:
    database = place.database
    config: Any = {"configurable": {"thread_id": str(place.folder)}, "recursion_limit": 300}
    with open_saver(place) as saver:
        method: Any = place.method
        graph: Any = agent(method, model=scripted_model(), tools=database.tools, effects=EFFECTS, checkpointer=saver)
        if saver.get_tuple(config) is None:
            graph.invoke({"messages": [("user", GOAL)]}, config)
        while (state := graph.get_state(config)).tasks:  # `next` leaves out nodes whose writes are not applied yet
            questions = [one.value for one in state.interrupts]
            if questions:
                place.note("questions")
            graph.invoke(Command(resume=decide(questions[0], database)) if questions else None, config)
        (place.folder / "ending").write_text(state.values["ending"])


def _carry_run(place: Place) -> None:
    database = place.database
    world, out = Tools(database.tools, [GOAL], effects=EFFECTS), place.folder / "runs"
    if folder := run_folder(out):
        result = Result(folder)
        if result.ending == "interrupted" and not result.questions:
            result = resume(folder, benchmark=world, chat=scripted_model())
    else:
        result = run(place.method, world, context=Context(chat=scripted_model()), out=out)
    while result.questions:
        place.note("questions")
        answer = decide(result.questions[0], database)
        result = resume(result.folder, answer=answer, benchmark=world, chat=scripted_model())
    (place.folder / "ending").write_text(result.ending)


def carry_in_child(place: Place, seconds: float | None = None) -> float:
    """Carry in a child process, which is killed after some seconds; return how long it ran."""
    before = place.count("started")
    child: Any = FORK.Process(target=carry, args=(place,), daemon=True)
    child.start()
    while child.is_alive() and place.count("started") == before:
        time.sleep(0.001)
    begun = time.monotonic()
    child.join(seconds)
    if seconds is not None:
        child.kill()
        child.join()
    return time.monotonic() - begun

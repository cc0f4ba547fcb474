"""The effects ledger: every call of a tool whose effect must happen once, kept in the checkpointer of the graph.

An entry is written before a call starts and again when it has ended, under the thread, the turn, the call and the
number of equal calls before it. A resumed run, a replay and a fork find the entry and answer from it. A call that
started and has no answer is never repeated by code: its outcome is unknown, and a person decides.

The ledger needs nothing but the interface of LangGraph's checkpointers. An entry is a checkpoint in a namespace of its
own whose pending writes are the lines of the entry. Checkpointers keep the first of two equal writes, so that of two
processes only one can claim a call, and `delete_thread` deletes the entries with the thread.
"""

import asyncio
from collections.abc import Mapping
from typing import Any, NamedTuple
from uuid import NAMESPACE_OID, uuid4, uuid5

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import BaseCheckpointSaver, CheckpointMetadata, empty_checkpoint
from pydantic import Field

from certigraph.adapters.tools.positions import (
    CHECKPOINTER_KEY,
    CHECKPOINTS_KEY,
    DURABILITY_KEY,
    await_checkpoint,
    use_saver,
)
from certigraph.state.endings import Fault
from certigraph.state.records import Arguments, Record

EFFECTS_NAMESPACE = "certigraph:effects"
"""Checkpoint namespace of the ledger's entries."""

STARTED, FINISHED_CALL, PAUSED, REPEAT = "started", "finished", "paused", "repeat"
"""Lines of an entry.

A call is `paused` if the tool itself interrupted the graph; it then starts again when the graph is resumed. `repeat` is
a person's decision that a call whose outcome is unknown did not happen.
"""

NOT_STARTED = -1
"""Number of the attempt of a call about which a person decides before it starts for the first time."""

QUESTION = "question"
"""Name of the lines in which the questions of a run of a node are kept."""


class ToolAnswer(Record):
    """What a tool answered."""

    text: str
    failed: bool = False
    """Whether the tool raised an error, which `text` describes."""
    lost: bool = False
    """Whether the call was made and its answer is not known; `text` says so."""
    broken: str = ""
    """The error, if it says that the tool's own code is wrong."""
    outputs: tuple[Any, ...] = Field(default=(), exclude=True)
    """What `ToolNode` returned, if that is more than a text: commands, messages with artifacts, images or files.
    The ledger keeps them in the form of the checkpointer."""


class LedgerEntry(NamedTuple):
    """State of one call in the ledger."""

    attempts: int = 0
    """How often the call was started."""
    exists: bool = False
    """Whether anything was entered about the call."""
    running: bool = False
    """Whether the latest start has neither an answer nor a decision: the outcome is unknown, or the call runs now."""
    answer: ToolAnswer | None = None


class LoggedQuestion(Record):
    """A question to a person: of a node about calls of unknown outcome, or of a tool that it called."""

    key: str = ""
    """Key of the call whose tool asked."""
    calls: tuple[tuple[str, int], ...] = ()
    """Keys and attempts of the calls that the node asked about."""
    shown: tuple[Arguments, ...] = ()
    """Those calls as they were shown."""
    passed: int = 0
    """Number of answers before this one that were given to earlier questions once more."""


class Ledger:
    """Where calls of tools are entered before they start: a LangGraph checkpointer.

    Args:
        saver: the checkpointer; None for a graph that can neither be resumed nor forked: nothing is entered then.
        thread: id of the thread.
    """

    def __init__(self, saver: BaseCheckpointSaver[Any] | None, thread: str = "") -> None:
        self._saver, self._thread = saver, thread

    async def read(self, key: str) -> LedgerEntry:
        """Return the entry of a call."""
        lines = await self._read_lines(key)
        return LedgerEntry() if lines is None else _parse_entry(lines)

    async def start(self, key: str, entry: LedgerEntry) -> bool:
        """Enter the next start of a call whose entry was read; false if another process has started this attempt.

        Raises:
            Fault: ("environment") the checkpointer does not keep what is entered.
        """
        if self._saver is None:
            return True
        if not entry.exists:
            await self._create(key)
        token, line = uuid4().hex, f"{STARTED}:{entry.attempts}"
        await self._write(key, line, token)
        kept = (await self._read_lines(key) or {}).get(line)
        if kept is None:
            name = type(self._saver).__name__
            fix = "use SqliteSaver, PostgresSaver or another one that keeps pending writes"
            raise Fault("environment", f"the checkpointer {name} keeps no record of calls before they start: {fix}")
        return bool(kept == token)

    async def finish(self, key: str, attempt: int, answer: ToolAnswer) -> None:
        """Enter what the tool answered."""
        outputs = {"outputs": list(answer.outputs)} if answer.outputs else {}
        await self._write_line(key, FINISHED_CALL, attempt, {**answer.as_json(), **outputs})

    async def note(self, key: str, attempt: int, line: str) -> None:
        """Enter that an attempt is PAUSED, or that a person decided to REPEAT it."""
        await self._write_line(key, line, attempt, True)

    async def read_questions(self, task: str) -> list[LoggedQuestion]:
        """Return the questions of a run of a node so far, in order."""
        lines = await self._read_lines(f"{QUESTION}|{task}") or {}
        return [LoggedQuestion.model_validate(lines[f"{QUESTION}:{number}"]) for number in range(len(lines))]

    async def append_question(self, task: str, number: int, question: LoggedQuestion) -> None:
        """Enter the next question of a run of a node."""
        key = f"{QUESTION}|{task}"
        if number == 0:
            await self._create(key)
        await self._write(key, f"{QUESTION}:{number}", question.as_json())

    async def _write_line(self, key: str, line: str, attempt: int, value: object) -> None:
        if attempt == NOT_STARTED:
            await self._create(key)
        await self._write(key, f"{line}:{attempt}", value)

    async def _read_lines(self, key: str) -> dict[str, Any] | None:
        found = await use_saver(self._saver, "get_tuple", self._config(key)) if self._saver else None
        return None if found is None else {channel: value for _, channel, value in found.pending_writes or ()}

    async def _create(self, key: str) -> None:
        config = self._config(key)
        checkpoint = {**empty_checkpoint(), "id": config["configurable"]["checkpoint_id"]}
        metadata: CheckpointMetadata = {"source": "update", "step": 0, "parents": {}}
        if self._saver:
            await use_saver(self._saver, "put", self._config(key, checkpoint=False), checkpoint, metadata, {})

    async def _write(self, key: str, line: str, value: object) -> None:
        task = str(uuid5(NAMESPACE_OID, f"{key}|{line}"))
        # A write that has begun is completed even if the run is cancelled: a lost answer would become a question.
        if self._saver:
            await asyncio.shield(use_saver(self._saver, "put_writes", self._config(key), [(line, value)], task))

    def _config(self, key: str, *, checkpoint: bool = True) -> RunnableConfig:
        place = {"thread_id": self._thread, "checkpoint_ns": EFFECTS_NAMESPACE}
        named = {"checkpoint_id": str(uuid5(NAMESPACE_OID, key))} if checkpoint else {}
        return {"configurable": {**place, **named}}


def open_ledger(config: RunnableConfig) -> Ledger:
    """Return the ledger of a node's run: in the graph's checkpointer, if it has one.

    Raises:
        Fault: ("environment") checkpoints are saved only at the end of the run, so that a crash would lose the place
            of a call, and its effect might happen twice.
    """
    configurable = config.get("configurable", {})
    saver, thread = configurable.get(CHECKPOINTER_KEY), configurable.get("thread_id")
    if not isinstance(saver, BaseCheckpointSaver) or not thread:
        return Ledger(None)
    if configurable.get(DURABILITY_KEY) == "exit":
        reason = "durability='exit' saves nothing before the run has ended, so that effects might happen twice"
        raise Fault("environment", f"{reason}: invoke the outermost graph with durability='sync'")
    return Ledger(saver, str(thread))


async def await_saved_state(config: RunnableConfig) -> None:
    """Wait until the state in which a call was chosen is saved, so that a resumed run does not choose another one.

    With durability "sync" it is saved before the node runs. Otherwise LangGraph saves in the background, one checkpoint
    after another, in the graph of the node and in each graph around it.

    Args:
        config: configuration of the node that makes the call.

    Raises:
        Fault: ("environment") the state is not saved in time.
    """
    configurable = config.get("configurable", {})
    saver, thread = configurable.get(CHECKPOINTER_KEY), configurable.get("thread_id")
    if isinstance(saver, BaseCheckpointSaver) and thread and configurable.get(DURABILITY_KEY) != "sync":
        for namespace, checkpoint in configurable.get(CHECKPOINTS_KEY, {}).items():
            await await_checkpoint(saver, str(thread), namespace, checkpoint)


def _parse_entry(lines: Mapping[str, Any]) -> LedgerEntry:
    attempts = sum(line.startswith(f"{STARTED}:") for line in lines)
    last = attempts - 1
    if finished := [value for line, value in lines.items() if line.startswith(f"{FINISHED_CALL}:")]:
        return LedgerEntry(attempts, True, answer=ToolAnswer.model_validate(finished[0]))
    closed = any(f"{line}:{last}" in lines for line in (PAUSED, REPEAT))
    return LedgerEntry(attempts, True, running=attempts > 0 and not closed)

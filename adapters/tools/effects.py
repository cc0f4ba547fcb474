"""The effects ledger: every call of a tool whose effect must happen once, kept in the checkpointer of the graph.

An entry is written before a call starts and again when it has ended, under what identifies the call: the thread, the
turn, the call and the number of equal calls before it, or the key that the user declares. A resumed run, a replay and a
fork find the entry and answer from it. A call that started and has no answer is never repeated by code: its outcome is
unknown until a person, a function of the user's or a declared rule settles it.

The ledger needs nothing but the interface of LangGraph's checkpointers. An entry is a checkpoint in a namespace of its
own whose pending writes are the lines of the entry. Checkpointers keep the first of two equal writes, so that of two
processes only one can claim a call, and `delete_thread` deletes the entries with the thread. The metadata of the
checkpoint say whether the entry is open, so that a new turn finds the calls that an earlier one left open.
"""

import asyncio
import os
import socket
import time
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple
from uuid import NAMESPACE_OID, uuid4, uuid5

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import BaseCheckpointSaver, CheckpointTuple, empty_checkpoint
from pydantic import Field

from certigraph.adapters.tools.positions import (
    CHECKPOINTER_KEY,
    CHECKPOINTS_KEY,
    DURABILITY_KEY,
    await_saved,
    known_of,
    list_checkpoints,
    use_saver,
)
from certigraph.state.endings import Fault
from certigraph.state.records import Arguments, Record, StoredArguments

EFFECTS_NAMESPACE = "certigraph:effects"
"""Checkpoint namespace of the ledger's entries."""

STORE = "store|"
"""Beginning of the keys of effects that happen once in all threads of a checkpointer."""

STORE_THREAD = "certigraph:effects"
"""Thread in which their entries are kept."""

STARTED, PAUSED, REPEAT, UNKNOWN = "started", "paused", "repeat", "unknown"
"""Lines of an entry.

A call is `paused` if the tool itself interrupted the graph; it then starts again when the graph is resumed. It is
`unknown` if it ended without an answer that says whether it took effect. `repeat` is the decision that a call whose
outcome is unknown did not happen.
"""

ANSWER = "answer"
"""Beginning of the channel of an entry's checkpoint that holds the answer."""

NOT_STARTED = -1
"""Number of the attempt of a call about which a person decides before it starts for the first time."""

QUESTION = "question"
"""Name of the lines in which the questions of a run of a node are kept."""

LONGEST_CALL = 3600.0
"""Seconds after which a call in another process, on a machine that cannot be asked, is taken to have ended."""


class ToolAnswer(Record):
    """What a tool answered."""

    text: str
    failed: bool = False
    """Whether the tool raised an error, which `text` describes."""
    lost: bool = False
    """Whether the call was made and its answer is not known; `text` says so."""
    unknown: bool = False
    """Whether the tool failed in a way that leaves it unknown whether its effect happened."""
    broken: str = ""
    """The error, if it says that the tool's own code is wrong."""
    outputs: tuple[Any, ...] = Field(default=(), exclude=True)
    """What `ToolNode` returned, if that is more than a text: commands, messages with artifacts, images or files.
    The ledger keeps them in the form of the checkpointer."""


class CallStart(Record):
    """The start of a call, as it stands in the ledger."""

    token: str
    """Identifies this start."""
    host: str
    process: int
    time: float
    """Seconds since the epoch."""
    longest: float = LONGEST_CALL
    """Seconds after which the call is given up, whatever happens."""
    name: str = ""
    args: StoredArguments = Field(default_factory=dict)
    chosen: str = ""
    """Identifies the call as the agent chose it, where its key is the user's."""

    def is_running(self) -> bool:
        """Return whether the call may still run: in this process, another one of this machine, or elsewhere."""
        if time.time() - self.time > min(self.longest, LONGEST_CALL):
            return False
        if self.host != socket.gethostname():
            return True
        if self.process == os.getpid():
            return self.token in _RUNNING
        try:
            os.kill(self.process, 0)
        except ProcessLookupError:
            return False
        except OSError:  # a process of another user
            return True
        return True


_RUNNING = set[str]()
"""Tokens of the calls that run in this process."""


class LedgerEntry(NamedTuple):
    """State of one call in the ledger."""

    attempts: int = 0
    """How often the call was started."""
    exists: bool = False
    """Whether anything was entered about the call."""
    start: CallStart | None = None
    """The latest start if it has neither an answer nor a decision: the outcome is unknown, or the call runs now."""
    first: CallStart | None = None
    """The first start."""
    answer: ToolAnswer | None = None

    @property
    def runs_elsewhere(self) -> bool:
        """Whether the latest start may still be running."""
        return self.start is not None and self.start.is_running()


class UnsettledCall(NamedTuple):
    """A call of an earlier turn whose outcome is unknown."""

    key: str
    entry: LedgerEntry


class LoggedQuestion(Record):
    """A question to a person: of a node about calls of unknown outcome, or of a tool that it called."""

    key: str = ""
    """Key of the call whose tool asked."""
    calls: tuple[tuple[str, int], ...] = ()
    """Keys and attempts of the calls that the node asked about."""
    shown: tuple[StoredArguments, ...] = ()
    """Those calls as they were shown."""
    passed: int = 0
    """Number of answers before this one that were given to earlier questions once more."""
    earlier: bool = False
    """Whether the calls are those of earlier turns."""


class Ledger:
    """Where calls of tools are entered before they start: a LangGraph checkpointer.

    Args:
        saver: the checkpointer; None for a graph that can neither be resumed nor forked: nothing is entered then.
        thread: id of the thread.
        turn: id of the turn in which the calls are made.
    """

    def __init__(self, saver: BaseCheckpointSaver[Any] | None, thread: str = "", turn: str = "") -> None:
        self._saver, self._thread, self._turn = saver, thread, turn

    @property
    def lasts(self) -> bool:
        """Whether what is entered is kept, so that a person can be asked and a run be resumed."""
        return self._saver is not None

    async def read(self, key: str) -> LedgerEntry:
        """Return the entry of a call."""
        found = await self._find(key)
        return LedgerEntry() if found is None else _parse_entry(found.checkpoint["channel_values"], _lines_of(found))

    async def start(self, key: str, entry: LedgerEntry, start: CallStart) -> bool:
        """Enter the next start of a call whose entry was read; false if another process has started this attempt.

        Raises:
            Fault: ("environment") the checkpointer does not keep what is entered.
        """
        if self._saver is None:
            return True
        if not entry.exists:
            await self._create(key, "open")
        line = f"{STARTED}:{entry.attempts}"
        await self._write(key, line, start.as_json())
        found = await self._find(key)
        kept = _lines_of(found).get(line) if found else None
        if kept is None:
            name = type(self._saver).__name__
            fix = "use SqliteSaver, PostgresSaver or another one that keeps pending writes"
            raise Fault("environment", f"the checkpointer {name} keeps no record of calls before they start: {fix}")
        return bool(kept["token"] == start.token)

    async def finish(self, key: str, answer: ToolAnswer) -> None:
        """Enter what the tool answered."""
        channel, version = f"{ANSWER}:{uuid5(NAMESPACE_OID, key)}", uuid4().hex
        outputs = {"outputs": list(answer.outputs)} if answer.outputs else {}
        await self._create(key, "closed", {channel: {**answer.as_json(), **outputs}}, {channel: version})

    async def note(self, key: str, attempt: int, line: str) -> None:
        """Enter that an attempt is PAUSED or UNKNOWN, or the decision to REPEAT it."""
        if attempt == NOT_STARTED:
            await self._create(key, "open")
        await self._write(key, f"{line}:{attempt}", True)

    async def close(self, key: str) -> None:
        """Enter that nothing about a call of an earlier turn is left to decide."""
        await self._create(key, "closed")

    async def find_open(self) -> list[UnsettledCall]:
        """Return the calls of earlier turns of the thread whose outcome is unknown; those that still run are left out.

        Entries that were left open although they are settled are closed.
        """
        if self._saver is None:
            return []
        calls, known, place = [], known_of(self._saver), ("settled", self._thread, self._turn)
        found = [] if place in known else await _list_open(self._saver, self._thread)
        keys = [one["key"] for one in found if one["turn"] != self._turn]
        if not keys:  # while this turn works, no earlier one begins a call
            known[place] = True
        for key in keys:
            entry = await self.read(key)
            if entry.start and not entry.runs_elsewhere:
                calls.append(UnsettledCall(key, entry))
            elif not entry.start:
                await self.close(key)
        return calls

    async def read_questions(self, task: str) -> list[LoggedQuestion]:
        """Return the questions of a run of a node so far, in order."""
        found = await self._find(f"{QUESTION}|{task}")
        lines = _lines_of(found) if found else {}
        return [LoggedQuestion.model_validate(lines[f"{QUESTION}:{number}"]) for number in range(len(lines))]

    async def append_question(self, task: str, number: int, question: LoggedQuestion) -> None:
        """Enter the next question of a run of a node."""
        key = f"{QUESTION}|{task}"
        if number == 0:
            await self._create(key, "closed")
        await self._write(key, f"{QUESTION}:{number}", question.as_json())

    async def _find(self, key: str) -> Any:
        return await use_saver(self._saver, "get_tuple", self._config(key)) if self._saver else None

    async def _create(
        self, key: str, status: str, values: Mapping[str, Any] | None = None, versions: Mapping[str, Any] | None = None
    ) -> None:
        if self._saver is None:
            return
        config, versions = self._config(key), dict(versions or {})
        checkpoint = {
            **empty_checkpoint(),
            "id": config["configurable"]["checkpoint_id"],
            "channel_values": dict(values or {}),
            "channel_versions": versions,
        }
        known = {"effects": status, "thread": self._thread, "turn": self._turn, "key": key}
        metadata: Any = {"source": "update", "step": 0, "parents": {}, **known}
        # a write that has begun is completed even if the run is cancelled: a lost answer would become a question
        config = self._config(key, checkpoint=False)
        await asyncio.shield(use_saver(self._saver, "put", config, checkpoint, metadata, versions))

    async def _write(self, key: str, line: str, value: object) -> None:
        task = str(uuid5(NAMESPACE_OID, f"{key}|{line}"))
        if self._saver:
            await asyncio.shield(use_saver(self._saver, "put_writes", self._config(key), [(line, value)], task))

    def _config(self, key: str, *, checkpoint: bool = True) -> RunnableConfig:
        thread = STORE_THREAD if key.startswith(STORE) else self._thread
        place = {"thread_id": thread, "checkpoint_ns": EFFECTS_NAMESPACE}
        named = {"checkpoint_id": str(uuid5(NAMESPACE_OID, key))} if checkpoint else {}
        return {"configurable": {**place, **named}}


async def _list_open(saver: BaseCheckpointSaver[Any], thread: str) -> list[Any]:
    """Return the metadata of the open entries of a thread; those of its effects in the whole store are included."""
    wanted, found = {"effects": "open", "thread": thread}, list[CheckpointTuple]()
    for place in (thread, STORE_THREAD):
        found += await list_checkpoints(
            saver, {"configurable": {"thread_id": place, "checkpoint_ns": EFFECTS_NAMESPACE}}, wanted
        )
    return [one.metadata for one in found]


class RunningCall:
    """A call that runs now in this process, for those who find its entry: a context manager.

    Args:
        name: name of the tool.
        args: arguments of the call.
        longest: seconds after which the call is given up.
        chosen: identifies the call as the agent chose it.
    """

    def __init__(self, name: str, args: Arguments, longest: float, chosen: str = "") -> None:
        self.start = CallStart(
            token=uuid4().hex,
            host=socket.gethostname(),
            process=os.getpid(),
            time=time.time(),
            longest=min(longest, LONGEST_CALL),
            name=name,
            args=args,
            chosen=chosen,
        )

    def __enter__(self) -> CallStart:
        _RUNNING.add(self.start.token)
        return self.start

    def __exit__(self, *_: object) -> None:
        _RUNNING.discard(self.start.token)


def open_ledger(config: RunnableConfig, turn: str = "") -> Ledger:
    """Return the ledger of a node's run: in the graph's checkpointer, if it has one.

    Args:
        config: configuration of the node.
        turn: id of the turn in which the calls are made.

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
    return Ledger(saver, str(thread), turn)


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
            await await_saved(saver, str(thread), namespace, checkpoint)


def _lines_of(found: Any) -> dict[str, Any]:
    return {channel: value for _, channel, value in found.pending_writes or ()}


def _parse_entry(values: Mapping[str, Any], lines: Mapping[str, Any]) -> LedgerEntry:
    started: Sequence[Any] = [value for line, value in lines.items() if line.startswith(f"{STARTED}:")]
    attempts = len(started)
    first = CallStart.model_validate(lines[f"{STARTED}:0"]) if started else None
    if answers := [value for channel, value in values.items() if channel.startswith(f"{ANSWER}:")]:
        return LedgerEntry(attempts, True, first=first, answer=ToolAnswer.model_validate(answers[0]))
    decided = any(f"{line}:{attempts - 1}" in lines for line in (PAUSED, REPEAT))
    start = None if decided or not started else CallStart.model_validate(lines[f"{STARTED}:{attempts - 1}"])
    if start and f"{UNKNOWN}:{attempts - 1}" in lines:
        start = start.model_copy(update={"longest": 0.0})  # it has ended, although its process goes on
    return LedgerEntry(attempts, True, start, first)

"""Kill agents that have `[OrderedCalls(), EffectsOnce()]`, resume them in new processes, and compare what they did.

    python scripts/middleware_kills.py --trials 100 --kinds create_agent deepagents --seed 0

Every trial is an agent that works on cases over a SQLite database, in which each effect leaves a row. Its process is
killed once or twice: by SIGKILL at a random time, or by `os._exit` at a random moment before or after an effect. Then a
new process goes on with it, and answers the questions about unknown outcomes by the rows of the database. At the end
the rows are compared with the calls that the scripted model made. Even trials use `invoke`, odd ones `ainvoke`. Linux
only.
"""

import argparse
import asyncio
import json
import multiprocessing
import os
import sqlite3
import time
from collections import Counter
from collections.abc import Callable
from contextlib import contextmanager
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

from deepagents import create_deep_agent
from langchain.agents import create_agent
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from langgraph.types import Command

from certigraph.middleware.effects import EffectsOnce
from certigraph.middleware.ordered_calls import OrderedCalls
from certigraph.nodes.wrapped_tools import once

KINDS = ("create_agent", "deepagents")
EFFECTS: Any = {"look": "repeatable"}
PAUSE = 0.004
"""Seconds for which a tool waits before and after its effect, so that kills happen inside of tools as well."""

ASK: Any = {"messages": [("user", "Work on the cases.")]}

Call = tuple[str, dict[str, Any]]


def chain(case: int) -> list[Call]:
    """Return the calls with an effect that close a case, in their order."""
    return [(name, {"case": case}) for name in ("refund", "mail", "close")]


def look(case: int) -> Call:
    """Return a look-up."""
    return "look", {"case": case}


def delegate(case: int) -> Call:
    """Return the call by which a deep agent has a sub-agent close a case."""
    return "task", {"description": f"Close case {case}.", "subagent_type": "general-purpose"}


DELEGATED = (20, 21)
"""Cases that sub-agents close at the same time, after a call whose effect lasts."""

ROUNDS: dict[str, list[list[Call]]] = {
    "create_agent": [[look(1), *chain(1)], [*chain(2)[:1], look(2), look(3), *chain(2)[1:]], chain(3)],
    "deepagents": [[look(1), *chain(1)], [*chain(2)[:1], *map(delegate, DELEGATED), *chain(2)[1:]], chain(3)],
}


class CaseModel(BaseChatModel):
    """A scripted model: it makes the calls of the rounds, or, as a sub-agent, those that close its case."""

    rounds: list[list[Call]]

    @property
    def _llm_type(self) -> str:
        return "cases"

    def bind_tools(self, tools: Any, **kwargs: Any) -> Any:
        """Return the model itself, which knows the tools."""
        return self

    def _generate(self, messages: list[BaseMessage], *args: Any, **kwargs: Any) -> ChatResult:
        request = next(one.text for one in messages if isinstance(one, HumanMessage))
        case = request.removeprefix("Close case ").removesuffix(".")
        rounds = [chain(int(case))] if case.isdigit() else self.rounds
        made = sum(isinstance(one, AIMessage) for one in messages)
        calls: list[Any] = [
            {"name": name, "args": args, "id": f"{case}-{made}-{number}"}
            for number, (name, args) in enumerate(rounds[made] if made < len(rounds) else ())
        ]
        return ChatResult(generations=[ChatGeneration(message=AIMessage("" if calls else "done", tool_calls=calls))])


class Trial(NamedTuple):
    """A run of an agent, and where it happens."""

    kind: str
    folder: Path
    is_async: bool = False

    @contextmanager
    def rows(self) -> Any:
        """Open the database of effects."""
        connection = sqlite3.connect(self.folder / "effects.sqlite", isolation_level=None, timeout=30)
        connection.execute("CREATE TABLE IF NOT EXISTS effects (number INTEGER PRIMARY KEY, name TEXT, it INTEGER)")
        yield connection
        connection.close()

    @property
    def effects(self) -> list[tuple[str, int]]:
        """The effects that happened, in order."""
        with self.rows() as base:
            return [(name, case) for name, case in base.execute("SELECT name, it FROM effects ORDER BY number")]

    @property
    def ended(self) -> bool:
        """Whether the agent has ended its work."""
        return (self.folder / "ended").exists()


class Tools:
    """The tools of an agent.

    Args:
        trial: the trial.
        exit_at: number of the moment at which the process ends; there are two in each call. None if it does not.
    """

    def __init__(self, trial: Trial, exit_at: int | None) -> None:
        self._trial, self._left = trial, exit_at

    def _pass_moment(self) -> None:
        time.sleep(PAUSE)
        if self._left == 0:
            os._exit(1)
        if self._left is not None:
            self._left -= 1

    def _take_effect(self, name: str, case: int) -> str:
        self._pass_moment()
        with self._trial.rows() as base:
            base.execute("INSERT INTO effects (name, it) VALUES (?, ?)", (name, case))
        self._pass_moment()
        return f"{name} of case {case} is done"

    def refund(self, case: int) -> str:
        """Refund what was paid in a case."""
        return self._take_effect("refund", case)

    def mail(self, case: int) -> str:
        """Write to the customer of a case."""
        return self._take_effect("mail", case)

    def close(self, case: int) -> str:
        """Close a case."""
        return self._take_effect("close", case)

    def look(self, case: int) -> str:
        """Look at a case."""
        self._pass_moment()
        return f"case {case}: 49.9 euros"

    @property
    def functions(self) -> list[Callable[..., str]]:
        """The tools, as functions."""
        return [self.refund, self.mail, self.close, self.look]


def build(trial: Trial, tools: Tools, saver: Any) -> Any:
    """Return the agent of a trial."""
    model, stack = CaseModel(rounds=ROUNDS[trial.kind]), [OrderedCalls(EFFECTS), EffectsOnce(EFFECTS)]
    if trial.kind == "create_agent":
        return create_agent(model, tools.functions, middleware=stack, checkpointer=saver)
    closer: Any = {
        **{"name": "general-purpose", "description": "It closes cases.", "system_prompt": "Close the case."},
        **{"tools": once(tools.functions, EFFECTS), "middleware": [OrderedCalls(EFFECTS)]},
    }
    return create_deep_agent(model, tools.functions, middleware=stack, subagents=[closer], checkpointer=saver)


def decide(question: Any, trial: Trial) -> Any:
    """Return the truth about the calls of a question."""
    done = trial.effects
    happened = [(call["name"], call["args"]["case"]) in done for call in question["calls"]]
    return {"decisions": [{"type": "happened", "result": "done"} if one else {"type": "repeat"} for one in happened]}


class _Asynchronous(NamedTuple):
    """An asynchronous graph in the form of a synchronous one."""

    graph: Any
    runner: asyncio.Runner

    def invoke(self, given: Any, config: Any) -> Any:
        return self.runner.run(self.graph.ainvoke(given, config))

    def get_state(self, config: Any) -> Any:
        return self.runner.run(self.graph.aget_state(config))


@contextmanager
def opened(trial: Trial, tools: Tools) -> Any:
    """Yield the agent of a trial with its checkpointer."""
    path = str(trial.folder / "checkpoints.sqlite")
    if not trial.is_async:
        with SqliteSaver.from_conn_string(path) as saver:
            yield build(trial, tools, saver)
        return
    with asyncio.Runner() as runner:
        manager = AsyncSqliteSaver.from_conn_string(path)
        saver = runner.run(manager.__aenter__())
        yield _Asynchronous(build(trial, tools, saver), runner)
        runner.run(manager.__aexit__(None, None, None))


def work(trial: Trial, exit_at: int | None = None) -> None:
    """Begin the work of an agent, or go on with it, until it ends."""
    config: Any = {"configurable": {"thread_id": "cases"}}
    with opened(trial, Tools(trial, exit_at)) as graph:
        (trial.folder / "started").touch()
        if not graph.get_state(config).values.get("messages"):
            graph.invoke(ASK, config)
        while (state := graph.get_state(config)).tasks:
            answers = {one.id: decide(one.value, trial) for one in state.interrupts}
            with (trial.folder / "questions").open("a") as file:
                file.write("x" * len(answers))
            graph.invoke(Command(resume=answers) if answers else None, config)
        messages = [[one.type, str(getattr(one, "tool_call_id", ""))] for one in state.values["messages"]]
        (trial.folder / "ended").write_text(json.dumps(messages))


def work_in_child(trial: Trial, *, exit_at: int | None = None, seconds: float | None = None) -> float:
    """Work in a child process, which is killed after some seconds; return how long it worked."""
    (trial.folder / "started").unlink(missing_ok=True)
    child = multiprocessing.get_context("fork").Process(target=work, args=(trial, exit_at), daemon=True)
    child.start()
    while child.is_alive() and not (trial.folder / "started").exists():
        time.sleep(0.001)
    begun = time.monotonic()
    child.join(120 if seconds is None else seconds)
    child.kill()
    child.join()
    return time.monotonic() - begun


def find_faults(trial: Trial, whole: Trial) -> list[str]:
    """Compare what a trial did with what the calls of its model would do: what was doubled, lost or reordered."""
    if not trial.ended:
        return ["not ended"]
    done = Counter(trial.effects)
    calls = [
        (name, args["case"]) for calls in ROUNDS[trial.kind] for name, args in calls if name not in ("look", "task")
    ]
    delegated = [[(name, args["case"]) for name, args in chain(case)] for case in DELEGATED]
    chains = [calls, *(delegated if trial.kind == "deepagents" else [])]
    faults = []
    for wanted in chains:
        faults += [f"{one} {done[one]} times" for one in wanted if done[one] != 1]
        kept = [one for one in trial.effects if one in wanted]
        faults += ["reordered"] if list(dict.fromkeys(kept)) != [one for one in wanted if one in kept] else []
    if (trial.folder / "ended").read_text() != (whole.folder / "ended").read_text():
        faults.append("other messages")
    return faults


class Outcome(NamedTuple):
    """What the trials of a kind came to."""

    trials: int
    kills: int
    questions: int
    faults: list[str]


def run_trials(kind: str, folder: Path, trials: int, seed: int) -> Outcome:
    """Kill and resume agents of a kind."""
    wholes = [Trial(kind, folder / f"{kind}-whole-{number}", bool(number)) for number in (0, 1)]
    for one in wholes:
        one.folder.mkdir()
    seconds = [work_in_child(one) for one in wholes]
    moments = 2 * len(wholes[0].effects)
    kills, questions, faults = 0, 0, list[str]()
    for number in range(trials):
        trial, random = Trial(kind, folder / f"{kind}-{number}", bool(number % 2)), Random(f"{kind}:{seed}:{number}")
        trial.folder.mkdir()
        for _ in range(random.randint(1, 2)):
            exits = random.random() < 0.5
            at = random.randrange(moments) if exits else None
            work_in_child(trial, exit_at=at, seconds=None if exits else random.uniform(0, seconds[number % 2]))
            kills += not trial.ended
        if not trial.ended:
            work_in_child(trial)
        asked = trial.folder / "questions"
        questions += len(asked.read_text()) if asked.exists() else 0
        faults += [f"{kind} {number}: {fault}" for fault in find_faults(trial, wholes[number % 2])]
    return Outcome(trials, kills, questions, faults)


def main() -> None:
    """Run the trials, and print their outcome as JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trials", type=int, default=100, help="trials of each kind")
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=KINDS)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    with TemporaryDirectory() as folder:
        for kind in given.kinds:
            print(json.dumps({"kind": kind, **run_trials(kind, Path(folder), given.trials, given.seed)._asdict()}))


if __name__ == "__main__":
    main()

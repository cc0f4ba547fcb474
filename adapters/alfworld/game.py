"""One game in the simulator: TextWorld's PDDL environment with the names that alfworld gives to things."""

import sys
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

from certigraph.adapters.alfworld.sight import Fact
from certigraph.adapters.locks import TEXTWORLD
from certigraph.state.endings import Fault

_IDLE: list[Any] = []
"""Simulators that no game has. They are used again and never freed, for the process dies of a segmentation fault when
a copy of the planner's library is loaded after another was unloaded. There are as many as games were open at once."""


class Reply(NamedTuple):
    """What the game answered, and how it stands then."""

    text: str
    admissible: tuple[str, ...]
    won: bool
    facts: frozenset[Fact]


class Game:
    """A loaded game. Its methods block and want one thread at a time; games in other threads take turns with it.

    Loading takes 0.3 to 0.8 s, as does `reset`; a step 0.05 s; a plan 1 to 18 s, in which other games go on. Its
    simulator goes to another game once this one is closed, forgotten or found unplayable; its memory stays taken until
    the process ends.

    Raises:
        Fault: ("environment") alfworld is not installed, or the file is no game.
    """

    def __init__(self, path: Path) -> None:
        with _loading():
            self._env = _IDLE.pop() if _IDLE else _simulator()
            self._let_go = weakref.finalize(self, _IDLE.append, self._env)
            _load(self._env, path)

    def reset(self) -> Reply:
        """The game from its start."""
        with _loading():
            return _reply(self._env.reset())

    def step(self, command: str) -> Reply:
        """The answer to one command; to an inadmissible one `Nothing happens.`"""
        with TEXTWORLD:
            return _reply(self._env.step(command)[0])

    def plan(self) -> tuple[str, ...]:
        """The planner's way to the goal from here. It knows the whole world, seen or not."""
        inner = self._env.unwrapped
        return tuple(inner._pddl_state.replan(inner._entity_infos))

    def close(self) -> None:
        """Let another game have the simulator. This one is of no use afterwards."""
        self._let_go()


@contextmanager
def _loading() -> Iterator[None]:
    """The translator of games has its options in globals, and leaves others' command line arguments behind."""
    with TEXTWORLD:
        arguments = sys.argv
        try:
            yield
        finally:
            sys.argv = arguments


def _simulator() -> Any:
    names = ("textworld", "alfworld.agents.environment.alfred_tw_env", "textworld.envs.pddl")
    try:
        textworld, wrappers, worlds = map(import_module, names)
    except ImportError as error:
        fix = "pip install 'certigraph[alfworld]'"
        raise Fault("environment", f"ALFWorld's simulator is not installed ({error}): {fix}") from error
    wanted = textworld.EnvInfos(admissible_commands=True, won=True, facts=True)
    return wrappers.AlfredDemangler(worlds.PddlEnv(wanted))


def _load(simulator: Any, path: Path) -> None:
    try:
        simulator.load(str(path))
    except Exception as error:  # what its parsers raise has no common class
        raise Fault("environment", f"{path} cannot be played: {error!r}; unpack it again") from error


def _reply(state: Any) -> Reply:
    facts = frozenset((fact.name, *(argument.name.strip() for argument in fact.arguments)) for fact in state["facts"])
    return Reply(
        text=state.feedback.strip(),
        admissible=tuple(state["admissible_commands"]),
        won=bool(state["won"]),
        facts=facts,
    )

"""A game being played: TextWorld's interpreter, and its texts without what only a terminal needs."""

import re
import warnings
from pathlib import Path
from typing import Any, NamedTuple

from certigraph.adapters.locks import TEXTWORLD
from certigraph.adapters.textworld.kinds import needed_textworld

SEED = 1
"""Of the interpreter: what happens by chance happens again when actions are replayed."""

STATUS_LINE = re.compile(r">?[ ]{20,}-= .*$", re.MULTILINE)
PROMPTS = re.compile(r"^\s*>\s*$|^Would you like to RESTART.*$", re.MULTILINE)
BLANKS = re.compile(r"\s*\n\s*\n\s*")


class Moment(NamedTuple):
    """What TextWorld tells after a command."""

    feedback: str
    description: str
    """The room; empty once the game is over."""
    inventory: str
    commands: tuple[str, ...]
    """Those that would do something now, in TextWorld's order, which is the alphabet's."""
    policy: tuple[str, ...]
    """Commands that win from here, where they were asked for."""
    score: int
    most: int
    won: bool
    lost: bool

    @property
    def over(self) -> bool:
        """Whether nothing more can be done."""
        return self.won or self.lost


class Play:
    """A story file in the interpreter. Games in other threads take turns with it.

    Args:
        story: the file; its description lies beside it.
        planned: whether each moment tells the commands that win from there.
    """

    def __init__(self, story: Path, *, planned: bool = False) -> None:
        textworld = needed_textworld()
        wanted = ("admissible_commands", "description", "inventory", "score", "max_score", "won", "lost")
        infos = textworld.EnvInfos(**dict.fromkeys(wanted, True), policy_commands=planned)
        # the interpreter warns of every game that is not a classic of its list
        warnings.filterwarnings("ignore", message=".*not fully supported", module="jericho")
        with TEXTWORLD:
            self._game = textworld.start(str(story), infos)
            self._game.seed(SEED)

    def start(self) -> Moment:
        """From the start; a game can be started again."""
        with TEXTWORLD:
            return _moment(self._game.reset())

    def send(self, command: str) -> Moment:
        """After a command."""
        with TEXTWORLD:
            state, _, _ = self._game.step(command)
            return _moment(state)

    def close(self) -> None:
        """Let the interpreter go."""
        with TEXTWORLD:
            self._game.close()


def tidied(text: str) -> str:
    """A text without status line, prompt and the question at the end; one blank line at most."""
    return BLANKS.sub("\n\n", PROMPTS.sub("", STATUS_LINE.sub("", text))).strip()


def _moment(state: Any) -> Moment:
    over = bool(state.won or state.lost)
    return Moment(
        feedback=tidied(state.feedback),
        description="" if over else tidied(state.description),
        inventory="" if over else tidied(state.inventory),
        commands=() if over else tuple(state.admissible_commands),
        policy=tuple(state.get("policy_commands") or ()),
        score=state.score,
        most=state.max_score,
        won=bool(state.won),
        lost=bool(state.lost),
    )

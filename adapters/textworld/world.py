"""The live TextWorld: one game in its interpreter, commands in, prose out."""

import re

from certigraph.adapters.textworld.games import Game
from certigraph.adapters.textworld.playing import Moment, Play
from certigraph.state.endings import Fault
from certigraph.state.records import Action, Observation, Scores

OUTSIDE = re.compile(
    r"(restart|restore|save|quit|q|undo|oops|again|g|script|transcript|version|verify|tw-\S*)\b.*", re.I
)
"""Commands to the interpreter, not to the world; they would lose the game or wait for a yes."""


class TextWorld:
    """One episode. It is done when the quest is finished, or can no longer be: the wrong thing taken, food burnt.

    A command counts as refused where the world did not list it and does not look different afterwards.
    """

    concurrent = False

    def __init__(self, game: Game) -> None:
        self.game = game
        self._play: Play | None = None
        self._now: Moment | None = None

    def reset(self) -> Observation:
        """The game from its start: the room and what is carried."""
        self._play = self._play or Play(self.game.story)
        self._now = self._play.start()
        return self._observation(self.view())

    def step(self, action: Action) -> Observation:
        """Send one command. What is for the interpreter, more than one command, or too late, is refused unsent."""
        before, command = self._live, " ".join(action.text.split()).lower()
        if refusal := _refusal(before, command):
            return self._observation(refusal, accepted=False)
        assert self._play is not None
        self._now = now = self._play.send(_in_case(command, before))
        accepted = command in map(str.lower, before.commands) or _looks(now) != _looks(before)
        return self._observation(now.feedback, gain=(now.score - before.score) / now.most, accepted=accepted)

    def view(self) -> str:
        """The room and what is carried; how it ended, when it is over."""
        now = self._live
        return now.feedback if now.over else f"{now.description}\n\n{now.inventory}"

    def admissible(self) -> list[str]:
        """The commands that do something now; none when the game is over."""
        return list(self._live.commands)

    def score(self) -> Scores:
        """The game's points as a fraction of all there are; part `won` is 1.0 when the quest is finished."""
        now = self._live
        return Scores(value=now.score / now.most, parts={"won": float(now.won), "points": float(now.score)})

    def close(self) -> None:
        """Let the interpreter go."""
        if self._play is not None:
            self._play.close()
        self._play = self._now = None

    @property
    def _live(self) -> Moment:
        if self._now is None:
            raise Fault("environment", f"{self.game.name} is closed or was never reset: call reset() first")
        return self._now

    def _observation(self, text: str, *, gain: float = 0.0, accepted: bool = True) -> Observation:
        now = self._live
        data = {"points": now.score, "most": now.most}
        return Observation(text=text, accepted=accepted, reward=gain, done=now.over, solved=now.won, data=data)


def _refusal(now: Moment, command: str) -> str:
    """Why a command is not sent; empty where it is."""
    if now.over:
        return "The game is over."
    if not command or OUTSIDE.fullmatch(command):
        return f"{command[:100]!r} does nothing in this world; say what you do in it: look."
    return "One command at a time." if re.search(r"[.;]|\bthen\b", command) else ""


def _in_case(command: str, now: Moment) -> str:
    """The command as the world lists it."""
    return next((listed for listed in now.commands if listed.lower() == command), command)


def _looks(now: Moment) -> tuple[str, str, tuple[str, ...]]:
    return now.description, now.inventory, now.commands

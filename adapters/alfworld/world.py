"""The live ALFWorld: one game, its answers as they are."""

from pathlib import Path

from certigraph.adapters.alfworld.game import Game, Reply
from certigraph.adapters.alfworld.sight import sight
from certigraph.state.endings import Fault
from certigraph.state.records import Action, Observation, Scores

REFUSED = "Nothing happens."
"""What the game says to a command that it does not understand or cannot carry out."""


class AlfWorld:
    """One episode. It is done, with reward 1.0, when the task is; until then every reward is 0.0.

    Args:
        path: the game's file; it is loaded by `reset`.
    """

    concurrent = False

    def __init__(self, path: Path) -> None:
        self.path = path
        self._game: Game | None = None
        self._now: Reply | None = None
        self._room = ""

    def reset(self) -> Observation:
        """The game from its start. Raises Fault("environment") where it cannot be played; says what to install."""
        self._game = self._game or Game(self.path)
        reply = self._game.reset()
        self._room = f"Places in the room: {reply.text.partition('you see ')[2].partition('.')[0]}."
        return self._observed(reply)

    def step(self, action: Action) -> Observation:
        """Do one thing. What is not admissible changes nothing and is not accepted."""
        self._reply()
        assert self._game is not None
        return self._observed(self._game.step(action.text.strip()))

    def view(self) -> str:
        """What the agent faces, open receptacles with what is in them, what it carries, and the room's receptacles."""
        return f"{sight(self._reply().facts)}\n{self._room}"

    def admissible(self) -> list[str]:
        """The commands that the game takes now, in the alphabet's order."""
        return list(self._reply().admissible)

    def score(self) -> Scores:
        """1.0 when the task is done."""
        return Scores(value=float(self._reply().won))

    def close(self) -> None:
        """End the game."""
        if self._game is not None:
            self._game.close()
            self._game = self._now = None

    def _reply(self) -> Reply:
        if self._now is None:
            raise Fault("environment", "this ALFWorld is closed or was never reset: call reset() first")
        return self._now

    def _observed(self, reply: Reply) -> Observation:
        self._now = reply
        accepted = reply.text != REFUSED
        return Observation(
            text=reply.text, accepted=accepted, reward=float(reply.won), done=reply.won, solved=reply.won
        )

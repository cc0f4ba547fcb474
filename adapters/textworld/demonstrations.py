"""How a game is won: by its walkthrough from the start, by TextWorld's planner from anywhere else."""

from collections.abc import Sequence

from certigraph.adapters.textworld.games import Game
from certigraph.adapters.textworld.playing import Moment, Play
from certigraph.state.endings import Fault

READ = "examine cookbook"
"""What TextWorld's planner leaves out, for it knows the recipe."""

NEEDLESS = ("inventory", "drop knife")
"""What walkthroughs of cooking games have besides: they are made for worlds where hands get full."""


def demonstration(game: Game, before: Sequence[str] = ()) -> list[str]:
    """Commands that win after those of `before`. Raises Fault("data") where nothing does any more."""
    if not before:
        return [command for command in game.walkthrough if command not in NEEDLESS]
    here = _after(game, before)
    if here.won:
        return []
    if here.lost or not here.policy:
        raise Fault("data", f"{game.name} cannot be won after {'; '.join(before)}: begin it again")
    read = READ in here.commands and READ not in before
    return [*([READ] if read else ()), *here.policy]


def _after(game: Game, before: Sequence[str]) -> Moment:
    play = Play(game.story, planned=True)
    try:
        here = play.start()
        for command in before:
            if here.over:
                break
            here = play.send(command)
        return here
    finally:
        play.close()

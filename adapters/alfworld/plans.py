"""The planner's ways to the goal, worked out once for each game and past, then read from the cache."""

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path

from certigraph.adapters.alfworld.game import Game
from certigraph.adapters.caching import cache_folder, whole_file
from certigraph.adapters.rows import file_bytes, read_json
from certigraph.state.endings import Fault


def planned(path: Path, before: Sequence[str] = ()) -> list[str]:
    """Commands that do a game's task, from its start or from where the commands `before` lead; none once it is done.

    The first time it takes 2 to 20 s: a game of its own is played up to there and asked for a plan. The planner knows
    what is in closed receptacles.

    Raises:
        Fault: ("environment") the game cannot be played; ("data") the planner finds no way, or what is kept is no plan.
    """
    known = cache_folder() / "alfworld" / "plans" / f"{_key(path, before)}.json"
    if not known.is_file():
        plan = _worked_out(path, before)
        with whole_file(known) as unfinished:
            unfinished.write_text(json.dumps(plan), encoding="utf-8")
    return _read(known)


def _read(kept: Path) -> list[str]:
    plan = read_json(kept)
    if not isinstance(plan, list) or not all(isinstance(command, str) for command in plan):
        raise Fault("data", f"{kept} is no list of commands: delete it, and the plan is worked out anew")
    return plan


def _key(path: Path, before: Sequence[str]) -> str:
    return hashlib.sha256(file_bytes(path) + json.dumps(list(before)).encode()).hexdigest()[:24]


def _worked_out(path: Path, before: Sequence[str]) -> list[str]:
    game = Game(path)
    try:
        won = game.reset().won
        for command in before:
            won = game.step(command).won
        plan = [] if won else list(game.plan())
        if not (won or plan):
            raise Fault("data", f"no plan does {path.parent} after {'; '.join(before) or 'its start'}: take another")
        return plan
    finally:
        game.close()

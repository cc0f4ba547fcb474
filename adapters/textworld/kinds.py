"""What games there are: four kinds of quests, each at levels, each drawn from a seed by TextWorld's own generator.

A game has the name `KIND-LEVEL-SEED`: `cooking-1-3`. The level is the number of actions that the quest asks for, but
for cooking, where it names a recipe's demands (`RECIPES`).
"""

from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from random import Random
from typing import Any, NamedTuple

from certigraph.state.endings import Fault

RECIPES: tuple[dict[str, Any], ...] = (
    {"recipe": 1, "take": 1, "cook": True, "cut": False, "go": 1},
    {"recipe": 1, "take": 1, "cook": True, "cut": True, "go": 1},
    {"recipe": 2, "take": 2, "cook": True, "cut": True, "go": 1},
    {"recipe": 3, "take": 3, "cook": True, "cut": True, "go": 6},
)
"""Ingredients, those to be found, what is done to them, rooms: cooking's levels 1 to 4."""

ROOMS = 5
"""Of a treasure hunt; the challenge's own twenty take half a minute to draw."""

OBJECTS = 10
"""Of a quest, which has one room."""

SEEDS = ("map", "objects", "quest", "grammar")
DRAWS = 20
"""Worlds drawn before a game is given up: not every map has room for every quest."""


class Kind(NamedTuple):
    """A kind of games: the level that is meant where none is named, the highest one, how a game is made."""

    usual: int
    most: int
    make: Callable[[int, Any], Any]
    """Level and TextWorld's options to TextWorld's game."""


def make_game(kind: str, level: int, seed: int) -> Any:
    """TextWorld's game, the same for the same arguments in every process.

    Raises:
        Fault: ("data") TextWorld is not installed, or no world that was drawn has room for the quest.
    """
    textworld = needed_textworld()
    failure = import_module("textworld.generator.chaining").QuestGenerationError
    random = Random(f"{kind}-{level}-{seed}")
    for _ in range(DRAWS):
        options = textworld.GameOptions()
        options.seeds = {name: random.randrange(2**16) for name in SEEDS}
        try:
            return KINDS[kind].make(level, options)
        except failure:
            continue
    raise Fault("data", f"no world has room for the quest of {kind}-{level}-{seed}: take another seed")


def needed_textworld() -> Any:
    """The package. Raises Fault("data") with the command that brings it."""
    if find_spec("textworld") is None:
        raise Fault("data", "TextWorld is not installed: pip install 'certigraph[textworld]'")
    return import_module("textworld")


def _cooking(level: int, options: Any) -> Any:
    settings = {"open": True, "drop": False, "split": None, "recipe_seed": options.seeds["quest"]}
    return import_module("textworld.challenges.tw_cooking.cooking").make(settings | RECIPES[level - 1], options)


def _treasure_hunter(level: int, options: Any) -> Any:
    challenge = import_module("textworld.challenges.tw_treasure_hunter.treasure_hunter")
    options.kb = import_module("textworld.generator.data").KnowledgeBase.load(challenge.KB_PATH)
    options.nb_rooms, options.quest_length = ROOMS, level
    return challenge.make_game("hard", options)


def _coin_collector(level: int, options: Any) -> Any:
    return import_module("textworld.challenges.tw_coin_collector.coin_collector").make({"level": level}, options)


def _quest(level: int, options: Any) -> Any:
    options.nb_rooms, options.nb_objects, options.quest_length = 1, OBJECTS, level
    return import_module("textworld.generator").make_game(options)


KINDS = {
    "coin_collector": Kind(5, 30, _coin_collector),
    "cooking": Kind(1, len(RECIPES), _cooking),
    "quest": Kind(5, 10, _quest),
    "treasure_hunter": Kind(5, 10, _treasure_hunter),
}

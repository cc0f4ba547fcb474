"""TextWorld games: generation, the live interpreter and demonstrations."""

import re
import shutil
import subprocess
import tempfile
import warnings
from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from importlib import import_module
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any, NamedTuple

from certigraph.adapters.files import cache_folder, file_bytes, unknown_task
from certigraph.adapters.processes import TEXTWORLD, child_environment
from certigraph.state.records import Action, Fault, Observation, Scores, json_value

# What games there are: four kinds of quests, each at levels, each drawn from a seed by TextWorld's own generator.
#
# A game has the name `KIND-LEVEL-SEED`: `cooking-1-3`. The level is the number of actions that the quest asks for,
# but for cooking, where it names a recipe's demands (`RECIPES`).

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


# Compiled games, made when they are first needed and kept: the story file and its description, both or neither.

STORY, DESCRIPTION = "game.z8", "game.json"

NAME = re.compile(r"([a-z_]+)-([1-9]\d{0,2})-(0|[1-9]\d{0,8})")


class Game(NamedTuple):
    """A compiled game; its description lies beside the story, where TextWorld looks for it."""

    name: str
    story: Path
    objective: str
    walkthrough: tuple[str, ...]
    """Commands that win it, from the start."""


def named(name: str) -> tuple[str, int, int]:
    """Kind, level and seed of a game. Raises UnknownName saying what there is."""
    match = NAME.fullmatch(name)
    if match and match[1] in KINDS and int(match[2]) <= KINDS[match[1]].most:
        return match[1], int(match[2]), int(match[3])
    known = ", ".join(f"{kind}-1-0 to {kind}-{KINDS[kind].most}-N" for kind in KINDS)
    pattern = f"KIND-LEVEL-SEED ({known}, N being any seed)"
    raise unknown_task("textworld", name, pattern, [example("cooking")])


def example(kind: str, seed: int = 0) -> str:
    """The name of a game at its kind's usual level."""
    return f"{kind}-{KINDS[kind].usual}-{seed}"


class Library:
    """The games of this machine. Other versions of TextWorld draw other ones and have folders of their own."""

    def __init__(self, folder: Path | None = None) -> None:
        self._folder = folder
        self.game = lru_cache(maxsize=1_024)(self._game)

    @property
    def folder(self) -> Path:
        """Where the games are kept."""
        return self._folder or cache_folder() / "textworld" / version("textworld")

    def _game(self, name: str) -> Game:
        """The game of a name; the first time ever it is made, which takes about a second.

        Raises:
            UnknownName: it is no name of a game.
            Fault: ("data") as `make_game`, or what is kept of it is damaged.
        """
        parts = named(name)
        needed_textworld()
        place = self.folder / name
        if not place.is_dir():
            self._make(place, *parts)
        try:
            told = json_value(file_bytes(place / DESCRIPTION))
            return Game(name, place / STORY, told["objective"], tuple(told["metadata"]["walkthrough"]))
        except (Fault, OSError, ValueError, LookupError, TypeError) as error:
            raise Fault("data", f"{place} is damaged ({error!r}): delete it, and the game is made anew") from error

    def _make(self, place: Path, kind: str, level: int, seed: int) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        unfinished = Path(tempfile.mkdtemp(dir=self.folder, prefix=place.name, suffix=".unfinished"))
        try:
            with TEXTWORLD:
                _compile(kind, level, seed, unfinished)
            unfinished.rename(place)
        except OSError:
            if not place.is_dir():  # else another process was first, and its game is the same
                raise
        finally:
            shutil.rmtree(unfinished, ignore_errors=True)


def _compile(kind: str, level: int, seed: int, folder: Path) -> None:
    textworld = needed_textworld()
    _limit_compilers()
    options = textworld.GameOptions()
    options.path, options.force_recompile = str(folder / STORY), True
    textworld.generator.compile_game(make_game(kind, level, seed), options)


def _limit_compilers() -> None:
    """Give the compilers of Inform 7, which TextWorld starts, `child_environment`: it has no option for that."""
    starter = import_module("textworld.generator.inform7.world2inform7")
    starter.subprocess = SimpleNamespace(  # type: ignore[attr-defined]
        check_output=partial(subprocess.check_output, env=child_environment()),
        CalledProcessError=subprocess.CalledProcessError,
        STDOUT=subprocess.STDOUT,
    )


# A game being played: TextWorld's interpreter, and its texts without what only a terminal needs.

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


# How a game is won: by its walkthrough from the start, by TextWorld's planner from anywhere else.

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


# The live TextWorld: one game in its interpreter, commands in, prose out.

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

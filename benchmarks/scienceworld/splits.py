"""ScienceWorld's thirty tasks, published evaluation protocols as splits, and scores.

No function of this module starts Java.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from random import Random
from statistics import mean
from typing import Literal, NamedTuple

from pydantic import Field

from certigraph.adapters.benchmarks import standard_error
from certigraph.state.endings import UnknownName
from certigraph.state.records import Arguments, Record, Scores
from certigraph.state.trajectory import Footer

# The thirty tasks of ScienceWorld 1.2.3 with their numbers of variations.

Group = Literal["short", "medium", "long"]


class TaskFamily(NamedTuple):
    """One of the thirty tasks, with its numbers of variations. Variations count from 0: train, then dev, then test.

    `number` is the task's number in the ScienceWorld paper. `group` is from the SwiftSage paper: short, medium or long,
    by the mean length of its oracle's paths (below 20, below 50, longer). The groups are listed here because this
    release of the simulator has shorter gold paths, which would give other groups.
    """

    number: str
    group: Group
    train: int
    dev: int
    test: int

    @property
    def variations(self) -> range:
        """All variations."""
        return range(self.train + self.dev + self.test)

    @property
    def test_variations(self) -> range:
        """Variations of the test split."""
        return self.variations[self.train + self.dev :]


FAMILIES = {
    "boil": TaskFamily("1-1", "long", 14, 7, 9),
    "change-the-state-of-matter-of": TaskFamily("1-4", "long", 14, 7, 9),
    "chemistry-mix": TaskFamily("6-1", "medium", 16, 8, 8),
    "chemistry-mix-paint-secondary-color": TaskFamily("6-2", "short", 18, 9, 9),
    "chemistry-mix-paint-tertiary-color": TaskFamily("6-3", "medium", 18, 9, 9),
    "find-animal": TaskFamily("4-4", "short", 150, 75, 75),
    "find-living-thing": TaskFamily("4-1", "short", 150, 75, 75),
    "find-non-living-thing": TaskFamily("4-2", "short", 150, 75, 75),
    "find-plant": TaskFamily("4-3", "short", 150, 75, 75),
    "freeze": TaskFamily("1-3", "long", 14, 7, 9),
    "grow-fruit": TaskFamily("5-2", "long", 62, 31, 33),
    "grow-plant": TaskFamily("5-1", "long", 62, 31, 33),
    "identify-life-stages-1": TaskFamily("8-1", "medium", 6, 3, 5),
    "identify-life-stages-2": TaskFamily("8-2", "short", 4, 2, 4),
    "inclined-plane-determine-angle": TaskFamily("9-1", "long", 84, 42, 42),
    "inclined-plane-friction-named-surfaces": TaskFamily("9-2", "long", 692, 346, 348),
    "inclined-plane-friction-unnamed-surfaces": TaskFamily("9-3", "long", 80, 40, 42),
    "lifespan-longest-lived": TaskFamily("7-1", "short", 62, 31, 32),
    "lifespan-longest-lived-then-shortest-lived": TaskFamily("7-3", "short", 62, 31, 32),
    "lifespan-shortest-lived": TaskFamily("7-2", "short", 62, 31, 32),
    "measure-melting-point-known-substance": TaskFamily("2-2", "medium", 218, 109, 109),
    "measure-melting-point-unknown-substance": TaskFamily("2-3", "long", 150, 75, 75),
    "melt": TaskFamily("1-2", "long", 14, 7, 9),
    "mendelian-genetics-known-plant": TaskFamily("10-1", "long", 60, 30, 30),
    "mendelian-genetics-unknown-plant": TaskFamily("10-2", "long", 240, 120, 120),
    "power-component": TaskFamily("3-1", "short", 10, 5, 5),
    "power-component-renewable-vs-nonrenewable-energy": TaskFamily("3-2", "medium", 10, 5, 5),
    "test-conductivity": TaskFamily("3-3", "medium", 450, 225, 225),
    "test-conductivity-of-unknown-substances": TaskFamily("3-4", "medium", 300, 150, 150),
    "use-thermometer": TaskFamily("2-1", "medium", 270, 135, 135),
}

_NAMES = {family.number: name for name, family in FAMILIES.items()}


def task_name(name: str) -> str:
    """Return the name of a task that is given by its name or by its number in the ScienceWorld paper, such as 4-2.

    Raises:
        UnknownName: there is no such task; the message lists the names.
    """
    if name not in FAMILIES and name not in _NAMES:
        pattern = "TASK:VARIATION or SPLIT/TASK:VARIATION, as in boil:0 or step-18/boil:1"
        known = f"tasks are {', '.join(FAMILIES)}"
        raise UnknownName(f"scienceworld has no task {name!r}; ids are {pattern}; {known}")
    return _NAMES.get(name, name)


def parse_variation(task: str, text: str) -> int:
    """Parse the number of a task's variation.

    Raises:
        UnknownName: the text is not a number in range; the message names the range.
    """
    variations = FAMILIES[task].variations
    if not text.isdecimal() or int(text) not in variations:
        last = variations[-1]
        problem = f"{task} has no variation {text!r}" if text else f"{task!r} names no variation"
        raise UnknownName(f"{problem}; it has 0 to {last}: use {task}:0 ... {task}:{last}")
    return int(text)


# Settings of episodes, and protocols that create one for each variation.

LimitUnit = Literal["moves", "calls"]
"""Unit of a limit. moves: as the simulator counts them (looking is free, `wait` costs eleven); calls: all actions."""

ScoreRule = Literal["last_non_negative", "last_positive"]
"""Which score of an episode counts: the last one that is >= 0 (SwiftSage, `no_stop`) or > 0 (STEP).

The score -100 after a fatal mistake never counts.
"""


class EpisodeSetting(Record):
    """Setting that determines an episode; a task stores it in its constants.

    `limit` is in the unit `unit`: an episode ends when its moves exceed the limit, as in the simulator, or when its
    calls reach it. `calls` limits the calls in either case, because actions that cost no move could go on for ever.
    None: no limit.
    """

    task: str
    variation: int = Field(ge=0)
    simplification: str
    unit: LimitUnit
    limit: int | None
    calls: int | None
    rule: ScoreRule


class ProtocolSplit(Record):
    """Evaluation protocol: which variations are played, under which limits, and which score counts.

    `limits` overrides `limit` for single tasks.
    """

    source: str
    variations: dict[str, tuple[int, ...]]
    simplification: str = "easy"
    unit: LimitUnit = "calls"
    limit: int | None = None
    limits: dict[str, int] = Field(default_factory=dict)
    calls: int | None = 500
    rule: ScoreRule = "last_non_negative"
    episodes: int = Field(default=1, description="episodes on each variation, of which the best counts")

    def setting(self, task: str, variation: int) -> EpisodeSetting:
        """Create the setting of a variation under this protocol."""
        limit = self.limits.get(task, self.limit)
        calls = limit if self.unit == "calls" else self.calls
        shared = {"simplification": self.simplification, "unit": self.unit, "rule": self.rule}
        return EpisodeSetting.model_validate(
            {"task": task, "variation": variation, "limit": limit, "calls": calls, **shared}
        )


# The published protocols: variations, simplification, limits, and the score that counts.

STEP_SHORT = {
    "Temp1": "use-thermometer",
    "Temp2": "measure-melting-point-known-substance",
    "Pick&Place1": "find-living-thing",
    "Pick&Place2": "find-plant",
    "Chemistry1": "chemistry-mix",
    "Chemistry2": "chemistry-mix-paint-secondary-color",
    "Lifespan1": "lifespan-longest-lived",
    "Lifespan2": "lifespan-shortest-lived",
    "Biology1": "identify-life-stages-2",
}
STEP_LONG = {
    "Boil": "boil",
    "Freeze": "freeze",
    "GrowPlant": "grow-plant",
    "GrowFruit": "grow-fruit",
    "Biology2": "identify-life-stages-1",
    "Force": "inclined-plane-determine-angle",
    "Friction": "inclined-plane-friction-named-surfaces",
    "Genetics1": "mendelian-genetics-known-plant",
    "Genetics2": "mendelian-genetics-unknown-plant",
}
"""Tasks by their names in the STEP paper; `STEP_SHORT` and `STEP_LONG` are in the order of its table."""

DEFAULT_SPLIT, TDP_HUNDRED = "variation-0", "tdp-100"


def _same_variations(names: Iterable[str], *variations: int) -> dict[str, tuple[int, ...]]:
    return dict.fromkeys(names, variations)


def _first_tests(count: int) -> dict[str, tuple[int, ...]]:
    return {name: tuple(family.test_variations[:count]) for name, family in FAMILIES.items()}


def _sampled_tests(total: int) -> dict[str, tuple[int, ...]]:
    # Equally many of each task, within one; the same in every process and Python version.
    each, remainder = divmod(total, len(FAMILIES))
    extra = set(Random("tdp-100").sample(list(FAMILIES), remainder))
    return {
        name: tuple(sorted(Random(f"tdp-100/{name}").sample(family.test_variations, each + (name in extra))))
        for name, family in FAMILIES.items()
    }


def _fits_small_models(name: str) -> bool:
    return FAMILIES[name].group != "long" or name in ("boil", "melt")


SPLITS = {
    DEFAULT_SPLIT: ProtocolSplit(
        source="certigraph: variation 0 of all tasks; SDP's cap of 500 actions",
        variations=_same_variations(FAMILIES, 0),
        limit=500,
    ),
    "gold": ProtocolSplit(
        source="certigraph: as the simulator's own gold paths are made: nothing simplified, nothing limited",
        variations=_same_variations(FAMILIES, 0),
        simplification="",
    ),
    "short": ProtocolSplit(
        source="certigraph: three tasks that a few actions solve, for tests",
        variations=_same_variations(
            ("find-non-living-thing", "lifespan-longest-lived", "chemistry-mix-paint-secondary-color"), 0
        ),
        limit=60,
    ),
    "small-20": ProtocolSplit(
        source="certigraph: for small models: the first test variation of short and medium tasks and two long ones",
        variations={name: numbers[:1] for name, numbers in _first_tests(1).items() if _fits_small_models(name)},
        limit=500,
    ),
    "swiftsage-90": ProtocolSplit(
        source="SwiftSage's test_mini, for its GPT-4 baselines: the first 3 test variations; 100 moves, 200 calls",
        variations=_first_tests(3),
        unit="moves",
        limit=100,
        calls=200,
    ),
    "swiftsage-271": ProtocolSplit(
        source="SwiftSage's test_mini and test_mini_2, its own runs: first 10 test variations; 300 moves, 600 calls",
        variations=_first_tests(10),
        unit="moves",
        limit=300,
        calls=600,
    ),
    "step-18": ProtocolSplit(
        source="STEP: 18 tasks of which variation 1, best of 5 episodes, 37 moves for short tasks and 70 for long ones",
        variations=_same_variations([*STEP_SHORT.values(), *STEP_LONG.values()], 1),
        unit="moves",
        limit=37,
        limits=dict.fromkeys(STEP_LONG.values(), 70),
        rule="last_positive",
        episodes=5,
    ),
    TDP_HUNDRED: ProtocolSplit(
        source="TDP: 100 test instances of 60 calls; which ones it does not say: here 3 or 4 of each task, seeded",
        variations=_sampled_tests(100),
        limit=60,
    ),
}


def find_split(name: str) -> ProtocolSplit:
    """Return the evaluation protocol of a split.

    Raises:
        UnknownName: there is no such split; the message lists the known ones.
    """
    if name not in SPLITS:
        raise UnknownName(f"scienceworld has no split {name!r}; known: {', '.join(SPLITS)}")
    return SPLITS[name]


def list_ids(split: str) -> list[str]:
    """Return the task ids of a split."""
    return [
        _format_id(split, task, number) for task, numbers in find_split(split).variations.items() for number in numbers
    ]


def setting_of(task_id: str) -> tuple[str, EpisodeSetting]:
    """Return the normalised task id and the setting of its episode.

    `TASK:VARIATION` is any variation in the default protocol; `SPLIT/TASK:VARIATION` is one of a split. TASK is a name,
    or the task's number in the ScienceWorld paper, such as 4-2.

    Raises:
        UnknownName: there is no such split, task or variation; the message lists them.
    """
    name, _, rest = task_id.rpartition("/")
    split = find_split(name or DEFAULT_SPLIT)
    family, colon, number = rest.partition(":")
    task = task_name(family)
    variation = parse_variation(task, number if colon else "")
    if name and variation not in split.variations.get(task, ()):
        examples = ", ".join(list_ids(name)[:3])
        known = ", ".join(map(str, split.variations.get(task, ()))) or "none"
        raise UnknownName(f"{name} has no variation {variation} of {task}, only: {known}. Its ids are {examples}, ...")
    return _format_id(name or DEFAULT_SPLIT, task, variation), split.setting(task, variation)


def _format_id(split: str, task: str, variation: int) -> str:
    return f"{task}:{variation}" if split == DEFAULT_SPLIT else f"{split}/{task}:{variation}"


# Scores of an episode, and means over several episodes.

EndReason = Literal["", "goal", "failed", "moves", "calls"]


class EpisodeTally:
    """Score, moves and calls of an episode so far. Scores range from 0 to 100; -100 is a fatal mistake."""

    def __init__(self, setting: EpisodeSetting) -> None:
        self.setting = setting
        self.score = self.moves = self.calls = 0
        self.last_non_negative = self.last_positive = 0

    def record(self, score: int, moves: int) -> float:
        """Record the simulator's score and moves after an action; returns its reward, the change in score / 100."""
        reward = (score - self.score) / 100
        self.score, self.moves = score, moves
        self.last_non_negative = score if score >= 0 else self.last_non_negative
        self.last_positive = score if score > 0 else self.last_positive
        return reward

    @property
    def ended(self) -> EndReason:
        """Reason why the episode ended; empty while it has not."""
        if self.score >= 100:
            return "goal"
        if self.score < 0:
            return "failed"
        limit, unit = self.setting.limit, self.setting.unit
        if unit == "moves" and limit is not None and self.moves > limit:
            return "moves"
        return "calls" if self.setting.calls is not None and self.calls >= self.setting.calls else ""

    def describe_limits(self) -> str:
        """Describe how many moves and calls the episode allows; empty if there is no limit."""
        calls = "" if self._most_calls is None else f"{self._most_calls} actions"
        moves = f"{self._most_moves} moves" if self._most_moves is not None else ""
        allowed = " and ".join(filter(None, (moves, calls)))
        return f"An episode allows {allowed}." if allowed else ""

    @property
    def _most_calls(self) -> int | None:
        calls = (self.setting.calls, self.setting.limit if self.setting.unit == "calls" else None)
        return min((n for n in calls if n is not None), default=None)

    @property
    def _most_moves(self) -> int | None:
        # The simulator ends an episode when a move goes beyond the limit, so that one more is made.
        limit, unit = self.setting.limit, self.setting.unit
        return limit + 1 if unit == "moves" and limit is not None else None

    def describe(self) -> str:
        """Describe the score, and what is used and left of the episode's moves and calls."""
        lines = [f"Score: {self.score} of 100."]
        if self.setting.unit == "moves":
            left = "" if self._most_moves is None else f", {max(self._most_moves - self.moves, 0)} left"
            lines.append(f"Moves used: {self.moves}{left}.")
        if (most := self._most_calls) is not None:
            lines.append(f"Actions used: {self.calls}, {max(most - self.calls, 0)} left.")
        return "\n".join(lines)

    def data(self) -> Arguments:
        """Return score, moves, calls and, once it has ended, the reason, for the `data` of an observation."""
        counted: Arguments = {"score": self.score, "moves": self.moves, "calls": self.calls}
        return {**counted, "ended": self.ended} if self.ended else counted

    def scores(self) -> Scores:
        """Return the score that counts by the setting's rule, as a fraction; `parts` also has the other scores."""
        counting = self.last_positive if self.setting.rule == "last_positive" else self.last_non_negative
        parts: dict[str, float | None] = {
            "raw": self.score,
            "last_non_negative": self.last_non_negative,
            "last_positive": self.last_positive,
            "moves": self.moves,
            "calls": self.calls,
        }
        return Scores(value=counting / 100, parts=parts)


def compute_figures(runs: Sequence[tuple[str, Footer]]) -> dict[str, float]:
    """Compute statistics of several runs, given with their task ids, as fractions of the full score.

    A run without a score counts as 0.

    `score` is the mean over runs with its standard error, `solved` the share that reached 100 points. `overall` and the
    groups `short`, `medium`, `long` are unweighted means over tasks of the means over each task's variations
    (SwiftSage).
    """
    values = [footer.scores.value if footer.scores else 0.0 for _, footer in runs]
    tasks = _task_means(zip((task_id for task_id, _ in runs), values, strict=True))
    return {
        "n": len(runs),
        "score": mean(values) if values else 0.0,
        "score_stderr": standard_error(values),
        "solved": mean(value >= 1 for value in values) if values else 0.0,
        "overall": mean(tasks.values()) if tasks else 0.0,
        **_group_means(tasks),
    }


def _task_means(scored: Iterable[tuple[str, float]]) -> dict[str, float]:
    by_task: dict[str, list[float]] = defaultdict(list)
    for task_id, value in scored:
        by_task[setting_of(task_id)[1].task].append(value)
    return {task: mean(values) for task, values in by_task.items()}


def _group_means(tasks: Mapping[str, float]) -> dict[str, float]:
    groups: dict[str, list[float]] = defaultdict(list)
    for task, value in tasks.items():
        groups[FAMILIES[task].group].append(value)
    return {group: mean(groups[group]) for group in ("short", "medium", "long") if groups[group]}

"""The published protocols as named splits: which variations, how simplified, how limited, which score counts."""

from collections.abc import Iterable
from random import Random

from certigraph.adapters.scienceworld.setting import Setting, Split
from certigraph.adapters.scienceworld.tasks import FAMILIES, task_name, variation_number
from certigraph.state.endings import UnknownName

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
"""STEP's names of its tasks, in the order of its table."""

USUAL, TDP_HUNDRED = "variation-0", "tdp-100"


def _each(names: Iterable[str], *variations: int) -> dict[str, tuple[int, ...]]:
    return dict.fromkeys(names, variations)


def _first_tests(most: int) -> dict[str, tuple[int, ...]]:
    return {name: tuple(family.test_variations[:most]) for name, family in FAMILIES.items()}


def _sampled_tests(total: int) -> dict[str, tuple[int, ...]]:
    """As many of each task as of any other, give or take one; the same in every process and Python."""
    each, more = divmod(total, len(FAMILIES))
    favoured = set(Random("tdp-100").sample(list(FAMILIES), more))
    return {
        name: tuple(sorted(Random(f"tdp-100/{name}").sample(family.test_variations, each + (name in favoured))))
        for name, family in FAMILIES.items()
    }


def _for_small(name: str) -> bool:
    return FAMILIES[name].group != "long" or name in ("boil", "melt")


SPLITS = {
    USUAL: Split(
        source="certigraph: variation 0 of all tasks; SDP's cap of 500 actions",
        variations=_each(FAMILIES, 0),
        limit=500,
    ),
    "gold": Split(
        source="certigraph: as the simulator's own gold paths are made: nothing simplified, nothing limited",
        variations=_each(FAMILIES, 0),
        simplification="",
    ),
    "short": Split(
        source="certigraph: three tasks that a few actions solve, for tests",
        variations=_each(("find-non-living-thing", "lifespan-longest-lived", "chemistry-mix-paint-secondary-color"), 0),
        limit=60,
    ),
    "small-20": Split(
        source="certigraph: for small models: the first test variation of short and medium tasks and two long ones",
        variations={name: numbers[:1] for name, numbers in _first_tests(1).items() if _for_small(name)},
        limit=500,
    ),
    "swiftsage-90": Split(
        source="SwiftSage's test_mini, for its GPT-4 baselines: the first 3 test variations; 100 moves, 200 calls",
        variations=_first_tests(3),
        unit="moves",
        limit=100,
        calls=200,
    ),
    "swiftsage-271": Split(
        source="SwiftSage's test_mini and test_mini_2, its own runs: first 10 test variations; 300 moves, 600 calls",
        variations=_first_tests(10),
        unit="moves",
        limit=300,
        calls=600,
    ),
    "step-18": Split(
        source="STEP: 18 tasks of which variation 1, best of 5 episodes, 37 moves for short tasks and 70 for long ones",
        variations=_each([*STEP_SHORT.values(), *STEP_LONG.values()], 1),
        unit="moves",
        limit=37,
        limits=dict.fromkeys(STEP_LONG.values(), 70),
        rule="last_positive",
        episodes=5,
    ),
    TDP_HUNDRED: Split(
        source="TDP: 100 test instances of 60 calls; which ones it does not say: here 3 or 4 of each task, seeded",
        variations=_sampled_tests(100),
        limit=60,
    ),
}


def split_named(name: str) -> Split:
    """A protocol. Raises UnknownName that lists those known."""
    if name not in SPLITS:
        raise UnknownName(f"scienceworld has no split {name!r}; known: {', '.join(SPLITS)}")
    return SPLITS[name]


def ids(split: str) -> list[str]:
    """The ids of a split's tasks."""
    return [_id(split, task, number) for task, numbers in split_named(split).variations.items() for number in numbers]


def setting_of(task_id: str) -> tuple[str, Setting]:
    """The task's id as it is stored, and its episode. No Java is started.

    `TASK:VARIATION` is any variation in the usual way; `SPLIT/TASK:VARIATION` one of a split's own. TASK is a name
    or the paper's number (4-2).

    Raises:
        UnknownName: no such split, task or variation; lists what there is.
    """
    name, _, rest = task_id.rpartition("/")
    split = split_named(name or USUAL)
    family, colon, number = rest.partition(":")
    task = task_name(family)
    variation = variation_number(task, number if colon else "")
    if name and variation not in split.variations.get(task, ()):
        some = ", ".join(ids(name)[:3])
        own = ", ".join(map(str, split.variations.get(task, ()))) or "none"
        raise UnknownName(f"{name} has of {task} these variations: {own}; not {variation}. It has {some}, ...")
    return _id(name or USUAL, task, variation), split.setting(task, variation)


def _id(split: str, task: str, variation: int) -> str:
    return f"{task}:{variation}" if split == USUAL else f"{split}/{task}:{variation}"

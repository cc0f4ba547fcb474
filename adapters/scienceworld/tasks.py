"""The thirty tasks of ScienceWorld 1.2.3 and how many variations each has, so that naming one starts no Java."""

from typing import Literal, NamedTuple

from certigraph.state.endings import UnknownName

Group = Literal["short", "medium", "long"]


class Family(NamedTuple):
    """One of the thirty tasks. Its variations are numbered train, then dev, then test.

    `number` is the paper's; `group` is SwiftSage's, by the mean length of its oracle's paths (< 20, < 50, longer),
    fixed here because this release's shorter gold paths would group otherwise.
    """

    number: str
    group: Group
    train: int
    dev: int
    test: int

    @property
    def variations(self) -> range:
        """All of them."""
        return range(self.train + self.dev + self.test)

    @property
    def test_variations(self) -> range:
        """Those of the test split."""
        return self.variations[self.train + self.dev :]


FAMILIES = {
    "boil": Family("1-1", "long", 14, 7, 9),
    "change-the-state-of-matter-of": Family("1-4", "long", 14, 7, 9),
    "chemistry-mix": Family("6-1", "medium", 16, 8, 8),
    "chemistry-mix-paint-secondary-color": Family("6-2", "short", 18, 9, 9),
    "chemistry-mix-paint-tertiary-color": Family("6-3", "medium", 18, 9, 9),
    "find-animal": Family("4-4", "short", 150, 75, 75),
    "find-living-thing": Family("4-1", "short", 150, 75, 75),
    "find-non-living-thing": Family("4-2", "short", 150, 75, 75),
    "find-plant": Family("4-3", "short", 150, 75, 75),
    "freeze": Family("1-3", "long", 14, 7, 9),
    "grow-fruit": Family("5-2", "long", 62, 31, 33),
    "grow-plant": Family("5-1", "long", 62, 31, 33),
    "identify-life-stages-1": Family("8-1", "medium", 6, 3, 5),
    "identify-life-stages-2": Family("8-2", "short", 4, 2, 4),
    "inclined-plane-determine-angle": Family("9-1", "long", 84, 42, 42),
    "inclined-plane-friction-named-surfaces": Family("9-2", "long", 692, 346, 348),
    "inclined-plane-friction-unnamed-surfaces": Family("9-3", "long", 80, 40, 42),
    "lifespan-longest-lived": Family("7-1", "short", 62, 31, 32),
    "lifespan-longest-lived-then-shortest-lived": Family("7-3", "short", 62, 31, 32),
    "lifespan-shortest-lived": Family("7-2", "short", 62, 31, 32),
    "measure-melting-point-known-substance": Family("2-2", "medium", 218, 109, 109),
    "measure-melting-point-unknown-substance": Family("2-3", "long", 150, 75, 75),
    "melt": Family("1-2", "long", 14, 7, 9),
    "mendelian-genetics-known-plant": Family("10-1", "long", 60, 30, 30),
    "mendelian-genetics-unknown-plant": Family("10-2", "long", 240, 120, 120),
    "power-component": Family("3-1", "short", 10, 5, 5),
    "power-component-renewable-vs-nonrenewable-energy": Family("3-2", "medium", 10, 5, 5),
    "test-conductivity": Family("3-3", "medium", 450, 225, 225),
    "test-conductivity-of-unknown-substances": Family("3-4", "medium", 300, 150, 150),
    "use-thermometer": Family("2-1", "medium", 270, 135, 135),
}

_NAMES = {family.number: name for name, family in FAMILIES.items()}


def task_name(name: str) -> str:
    """The name of a task given by name or by its number in the paper (4-2).

    Raises:
        UnknownName: lists the names.
    """
    if name not in FAMILIES and name not in _NAMES:
        pattern = "TASK:VARIATION or SPLIT/TASK:VARIATION, as in boil:0 or step-18/boil:1"
        known = f"tasks are {', '.join(FAMILIES)}"
        raise UnknownName(f"scienceworld has no task {name!r}; ids are {pattern}; {known}")
    return _NAMES.get(name, name)


def variation_number(task: str, text: str) -> int:
    """A variation of a task. Raises UnknownName when it is no number in range; names the range."""
    variations = FAMILIES[task].variations
    if not text.isdecimal() or int(text) not in variations:
        last = variations[-1]
        told = f"{task} has no variation {text!r}" if text else f"{task!r} names no variation"
        raise UnknownName(f"{told}; it has 0 to {last}: say {task}:0 ... {task}:{last}")
    return int(text)

"""Would a schedule pay that starts each node as soon as what it needs has ended, and not level by level?

`python tests/graphs/test_tdp_eager.py` prints what share of the time until the last node has ended it would save.
"""

import random
from collections.abc import Iterator, Mapping, Sequence
from statistics import mean

import pytest

Needs = Mapping[str, Sequence[str]]
Seconds = Mapping[str, float]

SHAPES: dict[str, Needs] = {
    "bridge question": {"first": (), "second": ("first",), "goal": ("second",)},
    "comparison": {"one": (), "other": (), "goal": ("one", "other")},
    "comparison of bridges": {"a": (), "b": (), "a2": ("a",), "b2": ("b",), "goal": ("a2", "b2")},
    "trip to one city": {"way": (), "stay": (), "meals": (), "sights": (), "goal": ("way", "stay", "meals", "sights")},
    "trip to three cities": {
        "cities": (),
        "ways": ("cities",),
        **{f"{what} {n}": ("cities",) for what in ("stay", "meals", "sights") for n in (1, 2, 3)},
        "costs": ("ways", "stay 1", "stay 2", "stay 3"),
        "goal": ("costs", *(f"{what} {n}" for what in ("meals", "sights") for n in (1, 2, 3))),
    },
}
"""Decompositions as TDP makes them of HotpotQA's questions and TravelPlanner's trips."""


def eager(needs: Needs, seconds: Seconds) -> float:
    """The time until the last node has ended when each begins as soon as it can."""
    ends: dict[str, float] = {}
    while len(ends) < len(needs):
        ready = [id_ for id_ in needs if id_ not in ends and all(need in ends for need in needs[id_])]
        ends.update({id_: seconds[id_] + max((ends[need] for need in needs[id_]), default=0.0) for id_ in ready})
    return max(ends.values())


def by_levels(needs: Needs, seconds: Seconds) -> float:
    """The same when the next batch waits for the slowest node of the last."""
    ended, time = set[str](), 0.0
    while len(ended) < len(needs):
        batch = [id_ for id_ in needs if id_ not in ended and ended.issuperset(needs[id_])]
        time += max(seconds[id_] for id_ in batch)
        ended.update(batch)
    return time


def saved(needs: Needs, spread: float, chance: random.Random) -> float:
    """The share of the time by levels that an eager schedule saves, durations drawn log-normally."""
    seconds = {id_: chance.lognormvariate(0, spread) for id_ in needs}
    return 1 - eager(needs, seconds) / by_levels(needs, seconds)


def random_needs(size: int, chance: random.Random) -> Needs:
    """Every node needs one or two earlier ones or none; the last needs all that nobody else needs."""
    needs = {f"n{place}": _some(place, chance) for place in range(size - 1)}
    ends = [id_ for id_ in needs if all(id_ not in before for before in needs.values())]
    return {**needs, "goal": tuple(ends)}


def _some(place: int, chance: random.Random) -> tuple[str, ...]:
    most = min(place, chance.choice([0, 1, 1, 2]))
    return tuple(f"n{earlier}" for earlier in chance.sample(range(place), most))


def table(draws: int = 2_000) -> Iterator[tuple[str, float, float]]:
    """Every shape with the mean share saved where durations vary little and much (sigma 0.5 and 1)."""
    for name, needs in SHAPES.items():
        yield name, *(mean(saved(needs, s, random.Random(n)) for n in range(draws)) for s in (0.5, 1.0))
    for least, most in ((3, 8), (20, 50), (100, 200)):
        sizes = [random.Random(n).randint(least, most) for n in range(draws // 10)]
        drawn = [random_needs(size, random.Random(n)) for n, size in enumerate(sizes)]
        shares = (mean(saved(g, s, random.Random(n)) for n, g in enumerate(drawn)) for s in (0.5, 1.0))
        yield f"random, {least} to {most} nodes", *shares


def test_a_graph_of_one_level_and_a_goal_has_nothing_to_save():
    for name in ("bridge question", "comparison", "trip to one city"):
        assert saved(SHAPES[name], 1.0, random.Random(1)) == pytest.approx(0)


def test_an_eager_schedule_is_never_later_and_takes_the_longest_path():
    seconds = {"a": 5.0, "b": 1.0, "a2": 1.0, "b2": 4.0, "goal": 1.0}
    needs = SHAPES["comparison of bridges"]
    assert (eager(needs, seconds), by_levels(needs, seconds)) == (7.0, 10.0)
    for number in range(50):
        chance = random.Random(number)
        assert saved(random_needs(chance.randint(2, 30), chance), 1.0, chance) >= 0


if __name__ == "__main__":
    for row in table():
        print(f"{row[0]:24} {row[1]:6.1%} {row[2]:6.1%}")

"""RewardPrediction's pairs: records, reading and building."""

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any, NamedTuple, Protocol

from pydantic import Field

from certigraph.adapters.files import Row, checked, read_json, read_rows
from certigraph.adapters.protocols import Benchmark, Environment
from certigraph.state.records import Action, Fault, Observation, Record, Task, ends_line

# The published form of RewardPrediction's trajectories: a goal, and steps with raw and shaped rewards.


class Reward(Record):
    """The true reward after a step, in [0, 1].

    `raw` is the world's own: how far it says the goal is reached now. `shaped` grows evenly along the expert's steps
    (step i of n: i / n), is `raw` at random ones, and 0 all along a negative trajectory (appendix A.1).
    """

    raw: float = 0.0
    shaped: float = 0.0
    is_expert: bool = False


class RewardRow(Record):
    """One step: an action, the world's unmodified answer, the reward."""

    action: str
    observation: str
    reward: Reward


class Recording(Record):
    """One trajectory towards a goal."""

    goal_description: str = Field(min_length=1)
    trajectory: tuple[RewardRow, ...] = Field(min_length=1)


class Pair(Record):
    """A positive trajectory of a task with its negative one, or with several (section 2.2)."""

    domain: str
    task: str
    positive: Recording
    negatives: tuple[Recording, ...] = Field(min_length=1)

    @property
    def id(self) -> str:
        """The pair's name among all domains."""
        return f"{self.domain}/{self.task}"

    @property
    def recordings(self) -> tuple[Recording, ...]:
        """The positive one first, in the order in which predictors get them."""
        return self.positive, *self.negatives


# What the published RewardPrediction has of each domain, and where it is drawn from here (appendix A.3, A.4).


class Domain(NamedTuple):
    """A benchmark whose worlds the recordings are from."""

    pairs: int
    """Pairs of trajectories that are published."""
    splits: tuple[str, ...] = ("",)
    """The benchmark's splits that tasks are drawn from."""
    kind: str = ""
    """Finds in a task's id what kind it is of, a regular expression of one group; pairs are spread evenly over kinds.
    Empty: all are of one."""
    without: frozenset[str] = frozenset()
    """Kinds that are left out."""


PUBLISHED: Mapping[str, Domain] = {
    "alfworld": Domain(336, ("valid_train", "valid_seen", "valid_unseen"), "(.*?)-"),
    "blocksworld": Domain(250),
    "scienceworld": Domain(191, ("swiftsage-271",), "(?:.*/)?(.*):", frozenset({"grow-plant", "grow-fruit"})),
    "textworld": Domain(150, ("rewards",), "(.*?)-"),
    "webshop": Domain(300, ("", "test"), "(.*)-"),
}
"""By benchmark. The paper has ALFWorld's training games, 56 of each type: here are 394 games in all. Of ScienceWorld's
test variations the first ten of each task, without those in which the simulator's own way does not reliably get to the
end, as in the paper. Of WebShop goals for as many different products as there are, where the paper has human
demonstrations."""


# Reading pairs: those that `certigraph rewards build` writes, and files laid out as the published ones.
#
# Ours are `DOMAIN.jsonl`, a pair a line. The published ones are a trajectory each: `DOMAIN/TASK/positive.json` and
# `DOMAIN/TASK/negative_0.json`; or rows of one file, named by `id`: `TASK_positive`, `TASK_negative_0`.

ENDINGS = (".json", ".jsonl", ".json.gz", ".jsonl.gz")

BOOKS = {"counts.json", "dropped.jsonl"}
"""Files beside ours that hold no pairs."""

PART = re.compile(r"(?P<task>.*?)[/_]?(?P<part>positive|negative)(_\d+)?")
"""The name of a trajectory."""


class Read(NamedTuple):
    """What a folder holds."""

    pairs: tuple[Pair, ...]
    unpaired: Mapping[str, int]
    """By domain, tasks left out for want of a positive or a negative trajectory."""


def read_pairs(folder: Path) -> Read:
    """All pairs under a folder, gzipped or not, by domain and task.

    Raises:
        Fault: ("data") a file is malformed, or no pair is there; one line that names the file and the fix.
    """
    pairs: list[Pair] = []
    loose: dict[tuple[str, str], dict[str, list[Recording]]] = defaultdict(lambda: defaultdict(list))
    for path in sorted(path for path in folder.rglob("*") if path.name.endswith(ENDINGS) and path.name not in BOOKS):
        for row in _rows(path):
            if isinstance(row.value, dict) and "positive" in row.value:
                pairs.append(checked(Pair, row))
            else:
                domain, task, part = _named(path.relative_to(folder).as_posix(), folder.resolve().name, row)
                loose[domain, task][part].append(_recording(row))
    whole = {key: parts for key, parts in loose.items() if parts["positive"] and parts["negative"]}
    pairs += [
        Pair(domain=domain, task=task, positive=parts["positive"][0], negatives=tuple(parts["negative"]))
        for (domain, task), parts in whole.items()
    ]
    unpaired = Counter(domain for domain, task in loose if (domain, task) not in whole)
    if not pairs:
        searched = f"no rewardprediction data in {folder}: it has no pair of trajectories"
        raise Fault("data", f"{searched}: {lacking(unpaired)}")
    return Read(tuple(sorted(pairs, key=lambda pair: pair.domain)), unpaired)


def lacking(unpaired: Mapping[str, int]) -> str:
    """What is missing of a folder without pairs, and the fix, given its tasks that are half there."""
    if not unpaired:
        files = "BENCHMARK.jsonl, or TASK/positive.json with negative_0.json"
        call = "certigraph run statefactory rewardprediction --data FOLDER"
        return f"expected {files}; name their folder ({call}), or build some: certigraph rewards build FOLDER"
    told = ", ".join(f"{count} of {domain}" for domain, count in unpaired.items())
    return f"its tasks have no positive or no negative ones ({told}); put negative_0.json beside each positive.json"


def _rows(path: Path) -> Iterator[Row]:
    """The trajectories or pairs of a file. Raises Fault where there are none, or where the file is cut off."""
    if ".jsonl" in path.name:
        rows = list(_lines(path))
    else:
        value = read_json(path)
        rows = [Row(f"{path}: row {n}", v) for n, v in enumerate(value, 1)] if isinstance(value, list) else []
        rows = rows or ([Row(str(path), value)] if value else [])
    if not rows:
        raise Fault("data", f"{path} is empty: delete it, or put the whole file there")
    yield from rows


def _lines(path: Path) -> Iterator[Row]:
    try:
        yield from read_rows(path)
    except Fault as fault:
        if path.suffix == ".gz" or not path.is_file() or ends_line(path):
            raise
        fix = f"start `certigraph rewards build {path.parent}` again, which goes on there, or delete that line"
        raise Fault("data", f"{path}: its last line is cut off: {fix}") from fault


def _named(where: str, root: str, row: Row) -> tuple[str, str, str]:
    """Domain, task, and positive or negative, by a trajectory's id, else by the place of its file."""
    place = re.sub(r"\.jsonl?(\.gz)?$", "", where)
    folder, _, name = place.rpartition("/")
    given = row.value.get("id", row.value.get("task_id")) if isinstance(row.value, dict) else None
    inside = root in PUBLISHED  # the folder of one domain was named
    domain = root if inside else place.partition("/")[0]
    found = PART.fullmatch(str(given) if given else name)
    if not found:
        raise Fault("data", f"{row.where}: neither positive nor negative: name the file positive.json, negative_0.json")
    inner = folder if inside else folder.partition("/")[2]
    return domain, "/".join(filter(None, (inner, found["task"]))), found["part"]


def _recording(row: Row) -> Recording:
    value: Any = row.value if isinstance(row.value, dict) else {}
    steps = value.get("trajectory") or []
    if bare := [n for n, step in enumerate(steps) if not isinstance(step, dict) or "reward" not in step]:
        fix = 'each needs "reward": {"raw": 0, "shaped": 0}: take the published files, or certigraph rewards build'
        raise Fault("data", f"{row.where}: step {bare[0]} of the trajectory has no reward: {fix}")
    kept = [{key: step[key] for key in ("action", "observation", "reward") if key in step} for step in steps]
    return checked(Recording, Row(row.where, {"goal_description": value.get("goal_description"), "trajectory": kept}))


# Building pairs from live worlds: the four stages of RewardPrediction's pipeline (StateFactory, appendix A.1).
#
# Expert trajectories with random steps at both ends; rewards interpolated along the expert's part and the world's own
# elsewhere; random trajectories that share nothing with the expert's; texts and action lists as the worlds give them.

MOST_PADDING = 2
"""Random steps at each end of a positive trajectory, at most."""

PADDED = 8
"""Draws of random steps before a demonstration; if after none of them it reaches the goal, it stands alone."""

TRIES = 40
"""Draws of a negative trajectory before a task is given up."""


class Demonstrated(Benchmark, Protocol):
    """A benchmark that knows how its tasks are done."""

    def demonstration(self, task: Task, before: Sequence[str] = ()) -> list[str]:
        """Actions that reach the goal from the start, or from where the actions `before` lead.

        Raises:
            Fault: ("data") there are none.
        """
        ...


def build_pair(benchmark: Demonstrated, task: Task, seed: int = 0) -> Pair | None:
    """The pair of a task; None where there is none to be had."""
    try:
        return paired(benchmark, task, seed)
    except Fault:
        return None


def paired(benchmark: Demonstrated, task: Task, seed: int = 0) -> Pair:
    """The pair of a task, the same for the same seed.

    Raises:
        Fault: ("data") no demonstration reaches the goal, or every random trajectory fails the filter; as the world
            and its demonstration raise.
    """
    random = Random(f"{seed}:{benchmark.name}:{task.id}")
    padded = (_positive(benchmark, task, random, MOST_PADDING) for _ in range(PADDED))
    positive = next(filter(None, padded), None) or _positive(benchmark, task, random, 0)
    segments = _segments([row.action for row in positive if row.reward.is_expert])
    wandering = (_negative(benchmark, task, random, len(positive)) for _ in range(TRIES))
    negative = next((rows for rows in wandering if _fails(rows, segments)), None)
    if negative is None:
        raise Fault("data", f"all of {TRIES} random trajectories share a stretch with the expert's or reach the goal")
    told = [Recording(goal_description=task.goal, trajectory=tuple(rows)) for rows in (positive, negative)]
    return Pair(domain=benchmark.name, task=task.id, positive=told[0], negatives=(told[1],))


def _positive(benchmark: Demonstrated, task: Task, random: Random, most: int) -> list[RewardRow]:
    """Random steps, the expert's, random steps; nothing where the first ones kept the expert from the goal.

    Raises:
        Fault: without any random steps before it the demonstration does not get there, or there is none.
    """
    world = benchmark.open(task)
    before: list[RewardRow] = []
    try:
        world.reset()
        before = _wandered(world, random, random.randint(0, most))
        expert = _followed(world, benchmark.demonstration(task, [row.action for row in before]))
        if not expert or expert[-1].reward.raw < 1.0:
            reached = f"{expert[-1].reward.raw:g}" if expert else "no step"
            raise Fault("data", f"its demonstration ends at {reached} of 1")
        shaped = [_worth(row, (place + 1) / len(expert)) for place, row in enumerate(expert)]
        return [*before, *shaped, *_wandered(world, random, random.randint(0, most))]
    except Fault:
        if not before:
            raise
        return []
    finally:
        world.close()


def _followed(world: Environment, actions: Sequence[str]) -> list[RewardRow]:
    """The steps up to the one that reaches the goal: what a demonstration does after it is no progress."""
    rows: list[RewardRow] = []
    for action in actions:
        rows.append(_row(world, action, world.step(Action(text=action))))
        if rows[-1].reward.raw >= 1.0:
            break
    return rows


def _negative(benchmark: Demonstrated, task: Task, random: Random, length: int) -> list[RewardRow]:
    """As many random steps as the positive trajectory has, fewer where the world ends before; all worth nothing."""
    world = benchmark.open(task)
    try:
        world.reset()
        rows = _wandered(world, random, length)
    finally:
        world.close()
    return [row.model_copy(update={"reward": Reward(raw=row.reward.raw)}) for row in rows]


def _segments(expert: Sequence[str]) -> set[tuple[str, ...]]:
    """What a random trajectory must not contain: any two of the expert's actions in a row, or its only one."""
    return set(pairwise(expert)) or {tuple(expert)}


def _fails(rows: Sequence[RewardRow], segments: set[tuple[str, ...]]) -> bool:
    """The strict filter: a failure neither reaches the goal nor has a stretch of the expert's."""
    actions = [row.action for row in rows]
    shared = segments & {*pairwise(actions), *((action,) for action in actions)}
    return bool(rows) and not shared and all(row.reward.raw < 1.0 for row in rows)


def _wandered(world: Environment, random: Random, steps: int) -> list[RewardRow]:
    rows: list[RewardRow] = []
    while len(rows) < steps and (actions := world.admissible()):
        action = random.choice(sorted(actions))
        observation = world.step(Action(text=action))
        if observation.done and not observation.accepted:  # the episode was over before
            break
        rows.append(_row(world, action, observation))
    return rows


def _row(world: Environment, action: str, observation: Observation) -> RewardRow:
    raw = min(1.0, max(0.0, world.score().value))
    return RewardRow(action=action, observation=observation.text, reward=Reward(raw=raw, shaped=raw))


def _worth(row: RewardRow, shaped: float) -> RewardRow:
    return row.model_copy(update={"reward": Reward(raw=row.reward.raw, shaped=shaped, is_expert=True)})

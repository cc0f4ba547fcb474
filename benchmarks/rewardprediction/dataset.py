"""Pairs of trajectories for reward prediction: their records, reading them from files, building them from worlds."""

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any, NamedTuple, Protocol

from pydantic import Field

from certigraph.adapters.files import JsonRow, read_json, read_rows, validate_row
from certigraph.adapters.json_lines import ends_with_newline
from certigraph.adapters.protocols import Benchmark, Environment, TaskDemonstrator
from certigraph.state.endings import Fault
from certigraph.state.records import Action, Observation, Record, Task

# The published form of RewardPrediction's trajectories: a goal, and steps with raw and shaped rewards.


class TrueReward(Record):
    """The true reward after a step, in [0, 1] (StateFactory, appendix A.1).

    `raw` is the world's own reward: how far the goal is reached according to the world. `shaped` grows evenly along the
    expert's steps (step i of n: i / n), equals `raw` at the random steps around them, and is 0 along a negative
    trajectory. `is_expert` marks the expert's steps.
    """

    raw: float = 0.0
    shaped: float = 0.0
    is_expert: bool = False


class RewardRow(Record):
    """One step: an action, the world's unmodified observation, and the reward."""

    action: str
    observation: str
    reward: TrueReward


class RewardTrajectory(Record):
    """One trajectory towards a goal."""

    goal_description: str = Field(min_length=1)
    trajectory: tuple[RewardRow, ...] = Field(min_length=1)


class TrajectoryPair(Record):
    """A trajectory that reaches a task's goal, with one or several that do not (StateFactory, section 2.2)."""

    domain: str
    task: str
    positive: RewardTrajectory
    negatives: tuple[RewardTrajectory, ...] = Field(min_length=1)

    @property
    def id(self) -> str:
        """Name of the pair, unique over all domains."""
        return f"{self.domain}/{self.task}"

    @property
    def recordings(self) -> tuple[RewardTrajectory, ...]:
        """All trajectories, the positive one first; predicted rewards are given in the same order."""
        return self.positive, *self.negatives


# The domains of the published RewardPrediction, and the tasks that their pairs are built from (StateFactory, appendices
# A.3 and A.4).


class RewardDomain(NamedTuple):
    """How tasks are chosen from a benchmark to record pairs of trajectories."""

    pairs: int
    """Number of published pairs."""
    splits: tuple[str, ...] = ("",)
    """The benchmark's splits from which tasks are drawn."""
    kind: str = ""
    """Regular expression with one group that gives the kind of a task from its id.

    Pairs are spread evenly over kinds. Empty: all tasks are of one kind.
    """
    without: frozenset[str] = frozenset()
    """Kinds that are left out."""


PUBLISHED_DOMAINS: Mapping[str, RewardDomain] = {
    "alfworld": RewardDomain(336, ("valid_train", "valid_seen", "valid_unseen"), "(.*?)-"),
    "blocksworld": RewardDomain(250),
    "scienceworld": RewardDomain(191, ("swiftsage-271",), "(?:.*/)?(.*):", frozenset({"grow-plant", "grow-fruit"})),
    "textworld": RewardDomain(150, ("rewards",), "(.*?)-"),
    "webshop": RewardDomain(300, ("", "test"), "(.*)-"),
}
"""The domains of RewardPrediction (StateFactory, appendices A.3 and A.4), by benchmark.

For ALFWorld the paper uses training games, 56 of each type; the three splits used here have 394 games in total. For
ScienceWorld, as in the paper, these are the first ten test variations of each task, without the tasks in which the
simulator's own solution does not reliably reach the goal. For WebShop the paper has human demonstrations; here goals
for as many different products as possible are used.
"""


# Reading pairs in our layout, which `certigraph rewards build` writes, and in the published one.
#
# Our files are `DOMAIN.jsonl` with one pair per line. Published files have one trajectory each, as
# `DOMAIN/TASK/positive.json` and `DOMAIN/TASK/negative_0.json`, or one row per trajectory with an `id` such as
# `TASK_positive` or `TASK_negative_0`.

SUFFIXES = (".json", ".jsonl", ".json.gz", ".jsonl.gz")
"""Suffixes of files with pairs."""

AUXILIARY_FILES = {"counts.json", "dropped.jsonl"}
"""Files that are written next to our pairs and hold none."""

TRAJECTORY_NAME = re.compile(r"(?P<task>.*?)[/_]?(?P<part>positive|negative)(_\d+)?")
"""Name of a trajectory: its task, and whether it is positive or negative."""


class FolderPairs(NamedTuple):
    """Result of `read_pairs`: the complete pairs of a folder, and the number of incomplete ones."""

    pairs: tuple[TrajectoryPair, ...]
    unpaired: Mapping[str, int]
    """Number of tasks per domain that were left out because a positive or a negative trajectory is missing."""


def read_pairs(folder: Path) -> FolderPairs:
    """Read all pairs from the files under a folder, gzipped or not; pairs are sorted by domain.

    Raises:
        Fault: ("data") a file is malformed, or there is no pair; the message names the file and the fix.
    """
    pairs: list[TrajectoryPair] = []
    trajectories: dict[tuple[str, str], dict[str, list[RewardTrajectory]]] = defaultdict(lambda: defaultdict(list))
    for path in sorted(
        path for path in folder.rglob("*") if path.name.endswith(SUFFIXES) and path.name not in AUXILIARY_FILES
    ):
        for row in _read_rows(path):
            if isinstance(row.value, dict) and "positive" in row.value:
                pairs.append(validate_row(TrajectoryPair, row))
            else:
                domain, task, part = _identify_trajectory(
                    path.relative_to(folder).as_posix(), folder.resolve().name, row
                )
                trajectories[domain, task][part].append(_parse_trajectory(row))
    complete = {key: parts for key, parts in trajectories.items() if parts["positive"] and parts["negative"]}
    pairs += [
        TrajectoryPair(domain=domain, task=task, positive=parts["positive"][0], negatives=tuple(parts["negative"]))
        for (domain, task), parts in complete.items()
    ]
    unpaired = Counter(domain for domain, task in trajectories if (domain, task) not in complete)
    if not pairs:
        problem = f"no rewardprediction data in {folder}: it has no pair of trajectories"
        raise Fault("data", f"{problem}: {describe_missing(unpaired)}")
    return FolderPairs(tuple(sorted(pairs, key=lambda pair: pair.domain)), unpaired)


def describe_missing(unpaired: Mapping[str, int]) -> str:
    """Return a message about a folder without pairs: what is missing and how to fix it.

    Args:
        unpaired: Number of tasks per domain that lack a positive or a negative trajectory.
    """
    if not unpaired:
        files = "BENCHMARK.jsonl, or TASK/positive.json with negative_0.json"
        call = "certigraph run statefactory rewardprediction --data FOLDER"
        return f"expected {files}; name their folder ({call}), or build some: certigraph rewards build FOLDER"
    counts = ", ".join(f"{count} of {domain}" for domain, count in unpaired.items())
    return f"its tasks have no positive or no negative ones ({counts}); put negative_0.json next to each positive.json"


def _read_rows(path: Path) -> Iterator[JsonRow]:
    """Yield the trajectories or pairs of a file.

    Raises:
        Fault: ("data") the file is empty or cut off.
    """
    if ".jsonl" in path.name:
        rows = list(_read_jsonl_rows(path))
    else:
        value = read_json(path)
        rows = [JsonRow(f"{path}: row {n}", v) for n, v in enumerate(value, 1)] if isinstance(value, list) else []
        rows = rows or ([JsonRow(str(path), value)] if value else [])
    if not rows:
        raise Fault("data", f"{path} is empty: delete it, or put the complete file there")
    yield from rows


def _read_jsonl_rows(path: Path) -> Iterator[JsonRow]:
    try:
        yield from read_rows(path)
    except Fault as fault:
        if path.suffix == ".gz" or not path.is_file() or ends_with_newline(path):
            raise
        fix = f"start `certigraph rewards build {path.parent}` again, which continues there, or delete that line"
        raise Fault("data", f"{path}: its last line is cut off: {fix}") from fault


def _identify_trajectory(where: str, root: str, row: JsonRow) -> tuple[str, str, str]:
    """Return a trajectory's domain, its task, and "positive" or "negative".

    The domain is taken from the location of the file, the rest from the row's id or else from the file's name.
    """
    location = re.sub(r"\.jsonl?(\.gz)?$", "", where)
    folder, _, name = location.rpartition("/")
    given = row.value.get("id", row.value.get("task_id")) if isinstance(row.value, dict) else None
    is_domain = root in PUBLISHED_DOMAINS  # the folder of one domain was named
    domain = root if is_domain else location.partition("/")[0]
    match = TRAJECTORY_NAME.fullmatch(str(given) if given else name)
    if not match:
        raise Fault("data", f"{row.where}: neither positive nor negative: name the file positive.json, negative_0.json")
    inner = folder if is_domain else folder.partition("/")[2]
    return domain, "/".join(filter(None, (inner, match["task"]))), match["part"]


def _parse_trajectory(row: JsonRow) -> RewardTrajectory:
    value: Any = row.value if isinstance(row.value, dict) else {}
    steps = value.get("trajectory") or []
    if without_reward := [n for n, step in enumerate(steps) if not isinstance(step, dict) or "reward" not in step]:
        fix = 'each needs "reward": {"raw": 0, "shaped": 0}: take the published files, or certigraph rewards build'
        raise Fault("data", f"{row.where}: step {without_reward[0]} of the trajectory has no reward: {fix}")
    rows = [{key: step[key] for key in ("action", "observation", "reward") if key in step} for step in steps]
    return validate_row(
        RewardTrajectory, JsonRow(row.where, {"goal_description": value.get("goal_description"), "trajectory": rows})
    )


# Building pairs from live worlds: the four stages of RewardPrediction's pipeline (StateFactory, appendix A.1).
#
# Positive trajectories have random steps before and after the expert's. Rewards are interpolated along the expert's
# part; elsewhere they are the world's own. Negative trajectories are random and share nothing with the expert's. Texts
# and action lists are the worlds' own.

MAX_PADDING = 2
"""Maximum number of random steps at each end of a positive trajectory."""

PADDING_ATTEMPTS = 8
"""Maximum number of attempts to put random steps around a demonstration. If the demonstration reaches the goal in none
of them, it is used without random steps."""

NEGATIVE_ATTEMPTS = 40
"""Maximum number of random trajectories that are tried as the negative one before a task is given up."""


class DemonstratedBenchmark(Benchmark, TaskDemonstrator, Protocol):
    """Benchmark with a method `demonstration`; used in type hints only."""


def try_build_pair(benchmark: DemonstratedBenchmark, task: Task) -> TrajectoryPair | None:
    """Build the pair of trajectories of a task, or return None if that fails; see `require_pair`."""
    try:
        return require_pair(benchmark, task)
    except Fault:
        return None


def require_pair(benchmark: DemonstratedBenchmark, task: Task, seed: int = 0) -> TrajectoryPair:
    """Build the pair of trajectories of a task; equal seeds give equal pairs.

    Raises:
        Fault: ("data") the demonstration does not reach the goal, or every random trajectory reaches the goal or shares
            actions with the expert's; also the errors of the world and of its demonstration.
    """
    random = Random(f"{seed}:{benchmark.name}:{task.id}")
    padded = (_build_positive(benchmark, task, random, MAX_PADDING) for _ in range(PADDING_ATTEMPTS))
    positive = next(filter(None, padded), None) or _build_positive(benchmark, task, random, 0)
    segments = _expert_segments([row.action for row in positive if row.reward.is_expert])
    attempts = (_build_negative(benchmark, task, random, len(positive)) for _ in range(NEGATIVE_ATTEMPTS))
    negative = next((rows for rows in attempts if _is_failure(rows, segments)), None)
    if negative is None:
        raise Fault(
            "data",
            f"all of {NEGATIVE_ATTEMPTS} random trajectories share a stretch with the expert's or reach the goal",
        )
    recordings = [RewardTrajectory(goal_description=task.goal, trajectory=tuple(rows)) for rows in (positive, negative)]
    return TrajectoryPair(domain=benchmark.name, task=task.id, positive=recordings[0], negatives=(recordings[1],))


def _build_positive(benchmark: DemonstratedBenchmark, task: Task, random: Random, most: int) -> list[RewardRow]:
    """Return a positive trajectory: the expert's steps, with at most `most` random steps before and after them.

    The result is empty if the random steps before keep the expert from the goal.

    Raises:
        Fault: there is no demonstration, or it does not reach the goal although no random steps precede it.
    """
    world = benchmark.open(task)
    before: list[RewardRow] = []
    try:
        world.reset()
        before = _random_steps(world, random, random.randint(0, most))
        expert = _follow_actions(world, benchmark.demonstration(task, [row.action for row in before]))
        if not expert or expert[-1].reward.raw < 1.0:
            progress = f"{expert[-1].reward.raw:g}" if expert else "no step"
            raise Fault("data", f"its demonstration ends at {progress} of 1")
        shaped = [_with_shaped_reward(row, (index + 1) / len(expert)) for index, row in enumerate(expert)]
        return [*before, *shaped, *_random_steps(world, random, random.randint(0, most))]
    except Fault:
        if not before:
            raise
        return []
    finally:
        world.close()


def _follow_actions(world: Environment, actions: Sequence[str]) -> list[RewardRow]:
    """Execute actions until the goal is reached, and return these steps; later actions make no progress."""
    rows: list[RewardRow] = []
    for action in actions:
        rows.append(_create_row(world, action, world.step(Action(text=action))))
        if rows[-1].reward.raw >= 1.0:
            break
    return rows


def _build_negative(benchmark: DemonstratedBenchmark, task: Task, random: Random, length: int) -> list[RewardRow]:
    """Return `length` random steps, or fewer if the episode ends before; their shaped rewards are 0."""
    world = benchmark.open(task)
    try:
        world.reset()
        rows = _random_steps(world, random, length)
    finally:
        world.close()
    return [row.model_copy(update={"reward": TrueReward(raw=row.reward.raw)}) for row in rows]


def _expert_segments(expert: Sequence[str]) -> set[tuple[str, ...]]:
    """Return what a random trajectory must not contain: two consecutive actions of the expert, or its only action."""
    return set(pairwise(expert)) or {tuple(expert)}


def _is_failure(rows: Sequence[RewardRow], segments: set[tuple[str, ...]]) -> bool:
    """Return whether a trajectory neither reaches the goal nor contains one of the expert's segments."""
    actions = [row.action for row in rows]
    shared = segments & {*pairwise(actions), *((action,) for action in actions)}
    return bool(rows) and not shared and all(row.reward.raw < 1.0 for row in rows)


def _random_steps(world: Environment, random: Random, steps: int) -> list[RewardRow]:
    rows: list[RewardRow] = []
    while len(rows) < steps and (actions := world.admissible()):
        action = random.choice(sorted(actions))
        observation = world.step(Action(text=action))
        if observation.done and not observation.accepted:  # the episode had ended before this action
            break
        rows.append(_create_row(world, action, observation))
    return rows


def _create_row(world: Environment, action: str, observation: Observation) -> RewardRow:
    raw = min(1.0, max(0.0, world.score().value))
    return RewardRow(action=action, observation=observation.text, reward=TrueReward(raw=raw, shaped=raw))


def _with_shaped_reward(row: RewardRow, shaped: float) -> RewardRow:
    return row.model_copy(update={"reward": TrueReward(raw=row.reward.raw, shaped=shaped, is_expert=True)})

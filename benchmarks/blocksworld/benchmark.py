"""The BlocksWorld benchmark: instances (generated or PlanBench's), the environment, and factored states."""

import random
import re
import tarfile
from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from string import ascii_lowercase
from typing import Self

from pydantic import Field, ValidationError, model_validator

from certigraph.adapters.benchmarks import check_configuration, mean_score, standard_error
from certigraph.adapters.files import (
    MAX_SETTINGS_BYTES,
    missing_data_fault,
    read_remaining_bytes,
    read_text,
    unknown_task_error,
)
from certigraph.adapters.protocols import Benchmark, Decision, Environment, Factors, Responder
from certigraph.benchmarks.blocksworld.conditions import WORDINGS, decide_in_view
from certigraph.benchmarks.blocksworld.domain import (
    HAND_EMPTY,
    MOVES,
    BlockFact,
    BlocksState,
    applicable_moves,
    apply_move,
    clear,
    deny_fact,
    describe_state,
    format_block,
    format_facts,
    format_move,
    is_possible,
    occupied_slots,
    on,
    ontable,
    parse_action,
    parse_facts,
    parse_goal,
    parse_observed,
    sort_facts,
    state_problem,
    unmet_preconditions,
)
from certigraph.benchmarks.blocksworld.expert import answer_request, find_plan
from certigraph.state.endings import GOAL, Fault, UnknownName
from certigraph.state.records import Action, Observation, Record, Scores, Task
from certigraph.state.rewards import FactoredState, to_factored, to_mapping
from certigraph.state.trajectory import Footer

# Instances, and seeded generators that need no data.

Stacks = list[list[str]]


class BlocksInstance(Record):
    """Problem instance: blocks, a complete initial state, and goal facts that must hold together at the end."""

    blocks: tuple[str, ...]
    init: tuple[BlockFact, ...]
    goal: tuple[BlockFact, ...] = Field(min_length=1)

    @model_validator(mode="after")
    def _complete(self) -> Self:
        everything = {(kind, block) for kind in ("place", "cover") for block in self.blocks} | {("hand",)}
        if set(occupied_slots(self.init)) != everything or not is_possible(self.init):
            raise ValueError(
                "init must state once for every block its place and what covers it, and the state of the hand"
            )
        if unknown := set(occupied_slots(self.goal)) - everything:
            raise ValueError(f"the goal names blocks that are not in blocks: {sorted({s[1] for s in unknown})}")
        return self

    @property
    def state(self) -> BlocksState:
        """Initial state."""
        return frozenset(self.init)

    def solved_by(self, state: BlocksState) -> bool:
        """Return whether the goal holds in a state."""
        return state.issuperset(self.goal)


def random_instance(blocks: int, seed: int) -> BlocksInstance:
    """Draw a random initial state, and as the goal one or several random `on` facts that do not all hold initially.

    The same arguments give the same instance on every machine.

    Raises:
        ValueError: there are fewer than two blocks.
    """
    names = _block_names(blocks)
    rng = random.Random(f"{blocks}-{seed}")
    init = _facts_of_stacks(_random_stacks(rng, names))
    while True:
        candidates = [fact for fact in _facts_of_stacks(_random_stacks(rng, names)) if fact.name == "on"]
        goal = rng.sample(candidates, rng.randint(1, len(candidates))) if candidates else []
        if not set(goal) <= set(init):
            return BlocksInstance(blocks=names, init=tuple(init), goal=tuple(sort_facts(goal)))


def tower_instance(blocks: int) -> BlocksInstance:
    """Create the problem of building one tower from `blocks` blocks on the table, with the first block on top.

    The shortest plan has 2 * (blocks - 1) moves.
    """
    names = _block_names(blocks)
    goal = (on(upper, lower) for upper, lower in pairwise(names))
    return BlocksInstance(
        blocks=names, init=tuple(_facts_of_stacks([[name] for name in names])), goal=tuple(sort_facts(goal))
    )


def _block_names(count: int) -> tuple[str, ...]:
    if count < 2:
        raise ValueError(f"a goal needs two blocks or more, not {count}")
    return tuple(ascii_lowercase[i] if i < 12 else str(i + 1) for i in range(count))


def _random_stacks(rng: random.Random, blocks: tuple[str, ...]) -> Stacks:
    stacks: Stacks = []
    for block in rng.sample(blocks, len(blocks)):
        choice = rng.randrange(len(stacks) + 1)
        if choice == len(stacks):
            stacks.append([])
        stacks[choice].append(block)
    return stacks


def _facts_of_stacks(stacks: Stacks) -> list[BlockFact]:
    # Facts of stacks, each listed from the bottom.
    facts = [HAND_EMPTY]
    for stack in stacks:
        facts += [ontable(stack[0]), clear(stack[-1])]
        facts += [on(upper, lower) for lower, upper in pairwise(stack)]
    return sort_facts(facts)


# PDDL problems: one text, one file, a folder, or a tar archive.

_PROBLEM = "(problem"
"""Text that identifies a PDDL problem; the domain file, often in the same folder, does not contain it."""


def read_problem(text: str, source: str = "problem") -> BlocksInstance:
    """Parse a PDDL problem, `(define (problem ...))`; blocks, init and goal of the instance are sorted.

    Raises:
        Fault: ("data") the text is not a BlocksWorld problem of positive ground facts; the message names `source`.
    """
    body = re.sub(r";.*", "", text).lower()
    try:
        return BlocksInstance(
            blocks=tuple(sorted(_extract_section(body, "objects").split(), key=lambda block: (len(block), block))),
            init=_parse_pddl_facts(_extract_section(body, "init")),
            goal=_parse_pddl_facts(_extract_section(body, "goal")),
        )
    except ValueError as error:
        raise Fault("data", f"{source} is not a BlocksWorld problem: {error}; compare PlanBench's instances") from error


def read_problems(source: Path) -> dict[str, BlocksInstance]:
    """Read all PDDL problems of a .pddl file, a folder or a tar archive.

    The keys are the problems' paths without suffix, such as `hard/instance-1`, sorted by folder and number.

    Raises:
        Fault: ("data") there are no problems, or the source cannot be read.
    """
    try:
        texts = dict(_read_archive(source) if source.is_file() and source.suffix != ".pddl" else _read_folder(source))
    except (OSError, EOFError, UnicodeError, tarfile.TarError) as error:
        raise Fault("data", f"cannot read {source} ({error}); give a .pddl file, a folder or a tar archive") from error
    if not texts:
        raise Fault("data", f"no PDDL problem in {source}; give a .pddl file, or a folder or tar archive of them")
    return {name: read_problem(texts[name], f"{source}: {name}.pddl") for name in sorted(texts, key=_natural_key)}


def _read_folder(source: Path) -> Iterator[tuple[str, str]]:
    root, paths = (source, source.rglob("*.pddl")) if source.is_dir() else (source.parent, iter([source]))
    for path in paths:
        if _PROBLEM in (text := read_text(path, MAX_SETTINGS_BYTES)):
            yield path.relative_to(root).with_suffix("").as_posix(), text


def _read_archive(source: Path) -> Iterator[tuple[str, str]]:
    with tarfile.open(source) as archive:
        for member in archive:
            stream = archive.extractfile(member) if member.name.endswith(".pddl") else None
            if stream and _PROBLEM in (
                text := read_remaining_bytes(stream, f"{source}: {member.name}", MAX_SETTINGS_BYTES).decode()
            ):
                yield Path(member.name).with_suffix("").as_posix(), text


def _extract_section(body: str, name: str) -> str:
    # The text between `(:name` and its closing parenthesis.
    _, opening, rest = body.partition(f"(:{name}")
    depth = 1
    for end, character in enumerate(rest):
        depth += (character == "(") - (character == ")")
        if depth == 0:
            return rest[:end]
    raise ValueError(f"its (:{name} ...) is {'never closed' if opening else 'missing'}")


def _parse_pddl_facts(section: str) -> tuple[BlockFact, ...]:
    # The facts are the innermost parentheses; outside of them only `and` is supported.
    atoms = re.findall(r"\(([^()]+)\)", section)
    if set(re.findall(r"\w+", re.sub(r"\([^()]+\)", "", section))) - {"and"}:
        raise ValueError(f"only a conjunction of facts is supported, not {section.strip()!r}")
    facts = (BlockFact(name, tuple(args)) for name, *args in map(str.split, atoms))
    return tuple(sort_facts(facts))


def _natural_key(name: str) -> tuple[str, int, str]:
    # Sorts instance-2 before instance-10.
    folder, _, file = name.rpartition("/")
    return folder, int("".join(filter(str.isdigit, file)) or 0), file


# Factored states: for each block, what is below it, what is above it, and whether it is held.

Supports = dict[str, str]
"""Block -> what it rests on: a block, the table or the hand."""

TABLE, HAND, NOTHING = "table", "hand", "nothing"

LATER = "later"
"""Required value of the attribute `grip` of a block whose place is not free yet. No state has this value."""


class BlocksWorldFactors:
    """Extractor of factored states (blocks with attributes) from observations, which describe the complete state.

    It is written by hand for PlanBench's sentences; in the StateFactory paper a language model extracts the states. A
    goal state requires not only the goal's facts but also milestones that every plan passes: a block and its place are
    clear, and the block is held.
    """

    def extract(self, state: FactoredState, goal: str, action: str, observation: str) -> FactoredState:
        """Return each block with what is below and above it; `state` unchanged if the observation mentions no block."""
        below = _supports_by_name(parse_observed(observation) or parse_facts(observation))
        return to_factored({block: _attributes_of(block, below) for block in below}) if below else state

    def interpret(self, goal: str, state: FactoredState, before: FactoredState) -> FactoredState:
        """Return the state that the goal requires: what must be below each block that the goal places.

        For a block that is not placed yet, the state also requires that the block and its place are clear and that the
        block is held. A block counts as placed only if all required blocks below it are placed too.
        """
        required = _supports_by_name(parse_goal(goal) or parse_facts(goal))
        below = {name: attributes["below"] for name, attributes in to_mapping(state).items() if "below" in attributes}
        goals: dict[str, dict[str, str]] = {}
        for block, under in required.items():
            placed = _is_placed(block, required, below)
            goals.setdefault(block, {}).update(
                {"below": under} if placed else _required_attributes(under, required, below)
            )
            if under != TABLE:
                goals.setdefault(under, {})["above"] = block if placed else NOTHING
        return to_factored(goals)


def _supports_by_name(facts: BlocksState) -> Supports:
    below: Supports = {}
    for fact in sorted(facts):
        if fact.name == "on":
            below[format_block(fact.args[0])] = format_block(fact.args[1])
        elif fact.name in ("ontable", "holding"):
            below[format_block(fact.args[0])] = TABLE if fact.name == "ontable" else HAND
    return below


def _attributes_of(block: str, below: Supports) -> dict[str, str]:
    # single words where possible: embeddings of longer wordings of opposites are closer together
    return {
        "below": below[block],
        "above": _block_above(block, below),
        "grip": "held" if below[block] == HAND else "resting",
    }


def _block_above(block: str, below: Supports) -> str:
    return next((other for other, under in below.items() if under == block), NOTHING)


def _required_attributes(under: str, required: Supports, below: Supports) -> dict[str, str]:
    # Requirements of a block that is not placed yet: clear, held once its place is free, and in its place.
    ready = _is_placed(under, required, below) and _block_above(under, below) == NOTHING
    return {"below": under, "grip": "held" if ready else LATER, "above": NOTHING}


def _is_placed(block: str, required: Supports, below: Supports) -> bool:
    # Whether a block and all blocks below it are in their required places; a block that the goal does not place is.
    for _ in required:
        if block not in required:
            return True
        if below.get(block) != required[block]:
            return False
        block = required[block]
    return block not in required


# The environment; every observation describes the complete state.


class BlocksWorldEnvironment(Environment):
    """Environment of one instance. The episode ends with reward 1.0 once the goal holds; all other rewards are 0.0."""

    concurrent = False

    def __init__(self, instance: BlocksInstance) -> None:
        self.instance = instance
        self.state: BlocksState = instance.state

    def reset(self) -> Observation:
        """Restore the initial state."""
        self.state = self.instance.state
        return self._observation()

    def step(self, action: Action) -> Observation:
        """Move one block. An action that is not an applicable move is rejected with the reason and changes nothing."""
        move = parse_action(action.text)
        if move is None:
            return self._observation(refusal=f"{action.text[:100]!r} is not an action; say {_TEMPLATES}.")
        if missing := unmet_preconditions(self.state, move):
            return self._observation(refusal=f"Cannot {format_move(move)}: {' and '.join(map(deny_fact, missing))}.")
        self.state = apply_move(self.state, move)
        return self._observation()

    def view(self) -> str:
        """Describe the complete state."""
        return describe_state(self.state)

    def admissible(self) -> list[str]:
        """List all applicable actions, in words."""
        return [format_move(move) for move in applicable_moves(self.state)]

    def score(self) -> Scores:
        """Return 1.0 if the goal holds now, else 0.0; `parts["goal_facts"]` is the fraction of goal facts that hold."""
        count = sum(fact in self.state for fact in self.instance.goal)
        return Scores(
            value=float(self.instance.solved_by(self.state)), parts={"goal_facts": count / len(self.instance.goal)}
        )

    def close(self) -> None:
        """Do nothing: no resource is held."""

    def _observation(self, refusal: str = "") -> Observation:
        done = self.instance.solved_by(self.state)
        text = f"{refusal} {describe_state(self.state)}".lstrip()
        return Observation(text=text, accepted=not refusal, reward=float(done), done=done, solved=done)


_TEMPLATES = ", ".join(text.format("X", "Y") for text in MOVES.values())


# The benchmark: generated tasks, and PlanBench's instances if their data is given.

ARCHIVE = "instances.tar.gz"
DEFAULT_SET = "generated_basic"

MAX_BLOCKS = 30
"""Maximum number of blocks of a random instance, twice that of PlanBench's largest."""

MAX_TOWER_BLOCKS = 300
"""Maximum number of blocks of a tower, a test of long plans."""


class BlocksWorld(Benchmark):
    """Benchmark of generated tasks, such as `4-0` (4 blocks, seed 0) and `tower-30` (30 blocks), of bounded size.

    With PlanBench's data there are also tasks such as `generated_basic/instance-1`.

    Args:
        data: Folder with PlanBench's instances.tar.gz, read on first use; None for generated tasks only.
        config: Must be empty: there are no variants.
    """

    name = "blocksworld"
    wordings = WORDINGS
    instant = True
    signals_goal = True

    def __init__(self, data: Path | None = None, config: str = "") -> None:
        check_configuration(self.name, config)
        self.data = data

    def factors(self) -> Factors:
        """Return the symbolic extractor of this world."""
        return BlocksWorldFactors()

    def horizon(self, task: Task) -> tuple[float, str]:
        """Return the number of blocks."""
        blocks = task.constants["blocks"]
        count = len(blocks) if isinstance(blocks, (list, tuple)) else int(str(blocks))
        return count, f"{count} blocks"

    def tasks(self, split: str = "") -> list[Task]:
        """Return the tasks of a split: a folder of PlanBench's archive, such as `hard`.

        The default is PlanBench's basic set or, without data, 20 generated tasks.

        Raises:
            UnknownName: the split is unknown; the message lists the known ones.
            Fault: ("data") the data folder contains no readable instances.
        """
        if not split and self.data:
            return self.tasks(DEFAULT_SET)
        if not split:
            return [self.task(f"{blocks}-{seed}") for blocks in range(3, 7) for seed in range(5)]
        tasks = [self._task(id_, instance) for id_, instance in self._instances.items() if _set_of(id_) == split]
        if not tasks:
            known = ", ".join(sorted(set(map(_set_of, self._instances)))) or "none"
            raise UnknownName("; ".join(filter(None, [f"no split {split!r}", f"known are {known}", self._data_hint])))
        return tasks

    def task(self, task_id: str) -> Task:
        """Return one task.

        Raises:
            UnknownName: there is no such task; the message lists some ids.
            Fault: see `tasks`.
        """
        if (match := re.fullmatch(r"([1-9]\d?)-(0|[1-9]\d{0,8})", task_id)) and 2 <= int(match[1]) <= MAX_BLOCKS:
            return self._task(task_id, random_instance(*map(int, match.groups())))
        if (match := re.fullmatch(r"tower-([1-9]\d{0,2})", task_id)) and 2 <= int(match[1]) <= MAX_TOWER_BLOCKS:
            return self._task(task_id, tower_instance(int(match[1])))
        if task_id not in self._instances:
            pattern = (
                f"BLOCKS-SEED (2 to {MAX_BLOCKS} blocks) or tower-BLOCKS (2 to {MAX_TOWER_BLOCKS}), "
                "and with PlanBench's data SET/INSTANCE"
            )
            raise unknown_task_error(
                self.name, task_id, pattern, ["4-0", "tower-30", *self._instances], self._data_hint
            )
        return self._task(task_id, self._instances[task_id])

    def demonstration(self, task: Task, before: Sequence[str] = ()) -> list[str]:
        """Return a plan from the start, or from the state that the actions `before` lead to."""
        world = self.open(task)
        for action in before:
            world.step(Action(text=action))
        return [format_move(move) for move in find_plan(world.state, world.instance.goal)]

    def open(self, task: Task) -> BlocksWorldEnvironment:
        """Create the environment of a task from `task.constants`.

        Raises:
            Fault: ("data") the constants are not a valid `BlocksInstance`.
        """
        try:
            return BlocksWorldEnvironment(BlocksInstance.model_validate(task.constants))
        except ValidationError as error:
            raise Fault("data", f"task {task.id}: {error}; make it with BlocksWorld().task('4-0')") from error

    def expert(self) -> Responder | None:
        """Return the scripted model `scripted:expert`: it computes correct answers from what operators read."""
        return answer_request

    def decide(self, condition: str, observation: Observation, view: str) -> Decision | None:
        """Decide a condition by the state that the view describes; None if its wording is not that of facts."""
        return decide_in_view(condition, view or observation.text)

    def figures(self, runs: Sequence[tuple[str, Footer]]) -> dict[str, float]:
        """Return the rate of solved tasks with its standard error, and the rate of runs that ended by their goal.

        A run ends by its goal if the graph's own checks found the goal reached.
        """
        solved = [footer.scores.value if footer.scores else 0.0 for _, footer in runs]
        return {
            "n": len(runs),
            "solved": mean_score(solved),
            "solved_stderr": standard_error(solved),
            "goal": mean_score([footer.ending == GOAL for _, footer in runs]),
        }

    @cached_property
    def _instances(self) -> dict[str, BlocksInstance]:
        if self.data is None:
            return {}
        if not (self.data / ARCHIVE).is_file():
            raise missing_data_fault(self.name, self.data, ARCHIVE)
        return read_problems(self.data / ARCHIVE)

    def _task(self, task_id: str, instance: BlocksInstance) -> Task:
        goal = state_problem(instance.init, instance.goal)
        condition = format_facts(instance.goal)
        return Task(benchmark=self.name, id=task_id, goal=goal, condition=condition, constants=instance.as_json())

    @property
    def _data_hint(self) -> str:
        return "" if self.data else f"PlanBench's need --data DIR, with {ARCHIVE} under DIR/{self.name}/"


def _set_of(task_id: str) -> str:
    return task_id.rpartition("/")[0]

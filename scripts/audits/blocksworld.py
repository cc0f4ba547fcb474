"""Audit of the rule that certifies BlocksWorld's conditions, against the simulator's state.

The paths are a plan of each instance, and copies of it with one wrong action: another block, or an action that the
world denies. After every action the rule (`BlocksWorld.decide`), which sees the observation and the view, decides each
fact that the blocks can have, each of them in wordings that claim something else, and conjunctions.

PlanBench's basic set is used where CERTIGRAPH_DATA has it, with generated instances of three to six blocks.
"""

import random
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import pairwise

from audits import Audit
from certigraph.adapters.benchmarks import data_folder
from certigraph.benchmarks.blocksworld.benchmark import BlocksWorld, BlocksWorldEnvironment
from certigraph.benchmarks.blocksworld.domain import (
    HAND_EMPTY,
    BlockFact,
    BlocksState,
    applicable_moves,
    clear,
    deny_fact,
    format_fact,
    format_facts,
    format_move,
    holding,
    on,
    ontable,
)
from certigraph.state.records import Action

KINDS = ("wrong block", "denied action")

MAX_INSTANCES = 100
"""Maximum number of instances of PlanBench's set."""

HEDGES = (
    "It is not true that {}.",
    "Either {} or the hand is empty.",
    "If {}, the plan goes on.",
    "{} unless somebody moves it.",
    "{}, or it was.",
    "It was thought that {}.",
)
"""Wordings that hold a fact phrase and claim something else; nothing exact can be decided about them."""


def list_tasks() -> list[str]:
    """Return ids of PlanBench's instances and of generated ones."""
    benchmark = BlocksWorld(data_folder("blocksworld"))
    generated = [f"{blocks}-{seed}" for blocks in range(3, 7) for seed in range(5)]
    return [*(task.id for task in benchmark.tasks()[:MAX_INSTANCES]), *generated]


def audit_task(task_id: str, perturbed: int) -> list[Audit]:
    """Audit the plan of an instance and perturbed copies of it."""
    benchmark = BlocksWorld(data_folder("blocksworld"))
    task = benchmark.task(task_id)
    gold = benchmark.demonstration(task)
    audits = [_walk(f"{task_id} gold", gold, benchmark.open(task))]
    for number in range(perturbed):
        kind, world = KINDS[number % len(KINDS)], benchmark.open(task)
        path = perturb(gold, kind, random.Random(f"{task_id} {number}"), world)
        audits.append(_walk(f"{task_id} {kind}", path, world))
    return audits


def perturb(gold: Sequence[str], kind: str, draw: random.Random, world: BlocksWorldEnvironment) -> list[str]:
    """Return a copy of a plan with one wrong action, after which it goes on."""
    at = draw.randrange(len(gold))
    world.reset()
    for action in gold[:at]:
        world.step(Action(text=action))
    moves = [format_move(move) for move in applicable_moves(world.state)]
    other = [move for move in moves if move != gold[at]] or moves
    blocks = [f"{name} block" for name in ("red", "blue", "orange", "gold")]
    denied = [f"stack the {draw.choice(blocks)} on top of the {draw.choice(blocks)}", "look", "", "put down the moon"]
    wrong = draw.choice(other if kind == "wrong block" else denied)
    return [*gold[:at], wrong, *gold[at:]]


def conditions_about(blocks: Sequence[str], state: BlocksState) -> Iterator[tuple[str, bool | None]]:
    """Yield conditions with their truth in a state; None where a wording claims something else than its facts."""
    facts = list(_facts_about(blocks))
    for fact in facts:
        yield format_fact(fact), fact in state
        yield f"{format_fact(fact).capitalize()}.", fact in state
        yield deny_fact(fact), fact not in state
        for hedge in HEDGES:
            yield hedge.format(format_fact(fact)), None
    for first, second in pairwise([*facts, *facts[::3], *facts[::5]]):
        yield format_facts({first, second}), {first, second} <= state
        yield f"My goal is that {format_facts({first, second})}.", {first, second} <= state


def _facts_about(blocks: Sequence[str]) -> Iterator[BlockFact]:
    yield HAND_EMPTY
    for block in blocks:
        yield from (clear(block), ontable(block), holding(block))
        yield from (on(block, other) for other in blocks if other != block)


def _walk(path: str, actions: Sequence[str], world: BlocksWorldEnvironment) -> Audit:
    observation, benchmark = world.reset(), BlocksWorld()
    counts, false = Counter[str](), list[str]()
    for action in actions:
        if observation.done:
            break
        observation = world.step(Action(text=action))
        for text, holds in conditions_about(world.instance.blocks, world.state):
            decision = benchmark.decide(text, observation, world.view())
            if decision is None:
                counts["undecided"] += 1
                continue
            counts["decided"] += 1
            counts["certified"] += decision.holds
            if decision.holds != holds:
                counts["false"] += 1
                false.append(
                    f"{action!r} -> {observation.text[:80]!r}: {text!r} {decision.holds}, the state says {holds}"
                )
    return Audit(path, counts, tuple(false))

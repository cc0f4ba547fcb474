"""What reward heads are trained on: prefixes of recorded trajectories, and which of two is worth more."""

from collections.abc import Callable, Sequence
from importlib import import_module
from itertools import product
from random import Random
from typing import Any, NamedTuple

from certigraph.adapters.encoding import Encoder
from certigraph.adapters.reward_heads import prefix_features
from certigraph.adapters.rewardprediction.rows import Pair, Recording
from certigraph.state.rewarding import Seen

PER_TASK = 70
"""Ranked pairs drawn from one task: 35,000 from 500, as in the paper (appendix C.2.1)."""


class Sample(NamedTuple):
    """One task: its prefixes, positive recording first."""

    task: str
    domain: str
    features: Any
    """Of every prefix, shape (prefixes, width), in half precision."""
    rewards: tuple[float, ...]
    """The true, shaped reward of each."""


def sample(pair: Pair, encoder: Encoder) -> Sample:
    """All prefixes of a pair's two recordings."""
    numpy = import_module("numpy")
    told = [prefix_features(one.goal_description, steps_of(one), encoder) for one in pair.recordings]
    rewards = tuple(row.reward.shaped for one in pair.recordings for row in one.trajectory)
    return Sample(pair.id, pair.domain, numpy.concatenate(told).astype(numpy.float16), rewards)


def steps_of(one: Recording) -> list[Seen]:
    """A recording without its rewards, as predictors see it."""
    return [Seen(action=row.action, observation=row.observation) for row in one.trajectory]


def samples(pairs: Sequence[Pair], encoder: Encoder, told: Callable[[str], None] = lambda line: None) -> list[Sample]:
    """The samples of all pairs; the encoder reads a hundred pairs at a time, which is faster than step by step."""
    found: list[Sample] = []
    for start in range(0, len(pairs), 100):
        some = pairs[start : start + 100]
        encoder.encode([text for pair in some for text in _texts(pair)])
        found += [sample(pair, encoder) for pair in some]
        told(f"{len(found)} of {len(pairs)} tasks encoded")
    return found


def ranked(one: Sample, seed: int) -> list[tuple[int, int]]:
    """Places of two prefixes of a task, the one that is worth more first; PER_TASK of all such pairs, drawn at random.

    Both may be of the same recording; a positive recording's steps win against a negative one's where they are worth
    more, and where both are worth nothing neither does.
    """
    places = range(len(one.rewards))
    orders = [(a, b) for a, b in product(places, places) if one.rewards[a] > one.rewards[b]]
    return Random(f"{seed}:{one.task}").sample(orders, min(PER_TASK, len(orders)))


def _texts(pair: Pair) -> list[str]:
    rows = [row for one in pair.recordings for row in one.trajectory]
    return [pair.positive.goal_description, *(text for row in rows for text in (row.action, row.observation))]

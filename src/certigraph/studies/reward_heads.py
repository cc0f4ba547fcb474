"""Training of reward heads, and their transfer to other domains (`certigraph rewards train`, `transfer`).

A reward head is a small network that predicts a reward from sentence vectors; it is trained on the CPU.
`measure_transfer` measures how well reward heads predict rewards in domains that they were not trained on
(StateFactory, Table 1). `reward_tuning` tunes a language model instead.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from itertools import product
from random import Random
from statistics import fmean
from typing import Any, NamedTuple, cast

import numpy as np
import pandas as pd

from certigraph.adapters.benchmarks import load_benchmark
from certigraph.adapters.encoders import Encoder
from certigraph.adapters.rewards import (
    Head,
    Heads,
    HeadsMetadata,
    fold_of,
    prefix_features,
)
from certigraph.benchmarks.rewardprediction.benchmark import RewardPrediction, epic_distance
from certigraph.benchmarks.rewardprediction.dataset import RewardTrajectory, TrajectoryPair
from certigraph.state.endings import Fault, UnknownName
from certigraph.state.records import Record
from certigraph.state.rewards import RecordedStep
from certigraph.studies.reward_data import first_of_each_domain
from certigraph.studies.tables import print_frames

# Training data: prefixes of recorded trajectories, and ranked pairs of them.

MAX_PAIRS_PER_TASK = 70
"""Maximum number of ranked pairs of prefixes from one task. It gives 35,000 from 500 tasks, as in StateFactory,
appendix C.2.1."""


class PrefixSample(NamedTuple):
    """Training data of one task: all prefixes of its positive and then of its negative recorded trajectory."""

    task: str
    domain: str
    features: Any
    """Feature vectors of the prefixes, shape (prefixes, width), float16."""
    rewards: tuple[float, ...]
    """True reward of each prefix, after reward shaping."""


def unrewarded_steps(one: RewardTrajectory) -> list[RecordedStep]:
    """Return the steps of a recorded trajectory without the rewards, as predictors of rewards see them."""
    return [RecordedStep(action=row.action, observation=row.observation) for row in one.trajectory]


def create_samples(
    pairs: Sequence[TrajectoryPair], encoder: Encoder, progress: Callable[[str], None] = lambda line: None
) -> list[PrefixSample]:
    """Create the training data of all pairs. A hundred pairs are encoded at a time, which saves time."""
    created: list[PrefixSample] = []
    for start in range(0, len(pairs), 100):
        chunk = pairs[start : start + 100]
        encoder.encode([text for pair in chunk for text in _texts(pair)])
        for pair in chunk:
            features = [prefix_features(t.goal_description, unrewarded_steps(t), encoder) for t in pair.recordings]
            rewards = tuple(row.reward.shaped for one in pair.recordings for row in one.trajectory)
            created.append(PrefixSample(pair.id, pair.domain, np.concatenate(features).astype(np.float16), rewards))
        progress(f"{len(created)} of {len(pairs)} tasks encoded")
    return created


def ranked_pairs(one: PrefixSample, seed: int) -> list[tuple[int, int]]:
    """Draw at most MAX_PAIRS_PER_TASK random pairs of prefixes of a task that have different rewards.

    Returns:
        Pairs of indices of prefixes, the one with the higher reward first. Both may be from the same trajectory.
    """
    indices = range(len(one.rewards))
    orders = [(a, b) for a, b in product(indices, indices) if one.rewards[a] > one.rewards[b]]
    return Random(f"{seed}:{one.task}").sample(orders, min(MAX_PAIRS_PER_TASK, len(orders)))


def _texts(pair: TrajectoryPair) -> list[str]:
    rows = [row for one in pair.recordings for row in one.trajectory]
    return [pair.positive.goal_description, *(text for row in rows for text in (row.action, row.observation))]


# Training of reward heads on the CPU: pairwise ranking with reward centering (StateFactory, section 3.1.1; Eq. 13).

DEFAULT_FOLDS = 5
HIDDEN_UNITS = 64
TRAINING_STEPS = 300
"""Number of updates, whatever the number of pairs. It is about one epoch over the 35,000 pairs of StateFactory."""

BATCH_SIZE = 128
LEARNING_RATE, WEIGHT_DECAY, DROPOUT = 1e-3, 3e-2, 0.3
CENTERING_WEIGHT = 0.01
"""Weight of the squared sum of two scores in the loss. Ranking alone would not determine the offset of the scores."""


def train_heads(
    samples: Sequence[PrefixSample],
    encoder: str,
    *,
    folds: int = DEFAULT_FOLDS,
    seed: int = 0,
    progress: Callable[[str], None] = print,
) -> Heads:
    """Train one reward head per fold (cross-validation), each on the tasks of the other folds.

    With one fold, one head is trained on all tasks. `encoder` is the name of the sentence encoder of the features.

    Raises:
        Fault: ("data") there are too few tasks, or no two prefixes of a task have different rewards.
    """
    heads = []
    for fold in range(folds):
        training = [one for one in samples if folds == 1 or fold_of(one.task, folds) != fold]
        heads.append(train_head(training, seed))
        progress(f"head {fold + 1} of {folds}: {len(training)} tasks")
    domains = tuple(sorted({one.domain for one in samples}))
    card = HeadsMetadata(encoder=encoder, domains=domains, folds=folds, tasks=len(samples), seed=seed)
    return Heads(card, tuple(heads))


def train_head(samples: Sequence[PrefixSample], seed: int) -> Head:
    """Train a reward head to rank prefixes of the same task by their true rewards."""
    torch = import_module("torch")
    rows, better, worse = _stack_samples(samples, seed)
    mean, spread = rows.mean(axis=0, dtype=np.float32), rows.std(axis=0, dtype=np.float32) + 1e-4
    features = torch.from_numpy(((rows - mean) / spread).astype(np.float16))
    with torch.random.fork_rng(devices=[]), _single_thread():
        torch.manual_seed(seed)
        network = _train_network(features, torch.tensor(better), torch.tensor(worse))
    with torch.no_grad():
        scores = network.eval()(features.float())[:, 0]
    first, _, _, last = network
    hidden, bias, out = [one.detach().numpy().copy() for one in (first.weight.T, first.bias, last.weight[0])]
    scale = np.array([float(scores.mean() - last.bias[0].detach()), float(scores.std()) + 1e-6], dtype=np.float32)
    return Head(mean, spread, hidden, bias, out, scale)


def ranking_loss(better: Any, worse: Any) -> Any:
    """Compute the pairwise ranking loss with reward centering over a batch (StateFactory, Eq. 13).

    It is the mean of -log sigmoid(s+ - s-) + CENTERING_WEIGHT * (s+ + s-)^2, where s+ is the score of the better prefix
    and s- that of the worse one.
    """
    functional = import_module("torch.nn.functional")
    return (CENTERING_WEIGHT * (better + worse) ** 2 - functional.logsigmoid(better - worse)).mean()


@contextmanager
def _single_thread() -> Iterator[None]:
    """Let torch use one thread inside a block.

    Small batches gain nothing from more threads, and on a busy machine every update would wait for them.
    """
    torch = import_module("torch")
    previous = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(previous)


def _train_network(features: Any, better: Any, worse: Any) -> Any:
    torch = import_module("torch")
    nn = torch.nn
    network = nn.Sequential(
        nn.Linear(features.shape[1], HIDDEN_UNITS), nn.ReLU(), nn.Dropout(DROPOUT), nn.Linear(HIDDEN_UNITS, 1)
    )

    def losses() -> Iterator[list[Any]]:
        for _ in range(TRAINING_STEPS):
            batch = torch.randint(len(better), (BATCH_SIZE,))
            scores = network(features[torch.cat([better[batch], worse[batch]])].float())[:, 0]
            yield [ranking_loss(*scores.split(BATCH_SIZE))]

    minimise(losses(), network.parameters(), TRAINING_STEPS, lr=LEARNING_RATE, weight_decay=WEIGHT_DECAY)
    return network


def minimise(losses: Iterable[Iterable[Any]], parameters: Iterable[Any], updates: int, **settings: float) -> None:
    """Minimise losses with AdamW and a cosine schedule, one update after each.

    The loss of an update is the sum of its parts. A part is computed when its turn comes, so that the memory holds what
    one part needs.
    """
    torch = import_module("torch")
    optimiser = torch.optim.AdamW(parameters, **settings)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, updates)
    for parts in losses:
        optimiser.zero_grad()
        for part in parts:
            part.backward()
        optimiser.step()
        schedule.step()


def _stack_samples(samples: Sequence[PrefixSample], seed: int) -> tuple[Any, list[int], list[int]]:
    """Stack the features of the prefixes of all tasks, and draw ranked pairs of prefixes.

    Returns:
        The features, and the indices of the better and of the worse prefix of each pair.
    """
    starts, orders = [0], []
    for one in samples:
        orders += [(starts[-1] + a, starts[-1] + b) for a, b in ranked_pairs(one, seed)]
        starts.append(starts[-1] + len(one.rewards))
    if len(samples) < 2 or not orders:
        problem = f"{len(samples)} tasks with {len(orders)} pairs of steps with different rewards are not enough"
        fix = "give more tasks, with negative trajectories too, or fewer folds: --folds 2"
        raise Fault("data", f"{problem} for a reward head: {fix}")
    stacked = np.concatenate([one.features for one in samples])
    return stacked, [a for a, _ in orders], [b for _, b in orders]


# Transfer of supervised rewards: EPIC distance by training domain and rated domain (StateFactory, Table 1).

ALL_DOMAINS = "all"


class TransferResult(Record):
    """How well reward heads transfer from one domain to another.

    A distance is the EPIC distance between predicted and true rewards, 0 to 1, over the steps of all tasks of a domain
    together, averaged over heads. No head rated a task that it was trained on.
    """

    domains: tuple[str, ...]
    trained: tuple[str, ...]
    """The training domains; if there are several, also `all` of them together."""
    distances: tuple[tuple[float, ...], ...]
    """Distances with a row for each of `trained` and a column for each of `domains`."""

    def overall(self, trained: str) -> float:
        """Return the mean distance over the rated domains of the heads trained on `trained`."""
        return fmean(self.distances[self.trained.index(trained)])


def measure_transfer(
    samples: Sequence[PrefixSample],
    encoder: str,
    *,
    folds: int = DEFAULT_FOLDS,
    seed: int = 0,
    progress: Callable[[str], None] = lambda line: None,
) -> TransferResult:
    """Train reward heads on each domain and on all domains together, and measure all of them on every domain.

    Raises:
        Fault: ("data") a domain has too few tasks for training.
    """
    domains = tuple(sorted({one.domain for one in samples}))
    trained = (*domains, ALL_DOMAINS) if len(domains) > 1 else domains
    rows = []
    for name in trained:
        progress(f"training on {name}")
        training = [one for one in samples if name in (ALL_DOMAINS, one.domain)]
        heads = train_heads(training, encoder, folds=folds, seed=seed, progress=lambda line: None)
        of_domains = ([one for one in samples if one.domain == rated] for rated in domains)
        rows.append(tuple(mean_epic_distance(rated, heads) for rated in of_domains))
    return TransferResult(domains=domains, trained=trained, distances=tuple(rows))


def mean_epic_distance(samples: Sequence[PrefixSample], heads: Heads) -> float:
    """Compute the mean over tasks of the EPIC distance between predicted and true rewards.

    The distance is pooled: it is computed over both recorded trajectories of a task together.
    """
    return fmean(
        epic_distance(list(map(float, heads.of(one.task).rewards(one.features.astype("float32")))), one.rewards)
        for one in samples
    )


# Input and output of the commands `certigraph rewards train`, `tune` and `transfer`.


def select_pairs(data: str | None, domains: Sequence[str], limit: int | None) -> list[TrajectoryPair]:
    """Load the pairs of trajectories of some domains (all if none is named), the first `limit` of each domain.

    Raises:
        UnknownName: there is no such domain.
    """
    pairs = list(cast(RewardPrediction, load_benchmark("rewardprediction", data)).pairs.values())
    known = sorted({pair.domain for pair in pairs})
    if unknown := [domain for domain in domains if domain not in known]:
        raise UnknownName(f"no domain {unknown[0]!r}; there are {', '.join(known)}")
    chosen = (pair for domain in domains or known for pair in pairs if pair.domain == domain)
    return first_of_each_domain(chosen, limit)


def print_transfer(done: TransferResult) -> None:
    """Print the EPIC distances with a row per training domain, a column per rated domain, and the mean over columns."""
    table = pd.DataFrame(done.distances, columns=list(done.domains))
    table.insert(0, "trained on", done.trained)
    table["overall"] = [done.overall(name) for name in done.trained]
    print_frames({"mean EPIC distance, pooled per task": table})

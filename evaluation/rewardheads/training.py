"""Training reward heads: pairwise ranking with reward centering (StateFactory, section 3.1.1; Eq. 13), on the CPU."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from typing import Any

from certigraph.adapters.reward_heads import Card, Head, Heads, fold_of
from certigraph.evaluation.rewardheads.samples import Sample, ranked
from certigraph.state.endings import Fault

FOLDS = 5
HIDDEN = 64
STEPS = 300
"""Updates, however many pairs there are: a few passes over the paper's number, many over few."""

BATCH = 128
RATE, DECAY, DROPOUT = 1e-3, 3e-2, 0.3
CENTERING = 0.01
"""Weight of the squared sum of two scores: without it, ranking leaves the scores' offset free."""

FEWEST = 2
"""Tasks that a head is trained on."""


def train_heads(
    samples: Sequence[Sample], encoder: str, *, folds: int = FOLDS, seed: int = 0, told: Callable[[str], None] = print
) -> Heads:
    """One head a fold, each trained on the tasks of the other folds; with one fold a head that saw all.

    Raises:
        Fault: ("data") too few tasks, or none with two steps of different worth.
    """
    heads = []
    for fold in range(folds):
        seen = [one for one in samples if folds == 1 or fold_of(one.task, folds) != fold]
        heads.append(train_head(seen, seed))
        told(f"head {fold + 1} of {folds}: {len(seen)} tasks")
    domains = tuple(sorted({one.domain for one in samples}))
    card = Card(encoder=encoder, domains=domains, folds=folds, tasks=len(samples), seed=seed)
    return Heads(card, tuple(heads))


def train_head(samples: Sequence[Sample], seed: int) -> Head:
    """A head that ranks prefixes of the same task."""
    numpy, torch = import_module("numpy"), import_module("torch")
    rows, better, worse = _stacked(samples, seed)
    mean, spread = rows.mean(axis=0, dtype=numpy.float32), rows.std(axis=0, dtype=numpy.float32) + 1e-4
    features = torch.from_numpy(((rows - mean) / spread).astype(numpy.float16))
    with torch.random.fork_rng(devices=[]), _one_thread():
        torch.manual_seed(seed)
        network = _fitted(features, torch.tensor(better), torch.tensor(worse))
    with torch.no_grad():
        scores = network.eval()(features.float())[:, 0]
    first, _, _, last = network
    hidden, bias, out = [one.detach().numpy().copy() for one in (first.weight.T, first.bias, last.weight[0])]
    scale = numpy.array([float(scores.mean() - last.bias[0].detach()), float(scores.std()) + 1e-6], dtype=numpy.float32)
    return Head(mean, spread, hidden, bias, out, scale)


def ranking_loss(better: Any, worse: Any) -> Any:
    """-log sigmoid(s+ - s-), and CENTERING times (s+ + s-)^2, over a batch of pairs of scores."""
    functional = import_module("torch.nn.functional")
    return (CENTERING * (better + worse) ** 2 - functional.logsigmoid(better - worse)).mean()


@contextmanager
def _one_thread() -> Iterator[None]:
    """Batches this small gain nothing by threads, and on a busy machine every update waits for them."""
    torch = import_module("torch")
    usual = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(usual)


def _fitted(features: Any, better: Any, worse: Any) -> Any:
    torch = import_module("torch")
    nn = torch.nn
    network = nn.Sequential(nn.Linear(features.shape[1], HIDDEN), nn.ReLU(), nn.Dropout(DROPOUT), nn.Linear(HIDDEN, 1))
    optimiser = torch.optim.AdamW(network.parameters(), lr=RATE, weight_decay=DECAY)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, STEPS)
    for _ in range(STEPS):
        batch = torch.randint(len(better), (BATCH,))
        scores = network(features[torch.cat([better[batch], worse[batch]])].float())[:, 0]
        optimiser.zero_grad()
        ranking_loss(*scores.split(BATCH)).backward()
        optimiser.step()
        schedule.step()
    return network


def _stacked(samples: Sequence[Sample], seed: int) -> tuple[Any, list[int], list[int]]:
    """The prefixes of all tasks, and the places of those that win and of those that lose to them."""
    starts, orders = [0], []
    for one in samples:
        orders += [(starts[-1] + a, starts[-1] + b) for a, b in ranked(one, seed)]
        starts.append(starts[-1] + len(one.rewards))
    if len(samples) < FEWEST or not orders:
        told = f"{len(samples)} tasks with {len(orders)} pairs of steps of different worth train no reward head"
        raise Fault("data", f"{told}: give more tasks, with negative trajectories too, or fewer folds: --folds 2")
    stacked = import_module("numpy").concatenate([one.features for one in samples])
    return stacked, [a for a, _ in orders], [b for _, b in orders]

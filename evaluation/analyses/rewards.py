"""Measurement of predicted rewards on RewardPrediction's pairs (`certigraph rewards measure`).

Contents: the predictors, their ratings of pairs (resumable, in several processes), their speed, the statistics, and the
triplet accuracy of sentence encoders.
"""

import hashlib
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import lru_cache
from importlib.util import find_spec
from multiprocessing import get_context
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import numpy as np

from certigraph.adapters import rewards as routing_code
from certigraph.adapters.benchmarks import load_benchmark
from certigraph.adapters.matching import Encoder, needed_encoder
from certigraph.adapters.protocols import Context
from certigraph.adapters.rewardprediction.benchmark import FIGURES, figures
from certigraph.adapters.rewardprediction.dataset import Pair, Recording
from certigraph.adapters.rewards import FACTORS, needed_factors
from certigraph.evaluation.analyses.reward_data import append, in_processes, read_lines
from certigraph.evaluation.comparison import Method, methods_from
from certigraph.evaluation.statistics import RESAMPLES, SEED, mean_of
from certigraph.evaluation.statistics import interval as paired_interval
from certigraph.runtime.registry import REWARDS, AnyGraph, swaps_of
from certigraph.state import rewards as factored_code
from certigraph.state.records import Fault, Record, Stopped, Task, UnknownName
from certigraph.state.rewards import FactoredState

# The predictors: graphs that predict rewards, with swapped operators.

USUAL = (
    "statefactory",
    "object=statefactory:route=route:granularity=object",
    "textual=statefactory:route=route:granularity=textual",
    "raw=statefactory:route=route:granularity=raw",
    "offline=statefactory:interpret=offline_goal",
    "monotonic",
    "constant=monotonic:rate=constant",
)
"""Default predictors: StateFactory with all granularities, StateFactory with goals known beforehand, two baselines."""


def predictors(specs: Sequence[str], encoders: Sequence[str] = ()) -> tuple[Method, ...]:
    """Parse the predictors of a command line; the others are compared with the first one.

    Args:
        specs: `GRAPH`, `GRAPH:SLOT=OPERATOR` with more swaps joined by `+`, or either as `NAME=...`.
        encoders: sentence encoders; each adds a StateFactory that compares texts with it.

    Raises:
        UnknownName: a graph, slot or operator is unknown, a graph predicts no rewards, or a name is used twice.
    """
    encoding = [f"{name}=statefactory:route=route:encoder={name}" for name in encoders]
    methods = [_predictor(spec) for spec in (*(specs or USUAL), *encoding)]
    names = [method.name for method in methods]
    if duplicates := sorted({name for name in names if names.count(name) > 1}):
        raise UnknownName(f"two predictors are called {duplicates[0]}; write NAME=GRAPH:SLOT=OPERATOR")
    return tuple(methods)


def granularity_of(method: Method) -> str | None:
    """Return the granularity of a StateFactory without other changes; None for other predictors."""
    swaps = swaps_of(method.graph, method.operators)
    if method.graph != "statefactory" or swaps.keys() - {"route"}:
        return None
    args = swaps["route"].args if swaps else {}
    return str(args.get("granularity", "attribute")) if not args.keys() - {"granularity"} else None


def knows_the_goal(method: Method) -> bool:
    """Return whether a method is StateFactory with `interpret=offline_goal` as its only swap."""
    swaps = swaps_of(method.graph, method.operators)
    return (
        method.graph == "statefactory" and swaps.keys() == {"interpret"} and swaps["interpret"].name == "offline_goal"
    )


def encoder_of(method: Method) -> str | None:
    """Return the sentence encoder that a StateFactory's routing names; None where it names none."""
    swaps = swaps_of(method.graph, method.operators) if method.graph == "statefactory" else {}
    return str(swaps["route"].args["encoder"]) if "route" in swaps and "encoder" in swaps["route"].args else None


def _predictor(spec: str) -> Method:
    head, _, swaps = spec.partition(":")
    name, _, graph = head.partition("=")
    if (graph or name) not in REWARDS:
        raise UnknownName(f"{graph or name} predicts no rewards; {', '.join(REWARDS)} do")
    methods = methods_from([f"v={graph or name}"], [f"v:{swap}" for swap in swaps.split("+") if swap])
    return methods[0].model_copy(update={"name": name if graph else spec})


# Digests that identify a rating: of the predictor, the models, the pair, and the code of the rules.

DIGITS = 16
"""Number of hex digits of a digest."""


def digest_of(method: Method, context: Context, domain: str, what: str) -> str:
    """Compute the digest of everything that determines the rewards of a pair.

    Args:
        method: the predictor.
        context: its models, by role.
        domain: the domain whose rules may read the pair.
        what: text that identifies the pair.
    """
    models = (context.model, *(f"{role}={name}" for role, name in sorted((context.roles or {}).items())))
    code = code_of(domain) if method.graph == "statefactory" else ""
    return short(method.model_dump_json(), *models, what, code)


@lru_cache(maxsize=16)
def code_of(domain: str) -> str:
    """Compute the digest of the code by which StateFactory reads and compares a domain's texts."""
    files = [Path(str(module.__file__)) for module in (routing_code, factored_code)]
    if domain in FACTORS:
        module_spec = find_spec(FACTORS[domain].partition(":")[0])
        files += sorted(Path(module_spec.origin).parent.glob("*.py")) if module_spec and module_spec.origin else []
    return short(*(file.read_text(encoding="utf-8") for file in files))


def short(*parts: str) -> str:
    """Compute a digest of texts."""
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:DIGITS]


# Prediction of the rewards of pairs, in several processes; a later call resumes.

BENCHMARK = "rewardprediction"

MOST_FAULTS = 3
"""Number of consecutive pairs without a usable answer of the model that stops the measurement; small models fail at
some pairs."""


class Rated(Record):
    """Rewards and figures of one pair by one predictor."""

    predictor: str
    pair: str
    domain: str
    rewards: tuple[tuple[float, ...], ...]
    """Reward of each step, the positive recording first."""
    figures: dict[str, float]
    """Figures of `certigraph.adapters.rewardprediction.benchmark.figures`."""
    seconds: float
    digest: str
    """Digest of pair, predictor, models and code; a row with another digest is not reused."""


class Failed(Record):
    """A pair that a predictor could not rate; a resumed measurement tries it again."""

    predictor: str
    pair: str
    reason: str
    of_model: bool = False
    """Whether the model failed, which may then fail for every other pair too."""


class Piece(NamedTuple):
    """One item of work: a predictor and a pair."""

    method: Method
    pair: str
    context: Context


def rate(piece: Piece) -> Rated | Failed:
    """Predict a pair's rewards, or return the reason why they cannot be predicted."""
    benchmark: Any = load_benchmark(BENCHMARK, piece.context.data)
    pair, task = benchmark.pairs[piece.pair], benchmark.task(piece.pair)
    start = time.perf_counter()
    try:
        state = _graph(piece.method.model_dump_json()).invoke({"task": task}, context=piece.context)
    except Stopped as stopped:
        of_model = isinstance(stopped, Fault) and stopped.boundary == "model"
        return Failed(predictor=piece.method.name, pair=piece.pair, reason=str(stopped), of_model=of_model)
    except Exception as error:  # noqa: BLE001 - an operator may be third-party code: its failure costs one pair
        return Failed(predictor=piece.method.name, pair=piece.pair, reason=f"{type(error).__name__}: {error}")
    seconds, rewards = time.perf_counter() - start, state["action"].args["rewards"]
    return Rated(
        predictor=piece.method.name,
        pair=pair.id,
        domain=pair.domain,
        rewards=tuple(tuple(round(float(one), 6) for one in trajectory) for trajectory in rewards),
        figures=figures(pair.recordings, rewards),
        seconds=round(seconds, 6),
        digest=digest(piece),
    )


def digest(piece: Piece) -> str:
    """Compute the digest of a predictor's rating of a pair."""
    benchmark: Any = load_benchmark(BENCHMARK, piece.context.data)
    pair = benchmark.pairs[piece.pair]
    return digest_of(piece.method, piece.context, pair.domain, pair.model_dump_json())


def rate_all(
    methods: Sequence[Method],
    pairs: Sequence[str],
    context: Context,
    rows: Path,
    *,
    at_once: int = 1,
    progress: Callable[[int, int], None] = lambda done, failed: None,
) -> list[Failed]:
    """Rate every pair with every predictor, except those in the file of rows, and append the new rows.

    Returns:
        The pairs that could not be rated.

    Raises:
        Fault: ("model") the model gave no usable answer for MAX_CONSECUTIVE_FAULTS consecutive pairs; the ratings so
            far are saved.
    """
    known = {row.digest for row in read_rated(rows)}
    wanted = [Piece(method, pair, context) for method in methods for pair in pairs]
    left = [piece for piece in wanted if digest(piece) not in known]
    failed: list[Failed] = []
    faults = 0
    for done, row in enumerate(_outcomes(left, at_once), len(wanted) - len(left) + 1):
        if isinstance(row, Rated):
            append(rows, row)
        else:
            failed.append(row)
        progress(done, len(failed))
        faults = faults + 1 if isinstance(row, Failed) and row.of_model else 0
        if faults == MOST_FAULTS:
            raise Fault("model", f"stopped after {faults} pairs in a row: {failed[-1].reason}")
    return failed


def _outcomes(pieces: Sequence[Piece], at_once: int) -> Iterable[Rated | Failed]:
    if at_once == 1:
        yield from map(rate, pieces)
        return
    for piece, row in in_processes(rate, pieces, at_once):
        yield row or Failed(predictor=piece.method.name, pair=piece.pair, reason="its process died")


def read_rated(path: Path) -> list[Rated]:
    """Read the rows of a measurement."""
    return read_lines(path, Rated)


@lru_cache(maxsize=64)
def _graph(method: str) -> AnyGraph:
    return Method.model_validate_json(method).build()


# Speed of predictors: trajectories per second, in a new process, and again with warm caches.

PAIRS = 40
"""Maximum number of timed pairs, spread over all."""


class Speed(Record):
    """Trajectories per second of one process; `cold` includes loading the encoder and encoding every text."""

    predictor: str
    trajectories: int
    cold: float
    warm: float
    digest: str = ""
    """Digest of predictor, models and pairs; a stored line with another digest is not reused."""


def speed(method: Method, pairs: Sequence[str], context: Context) -> Speed | None:
    """Time a predictor in a process of its own; None where it cannot rate the pairs."""
    selection = list(pairs)[:: max(1, len(pairs) // PAIRS)][:PAIRS]
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as executor:
        return executor.submit(timed, method, selection, context).result()


def timed(method: Method, pairs: Sequence[str], context: Context) -> Speed | None:
    """Time two consecutive passes of a predictor in this process, after the pairs are read."""
    load_benchmark(BENCHMARK, context.data).tasks()
    passes = []
    for _ in range(2):
        start = time.perf_counter()
        rows = [rate(Piece(method, pair, context)) for pair in pairs]
        passes.append(time.perf_counter() - start)
    rated = sum(len(row.rewards) for row in rows if isinstance(row, Rated))
    if not rated:
        return None
    cold, warm = (round(rated / seconds, 1) for seconds in passes)
    return Speed(predictor=method.name, trajectories=rated, cold=cold, warm=warm)


# Statistics of predictors: means by domain and over domains, with 95 % intervals over tasks.

OVERALL = "overall"
"""Name of the mean of the domains' means, in which all domains have the same weight."""

EPIC = FIGURES[0]
"""The main figure: the EPIC distance pooled over a task's recordings."""


class Mean(NamedTuple):
    """A mean and the bounds of its 95 % interval; None where there is no interval."""

    mean: float
    low: float | None = None
    high: float | None = None


class Line(NamedTuple):
    """Figures of a predictor in a domain, or over all domains."""

    predictor: str
    domain: str
    n: int
    figures: Mapping[str, Mean]
    difference: Mean | None = None
    """Its pooled EPIC distance minus the first predictor's on the same tasks; a negative value is better."""


Values = Mapping[str, Sequence[float]]
"""Values of a figure by domain, one per task."""


def lines_of(rows: Sequence[Rated], names: Sequence[str]) -> list[Line]:
    """Compute the figures of each predictor in each domain, and `overall` where there are several domains."""
    by_predictor = {name: [row for row in rows if row.predictor == name] for name in names}
    return [line for name in names for line in _lines(name, by_predictor[name], by_predictor[names[0]])]


def difference(rows: Sequence[Rated], others: Sequence[Rated]) -> dict[str, list[float]]:
    """Compute the pooled EPIC distances of rows minus those of others on the same pairs, by domain."""
    before = {row.pair: row.figures[EPIC] for row in others}
    both = [row for row in rows if row.pair in before]
    return _by_domain(both, [row.figures[EPIC] - before[row.pair] for row in both])


def stratified(values: Values) -> Mean:
    """Compute the mean of the domains' means, with a seeded bootstrap interval that resamples tasks within each domain.

    A domain with one task adds nothing to the width; where all domains have one task, there is no interval.
    """
    means = {domain: float(np.mean(domain_values)) for domain, domain_values in values.items()}
    mean = float(np.mean(list(means.values())))
    if all(len(domain_values) < 2 for domain_values in values.values()):
        return Mean(mean)
    random = np.random.default_rng(SEED)
    draws = np.mean([_resampled(domain_values, random) for domain_values in values.values()], axis=0)
    low, high = np.percentile(draws, (2.5, 97.5))
    return Mean(mean, float(low), float(high))


def _lines(name: str, rows: Sequence[Rated], first: Sequence[Rated]) -> list[Line]:
    figures = {figure: _by_domain(rows, [row.figures[figure] for row in rows]) for figure in FIGURES}
    differences = difference(rows, first) if rows and rows[0].predictor != first[0].predictor else {}
    lines = [
        Line(
            name,
            domain,
            len(domain_values),
            {f: _mean(by[domain]) for f, by in figures.items()},
            _paired(differences.get(domain)),
        )
        for domain, domain_values in figures[EPIC].items()
    ]
    if len(lines) > 1:
        over = {figure: stratified(by) for figure, by in figures.items()}
        lines.append(Line(name, OVERALL, len(rows), over, stratified(differences) if differences else None))
    return lines


def _mean(values: Sequence[float]) -> Mean:
    estimate = mean_of(values, top=1.0)
    return Mean(estimate.mean, estimate.low, estimate.high)


def _paired(differences: Sequence[float] | None) -> Mean | None:
    if not differences:
        return None
    low, high = paired_interval(differences) or (None, None)
    return Mean(float(np.mean(differences)), low, high)


def _by_domain(rows: Sequence[Rated], values: Sequence[float]) -> dict[str, list[float]]:
    by_domain: dict[str, list[float]] = {domain: [] for domain in sorted({row.domain for row in rows})}
    for row, value in zip(rows, values, strict=True):
        by_domain[row.domain].append(value)
    return by_domain


def _resampled(values: Sequence[float], random: np.random.Generator) -> np.ndarray:
    """Means of bootstrap resamples."""
    n = len(values)
    counts = random.multinomial(n, np.full(n, 1 / n), RESAMPLES)
    return np.asarray(counts @ np.asarray(values) / n)


# Triplet accuracy: how well an encoder distinguishes a paraphrase from a contradiction (StateFactory, appendix C.5.3,
# Eq. 14).
#
# Triplets are built from the states that StateFactory's symbolic extractors read along an episode. The paraphrases are
# written by rules, in the paper by a language model: the figures cannot be compared with published ones.

PARAPHRASES = (
    "{value} is what the {name} of the {identity} is",
    "as to its {name}, the {identity} has {value}",
    "one finds {value} when checking the {name} of the {identity}",
)


class Told(NamedTuple):
    """One fact of a state."""

    identity: str
    name: str
    value: str

    @property
    def text(self) -> str:
        """The fact in the notation of states."""
        return f"{self.identity}: {self.name} {self.value}"


class Triplet(NamedTuple):
    """Three texts: a fact, its paraphrase, and a contradicting or other fact."""

    anchor: str
    paraphrase: str
    contradiction: str


def triplets(pairs: Sequence[Pair], seed: int = 0) -> list[Triplet]:
    """Create the triplets of the pairs' recordings, one for every fact of an episode, without duplicate anchors.

    The contradiction is the same attribute with another value of the episode, where there is one, else a fact about
    another object.

    Raises:
        Fault: ("data") there are no rules that read a domain's text.
    """
    by_anchor: dict[str, Triplet] = {}
    for pair in pairs:
        for recording in pair.recordings:
            random = Random(f"{seed}:{pair.id}")
            by_anchor |= {triplet.anchor: triplet for triplet in _of_episode(_facts(pair.domain, recording), random)}
    return list(by_anchor.values())


def triplet_accuracy(encoder: Encoder, triplets: Sequence[Triplet]) -> float:
    """Compute the share of triplets whose anchor is more similar to the paraphrase; 0 without triplets."""
    if not triplets:
        return 0.0
    anchors, same, other = (encoder.encode_once(list(texts)) for texts in zip(*triplets, strict=True))
    right = (anchors * same).sum(axis=1) > (anchors * other).sum(axis=1)
    return float(right.mean())


def _of_episode(facts: Sequence[Told], random: Random) -> Iterator[Triplet]:
    for fact in facts:
        contradicting = [f for f in facts if f[:2] == fact[:2] and f.value != fact.value]
        others = contradicting or [f for f in facts if f.identity != fact.identity]
        if others:
            paraphrase = random.choice(PARAPHRASES).format(**fact._asdict())
            yield Triplet(fact.text, paraphrase, random.choice(others).text)


def _facts(domain: str, recording: Recording) -> list[Told]:
    """Every fact of an episode, in the order of its first occurrence."""
    goal, state = recording.goal_description, FactoredState()
    factors = needed_factors(Task(benchmark=domain, id="triplets", goal=goal))
    facts: dict[Told, None] = {}
    for row in recording.trajectory:
        state = factors.extract(state, goal, row.action, row.observation)
        facts |= {Told(e.identity, name, value): None for e in state.entities for name, value in e.attributes.items()}
    return list(facts)


# The triplet accuracy of a measurement's sentence encoders, which is printed with their EPIC distance.

PROBED_PAIRS = 10
"""Maximum number of pairs of each domain whose facts are used."""


class Probed(Record):
    """Triplet accuracy of an encoder."""

    encoder: str
    triplets: int
    accuracy: float
    digest: str
    """Digest of the triplets; a stored line with another digest is not reused."""


def probed(methods: Sequence[Method], pairs: Sequence[Pair], path: Path) -> list[Probed]:
    """Measure the encoders that predictors name; each is measured once while the triplets stay the same."""
    names = dict.fromkeys(filter(None, map(encoder_of, methods)))
    if not names:
        return []
    all_triplets = triplets(_some(pairs))
    digest = short(*(text for triplet in all_triplets for text in triplet))
    known = {one.encoder: one for one in read_lines(path, Probed) if one.digest == digest}
    for name in names:
        if name not in known:
            accuracy = triplet_accuracy(needed_encoder(name), all_triplets)
            known[name] = Probed(encoder=name, triplets=len(all_triplets), accuracy=accuracy, digest=digest)
            append(path, known[name])
    return [known[name] for name in names]


def told(methods: Sequence[Method], lines: Sequence[Line], probes: Sequence[Probed]) -> list[str]:
    """Format a sentence for each predictor that names an encoder: EPIC distance and triplet accuracy."""
    epic = {line.predictor: line.figures[EPIC].mean for line in lines}  # the last line of each: `overall`, if any
    accuracy = {one.encoder: one for one in probes}
    return [
        f"{method.name}: EPIC {epic[method.name]:.3f}, triplet accuracy {one.accuracy:.3f} of {one.triplets}, whose "
        "paraphrases are made by rules."
        for method in methods
        if method.name in epic and (one := accuracy.get(encoder_of(method) or "")) and one.triplets
    ]


def _some(pairs: Sequence[Pair]) -> list[Pair]:
    """The first pairs of each domain that has rules."""
    domains = sorted({pair.domain for pair in pairs} & FACTORS.keys())
    return [pair for domain in domains for pair in [one for one in pairs if one.domain == domain][:PROBED_PAIRS]]

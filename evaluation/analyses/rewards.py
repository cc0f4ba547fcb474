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
from certigraph.adapters.matching import Encoder, load_encoder
from certigraph.adapters.protocols import Context
from certigraph.adapters.rewardprediction.benchmark import FIGURE_NAMES, reward_figures
from certigraph.adapters.rewardprediction.dataset import RewardTrajectory, TrajectoryPair
from certigraph.adapters.rewards import FACTORS, require_factors
from certigraph.evaluation.analyses.reward_data import append_line, map_in_processes, read_lines
from certigraph.evaluation.comparison import ComparedMethod, parse_methods
from certigraph.evaluation.statistics import bootstrap_interval as paired_interval
from certigraph.evaluation.statistics import mean_of, stratified_mean
from certigraph.runtime.graph_sources import AnyGraph
from certigraph.runtime.registry import REWARD_GRAPHS, swaps_of
from certigraph.state import rewards as factored_code
from certigraph.state.records import Fault, Record, Stopped, Task, UnknownName
from certigraph.state.rewards import FactoredState

# The predictors: graphs that predict rewards, with swapped operators.

DEFAULT_PREDICTORS = (
    "statefactory",
    "object=statefactory:route=route:granularity=object",
    "textual=statefactory:route=route:granularity=textual",
    "raw=statefactory:route=route:granularity=raw",
    "offline=statefactory:interpret=offline_goal",
    "monotonic",
    "constant=monotonic:rate=constant",
)
"""Default predictors: StateFactory with all granularities, StateFactory with goals known beforehand, two baselines."""


def parse_predictors(specs: Sequence[str], encoders: Sequence[str] = ()) -> tuple[ComparedMethod, ...]:
    """Parse the predictors of a command line; the others are compared with the first one.

    Args:
        specs: `GRAPH`, `GRAPH:SLOT=OPERATOR` with more swaps joined by `+`, or either as `NAME=...`.
        encoders: sentence encoders; each adds a StateFactory that compares texts with it.

    Raises:
        UnknownName: a graph, slot or operator is unknown, a graph predicts no rewards, or a name is used twice.
    """
    encoding = [f"{name}=statefactory:route=route:encoder={name}" for name in encoders]
    methods = [_parse_predictor(spec) for spec in (*(specs or DEFAULT_PREDICTORS), *encoding)]
    names = [method.name for method in methods]
    if duplicates := sorted({name for name in names if names.count(name) > 1}):
        raise UnknownName(f"two predictors are called {duplicates[0]}; write NAME=GRAPH:SLOT=OPERATOR")
    return tuple(methods)


def granularity_of(method: ComparedMethod) -> str | None:
    """Return the granularity of a StateFactory without other changes; None for other predictors."""
    swaps = swaps_of(method.graph, method.operators)
    if method.graph != "statefactory" or swaps.keys() - {"route"}:
        return None
    args = swaps["route"].args if swaps else {}
    return str(args.get("granularity", "attribute")) if not args.keys() - {"granularity"} else None


def has_known_goal(method: ComparedMethod) -> bool:
    """Return whether a method is StateFactory with `interpret=offline_goal` as its only swap."""
    swaps = swaps_of(method.graph, method.operators)
    return (
        method.graph == "statefactory" and swaps.keys() == {"interpret"} and swaps["interpret"].name == "offline_goal"
    )


def encoder_of(method: ComparedMethod) -> str | None:
    """Return the sentence encoder that a StateFactory's routing names; None where it names none."""
    swaps = swaps_of(method.graph, method.operators) if method.graph == "statefactory" else {}
    return str(swaps["route"].args["encoder"]) if "route" in swaps and "encoder" in swaps["route"].args else None


def _parse_predictor(spec: str) -> ComparedMethod:
    head, _, swaps = spec.partition(":")
    name, _, graph = head.partition("=")
    if (graph or name) not in REWARD_GRAPHS:
        raise UnknownName(f"{graph or name} predicts no rewards; {', '.join(REWARD_GRAPHS)} do")
    methods = parse_methods([f"v={graph or name}"], [f"v:{swap}" for swap in swaps.split("+") if swap])
    return methods[0].model_copy(update={"name": name if graph else spec})


# Digests that identify a rating: of the predictor, the models, the pair, and the code of the rules.

DIGEST_DIGITS = 16
"""Number of hex digits of a digest."""


def rating_digest(method: ComparedMethod, context: Context, domain: str, what: str) -> str:
    """Compute the digest of everything that determines the rewards of a pair.

    Args:
        method: the predictor.
        context: its models, by role.
        domain: the domain whose rules may read the pair.
        what: text that identifies the pair.
    """
    models = (context.model, *(f"{role}={name}" for role, name in sorted((context.roles or {}).items())))
    code = code_digest(domain) if method.graph == "statefactory" else ""
    return text_digest(method.model_dump_json(), *models, what, code)


@lru_cache(maxsize=16)
def code_digest(domain: str) -> str:
    """Compute the digest of the code by which StateFactory reads and compares a domain's texts."""
    files = [Path(str(module.__file__)) for module in (routing_code, factored_code)]
    if domain in FACTORS:
        module_spec = find_spec(FACTORS[domain].partition(":")[0])
        files += sorted(Path(module_spec.origin).parent.glob("*.py")) if module_spec and module_spec.origin else []
    return text_digest(*(file.read_text(encoding="utf-8") for file in files))


def text_digest(*parts: str) -> str:
    """Compute a digest of texts."""
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:DIGEST_DIGITS]


# Prediction of the rewards of pairs, in several processes; a later call resumes.

REWARD_BENCHMARK = "rewardprediction"

MAX_CONSECUTIVE_FAULTS = 3
"""Number of consecutive pairs without a usable answer of the model that stops the measurement; small models fail at
some pairs."""


class RatedPair(Record):
    """Rewards and figures of one pair by one predictor."""

    predictor: str
    pair: str
    domain: str
    rewards: tuple[tuple[float, ...], ...]
    """Reward of each step, the positive recording first."""
    figures: dict[str, float]
    """Figures of `certigraph.adapters.rewardprediction.benchmark.reward_figures`."""
    seconds: float
    digest: str
    """Digest of pair, predictor, models and code; a row with another digest is not reused."""


class FailedPair(Record):
    """A pair that a predictor could not rate; a resumed measurement tries it again."""

    predictor: str
    pair: str
    reason: str
    of_model: bool = False
    """Whether the model failed, which may then fail for every other pair too."""


class RatingJob(NamedTuple):
    """One item of work: a predictor and a pair."""

    method: ComparedMethod
    pair: str
    context: Context


def rate_pair(piece: RatingJob) -> RatedPair | FailedPair:
    """Predict a pair's rewards, or return the reason why they cannot be predicted."""
    benchmark: Any = load_benchmark(REWARD_BENCHMARK, piece.context.data)
    pair, task = benchmark.pairs[piece.pair], benchmark.task(piece.pair)
    start = time.perf_counter()
    try:
        state = _build_predictor(piece.method.model_dump_json()).invoke({"task": task}, context=piece.context)
    except Stopped as stopped:
        of_model = isinstance(stopped, Fault) and stopped.boundary == "model"
        return FailedPair(predictor=piece.method.name, pair=piece.pair, reason=str(stopped), of_model=of_model)
    except Exception as error:  # noqa: BLE001 - an operator may be third-party code: its failure costs one pair
        return FailedPair(predictor=piece.method.name, pair=piece.pair, reason=f"{type(error).__name__}: {error}")
    seconds, rewards = time.perf_counter() - start, state["action"].args["rewards"]
    return RatedPair(
        predictor=piece.method.name,
        pair=pair.id,
        domain=pair.domain,
        rewards=tuple(tuple(round(float(one), 6) for one in trajectory) for trajectory in rewards),
        figures=reward_figures(pair.recordings, rewards),
        seconds=round(seconds, 6),
        digest=job_digest(piece),
    )


def job_digest(piece: RatingJob) -> str:
    """Compute the digest of a predictor's rating of a pair."""
    benchmark: Any = load_benchmark(REWARD_BENCHMARK, piece.context.data)
    pair = benchmark.pairs[piece.pair]
    return rating_digest(piece.method, piece.context, pair.domain, pair.model_dump_json())


def rate_pairs(
    methods: Sequence[ComparedMethod],
    pairs: Sequence[str],
    context: Context,
    rows: Path,
    *,
    at_once: int = 1,
    progress: Callable[[int, int], None] = lambda done, failed: None,
) -> list[FailedPair]:
    """Rate every pair with every predictor, except those in the file of rows, and append the new rows.

    Returns:
        The pairs that could not be rated.

    Raises:
        Fault: ("model") the model gave no usable answer for MAX_CONSECUTIVE_FAULTS consecutive pairs; the ratings so
            far are saved.
    """
    known = {row.digest for row in read_rated_pairs(rows)}
    wanted = [RatingJob(method, pair, context) for method in methods for pair in pairs]
    left = [piece for piece in wanted if job_digest(piece) not in known]
    failed: list[FailedPair] = []
    faults = 0
    for done, row in enumerate(_rate_jobs(left, at_once), len(wanted) - len(left) + 1):
        if isinstance(row, RatedPair):
            append_line(rows, row)
        else:
            failed.append(row)
        progress(done, len(failed))
        faults = faults + 1 if isinstance(row, FailedPair) and row.of_model else 0
        if faults == MAX_CONSECUTIVE_FAULTS:
            raise Fault("model", f"stopped after {faults} pairs in a row: {failed[-1].reason}")
    return failed


def _rate_jobs(pieces: Sequence[RatingJob], at_once: int) -> Iterable[RatedPair | FailedPair]:
    if at_once == 1:
        yield from map(rate_pair, pieces)
        return
    for piece, row in map_in_processes(rate_pair, pieces, at_once):
        yield row or FailedPair(predictor=piece.method.name, pair=piece.pair, reason="its process died")


def read_rated_pairs(path: Path) -> list[RatedPair]:
    """Read the rows of a measurement."""
    return read_lines(path, RatedPair)


@lru_cache(maxsize=64)
def _build_predictor(method: str) -> AnyGraph:
    return ComparedMethod.model_validate_json(method).build()


# Speed of predictors: trajectories per second, in a new process, and again with warm caches.

MAX_TIMED_PAIRS = 40
"""Maximum number of timed pairs, spread over all."""


class PredictorSpeed(Record):
    """Trajectories per second of one process; `cold` includes loading the encoder and encoding every text."""

    predictor: str
    trajectories: int
    cold: float
    warm: float
    digest: str = ""
    """Digest of predictor, models and pairs; a stored line with another digest is not reused."""


def measure_speed(method: ComparedMethod, pairs: Sequence[str], context: Context) -> PredictorSpeed | None:
    """Time a predictor in a process of its own; None where it cannot rate the pairs."""
    selection = list(pairs)[:: max(1, len(pairs) // MAX_TIMED_PAIRS)][:MAX_TIMED_PAIRS]
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as executor:
        return executor.submit(time_predictor, method, selection, context).result()


def time_predictor(method: ComparedMethod, pairs: Sequence[str], context: Context) -> PredictorSpeed | None:
    """Time two consecutive passes of a predictor in this process, after the pairs are read."""
    load_benchmark(REWARD_BENCHMARK, context.data).tasks()
    passes = []
    for _ in range(2):
        start = time.perf_counter()
        rows = [rate_pair(RatingJob(method, pair, context)) for pair in pairs]
        passes.append(time.perf_counter() - start)
    rated = sum(len(row.rewards) for row in rows if isinstance(row, RatedPair))
    if not rated:
        return None
    cold, warm = (round(rated / seconds, 1) for seconds in passes)
    return PredictorSpeed(predictor=method.name, trajectories=rated, cold=cold, warm=warm)


# Statistics of predictors: means by domain and over domains, with 95 % intervals over tasks.

OVERALL = "overall"
"""Name of the mean of the domains' means, in which all domains have the same weight."""

EPIC_FIGURE = FIGURE_NAMES[0]
"""The main figure: the EPIC distance pooled over a task's recordings."""


class MeanInterval(NamedTuple):
    """A mean and the bounds of its 95 % interval; None where there is no interval."""

    mean: float
    low: float | None = None
    high: float | None = None


class PredictorLine(NamedTuple):
    """Figures of a predictor in a domain, or over all domains."""

    predictor: str
    domain: str
    n: int
    figures: Mapping[str, MeanInterval]
    difference: MeanInterval | None = None
    """Its pooled EPIC distance minus the first predictor's on the same tasks; a negative value is better."""


DomainValues = Mapping[str, Sequence[float]]
"""Values of a figure by domain, one per task."""


def predictor_lines(rows: Sequence[RatedPair], names: Sequence[str]) -> list[PredictorLine]:
    """Compute the figures of each predictor in each domain, and `overall` where there are several domains."""
    by_predictor = {name: [row for row in rows if row.predictor == name] for name in names}
    return [line for name in names for line in _lines_of_predictor(name, by_predictor[name], by_predictor[names[0]])]


def distance_differences(rows: Sequence[RatedPair], others: Sequence[RatedPair]) -> dict[str, list[float]]:
    """Compute the pooled EPIC distances of rows minus those of others on the same pairs, by domain."""
    before = {row.pair: row.figures[EPIC_FIGURE] for row in others}
    both = [row for row in rows if row.pair in before]
    return _values_by_domain(both, [row.figures[EPIC_FIGURE] - before[row.pair] for row in both])


def mean_over_domains(values: DomainValues) -> MeanInterval:
    """Compute the mean of the domains' means, with an interval that resamples tasks within each domain."""
    mean, bounds = stratified_mean(values)
    return MeanInterval(mean, *(bounds or ()))


def _lines_of_predictor(name: str, rows: Sequence[RatedPair], first: Sequence[RatedPair]) -> list[PredictorLine]:
    figures = {figure: _values_by_domain(rows, [row.figures[figure] for row in rows]) for figure in FIGURE_NAMES}
    differences = distance_differences(rows, first) if rows and rows[0].predictor != first[0].predictor else {}
    lines = [
        PredictorLine(
            name,
            domain,
            len(domain_values),
            {f: _mean_of_values(by[domain]) for f, by in figures.items()},
            _mean_difference(differences.get(domain)),
        )
        for domain, domain_values in figures[EPIC_FIGURE].items()
    ]
    if len(lines) > 1:
        over = {figure: mean_over_domains(by) for figure, by in figures.items()}
        lines.append(
            PredictorLine(name, OVERALL, len(rows), over, mean_over_domains(differences) if differences else None)
        )
    return lines


def _mean_of_values(values: Sequence[float]) -> MeanInterval:
    estimate = mean_of(values, top=1.0)
    return MeanInterval(estimate.mean, estimate.low, estimate.high)


def _mean_difference(differences: Sequence[float] | None) -> MeanInterval | None:
    if not differences:
        return None
    low, high = paired_interval(differences) or (None, None)
    return MeanInterval(float(np.mean(differences)), low, high)


def _values_by_domain(rows: Sequence[RatedPair], values: Sequence[float]) -> dict[str, list[float]]:
    by_domain: dict[str, list[float]] = {domain: [] for domain in sorted({row.domain for row in rows})}
    for row, value in zip(rows, values, strict=True):
        by_domain[row.domain].append(value)
    return by_domain


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


class StateFact(NamedTuple):
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


def create_triplets(pairs: Sequence[TrajectoryPair], seed: int = 0) -> list[Triplet]:
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
            by_anchor |= {
                triplet.anchor: triplet
                for triplet in _triplets_of_episode(_facts_of_episode(pair.domain, recording), random)
            }
    return list(by_anchor.values())


def triplet_accuracy(encoder: Encoder, triplets: Sequence[Triplet]) -> float:
    """Compute the share of triplets whose anchor is more similar to the paraphrase; 0 without triplets."""
    if not triplets:
        return 0.0
    anchors, same, other = (encoder.encode_once(list(texts)) for texts in zip(*triplets, strict=True))
    right = (anchors * same).sum(axis=1) > (anchors * other).sum(axis=1)
    return float(right.mean())


def _triplets_of_episode(facts: Sequence[StateFact], random: Random) -> Iterator[Triplet]:
    for fact in facts:
        contradicting = [f for f in facts if f[:2] == fact[:2] and f.value != fact.value]
        others = contradicting or [f for f in facts if f.identity != fact.identity]
        if others:
            paraphrase = random.choice(PARAPHRASES).format(**fact._asdict())
            yield Triplet(fact.text, paraphrase, random.choice(others).text)


def _facts_of_episode(domain: str, recording: RewardTrajectory) -> list[StateFact]:
    """Every fact of an episode, in the order of its first occurrence."""
    goal, state = recording.goal_description, FactoredState()
    factors = require_factors(Task(benchmark=domain, id="triplets", goal=goal))
    facts: dict[StateFact, None] = {}
    for row in recording.trajectory:
        state = factors.extract(state, goal, row.action, row.observation)
        facts |= {
            StateFact(e.identity, name, value): None for e in state.entities for name, value in e.attributes.items()
        }
    return list(facts)


# The triplet accuracy of a measurement's sentence encoders, which is printed with their EPIC distance.

MAX_PROBED_PAIRS = 10
"""Maximum number of pairs of each domain whose facts are used."""


class ProbedEncoder(Record):
    """Triplet accuracy of an encoder."""

    encoder: str
    triplets: int
    accuracy: float
    digest: str
    """Digest of the triplets; a stored line with another digest is not reused."""


def probe_encoders(
    methods: Sequence[ComparedMethod], pairs: Sequence[TrajectoryPair], path: Path
) -> list[ProbedEncoder]:
    """Measure the encoders that predictors name; each is measured once while the triplets stay the same."""
    names = dict.fromkeys(filter(None, map(encoder_of, methods)))
    if not names:
        return []
    all_triplets = create_triplets(_first_pairs(pairs))
    digest = text_digest(*(text for triplet in all_triplets for text in triplet))
    known = {one.encoder: one for one in read_lines(path, ProbedEncoder) if one.digest == digest}
    for name in names:
        if name not in known:
            accuracy = triplet_accuracy(load_encoder(name), all_triplets)
            known[name] = ProbedEncoder(encoder=name, triplets=len(all_triplets), accuracy=accuracy, digest=digest)
            append_line(path, known[name])
    return [known[name] for name in names]


def format_probes(
    methods: Sequence[ComparedMethod], lines: Sequence[PredictorLine], probes: Sequence[ProbedEncoder]
) -> list[str]:
    """Format a sentence for each predictor that names an encoder: EPIC distance and triplet accuracy."""
    epic = {
        line.predictor: line.figures[EPIC_FIGURE].mean for line in lines
    }  # the last line of each: `overall`, if any
    accuracy = {one.encoder: one for one in probes}
    return [
        f"{method.name}: EPIC {epic[method.name]:.3f}, triplet accuracy {one.accuracy:.3f} of {one.triplets}, whose "
        "paraphrases are made by rules."
        for method in methods
        if method.name in epic and (one := accuracy.get(encoder_of(method) or "")) and one.triplets
    ]


def _first_pairs(pairs: Sequence[TrajectoryPair]) -> list[TrajectoryPair]:
    """The first pairs of each domain that has rules."""
    domains = sorted({pair.domain for pair in pairs} & FACTORS.keys())
    return [pair for domain in domains for pair in [one for one in pairs if one.domain == domain][:MAX_PROBED_PAIRS]]

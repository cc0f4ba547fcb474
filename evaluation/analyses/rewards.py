"""Measurement of predicted rewards."""

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

# The predictors of a measurement: graphs that predict rewards, with operators exchanged.

USUAL = (
    "statefactory",
    "object=statefactory:route=route:granularity=object",
    "textual=statefactory:route=route:granularity=textual",
    "raw=statefactory:route=route:granularity=raw",
    "offline=statefactory:interpret=offline_goal",
    "monotonic",
    "constant=monotonic:rate=constant",
)
"""What is measured where no predictor is named: StateFactory, its other granularities, its goals known beforehand, and
two baselines."""


def predictors(specs: Sequence[str], encoders: Sequence[str] = ()) -> tuple[Method, ...]:
    """Predictors as a command line names them, the first one being what others are compared with.

    Args:
        specs: `GRAPH`, `GRAPH:SLOT=OPERATOR` with more swaps joined by `+`, or either as `NAME=...`.
        encoders: sentence encoders, each a StateFactory that compares by it.

    Raises:
        UnknownName: a graph, slot or operator is unknown, a graph predicts no rewards, or a name is used twice.
    """
    encoding = [f"{name}=statefactory:route=route:encoder={name}" for name in encoders]
    made = [_predictor(spec) for spec in (*(specs or USUAL), *encoding)]
    names = [method.name for method in made]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise UnknownName(f"two predictors are called {twice[0]}; write NAME=GRAPH:SLOT=OPERATOR")
    return tuple(made)


def granularity_of(method: Method) -> str | None:
    """The granularity of a StateFactory that is otherwise as it comes."""
    swaps = swaps_of(method.graph, method.operators)
    if method.graph != "statefactory" or swaps.keys() - {"route"}:
        return None
    args = swaps["route"].args if swaps else {}
    return str(args.get("granularity", "attribute")) if not args.keys() - {"granularity"} else None


def knows_the_goal(method: Method) -> bool:
    """Whether it is StateFactory with nothing exchanged but the interpretation of goals, by that with hindsight."""
    swaps = swaps_of(method.graph, method.operators)
    return (
        method.graph == "statefactory" and swaps.keys() == {"interpret"} and swaps["interpret"].name == "offline_goal"
    )


def encoder_of(method: Method) -> str | None:
    """The sentence encoder that a StateFactory's routing names; None where it names none."""
    swaps = swaps_of(method.graph, method.operators) if method.graph == "statefactory" else {}
    return str(swaps["route"].args["encoder"]) if "route" in swaps and "encoder" in swaps["route"].args else None


def _predictor(spec: str) -> Method:
    head, _, swaps = spec.partition(":")
    name, _, graph = head.partition("=")
    if (graph or name) not in REWARDS:
        raise UnknownName(f"{graph or name} predicts no rewards; {', '.join(REWARDS)} do")
    made = methods_from([f"v={graph or name}"], [f"v:{swap}" for swap in swaps.split("+") if swap])
    return made[0].model_copy(update={"name": name if graph else spec})


# What tells a rated pair from one that was rated otherwise: the predictor, the models, the pair, the rules' code.

DIGITS = 16
"""Hex digits of a digest."""


def digest_of(method: Method, context: Context, domain: str, what: str) -> str:
    """A digest of everything that decides the rewards of a pair.

    Args:
        method: the predictor.
        context: its models, by role.
        domain: whose rules may read the pair.
        what: the pair itself, in words of any kind.
    """
    models = (context.model, *(f"{role}={name}" for role, name in sorted((context.roles or {}).items())))
    code = code_of(domain) if method.graph == "statefactory" else ""
    return short(method.model_dump_json(), *models, what, code)


@lru_cache(maxsize=16)
def code_of(domain: str) -> str:
    """A digest of the code by which StateFactory reads and compares a domain's texts, as the process found it."""
    files = [Path(str(module.__file__)) for module in (routing_code, factored_code)]
    if domain in FACTORS:
        found = find_spec(FACTORS[domain].partition(":")[0])
        files += sorted(Path(found.origin).parent.glob("*.py")) if found and found.origin else []
    return short(*(file.read_text(encoding="utf-8") for file in files))


def short(*parts: str) -> str:
    """A digest of texts."""
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:DIGITS]


# Predicting the rewards of pairs, in several processes, in a folder that can be gone on with.

BENCHMARK = "rewardprediction"

MOST_FAULTS = 3
"""Pairs in a row for which the model has no usable answer before the measurement stops; a small one fails at some."""


class Rated(Record):
    """One pair as one predictor rates it."""

    predictor: str
    pair: str
    domain: str
    rewards: tuple[tuple[float, ...], ...]
    """Of each step, the positive recording first."""
    figures: dict[str, float]
    """See `certigraph.adapters.rewardprediction.benchmark.figures`."""
    seconds: float
    digest: str
    """See `certigraph.evaluation.analyses.rewards`: a row of another pair, predictor or code is not taken for this."""


class Failed(Record):
    """A pair that a predictor could not rate; it is tried again when the measurement goes on."""

    predictor: str
    pair: str
    reason: str
    of_model: bool = False
    """Whether it is the model's fault, which may be so for every other pair too."""


class Piece(NamedTuple):
    """What one process does at a time."""

    method: Method
    pair: str
    context: Context


def rate(piece: Piece) -> Rated | Failed:
    """Predict a pair's rewards, or say why they cannot be predicted."""
    benchmark: Any = load_benchmark(BENCHMARK, piece.context.data)
    pair, task = benchmark.pairs[piece.pair], benchmark.task(piece.pair)
    began = time.perf_counter()
    try:
        state = _graph(piece.method.model_dump_json()).invoke({"task": task}, context=piece.context)
    except Stopped as stopped:
        of_model = isinstance(stopped, Fault) and stopped.boundary == "model"
        return Failed(predictor=piece.method.name, pair=piece.pair, reason=str(stopped), of_model=of_model)
    except Exception as error:  # noqa: BLE001 - an operator is anybody's code: its failure costs one pair
        return Failed(predictor=piece.method.name, pair=piece.pair, reason=f"{type(error).__name__}: {error}")
    seconds, rewards = time.perf_counter() - began, state["action"].args["rewards"]
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
    """Hex digits that tell what is rated, by what."""
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
    told: Callable[[int, int], None] = lambda done, failed: None,
) -> list[Failed]:
    """Rate every pair by every predictor, but for what the file of rows has, and add to it; what could not be rated.

    Raises:
        Fault: ("model") the model answered nothing usable for MOST_FAULTS pairs in a row; what was rated is kept.
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
        told(done, len(failed))
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
    """The rows of a measurement."""
    return read_lines(path, Rated)


@lru_cache(maxsize=64)
def _graph(method: str) -> AnyGraph:
    return Method.model_validate_json(method).build()


# How fast predictors are: trajectories a second, in a process that has seen nothing, and again once it has.

PAIRS = 40
"""Pairs that are timed, spread over all."""


class Speed(Record):
    """Trajectories a second of one process; `cold` has loading the encoder and every text's first vector in it."""

    predictor: str
    trajectories: int
    cold: float
    warm: float
    digest: str = ""
    """Of the predictor, its models and the pairs: a file's line of other ones is not taken for these."""


def speed(method: Method, pairs: Sequence[str], context: Context) -> Speed | None:
    """Time a predictor in a process of its own; None where it cannot rate them."""
    some = list(pairs)[:: max(1, len(pairs) // PAIRS)][:PAIRS]
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as executor:
        return executor.submit(timed, method, some, context).result()


def timed(method: Method, pairs: Sequence[str], context: Context) -> Speed | None:
    """Time a predictor here, the pairs read beforehand: twice, one pass after the other."""
    load_benchmark(BENCHMARK, context.data).tasks()
    passes = []
    for _ in range(2):
        began = time.perf_counter()
        rows = [rate(Piece(method, pair, context)) for pair in pairs]
        passes.append(time.perf_counter() - began)
    rated = sum(len(row.rewards) for row in rows if isinstance(row, Rated))
    if not rated:
        return None
    cold, warm = (round(rated / seconds, 1) for seconds in passes)
    return Speed(predictor=method.name, trajectories=rated, cold=cold, warm=warm)


# What rated pairs say of predictors: means by domain and over domains, with 95 % intervals; tasks are the units.

OVERALL = "overall"
"""The mean of the domains' means, each counting as much as any other."""

EPIC = FIGURES[0]
"""The headline: pooled over a task's recordings."""


class Mean(NamedTuple):
    """A mean with the bounds of its 95 % interval, where there is one."""

    mean: float
    low: float | None = None
    high: float | None = None


class Line(NamedTuple):
    """A predictor in a domain, or over all."""

    predictor: str
    domain: str
    n: int
    figures: Mapping[str, Mean]
    difference: Mean | None = None
    """Its pooled EPIC distance minus the first predictor's on the same tasks; below 0 it predicts better."""


Values = Mapping[str, Sequence[float]]
"""By domain, a figure of each task."""


def lines_of(rows: Sequence[Rated], names: Sequence[str]) -> list[Line]:
    """A line for each predictor and domain, `overall` last where there are several domains."""
    found = {name: [row for row in rows if row.predictor == name] for name in names}
    return [line for name in names for line in _lines(name, found[name], found[names[0]])]


def difference(rows: Sequence[Rated], others: Sequence[Rated]) -> dict[str, list[float]]:
    """By domain, the pooled EPIC distances of rows minus those of others on the same pairs."""
    before = {row.pair: row.figures[EPIC] for row in others}
    both = [row for row in rows if row.pair in before]
    return _by_domain(both, [row.figures[EPIC] - before[row.pair] for row in both])


def stratified(values: Values) -> Mean:
    """The mean of the domains' means. The interval resamples tasks within each domain, by a seeded bootstrap.

    A domain of one task adds nothing to the width; with no domain that has more there is no interval.
    """
    means = {domain: float(np.mean(found)) for domain, found in values.items()}
    middle = float(np.mean(list(means.values())))
    if all(len(found) < 2 for found in values.values()):
        return Mean(middle)
    random = np.random.default_rng(SEED)
    draws = np.mean([_resampled(found, random) for found in values.values()], axis=0)
    low, high = np.percentile(draws, (2.5, 97.5))
    return Mean(middle, float(low), float(high))


def _lines(name: str, rows: Sequence[Rated], first: Sequence[Rated]) -> list[Line]:
    figures = {figure: _by_domain(rows, [row.figures[figure] for row in rows]) for figure in FIGURES}
    apart = difference(rows, first) if rows and rows[0].predictor != first[0].predictor else {}
    lines = [
        Line(name, domain, len(found), {f: _mean(by[domain]) for f, by in figures.items()}, _paired(apart.get(domain)))
        for domain, found in figures[EPIC].items()
    ]
    if len(lines) > 1:
        over = {figure: stratified(by) for figure, by in figures.items()}
        lines.append(Line(name, OVERALL, len(rows), over, stratified(apart) if apart else None))
    return lines


def _mean(values: Sequence[float]) -> Mean:
    found = mean_of(values, top=1.0)
    return Mean(found.mean, found.low, found.high)


def _paired(apart: Sequence[float] | None) -> Mean | None:
    if not apart:
        return None
    low, high = paired_interval(apart) or (None, None)
    return Mean(float(np.mean(apart)), low, high)


def _by_domain(rows: Sequence[Rated], values: Sequence[float]) -> dict[str, list[float]]:
    found: dict[str, list[float]] = {domain: [] for domain in sorted({row.domain for row in rows})}
    for row, value in zip(rows, values, strict=True):
        found[row.domain].append(value)
    return found


def _resampled(values: Sequence[float], random: np.random.Generator) -> np.ndarray:
    """Means of resamples."""
    n = len(values)
    counts = random.multinomial(n, np.full(n, 1 / n), RESAMPLES)
    return np.asarray(counts @ np.asarray(values) / n)


# Triplet accuracy: how well an encoder tells a paraphrase from a contradiction (StateFactory, appendix C.5.3, Eq.
# 14).
#
# Triplets are made of the states that StateFactory's symbolic extractors read along an episode. The paraphrases are
# rewritten by rules, where the paper has a language model write them: figures do not compare with published ones.

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
        """The fact as states tell it."""
        return f"{self.identity}: {self.name} {self.value}"


class Triplet(NamedTuple):
    """Texts of which the first two say the same."""

    anchor: str
    paraphrase: str
    contradiction: str


def triplets(pairs: Sequence[Pair], seed: int = 0) -> list[Triplet]:
    """The triplets of the pairs' recordings, one for every fact of an episode, each anchor once.

    The negative is the same attribute with another value that it had in the episode, where it had one, else a fact
    about another object.

    Raises:
        Fault: ("data") no rules read a domain's text.
    """
    made: dict[str, Triplet] = {}
    for pair in pairs:
        for one in pair.recordings:
            random = Random(f"{seed}:{pair.id}")
            made |= {triplet.anchor: triplet for triplet in _of_episode(_facts(pair.domain, one), random)}
    return list(made.values())


def triplet_accuracy(encoder: Encoder, triplets: Sequence[Triplet]) -> float:
    """The share of triplets whose anchor is more similar to the paraphrase than to the contradiction; 0 of none."""
    if not triplets:
        return 0.0
    anchors, same, other = (encoder.encode_once(list(texts)) for texts in zip(*triplets, strict=True))
    right = (anchors * same).sum(axis=1) > (anchors * other).sum(axis=1)
    return float(right.mean())


def _of_episode(facts: Sequence[Told], random: Random) -> Iterator[Triplet]:
    for fact in facts:
        contrary = [f for f in facts if f[:2] == fact[:2] and f.value != fact.value]
        others = contrary or [f for f in facts if f.identity != fact.identity]
        if others:
            paraphrase = random.choice(PARAPHRASES).format(**fact._asdict())
            yield Triplet(fact.text, paraphrase, random.choice(others).text)


def _facts(domain: str, recording: Recording) -> list[Told]:
    """Every fact that was ever so in an episode, in order, once."""
    goal, state = recording.goal_description, FactoredState()
    reading = needed_factors(Task(benchmark=domain, id="triplets", goal=goal))
    found: dict[Told, None] = {}
    for row in recording.trajectory:
        state = reading.extract(state, goal, row.action, row.observation)
        found |= {Told(e.identity, name, value): None for e in state.entities for name, value in e.attributes.items()}
    return list(found)


# The triplet accuracy of a measurement's sentence encoders, which is told beside their EPIC distance.

PROBED_PAIRS = 10
"""Pairs of each domain whose facts are asked about."""


class Probed(Record):
    """How well an encoder tells paraphrases from contradictions."""

    encoder: str
    triplets: int
    accuracy: float
    digest: str
    """Of the triplets: a file's line of other ones is not taken for these."""


def probed(methods: Sequence[Method], pairs: Sequence[Pair], path: Path) -> list[Probed]:
    """The encoders that predictors name, each probed once for as long as the triplets stay the same."""
    names = dict.fromkeys(filter(None, map(encoder_of, methods)))
    if not names:
        return []
    asked = triplets(_some(pairs))
    digest = short(*(text for triplet in asked for text in triplet))
    known = {one.encoder: one for one in read_lines(path, Probed) if one.digest == digest}
    for name in names:
        if name not in known:
            accuracy = triplet_accuracy(needed_encoder(name), asked)
            known[name] = Probed(encoder=name, triplets=len(asked), accuracy=accuracy, digest=digest)
            append(path, known[name])
    return [known[name] for name in names]


def told(methods: Sequence[Method], lines: Sequence[Line], found: Sequence[Probed]) -> list[str]:
    """A sentence for each predictor that names an encoder: its EPIC distance, and the encoder's accuracy."""
    epic = {line.predictor: line.figures[EPIC].mean for line in lines}  # the last line of each: `overall`, if any
    accuracy = {one.encoder: one for one in found}
    return [
        f"{method.name}: EPIC {epic[method.name]:.3f}, triplet accuracy {one.accuracy:.3f} of {one.triplets}, whose "
        "paraphrases are made by rules."
        for method in methods
        if method.name in epic and (one := accuracy.get(encoder_of(method) or "")) and one.triplets
    ]


def _some(pairs: Sequence[Pair]) -> list[Pair]:
    """The first pairs of each domain that rules read."""
    domains = sorted({pair.domain for pair in pairs} & FACTORS.keys())
    return [pair for domain in domains for pair in [one for one in pairs if one.domain == domain][:PROBED_PAIRS]]

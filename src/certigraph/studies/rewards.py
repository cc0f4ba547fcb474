"""Measurement of predicted rewards on the benchmark RewardPrediction (`certigraph rewards measure`).

A predictor is a graph that predicts the rewards of a pair of recorded trajectories (one positive, one negative). The
main measure is the EPIC distance between predicted and true rewards. Contents: the predictors, their predictions, their
speed, the statistics, and the triplet accuracy of sentence encoders.
"""

import hashlib
import inspect
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache, partial
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from certigraph.adapters import rewards as routing_code
from certigraph.adapters.benchmarks import load_benchmark
from certigraph.adapters.encoders import Encoder, load_encoder
from certigraph.adapters.models.chat_models import describe_models
from certigraph.adapters.own_modules import SpawnedProcesses
from certigraph.adapters.protocols import Context
from certigraph.adapters.rewards import declared_factors, require_factors
from certigraph.benchmarks.rewardprediction.benchmark import FIGURE_NAMES, reward_figures
from certigraph.benchmarks.rewardprediction.dataset import RewardTrajectory, TrajectoryPair
from certigraph.evaluation.comparison import ComparedMethod, parse_methods
from certigraph.evaluation.statistics import bootstrap_interval as paired_interval
from certigraph.evaluation.statistics import mean_of, stratified_mean
from certigraph.nodes.specs import Spec, split_swaps
from certigraph.runtime.graph_sources import AnyGraph
from certigraph.runtime.registry import REWARD_GRAPHS, model_name, swaps_of
from certigraph.state import rewards as factored_code
from certigraph.state.endings import Fault, Stopped, UnknownName
from certigraph.state.records import Record, Spent, Task
from certigraph.state.rewards import FactoredState
from certigraph.studies.reward_data import append_line, first_of_each_domain, map_in_processes, read_lines

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
"""Default predictors: StateFactory with each granularity of states, StateFactory with goals known beforehand, and two
baselines."""


def parse_predictors(specs: Sequence[str], encoders: Sequence[str] = ()) -> tuple[ComparedMethod, ...]:
    """Parse the predictors that a command line names; the first one is the reference for comparisons.

    Args:
        specs: `GRAPH`, `GRAPH:SLOT=OPERATOR` with more swaps joined by `+`, or either as `NAME=...`.
        encoders: names of sentence encoders; each adds a StateFactory that compares texts with this encoder.

    Raises:
        UnknownName: a graph, slot or operator is unknown, a graph predicts no rewards, or a name is used twice.
    """
    routes = {name: Spec(name="route", args={"encoder": name}) for name in encoders}
    encoding = [f"{name}=statefactory:route={route}" for name, route in routes.items()]
    methods = [_parse_predictor(spec) for spec in (*(specs or DEFAULT_PREDICTORS), *encoding)]
    names = [method.name for method in methods]
    if duplicates := sorted({name for name in names if names.count(name) > 1}):
        raise UnknownName(f"two predictors are called {duplicates[0]}; write NAME=GRAPH:SLOT=OPERATOR")
    return tuple(methods)


def factory_swaps(method: ComparedMethod) -> dict[str, Spec] | None:
    """Return the swapped operators of a StateFactory, by slot; None for other predictors."""
    return swaps_of(method.graph, method.operators) if method.graph == "statefactory" else None


def granularity_of(method: ComparedMethod) -> str | None:
    """Return the granularity of states of a StateFactory without other changes; None for other predictors."""
    swaps = factory_swaps(method)
    if swaps is None or swaps.keys() - {"route"}:
        return None
    args = swaps["route"].args if swaps else {}
    return None if args.keys() - {"granularity"} else str(args.get("granularity", "attribute"))


def has_known_goal(method: ComparedMethod) -> bool:
    """Return whether a method is StateFactory with `interpret=offline_goal` as its only swap."""
    return {slot: spec.name for slot, spec in (factory_swaps(method) or {}).items()} == {"interpret": "offline_goal"}


def encoder_of(method: ComparedMethod) -> str | None:
    """Return the sentence encoder that the operator `route` of a StateFactory predictor names; None: it names none."""
    route = (factory_swaps(method) or {}).get("route")
    named = route.args.get("encoder") if route else None
    return None if named is None else str(named)


def _parse_predictor(spec: str) -> ComparedMethod:
    head, _, swaps = spec.partition(":")
    name, _, graph = head.partition("=")
    if (graph or name) == "vlwm":
        reason = "the weights of its critic (a Llama-3.2-1B) cannot be installed; train a model of that kind"
        raise UnknownName(f"vlwm: {reason} on your pairs: certigraph rewards tune DATA --base MODEL")
    if (graph or name) not in REWARD_GRAPHS:
        raise UnknownName(f"{graph or name} predicts no rewards; {', '.join(REWARD_GRAPHS)} do")
    methods = parse_methods([f"v={graph or name}"], [f"v:{swap}" for swap in split_swaps(swaps) if swap])
    return methods[0].model_copy(update={"name": name if graph else spec})


# Digests that identify a rating: of the predictor, the models, the pair, and the code of the rules.


def rating_digest(method: ComparedMethod, context: Context, domain: str, what: str) -> str:
    """Compute the digest of everything that determines the predicted rewards of a pair.

    Args:
        method: the predictor.
        context: the models of the predictor, by role.
        domain: domain of the pair, whose rules StateFactory may use to read texts.
        what: text that identifies the pair.
    """
    models = (context.model, *(f"{role}={name}" for role, name in sorted((context.roles or {}).items())))
    code = code_digest(domain) if method.graph == "statefactory" else ""
    return text_digest(method.model_dump_json(), *models, what, code)


@lru_cache(maxsize=16)
def code_digest(domain: str) -> str:
    """Compute the digest of the source code with which StateFactory reads and compares the texts of a domain."""
    files = [Path(str(module.__file__)) for module in (routing_code, factored_code)]
    if factors := declared_factors(domain):
        files += sorted(Path(inspect.getfile(type(factors))).parent.glob("*.py"))
    return text_digest(*(file.read_text(encoding="utf-8") for file in files))


def text_digest(*parts: str) -> str:
    """Compute the SHA-256 digest of several texts, shortened to 16 digits."""
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16]


# Prediction of the rewards of pairs, in several processes; a later call resumes.

REWARD_BENCHMARK = "rewardprediction"

MAX_CONSECUTIVE_FAULTS = 3
"""Number of consecutive pairs without a usable answer of the model after which the measurement stops. One such pair is
not a reason, because small models fail at some pairs."""


class RatedPair(Record):
    """Rewards that a predictor predicts for one pair of trajectories, and the measures of their quality (`figures`)."""

    predictor: str
    pair: str
    domain: str
    rewards: tuple[tuple[float, ...], ...]
    """Predicted reward of each step, of the positive and then of the negative trajectory."""
    figures: dict[str, float]
    """Measures by name, as `certigraph.benchmarks.rewardprediction.benchmark.reward_figures` computes them."""
    seconds: float
    digest: str
    """Digest of pair, predictor, models and code. A saved row is reused only if the digest is still the same."""
    model: str = ""
    """Models of the predictor by role, described; a script is called one."""
    read_by: str = ""
    """What read the factored states: a `model`, or `rules`. Empty for predictors without factored states."""
    spent: Spent = Spent()
    """What the calls of models cost; `seconds` of it is 0, because the row has seconds of its own."""


class FailedPair(Record):
    """A pair whose rewards a predictor could not predict, with the reason. The next measurement tries it again."""

    predictor: str
    pair: str
    reason: str
    of_model: bool = False
    """Whether the language model failed, which may then fail for every other pair too."""


class RatingJob(NamedTuple):
    """One item of work: a predictor, and the id of the pair whose rewards it predicts."""

    method: ComparedMethod
    pair: str
    context: Context


def rate_pair(piece: RatingJob) -> RatedPair | FailedPair:
    """Predict the rewards of a pair and measure them; if that fails, return the pair with the reason."""
    benchmark: Any = load_benchmark(REWARD_BENCHMARK, piece.context.data)
    pair, task = benchmark.pairs[piece.pair], benchmark.task(piece.pair)
    start, failed = time.perf_counter(), partial(FailedPair, predictor=piece.method.name, pair=piece.pair)
    try:
        state = _build_predictor(piece.method.model_dump_json()).invoke({"task": task}, context=piece.context)
    except Stopped as stopped:
        return failed(reason=str(stopped), of_model=isinstance(stopped, Fault) and stopped.boundary == "model")
    except Exception as error:  # noqa: BLE001 - an operator may be third-party code: its failure costs one pair
        return failed(reason=f"{type(error).__name__}: {error}")
    seconds, rewards = time.perf_counter() - start, state["action"].args["rewards"]
    roles = {role: model_name(name) for role, name in piece.context.roles.items()}
    return RatedPair(
        predictor=piece.method.name,
        pair=pair.id,
        domain=pair.domain,
        rewards=tuple(tuple(round(float(one), 6) for one in trajectory) for trajectory in rewards),
        figures=reward_figures(pair.recordings, rewards),
        seconds=round(seconds, 6),
        digest=job_digest(piece),
        model=describe_models(model_name(piece.context.model), roles),
        read_by=state["factored"].read_by,
        spent=state["spent"].model_copy(update={"seconds": 0.0}),
    )


def job_digest(piece: RatingJob) -> str:
    """Compute the digest that identifies the prediction of a pair's rewards by a predictor."""
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
    """Predict the rewards of every pair with every predictor, and append the results to the file `rows`.

    Predictions that are in the file already are not repeated.

    Returns:
        The pairs whose rewards could not be predicted.

    Raises:
        Fault: ("model") the model gave no usable answer for MAX_CONSECUTIVE_FAULTS consecutive pairs; the predictions
            so far are saved.
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
    """Read the predictions that a measurement has saved; none if there is no file."""
    return read_lines(path, RatedPair)


@lru_cache(maxsize=64)
def _build_predictor(method: str) -> AnyGraph:
    return ComparedMethod.model_validate_json(method).build()


# Speed of predictors: trajectories per second, in a new process, and again with warm caches.


class PredictorSpeed(Record):
    """Speed of a predictor in one process, in trajectories per second.

    `cold` includes loading the encoder and encoding every text; `warm` is a second pass over the same pairs.
    """

    predictor: str
    trajectories: int
    cold: float
    warm: float
    digest: str = ""
    """Digest of predictor, models and pairs. A saved line is reused only if the digest is still the same."""


def measure_speed(method: ComparedMethod, pairs: Sequence[str], context: Context) -> PredictorSpeed | None:
    """Time a predictor on at most 40 pairs, in a new process; None if it can predict the rewards of no pair."""
    selection = list(pairs)[:: max(1, len(pairs) // 40)][:40]
    with SpawnedProcesses(1) as executor:
        return executor.submit(time_predictor, method, selection, context).result()


def time_predictor(method: ComparedMethod, pairs: Sequence[str], context: Context) -> PredictorSpeed | None:
    """Time two consecutive passes of a predictor over the pairs in this process; reading the pairs is not timed."""
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
"""Name of the main measure: the EPIC distance over both trajectories of a task together (pooled)."""

BOUNDS = ("", "_low", "_high")
"""Suffixes of the columns of a mean and of the bounds of its 95 % interval."""

Estimate = tuple[float, tuple[float | None, float | None] | None]
"""A mean and the bounds of its interval, if there is one."""

PREDICTOR_COLUMNS = [
    *("predictor", "domain", "n", "read_by", "calls", "tokens", "usd"),
    *(f"{name}{bound}" for name in (*FIGURE_NAMES, "difference") for bound in BOUNDS),
]


def predictor_table(rows: Sequence[RatedPair], names: Sequence[str]) -> pd.DataFrame:
    """Compute StateFactory's table of EPIC distances by domain, with all measures of `reward_figures`.

    Args:
        rows: the predictions.
        names: the predictors in order; the first one is the reference for differences.

    Returns:
        PREDICTOR_COLUMNS, with a row for each predictor and domain, and a row `overall` if a predictor has several
        domains. `n` counts pairs. Each measure has its mean and the bounds of its interval, empty if there is none.
        `difference` is the pooled EPIC distance minus that of the first predictor on the same tasks; negative is
        better. `read_by` is what read the factored states, and `calls`, `tokens` and `usd` are the cost of models.
    """
    lines: list[dict[str, object]] = []
    for name in names:
        part = [row for row in rows if row.predictor == name]
        by_domain = {domain: [row for row in part if row.domain == domain] for domain in _domains_of(part)}
        differences = distance_differences(rows, name, names[0]) if name != names[0] else {}
        values = {
            figure: {domain: [row.figures[figure] for row in chosen] for domain, chosen in by_domain.items()}
            for figure in FIGURE_NAMES
        }
        for domain, chosen in by_domain.items():
            means = {figure: mean_of(of_domain[domain], top=1.0) for figure, of_domain in values.items()}
            estimates: dict[str, Estimate] = {f: (mean.mean, (mean.low, mean.high)) for f, mean in means.items()}
            if found := differences.get(domain):
                estimates["difference"] = float(np.mean(found)), paired_interval(found)
            lines.append(_table_line(name, domain, chosen, estimates))
        if len(by_domain) > 1:
            overall = {**values, "difference": differences}
            estimates = {figure: stratified_mean(strata) for figure, strata in overall.items() if strata}
            lines.append(_table_line(name, OVERALL, part, estimates))
    return pd.DataFrame(lines, columns=PREDICTOR_COLUMNS)


def distance_differences(rows: Sequence[RatedPair], name: str, other: str) -> dict[str, list[float]]:
    """Compute, pair by pair, the pooled EPIC distance of the predictor `name` minus that of `other`, by domain."""
    before = {row.pair: row.figures[EPIC_FIGURE] for row in rows if row.predictor == other}
    both = [row for row in rows if row.predictor == name and row.pair in before]
    return {
        domain: [row.figures[EPIC_FIGURE] - before[row.pair] for row in both if row.domain == domain]
        for domain in _domains_of(both)
    }


def _domains_of(rows: Sequence[RatedPair]) -> list[str]:
    return sorted({row.domain for row in rows})


def _table_line(
    predictor: str, domain: str, rows: Sequence[RatedPair], estimates: Mapping[str, Estimate]
) -> dict[str, object]:
    spent, readers = sum((row.spent for row in rows), Spent()), sorted({row.read_by for row in rows} - {""})
    cost = {"calls": spent.calls, "tokens": spent.tokens, "usd": spent.usd}
    line = {"predictor": predictor, "domain": domain, "n": len(rows), "read_by": " and ".join(readers), **cost}
    for name, (mean, bounds) in estimates.items():
        low, high = bounds or (None, None)
        line |= {name: mean, f"{name}_low": low, f"{name}_high": high}
    return line


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
    """One fact of a factored state: the attribute `name` of the object `identity` has this value."""

    identity: str
    name: str
    value: str

    @property
    def text(self) -> str:
        """The fact as text, in the notation in which StateFactory encodes facts."""
        return f"{self.identity}: {self.name} {self.value}"


class Triplet(NamedTuple):
    """Three texts for testing a sentence encoder: a fact, its paraphrase, and a contradicting or unrelated fact."""

    anchor: str
    paraphrase: str
    contradiction: str


def create_triplets(pairs: Sequence[TrajectoryPair]) -> list[Triplet]:
    """Create triplets from the recorded trajectories of pairs: one for every fact of an episode, without duplicates.

    The contradiction is the same attribute with another value from the episode; if there is none, a fact about another
    object.

    Raises:
        Fault: ("data") a domain has no rules that read facts from its texts.
    """
    by_anchor: dict[str, Triplet] = {}
    for pair in pairs:
        for recording in pair.recordings:
            facts, random = _facts_of_episode(pair.domain, recording), Random(f"0:{pair.id}")
            by_anchor |= {triplet.anchor: triplet for triplet in _triplets_of_episode(facts, random)}
    return list(by_anchor.values())


def triplet_accuracy(encoder: Encoder, triplets: Sequence[Triplet]) -> float:
    """Compute the share of triplets in which the fact is more similar to its paraphrase than to the contradiction.

    The result is 0 if there are no triplets.
    """
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
    """Return the facts of all states of an episode, each once, in the order in which they first occur."""
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
"""Maximum number of pairs from which triplets are made, of each domain that has rules for reading facts."""


class ProbedEncoder(Record):
    """Triplet accuracy of a sentence encoder, and the number of triplets."""

    encoder: str
    triplets: int
    accuracy: float
    digest: str
    """Digest of the triplets. A saved line is reused only if the digest is still the same."""


def probe_encoders(
    methods: Sequence[ComparedMethod], pairs: Sequence[TrajectoryPair], path: Path
) -> list[ProbedEncoder]:
    """Measure the triplet accuracy of the sentence encoders that predictors name.

    Results are saved in the file `path`, and reused as long as the triplets are the same.
    """
    names = dict.fromkeys(filter(None, map(encoder_of, methods)))
    if not names:
        return []
    readable = [pair for pair in sorted(pairs, key=lambda pair: pair.domain) if declared_factors(pair.domain)]
    all_triplets = create_triplets(first_of_each_domain(readable, MAX_PROBED_PAIRS))
    digest = text_digest(*(text for triplet in all_triplets for text in triplet))
    known = {one.encoder: one for one in read_lines(path, ProbedEncoder) if one.digest == digest}
    for name in names:
        if name not in known:
            accuracy = triplet_accuracy(load_encoder(name), all_triplets)
            known[name] = ProbedEncoder(encoder=name, triplets=len(all_triplets), accuracy=accuracy, digest=digest)
            append_line(path, known[name])
    return [known[name] for name in names]


def format_probes(methods: Sequence[ComparedMethod], table: pd.DataFrame, probes: Sequence[ProbedEncoder]) -> list[str]:
    """Format a sentence for each predictor that names a sentence encoder, with EPIC distance and triplet accuracy."""
    epic = dict(zip(table["predictor"], table[EPIC_FIGURE], strict=True))  # the last line of each: `overall`, if any
    accuracy = {one.encoder: one for one in probes}
    return [
        f"{method.name}: EPIC {epic[method.name]:.3f}, triplet accuracy {one.accuracy:.3f} of {one.triplets}, whose "
        "paraphrases are made by rules."
        for method in methods
        if method.name in epic and (one := accuracy.get(encoder_of(method) or "")) and one.triplets
    ]

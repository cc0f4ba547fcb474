"""Reward models of StateFactory: symbolic extractors, hierarchical routing, reward heads and tuned language models."""

import zlib
from collections.abc import Callable, Sequence
from functools import lru_cache
from importlib import import_module
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path
from tokenize import TokenError
from typing import Any, NamedTuple
from zipfile import BadZipFile

from pydantic import Field

from certigraph.adapters.benchmarks import find_benchmark, shipped_benchmarks, split_name
from certigraph.adapters.encoders import Encoder, Vectors
from certigraph.adapters.files import replace_file
from certigraph.adapters.protocols import Factors
from certigraph.state.endings import Fault
from certigraph.state.records import Record, Task
from certigraph.state.rewards import DOMAIN, Entity, FactoredState, RecordedStep

# The symbolic extractor of a task's world.


def factors_of(task: Task) -> Factors | None:
    """Return the rules that read a task's world into factored states (symbolic extractor); None if there are none.

    The world is the one that `constants["domain"]` names, else the task's benchmark.
    """
    return declared_factors(_world_of(task))


def require_factors(task: Task) -> Factors:
    """Return the symbolic extractor of a task's world. Raises Fault("data") if there is none, with an alternative."""
    factors = factors_of(task)
    if factors is None:
        fix = f"use extract=prompted_state, or a world that has one: {', '.join(worlds_with_factors())}"
        raise Fault("data", f"no symbolic extractor reads {_world_of(task)}: {fix}")
    return factors


def declared_factors(benchmark: str) -> Factors | None:
    """Return the symbolic extractor that a benchmark declares; None without one, or if there is no such benchmark."""
    declared = find_benchmark(benchmark)
    return declared.factors() if declared else None


def worlds_with_factors() -> list[str]:
    """Return the names of the shipped benchmarks that have a symbolic extractor."""
    return [name for name in shipped_benchmarks() if declared_factors(name)]


def _world_of(task: Task) -> str:
    # all configurations of a benchmark have the same wording
    return split_name(str(task.constants.get(DOMAIN, task.benchmark)))[0]


# Hierarchical routing: how much of a goal state is fulfilled (StateFactory, section 3.2.3 and appendix B).

EncodeFunction = Callable[[Sequence[str]], Vectors]
"""Function from texts to vectors of length one, shape (len(texts), width)."""


class ObjectMatch(NamedTuple):
    """A goal object, the object of the world that fits it best, and the score of the pair."""

    wanted: str
    found: str
    fulfilled: float
    """Identity similarity times mean attribute similarity, in [0, 1]."""


class RoutingResult(NamedTuple):
    """The reward, in [0, 1], and the matches whose mean it is."""

    reward: float
    matches: tuple[ObjectMatch, ...]


def route_reward(goal: FactoredState, state: FactoredState, encode: EncodeFunction) -> RoutingResult:
    """Compute which share of the goal state the world's state fulfils (StateFactory, section 3.2.3).

    Each goal object is compared with every object of the world: the score is the similarity of their identities times
    the mean similarity of the goal object's attributes. The reward is the mean over goal objects of the best score.

    A goal attribute is compared with the value under the object's most similar attribute name (a hard maximum, ties to
    the first: Eq. 10). A goal object without attributes counts by its identity alone; an object without attributes
    fulfils none. Similarities below 0 count as 0. An empty goal or state has reward 0.
    """
    if not goal.entities or not state.entities:
        return RoutingResult(0.0, ())
    numpy = import_module("numpy")
    table = _SimilarityTable(_texts_of(goal.entities), _texts_of(state.entities), encode)
    identities = table.of([e.identity for e in goal.entities], [e.identity for e in state.entities])
    scores = identities * _attribute_similarities(goal.entities, state.entities, table)
    best = numpy.argmax(scores, axis=1)
    fulfilled = [float(scores[row, column]) for row, column in enumerate(best)]
    matches = tuple(
        ObjectMatch(goal_entity.identity, state.entities[column].identity, score)
        for goal_entity, column, score in zip(goal.entities, best, fulfilled, strict=True)
    )
    return RoutingResult(min(1.0, sum(fulfilled) / len(fulfilled)), matches)


class _SimilarityTable:
    """Cosine similarities of the goal's texts and the world's, computed once for each pair; negatives count as 0."""

    def __init__(self, goal_texts: Sequence[str], texts: Sequence[str], encode: EncodeFunction) -> None:
        rows, columns = list(dict.fromkeys(goal_texts)), list(dict.fromkeys(texts))
        self.row = {text: index for index, text in enumerate(rows)}
        self.column = {text: index for index, text in enumerate(columns)}
        vectors, numpy = encode([*rows, *columns]), import_module("numpy")
        # einsum and not @, whose threads take a hundred times as long on a busy machine once torch is loaded
        self.cosines = numpy.clip(numpy.einsum("ik,jk->ij", vectors[: len(rows)], vectors[len(rows) :]), 0.0, 1.0)

    def of(self, goal_texts: Sequence[str], texts: Sequence[str]) -> Vectors:
        """Return similarities, shape (len(goal_texts), len(texts)). Equal texts have exactly equal similarities."""
        chosen = import_module("numpy").ix_([self.row[text] for text in goal_texts], [self.column[t] for t in texts])
        return self.cosines[chosen]  # type: ignore[no-any-return]


def _attribute_similarities(
    goal_entities: Sequence[Entity], entities: Sequence[Entity], table: _SimilarityTable
) -> Vectors:
    """Return the mean attribute similarity, shape (goal objects, objects): StateFactory Eqs. 10 and 11."""
    numpy = import_module("numpy")
    keys = table.of(_attribute_names(goal_entities), _attribute_names(entities))
    values = table.of(_attribute_values(goal_entities), _attribute_values(entities))
    satisfied, attribute = numpy.zeros((len(keys), len(entities)), dtype=numpy.float32), numpy.arange(len(keys))
    for index, (start, end) in enumerate(_attribute_spans(entities)):
        if end > start:
            satisfied[:, index] = values[attribute, keys[:, start:end].argmax(axis=1) + start]
    weights = numpy.zeros((len(goal_entities), len(keys)), dtype=numpy.float32)
    for index, (first, last) in enumerate(_attribute_spans(goal_entities)):
        weights[index, first:last] = 1 / max(1, last - first)
    no_attributes = numpy.array([not entity.attributes for entity in goal_entities])
    return numpy.where(no_attributes[:, None], 1.0, numpy.einsum("ij,jk->ik", weights, satisfied))  # type: ignore[no-any-return]


def _texts_of(entities: Sequence[Entity]) -> list[str]:
    return [*(entity.identity for entity in entities), *_attribute_names(entities), *_attribute_values(entities)]


def _attribute_names(entities: Sequence[Entity]) -> list[str]:
    return [name for entity in entities for name in entity.attributes]


def _attribute_values(entities: Sequence[Entity]) -> list[str]:
    return [value for entity in entities for value in entity.attributes.values()]


def _attribute_spans(entities: Sequence[Entity]) -> list[tuple[int, int]]:
    """Return start and end of each entity's attributes in the concatenated lists."""
    ends = [0]
    for entity in entities:
        ends.append(ends[-1] + len(entity.attributes))
    return list(pairwise(ends))


# Reward heads: small networks on frozen sentence vectors that rate a trajectory (StateFactory, section 3.1.1).
#
# A file holds one head per fold of tasks, trained on the other folds, so that no task is rated by a head that was
# trained on it. The file is a plain npz of arrays: reading it runs no code.

HEAD_USAGE = "certigraph rewards train DATA --out head.npz, then rate=supervised:head=head.npz"

CORRUPTED_FILE_ERRORS = (
    *(OSError, EOFError, ValueError, LookupError, TypeError, RuntimeError, MemoryError, ArithmeticError),
    *(BadZipFile, zlib.error, SyntaxError, TokenError),
)
"""Exceptions of numpy and zipfile for what is not a file of heads: another format, encrypted, a huge shape, ..."""


class HeadsMetadata(Record):
    """Metadata of a file of reward heads."""

    version: int = Field(default=1, ge=1, le=1)
    encoder: str
    domains: tuple[str, ...]
    folds: int = Field(ge=1)
    tasks: int
    seed: int


class Head(NamedTuple):
    """Reward head: a network with one hidden layer that computes rewards from the features of a trajectory.

    Features and scores are standardised; scores then pass a sigmoid.
    """

    mean: Vectors
    spread: Vectors
    hidden: Vectors
    hidden_bias: Vectors
    out: Vectors
    scale: Vectors
    """Mean and standard deviation of the head's scores in training."""

    def rewards(self, features: Vectors) -> Vectors:
        """Return rewards in (0, 1), shape (rows,), for features of shape (rows, width)."""
        numpy = import_module("numpy")
        hidden = numpy.maximum(((features - self.mean) / self.spread) @ self.hidden + self.hidden_bias, 0.0)
        return 1 / (1 + numpy.exp(-(hidden @ self.out - self.scale[0]) / self.scale[1]))  # type: ignore[no-any-return]


class Heads(NamedTuple):
    """The reward heads of a file, one for each fold of tasks."""

    card: HeadsMetadata
    heads: tuple[Head, ...]

    def of(self, task_id: str) -> Head:
        """Return the head that was not trained on the task; for a new task, the head of its fold."""
        return self.heads[fold_of(task_id, self.card.folds)]


def fold_of(task_id: str, folds: int) -> int:
    """Return the fold of a task. It depends on the id alone, so that it is equal on every machine."""
    return zlib.crc32(f"fold:{task_id}".encode()) % folds


def prefix_features(goal: str, steps: Sequence[RecordedStep], encoder: Encoder) -> Vectors:
    """Compute features of every prefix of a trajectory, shape (len(steps), width).

    They are the vectors of the last action and observation and of the mean observation, products of the observations
    with the goal, and cosines with the goal (last, mean, maximum so far). A prefix has no information about later steps
    or their number.
    """
    numpy = import_module("numpy")
    count = len(steps)
    vectors = encoder.encode([goal, *(s.action or "look around" for s in steps), *(s.observation for s in steps)])
    goal_vector, actions, seen = vectors[0], vectors[1 : count + 1], vectors[count + 1 :]
    mean = seen.cumsum(axis=0) / numpy.arange(1, count + 1)[:, None]
    cosines = seen @ goal_vector
    summary = numpy.stack([cosines, mean @ goal_vector, numpy.maximum.accumulate(cosines)], axis=1)
    parts = (actions, seen, mean, seen * goal_vector, mean * goal_vector, summary)
    return numpy.concatenate(parts, axis=1).astype(numpy.float32)  # type: ignore[no-any-return]


def save_heads(path: Path, heads: Heads) -> None:
    """Write a file of reward heads atomically."""
    numpy = import_module("numpy")
    arrays = {f"{n}.{name}": array for n, head in enumerate(heads.heads) for name, array in head._asdict().items()}
    with replace_file(path) as unfinished, unfinished.open("wb") as file:
        numpy.savez(file, card=numpy.array(heads.card.model_dump_json()), **arrays)


def load_heads(path: Path) -> Heads:
    """Read a file of reward heads; the result is cached until the file changes.

    Raises:
        Fault: ("model") the file is missing or malformed; the message has the command that creates one.
    """
    try:
        return _read_heads(path, path.stat().st_mtime_ns)
    except CORRUPTED_FILE_ERRORS as error:
        raise Fault("model", f"{path} is not a file of reward heads ({error!r:.120}): {HEAD_USAGE}") from error


@lru_cache(maxsize=4)
def _read_heads(path: Path, written: int) -> Heads:
    with import_module("numpy").load(path, allow_pickle=False) as stored:
        card = HeadsMetadata.model_validate_json(str(stored["card"]))
        return Heads(card, tuple(_read_head(stored, n) for n in range(card.folds)))


def _read_head(stored: Any, number: int) -> Head:
    return Head(**{name: stored[f"{number}.{name}"] for name in Head._fields})


# Language models tuned to rate trajectories, as `certigraph rewards tune` writes them (StateFactory, appendix C.2).

ADAPTER_FILE = "adapter_config.json"
"""File that identifies a folder with a tuned model."""

LORA_USAGE = "certigraph rewards tune DATA --out tuned, then rate=supervised:head=tuned"


class TunedModel(NamedTuple):
    """A language model that was tuned to rate trajectories with LoRA adapters, and its tokenizer."""

    model: Any
    tokenizer: Any

    def reward(self, goal: str, steps: Sequence[RecordedStep]) -> float:
        """Return the reward after the last step, in (0, 1): the sigmoid of the model's score.

        A text that is longer than those in training is truncated at its beginning.
        """
        torch = import_module("torch")
        inputs = self.tokenizer(format_steps(goal, steps), truncation=True, return_tensors="pt").to(self.model.device)
        with torch.inference_mode():
            return float(torch.sigmoid(self.model(**inputs).logits[0, 0].float()))


def format_steps(goal: str, steps: Sequence[RecordedStep]) -> str:
    """Format the goal and the steps of a trajectory as one text, as in StateFactory's appendix C.2.1."""
    parts = (f"<ACTION> {step.action} </ACTION> <STATE> {step.observation} </STATE>" for step in steps)
    return " ".join([f"<GOAL> {goal} </GOAL> ---", *parts])


@lru_cache(maxsize=1)
def load_tuned(folder: Path) -> TunedModel:
    """Load the tuned language model of a folder, once, on the GPU if there is one.

    Raises:
        Fault: ("model") a library is missing, or the folder or its base model cannot be loaded.
    """
    check_tuning_packages()
    torch, transformers, peft = map(import_module, ("torch", "transformers", "peft"))
    gpu = torch.cuda.is_available()
    try:
        tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
        model = peft.AutoPeftModelForSequenceClassification.from_pretrained(
            folder, num_labels=1, local_files_only=True, dtype=torch.bfloat16 if gpu else torch.float32
        )
    except (OSError, ValueError) as error:
        raise Fault("model", f"{folder} holds no tuned reward model ({error!r:.120}): {LORA_USAGE}") from error
    return TunedModel(model.to("cuda" if gpu else "cpu").eval(), tokenizer)


def check_tuning_packages() -> None:
    """Check that the libraries of tuned models are installed. Raises Fault with the pip command if some are missing."""
    if missing := [name for name in ("torch", "transformers", "peft") if find_spec(name) is None]:
        raise Fault("model", f"tuned models need {', '.join(missing)}: pip install 'certigraph[lora]'")

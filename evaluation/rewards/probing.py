"""The triplet accuracy of a measurement's sentence encoders, which is told beside their EPIC distance."""

from collections.abc import Sequence
from pathlib import Path

from certigraph.adapters.embeddings import needed_encoder
from certigraph.adapters.factoring import FACTORS
from certigraph.adapters.rewardprediction.rows import Pair
from certigraph.evaluation.comparing.plan import Method
from certigraph.evaluation.rewards.digests import short
from certigraph.evaluation.rewards.keeping import append, read_lines
from certigraph.evaluation.rewards.predictors import encoder_of
from certigraph.evaluation.rewards.summary import EPIC, Line
from certigraph.evaluation.rewards.triplets import triplet_accuracy, triplets
from certigraph.state.records import Record

PAIRS = 10
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
    return [pair for domain in domains for pair in [one for one in pairs if one.domain == domain][:PAIRS]]

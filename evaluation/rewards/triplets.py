"""Triplet accuracy: how well an encoder tells a paraphrase from a contradiction (StateFactory, appendix C.5.3, Eq. 14).

Triplets are made of the states that StateFactory's symbolic extractors read along an episode. The paraphrases are
rewritten by rules, where the paper has a language model write them: figures do not compare with published ones.
"""

from collections.abc import Iterator, Sequence
from random import Random
from typing import NamedTuple

from certigraph.adapters.encoding import Encoder
from certigraph.adapters.factoring import needed_factors
from certigraph.adapters.rewardprediction.rows import Pair, Recording
from certigraph.state.factored import FactoredState
from certigraph.state.records import Task

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

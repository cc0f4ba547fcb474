"""What a search agent believes (CGDP section 5.1), and the signs that its search has run dry (section 5.2)."""

import hashlib
import re
from collections.abc import Iterable, Sequence
from itertools import chain
from typing import Literal

from certigraph.state.channels import Log
from certigraph.state.records import Action, Observation, Record
from certigraph.state.run import RunState
from certigraph.state.searching import asked_for

Form = Literal["native", "lobotomized", "structured", "freeform"]

RECENT = 3
"""Rounds back that an action is compared with: a search that alternates between two queries stagnates too."""

GLIMPSE = 300
"""Characters of an observation that a round keeps, for gates that ask a model."""


class Fact(Record):
    """A proposition that an observation confirmed, and where it stands."""

    text: str
    source: str = ""


class Belief(Record):
    """The belief state b_t. `window` is how many of the latest turns the agent sees beside it; None: all of them.

    Structured: `facts` and `questions`, the open predicates, the most important first. Freeform: `notes`, plain text.
    """

    form: Form = "native"
    facts: tuple[Fact, ...] = ()
    questions: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    window: int | None = None
    reorganised: int = 0
    """How often it was curated down to its target size."""

    @property
    def items(self) -> int:
        """What counts against its capacity."""
        return len(self.facts) + len(self.questions) + len(self.notes)

    @property
    def text(self) -> str:
        """As prompts show it; empty where nothing is believed yet."""
        facts = [f"- {fact.text} ({fact.source})" if fact.source else f"- {fact.text}" for fact in self.facts]
        questions = [f"- {question}" for question in self.questions]
        told = [("Facts:", facts), ("Still open:", questions), ("Notes:", self.notes)]
        return "\n".join(chain.from_iterable((name, *lines) for name, lines in told if lines))


class Round(Record):
    """What one round showed of progress: section 5.2's two signals, and what later rounds are compared with."""

    action: str
    chunks: tuple[str, ...]
    """Passage ids, or digests of the observation's lines where the world names no sources."""
    glimpse: str = ""
    jaccard: float
    """Highest token-level Jaccard similarity to an action of the `RECENT` rounds before; 0 in the first round."""
    upr: float
    """Unique passage rate: the share of chunks that no round before has shown; 0 where nothing was found."""


class Stagnation(Record):
    """What a gate makes of the rounds so far. `streak` counts the latest stagnant rounds in a row."""

    streak: int = 0
    level: float = 0.0
    """Of gates that smooth: the moving average that they compare."""
    stop: bool = False
    reason: str = ""
    advice: str = ""
    """A new direction for the agent to take, where the gate gives one instead of stopping."""
    resampled: int = 0
    """How often it gave one."""
    at: int | None = None
    """The round, from 1, at which a shadow gate would have stopped the run."""
    answer: str | None = None
    """What the agent would have answered there."""


class BelievingState(RunState, total=False):
    """The channels of memory and gate, which any graph may take."""

    belief: Belief
    rounds: Log[Round]
    stagnation: Stagnation


def belief_of(state: BelievingState) -> Belief:
    """What is believed; nothing where no memory has written yet."""
    return state.get("belief", Belief())


def stagnation_of(state: BelievingState) -> Stagnation:
    """What the gate made of the latest round; nothing where there is no gate, or no round."""
    return state.get("stagnation", Stagnation())


def stopped(state: BelievingState) -> bool:
    """Whether a gate has ended the search."""
    return stagnation_of(state).stop


def advised(state: BelievingState) -> tuple[str, ...]:
    """The direction that a gate has given, if any."""
    return tuple(filter(None, [stagnation_of(state).advice]))


def round_of(action: Action, observation: Observation, before: Sequence[Round]) -> Round:
    """The signals of a round, from its action and answer and the rounds before it."""
    words, chunks = asked_for(action), _chunks(observation)
    seen = set(chain.from_iterable(r.chunks for r in before))
    return Round(
        action=words,
        chunks=chunks,
        glimpse=" ".join(observation.text.split())[:GLIMPSE],
        jaccard=max((jaccard(words, r.action) for r in before[-RECENT:]), default=0.0),
        upr=sum(chunk not in seen for chunk in chunks) / len(chunks) if chunks else 0.0,
    )


def jaccard(one: str, other: str) -> float:
    """Token-level Jaccard similarity of two texts, 0 to 1; two texts without any token are alike."""
    first, second = _tokens(one), _tokens(other)
    return len(first & second) / len(first | second) if first | second else 1.0


def _tokens(text: str) -> set[str]:
    return set(re.findall(r"\w+", text.lower()))


def _chunks(observation: Observation) -> tuple[str, ...]:
    if not observation.accepted:  # a refusal repeats the agent's own words, which are always new
        return ()
    if observation.sources:
        return tuple(dict.fromkeys(observation.sources))
    lines: Iterable[str] = (line.strip() for line in re.split(r"[\n.]+", observation.text))
    return tuple(dict.fromkeys(hashlib.sha256(line.encode()).hexdigest()[:8] for line in lines if line))

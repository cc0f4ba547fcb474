"""What memory and gate made of each round of a search: the belief's growth, the round's signals, the verdict."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from certigraph.state.beliefs import Belief, Round, Stagnation
from certigraph.state.hypothesising import Branch


class Gathering:
    """Memory and gate of one episode, by its world steps from 1; empty for agents without them."""

    def __init__(self) -> None:
        self.beliefs: dict[int, Belief] = {}
        self.rounds: dict[int, Round] = {}
        self.gates: dict[int, Stagnation] = {}
        self.branches: list[Branch] = []

    def take(self, step: int, update: Mapping[str, Any]) -> None:
        """Fold the update of one event, which came after so many steps."""
        if "belief" in update:
            self.beliefs[step] = Belief.model_validate(update["belief"])
        if update.get("rounds"):
            self.rounds[step] = Round.model_validate(update["rounds"][-1])
        if "stagnation" in update:
            self.gates[step] = Stagnation.model_validate(update["stagnation"])
        self.branches += map(Branch.model_validate, update.get("branches", ()))

    def changes(self, step: int) -> list[str]:
        """What the step changed in the belief, an item a line: + taken up, ? asked from now on, ✓ settled."""
        after = self.beliefs.get(step)
        if after is None:
            return []
        before = _before(step, self.beliefs, Belief())
        if after.reorganised > before.reorganised:
            return [f"curated to {after.items} items", *_told(after, Belief())]
        return [*_told(after, before), *(f"✓ {text}" for text in _missing(before.questions, after.questions))]

    def signals(self, step: int) -> str:
        """How much the round repeated, and how much of what it found was new."""
        seen = self.rounds.get(step)
        return f"{seen.jaccard:.0%} alike, {seen.upr:.0%} new" if seen else ""

    def verdict(self, step: int) -> str:
        """What the gate said after the round, where it said more than to go on."""
        now, before = self.gates.get(step, Stagnation()), _before(step, self.gates, Stagnation())
        if now.stop:
            return f"gate: stop; {now.reason}"
        if now.at is not None and before.at is None:
            return f"gate would stop here with {now.answer or 'no answer'}; {now.reason}"
        if now.advice and now.advice != before.advice:
            return f"gate: {now.advice}"
        return f"gate: stagnant, {now.streak} in a row" if now.streak and now.at is None else ""


def _told(after: Belief, before: Belief) -> Iterator[str]:
    known = {fact.text for fact in before.facts}
    for fact in after.facts:
        if fact.text not in known:
            yield f"+ {fact.text}" + (f" ({fact.source})" if fact.source else "")
    yield from (f"+ {text}" for text in _missing(after.notes, before.notes))
    yield from (f"? {text}" for text in _missing(after.questions, before.questions))


def _missing(texts: Sequence[str], known: Sequence[str]) -> list[str]:
    return [text for text in texts if text not in known]


def _before(step: int, found: Mapping[int, Any], first: Any) -> Any:
    earlier = [number for number in found if number < step]
    return found[max(earlier)] if earlier else first

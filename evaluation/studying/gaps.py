"""The gaps G1 to G7 of a search harness (CGDP, appendix A.2 and table 7): names and definitions.

The paper defines G4 and G5/6; the other definitions are ours.
"""

from collections.abc import Callable
from typing import NamedTuple

from certigraph.evaluation.studying import gap_rules as rules
from certigraph.evaluation.studying.reading import Seen


class Gap(NamedTuple):
    """A gap by its name in the paper, what counts as one, and the rule."""

    name: str
    definition: str
    shows: Callable[[Seen], bool | None]


GAPS = (
    Gap(
        "G1",
        "evidence not persisted: a wrong answer, and the title of a gold passage that was retrieved in the first half "
        "of the rounds stands neither in the turns nor in the belief that the agent saw at the end",
        rules.evidence_lost,
    ),
    Gap(
        "G2",
        f"goal displacement: a wrong answer after at least {rules.LATE} rounds, and on average less than "
        f"{rules.ON_GOAL:.0%} of the content words of the late actions (second half) occur in the question or in gold "
        "passages found before",
        rules.goal_displaced,
    ),
    Gap(
        "G3",
        f"parametric dominance: less than {rules.GROUNDED:.0%} of the content words that the answer adds to the "
        "question occur in anything retrieved, and it is no abstention; right or wrong",
        rules.parametric,
    ),
    Gap(
        "G4",
        f"premature stop: the agent stopped by itself after at most {rules.PREMATURE} rounds, wrong",
        rules.premature,
    ),
    Gap(
        "G5/G6",
        f"retrieval stagnation: the Jaccard similarity of consecutive actions exceeds {rules.REPEATING:g} for at least "
        f"{rules.PAIRS} pairs in a row",
        rules.stagnant,
    ),
    Gap(
        "G7", "evidence-action misalignment: a question without an answer in the corpus was answered", rules.misaligned
    ),
)
"""Wrong is a score below `gap_rules.CORRECT`."""

"""The constants of the search harnesses, in one table; what a benchmark decides (k, steps, sizes) is in `Limits`.

Rounds are CGDP's (table 14), weights of BM25 against vectors its section 6.1's. `rounds` of `Limits` takes their place.
"""

from typing import NamedTuple


class Harness(NamedTuple):
    """What a harness does unless it is told otherwise."""

    rounds: int
    alpha: float = 0.5


IRCOT = Harness(rounds=10, alpha=0.9)
REACT = Harness(rounds=7)
MEMGPT = Harness(rounds=12)
ITER_RETGEN = Harness(rounds=4)
"""Always all of them: it has no way to stop."""

PBAI = Harness(rounds=10)
"""Algorithm 1 leaves the budget open; IRCoT's."""

PARAGRAPHS = 15
"""IRCoT: distinct paragraphs in a prompt. The latest, as Eq. 2 truncates: the first would soon be all that it reads."""

PAGE = 5
"""MemGPT: passages that one search returns, where `Limits.passages` allows as many."""

RETURNED = 3_000
"""MemGPT: characters of one answer of the world in its queue."""

CORE = 2_000
"""MemGPT: characters of core memory; the oldest note goes first."""

PRESSURE = 0.75
"""MemGPT: share of `Limits.context` from which the agent is warned and its queue then flushed."""

KEPT = 3
"""MemGPT: latest turns that stay in its queue when the others are summarised."""

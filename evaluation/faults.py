"""Runs that an error ended: how many of each method no figure counts, and when that may bias a comparison."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from certigraph.state.endings import FAULTS

MOST_SHARE = 0.05
"""Share of a method's runs that may end in a fault before figures over the others are doubtful."""


def share_text(faults: int, runs: int) -> str:
    """Faults of so many runs as tables show them: `2/10`."""
    return f"{faults}/{runs}"


def fault_warnings(endings: Mapping[str, Sequence[str]], command: str) -> Iterator[str]:
    """What must be known of figures beside runs that ended in an error; nothing where none did.

    Args:
        endings: how every run of each method ended.
        command: what runs them again.
    """
    faults = {method: sum(ending in FAULTS for ending in ended) for method, ended in endings.items()}
    if any(faults.values()):
        counts = ", ".join(f"{method} {share_text(faults[method], len(ended))}" for method, ended in endings.items())
        yield f"faults of the world or its data ended runs that no figure counts: {counts}{_doubt(faults, endings)}"
    for method, ended in endings.items():
        errors = Counter(ending for ending in ended if ending.startswith("error:") and ending not in FAULTS)
        for ending, count in errors.items():
            told = f"{method}: {count} of {len(ended)} runs ended {ending} and count as failures"
            yield f"{told}; after a passing outage, run them again: {command}"


def _doubt(faults: Mapping[str, int], endings: Mapping[str, Sequence[str]]) -> str:
    shares = {method: faults[method] / len(ended) for method, ended in endings.items() if ended}
    if len(set(shares.values())) > 1:
        most = max(shares, key=lambda method: shares[method])
        return f". The shares differ: what fails under {most} may be its hardest tasks, and the rest flatter it"
    if max(shares.values()) > MOST_SHARE:
        return f". That is more than {MOST_SHARE:.0%}: the others may be the easier tasks"
    return ""

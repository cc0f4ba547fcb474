"""Findings and forced passes in words: the same in reports, live views, and on the command line."""

from pydantic import JsonValue

from certigraph.state.json_text import json_value
from certigraph.state.records import Finding

PASSED = "passed, uncertified"


def passed_by(policy: str) -> str:
    """What is said of a target that a policy let pass."""
    return f"{PASSED} ({policy})"


def contradiction(finding: Finding) -> str:
    """Which sources say otherwise, and what; empty where none does."""
    told = f": {finding.dispute}" if finding.dispute else ""
    if finding.against:
        return f"contradicted by {', '.join(finding.against)}{told}"
    return f"disputed{told}" if told else ""


def in_a_line(finding: Finding) -> str:
    """The finding with its sources."""
    sources = f" ({', '.join(finding.sources)})" if finding.sources else ""
    return "; ".join(filter(None, [f"{finding.text}{sources}", contradiction(finding)]))


def with_passed(told: str, passed: int) -> str:
    """A count of certified predicates, and of those that passed without."""
    return f"{told}, {passed} passed uncertified" if passed else told


def answer_texts(answer: JsonValue) -> list[str]:
    """An answer's items: the texts of a JSON list of them, else its lines."""
    if answer is None:
        return []
    try:
        several = json_value(str(answer))
    except ValueError:
        several = None
    listed = isinstance(several, list) and all(isinstance(one, str) for one in several)
    return [str(one) for one in several] if listed else str(answer).splitlines()

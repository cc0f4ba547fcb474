"""Short texts that the live view, reports, tables and the command line share: counts, durations, labels, findings."""

from collections.abc import Mapping, Sequence

from pydantic import JsonValue

from certigraph.adapters.json_lines import parse_json
from certigraph.state.records import Finding, Scores
from certigraph.state.trajectory import CutPrompt, EmptyCalls

# Lengths, counts and durations.


def shorten_text(text: str, most: int) -> str:
    """Cut a text to `most` characters and append how many were left out."""
    return text if len(text) <= most else f"{text[:most]}… ({len(text) - most:,} more characters)"


def clip_text(text: str, most: int) -> str:
    """Cut a text for a label to `most` characters, including an ellipsis."""
    return text if len(text) <= most else f"{text[: most - 1]}…"


def format_count(count: int, what: str) -> str:
    """Format a count with its noun in the singular or plural: 1 replan, 2,000 replans, 3 searches."""
    plural = "es" if what.endswith("ch") else "s"
    return f"{count:,} {what}{'' if count == 1 else plural}"


def format_compact(count: float) -> str:
    """Format a count in short form: 1234567 as 1.23M."""
    for unit, size in (("M", 1_000_000), ("k", 1_000)):
        if count >= size:
            return f"{count / size:.3g}{unit}"
    return f"{count:g}"


def format_score(value: float) -> str:
    """Format a score of a benchmark, 0 to 1, on the scale of all output and pages: 50 of 100."""
    return format_points(100 * value)


def format_scores(scores: Scores) -> str:
    """Format what a run scored: its value, or the parts that its benchmark shows in place of it."""
    return format_parts(scores.shown) or f"score {format_score(scores.value)}"


def format_parts(shown: Mapping[str, float]) -> str:
    """Format parts of a score by label, those that are 0 or 1 as no and yes; empty if there are none."""
    return ", ".join(f"{label} {format_part(value)}" for label, value in shown.items())


def format_part(value: float) -> str:
    """Format a part of a score, 0 to 1: no, yes, or a percentage."""
    return {0.0: "no", 1.0: "yes"}.get(value) or f"{value:.1%}"


def format_points(points: float) -> str:
    """Format a score on the scale of all output and pages, as ScienceWorld counts: 50 of 100."""
    return f"{points:.3g} of 100"


def format_usd(usd: float, unpriced: int) -> str:
    """Format a cost in US dollars. The cost of `unpriced` calls, whose price is unknown, is not in it."""
    known = f"${usd:,.4f}" if 0 < usd < 1 else f"${usd:,.2f}"
    if not unpriced:
        return known
    return f"{known} and an unknown cost" if usd else "unknown cost"


def format_duration(seconds: float) -> str:
    """Format a number of seconds for a table: 850 ms, 12.3 s, 2 min 05 s, 1 h 10 min."""
    if seconds < 1:
        return f"{seconds * 1000:.3g} ms"
    if seconds < 60:
        return f"{seconds:.3g} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02} min" if hours else f"{minutes} min {rest:02} s"


# What was left out of prompts.


def format_cut_prompts(cuts: Sequence[CutPrompt], calls: int) -> str:
    """Format in a sentence how many of the model calls of a run had a prompt that was cut; empty if none had.

    Args:
        cuts: the calls whose prompts were cut.
        calls: number of model calls of the run.
    """
    if not cuts:
        return ""
    windows = sorted({cut.window for cut in cuts if cut.window})
    window = f" (window of {' and '.join(f'{size:,}' for size in windows)} tokens)" if windows else ""
    what = f"left out earlier parts, the last one {format_left_out(cuts[-1])}{window}"
    fix = "a model with a larger window would see what exceeds it"
    return f"{len(cuts):,} of {format_count(calls, 'request')} {what}; {fix}"


def format_left_out(cut: CutPrompt) -> str:
    """Format what was left out of one prompt."""
    return ", ".join(cut.left_out)


EMPTY_REASONS = {
    "verdicts": ("verdict", "that changed nothing"),
    "chains": ("chain", "cut at a refused name"),
    "questions": ("question", "what was meant"),
    "ended": ("call", "after the end"),
    "requests": ("request", "without a usable answer"),
}
"""What model calls that brought no information were, by field of `EmptyCalls`: a noun, and what it is about."""


def format_empty_calls(empty: EmptyCalls) -> str:
    """Format which model calls of a run brought no information; empty if there are none."""
    counts = empty._asdict().items()
    return ", ".join(f"{format_count(n, EMPTY_REASONS[name][0])} {EMPTY_REASONS[name][1]}" for name, n in counts if n)


def name_empty(reason: str) -> str:
    """Name the model calls that brought no information for a reason, a field of `EmptyCalls`."""
    noun, about = EMPTY_REASONS[reason]
    return f"{noun}s {about}"


def format_empty_share(empty: EmptyCalls, calls: int) -> str:
    """Format how many of a number of model calls brought no information: 3 of 30 (10 %)."""
    return f"{empty.total:,} of {calls:,} ({empty.total / max(calls, 1):.0%})".replace("%", " %")


# Text of findings and forced passes, shared by reports, live views and the command line.

PASSED_LABEL = "passed, uncertified"
"""Label of a predicate that a policy let pass although it was not certified."""


CERTIFIED_LABEL, UNCHECKED_LABEL = "certified", "accepted unchecked"
"""Label of a predicate with a certificate: as usual, and in a run whose validator accepts whatever the world shows."""


def passed_label(policy: str) -> str:
    """Return the label of a predicate that a policy let pass uncertified, with the name of the policy."""
    return f"{PASSED_LABEL} ({policy})"


def format_contradiction(finding: Finding) -> str:
    """Format which sources contradict a finding, and what they claim; empty if the finding is undisputed."""
    dispute = f": {finding.dispute}" if finding.dispute else ""
    if finding.against:
        return f"contradicted by {', '.join(finding.against)}{dispute}"
    return f"disputed{dispute}" if dispute else ""


def format_finding(finding: Finding) -> str:
    """Format a finding with its sources on one line."""
    sources = f" ({', '.join(finding.sources)})" if finding.sources else ""
    return "; ".join(filter(None, [f"{finding.whole}{sources}", format_contradiction(finding)]))


def add_passed_count(text: str, passed: int) -> str:
    """Add to a text about certified predicates how many passed uncertified, if any did."""
    return f"{text}, {passed} passed uncertified" if passed else text


def split_answer(answer: JsonValue) -> list[str]:
    """Split an answer into items: the strings of a JSON list, else the lines of the text."""
    if answer is None:
        return []
    try:
        several = parse_json(str(answer))
    except ValueError:
        several = None
    listed = isinstance(several, list) and all(isinstance(one, str) for one in several)
    return [str(one) for one in several] if listed else str(answer).splitlines()

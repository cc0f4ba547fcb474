"""The plan of a research: a predicate a step, one for the answer, one for the goal; and how findings are told."""

from collections.abc import Sequence

from certigraph.adapters.prompting import clipped, listed, quoted
from certigraph.state.certified import Known
from certigraph.state.records import Attempt, Predicate
from certigraph.state.researching import STEPS
from certigraph.state.run import Evidence
from certigraph.state.searching import ANSWER

GOAL = "goal"
"""Kind of the last predicate."""

FORCE_PASS = "force_pass"
"""The policy that lets a step pass whose findings were refused (SDP paper, appendix A.4)."""

FORCE_ACCEPT = "force_accept"
"""The policy that hands in the closest answer when three were weak (appendix A.4)."""

MOST_FAILURES = 3

UNREAD = "[unread]"
"""How the world's list of results begins the line of one that was not read and may still be."""


def step_predicate(index: int, kind: str, goal: str) -> Predicate:
    """A step as a condition. Replan adds `queries` and `urls` to its arguments: what to look up first."""
    return Predicate(text=f"Established: {goal}", kind=kind, args={"index": index, "goal": goal})


def closing() -> list[Predicate]:
    """The end of every plan."""
    return [
        Predicate(text="The question is answered from the findings.", kind=ANSWER),
        Predicate(text="The answer is final.", kind=GOAL),
    ]


def is_step(predicate: Predicate) -> bool:
    """Whether a predicate is a step, which is settled by a finding."""
    return predicate.kind in STEPS


def goal_of(predicate: Predicate) -> str:
    """What a step is to establish."""
    return str(predicate.args.get("goal") or predicate.text)


def told(known: Sequence[Known], most: int) -> str:
    """Findings as prompts show them: quoted, for they are drawn from pages; those that were forced are marked."""
    return quoted(listed(clipped(_told(one), most // max(len(known), 1)) for one in known), most)


def _told(known: Known) -> str:
    found = known.finding
    marks = [
        *(["uncertain, not certified"] if known.forced else []),
        *([f"some sources say otherwise: {found.dispute}"] if found.dispute else []),
    ]
    return f"{found.about} -> {found.text}" + (f" ({'; '.join(marks)})" if marks else "")


def results(evidence: Evidence, most: int) -> str:
    """The known results as prompts show them: quoted, and by their numbers; of too many the latest are shown."""
    lines = evidence.view.splitlines()
    while len(lines) > 1 and sum(map(len, lines)) + len(lines) > most:
        del lines[0]
    return quoted("\n".join(lines), most)


def unread(evidence: Evidence) -> list[str]:
    """The known results that were not read and may still be."""
    told = zip(evidence.view.splitlines(), evidence.sources, strict=False)
    return [url for number, (line, url) in enumerate(told, 1) if line.startswith(f"{number}. {UNREAD} ")]


def failures(attempts: Sequence[Attempt]) -> str:
    """What was tried last, what came of it, and why it did not do; quoted, for it repeats pages."""
    lines = (
        f"{a.action.text}: {a.verdict.finding.text if a.verdict.finding else 'nothing'} ({a.verdict.reason})"
        for a in attempts[-MOST_FAILURES:]
    )
    return quoted(listed(clipped(text, 600) for text in lines))

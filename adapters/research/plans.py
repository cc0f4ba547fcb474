"""Questions, plans, prompts and answer schemas for research on the web (SDP appendix A.4)."""

from collections.abc import Sequence
from functools import lru_cache
from typing import Annotated, Literal

from pydantic import BaseModel, Field, create_model

from certigraph.adapters.models.prompts import bullet_list, clip, quote
from certigraph.adapters.models.schemas import Bounded, Truncated, bounded_list
from certigraph.state.records import Attempt, Finding, Predicate, Record
from certigraph.state.run import ANSWER, Evidence, KnownFinding
from certigraph.state.search import STEP_KINDS


class SolutionStep(Record):
    """One step of the solution of a generated question: what to look up, and the finding that results."""

    kind: str
    """One of `state.search.STEP_KINDS`: collect, filter, extract or compute."""
    queries: tuple[str, ...]
    """Search queries that find the pages."""
    pages: tuple[str, ...]
    """URLs of the pages that have to be read."""
    finding: Finding
    """The finding. Its `about` is the goal of the step; its `sources` and `against` are URLs."""


class ResearchQuestion(Record):
    """A question that needs research on the web.

    Attributes:
        answer: the gold answer, one item per line as in AssistantBench; None if it is unknown.
        solution: the steps that lead to the answer; only for generated questions.
    """

    id: str
    text: str
    answer: str | None = None
    difficulty: str = ""
    solution: tuple[SolutionStep, ...] = ()

    @property
    def answers(self) -> tuple[str, ...]:
        """The gold answer in a tuple, for a judge to compare with; empty if it is unknown."""
        return (self.answer,) if self.answer else ()


# The plan of a research task: one predicate per step, one for the answer, one for the goal. Formatting of prompts.

GOAL = "goal"
"""Kind of the last predicate of a plan."""

FORCE_PASS = "force_pass"
"""Name of the policy that lets a step pass although its findings were refused (SDP, appendix A.4)."""

FORCE_ACCEPT = "force_accept"
"""Name of the policy that submits the closest answer after three weak answers (SDP, appendix A.4)."""

MAX_FAILURES = 3
"""Maximum number of failed attempts shown in a prompt."""

UNREAD_MARK = "[unread]"
"""Mark at the beginning of a line in the list of search results: the page was not read and can still be read."""


def step_predicate(index: int, kind: str, goal: str) -> Predicate:
    """Create the predicate that a step is done: its goal is established.

    Replan may add `queries` and `urls` to the predicate's arguments: what to look up first.

    Args:
        index: number of the step, from 1.
        kind: kind of the step, one of STEP_KINDS.
        goal: what the step has to establish.
    """
    return Predicate(text=f"Established: {goal}", kind=kind, args={"index": index, "goal": goal})


def closing_predicates() -> list[Predicate]:
    """Return the two predicates at the end of every plan: the question is answered, and the answer is final."""
    return [
        Predicate(text="The question is answered from the findings.", kind=ANSWER),
        Predicate(text="The answer is final.", kind=GOAL),
    ]


def is_step(predicate: Predicate) -> bool:
    """Return whether a predicate stands for a step, which needs a finding, and not for the answer or the goal."""
    return predicate.kind in STEP_KINDS


def goal_of(predicate: Predicate) -> str:
    """Return what the step of a predicate has to establish."""
    return str(predicate.args.get("goal") or predicate.text)


def format_findings(known: Sequence[KnownFinding], most: int) -> str:
    """Format findings for a prompt, in at most `most` characters.

    They are quoted, because they come from pages. Forced findings are marked as uncertain.
    """
    return quote(bullet_list(clip(_format_finding(finding), most // max(len(known), 1)) for finding in known), most)


def _format_finding(known: KnownFinding) -> str:
    finding = known.finding
    marks = [
        *(["uncertain, not certified"] if known.forced else []),
        *([f"some sources say otherwise: {finding.dispute}"] if finding.dispute else []),
    ]
    return f"{finding.about} -> {finding.text}" + (f" ({'; '.join(marks)})" if marks else "")


def format_results(evidence: Evidence, most: int) -> str:
    """Format the known search results for a prompt: quoted and numbered, in at most `most` characters.

    If they are longer, the oldest results are left out.
    """
    lines = evidence.view.splitlines()
    while len(lines) > 1 and sum(map(len, lines)) + len(lines) > most:
        del lines[0]
    return quote("\n".join(lines), most)


def unread_urls(evidence: Evidence) -> list[str]:
    """Return the URLs of the known search results that were not read and can still be read."""
    lines = zip(evidence.view.splitlines(), evidence.sources, strict=False)
    return [url for number, (line, url) in enumerate(lines, 1) if line.startswith(f"{number}. {UNREAD_MARK} ")]


def format_failures(attempts: Sequence[Attempt]) -> str:
    """Format the last attempts for a prompt: their findings, and why these were refused.

    The text is quoted, because it repeats pages.
    """
    lines = (
        f"{a.action.text}: {a.verdict.finding.text if a.verdict.finding else 'nothing'} ({a.verdict.reason})"
        for a in attempts[-MAX_FAILURES:]
    )
    return quote(bullet_list(clip(text, 600) for text in lines))


# Answer schemas of the operators. A model names pages by the numbers with which the prompt lists them.

MAX_QUERIES, MAX_PAGES = 3, 3
"""Maximum number of search queries and of pages of one attempt at a step."""


class NarrowingStep(BaseModel):
    """One narrowing step."""

    kind: Literal["collect", "filter", "extract", "compute"]
    goal: Annotated[str, Field(min_length=1), Bounded(240)]


class Decomposition(BaseModel):
    """Propose's answer, before it is known how many steps there may be. Role: planner."""

    steps: list[NarrowingStep]


@lru_cache(maxsize=16)
def create_decomposition_form(most: int) -> type[Decomposition]:
    """Return the answer schema of a plan with at most `most` steps (5 in SDP, appendix A.4)."""
    return create_model("Decomposition", __base__=Decomposition, steps=(bounded_list(most, NarrowingStep), ...))


class Tools(BaseModel):
    """Realize's answer, and Replan's: what to search for and which known pages to read. Roles: executor, planner."""

    queries: Annotated[list[str], Truncated(MAX_QUERIES)]
    pages: Annotated[list[int], Truncated(MAX_PAGES)]


class Found(BaseModel):
    """What the evidence says on a step. Role: extractor."""

    finding: Annotated[str, Bounded(600)]
    supported_by: Annotated[list[int], Truncated(8)]
    contradicted_by: Annotated[list[int], Truncated(8)]
    dispute: Annotated[str, Truncated(300)]


class Adequacy(BaseModel):
    """Validate's answer on a finding. Role: validator."""

    reason: Annotated[str, Truncated(200)]
    adequate: bool


class Answers(BaseModel):
    """The final answer: one text, several of a list, or one JSON object a text. Role: executor."""

    answers: Annotated[list[str], Truncated(30)]


# The prompts of SDP's operators for research (SDP, appendix A.4); the wording is ours.

DECOMPOSE = """\
Question: {task}

Plan the research in at most {most} steps, each narrowing down what the one before left. A step is one of:
collect: gather candidates or raw facts from the web;
filter: keep those of what is known that meet one criterion, looking up what decides it;
extract: find one particular fact;
compute: calculate or compare what was found, without looking anything up.
Give each step's goal in one sentence that can be checked against a finding: what will be known once it is done. Do not
answer anything, and add no step that writes the answer: that comes by itself.
"""

TOOLS = """\
Question: {task}

Found so far:
{known}

Results at hand, by number; some are read already, some cannot be:
{view}

Tried for this step in vain:
{failed}
{notes}
Step ({kind}): {goal}
Choose what to look up for this step alone: at most {queries} searches, in a few words each, names first, and at most
{pages} numbers of results worth reading: unread ones, or one that was read for another step and tells this one too. The
first result of each search is read anyway. Nothing that was tried again. Where what was found so far already settles
the step, give empty lists.
"""

FIND = """\
Question behind it: {task}

Found so far:
{known}

Sources, by number:
{evidence}

Step ({kind}): {goal}
State what the sources and what was found so far establish for this step, in one or two sentences with names, numbers
and dates as the sources have them. Say what is missing or uncertain; invent nothing; an empty text if nothing is
established. supported_by: the numbers of the sources that say so. contradicted_by: the numbers of sources on the same
thing that say otherwise, whether out of date or simply different; dispute: what they say instead, empty if none does.
"""

JUDGE = """\
Step ({kind}): {goal}

Found so far:
{known}

Finding:
{finding}
{unseen}It rests on:
{sources}
{dispute}
Does the finding settle the step? It does when it states what the step asks for, on the grounds of sources or of what
was found so far. It does not when it is about something else, only promises or guesses, or leaves out what was asked.
"""

CONCLUDE = """\
Question: {task}

Found, step by step:
{known}

Results at hand:
{view}

Refused before, or done on the way:
{failed}
{notes}
Answer the question from what was found, in the form that it asks for: a number alone, a name alone, one text for each
item of a list, or one JSON object a text where it asks for JSON. No sentence, no explanation.
"""

CLOSEST = """
What was found does not settle the question fully. Give the closest matches or the best estimate that it supports: an
answer that is partly right is worth more than none.
"""

RETHINK = """\
Question: {task}

Found so far:
{known}

Step ({kind}) that could not be settled: {goal}
What was tried for it, and why it did not do:
{failed}

Results at hand, by number; some are read already, some cannot be:
{view}

Change the approach: other words, another kind of site, a source that would list or compare what is looked for, a part
of the question that is easier to find. Give at most {queries} new searches and at most {pages} numbers of unread
results to read next. Empty lists if there is no other way.
"""

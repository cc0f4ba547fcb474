"""State of search and research agents: passages, actions, chains of hops, operators' views, and parallel hypotheses."""

import datetime
import hashlib
import re
from collections.abc import Sequence
from itertools import takewhile
from typing import Any, NamedTuple

from pydantic import JsonValue
from typing_extensions import TypedDict

from certigraph.state.certified_states import CertifiedState, KnownFinding, certified_state, facts_of
from certigraph.state.channels import (
    Log,
)
from certigraph.state.endings import EXHAUSTED, GAVE_UP, WORLD_ENDED, UnknownName
from certigraph.state.records import Action, Arguments, Fact, Observation, Predicate, Record, Spent, Task, with_args
from certigraph.state.run import (
    CLAIM,
    FINISH,
    AnsweredCall,
    Belief,
    BeliefState,
    Evidence,
    RunState,
    SearchRound,
    Stagnation,
    Turn,
    answer,
    belief_of,
    finish,
    is_stopped,
    remembered_turns,
    round_of,
    stagnation_of,
    world_ending,
)

# Passages: the pieces of text that search agents find. Graph state holds only their ids.


class Passage(Record):
    """A piece of text that search finds: one paragraph, dialogue turn or part of a file. Ids are unique in a corpus."""

    id: str
    title: str
    text: str


def lines_with_sources(text: str, sources: Sequence[str]) -> list[tuple[str, str]] | None:
    """Return each line of an observation with its source; None unless there is exactly one source per line."""
    lines = text.splitlines()
    return list(zip(sources, lines, strict=True)) if len(lines) == len(sources) else None


# Observations of search worlds: one passage per line, or a refusal with its reason.


def to_observation(passages: Sequence[Passage], none: str = "", **data: JsonValue) -> Observation:
    """Create an observation that lists passages, one per line, with their ids as sources.

    Args:
        passages: the passages.
        none: text of the observation if there are no passages.
        data: further values to store in the observation.
    """
    text = "\n".join(to_line(f"{p.title}: {p.text}" if p.title else p.text) for p in passages)
    return Observation(text=text or none, sources=tuple(p.id for p in passages), data=data)


def create_refusal(reason: str) -> Observation:
    """Create the observation for an action that the world refused, with the reason as its text."""
    return Observation(text=reason, accepted=False)


def to_line(text: str) -> str:
    """Join the lines of a text to one line, with single spaces between words."""
    return " ".join(text.split())


def to_storable_line(text: str) -> str:
    """Join the lines of a text to one line and drop unpaired surrogates, which UTF-8 cannot encode."""
    return to_line(text.encode(errors="ignore").decode())


_VALUE_BREAK = re.compile(r"(?<!\d)\s+|\s+(?!\d)")
"""Blanks at which a text may be cut: not those inside a number such as `1 250`."""

CLIP_MARK = " ..."


def clip_words(text: str, most: int) -> str:
    """Return a text, or its beginning with ` ...` if it is longer than `most` characters.

    It is cut between words, and never inside a number. A text without any blank to cut at is cut at the limit.
    """
    if len(text) <= most:
        return text
    limit = max(most - len(CLIP_MARK), 0)
    breaks = takewhile(lambda match: match.start() <= limit, _VALUE_BREAK.finditer(text))
    ends = [match.start() for match in breaks if match.start()]
    return text[: ends[-1] if ends else limit].rstrip() + CLIP_MARK


# The user's own question as a task: `certigraph ask`.

MAX_QUESTION_LENGTH = 2_000
"""Maximum number of characters of a question."""

GENERATED_WEB = "generated"
"""Name that stands for a generated web in place of a search provider, to try things out.

It is the web of the benchmark `web`.
"""


def create_question_task(question: str, search: str = "", now: datetime.datetime | None = None) -> Task:
    """Create the task for a user's question. It records the names of search providers and the time `now`.

    Raises:
        UnknownName: the question is empty or has more than 2,000 characters.
    """
    text = to_storable_line(question)
    if not text or len(text) > MAX_QUESTION_LENGTH:
        problem = "is empty" if not text else f"has {len(text):,} characters"
        raise UnknownName(f"the question {problem}: ask in 1 to {MAX_QUESTION_LENGTH:,} characters")
    at = now or datetime.datetime.now(datetime.UTC)
    id_ = hashlib.sha256(text.encode()).hexdigest()[:8]
    return Task(benchmark="ask", id=id_, goal=text, constants={"search": search, "asked": at.isoformat()})


# The actions of agents that research on the web: search, open a page, or both for one step of a plan.

OPEN, RESEARCH = "open", "research"
"""Kinds of actions of web research.

`open` reads one page. `research` does all searches and reads all pages for one step of a plan.
"""

COLLECT, FILTER, EXTRACT, COMPUTE = "collect", "filter", "extract", "compute"
"""Kinds of plan steps (SDP paper, appendix A.4).

`collect` collects candidates, `filter` filters them, `extract` extracts one fact, `compute` computes or compares.
"""

STEP_KINDS = (COLLECT, FILTER, EXTRACT, COMPUTE)
"""All kinds of plan steps."""


def research_step(
    goal: str,
    queries: Sequence[str],
    urls: Sequence[str],
    known: Sequence[KnownFinding],
    *,
    rejected: int,
    elsewhere: bool,
    characters: int | None = None,
    tries: Sequence[JsonValue] = (),
    standing: str = "",
) -> Action:
    """Create an action that gathers evidence for one step of a research plan.

    Args:
        goal: what the step has to establish.
        queries: queries to search for.
        urls: pages to read; only those that a search found or the question names are fetched.
        known: the findings so far. Validate sees them only through the action.
        rejected: number of findings for this step that were refused so far.
        elsewhere: whether to ask the second search provider too.
        characters: maximum characters of the sources in the observation, which then has all search results that fit,
            and again what earlier actions read for the same goal; None for the world's short form.
        tries: refused attempts at this step and what they established. Validate sees it only through the action.
        standing: why nothing is looked up, for an action without queries and pages.
    """
    summary = "; ".join([*(f"search: {query}" for query in queries), *(f"open: {url}" for url in urls)])
    args: dict[str, JsonValue] = {
        "goal": goal,
        "queries": [*queries],
        "urls": [*urls],
        "rejected": rejected,
        "elsewhere": elsewhere,
        **({} if characters is None else {"characters": characters}),
        **({"tries": [*tries]} if tries else {}),
    }
    text = f"research[{summary or standing or 'nothing new'}]"
    return Action(text=text, kind=RESEARCH, args={**args, **findings_argument(known)})


def note_answer(text: str, known: Sequence[KnownFinding]) -> Action:
    """Create an action that notes an answer, with the findings that support it."""
    return _attach_findings(answer(text), known)


def submit_answer(text: str, known: Sequence[KnownFinding], **args: JsonValue) -> Action:
    """Create an action that submits an answer, with the findings that support it, and ends the episode.

    If a policy made the agent submit the answer, `policy` in `args` is the name of the policy.
    """
    return _attach_findings(finish(text, **args), known)


def findings_argument(known: Sequence[KnownFinding]) -> Arguments:
    """Return the argument with which an action carries findings; empty if there are none."""
    return {"known": [finding.as_json() for finding in known]} if known else {}


def findings_of(args: Arguments) -> list[KnownFinding]:
    """Return the findings that an action carries in its arguments."""
    known = args.get("known")
    return [KnownFinding.model_validate(item) for item in known] if isinstance(known, list) else []


def unique_texts(value: JsonValue) -> list[str]:
    """Return the texts of a list in an action's arguments without blanks and repetitions; [] for any other value."""
    items = (str(item).strip() for item in value) if isinstance(value, list) else iter(())
    return list(dict.fromkeys(item for item in items if item))


def _attach_findings(action: Action, known: Sequence[KnownFinding]) -> Action:
    return with_args(action, findings_argument(known))


# The chain of hops behind the answer to a multi-hop question: as certified, and as the answer's action carries it.


class HopFinding(NamedTuple):
    """One hop (sub-question) of a multi-hop question, and what was found for it."""

    question: str
    finding: str
    entity: str
    """The name that later hops of the question need."""
    passage: str = ""
    """Id of the passage that supports the finding; empty if it was not verified."""


def certified_hops(certified: CertifiedState) -> dict[int, HopFinding]:
    """Return the certified hops of a multi-hop question by the index of the hop, in the order of certification."""
    pairs = zip(certified.actions, certified.evidence, strict=True)
    claims = ((action.args, passage) for action, passage in pairs if action.kind == CLAIM and "hop" in action.args)
    return {
        int(str(args["hop"])): HopFinding(str(args["subquestion"]), str(args["finding"]), str(args["entity"]), passage)
        for args, passage in claims
    }


def chain_argument(chain: Sequence[HopFinding]) -> Arguments:
    """Return the argument with which an answer carries its chain of hops; empty without hops.

    Validate and the world need it, because they see no certificates.
    """
    return {"chain": [[*hop] for hop in chain]} if chain else {}


def chain_of(args: Arguments) -> list[HopFinding]:
    """Return the chain of hops that an answer carries in its arguments."""
    chain = args.get("chain")
    return [HopFinding(*map(str, hop)) for hop in chain if isinstance(hop, list)] if isinstance(chain, list) else []


# Views of the operators that gather context (CGDP): memory, gate and final answer. They work on any graph's state.

BY_GATE, BY_ROUNDS, BY_STEPS, BY_METHOD = "gate", "rounds", "steps", "method"
"""Reasons why an agent had to give its final answer.

In order: a gate stopped the search, the rounds or the world steps were used up, or the method gave up.
"""


class MemoryView(TypedDict):
    """View of the extractor, which updates the belief: belief b_t and observation o_t only (CGDP appendix E)."""

    task: Task
    belief: Belief
    observation: Observation


class AnswerView(TypedDict):
    """View of the operator that gives the final answer: what was done and found, and why the work ended.

    `turns` is empty in SDP, whose agent has no transcript; `trace` then has every action and the world's answer.
    """

    task: Task
    belief: Belief
    turns: Sequence[Turn]
    trace: Sequence[Turn]
    evidence: Evidence
    answers: Sequence[AnsweredCall]
    """The calls of the user's own tools, in order, with their answers; those that were not made are marked."""
    certified: CertifiedState
    open: Sequence[Predicate]
    """The conditions of the plan that are not certified, in order; empty for methods without a plan."""
    facts: Sequence[Fact]
    """What verdicts on earlier actions established."""
    verdict: str
    """The reason of the latest verdict that has one."""
    gave_up: str
    """Why the planner gave up; empty if it did not."""
    stopped: str
    """Why a gate stopped the search; empty if none did."""


class GateView(AnswerView):
    """View of a gate, which stops a search that finds nothing new: the rounds so far, the latest last.

    The keys of `AnswerView` are for gates that ask a model.
    """

    rounds: Sequence[SearchRound]
    stagnation: Stagnation


def memory_view(state: Any) -> MemoryView:
    """Return the part of the state that the extractor, which updates the belief, may read."""
    return {"task": state["task"], "belief": belief_of(state), "observation": state["observation"]}


def gate_view(state: Any) -> GateView:
    """Return the part of the state that a gate may read. The round that has just ended is the last of `rounds`."""
    return {
        **answer_view(state),
        "rounds": [*state["rounds"], *latest_round(state)],
        "stagnation": stagnation_of(state),
    }


def latest_round(state: Any) -> list[SearchRound]:
    """Return the round that has just ended, as a list of one; an empty list before the first action."""
    if not state.get("action"):
        return []
    return [round_of(state["action"], state["observation"], state["rounds"], belief_of(state))]


def answer_view(state: Any) -> AnswerView:
    """Return the part of the state from which the final answer is given."""
    return {
        "task": state["task"],
        "belief": belief_of(state),
        "turns": remembered_turns(state) if "turns" in state else (),
        "trace": tuple(state.get("trace", ())),
        "evidence": state["evidence"],
        "answers": tuple(state.get("answers", ())),
        "certified": certified_state(state.get("certificates", ()), state.get("invalidations", ())),
        "open": tuple(state.get("plan", ())[state.get("head", 0) :]),
        "facts": facts_of(state.get("attempts", ())),
        "verdict": _latest_reason(state),
        "gave_up": state.get("gave_up", ""),
        "stopped": stagnation_of(state).reason if is_stopped(state) else "",
    }


def _latest_reason(state: Any) -> str:
    """Return the reason of the latest verdict that has one: actions that were chosen together have no verdict each."""
    latest = state.get("verdict")  # an audit that denied the goal has replaced that of the latest attempt
    if latest is not None and latest.reason:
        return str(latest.reason)
    reasons = (attempt.verdict.reason for attempt in reversed(state.get("attempts", ())))
    return next(filter(None, reasons), "")


def search_ending(state: BeliefState) -> str:
    """Return the ending of an episode of a search agent. If its answer was forced, the reason decides."""
    observation = state.get("observation")
    over = observation is not None and observation.done  # the world ended the episode before the gate could
    return forced_ending(state) or (EXHAUSTED if is_stopped(state) and not over else world_ending(state))


def forced_ending(state: RunState) -> str:
    """Return the ending that follows from the reason of a forced answer; an empty text if no answer was forced."""
    action = state.get("action")
    forced = action.args.get("forced") if action and action.kind == FINISH else None
    if forced is None:
        return ""
    return {BY_GATE: EXHAUSTED, BY_ROUNDS: WORLD_ENDED, BY_STEPS: "limit:steps"}.get(str(forced), GAVE_UP)


# State of parallel hypotheses (CGDP appendix B): the hypotheses, the search that followed each, and its answer.


AGREED = "agreed"
"""Key in the `args` of the answer: how many of the searches gave it, as in "2 of 3"."""


class Branch(Record):
    """The search for one hypothesis. Before it has run, only `number` (from 1) and `hypothesis` are set."""

    number: int
    hypothesis: str
    answer: str = ""
    """Answer that the search gave; empty if it gave none because its share of the budget was used up."""
    belief: str = ""
    """The belief at the end of the search, or the thoughts of its last turns."""
    retrieved: tuple[str, ...] = ()
    """Ids of the passages that the search retrieved, in order."""
    rounds: int = 0
    """Number of rounds of the search; submitting an answer does not count."""
    ending: str = ""


class HypothesesState(RunState, total=False):
    """State of a run that searches several hypotheses in parallel; `branches` are in the order in which they ended."""

    hypotheses: tuple[str, ...]
    branches: Log[Branch]


class HypothesiseView(TypedDict):
    """View of the operator that writes hypotheses: the task alone, because nothing has been searched yet."""

    task: Task


class ExploreView(TypedDict):
    """What the search for one hypothesis gets; `share` is the number of searches that divide the rest of the budget."""

    task: Task
    branch: Branch
    share: int
    spent: Spent


class AggregateView(TypedDict):
    """View of the operator that combines the searches' answers into one: all branches, by number of hypothesis."""

    task: Task
    branches: Sequence[Branch]


def hypothesise_view(state: HypothesesState) -> HypothesiseView:
    """Return the part of the state that the operator that writes hypotheses may read."""
    return {"task": state["task"]}


def explore_views(state: HypothesesState) -> list[ExploreView]:
    """Return the view of each search, one for each hypothesis."""
    branches = [Branch(number=n, hypothesis=text) for n, text in enumerate(state["hypotheses"], 1)]
    return [
        {"task": state["task"], "branch": branch, "share": len(branches), "spent": state["spent"]}
        for branch in branches
    ]


def aggregate_view(state: HypothesesState) -> AggregateView:
    """Return the part of the state that the operator which combines the answers may read."""
    return {"task": state["task"], "branches": sorted(state["branches"], key=lambda branch: branch.number)}

"""State of search and research agents: passages, actions, chains of hops, views, and parallel hypotheses."""

import datetime
import hashlib
from collections.abc import Sequence
from typing import Any, NamedTuple

from pydantic import JsonValue
from typing_extensions import TypedDict

from certigraph.state.records import (
    EXHAUSTED,
    GAVE_UP,
    WORLD_ENDED,
    Action,
    Arguments,
    Log,
    Observation,
    Record,
    Spent,
    Task,
    UnknownName,
)
from certigraph.state.run import (
    CLAIM,
    FINISH,
    Belief,
    BeliefState,
    CertifiedState,
    Evidence,
    KnownFinding,
    RunState,
    SearchRound,
    Stagnation,
    Turn,
    answer,
    belief_of,
    certified_state,
    finish,
    is_stopped,
    remembered_turns,
    round_of,
    stagnation_of,
    use_tool,
    world_ending,
)

# Passages: the pieces of text that search agents find. Graph state holds only their ids.


class Passage(Record):
    """One paragraph, dialogue turn or part of a file. Ids are unique within a corpus."""

    id: str
    title: str
    text: str


def lines_with_sources(text: str, sources: Sequence[str]) -> list[tuple[str, str]] | None:
    """Return each line of an observation with its source, or None if the observation is not a list of passages."""
    lines = text.splitlines()
    return list(zip(sources, lines, strict=True)) if len(lines) == len(sources) else None


# Observations of search worlds: one passage per line, or a refusal with its reason.


def to_observation(passages: Sequence[Passage], none: str = "", **data: JsonValue) -> Observation:
    """Create an observation of passages: one per line, their ids as sources; `none` is the text if there are none."""
    text = "\n".join(to_line(f"{p.title}: {p.text}" if p.title else p.text) for p in passages)
    return Observation(text=text or none, sources=tuple(p.id for p in passages), data=data)


def create_refusal(reason: str) -> Observation:
    """Create the observation of an action that the world refused."""
    return Observation(text=reason, accepted=False)


def to_line(text: str) -> str:
    """Join a text to one line."""
    return " ".join(text.split())


def to_storable_line(text: str) -> str:
    """Join a text to one line and drop what UTF-8 cannot encode: unpaired surrogates from a shell or a model."""
    return to_line(text.encode(errors="ignore").decode())


# The user's own question as a task: `certigraph ask`.

MAX_QUESTION_LENGTH = 2_000
"""Maximum number of characters of a question."""

GENERATED_WEB = "generated"
"""Name to give instead of a search provider for the generated web of the benchmark `web`, to try things out."""

DEFAULT_MODEL = "openai:gpt-4o-mini"
"""Model that answers if the user names none."""


def create_question_task(question: str, search: str = "", now: datetime.datetime | None = None) -> Task:
    """Create the task of a question, with the names of the search providers and the time of the question.

    Raises:
        UnknownName: the question is empty, or has more than 2,000 characters.
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
"""Kinds of actions: `open` reads one page; `research_step` does the searches and reads the pages of one step."""

COLLECT, FILTER, EXTRACT, COMPUTE = "collect", "filter", "extract", "compute"
"""Kinds of steps (SDP paper, appendix A.4): collect candidates, filter them, extract one fact, compute or compare."""

STEP_KINDS = (COLLECT, FILTER, EXTRACT, COMPUTE)
"""All kinds of steps."""


def open_page(url: str) -> Action:
    """Create an action that reads a page found by a search or named in the question."""
    return use_tool(OPEN, url)


def research_step(
    goal: str,
    queries: Sequence[str],
    urls: Sequence[str],
    known: Sequence[KnownFinding],
    *,
    rejected: int,
    elsewhere: bool,
) -> Action:
    """Create an action that gathers evidence for one step.

    Args:
        goal: what the step has to establish.
        queries: what to search for.
        urls: pages to read; only those that a search found or the question names are fetched.
        known: the findings so far; Validate sees them through the action alone.
        rejected: number of findings of this step that were refused so far.
        elsewhere: whether to ask the second source of evidence too.
    """
    summary = "; ".join([*(f"search: {query}" for query in queries), *(f"open: {url}" for url in urls)])
    args: dict[str, JsonValue] = {
        "goal": goal,
        "queries": [*queries],
        "urls": [*urls],
        "rejected": rejected,
        "elsewhere": elsewhere,
    }
    return Action(
        text=f"research[{summary or 'nothing new'}]", kind=RESEARCH, args={**args, **findings_argument(known)}
    )


def note_answer(text: str, known: Sequence[KnownFinding]) -> Action:
    """Create an action that notes an answer, with the findings that support it."""
    return _attach_findings(answer(text), known)


def submit_answer(text: str, known: Sequence[KnownFinding], **args: JsonValue) -> Action:
    """Create an action that submits an answer, with the findings that support it.

    `policy` in `args` names the policy that made the agent submit it.
    """
    return _attach_findings(finish(text, **args), known)


def findings_argument(known: Sequence[KnownFinding]) -> Arguments:
    """Return the argument by which an action carries findings."""
    return {"known": [finding.as_json() for finding in known]} if known else {}


def findings_of(args: Arguments) -> list[KnownFinding]:
    """Return the findings that an action carries."""
    known = args.get("known")
    return [KnownFinding.model_validate(item) for item in known] if isinstance(known, list) else []


def unique_texts(value: JsonValue) -> list[str]:
    """Return the unique, stripped, non-empty texts of a list in arguments; an empty list for any other value."""
    items = (str(item).strip() for item in value) if isinstance(value, list) else iter(())
    return list(dict.fromkeys(item for item in items if item))


def _attach_findings(action: Action, known: Sequence[KnownFinding]) -> Action:
    return action.model_copy(update={"args": {**action.args, **findings_argument(known)}})


# The chain of hops behind the answer to a multi-hop question: as certified, and as the answer's action carries it.


class HopFinding(NamedTuple):
    """A hop of a multi-hop question and what was found for it."""

    question: str
    finding: str
    entity: str
    """The name that later hops need."""
    passage: str = ""
    """Id of the passage that supports the finding; empty if it was not verified."""


def certified_hops(certified: CertifiedState) -> dict[int, HopFinding]:
    """Return the certified hops by index, in the order of their certificates."""
    pairs = zip(certified.actions, certified.evidence, strict=True)
    claims = ((action.args, passage) for action, passage in pairs if action.kind == CLAIM and "hop" in action.args)
    return {
        int(str(args["hop"])): HopFinding(str(args["subquestion"]), str(args["finding"]), str(args["entity"]), passage)
        for args, passage in claims
    }


def chain_argument(chain: Sequence[HopFinding]) -> Arguments:
    """Return the argument by which an answer carries its chain; Validate and the world see no certificates."""
    return {"chain": [[*hop] for hop in chain]} if chain else {}


def chain_of(args: Arguments) -> list[HopFinding]:
    """Return the chain that an answer carries."""
    chain = args.get("chain")
    return [HopFinding(*map(str, hop)) for hop in chain if isinstance(hop, list)] if isinstance(chain, list) else []


# Views of the operators that gather context (CGDP): memory, gate and final answer. They work on any graph's state.

BY_GATE, BY_ROUNDS, BY_STEPS, BY_METHOD = "gate", "rounds", "steps", "method"
"""Reasons for a forced final answer: the gate, the maximum number of rounds or of world steps, or the method gave up.
"""


class MemoryView(TypedDict):
    """The extractor sees b_t and o_t and nothing else of the episode (CGDP appendix E)."""

    task: Task
    belief: Belief
    observation: Observation


class GateView(TypedDict):
    """A gate sees the rounds so far, the latest last, and (if it asks a model) the state of the investigation."""

    task: Task
    rounds: Sequence[SearchRound]
    stagnation: Stagnation
    belief: Belief
    turns: Sequence[Turn]
    evidence: Evidence
    certified: CertifiedState


class AnswerView(TypedDict):
    """The operator that gives the final answer sees what is left in the agent's memory, and what is certified."""

    task: Task
    belief: Belief
    turns: Sequence[Turn]
    evidence: Evidence
    certified: CertifiedState


def memory_view(state: Any) -> MemoryView:
    """Return the part of the state that the extractor may read."""
    return {"task": state["task"], "belief": belief_of(state), "observation": state["observation"]}


def gate_view(state: Any) -> GateView:
    """Return the part of the state that a gate may read; the round that has just ended is the last of `rounds`."""
    return {
        **answer_view(state),
        "rounds": [*state["rounds"], *latest_round(state)],
        "stagnation": stagnation_of(state),
    }


def latest_round(state: Any) -> list[SearchRound]:
    """Return the round that has just ended and is not yet in `rounds`; an empty list before the first action."""
    return [round_of(state["action"], state["observation"], state["rounds"])] if state.get("action") else []


def answer_view(state: Any) -> AnswerView:
    """Return the part of the state that the operator that gives the final answer may read."""
    return {
        "task": state["task"],
        "belief": belief_of(state),
        "turns": remembered_turns(state) if "turns" in state else (),
        "evidence": state["evidence"],
        "certified": certified_state(state.get("certificates", ()), state.get("invalidations", ())),
    }


def search_ending(state: BeliefState) -> str:
    """Return the ending of an episode that a gate may have stopped; a forced answer gives the reason."""
    observation = state.get("observation")
    over = observation is not None and observation.done  # the world ended the episode before the gate could
    return forced_ending(state) or (EXHAUSTED if is_stopped(state) and not over else world_ending(state))


def forced_ending(state: RunState) -> str:
    """Return the ending that a forced answer stands for; an empty text if no answer was forced."""
    action = state.get("action")
    forced = action.args.get("forced") if action and action.kind == FINISH else None
    if forced is None:
        return ""
    return {BY_GATE: EXHAUSTED, BY_ROUNDS: WORLD_ENDED, BY_STEPS: "limit:steps"}.get(str(forced), GAVE_UP)


# State of parallel hypotheses (CGDP appendix B): the hypotheses, the search that followed each, and its answer.


class Branch(Record):
    """The search for one hypothesis. Before it has run, only `number` (from 1) and `hypothesis` are set."""

    number: int
    hypothesis: str
    answer: str = ""
    """Empty if the search gave none because its share of the budget was used up."""
    belief: str = ""
    """The search's belief at its end, or the thoughts of its last turns."""
    retrieved: tuple[str, ...] = ()
    """Ids of the passages it retrieved, in order."""
    rounds: int = 0
    """Number of rounds of search; submitting an answer does not count."""
    ending: str = ""


class HypothesesState(RunState, total=False):
    """State of a run of parallel hypotheses; `branches` are in the order in which they ended."""

    hypotheses: tuple[str, ...]
    branches: Log[Branch]


class HypothesiseView(TypedDict):
    """The operator that writes hypotheses sees the task; nothing has been searched yet."""

    task: Task


class ExploreView(TypedDict):
    """What one search gets; `share` is the number of searches that divide the rest of the budget."""

    task: Task
    branch: Branch
    share: int
    spent: Spent


class AggregateView(TypedDict):
    """The operator that aggregates sees every branch, in the order of the hypotheses."""

    task: Task
    branches: Sequence[Branch]


def hypothesise_view(state: HypothesesState) -> HypothesiseView:
    """Return the part of the state that the operator that writes hypotheses may read."""
    return {"task": state["task"]}


def explore_views(state: HypothesesState) -> list[ExploreView]:
    """Return the view of each search, one per hypothesis."""
    branches = [Branch(number=n, hypothesis=text) for n, text in enumerate(state["hypotheses"], 1)]
    return [
        {"task": state["task"], "branch": branch, "share": len(branches), "spent": state["spent"]}
        for branch in branches
    ]


def aggregate_view(state: HypothesesState) -> AggregateView:
    """Return the part of the state that the aggregator may read."""
    return {"task": state["task"], "branches": sorted(state["branches"], key=lambda branch: branch.number)}

"""State of search and research agents: actions, passages, beliefs, hypotheses and their views."""

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
    BelievingState,
    CertifiedState,
    Evidence,
    Known,
    Round,
    RunState,
    Stagnation,
    Turn,
    answer,
    belief_of,
    certified_state,
    finish,
    remembered_turns,
    round_of,
    stagnation_of,
    stopped,
    use,
    world_ending,
)

# Passages: the pieces of text that search agents find. They stay outside graph state, named by id.


class Passage(Record):
    """One paragraph, dialogue turn or piece of a file. Ids are unique within a corpus."""

    id: str
    title: str
    text: str


def listed_lines(text: str, sources: Sequence[str]) -> list[tuple[str, str]] | None:
    """The lines of an observation, each with the source that it shows; None where it is no list of passages."""
    lines = text.splitlines()
    return list(zip(sources, lines, strict=True)) if len(lines) == len(sources) else None


# How search worlds word their answers: a passage a line, and refusals with their reason.


def told(passages: Sequence[Passage], none: str = "", **data: JsonValue) -> Observation:
    """Passages as an observation: one a line, their ids as its sources; `none` where there are none."""
    text = "\n".join(line(f"{p.title}: {p.text}" if p.title else p.text) for p in passages)
    return Observation(text=text or none, sources=tuple(p.id for p in passages), data=data)


def refused(reason: str) -> Observation:
    """The answer to an action that the world did not take."""
    return Observation(text=reason, accepted=False)


def line(text: str) -> str:
    """The text on one line."""
    return " ".join(text.split())


def storable_line(text: str) -> str:
    """The text on one line, without what UTF-8 cannot hold: halves of characters, from a shell or a model."""
    return line(text.encode(errors="ignore").decode())


# A question of one's own as a task: `certigraph ask`.

LONGEST = 2_000
"""Characters of a question."""

GENERATED = "generated"
"""In place of a search provider: the web of the benchmark `web`, to try things out."""

MODEL = "openai:gpt-4o-mini"
"""Who answers where nobody is named."""


def asked(question: str, search: str = "", now: datetime.datetime | None = None) -> Task:
    """A question as a task, with the search providers that it names and the time at which it is asked.

    Raises:
        UnknownName: it is empty, or has more than 2,000 characters.
    """
    text = storable_line(question)
    if not text or len(text) > LONGEST:
        wrong = "is empty" if not text else f"has {len(text):,} characters"
        raise UnknownName(f"the question {wrong}: ask in 1 to {LONGEST:,} characters")
    at = now or datetime.datetime.now(datetime.UTC)
    id_ = hashlib.sha256(text.encode()).hexdigest()[:8]
    return Task(benchmark="ask", id=id_, goal=text, constants={"search": search, "asked": at.isoformat()})


# The actions of agents that research on the web: search, open a page, or both for one step of a plan.

OPEN, RESEARCH = "open", "research"
"""`open` reads one page; `research` is one step's searches and pages together."""

COLLECT, FILTER, EXTRACT, COMPUTE = "collect", "filter", "extract", "compute"
"""Kinds of steps (SDP paper, appendix A.4): raw candidates, fewer of them, one fact, a calculation or comparison."""

STEPS = (COLLECT, FILTER, EXTRACT, COMPUTE)


def open_page(url: str) -> Action:
    """Read a page that a search brought up or the question names."""
    return use(OPEN, url)


def research(
    goal: str, queries: Sequence[str], urls: Sequence[str], known: Sequence[Known], *, rejected: int, elsewhere: bool
) -> Action:
    """Gather evidence for one step.

    Args:
        goal: what the step is to establish.
        queries: what to search for.
        urls: pages to read; of those that neither a search brought up nor the question names, none is fetched.
        known: the findings so far: Validate sees them through the action alone.
        rejected: findings of this step that were refused so far.
        elsewhere: ask the second source of evidence too.
    """
    told = "; ".join([*(f"search: {query}" for query in queries), *(f"open: {url}" for url in urls)])
    args: dict[str, JsonValue] = {
        "goal": goal,
        "queries": [*queries],
        "urls": [*urls],
        "rejected": rejected,
        "elsewhere": elsewhere,
    }
    return Action(text=f"research[{told or 'nothing new'}]", kind=RESEARCH, args={**args, **findings_argument(known)})


def noted(text: str, known: Sequence[Known]) -> Action:
    """Note an answer, with the findings that it stands on."""
    return _with(answer(text), known)


def handed_in(text: str, known: Sequence[Known], **args: JsonValue) -> Action:
    """Hand an answer in, with the findings that it stands on; `policy` in `args` says what made it do."""
    return _with(finish(text, **args), known)


def findings_argument(known: Sequence[Known]) -> Arguments:
    """The argument by which an action carries findings along."""
    return {"known": [one.as_json() for one in known]} if known else {}


def findings_of(args: Arguments) -> list[Known]:
    """The findings that an action brought along."""
    known = args.get("known")
    return [Known.model_validate(one) for one in known] if isinstance(known, list) else []


def texts(value: JsonValue) -> list[str]:
    """The texts of a list among arguments, each once and without blanks around; none of anything else."""
    given = (str(one).strip() for one in value) if isinstance(value, list) else iter(())
    return list(dict.fromkeys(one for one in given if one))


def _with(action: Action, known: Sequence[Known]) -> Action:
    return action.model_copy(update={"args": {**action.args, **findings_argument(known)}})


# The chain of hops that an answer to a multi-hop question stands on, certified and as the answer carries it along.


class Hop(NamedTuple):
    """A hop and what was found for it."""

    question: str
    finding: str
    entity: str
    """What later hops need of it."""
    passage: str = ""
    """Id of the passage that bears it out; empty where nobody verified it."""


def certified_hops(certified: CertifiedState) -> dict[int, Hop]:
    """The certified hops by index, in the order of their certificates."""
    pairs = zip(certified.actions, certified.evidence, strict=True)
    claims = ((action.args, passage) for action, passage in pairs if action.kind == CLAIM and "hop" in action.args)
    return {
        int(str(args["hop"])): Hop(str(args["subquestion"]), str(args["finding"]), str(args["entity"]), passage)
        for args, passage in claims
    }


def chain_argument(chain: Sequence[Hop]) -> Arguments:
    """The argument by which an answer carries its chain along: neither Validate nor the world sees certificates."""
    return {"chain": [[*hop] for hop in chain]} if chain else {}


def chain_of(args: Arguments) -> list[Hop]:
    """The chain that an answer brought along."""
    chain = args.get("chain")
    return [Hop(*map(str, hop)) for hop in chain if isinstance(hop, list)] if isinstance(chain, list) else []


# The views of the operators that gather context (CGDP): memory, gate and final answer. Any graph's state will do.

BY_GATE, BY_ROUNDS, BY_STEPS, BY_METHOD = "gate", "rounds", "steps", "method"
"""What forced a final answer: the gate, the harness's own number of rounds, the world's steps, or a plan given up."""


class MemoryView(TypedDict):
    """The extractor sees b_t and o_t, nothing else of the episode (CGDP appendix E)."""

    task: Task
    belief: Belief
    observation: Observation


class GateView(TypedDict):
    """A gate sees the rounds so far, the latest last, and, where it asks a model, the state of the investigation."""

    task: Task
    rounds: Sequence[Round]
    stagnation: Stagnation
    belief: Belief
    turns: Sequence[Turn]
    evidence: Evidence
    certified: CertifiedState


class AnswerView(TypedDict):
    """Who has to give the final answer sees what the agent's memory left it, and what is certified."""

    task: Task
    belief: Belief
    turns: Sequence[Turn]
    evidence: Evidence
    certified: CertifiedState


def memory_view(state: Any) -> MemoryView:
    """The part of the state that the extractor may read."""
    return {"task": state["task"], "belief": belief_of(state), "observation": state["observation"]}


def gate_view(state: Any) -> GateView:
    """The part of the state that a gate may read; the round that has just ended is the last of `rounds`."""
    return {
        **answer_view(state),
        "rounds": [*state["rounds"], *latest_round(state)],
        "stagnation": stagnation_of(state),
    }


def latest_round(state: Any) -> list[Round]:
    """The round that has just ended and is not among `rounds` yet; none before the first action."""
    return [round_of(state["action"], state["observation"], state["rounds"])] if state.get("action") else []


def answer_view(state: Any) -> AnswerView:
    """The part of the state that the author of the final answer may read."""
    return {
        "task": state["task"],
        "belief": belief_of(state),
        "turns": remembered_turns(state) if "turns" in state else (),
        "evidence": state["evidence"],
        "certified": certified_state(state.get("certificates", ()), state.get("invalidations", ())),
    }


def ending(state: BelievingState) -> str:
    """Why an episode ended that a gate may have stopped: a forced answer says what forced it."""
    observation = state.get("observation")
    over = observation is not None and observation.done  # then the world came first
    return forced_ending(state) or (EXHAUSTED if stopped(state) and not over else world_ending(state))


def forced_ending(state: RunState) -> str:
    """The ending that a forced answer stands for; empty where none was given."""
    action = state.get("action")
    forced = action.args.get("forced") if action and action.kind == FINISH else None
    if forced is None:
        return ""
    return {BY_GATE: EXHAUSTED, BY_ROUNDS: WORLD_ENDED, BY_STEPS: "limit:steps"}.get(str(forced), GAVE_UP)


# State of parallel hypotheses (CGDP appendix B): directions, the search that followed each, and what it answered.


class Branch(Record):
    """One search. Before it ran it has a number, from 1, and a hypothesis."""

    number: int
    hypothesis: str
    answer: str = ""
    """Empty where it gave none: its share of the budget was spent, and what it found so far is all there is."""
    belief: str = ""
    """What it believed at its end, or the thoughts of its last turns."""
    retrieved: tuple[str, ...] = ()
    """Ids of the passages that it found, in order."""
    rounds: int = 0
    """Of search; handing in an answer is none."""
    ending: str = ""


class HypothesesState(RunState, total=False):
    """Everything a run of parallel hypotheses knows; `branches` in the order in which they ended."""

    hypotheses: tuple[str, ...]
    branches: Log[Branch]


class HypothesiseView(TypedDict):
    """Who thinks of hypotheses sees the task: nothing was searched yet."""

    task: Task


class ExploreView(TypedDict):
    """What one search gets; `share` is how many searches divide what is left of the budget."""

    task: Task
    branch: Branch
    share: int
    spent: Spent


class AggregateView(TypedDict):
    """Who aggregates sees every branch, in the order of the hypotheses."""

    task: Task
    branches: Sequence[Branch]


def hypothesise_view(state: HypothesesState) -> HypothesiseView:
    """The part of the state that the author of hypotheses may read."""
    return {"task": state["task"]}


def explore_views(state: HypothesesState) -> list[ExploreView]:
    """What each search gets, one a hypothesis."""
    branches = [Branch(number=n, hypothesis=text) for n, text in enumerate(state["hypotheses"], 1)]
    return [
        {"task": state["task"], "branch": branch, "share": len(branches), "spent": state["spent"]}
        for branch in branches
    ]


def aggregate_view(state: HypothesesState) -> AggregateView:
    """The part of the state that the aggregator may read."""
    return {"task": state["task"], "branches": sorted(state["branches"], key=lambda branch: branch.number)}

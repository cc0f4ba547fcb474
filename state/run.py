"""State of one run: task, episode log, evidence, certified state, belief, and the state of agents without predicates.

`RunState` is the base of every graph's state. The certified state is not stored: `certified_state` computes it from the
certificates of a run.
"""

import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain, takewhile
from operator import add
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple, NotRequired, TypeAlias

from pydantic import JsonValue
from typing_extensions import TypedDict

from certigraph.state.records import (
    GAVE_UP,
    GOAL,
    WORLD_ENDED,
    Action,
    Arguments,
    Certificate,
    Finding,
    Invalidation,
    Log,
    Observation,
    Predicate,
    Record,
    Spent,
    Step,
    Task,
    Usage,
)

# State that every graph has: the task, the log of the current episode, what the world shows, and what was spent.


class Evidence(Record):
    """What the world shows now, whatever the last action returned.

    It changes with every action and certifies nothing.
    """

    view: str = ""
    sources: tuple[str, ...] = ()
    """Ids of the passages retrieved so far, in worlds that retrieve passages."""


class NestedStart(Record):
    """Start of a run inside the world of another run, such as the run of a TDP sub-task."""

    episode: str
    """Key of the current episode."""
    steps: tuple[Step, ...] = ()
    """Steps taken in the world before this run."""
    observation: Observation
    """The latest observation of those steps."""
    apart: bool = False
    """Whether the run works on a copy of the world, where those steps are repeated first."""
    known: tuple[str, ...] = ()
    """Results of the sub-tasks that this one depends on."""
    last: bool = False
    """Whether this run completes the whole task."""


if TYPE_CHECKING:

    class TaskFields(TypedDict):
        """A task as a dictionary. The benchmark adds what is left out."""

        benchmark: str
        id: str
        goal: NotRequired[str]
        condition: NotRequired[str]
        constants: NotRequired[Arguments]

    TaskInput: TypeAlias = Task | TaskFields
else:
    TaskInput = Task  # the schema that a graph shows of its input


class RunInput(TypedDict):
    """Input that a caller gives: a task, or a dictionary with its benchmark and id."""

    task: TaskInput


class RunState(TypedDict, total=False):
    """The channels that the nodes `reset` and `act` and the usage meter write; every graph's state extends them."""

    task: Task
    episode: str
    """Key of the current episode in the episode table."""
    history: Log[Step]
    """The steps of this episode, which a replay repeats."""
    evidence: Evidence
    action: Action
    observation: Observation
    usage: Log[Usage]
    spent: Annotated[Spent, add]


def world_ending(state: RunState) -> str:
    """Return the ending of a run without predicates from the last observation of its world."""
    observation = state.get("observation")
    if observation and observation.solved:
        return GOAL
    return WORLD_ENDED if observation and observation.done else GAVE_UP


# The actions of search agents: search for passages, look something up on a page, record a finding, answer.

SEARCH, CLAIM, ANSWER, FINISH = "search", "claim", "answer", "finish"
"""Names of the actions: a later `answer` replaces an earlier one; `finish` submits an answer and ends the episode."""

RETRIEVED = "retrieved"
"""Key of an answer's `args`: ids of passages that were retrieved for it in other worlds of the same question."""

ACTION_PATTERN = re.compile(r"\s*(\w+)\s*\[(.*)\]\s*", re.DOTALL)
"""An action written as text, as in `search[...]`."""

ANSWER_ACTIONS = (ANSWER, FINISH)
"""Actions that carry an answer."""


def search(query: str, **args: JsonValue) -> Action:
    """Create an action that searches for passages.

    Args:
        query: what to search for.
        args: `k`, the number of passages; `alpha`, the weight of BM25 against vectors. The world has its own defaults.
    """
    return use_tool(SEARCH, query, **args)


def answer(text: str) -> Action:
    """Create an action that notes an answer; a later one replaces it, and the episode continues."""
    return use_tool(ANSWER, text)


def finish(text: str, **args: JsonValue) -> Action:
    """Create an action that submits an answer.

    `forced` in `args` gives the reason if the agent did not decide to submit it.
    """
    return Action(text=f"finish[{text}]", kind=FINISH, args={"answer": text, **args})


def claim(subquestion: str, *, finding: str, title: str, entity: str) -> Action:
    """Create an action that records the finding for a sub-question.

    `title` names the paragraph it is from; `entity` is the name that later hops need.
    """
    args: dict[str, JsonValue] = {"subquestion": subquestion, "finding": finding, "title": title, "entity": entity}
    return Action(text=f"claim[{entity}: {finding} ({title})]", kind=CLAIM, args=args)


def use_tool(tool: str, text: str, **args: JsonValue) -> Action:
    """Create an action that uses a tool of the world by its name, for example "search"."""
    field = "answer" if tool in ANSWER_ACTIONS else "query"
    return Action(text=f"{tool}[{text}]", kind=tool, args={field: text, **({} if tool in ANSWER_ACTIONS else args)})


def parse_action(action: Action) -> Action | None:
    """Parse an action written as text (`search[...]`) into a typed one; return None if it does not have that form."""
    if action.kind != "text":
        return action
    match = ACTION_PATTERN.fullmatch(action.text)
    return use_tool(match[1].lower(), match[2].strip()) if match else None


def query_of(action: Action) -> str:
    """Return the query of an action, or the text of one without a query. Actions are compared by it."""
    typed = parse_action(action)
    return str(typed.args.get("query") or typed.text) if typed else action.text


# The certified state, computed from certificates: SDP's state space (Table 1).


class KnownFinding(Record):
    """A finding, with the name of the policy that let it pass if it is not certified."""

    finding: Finding
    forced: str = ""


class CertifiedState(Record):
    """Everything certified so far, in order. The last predicate is the paper's s_t."""

    predicates: tuple[Predicate, ...] = ()
    actions: tuple[Action, ...] = ()
    evidence: tuple[str, ...] = ()
    """The evidence for each action, as its certificate states it."""
    known: tuple[KnownFinding, ...] = ()
    """The findings of all certificates; those of forced ones are included and marked."""


class Transition(Record):
    """One certified transition (s_t, a_t, s_t+k), SDP section 3.2."""

    before: CertifiedState
    action: Action
    after: CertifiedState
    depth: int
    step: int


def certified_states(certificates: Sequence[Certificate]) -> list[CertifiedState]:
    """Return all certified states from the empty one on: one more than there are certificates."""
    states = [CertifiedState()]
    for certificate in certificates:
        states.append(_next_state(states, certificate))
    return states


def certified_state(certificates: Sequence[Certificate], invalidations: Sequence[Invalidation] = ()) -> CertifiedState:
    """Return the latest certified state.

    Earlier states are only built if a certificate returns to one of them. Invalidated predicates are left out; the
    actions and findings of their certificates stay.
    """
    if any(c.restores is not None for c in certificates):
        latest = certified_states(certificates)[-1]
    else:
        # Called at every superstep with records that are validated already, so validation is skipped.
        certified = [c for c in certificates if not c.forced]
        latest = CertifiedState.model_construct(
            predicates=tuple(p for c in certified for p in c.targets),
            actions=tuple(c.action for c in certified),
            evidence=tuple(c.evidence for c in certified),
            known=_known_findings(certificates),
        )
    if not invalidations:
        return latest
    valid = tuple(entry.predicate for entry in predicates_in_force(certificates, invalidations))
    return latest.model_copy(update={"predicates": valid})


class CertifiedPredicate(NamedTuple):
    """A certified predicate and its position: target number `target` of certificate number `certificate`."""

    certificate: int
    target: int
    predicate: Predicate


def predicates_in_force(
    certificates: Sequence[Certificate], invalidations: Sequence[Invalidation] = ()
) -> list[CertifiedPredicate]:
    """Return the predicates of the latest certified state that were not invalidated since it was reached, in order.

    A return to an earlier state restores what was in force there, including what was invalidated in between.
    """
    if all(c.restores is None for c in certificates):
        entries = [
            entry for index, certificate in enumerate(certificates) for entry in _predicates_of(index, certificate)
        ]
        return _drop_invalidated(entries, invalidations)
    states: list[list[CertifiedPredicate]] = [[]]
    since = 0
    for index, certificate in enumerate(certificates):
        if certificate.restores is not None:
            states.append(states[certificate.restores])
        else:
            recent = [i for i in invalidations if since <= i.step < certificate.step]
            states.append([*_drop_invalidated(states[-1], recent), *_predicates_of(index, certificate)])
        since = certificate.step
    return _drop_invalidated(states[-1], [i for i in invalidations if i.step >= since])


def _predicates_of(index: int, certificate: Certificate) -> list[CertifiedPredicate]:
    if certificate.forced:
        return []
    return [CertifiedPredicate(index, number, predicate) for number, predicate in enumerate(certificate.targets)]


def _drop_invalidated(
    entries: Sequence[CertifiedPredicate], invalidations: Sequence[Invalidation]
) -> list[CertifiedPredicate]:
    lost = {(invalidation.certificate, invalidation.target) for invalidation in invalidations}
    return [entry for entry in entries if (entry.certificate, entry.target) not in lost]


def transitions(certificates: Sequence[Certificate]) -> list[Transition]:
    """Return the certified transitions in order; a forced certificate makes none."""
    states = certified_states(certificates)
    return [
        Transition(before=before, action=c.action, after=after, depth=c.depth, step=c.step)
        for before, c, after in zip(states, certificates, states[1:], strict=False)
        if not c.forced
    ]


def _next_state(states: Sequence[CertifiedState], certificate: Certificate) -> CertifiedState:
    if certificate.restores is not None:
        return states[certificate.restores]
    known = states[-1].known + _known_findings([certificate])
    if certificate.forced:
        return states[-1].model_copy(update={"known": known})
    return CertifiedState(
        predicates=states[-1].predicates + certificate.targets,
        actions=(*states[-1].actions, certificate.action),
        evidence=(*states[-1].evidence, certificate.evidence),
        known=known,
    )


def _known_findings(certificates: Sequence[Certificate]) -> tuple[KnownFinding, ...]:
    return tuple(KnownFinding.model_construct(finding=c.finding, forced=c.forced) for c in certificates if c.finding)


# The belief of a search agent (CGDP section 5.1), and the signals of a search that finds nothing new (section 5.2).

BeliefForm = Literal["native", "lobotomized", "structured", "freeform"]
"""Form of a belief: `native` is the complete transcript, `lobotomized` the latest observation (CGDP section 6.2)."""

COMPARED_ROUNDS = 3
"""Number of earlier rounds an action is compared with: a search that alternates between two queries stagnates too."""

MAX_GLIMPSE = 300
"""Maximum characters of an observation kept in its round, for gates that ask a model."""


class BelievedFact(Record):
    """A proposition that an observation confirmed, and its source."""

    text: str
    source: str = ""


class Belief(Record):
    """The belief state b_t.

    `window` is the number of latest turns the agent sees in addition to it; None means all. A structured belief has
    `facts` and `questions` (the open predicates, most important first), a freeform one has `notes` (plain text).
    """

    form: BeliefForm = "native"
    facts: tuple[BelievedFact, ...] = ()
    questions: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    window: int | None = None
    reorganised: int = 0
    """How often the belief was reduced to its target size."""

    @property
    def items(self) -> int:
        """Number of entries that count against the belief's capacity."""
        return len(self.facts) + len(self.questions) + len(self.notes)

    @property
    def text(self) -> str:
        """The belief as prompts show it; empty without any entry."""
        facts = [f"- {fact.text} ({fact.source})" if fact.source else f"- {fact.text}" for fact in self.facts]
        questions = [f"- {question}" for question in self.questions]
        sections = [("Facts:", facts), ("Still open:", questions), ("Notes:", self.notes)]
        return "\n".join(chain.from_iterable((name, *lines) for name, lines in sections if lines))


class SearchRound(Record):
    """Progress signals of one round (section 5.2), and what later rounds are compared with."""

    action: str
    chunks: tuple[str, ...]
    """Ids of the passages, or digests of the observation's lines if the world names no sources."""
    glimpse: str = ""
    jaccard: float
    """Highest token-level Jaccard similarity to an action of the `COMPARED_ROUNDS` previous rounds; 0 in the first."""
    upr: float
    """Unique passage rate: the share of chunks that no previous round has shown; 0 if nothing was found."""


class Stagnation(Record):
    """A gate's assessment of the rounds so far. `streak` counts the latest stagnant rounds in a row."""

    streak: int = 0
    level: float = 0.0
    """The moving average that a smoothing gate compares with its threshold."""
    stop: bool = False
    reason: str = ""
    advice: str = ""
    """A new direction for the agent, from a gate that gives one instead of stopping."""
    resampled: int = 0
    """How often the gate gave such advice."""
    at: int | None = None
    """The round (from 1) at which a shadow gate would have stopped the run."""
    answer: str | None = None
    """The answer that the agent would have given there."""


class BeliefState(RunState, total=False):
    """The channels of memory and gate, which any graph may have."""

    belief: Belief
    rounds: Log[SearchRound]
    stagnation: Stagnation


def belief_of(state: BeliefState) -> Belief:
    """Return the belief; an empty one if no memory has written yet."""
    return state.get("belief", Belief())


def stagnation_of(state: BeliefState) -> Stagnation:
    """Return the gate's latest assessment; an empty one without a gate or a round."""
    return state.get("stagnation", Stagnation())


def is_stopped(state: BeliefState) -> bool:
    """Return whether a gate has ended the search."""
    return stagnation_of(state).stop


def advice_of(state: BeliefState) -> tuple[str, ...]:
    """Return the gate's advice as a tuple of at most one text."""
    return tuple(filter(None, [stagnation_of(state).advice]))


def shown_advice(view: Mapping[str, Any]) -> Sequence[str]:
    """Return the advice in a view; an empty one if the view shows none."""
    if "advice" not in view:
        return ()
    advice: Sequence[str] = view["advice"]
    return advice


def round_of(action: Action, observation: Observation, before: Sequence[SearchRound]) -> SearchRound:
    """Return the signals of a round from its action, its observation and the previous rounds."""
    query, chunks = query_of(action), _chunks(observation)
    seen = set(chain.from_iterable(r.chunks for r in before))
    return SearchRound(
        action=query,
        chunks=chunks,
        glimpse=" ".join(observation.text.split())[:MAX_GLIMPSE],
        jaccard=max((jaccard(query, r.action) for r in before[-COMPARED_ROUNDS:]), default=0.0),
        upr=sum(chunk not in seen for chunk in chunks) / len(chunks) if chunks else 0.0,
    )


def jaccard(one: str, other: str) -> float:
    """Return the token-level Jaccard similarity of two texts, in [0, 1]; two texts without tokens have 1."""
    first, second = _tokens(one), _tokens(other)
    return len(first & second) / len(first | second) if first | second else 1.0


def _tokens(text: str) -> set[str]:
    return set(re.findall(r"\w+", text.lower()))


def _chunks(observation: Observation) -> tuple[str, ...]:
    if not observation.accepted:  # a refusal repeats the agent's own words, which are always new
        return ()
    if observation.sources:
        return tuple(dict.fromkeys(observation.sources))
    lines: Iterable[str] = (line.strip() for line in re.split(r"[\n.]+", observation.text))
    return tuple(dict.fromkeys(hashlib.sha256(line.encode()).hexdigest()[:8] for line in lines if line))


# State of the agents that act without predicates: ReAct, and what plan-and-solve adds to it.

REFUSED_PREFIX = "Refused: "
"""Prefix of an advice that names an action not to take."""


class Turn(Record):
    """One turn of an episode: the agent's thought and action, and the world's observation."""

    thought: str = ""
    action: str
    observation: str
    accepted: bool = True
    reward: float = 0.0
    sources: tuple[str, ...] = ()
    """Ids of the retrieved passages, in the order of the observation's lines."""


class ReActState(BeliefState, total=False):
    """State of a run of ReAct. `turns` holds the turns of the current episode only."""

    turns: Log[Turn]
    thought: str
    """The thought that led to `action`."""


def turns_message(state: ReActState) -> str:
    """Return how often an agent that gave up had repeated its last action; an empty text for any other ending."""
    latest = [turn.action for turn in reversed(state.get("turns", ()))]
    repeats = len(list(takewhile(lambda action: action == latest[0], latest)))
    if world_ending(state) != GAVE_UP or repeats < 2:
        return ""
    return f"the agent took the action {latest[0]!r} {repeats} times in a row; --budget repeats=N allows more"


class OutlineState(ReActState, total=False):
    """ReAct's state with a plan that is written once, before the first action."""

    outline: tuple[str, ...]


class DecideView(TypedDict):
    """What the acting agent sees: its assignment, its turns so far, the world now, and advice if there is any."""

    task: Task
    assignment: str
    """What the agent works on: the task's goal, or a sub-task whose executor must not see the task."""
    turns: Sequence[Turn]
    evidence: Evidence
    advice: Sequence[str]
    belief: Belief
    """Content of the agent's memory; empty without one."""


class OutlineView(TypedDict):
    """What the operator that writes the outline sees."""

    task: Task
    evidence: Evidence


def decide_view(state: ReActState) -> DecideView:
    """Return the part of the state that ReAct's agent may read."""
    return {
        "task": state["task"],
        "assignment": state["task"].goal,
        "turns": remembered_turns(state),
        "evidence": state["evidence"],
        "advice": advice_of(state),
        "belief": belief_of(state),
    }


def remembered_turns(state: ReActState) -> tuple[Turn, ...]:
    """Return the turns inside the window of the agent's memory."""
    turns, window = tuple(state["turns"]), belief_of(state).window
    return turns if window is None else turns[len(turns) - min(window, len(turns)) :]


def outlined_decide_view(state: OutlineState) -> DecideView:
    """Return the view of `decide_view` with the steps of the outline as advice."""
    return {**decide_view(state), "advice": state["outline"]}


def outline_view(state: OutlineState) -> OutlineView:
    """Return the part of the state that the operator that writes the outline may read."""
    return {"task": state["task"], "evidence": state["evidence"]}


def create_turn(thought: str, action: Action, observation: Observation) -> Turn:
    """Create the turn of an action and its observation."""
    return Turn(
        thought=thought,
        action=action.text,
        observation=observation.text,
        accepted=observation.accepted,
        reward=observation.reward,
        sources=observation.sources,
    )


def without_thoughts(turns: Iterable[Turn]) -> tuple[Turn, ...]:
    """Return the turns without thoughts: STEP's other roles and CLIN's memory do not see them."""
    return tuple(turn.model_copy(update={"thought": ""}) for turn in turns)

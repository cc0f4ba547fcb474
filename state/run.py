"""State of one run: task, episode log, evidence, certified state, belief, and agents without predicates."""

import hashlib
import re
from collections.abc import Iterable, Sequence
from itertools import chain
from operator import add
from typing import Annotated, Literal, NamedTuple

from pydantic import JsonValue
from typing_extensions import TypedDict

from certigraph.state.records import (
    GAVE_UP,
    GOAL,
    WORLD_ENDED,
    Action,
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

# What the state of every graph has: the task, the live episode's log, what the world shows, and what was spent.


class Evidence(Record):
    """What the world shows now, whatever the last action answered. Changes with every action; not certified."""

    view: str = ""
    sources: tuple[str, ...] = ()
    """Ids of the passages at hand, where the world finds passages."""


class Entry(Record):
    """Where a run begins that is a part of another, in its world: TDP's sub-tasks are such runs."""

    episode: str
    """Key of the live episode."""
    steps: tuple[Step, ...] = ()
    """What was done in the world before."""
    observation: Observation
    """What it answered last."""
    apart: bool = False
    """Whether the run gets a copy of the world, where those steps are repeated first."""
    known: tuple[str, ...] = ()
    """What the parts that it builds on came to."""
    last: bool = False
    """Whether it settles the whole task."""


class RunInput(TypedDict):
    """What a caller gives: a task, or just its benchmark and id."""

    task: Task


class RunState(TypedDict, total=False):
    """The channels that the nodes `reset` and `act` and the meter write; every graph's state extends them."""

    task: Task
    episode: str
    """Key of the live episode in the episode table."""
    history: Log[Step]
    """The log of this episode: what a replay repeats."""
    evidence: Evidence
    action: Action
    observation: Observation
    usage: Log[Usage]
    spent: Annotated[Spent, add]


def world_ending(state: RunState) -> str:
    """Why a run without predicates ended, by what its world said last."""
    observation = state.get("observation")
    if observation and observation.solved:
        return GOAL
    return WORLD_ENDED if observation and observation.done else GAVE_UP


# The actions of search agents: they look for passages, look further on a page, file a finding, answer.

SEARCH, CLAIM, ANSWER, FINISH = "search", "claim", "answer", "finish"
"""`answer` may be given anew, `finish` hands an answer in and ends the episode."""

RETRIEVED = "retrieved"
"""In the `args` of an answer: ids of passages that were found for it in other worlds of the same question."""

WRITTEN = re.compile(r"\s*(\w+)\s*\[(.*)\]\s*", re.DOTALL)

ANSWERS = (ANSWER, FINISH)


def search(query: str, **args: JsonValue) -> Action:
    """Look for passages. `args`: `k`, how many; `alpha`, the weight of BM25 against vectors; else the world's own."""
    return use(SEARCH, query, **args)


def answer(text: str) -> Action:
    """Note an answer, which a later one replaces; the episode goes on."""
    return use(ANSWER, text)


def finish(text: str, **args: JsonValue) -> Action:
    """Hand in an answer. `forced` in `args` says why it was not the agent's own decision."""
    return Action(text=f"finish[{text}]", kind=FINISH, args={"answer": text, **args})


def claim(subquestion: str, *, finding: str, title: str, entity: str) -> Action:
    """File what was found for a sub-question, the title of its paragraph, and the entity that later hops need."""
    args: dict[str, JsonValue] = {"subquestion": subquestion, "finding": finding, "title": title, "entity": entity}
    return Action(text=f"claim[{entity}: {finding} ({title})]", kind=CLAIM, args=args)


def use(tool: str, text: str, **args: JsonValue) -> Action:
    """Use a tool of the world by its name; `search` and `finish` are two that most have."""
    field = "answer" if tool in ANSWERS else "query"
    return Action(text=f"{tool}[{text}]", kind=tool, args={field: text, **({} if tool in ANSWERS else args)})


def parsed(action: Action) -> Action | None:
    """The action that an agent means which wrote it freely, as `search[...]`; None where it is not of that form."""
    if action.kind != "text":
        return action
    match = WRITTEN.fullmatch(action.text)
    return use(match[1].lower(), match[2].strip()) if match else None


def asked_for(action: Action) -> str:
    """The words that an action looks for; of other actions their text. Two actions are compared by these."""
    meant = parsed(action)
    return str(meant.args.get("query") or meant.text) if meant else action.text


# The certified state, folded from certificates: SDP's state space (Table 1).


class Known(Record):
    """A finding, and the policy that let it pass where none of it is certified."""

    finding: Finding
    forced: str = ""


class CertifiedState(Record):
    """Everything certified so far, in order. The last predicate is the paper's s_t."""

    predicates: tuple[Predicate, ...] = ()
    actions: tuple[Action, ...] = ()
    evidence: tuple[str, ...] = ()
    """What bears out each action, as its certificate has it."""
    known: tuple[Known, ...] = ()
    """The findings of certificates; those that were forced are handed on too, and marked."""


class Transition(Record):
    """One certified transition (s_t, a_t, s_t+k), SDP section 3.2."""

    before: CertifiedState
    action: Action
    after: CertifiedState
    depth: int
    step: int


def certified_states(certificates: Sequence[Certificate]) -> list[CertifiedState]:
    """All certified states, the empty one first: one more than there are certificates."""
    states = [CertifiedState()]
    for certificate in certificates:
        states.append(_after(states, certificate))
    return states


def certified_state(certificates: Sequence[Certificate], invalidations: Sequence[Invalidation] = ()) -> CertifiedState:
    """The latest certified state, without building those before it unless one was returned to.

    Invalidated predicates are left out of it; the actions and findings of their certificates stay.
    """
    if any(c.restores is not None for c in certificates):
        latest = certified_states(certificates)[-1]
    else:
        # Asked for at every superstep, and made of records that are valid already.
        certified = [c for c in certificates if not c.forced]
        latest = CertifiedState.model_construct(
            predicates=tuple(p for c in certified for p in c.targets),
            actions=tuple(c.action for c in certified),
            evidence=tuple(c.evidence for c in certified),
            known=_known(certificates),
        )
    if not invalidations:
        return latest
    held = tuple(place.predicate for place in predicates_in_force(certificates, invalidations))
    return latest.model_copy(update={"predicates": held})


class Place(NamedTuple):
    """A certified predicate and where its certificate is: target number `target` of certificate `certificate`."""

    certificate: int
    target: int
    predicate: Predicate


def predicates_in_force(certificates: Sequence[Certificate], invalidations: Sequence[Invalidation] = ()) -> list[Place]:
    """The predicates of the latest certified state that were not invalidated since it was reached, in order.

    A return to an earlier state brings back what was in force there, also what was invalidated in between.
    """
    if all(c.restores is None for c in certificates):
        places = [place for index, certificate in enumerate(certificates) for place in _places(index, certificate)]
        return _without(places, invalidations)
    states: list[list[Place]] = [[]]
    since = 0
    for index, certificate in enumerate(certificates):
        if certificate.restores is not None:
            states.append(states[certificate.restores])
        else:
            recent = [i for i in invalidations if since <= i.step < certificate.step]
            states.append([*_without(states[-1], recent), *_places(index, certificate)])
        since = certificate.step
    return _without(states[-1], [i for i in invalidations if i.step >= since])


def _places(index: int, certificate: Certificate) -> list[Place]:
    """The predicates that certificate number `index` adds to the certified state."""
    if certificate.forced:
        return []
    return [Place(index, number, predicate) for number, predicate in enumerate(certificate.targets)]


def _without(places: Sequence[Place], invalidations: Sequence[Invalidation]) -> list[Place]:
    lost = {(invalidation.certificate, invalidation.target) for invalidation in invalidations}
    return [place for place in places if (place.certificate, place.target) not in lost]


def transitions(certificates: Sequence[Certificate]) -> list[Transition]:
    """The certified transitions in order; none where a policy forced a target."""
    states = certified_states(certificates)
    return [
        Transition(before=before, action=c.action, after=after, depth=c.depth, step=c.step)
        for before, c, after in zip(states, certificates, states[1:], strict=False)
        if not c.forced
    ]


def _after(states: Sequence[CertifiedState], certificate: Certificate) -> CertifiedState:
    if certificate.restores is not None:
        return states[certificate.restores]
    known = states[-1].known + _known([certificate])
    if certificate.forced:
        return states[-1].model_copy(update={"known": known})
    return CertifiedState(
        predicates=states[-1].predicates + certificate.targets,
        actions=(*states[-1].actions, certificate.action),
        evidence=(*states[-1].evidence, certificate.evidence),
        known=known,
    )


def _known(certificates: Sequence[Certificate]) -> tuple[Known, ...]:
    return tuple(Known.model_construct(finding=c.finding, forced=c.forced) for c in certificates if c.finding)


# What a search agent believes (CGDP section 5.1), and the signs that its search has run dry (section 5.2).

Form = Literal["native", "lobotomized", "structured", "freeform"]

RECENT = 3
"""Rounds back that an action is compared with: a search that alternates between two queries stagnates too."""

GLIMPSE = 300
"""Characters of an observation that a round keeps, for gates that ask a model."""


class Fact(Record):
    """A proposition that an observation confirmed, and where it stands."""

    text: str
    source: str = ""


class Belief(Record):
    """The belief state b_t. `window` is how many of the latest turns the agent sees beside it; None: all of them.

    Structured: `facts` and `questions`, the open predicates, the most important first. Freeform: `notes`, plain text.
    """

    form: Form = "native"
    facts: tuple[Fact, ...] = ()
    questions: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    window: int | None = None
    reorganised: int = 0
    """How often it was curated down to its target size."""

    @property
    def items(self) -> int:
        """What counts against its capacity."""
        return len(self.facts) + len(self.questions) + len(self.notes)

    @property
    def text(self) -> str:
        """As prompts show it; empty where nothing is believed yet."""
        facts = [f"- {fact.text} ({fact.source})" if fact.source else f"- {fact.text}" for fact in self.facts]
        questions = [f"- {question}" for question in self.questions]
        told = [("Facts:", facts), ("Still open:", questions), ("Notes:", self.notes)]
        return "\n".join(chain.from_iterable((name, *lines) for name, lines in told if lines))


class Round(Record):
    """What one round showed of progress: section 5.2's two signals, and what later rounds are compared with."""

    action: str
    chunks: tuple[str, ...]
    """Passage ids, or digests of the observation's lines where the world names no sources."""
    glimpse: str = ""
    jaccard: float
    """Highest token-level Jaccard similarity to an action of the `RECENT` rounds before; 0 in the first round."""
    upr: float
    """Unique passage rate: the share of chunks that no round before has shown; 0 where nothing was found."""


class Stagnation(Record):
    """What a gate makes of the rounds so far. `streak` counts the latest stagnant rounds in a row."""

    streak: int = 0
    level: float = 0.0
    """Of gates that smooth: the moving average that they compare."""
    stop: bool = False
    reason: str = ""
    advice: str = ""
    """A new direction for the agent to take, where the gate gives one instead of stopping."""
    resampled: int = 0
    """How often it gave one."""
    at: int | None = None
    """The round, from 1, at which a shadow gate would have stopped the run."""
    answer: str | None = None
    """What the agent would have answered there."""


class BelievingState(RunState, total=False):
    """The channels of memory and gate, which any graph may take."""

    belief: Belief
    rounds: Log[Round]
    stagnation: Stagnation


def belief_of(state: BelievingState) -> Belief:
    """What is believed; nothing where no memory has written yet."""
    return state.get("belief", Belief())


def stagnation_of(state: BelievingState) -> Stagnation:
    """What the gate made of the latest round; nothing where there is no gate, or no round."""
    return state.get("stagnation", Stagnation())


def stopped(state: BelievingState) -> bool:
    """Whether a gate has ended the search."""
    return stagnation_of(state).stop


def advised(state: BelievingState) -> tuple[str, ...]:
    """The direction that a gate has given, if any."""
    return tuple(filter(None, [stagnation_of(state).advice]))


def round_of(action: Action, observation: Observation, before: Sequence[Round]) -> Round:
    """The signals of a round, from its action and answer and the rounds before it."""
    words, chunks = asked_for(action), _chunks(observation)
    seen = set(chain.from_iterable(r.chunks for r in before))
    return Round(
        action=words,
        chunks=chunks,
        glimpse=" ".join(observation.text.split())[:GLIMPSE],
        jaccard=max((jaccard(words, r.action) for r in before[-RECENT:]), default=0.0),
        upr=sum(chunk not in seen for chunk in chunks) / len(chunks) if chunks else 0.0,
    )


def jaccard(one: str, other: str) -> float:
    """Token-level Jaccard similarity of two texts, 0 to 1; two texts without any token are alike."""
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

REFUSED = "Refused: "
"""How the advice begins that names an action not to take."""


class Turn(Record):
    """One turn of an episode: what the agent thought and did, and what the world answered."""

    thought: str = ""
    action: str
    observation: str
    accepted: bool = True
    reward: float = 0.0
    sources: tuple[str, ...] = ()
    """Ids of the passages that were found, in the order of the observation's lines."""


class ActingState(BelievingState, total=False):
    """Everything a run of ReAct knows; `turns` are this episode's."""

    turns: Log[Turn]
    thought: str
    """The thought behind `action`."""


class OutlineState(ActingState, total=False):
    """ReAct's state with a plan that is written once, before the first action."""

    outline: tuple[str, ...]


class DecideView(TypedDict):
    """What the agent that acts sees: its assignment, what it did so far, the world now, and advice if it has any."""

    task: Task
    assignment: str
    """What it works on: the task's goal, or a subtask whose executor must not see the task."""
    turns: Sequence[Turn]
    evidence: Evidence
    advice: Sequence[str]
    belief: Belief
    """What its memory holds; empty without one."""


class OutlineView(TypedDict):
    """What the writer of an outline sees."""

    task: Task
    evidence: Evidence


def decide_view(state: ActingState) -> DecideView:
    """The part of the state that ReAct's agent may read."""
    return {
        "task": state["task"],
        "assignment": state["task"].goal,
        "turns": remembered_turns(state),
        "evidence": state["evidence"],
        "advice": advised(state),
        "belief": belief_of(state),
    }


def remembered_turns(state: ActingState) -> tuple[Turn, ...]:
    """The turns that the agent's memory leaves it."""
    turns, window = tuple(state["turns"]), belief_of(state).window
    return turns if window is None else turns[len(turns) - min(window, len(turns)) :]


def outlined_view(state: OutlineState) -> DecideView:
    """The same, with the steps of the plan as advice."""
    return {**decide_view(state), "advice": state["outline"]}


def outline_view(state: OutlineState) -> OutlineView:
    """The part of the state that the writer of an outline may read."""
    return {"task": state["task"], "evidence": state["evidence"]}


def turn_of(thought: str, action: Action, observation: Observation) -> Turn:
    """The turn that an action and its answer make."""
    return Turn(
        thought=thought,
        action=action.text,
        observation=observation.text,
        accepted=observation.accepted,
        reward=observation.reward,
        sources=observation.sources,
    )


def acts(turns: Iterable[Turn]) -> tuple[Turn, ...]:
    """The turns as actions and answers, without thoughts: STEP's other roles and CLIN's memory do not see them."""
    return tuple(turn.model_copy(update={"thought": ""}) for turn in turns)

"""State of one run: task, episode log, evidence, belief, and the state of agents without predicates.

`RunState` is the base of every graph's state.
"""

import hashlib
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain, takewhile
from operator import add, not_
from typing import TYPE_CHECKING, Annotated, Any, Literal, NotRequired, TypeAlias

from pydantic import Field, JsonValue
from typing_extensions import TypedDict

from certigraph.state.call_checks import CallCheck
from certigraph.state.channels import Log, LogIndexes
from certigraph.state.endings import FINISHED, GAVE_UP, GOAL, QUESTION, WORLD_ENDED, Fault
from certigraph.state.provenance import SourcedText
from certigraph.state.records import (
    Action,
    Arguments,
    Audit,
    Certificate,
    Observation,
    Predicate,
    Record,
    Scores,
    Spent,
    Step,
    StoredArguments,
    Task,
    Usage,
)

# State that every graph has: the task, the log of the current episode, what the world shows, and what was spent.


class Evidence(Record):
    """What the world shows at present, independent of what the last action returned.

    Evidence changes with every action and certifies nothing.
    """

    view: str = ""
    sources: tuple[str, ...] = ()
    """Ids of the passages retrieved so far, in worlds that retrieve passages."""


class AnsweredCall(Record):
    """A call of a tool that an agent chose, and what was answered."""

    tool: str
    args: StoredArguments = Field(default_factory=dict)
    answer: str = ""
    """What the tool answered, or its error; of a call that was not made, why not, or what a person answered for it.

    Empty for a call of another sub-task, whose answer this one does not see."""
    failed: bool = False
    """Whether the tool raised an error, or the call was refused."""
    made: bool = True
    """Whether the tool was called. A call that was refused, or that a person answered in its place, was not."""
    lasting: bool = True
    """Whether the effect of such a call lasts. A look-up has none."""
    action: int = 0
    """Number of the action in which it was chosen, from 1; 0 for a call of an earlier turn or sub-task."""
    earlier: bool = False
    """Whether it was made in an earlier turn of the thread. Prompts then show only the beginning of the answer."""
    quotable: bool = Field(default=True, exclude_if=bool)
    """Whether its answer shows what is so. One in which an agent reads what agents wrote shows nothing."""


class Commitment(Record):
    """What was committed to for a task with tools before any tool's answer was read."""

    tools: tuple[str, ...] = ()
    """The tools that may be called."""
    origins: dict[str, dict[str, tuple[str, ...]]] | None = None
    """By tool and argument, the tools whose answers may supply the value.

    An argument that is not named takes its value from the task alone. None if only the tools are committed to.
    """
    worked_out: dict[str, tuple[str, ...]] = Field(default_factory=dict)
    """By tool, the arguments whose values the agent may work out itself."""
    approvable: tuple[str, ...] = ()
    """Tools of which a person may approve a call, also if they are not among `tools`."""


class Draft(Record):
    """What an operator wrote for another one in the same request; only that one, as it is shipped, uses it."""

    plan: tuple[Predicate, ...] = ()
    """For `propose`."""
    action: Action | None = None
    thought: str = ""
    """For `decide`: the first action, and the thought before it."""
    chain: tuple[Action, ...] = ()
    """For `realize`: the first actions."""


class NestedStart(Record):
    """Starting point of a run inside the world of another run, such as the run for a TDP sub-task."""

    episode: str
    """Key of the current episode of the outer run."""
    steps: tuple[Step, ...] = ()
    """Steps that the outer run took in the world before."""
    observation: Observation
    """The observation of the last of those steps."""
    apart: bool = False
    """Whether the run works on a copy of the world. The steps are then first repeated in that copy."""
    known: tuple[str, ...] = ()
    """Results of the sub-tasks that this run's sub-task depends on, and of its own earlier run if it begins again."""
    last: bool = False
    """Whether this run completes the whole task."""
    whole: bool = False
    """Whether this run's task is the whole task, and not a part of it."""
    single: bool = False
    """Whether one action is expected to be enough for this run's task."""
    words: str = ""
    """What the person wrote to the outermost run, in which the values that need no permission stand."""
    heard: tuple[SourcedText, ...] = ()
    """What others wrote before that run began (`Provenance.heard`)."""
    commitment: Commitment | None = None
    """What the outermost run committed to."""
    answers: tuple[AnsweredCall, ...] = ()
    """The calls before with their answers: those of earlier turns whose effect lasts, and those of earlier sub-tasks.

    The latter only if that commitment is to the origin of arguments, or if calls are checked.
    """


if TYPE_CHECKING:

    class TaskFields(TypedDict):
        """A task as a dictionary. The benchmark adds the fields that are left out."""

        benchmark: str
        id: str
        goal: NotRequired[str]
        condition: NotRequired[str]
        constants: NotRequired[Arguments]

    TaskInput: TypeAlias = Task | TaskFields
else:
    TaskInput = Task  # the schema that a graph shows of its input


class RunInput(TypedDict):
    """Input of a graph: a task, or a dictionary with the benchmark and id of a task."""

    task: TaskInput


class RunState(TypedDict, total=False):
    """Base of every graph's state: task, episode log, evidence, latest action and observation, and cost.

    The graph nodes `reset` and `act` and the usage meter write these channels.
    """

    task: Task
    episode: str
    """Key under which the world of the current episode is found."""
    history: Log[Step]
    """The steps of this episode in order. A resumed run repeats them to rebuild the world."""
    evidence: Evidence
    answers: Log[AnsweredCall]
    """The calls of the user's own tools in this episode, in order, with their answers; no prompt is read for them."""
    checks: Log[CallCheck]
    """What was found about calls before they were made, in order. Written by the optional node `check`."""
    action: Action
    observation: Observation
    commitment: Commitment | None
    """Written by the optional node `commit`."""
    draft: Draft | None
    """Written by an operator that shares a request with the operator after it."""
    upcoming: tuple[Action, ...]
    """Actions that were chosen together with the latest one, to follow it one by one."""
    untaken: tuple[Action, ...]
    """Actions that were to follow and were cut off, because what was expected did not come, until new ones are chosen.
    """
    usage: Log[Usage]
    spent: Annotated[Spent, add]
    ending: str
    """How the run ended; empty while it goes on. Written, with the keys after it, by the last node, `result`."""
    ending_reason: str
    """Why it ended so, as the method says; empty where the ending says all."""
    scores: Scores | None
    """The world's score, of several episodes the best one."""
    operators: dict[str, str]
    """The operators that ran, by slot."""


def world_ending(state: RunState) -> str:
    """Return the ending of a run without predicates, from the last observation of its world."""
    observation = state.get("observation")
    if observation and observation.solved:
        return GOAL
    return WORLD_ENDED if observation and observation.done else GAVE_UP


# The actions of search agents: search for passages, look something up on a page, record a finding, answer.

SEARCH, CLAIM, ANSWER, FINISH = "search", "claim", "answer", "finish"
"""Names of the actions of search agents.

`answer` notes an answer, which a later `answer` replaces. `finish` submits an answer and ends the episode.
"""

RETRIEVED = "retrieved"
"""Key in the `args` of an action that answers: ids of passages that were retrieved for the answer elsewhere.

Parallel hypotheses use it: each is searched in a world of its own for the same question.
"""

ACTION_PATTERN = re.compile(r"\s*(\w+)\s*\[(.*)\]\s*", re.DOTALL)
"""Pattern of an action that is written as text, as in `search[...]`."""

ANSWER_ACTIONS = (ANSWER, FINISH)
"""Names of the actions that carry an answer."""


def search(query: str, **args: JsonValue) -> Action:
    """Create an action that searches for passages.

    Args:
        query: what to search for.
        args: `k`, the number of passages; `alpha`, the weight of BM25 in hybrid retrieval, from 0 (vectors only) to 1
            (BM25 only); `rerank`, the cross-encoder that reorders the first results; `candidates`, their number. The
            world has a default for each, and does not rerank by default.
    """
    return use_tool(SEARCH, query, **args)


def search_settings(
    *, alpha: float | None = None, k: int | None = None, rerank: str | None = None, candidates: int | None = None
) -> dict[str, JsonValue]:
    """Return the arguments of `search` that are set; None leaves one out.

    Raises:
        Fault: ("data") `rerank` is not text, or `candidates` not a positive whole number.
    """
    if rerank is not None and not isinstance(rerank, str):
        raise Fault("data", f"rerank={rerank!r} names no cross-encoder: write for example rerank=ms-marco-MiniLM-L6-v2")
    if candidates is not None and (type(candidates) is not int or candidates < 1):
        raise Fault("data", f"candidates={candidates!r} is not a number of results to rerank: write 1 or more")
    settings: dict[str, JsonValue] = {"alpha": alpha, "k": k, "rerank": rerank, "candidates": candidates}
    return {name: value for name, value in settings.items() if value is not None}


def answer(text: str) -> Action:
    """Create an action that notes an answer. The episode continues, and a later answer replaces this one."""
    return use_tool(ANSWER, text)


def finish(text: str, **args: JsonValue) -> Action:
    """Create an action that submits an answer and ends the episode.

    If the agent did not decide to submit the answer, `forced` in `args` says why it had to.
    """
    return Action(text=f"finish[{text}]", kind=FINISH, args={"answer": text, **args})


def claim(subquestion: str, *, finding: str, title: str, entity: str) -> Action:
    """Create an action that claims a finding for a sub-question of a multi-hop question.

    `title` names the paragraph that supports the finding. `entity` is the name that later sub-questions need.
    """
    args: dict[str, JsonValue] = {"subquestion": subquestion, "finding": finding, "title": title, "entity": entity}
    return Action(text=f"claim[{entity}: {finding} ({title})]", kind=CLAIM, args=args)


def use_tool(tool: str, text: str, **args: JsonValue) -> Action:
    """Create an action that uses a tool of the world, which is given by name, for example "search"."""
    field = "answer" if tool in ANSWER_ACTIONS else "query"
    return Action(text=f"{tool}[{text}]", kind=tool, args={field: text, **({} if tool in ANSWER_ACTIONS else args)})


def parse_action(action: Action) -> Action | None:
    """Parse an action written as text (`search[...]`) into a typed action; None if the text has another form."""
    if action.kind != "text":
        return action
    match = ACTION_PATTERN.fullmatch(action.text)
    return use_tool(match[1].lower(), match[2].strip()) if match else None


def query_of(action: Action) -> str:
    """Return the query of an action, or its text if it has no query. Actions are compared by this text."""
    typed = parse_action(action)
    return str(typed.args.get("query") or typed.text) if typed else action.text


# The belief of a search agent (CGDP section 5.1), and the signals of a search that finds nothing new (section 5.2).

BeliefForm = Literal["native", "lobotomized", "structured", "freeform"]
"""Form in which a search agent keeps its belief (CGDP section 6.2).

`native`: the complete transcript. `lobotomized`: the latest observation only. `structured`: facts and open questions.
`freeform`: plain notes.
"""

BELIEF_FORMS = ("structured", "freeform")
"""Forms of beliefs to which each round adds, and which replace the turns before the latest few."""

COMPARED_ROUNDS = 3
"""Number of earlier rounds with which an action is compared, so that alternating between two queries is noticed."""

MAX_GLIMPSE, MAX_GLIMPSE_LINE = 3_000, 150
"""Maximum characters of an observation, and of each of its lines, that are stored in its round, for gates that ask a
model. Worlds of passages write one a line.
"""


class BelievedFact(Record):
    """A statement that an observation confirmed, and the source of that observation."""

    text: str
    source: str = ""


class Belief(Record):
    """The belief of a search agent: what it remembers of the episode (b_t in CGDP section 5.1).

    `window` is the number of latest turns that the agent sees in addition; None means all. A structured belief has
    `facts` and `questions` (still open, the most important first). A freeform belief has `notes` in plain text.
    """

    form: BeliefForm = "native"
    facts: tuple[BelievedFact, ...] = ()
    questions: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    window: int | None = None
    searches: int = 8
    """How many of the latest actions before those turns a search agent is reminded of, if the belief replaces them."""
    reorganised: int = 0
    """How often the belief was shortened to its target size."""

    @property
    def items(self) -> int:
        """Number of entries that count against the belief's capacity."""
        return len(self.facts) + len(self.questions) + len(self.notes)

    @property
    def entries(self) -> tuple[str, ...]:
        """The texts of the entries that count against the belief's capacity."""
        return (*(fact.text for fact in self.facts), *self.questions, *self.notes)

    @property
    def text(self) -> str:
        """The belief as prompts show it; empty without any entry."""
        facts = [f"- {fact.text} ({fact.source})" if fact.source else f"- {fact.text}" for fact in self.facts]
        questions = [f"- {question}" for question in self.questions]
        sections = [("Facts:", facts), ("Still open:", questions), ("Notes:", self.notes)]
        return "\n".join(chain.from_iterable((name, *lines) for name, lines in sections if lines))


class SearchRound(Record):
    """Signals of progress of one search round (CGDP section 5.2), and the text that later rounds are compared with."""

    action: str
    tools: tuple[str, ...] = Field(default=(), exclude_if=not_)
    """Names of the tools that the action calls, sorted; empty in worlds without tools."""
    values: str = Field(default="", exclude_if=not_)
    """The values of their arguments, by which calls of the same tools are compared."""
    chunks: tuple[str, ...]
    """Ids of the passages that the round showed; digests of the observation's lines if the world names no ids."""
    glimpse: str = ""
    """The beginning of each line of what the round showed."""
    jaccard: float
    """Highest token-level Jaccard similarity to an action of the `COMPARED_ROUNDS` previous rounds.

    0 in the first round.
    """
    upr: float
    """Unique passage rate: the share of `chunks` that no previous round has shown; 0 if nothing was found."""
    known: tuple[str, ...] = ()
    """Digests of the items of the belief after the round; none for a memory that is not a belief."""
    change: float | None = None
    """State difference: the share of the belief's items that it did not have a round earlier (CGDP appendix G.4).

    0 for an empty belief; None for a memory that is not a belief, such as `native`.
    """


class Stagnation(Record):
    """A gate's assessment of whether the search still finds anything new.

    `streak` is the number of stagnant rounds in a row up to the latest one.
    """

    streak: int = 0
    level: float = 0.0
    """The moving average that a gate with smoothing compares with its threshold."""
    stop: bool = False
    reason: str = ""
    advice: str = ""
    """A new direction for the agent, from a gate that advises instead of stopping the search."""
    resampled: int = 0
    """How often the gate gave advice instead of stopping the search."""
    at: int | None = None
    """Round (from 1) in which a shadow gate, which only observes, would have stopped the run."""
    answer: str | None = None
    """The answer that the agent would have given in round `at`."""


class BeliefState(RunState, total=False):
    """State of a graph that may have a memory (the belief) and a gate (which stops a search that finds nothing new)."""

    belief: Belief
    rounds: Log[SearchRound]
    stagnation: Stagnation


def belief_of(state: BeliefState) -> Belief:
    """Return the agent's belief; an empty one if no memory has written it yet."""
    return state.get("belief", Belief())


def stagnation_of(state: BeliefState) -> Stagnation:
    """Return the gate's latest assessment; an empty one if there is no gate or no round yet."""
    return state.get("stagnation", Stagnation())


def is_stopped(state: BeliefState) -> bool:
    """Return whether a gate has ended the search."""
    return stagnation_of(state).stop


def advice_of(state: BeliefState) -> tuple[str, ...]:
    """Return the gate's advice as a tuple of at most one text."""
    return tuple(filter(None, [stagnation_of(state).advice]))


def shown_advice(view: Mapping[str, Any]) -> Sequence[str]:
    """Return the advice in an operator's view; an empty tuple if the view has no advice."""
    if "advice" not in view:
        return ()
    advice: Sequence[str] = view["advice"]
    return advice


def round_of(
    action: Action, observation: Observation, before: Sequence[SearchRound], belief: Belief | None = None
) -> SearchRound:
    """Compute the signals of progress of a round.

    Args:
        action: the round's action.
        observation: what it brought up.
        before: the rounds before it.
        belief: the belief after the round.
    """
    (tools, values), chunks = _read_calls(action), _chunks(observation)
    seen = _seen_in(before).chunks
    held = belief if belief and belief.form in BELIEF_FORMS else None
    known = tuple(map(_digest, held.entries)) if held else ()
    latest = SearchRound(
        action=query_of(action),
        tools=tools,
        values=values,
        chunks=chunks,
        glimpse=" | ".join(filter(None, map(_begin, observation.text.splitlines())))[:MAX_GLIMPSE],
        jaccard=0.0,
        upr=sum(chunk not in seen for chunk in chunks) / len(chunks) if chunks else 0.0,
        known=known,
        change=_share_of_new(known, before[-1].known if before else ()) if held else None,
    )
    similar = max((_similarity(latest, one) for one in before[-COMPARED_ROUNDS:]), default=0.0)
    return latest.model_copy(update={"jaccard": similar})


def _read_calls(action: Action) -> tuple[tuple[str, ...], str]:
    """Return the names of the tools that an action calls and the values of their arguments; nothing without tools."""
    stored: Any = action.args.get("calls") if action.kind == "tool" else None
    calls = stored if isinstance(stored, list) else []
    values = [json.dumps(value, ensure_ascii=False) for call in calls for value in call.get("args", {}).values()]
    return tuple(sorted({call["name"] for call in calls})), " ".join(values)


def _similarity(one: SearchRound, other: SearchRound) -> float:
    """Return the Jaccard similarity of two actions: of their queries, or of the arguments of their calls."""
    if not (one.tools or other.tools):
        return jaccard(one.action, other.action)
    if one.tools == other.tools:
        return jaccard(one.values, other.values)
    return jaccard(*(" ".join((*each.tools, each.values)) for each in (one, other)))


class _SeenChunks:
    """Index of a log of rounds: all chunks that they brought up."""

    def __init__(self) -> None:
        self.chunks: set[str] = set()

    def add(self, rounds: Iterable[SearchRound]) -> None:
        self.chunks.update(chain.from_iterable(one.chunks for one in rounds))


_seen_in: LogIndexes[SearchRound, _SeenChunks] = LogIndexes(_SeenChunks)


def _begin(line: str) -> str:
    return " ".join(line.split())[:MAX_GLIMPSE_LINE]


def _share_of_new(texts: Sequence[str], earlier: Sequence[str]) -> float:
    return sum(text not in earlier for text in texts) / len(texts) if texts else 0.0


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
    return digest_lines(observation.text)


def digest_lines(text: str) -> tuple[str, ...]:
    """Return digests of the lines and sentences of a text, each once."""
    lines: Iterable[str] = (line.strip() for line in re.split(r"[\n.]+", text))
    return tuple(dict.fromkeys(_digest(line) for line in lines if line))


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:8]


# State of the agents that act without predicates: ReAct, and what plan-and-solve adds to it.

REFUSED_PREFIX = "Refused:"
"""Beginning of a line of advice that names an action which must not be taken."""


class Turn(Record):
    """One turn of an episode: the agent's thought and action, and the observation that the world returned."""

    thought: str = ""
    action: str
    observation: str
    accepted: bool = True
    reward: float = 0.0
    sources: tuple[str, ...] = ()
    """Ids of the retrieved passages, in the order of the observation's lines."""
    seen: str = ""
    """Lines that the world's view has since the action and that the observation does not say."""
    written: str = ""
    offered: tuple[str, ...] = ()
    """What the agent wrote, if another action was taken for it; and what it was offered and did not mean, if the world
    refused the action or took points for it."""


class ReActState(BeliefState, total=False):
    """State of a run of ReAct. `turns` holds the turns of the current episode only."""

    turns: Log[Turn]
    thought: str
    """The thought that led to `action`."""
    audits: Log[Audit]
    """Results of the optional operator `audit`, which judges an answer before it ends the run."""
    certificates: Log[Certificate]
    """The certificate of the goal, if such an audit confirmed it."""


def turns_message(state: ReActState) -> str:
    """Return why an agent gave up: what an audit of its answer misses, or how often it repeated its last action.

    Of an answer that could not be judged it says so. The message is empty if the run has any other ending.
    """
    audit = _final_audit(state)
    if audit and not (audit.confirmed and audit.judged):
        return audit.reason
    return "" if world_ending(state) != GAVE_UP else format_repeats(state.get("turns", ()))


def audited_ending(state: ReActState) -> str:
    """Return the ending of a run whose answer was handed in after an audit; empty for any other run."""
    audit, observation = _final_audit(state), state.get("observation")
    if audit is None or observation is None or not observation.done:
        return ""
    if not audit.confirmed:
        return GAVE_UP
    if not audit.judged:
        return FINISHED if audit.reason else QUESTION
    return GOAL if state.get("certificates") else FINISHED


def _final_audit(state: ReActState) -> Audit | None:
    """Return the audit of the answer that was handed in; none if a tool answered after an answer was sent back."""
    audits = state.get("audits", ())
    return audits[-1] if audits and audits[-1].step == len(state["history"]) - 1 else None


def format_repeats(turns: Sequence[Turn]) -> str:
    """Say how often the latest of the turns was repeated, with equal answers; empty if it was not."""
    repeats = count_repeats(turns)
    if repeats < 2:
        return ""
    taken = f"the agent took the action {turns[-1].action!r} {repeats} times in a row, with equal answers"
    return f"{taken}; --budget repeats=N, or Limits(repeats=N), allows more"


def count_repeats(turns: Sequence[Turn]) -> int:
    """Count the latest turns in a row with equal actions and equal answers, of which only the first changed a thing."""
    latest = [(turn.action, turn.observation, bool(turn.seen or turn.reward)) for turn in reversed(turns)]
    equal = takewhile(lambda turn: turn[:2] == latest[0][:2], latest)
    quiet = list(takewhile(lambda turn: not turn[2], equal))
    return len(quiet) + (len(latest) > len(quiet) and latest[len(quiet)][:2] == latest[0][:2])


class OutlineState(ReActState, total=False):
    """State of plan-and-solve: ReAct's state with an outline, a plan that is written once before the first action."""

    outline: tuple[str, ...]


class DecideView(TypedDict):
    """What the acting agent sees: its assignment, its turns so far, the world at present, and advice."""

    task: Task
    assignment: str
    """Goal that the agent works on: that of the task, or of a sub-task if the agent must not see the whole task."""
    steps: int
    """Number of actions taken in this episode."""
    rounds: int
    """Number of rounds of this episode, which count the agent's actions in the world."""
    most_rounds: int
    """Maximum number of rounds unless `Limits.rounds` is set; 0 for agents that have no rounds."""
    turns: Sequence[Turn]
    evidence: Evidence
    advice: Sequence[str]
    lasting: NotRequired[int]
    """Number of the first entries of `advice` that stay the same while the turns go on, such as a plan; 0 if absent."""
    belief: Belief
    """Content of the agent's memory; an empty belief if the agent has no memory."""
    draft: NotRequired[Draft | None]
    """The first action, if it was chosen together with the commitment."""
    observation: NotRequired[Observation]
    """What the world answered last."""
    upcoming: NotRequired[Sequence[Action]]
    """Actions that the agent chose together with the last one and that are still to be taken."""
    untaken: NotRequired[Sequence[Action]]
    """Actions that were to follow and were cut off."""
    replaced: NotRequired[Sequence[str]]
    """Actions of turns that the belief replaces, oldest first, each with what it was the first to bring up."""


class OutlineView(TypedDict):
    """View of the operator that writes the outline, which is the plan of plan-and-solve."""

    task: Task
    evidence: Evidence
    steps: int
    """Number of actions taken before, if this is a part of another run."""


def decide_view(state: ReActState) -> DecideView:
    """Return the part of the state that ReAct's agent may read."""
    view: DecideView = {
        "task": state["task"],
        "assignment": state["task"].goal,
        "steps": len(state["history"]),
        "rounds": len(state["turns"]),
        "most_rounds": 0,
        "turns": remembered_turns(state),
        "evidence": state["evidence"],
        "advice": advice_of(state),
        "belief": belief_of(state),
        "replaced": replaced_actions(state),
        "observation": state["observation"],
        "upcoming": state.get("upcoming", ()),
        "untaken": state.get("untaken", ()),
    }
    if (draft := state.get("draft")) and not state["turns"]:
        view["draft"] = draft
    return view


def replaced_actions(state: ReActState) -> tuple[str, ...]:
    """List the latest actions that the agent no longer sees because a belief of facts or notes replaces their turns.

    Each is followed by the titles that no earlier action brought up, or by the beginning of an answer without passages.
    """
    belief, known, lines = belief_of(state), set[str](), list[str]()
    if belief.window is None or belief.form not in BELIEF_FORMS:
        return ()
    for turn in state["turns"][: len(state["turns"]) - len(remembered_turns(state))]:
        texts = turn.observation.splitlines()
        shown = zip(turn.sources, texts, strict=True) if len(turn.sources) == len(texts) else [(turn.observation,) * 2]
        new = [_begin(text).partition(": ")[0] for source, text in shown if source not in known]
        known.update(turn.sources or (turn.observation,))
        lines.append(f"{turn.action}: {'; '.join(filter(None, new)) or 'nothing new'}")
    return tuple(lines[len(lines) - min(belief.searches, len(lines)) :])


def remembered_turns(state: ReActState) -> tuple[Turn, ...]:
    """Return the latest turns that the agent still sees, as many as its belief's `window` allows."""
    turns, window = tuple(state["turns"]), belief_of(state).window
    return turns if window is None else turns[len(turns) - min(window, len(turns)) :]


def outlined_decide_view(state: OutlineState) -> DecideView:
    """Return the view of `decide_view` with the steps of the outline as advice."""
    return {**decide_view(state), "advice": state["outline"], "lasting": len(state["outline"])}


def outline_view(state: OutlineState) -> OutlineView:
    """Return the part of the state that the operator that writes the outline may read."""
    return {"task": state["task"], "evidence": state["evidence"], "steps": len(state["history"])}


def create_turn(thought: str, action: Action, observation: Observation, *, seen: str = "") -> Turn:
    """Create the turn of an action and its observation; `seen` is what is new in the view (`find_new_lines`)."""
    question = f"It asks which is meant: {'; '.join(dict.fromkeys(observation.options))}" if observation.options else ""
    return Turn(
        thought=thought,
        action=action.text,
        observation=question or observation.text,
        accepted=observation.accepted,
        reward=observation.reward,
        sources=observation.sources,
        seen=seen,
        written=action.written,
        offered=() if observation.accepted and observation.reward >= 0 else action.offered,
    )


def without_thoughts(turns: Iterable[Turn]) -> tuple[Turn, ...]:
    """Return the turns without their thoughts, which STEP's other roles and CLIN's memory must not see."""
    return tuple(turn.model_copy(update={"thought": ""}) for turn in turns)

"""ReAct's operators, and the prompt parts and slots that search agents and multi-episode agents share with them."""

from collections import Counter
from collections.abc import Sequence
from functools import lru_cache
from itertools import chain
from typing import Annotated, Any, Literal, NamedTuple, TypeVar, cast

from langgraph.runtime import Runtime
from langgraph.types import Overwrite
from pydantic import BaseModel, Field, create_model

from certigraph.adapters.benchmarks import benchmark_of, limits_of
from certigraph.adapters.episodes import admissible, candidates
from certigraph.adapters.matching import encoder, ranked
from certigraph.adapters.models.calls import (
    BLOCK,
    ask,
    bullet_list,
    choose,
    clipped,
    deliberate,
    prompt,
    quoted,
    shown,
    unquoted,
)
from certigraph.adapters.models.schemas import Cut, Within, longest_answer
from certigraph.adapters.processes import off_loop
from certigraph.adapters.protocols import Context, Limits, Operator
from certigraph.nodes.slots import ACTED, OPENED, Slot, Update, factory, forgotten, specialised
from certigraph.state.records import Action, Arguments, LimitReached
from certigraph.state.run import (
    FINISH,
    REFUSED,
    SEARCH,
    ActingState,
    DecideView,
    RunState,
    Turn,
    decide_view,
    outline_view,
    outlined_view,
    search,
    stopped,
    turn_of,
    use,
)
from certigraph.state.search import AnswerView, GateView, listed_lines
from certigraph.state.step import TrialState, advised_view, nothing_learnt, recall_view, reflect_view

# Default settings of the search agents. Rounds are from CGDP, table 14, and `Limits.rounds` overrides them; the
# weights of BM25 against vectors are from its section 6.1. Settings that depend on the benchmark are in `Limits`.


class Harness(NamedTuple):
    """Default settings of a search agent."""

    rounds: int
    """Maximum number of rounds."""
    alpha: float = 0.5
    """Weight of BM25 against vectors in retrieval: 1 is BM25 only."""


IRCOT = Harness(rounds=10, alpha=0.9)
REACT = Harness(rounds=7)
MEMGPT = Harness(rounds=12)
ITER_RETGEN = Harness(rounds=4)
"""Iter-RetGen always runs all its rounds: it has no stopping rule."""

PBAI = Harness(rounds=10)
"""Algorithm 1 leaves the number of rounds open; IRCoT's is used."""

PARAGRAPHS = 15
"""IRCoT: maximum number of distinct paragraphs in a prompt.

The latest ones are kept, as Eq. 2 truncates; with the first ones kept, new paragraphs would soon never be shown.
"""

PAGE = 5
"""MemGPT: maximum number of passages that one search returns; `Limits.passages` may allow fewer."""

RETURNED = 3_000
"""MemGPT: maximum number of characters of one observation in its queue."""

CORE = 2_000
"""MemGPT: maximum number of characters of core memory; the oldest note is dropped first."""

PRESSURE = 0.75
"""MemGPT: share of `Limits.context` from which the agent is warned and its queue then flushed."""

KEPT = 3
"""MemGPT: number of latest turns that stay in its queue when the others are summarised."""


# ReAct's prompt, and the queries of its shortlist of actions.

MOST_VIEW = 10_000
"""Maximum number of characters of the world's view in a prompt, as in Realize and Replan.

900 characters were too few: they hid all blocks from the 17th on.
"""

CHOICE = "{choice}"
"""Placeholder in ReAct's prompt: before it stands the situation, after it the question."""


def told(state: DecideView, question: str) -> str:
    """Format the situation as in ReAct's prompt (assignment, notes, turns, the world now), then another question."""
    return _material(QUESTION.partition(CHOICE)[0], state) + question


def decided(state: DecideView, choice: str) -> str:
    """Format ReAct's prompt: the situation, then the question for a thought and one of the actions in `choice`."""
    return _material(QUESTION, state, choice)


def queries(state: DecideView) -> list[str]:
    """Return the texts that relevant actions resemble: assignment, latest thought, and advice that refuses nothing."""
    thoughts = [turn.thought for turn in state["turns"][-1:] if turn.thought]
    wanted = [advice for advice in state["advice"] if not advice.startswith(REFUSED)]
    return [state["assignment"], *thoughts, *wanted][:6]


def _material(form: str, state: DecideView, choice: str = "") -> str:
    return form.format(
        assignment=state["assignment"],
        advice=bullet_list([*state["advice"], *state["belief"].text.splitlines()]),
        count=len(state["turns"]),
        turns=quoted(shown(state["turns"])),
        view=quoted(state["evidence"].view, MOST_VIEW),
        choice=choice,
    )


# Parts that only grow come first, parts that change with every action last, so that prefix caches cover more.
QUESTION = """\
Assignment: {assignment}

To keep in mind:
{advice}

Done so far ({count} actions), the latest with the world's answers:
{turns}

The world now:
{view}

{choice}
Think in one short sentence, then give the one action to take next. Do not repeat what had no effect.
"""


# The transcript of a search agent in its prompts. It grows only at the end, so that prefix caches hit.

ELIDED = "(shown above, or no longer)"


def gathered(state: DecideView | AnswerView | GateView, limits: Limits, *, paragraphs: int | None = None) -> str:
    """Format the turns that the agent sees, its notes and its advice. Empty parts are left out."""
    advice = cast(Sequence[str], state.get("advice", ()))
    parts = [
        ("Rounds so far, each action with what it brought up", _quoted_turns(state["turns"], limits, paragraphs)),
        ("Notes from earlier rounds", quoted(state["belief"].text) if state["belief"].text else ""),
        ("To keep in mind", bullet_list(advice) if advice else ""),
    ]
    return "\n".join(f"{name}:\n{text}\n" for name, text in parts if text)


def unbegun(state: DecideView) -> bool:
    """Whether this is the episode's first round.

    In a later round there is a turn to see, or a memory has replaced the turns by its belief.
    """
    return not state["turns"] and state["belief"].form == "native"


def transcript(turns: Sequence[Turn], limits: Limits, *, paragraphs: int | None = None) -> str:
    """Format thought, action and passages of each turn; each passage is shown once.

    The oldest turns are dropped, a block at a time, until the text fits into `limits.context` characters (CGDP Eq. 2).

    Args:
        turns: the turns, oldest first.
        limits: `context` bounds the complete text, `excerpt` each passage, in characters.

        paragraphs: maximum number of different passages; the latest ones are shown.
    """
    kept = list(turns)
    while len(kept) > 1 and weight(kept, limits, paragraphs=paragraphs) > limits.context:
        kept = kept[BLOCK:] if len(kept) > BLOCK else kept[-1:]
    return clipped("\n".join(_told(kept, limits.excerpt, paragraphs)), limits.context)


def weight(turns: Sequence[Turn], limits: Limits, *, paragraphs: int | None = None) -> int:
    """Count the characters that all these turns take in a transcript."""
    texts = _told(turns, limits.excerpt, paragraphs)
    return sum(map(len, texts)) + len(texts)


def _quoted_turns(turns: Sequence[Turn], limits: Limits, paragraphs: int | None) -> str:
    return quoted(transcript(turns, limits, paragraphs=paragraphs), limits.context) if turns else ""


def _told(turns: Sequence[Turn], excerpt: int, paragraphs: int | None) -> list[str]:
    sources = list(dict.fromkeys(chain.from_iterable(turn.sources for turn in turns)))
    # Sources that count as seen are not shown: with a limit, all but the latest.
    seen = set(sources[:-paragraphs] if paragraphs else ())
    return [_turn(turn, excerpt, seen) for turn in turns]


def _turn(turn: Turn, excerpt: int, seen: set[str]) -> str:
    thought = f"Thought: {turn.thought}\n" if turn.thought else ""
    return f"{thought}> {turn.action}\n" + "\n".join(_lines(turn, excerpt, seen))


def _lines(turn: Turn, excerpt: int, seen: set[str]) -> list[str]:
    listed = listed_lines(turn.observation, turn.sources)
    if listed is None:
        return [clipped(" ".join(turn.observation.splitlines()), excerpt)]
    new = [line for source, line in listed if source not in seen]
    seen.update(turn.sources)
    return [clipped(line, excerpt) for line in new] or [ELIDED]


# The slots of the graphs that act without predicates, and the bookkeeping around their operators' updates.


def _no_turns(state: ActingState, update: Update, runtime: Runtime[Context]) -> Update:
    return {**update, **forgotten(state), "turns": Overwrite([]), "thought": ""}


def _turned(state: ActingState, update: Update, runtime: Runtime[Context]) -> Update:
    return {**update, "turns": [turn_of(state["thought"], state["action"], update["observation"])]}


def _next_trial(state: TrialState, update: Update, runtime: Runtime[Context]) -> Update:
    return {**_no_turns(state, update, runtime), "trial": state["trial"] + 1}


def episode_reached(state: Any, runtime: Runtime[Context]) -> LimitReached | None:
    """Return the limit that ended the episode, if one did: its steps, or STEP's completed or failed subtasks."""
    if finished(state, runtime):
        return None
    limits, subtasks = limits_of(state["task"], runtime), Counter(s.status for s in state.get("subtasks", ()))
    for option, status in (("subtasks", "completed"), ("failures", "failed")):
        limit, count = getattr(limits, option), subtasks[status]
        if count > limit:
            happened = f"an episode ended after {count} {status} subtasks; its limit is {limit}"
            return LimitReached("subtasks", limit, count, happened=happened, option=option)
    return steps_reached(state, runtime)


def _no_further_episode(state: TrialState, runtime: Runtime[Context]) -> Update | None:
    """Raise LimitReached if a limit ended the last episode and another one is not allowed or would be the same."""
    last = state["trials"][-1] if state["trials"] else None
    if last is None or not last.cut:
        return None
    left = state["trial"] < limits_of(state["task"], runtime).trials
    if (not left or nothing_learnt(state["lessons"])) and (reached := episode_reached(state, runtime)):
        raise reached
    return None


def _to_depth(state: ActingState, update: Update, runtime: Runtime[Context]) -> Update:
    """Give a search without a number of passages the number in the limits, which worlds do not know."""
    action: Action = update["action"]
    if action.kind != SEARCH or "k" in action.args:
        return update
    args = {**action.args, "k": limits_of(state["task"], runtime).passages}
    return {**update, "action": action.model_copy(update={"args": args})}


def over(state: ActingState, runtime: Runtime[Context]) -> bool:
    """Whether the episode is over: it is `finished`, or its steps are used up."""
    return finished(state, runtime) or steps_reached(state, runtime) is not None


def finished(state: ActingState, runtime: Runtime[Context]) -> bool:
    """Whether the world or a gate ended the episode, or the agent repeats the same action (`Limits.repeats`)."""
    return state["observation"].done or stopped(state) or _repeats(state, limits_of(state["task"], runtime).repeats)


def steps_reached(state: RunState, runtime: Runtime[Context]) -> LimitReached | None:
    """Return the limit of world steps if the episode has used them up."""
    limit, taken = limits_of(state["task"], runtime).steps, len(state["history"])
    return LimitReached("steps", limit, taken) if taken >= limit else None


def require_steps(state: RunState, runtime: Runtime[Context]) -> None:
    """Stop before a model is asked for an action that the world would refuse.

    Raises:
        LimitReached: the episode has no steps left.
    """
    if reached := steps_reached(state, runtime):
        raise reached


def _repeats(state: ActingState, maximum: int) -> bool:
    latest = [turn.action for turn in state["turns"][-maximum:]] if maximum else []
    return len(latest) == maximum > 0 and len(set(latest)) == 1


BEGIN = Slot("begin", frozenset({"trial", "trials", "lessons"}), starts_run=True)
RESET = Slot("reset", OPENED, record=_no_turns, starts_run=True)
RESET_TRIAL = Slot("reset", OPENED, record=_next_trial, skip=_no_further_episode)
RECALL = Slot("recall", frozenset({"lessons"}), recall_view)
OUTLINE = Slot("outline", frozenset({"outline"}), outline_view)
DECIDE = Slot(
    "decide", frozenset({"action", "thought"}), decide_view, _to_depth, require_steps, types={"action": Action}
)
DECIDE_OUTLINED = DECIDE._replace(view=outlined_view)
DECIDE_ADVISED = DECIDE._replace(view=advised_view)
ACT = Slot("act", ACTED, record=_turned)
CONCLUDE = Slot("conclude", frozenset({"trials"}))
REFLECT = Slot("reflect", frozenset({"lessons"}), reflect_view)
MEMORY = REFLECT._replace(name="memory")


# The agent of a search world: it gives a thought, one of the world's tools, and the tool's input.

TOOLS = (SEARCH, FINISH)

M = TypeVar("M", bound=BaseModel)


class Move(BaseModel):
    """The model's answer, before the world's tools are known."""

    thought: Annotated[str, Cut(120)]
    tool: str
    text: str


@factory
def pursue(*, alpha: float = PBAI.alpha) -> Operator:
    """Ask the model for the next tool call on the belief's first open question (CGDP Algorithm 1, line 4).

    Without an open question the task's question is pursued.

    Args:
        alpha: weight of BM25 against vectors in retrieval.
    """

    async def pursue(state: DecideView, runtime: Runtime[Context]) -> dict[str, Any]:
        questions = state["belief"].questions[:1]
        instruction = gathered(state, limits_of(state["task"], runtime)) + INSTRUCTION.format(
            task=state["assignment"], next=f"\nOpen, to be settled next: {questions[0]}" if questions else ""
        )
        form = with_tools(Move, state, runtime)
        move = await ask(prompt(runtime, instruction), form, role="executor", runtime=runtime)
        return {"thought": unquoted(move.thought), "action": tool_used(move.tool, move.text, alpha=alpha)}

    return pursue


def with_tools(form: type[M], state: DecideView, runtime: Runtime[Context]) -> type[M]:
    """Narrow an answer form to the world: `tool` to its tools, `text` to its longest possible answer."""
    benchmark = benchmark_of(state["task"], runtime)
    return _fitted(form, tuple(getattr(benchmark, "tools", TOOLS)), longest_answer(benchmark))


@lru_cache(maxsize=16)
def _fitted(form: type[M], tools: tuple[str, ...], most: int) -> type[M]:
    text = Annotated[str, Field(min_length=1), Cut(most)]
    return create_model(form.__name__, __base__=form, tool=(Literal[tools], ...), text=(text, ...))  # type: ignore[arg-type]


def tool_used(tool: str, text: str, *, alpha: float, k: int | None = None) -> Action:
    """Create the action of a tool call. `alpha` and `k` apply to searches only."""
    text = unquoted(text)
    if tool != SEARCH:
        return use(tool, text)
    return search(text, alpha=alpha, k=k) if k else search(text, alpha=alpha)


INSTRUCTION = """
Question: {task}{next}
Think in one short sentence, then use one tool. Do not search for the same words again. Finish with the shortest
answer once what was found settles the question.
"""


# Decide (ReAct) and execute (STEP's Executor): a thought, then the action that follows from it.

ACCEPT, MATCHES = 0.9, 5
"""Similarity threshold and number of matches with which CLIN maps a written action to the world's list."""


class Thought(BaseModel):
    """The model's answer where it writes its action freely."""

    thought: Annotated[str, Cut(160)]
    action: Annotated[str, Field(min_length=1), Within(300)]


@specialised
async def decide(state: DecideView, runtime: Runtime[Context]) -> dict[str, Any]:
    """Ask the model for a thought and the action that follows from it (ReAct)."""
    return await _thought_and_action(state, runtime)


@specialised
async def execute(state: DecideView, runtime: Runtime[Context]) -> dict[str, Any]:
    """Ask the model for a thought and an action for a subtask (STEP's Executor).

    This is a separate operator from `decide`, because a benchmark's `decide` may use the complete task.
    """
    return await _thought_and_action(state, runtime)


async def _thought_and_action(state: DecideView, runtime: Runtime[Context]) -> dict[str, Any]:
    """Ask for a thought and an action in the way that fits the world.

    In a world that takes an answer the model uses one of its tools. Where the world lists at most `Limits.options`
    actions the model chooses one. Where it lists more, the model writes an action that is matched to the list; a
    benchmark for small models (`shortlists`) offers it the actions relevant to its assignment instead.
    """
    if getattr(benchmark_of(state["task"], runtime), "answers", False):
        return await pursue()(state, runtime)
    maximum = limits_of(state["task"], runtime).options
    actions = await admissible(runtime)
    if actions and len(actions) <= maximum:
        return await _choosing(state, actions, runtime)
    if actions and getattr(benchmark_of(state["task"], runtime), "shortlists", False):
        return await _choosing(state, await candidates(queries(state), runtime, maximum), runtime)
    return await _matching(state, runtime, accept=ACCEPT, most=MATCHES)


@factory
def decide_freely(*, accept: float = ACCEPT, most: int = MATCHES) -> Operator:
    """Let the model write its action even where the world lists only a few (action matching of CLIN and STEP).

    Args:
        accept: minimum similarity at which the best match is taken without asking again.
        most: number of best matches that the model otherwise chooses from; with 0 the action is sent as written.
    """

    async def decide_freely(state: DecideView, runtime: Runtime[Context]) -> dict[str, Any]:
        return await _matching(state, runtime, accept=accept, most=most)

    return decide_freely


async def _choosing(state: DecideView, options: Sequence[str], runtime: Runtime[Context]) -> dict[str, Any]:
    request = decided(state, f"Actions to choose from:\n{quoted(bullet_list(options))}")
    answer = await deliberate(prompt(runtime, request), options, role="executor", runtime=runtime)
    return _action_of(answer.thought, answer.choice)


async def _matching(state: DecideView, runtime: Runtime[Context], *, accept: float, most: int) -> dict[str, Any]:
    thought, written = await _written(state, runtime)
    actions = await admissible(runtime) if most else []
    if not actions:
        return _action_of(thought, written)
    synonyms = getattr(benchmark_of(state["task"], runtime), "synonyms", None)
    matches = await off_loop(lambda: ranked(written, actions, encoder=encoder(), most=most, synonyms=synonyms))
    if not matches or matches[0].score >= accept:
        return _action_of(thought, matches[0].action if matches else written, written)
    options = [match.action for match in matches]
    request = decided(state, f"You meant: {written}\nThe world knows:\n{quoted(bullet_list(options))}")
    chosen = await choose(prompt(runtime, request), options, role="executor", runtime=runtime)
    return _action_of(thought, chosen, written)


async def _written(state: DecideView, runtime: Runtime[Context]) -> tuple[str, str]:
    request = prompt(runtime, decided(state, "Write the action as the world's rules say."))
    answer = await ask(request, Thought, role="executor", runtime=runtime)
    return answer.thought, answer.action


def _action_of(thought: str, action: str, written: str = "") -> dict[str, Any]:
    # Record what the model wrote too, so that an error of the matching is not taken for the model's.
    args: Arguments = {"written": written} if written and written != action else {}
    return {"thought": thought, "action": Action(text=action, args=args)}

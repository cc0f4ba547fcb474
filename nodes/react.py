"""ReAct's operators, and the transcript and situation that search agents share with it."""

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

# The constants of the search harnesses, in one table; what a benchmark decides (k, steps, sizes) is in `Limits`.
#
# Rounds are CGDP's (table 14), weights of BM25 against vectors its section 6.1's. `rounds` of `Limits` takes their
# place.


class Harness(NamedTuple):
    """What a harness does unless it is told otherwise."""

    rounds: int
    alpha: float = 0.5


IRCOT = Harness(rounds=10, alpha=0.9)
REACT = Harness(rounds=7)
MEMGPT = Harness(rounds=12)
ITER_RETGEN = Harness(rounds=4)
"""Always all of them: it has no way to stop."""

PBAI = Harness(rounds=10)
"""Algorithm 1 leaves the budget open; IRCoT's."""

PARAGRAPHS = 15
"""IRCoT: distinct paragraphs in a prompt. The latest, as Eq. 2 truncates: the first would soon be all that it reads."""

PAGE = 5
"""MemGPT: passages that one search returns, where `Limits.passages` allows as many."""

RETURNED = 3_000
"""MemGPT: characters of one answer of the world in its queue."""

CORE = 2_000
"""MemGPT: characters of core memory; the oldest note goes first."""

PRESSURE = 0.75
"""MemGPT: share of `Limits.context` from which the agent is warned and its queue then flushed."""

KEPT = 3
"""MemGPT: latest turns that stay in its queue when the others are summarised."""


# What ReAct's agent goes by before it decides, for the operators that share its prompt and its shortlist.

MOST_VIEW = 10_000
"""Characters of the world's view in a prompt, as Realize and Replan show it: 900 hid blocks from the 17th on."""

CHOICE = "{choice}"
"""Where ReAct's prompt stops telling and begins to ask."""


def told(state: DecideView, question: str) -> str:
    """Assignment, notes, turns and the world now, exactly as ReAct has them, then another question."""
    return _material(QUESTION.partition(CHOICE)[0], state) + question


def decided(state: DecideView, choice: str) -> str:
    """The same with ReAct's own question: a thought, then one action of a choice."""
    return _material(QUESTION, state, choice)


def queries(state: DecideView) -> list[str]:
    """What the relevant actions are similar to: the assignment, the latest thought, and advice that refuses nothing."""
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


# What only grows comes first, what changes with every action last: the cached part of the prompt is the longer.
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


# What a search agent has gathered, as prompts show it: it grows at its end alone, so that prefix caches hit.

ELIDED = "(shown above, or no longer)"


def gathered(state: DecideView | AnswerView | GateView, limits: Limits, *, paragraphs: int | None = None) -> str:
    """The turns that the agent sees, its notes and, where it has any, its advice; parts that are empty are left out."""
    advice = cast(Sequence[str], state.get("advice", ()))
    parts = [
        ("Rounds so far, each action with what it brought up", _quoted_turns(state["turns"], limits, paragraphs)),
        ("Notes from earlier rounds", quoted(state["belief"].text) if state["belief"].text else ""),
        ("To keep in mind", bullet_list(advice) if advice else ""),
    ]
    return "\n".join(f"{name}:\n{told}\n" for name, told in parts if told)


def unbegun(state: DecideView) -> bool:
    """Whether this is an episode's first round; afterwards either a turn is left to see or a memory has worked."""
    return not state["turns"] and state["belief"].form == "native"


def transcript(turns: Sequence[Turn], limits: Limits, *, paragraphs: int | None = None) -> str:
    """Thought, action and passages of each turn; a passage is shown once.

    Of what would take more than `limits.context` characters the oldest turns are dropped (CGDP Eq. 2), a block at a
    time; `limits.excerpt` bounds each passage, `paragraphs` the number of different ones, the latest.
    """
    kept = list(turns)
    while len(kept) > 1 and weight(kept, limits, paragraphs=paragraphs) > limits.context:
        kept = kept[BLOCK:] if len(kept) > BLOCK else kept[-1:]
    return clipped("\n".join(_told(kept, limits.excerpt, paragraphs)), limits.context)


def weight(turns: Sequence[Turn], limits: Limits, *, paragraphs: int | None = None) -> int:
    """Characters that all of these turns take in a transcript."""
    told = _told(turns, limits.excerpt, paragraphs)
    return sum(map(len, told)) + len(told)


def _quoted_turns(turns: Sequence[Turn], limits: Limits, paragraphs: int | None) -> str:
    return quoted(transcript(turns, limits, paragraphs=paragraphs), limits.context) if turns else ""


def _told(turns: Sequence[Turn], excerpt: int, paragraphs: int | None) -> list[str]:
    found = list(dict.fromkeys(chain.from_iterable(turn.sources for turn in turns)))
    seen = set(found[:-paragraphs] if paragraphs else ())
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


# The slots of the graphs that act without predicates, and the bookkeeping around their operators' answers.


def _no_turns(state: ActingState, update: Update, runtime: Runtime[Context]) -> Update:
    return {**update, **forgotten(state), "turns": Overwrite([]), "thought": ""}


def _turned(state: ActingState, update: Update, runtime: Runtime[Context]) -> Update:
    return {**update, "turns": [turn_of(state["thought"], state["action"], update["observation"])]}


def _next_trial(state: TrialState, update: Update, runtime: Runtime[Context]) -> Update:
    return {**_no_turns(state, update, runtime), "trial": state["trial"] + 1}


def episode_reached(state: Any, runtime: Runtime[Context]) -> LimitReached | None:
    """The limit that ended the episode, if one did: its steps, or STEP's completed or failed subtasks."""
    if finished(state, runtime):
        return None
    limits, subtasks = limits_of(state["task"], runtime), Counter(s.status for s in state.get("subtasks", ()))
    for option, status in (("subtasks", "completed"), ("failures", "failed")):
        most, count = getattr(limits, option), subtasks[status]
        if count > most:
            told = f"an episode ended at {count} {status} subtasks of {most} that it may have"
            return LimitReached("subtasks", most, count, happened=told, option=option)
    return steps_reached(state, runtime)


def _no_further_episode(state: TrialState, runtime: Runtime[Context]) -> Update | None:
    """Raises LimitReached where a limit ended the last episode and no other one is left, or would be the same again."""
    last = state["trials"][-1] if state["trials"] else None
    if last is None or not last.cut:
        return None
    left = state["trial"] < limits_of(state["task"], runtime).trials
    if (not left or nothing_learnt(state["lessons"])) and (reached := episode_reached(state, runtime)):
        raise reached
    return None


def _to_depth(state: ActingState, update: Update, runtime: Runtime[Context]) -> Update:
    """A search that does not say how many passages it wants gets as many as the limits say: no world knows them."""
    action: Action = update["action"]
    if action.kind != SEARCH or "k" in action.args:
        return update
    args = {**action.args, "k": limits_of(state["task"], runtime).passages}
    return {**update, "action": action.model_copy(update={"args": args})}


def over(state: ActingState, runtime: Runtime[Context]) -> bool:
    """Whether the episode is over: as for `finished`, or its steps are used up."""
    return finished(state, runtime) or steps_reached(state, runtime) is not None


def finished(state: ActingState, runtime: Runtime[Context]) -> bool:
    """Whether the world or a gate ended the episode, or it goes round in circles."""
    return state["observation"].done or stopped(state) or _repeats(state, limits_of(state["task"], runtime).repeats)


def steps_reached(state: RunState, runtime: Runtime[Context]) -> LimitReached | None:
    """The limit of world steps, once the episode has used them up."""
    most, taken = limits_of(state["task"], runtime).steps, len(state["history"])
    return LimitReached("steps", most, taken) if taken >= most else None


def require_steps(state: RunState, runtime: Runtime[Context]) -> None:
    """Ask no model for an action that the world would not take. Raises LimitReached where no steps are left."""
    if reached := steps_reached(state, runtime):
        raise reached


def _repeats(state: ActingState, most: int) -> bool:
    latest = [turn.action for turn in state["turns"][-most:]] if most else []
    return len(latest) == most > 0 and len(set(latest)) == 1


BEGIN = Slot("begin", frozenset({"trial", "trials", "lessons"}), opens_books=True)
RESET = Slot("reset", OPENED, record=_no_turns, opens_books=True)
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


# The agent of a search world: a thought, one of the world's tools, and what to give it.

TOOLS = (SEARCH, FINISH)

M = TypeVar("M", bound=BaseModel)


class Move(BaseModel):
    """The model's answer, before the world's tools are known."""

    thought: Annotated[str, Cut(120)]
    tool: str
    text: str


@factory
def pursue(*, alpha: float = PBAI.alpha) -> Operator:
    """Pursue the first open question of the belief, or, without one, the question itself (Algorithm 1, line 4).

    Args:
        alpha: weight of BM25 against vectors in the retrieval.
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
    """A form whose field `tool` is one of the world's tools, and whose `text` is as long as an answer there may be."""
    benchmark = benchmark_of(state["task"], runtime)
    return _fitted(form, tuple(getattr(benchmark, "tools", TOOLS)), longest_answer(benchmark))


@lru_cache(maxsize=16)
def _fitted(form: type[M], tools: tuple[str, ...], most: int) -> type[M]:
    text = Annotated[str, Field(min_length=1), Cut(most)]
    return create_model(form.__name__, __base__=form, tool=(Literal[tools], ...), text=(text, ...))  # type: ignore[arg-type]


def tool_used(tool: str, text: str, *, alpha: float, k: int | None = None) -> Action:
    """The action; how to retrieve concerns searches alone."""
    text = unquoted(text)
    if tool != SEARCH:
        return use(tool, text)
    return search(text, alpha=alpha, k=k) if k else search(text, alpha=alpha)


INSTRUCTION = """
Question: {task}{next}
Think in one short sentence, then use one tool. Do not search for the same words again. Finish with the shortest
answer once what was found settles the question.
"""


# Decide (ReAct) and execute (STEP's Executor): a thought and the action that follows from it.

ACCEPT, MATCHES = 0.9, 5
"""CLIN's figures for matching a written action to the world's list."""


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
    """The same for STEP's Executor, whose assignment is a subtask: a benchmark's own `decide` may know the task."""
    return await _thought_and_action(state, runtime)


async def _thought_and_action(state: DecideView, runtime: Runtime[Context]) -> dict[str, Any]:
    """Choose or write an action; in a world that takes an answer, use one of its tools.

    Where the world lists a few actions it chooses one. Where it lists thousands, it writes one that is matched to the
    list; a benchmark for small models (`shortlists`) has it choose among those relevant to its assignment instead.
    """
    if getattr(benchmark_of(state["task"], runtime), "answers", False):
        return await pursue()(state, runtime)
    most = limits_of(state["task"], runtime).options
    actions = await admissible(runtime)
    if actions and len(actions) <= most:
        return await _choosing(state, actions, runtime)
    if actions and getattr(benchmark_of(state["task"], runtime), "shortlists", False):
        return await _choosing(state, await candidates(queries(state), runtime, most), runtime)
    return await _matching(state, runtime, accept=ACCEPT, most=MATCHES)


@factory
def decide_freely(*, accept: float = ACCEPT, most: int = MATCHES) -> Operator:
    """The model writes its action, also where the world lists a few (CLIN and STEP's action matching).

    Args:
        accept: similarity from which the best match is taken at once.
        most: best matches that the model chooses among otherwise; 0: what it wrote goes to the world as it is.
    """

    async def decide_freely(state: DecideView, runtime: Runtime[Context]) -> dict[str, Any]:
        return await _matching(state, runtime, accept=accept, most=most)

    return decide_freely


async def _choosing(state: DecideView, offered: Sequence[str], runtime: Runtime[Context]) -> dict[str, Any]:
    question = decided(state, f"Actions to choose from:\n{quoted(bullet_list(offered))}")
    answer = await deliberate(prompt(runtime, question), offered, role="executor", runtime=runtime)
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
    question = decided(state, f"You meant: {written}\nThe world knows:\n{quoted(bullet_list(options))}")
    chosen = await choose(prompt(runtime, question), options, role="executor", runtime=runtime)
    return _action_of(thought, chosen, written)


async def _written(state: DecideView, runtime: Runtime[Context]) -> tuple[str, str]:
    question = prompt(runtime, decided(state, "Write the action as the world's rules say."))
    answer = await ask(question, Thought, role="executor", runtime=runtime)
    return answer.thought, answer.action


def _action_of(thought: str, action: str, written: str = "") -> dict[str, Any]:
    # What the model wrote stays with what was made of it: the difference is the matching's, not the model's.
    args: Arguments = {"written": written} if written and written != action else {}
    return {"thought": thought, "action": Action(text=action, args=args)}

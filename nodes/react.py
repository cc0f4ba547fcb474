"""ReAct's operators, and the prompt parts and slots that search agents and multi-episode agents share with them."""

from collections.abc import Sequence
from functools import lru_cache, wraps
from typing import Annotated, Any, Literal, NamedTuple, TypeVar

from langgraph.runtime import Runtime
from langgraph.types import Overwrite
from pydantic import BaseModel, Field, create_model

from certigraph.adapters.benchmarks import benchmark_of, context_of, limits_of
from certigraph.adapters.matching import NONE_OF_THESE
from certigraph.adapters.models.calls import ask, deliberate
from certigraph.adapters.models.prompts import bullet_list, format_options, paragraphs, quote, unquote_line
from certigraph.adapters.models.schemas import Reasoning, offer_options
from certigraph.adapters.protocols import Benchmark, Context, Operator
from certigraph.nodes.chains import (
    ChainView,
    chain_form,
    chain_request,
    continue_chain,
    describe_untaken,
    read_chain,
    take_first,
)
from certigraph.nodes.decisions import decision_prompt, options_of, resolve_action, situation_prompt
from certigraph.nodes.operators import call_operator
from certigraph.nodes.slots import (
    ACT_KEYS,
    CALL_KEYS,
    RESET_KEYS,
    UPCOMING_KEYS,
    Slot,
    Update,
    clear_memory,
    continue_after,
    factory,
    new_lines_of,
    prefer_benchmark_operator,
    set_chain,
)
from certigraph.nodes.transcripts import format_rounds_left, search_prompt
from certigraph.state.endings import Fault, LimitReached
from certigraph.state.records import OFFERED, WRITTEN, Action, Arguments, Task
from certigraph.state.run import (
    ANSWER_ACTIONS,
    REFUSED_PREFIX,
    SEARCH,
    DecideView,
    ReActState,
    RunState,
    count_repeats,
    create_turn,
    decide_view,
    outline_view,
    outlined_decide_view,
    search,
    search_settings,
    use_tool,
)
from certigraph.state.step import (
    Lesson,
    Trial,
    TrialState,
    has_learned_nothing,
    recall_view,
    reflect_view,
    shown_lessons,
)

# Default settings of the search agents. Rounds are from CGDP, table 14, and `Limits.rounds` overrides them; the
# weights of BM25 against vectors are from its section 6.1. Settings that depend on the benchmark are in `Limits`.


class SearchDefaults(NamedTuple):
    """Default settings of a search agent."""

    rounds: int
    """Maximum number of rounds."""
    alpha: float = 0.5
    """Weight of BM25 in retrieval, from 0 (vectors only) to 1 (BM25 only)."""


IRCOT_DEFAULTS = SearchDefaults(rounds=10, alpha=0.9)
REACT_DEFAULTS = SearchDefaults(rounds=7)
MEMGPT_DEFAULTS = SearchDefaults(rounds=12)
ITER_RETGEN_DEFAULTS = SearchDefaults(rounds=4)
"""Iter-RetGen always runs all its rounds: it has no stopping rule."""

PBAI_DEFAULTS = SearchDefaults(rounds=10)
"""CGDP's Algorithm 1 leaves the number of rounds open; that of IRCoT is used."""

MAX_PARAGRAPHS = 15
"""IRCoT: maximum number of distinct paragraphs in a prompt.

The latest ones are shown, as in CGDP Eq. 2. If the first ones were shown, new paragraphs would soon never appear.
"""


# The queries of ReAct's shortlist of actions, and what a written action means.


def shortlist_queries(state: DecideView) -> list[str]:
    """Return the texts by whose similarity relevant actions are found: assignment, latest thought, and advice.

    Advice that reports a refused action is left out.
    """
    thoughts = [turn.thought for turn in state["turns"][-1:] if turn.thought]
    wanted = [unquote_line(advice) for advice in state["advice"] if not advice.startswith(REFUSED_PREFIX)]
    return [state["assignment"], *thoughts, *wanted][:6]


MEANING_QUESTION = """\
You wrote an action that the world does not list. Think first: is one of the listed ones at the end what you meant, on
the very thing that you meant? If so, choose it, and leave `action` empty. If not, choose "none of these", since a wrong
thing may do harm: `action` is then another action to take instead, or empty to have what you wrote tried as it is.
"""

MEANING_SHOWN = """\
You wrote this action, which the world does not list:
{written}

Your thought with it:
{thought}

Listed actions that come near it:
{actions}
"""

MEANING_CLOSING = "Which of these did you mean?"

# The slots of the graphs that act without predicates, and the bookkeeping around their operators' updates.


def _clear_turns(state: ReActState, update: Update, runtime: Runtime[Context]) -> Update:
    audited = {log: Overwrite([]) for log in ("audits", "certificates") if state.get(log)}
    return {**update, **clear_memory(state), **set_chain(state), **audited, "turns": Overwrite([]), "thought": ""}


def _record_turn(state: ReActState, update: Update, runtime: Runtime[Context]) -> Update:
    turn = create_turn(
        state["thought"], state["action"], update["observation"], seen=new_lines_of(state, update, runtime)
    )
    return {**update, "turns": [turn], **continue_after(state, update, runtime)}


def _start_trial(state: TrialState, update: Update, runtime: Runtime[Context]) -> Update:
    return {**_clear_turns(state, update, runtime), "trial": state["trial"] + 1}


def episode_limit(state: Any, runtime: Runtime[Context]) -> LimitReached | None:
    """Return the limit that ended the episode; None if no limit did.

    The limits are the number of world steps and, in STEP, the numbers of completed and of failed subtasks.
    """
    if is_finished(state, runtime):
        return None
    limits, statuses = limits_of(state["task"], runtime), [subtask.status for subtask in state.get("subtasks", ())]
    failed = statuses.count("failed")
    for option, status, count in (("subtasks", "completed", len(statuses) - failed), ("failures", "failed", failed)):
        limit = getattr(limits, option)
        if count > limit:
            happened = f"an episode ended after {count} {status} subtasks; its limit is {limit}"
            return LimitReached("subtasks", limit, count, happened=happened, option=option)
    return steps_limit(state, runtime)


def _require_episode(state: TrialState, runtime: Runtime[Context]) -> Update | None:
    """Raise LimitReached if a limit ended the last episode and another one is not allowed or would not differ."""
    last = state["trials"][-1] if state["trials"] else None
    if last is None or not last.cut:
        return None
    left = state["trial"] < limits_of(state["task"], runtime).trials
    if (not left or has_learned_nothing(state["lessons"])) and (reached := episode_limit(state, runtime)):
        raise reached
    return None


def _record_choice(state: ReActState, update: Update, runtime: Runtime[Context]) -> Update:
    chosen = _set_search_size(state, update, runtime)
    return {**chosen, **set_chain(state, update.get("upcoming", ()))}


def _set_search_size(state: ReActState, update: Update, runtime: Runtime[Context]) -> Update:
    """Add `Limits.passages` to a search action without a number of passages, because worlds do not know this limit."""
    action: Action = update["action"]
    if action.kind != SEARCH or "k" in action.args:
        return update
    args = {**action.args, "k": limits_of(state["task"], runtime).passages}
    return {**update, "action": action.model_copy(update={"args": args})}


def is_over(state: ReActState, runtime: Runtime[Context]) -> bool:
    """Return whether the episode is over: finished in the sense of `is_finished`, or out of world steps."""
    return is_finished(state, runtime) or steps_limit(state, runtime) is not None


def is_finished(state: ReActState, runtime: Runtime[Context]) -> bool:
    """Return whether the world ended the episode, or the agent repeats an action that brings nothing new.

    That is so after `Limits.repeats` equal actions in a row with equal answers.
    """
    return state["observation"].done or _is_repeating(state, limits_of(state["task"], runtime).repeats)


def steps_limit(state: RunState, runtime: Runtime[Context]) -> LimitReached | None:
    """Return the limit of world steps if the episode has used them up, else None."""
    limit, taken = limits_of(state["task"], runtime).steps, len(state["history"])
    return LimitReached("steps", limit, taken) if taken >= limit else None


def require_steps(state: RunState, runtime: Runtime[Context]) -> None:
    """Check, before a model is asked for an action, that the episode has steps left to take it.

    Raises:
        LimitReached: the episode has no steps left.
    """
    if reached := steps_limit(state, runtime):
        raise reached


def _is_repeating(state: ReActState, maximum: int) -> bool:
    return 0 < maximum <= count_repeats(state["turns"])


def quote_lessons(lessons: Sequence[str]) -> tuple[str, ...]:
    """Return what earlier episodes taught as one entry of advice, quoted: it may repeat what the world says."""
    return (f"What earlier episodes taught:\n{quote(bullet_list(lessons))}",) if lessons else ()


def _advised_view(state: TrialState) -> DecideView:
    """Return ReAct's view with what earlier episodes taught as advice."""
    advice = quote_lessons(shown_lessons(state))
    return {**decide_view(state), "advice": advice, "lasting": len(advice)}


BEGIN = Slot("begin", {"trial": int, "trials": Sequence[Trial], "lessons": Sequence[Lesson]}, starts_run=True)
RESET = Slot("reset", RESET_KEYS, record=_clear_turns, starts_run=True, may_write=CALL_KEYS)
RESET_TRIAL = Slot("reset", RESET_KEYS, record=_start_trial, skip=_require_episode, may_write=CALL_KEYS)
RECALL = Slot("recall", {"lessons": Sequence[Lesson]}, recall_view)
OUTLINE = Slot("outline", {"outline": Sequence[str]}, outline_view)
DECIDE = Slot(
    "decide", {"action": Action, "thought": str}, decide_view, _record_choice, require_steps, may_write=UPCOMING_KEYS
)
DECIDE_OUTLINED = DECIDE._replace(view=outlined_decide_view)
DECIDE_ADVISED = DECIDE._replace(view=_advised_view)
ACT = Slot("act", ACT_KEYS, record=_record_turn, may_write=CALL_KEYS)


def with_rounds(slot: Slot, most: int) -> Slot:
    """Return a slot of an acting agent whose view says how many rounds the agent's method allows."""

    @wraps(slot.view)
    def view(state: Any) -> Any:
        return {**slot.view(state), "most_rounds": most}

    return slot._replace(view=view)


CONCLUDE = Slot("conclude", {"trials": Sequence[Trial]})
REFLECT = Slot("reflect", {"lessons": Sequence[Lesson]}, reflect_view)
MEMORY = REFLECT._replace(name="memory")


# The agent of a search world: it gives a thought, one of the world's tools, and the tool's input.

M = TypeVar("M", bound=BaseModel)


class Move(BaseModel):
    """Answer schema of a thought and a tool call, before `with_tools` restricts it to the tools of a world."""

    thought: Reasoning
    tool: str
    text: str


@factory
def pursue(*, alpha: float = PBAI_DEFAULTS.alpha, rerank: str | None = None) -> Operator:
    """Ask the model for a tool call that pursues the belief's first open question (CGDP Algorithm 1, line 4).

    Without an open question the task's question is pursued.

    Args:
        alpha: weight of BM25 in retrieval, from 0 (vectors only) to 1 (BM25 only).
        rerank: cross-encoder that reorders the first results of every search; None for none.
    """
    settings = search_settings(alpha=alpha, rerank=rerank)

    @prefer_benchmark_operator
    async def pursue(state: DecideView, runtime: Runtime[Context]) -> dict[str, Any]:
        questions = state["belief"].questions
        benchmark = benchmark_of(state["task"], runtime)
        entered = context_of(runtime).entry
        style = PART_STYLE if entered and not entered.last else benchmark.answer_style
        order = PURSUE_ORDER.format(style=style)
        is_part = not dict(state).get("whole", True)  # a subtask of STEP: another one follows in the same episode
        unknown = UNKNOWN.format(answer=benchmark.unknown_answer) if benchmark.unknown_answer else BEST_SUPPORTED
        clause = PART_CLAUSE if is_part else IN_VAIN_CLAUSE.format(unknown=unknown)
        instruction = paragraphs(order + clause, f"Question: {state['assignment']}")
        settled_next = f"Open, to be settled next: {questions[0]}" if questions else ""
        settled_next += IN_VAIN_NEXT if questions[1:] else ""
        if state["belief"].facts and not questions:
            settled_next = NOTHING_OPEN
        shown = paragraphs(settled_next, format_rounds_left(state, runtime))
        prompt = await search_prompt(state, instruction, "executor", runtime, shown=shown, closing=PURSUE_CLOSING)
        move = await ask(prompt, with_tools(Move, state, runtime), role="executor", runtime=runtime)
        action = to_tool_action(move.tool, move.text, settings, benchmark)
        return {"thought": unquote_line(move.thought), "action": action}

    return pursue


def with_tools(form: type[M], state: DecideView, runtime: Runtime[Context]) -> type[M]:
    """Restrict `tool` in an answer schema to the tools of the task's benchmark; `to_tool_action` bounds `text`."""
    return _tool_form(form, tuple(benchmark_of(state["task"], runtime).tools))


@lru_cache(maxsize=16)
def _tool_form(form: type[M], tools: tuple[str, ...]) -> type[M]:
    text = Annotated[str, Field(min_length=1, description=INPUT_ALONE)]
    return create_model(form.__name__, __base__=form, tool=(Literal[tools], ...), text=(text, ...))  # type: ignore[arg-type]


def to_tool_action(tool: str, text: str, settings: Arguments, benchmark: Benchmark) -> Action:
    """Create the action of a tool call.

    Args:
        tool: name of the tool.
        text: input of the tool, which is cut to the benchmark's `longest_answer` or `longest_query`.
        settings: arguments of `search`, for searches (`search_settings`).
        benchmark: the task's benchmark.
    """
    most = benchmark.longest_answer if tool in ANSWER_ACTIONS else benchmark.longest_query
    text = unquote_line(text)[:most]
    return search(text, **settings) if tool == SEARCH else use_tool(tool, text)


PURSUE_ORDER = """\
Think first: what does the question need to know, which of it was found, in which words, and what is the next thing to
find out? Then use one tool. Do not search for the same words again: use names that were found, or other words. Finish
with {style} once what was found settles the question.
"""

PART_STYLE = "all that it wants its answer to contain"

PART_CLAUSE = """\
The question is one part of a larger task, and finish ends all work on that: use it only where the question says to hand
the answer in. Otherwise look up what the question still needs; somebody else sees when it is settled.
"""

IN_VAIN_CLAUSE = """\
If other names and words bring up nothing more either, finish too: {unknown}.
"""

BEST_SUPPORTED = "with the answer that what was found supports best, saying in the thought what of it is inferred"

UNKNOWN = "with {answer}, unless an answer follows from what was found"

IN_VAIN_NEXT = "\nIf searches for it bring up nothing more, turn to another open question."

NOTHING_OPEN = "Still open: nothing, as far as the facts go."

INPUT_ALONE = "The input alone, without the tool's name and without brackets."

PURSUE_CLOSING = "Which tool comes next, and with which input?"


# Decide (ReAct) and execute (STEP's Executor): a thought, then the action that follows from it.

MIN_SIMILARITY, MAX_MATCHES = 0.9, 5
"""CLIN's settings for mapping a written action to a listed one: minimum similarity at which the best match is taken,
and number of matches that the model otherwise chooses from.
"""


class Thought(BaseModel):
    """The model's answer where it writes its action freely."""

    thought: Reasoning
    action: Annotated[str, Field(min_length=1)]


class Meaning(BaseModel):
    """The model's answer to what it meant by an action that the world does not list."""

    thought: Reasoning
    choice: str
    action: str = ""


class ChosenMove(BaseModel):
    """The model's answer where it chooses its action from a list."""

    thought: Reasoning
    choice: str


ALSO_GIVE = "Besides:"

WRITE_INSTRUCTION = "Write the action as the world's rules say."


def check_writable(task: Task, runtime: Runtime[Context]) -> None:
    """Check that an agent can write an action in this world.

    Raises:
        Fault: ("data") only the benchmark's own operators know the forms of its actions.
    """
    benchmark = benchmark_of(task, runtime)
    if benchmark.no_written_actions:
        reason = "only its own operators can act in it, and this graph has none of them where actions are chosen"
        raise Fault("data", f"{benchmark.name}: {reason}: {benchmark.no_written_actions}")


CHOOSE_INSTRUCTION = "Choose it from the list of actions at the end, and copy it exactly."


@factory
def decide(*, ahead: int = 0) -> Operator:
    """Ask the model for a thought and the action that follows from it (ReAct), which is taken as it is written.

    Where the task is a question, the model calls one of the world's tools. In any other world it chooses from the
    actions that the world lists, if these are at most `Limits.options`. If there are more, it writes an action; if
    `Benchmark.shortlists` is true, it chooses from the most relevant ones instead.

    Args:
        ahead: maximum number of actions after the first one; 0 for one action a call, as published.
    """

    @prefer_benchmark_operator
    async def decide(state: DecideView, runtime: Runtime[Context]) -> dict[str, Any]:
        return await _thought_and_actions(state, ahead, runtime)

    return decide


@prefer_benchmark_operator
async def execute(state: DecideView, runtime: Runtime[Context]) -> dict[str, Any]:
    """Ask the model for a thought and an action for a subtask (STEP's and TDP's Executor).

    This is a separate operator from `decide`, because a benchmark's `decide` may use the complete task.
    """
    return await _thought_and_actions(state, 0, runtime)


async def _thought_and_actions(state: DecideView, ahead: int, runtime: Runtime[Context]) -> dict[str, Any]:
    benchmark = benchmark_of(state["task"], runtime)
    if benchmark.answers:
        return await call_operator(pursue(), state, runtime)
    if following := await continue_chain(ChainView.of(state, state["assignment"]), runtime):
        return {"thought": "", **following}
    options = await options_of(shortlist_queries(state), state["task"], runtime)
    if options and not ahead:
        return await _choose_action(state, options, runtime)
    return await _ask_actions(state, ahead, options, runtime)


async def _ask_actions(
    state: DecideView, ahead: int, options: Sequence[str], runtime: Runtime[Context]
) -> dict[str, Any]:
    """Ask for an action, which is written or chosen from options, and for actions that are to follow it."""
    check_writable(state["task"], runtime)
    wordings = benchmark_of(state["task"], runtime).wordings
    rule = CHOOSE_INSTRUCTION if options else WRITE_INSTRUCTION
    if ahead:
        rule = f"{rule}\n{ALSO_GIVE}\n{chain_request(ahead, wordings, planned=False)}"
    base: type[BaseModel] = offer_options(ChosenMove, options) if options else Thought
    shown = paragraphs(
        format_options(options) if options else "",
        describe_untaken(state, runtime),
    )
    prompt = await decision_prompt(state, rule, runtime, shown=shown)
    form = chain_form(base, ahead, wordings, planned=False)
    answer: Any = await ask(prompt, form, role="executor", runtime=runtime)
    return {"thought": answer.thought, **take_first(read_chain(answer, answer.choice if options else answer.action))}


@factory
def decide_freely(*, accept: float = MIN_SIMILARITY, most: int = MAX_MATCHES) -> Operator:
    """Let the model write its action as text, and take the most similar admissible action (as in CLIN and STEP).

    Args:
        accept: minimum similarity at which the best match is taken without a second question to the model.
        most: number of best matches that the model otherwise chooses from; with 0 the world gets the action as written.
    """

    async def decide_freely(state: DecideView, runtime: Runtime[Context]) -> dict[str, Any]:
        return await _match_action(state, runtime, accept=accept, most=most)

    return decide_freely


async def _choose_action(state: DecideView, options: Sequence[str], runtime: Runtime[Context]) -> dict[str, Any]:
    if len(options) == 1:
        return _action_update("", MatchedAction(options[0]))
    prompt = await decision_prompt(state, CHOOSE_INSTRUCTION, runtime, shown=format_options(options))
    answer = await deliberate(prompt, options, role="executor", runtime=runtime)
    return _action_update(answer.thought, MatchedAction(answer.choice))


async def _match_action(state: DecideView, runtime: Runtime[Context], *, accept: float, most: int) -> dict[str, Any]:
    check_writable(state["task"], runtime)
    prompt = await decision_prompt(state, WRITE_INSTRUCTION, runtime)
    answer = await ask(prompt, Thought, role="executor", runtime=runtime)
    matched = await match_action(answer.action, answer.thought, state, runtime, accept=accept, most=most)
    return _action_update(answer.thought, matched)


class MatchedAction(NamedTuple):
    """The action that is sent for a written one."""

    text: str
    written: str = ""
    """What was written, if it is another text."""
    offered: tuple[str, ...] = ()
    """The listed actions that were offered, if none of them was meant."""

    @property
    def args(self) -> Arguments:
        """Arguments of the action. They record what was written, so that a wrong match is not taken for the model's."""
        offered: Arguments = {OFFERED: list(self.offered)} if self.offered else {}
        return {**({WRITTEN: self.written} if self.written not in ("", self.text) else {}), **offered}


async def match_action(
    written: str, thought: str, state: DecideView, runtime: Runtime[Context], *, accept: float, most: int
) -> MatchedAction:
    """Match a written action to those that the world lists, with a second question to the model where it is unclear.

    Args:
        written: what the model wrote.
        thought: the thought with which it wrote it.
        state: view of the acting agent.
        runtime: the operator's runtime.
        accept: minimum similarity at which the best match is taken without a question; 1 for exact matches only.
        most: maximum number of actions that the model chooses from; with 0 the world gets the action as written.
    """
    view, task = state["evidence"].view, state["task"]
    resolution = await resolve_action(written, view, task, runtime, accept=accept, most=most)
    if resolution.action:
        return MatchedAction(resolution.action, written)
    chosen, instead = await _ask_meaning(written, thought, resolution.candidates, state, runtime)
    if chosen != NONE_OF_THESE:
        return MatchedAction(chosen, written)
    other = (await resolve_action(instead, view, task, runtime)).action if instead else ""
    return MatchedAction(other or instead or written, written, resolution.candidates)


async def _ask_meaning(
    written: str, thought: str, offered: Sequence[str], state: DecideView, runtime: Runtime[Context]
) -> tuple[str, str]:
    """Ask which offered action was meant; return it or `NONE_OF_THESE`, and the action that was written instead."""
    options = [*offered, NONE_OF_THESE]
    shown = MEANING_SHOWN.format(written=quote(written), thought=quote(thought), actions=quote(bullet_list(options)))
    prompt = await situation_prompt(state, MEANING_QUESTION, runtime, shown=shown, closing=MEANING_CLOSING)
    answer = await ask(prompt, offer_options(Meaning, options), role="executor", runtime=runtime)
    return answer.choice, answer.action.strip()


def _action_update(thought: str, action: MatchedAction) -> dict[str, Any]:
    return {"thought": thought, "action": Action(text=action.text, args=action.args)}

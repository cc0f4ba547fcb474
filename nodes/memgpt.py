"""MemGPT (Packer et al., arXiv 2310.08560): an agent that edits and searches its own memory, and flushes its queue.

`manage` chooses a tool of the world or a memory function, and `use_memory` carries out the function. The notes of the
belief are core memory, its only fact is the summary of what left the queue, and its `window` is the number of turns in
the queue. Archival memory is in the state, and copied to the graph's LangGraph store if there is one. Only a memory of
the form `native` is MemGPT's own: any other condition of CGDP section 6.2 replaces it, and no function is offered.
"""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from itertools import takewhile
from typing import Annotated, Any, Literal, NamedTuple, cast

from langgraph.runtime import Runtime
from langgraph.store.base import BaseStore
from langgraph.types import Overwrite
from pydantic import BaseModel, Field, create_model

from certigraph.adapters.benchmarks import benchmark_of, limits_of
from certigraph.adapters.models.calls import ask, profile_of
from certigraph.adapters.models.delimiters import WORLD_TAG
from certigraph.adapters.models.profiles import CHARACTERS_PER_TOKEN
from certigraph.adapters.models.prompts import (
    Prompt,
    build_prompt,
    bullet_list,
    paragraphs,
    quote,
    quote_history,
    unquote_line,
)
from certigraph.adapters.models.schemas import Reasoning, Requested
from certigraph.adapters.processes import run_in_thread
from certigraph.adapters.protocols import Context, Operator
from certigraph.adapters.tools.memory import (
    ARCHIVE_INSERT,
    ARCHIVE_SEARCH,
    CORE_APPEND,
    CORE_REPLACE,
    DESCRIPTIONS,
    RECALL_SEARCH,
    MemoryRefusal,
    MemorySizes,
    Namespace,
    call_memory,
    core_size,
    memory_namespace,
    rank_texts,
    search_store,
    store_entry,
)
from certigraph.nodes import react
from certigraph.nodes.beliefs import ANSWER, DECIDE_WITH_BELIEF
from certigraph.nodes.react import (
    MEMGPT_DEFAULTS,
    Move,
    to_tool_action,
    with_tools,
)
from certigraph.nodes.slots import Slot, Update, factory
from certigraph.nodes.transcripts import format_rounds, format_rounds_left, search_prompt, transcript_length
from certigraph.state.memgpt import (
    ManageView,
    MemGPTState,
    MemoryAnswer,
    MemoryCallView,
    MemoryTurn,
    create_memory_action,
    create_memory_turn,
    manage_view,
    managed_answer_view,
    memory_call_of,
    memory_call_view,
)
from certigraph.state.run import FINISH, Belief, BelievedFact, DecideView, Turn, search_settings
from certigraph.state.tools import ToolCall

# The slots of a graph with memory functions, in place of those of the search loop.


def _clear_archive(state: MemGPTState, update: Update, runtime: Runtime[Context]) -> Update:
    cleared = {"archive": Overwrite([]), "memory_turns": Overwrite([])}
    return {**react.RESET.record(state, update, runtime), **cleared}


def _record_call(state: MemGPTState, update: Update, runtime: Runtime[Context]) -> Update:
    call, number = memory_call_of(state["action"]), len(state["memory_turns"])
    turn = create_memory_turn(state["thought"], call, update["answer"], after=len(state["turns"]), number=number)
    return {"belief": update["belief"], "archive": update["archive"], "memory_turns": [turn]}


USE_MEMORY = Slot(
    "use_memory",
    {"belief": Belief, "archive": Sequence[str], "answer": MemoryAnswer},
    memory_call_view,
    _record_call,
)
"""Slot of the operator that carries out a memory function. Its `archive` holds new entries only."""

MEMORY_SLOTS: Mapping[str, Slot] = {
    "reset": react.RESET._replace(record=_clear_archive),
    "decide": DECIDE_WITH_BELIEF._replace(view=manage_view),
    "answer": ANSWER._replace(view=managed_answer_view),
}


# The agent's step: use a tool of the world, or a memory function whose answer it sees next.

SUMMARY_SOURCE = "rounds no longer shown"
"""Source of the fact that holds MemGPT's summary of earlier turns."""

MAX_PAGE_PASSAGES = 5
"""Maximum number of passages that one search in the world returns; `Limits.passages` may allow fewer."""

MEMORY_PRESSURE = 0.75
"""Share of the queue's size above which the agent is warned and its queue of turns then summarised."""

KEPT_TURNS = 3
"""Number of latest turns that stay in the queue when the others are summarised."""

MAX_MEMORY_CALLS = 5
"""Maximum number of memory functions in a row without an action in the world, so that no run goes on forever."""


class ManagedMove(BaseModel):
    """Answer schema of MemGPT's step, before `tool` is restricted to the world's tools and the memory functions."""

    thought: Reasoning
    tool: str
    text: Annotated[str, Field(min_length=1)]
    new: Annotated[str, Requested] = ""
    page: Annotated[int, Requested] = 1


class Summary(BaseModel):
    """The model's answer."""

    summary: Annotated[str, Field(min_length=1)]


@factory
def manage(
    *,
    alpha: float = MEMGPT_DEFAULTS.alpha,
    page: int = MAX_PAGE_PASSAGES,
    pressure: float = MEMORY_PRESSURE,
    calls: int = MAX_MEMORY_CALLS,
    core: int = MemorySizes().core,
    rerank: str | None = None,
    queue: int | None = None,
) -> Operator:
    """Ask the model for a tool call or a memory function: core memory append and replace, archival insert, searches.

    When the context is nearly full, the prompt warns the model. After its next action in the world all but the latest
    turns are summarised; a search of the conversation still finds them.

    Args:
        alpha: weight of BM25 in retrieval, from 0 (vectors only) to 1 (BM25 only).
        page: maximum number of passages that a search in the world returns.
        pressure: share of the queue's size above which the context counts as nearly full.
        calls: maximum number of memory functions in a row; only the world's tools are offered then. 0 for no function.
        core: maximum number of characters of core memory, as in `use_memory`.
        rerank: cross-encoder that reorders the first results of every search in the world; None for none.
        queue: size of the queue of turns in characters; None for the model's context window.
    """
    settings = search_settings(alpha=alpha, rerank=rerank)

    async def manage(state: DecideView | ManageView, runtime: Runtime[Context]) -> dict[str, Any]:
        limits, profile = limits_of(state["task"], runtime), await profile_of("executor", runtime)
        size = queue or int(profile.prompt_tokens * CHARACTERS_PER_TOKEN)
        own = state["belief"].form == "native" and "memory_calls" in state  # else a condition replaces MemGPT's memory
        full = own and _is_queue_full(state["turns"], pressure * size)
        warning = PRESSURE_WARNING.format(kept=KEPT_TURNS) if full else ""
        if not own:
            choice = await _ask_tool(state, runtime)
        elif left := calls - cast(ManageView, state)["memory_calls"]:
            choice = await _ask_managed(cast(ManageView, state), runtime, warning, core=core, left=left)
        else:
            choice = await _ask_tool(state, runtime, FUNCTIONS_USED if calls else "")
        belief, call = state["belief"], choice.call
        if call is not None:
            return {"thought": choice.thought, "action": create_memory_action(call), "belief": belief}
        if own:
            belief = belief.model_copy(update={"window": len(_world_turns(state["turns"])) + 1})
        if full and choice.tool != FINISH:  # after the answer nobody would read the summary
            belief = await _flush_queue(belief, state, runtime)
        searching = {**settings, "k": min(page, limits.passages)}
        action = to_tool_action(choice.tool, choice.text, searching, benchmark_of(state["task"], runtime))
        return {"thought": choice.thought, "action": action, "belief": belief}

    return manage


class _Choice(NamedTuple):
    """What the agent chose: a tool of the world with its input or, if `call` is not None, a memory function."""

    thought: str
    tool: str
    text: str
    call: ToolCall | None = None


async def _ask_managed(view: ManageView, runtime: Runtime[Context], warning: str, *, core: int, left: int) -> _Choice:
    """Ask for a tool or a memory function; `core` is the size of core memory, `left` the functions left in a row."""
    functions = MEMORY_FUNCTIONS.format(
        functions=bullet_list(f"{name}: {DESCRIPTIONS[name]} {FIELDS[name]}" for name in FIELDS)
    )
    sizes = MEMORY_SIZES.format(
        notes='under "Notes" above' if view["belief"].notes else "empty",
        size=core_size(view["belief"].notes),
        core=core,
        left=left,
        archived=view["archived"],
        flushed=view["flushed"],
        so_far="" if view["flushed"] or warning else ", so that nothing has to be kept yet",
    )
    prompt = await _build_prompt(view, runtime, paragraphs(sizes, warning), functions)
    benchmark = benchmark_of(view["task"], runtime)
    move = await ask(prompt, _managed_form((*benchmark.tools, *FIELDS)), role="executor", runtime=runtime)
    call = None if move.tool in benchmark.tools else _to_memory_call(move)
    return _Choice(unquote_line(move.thought), move.tool, move.text, call)


async def _ask_tool(state: DecideView, runtime: Runtime[Context], memory: str = "") -> _Choice:
    prompt = await _build_prompt(state, runtime, memory)  # without a warning: nothing can be kept now
    move = await ask(prompt, with_tools(Move, state, runtime), role="executor", runtime=runtime)
    return _Choice(unquote_line(move.thought), move.tool, move.text)


async def _build_prompt(
    state: DecideView, runtime: Runtime[Context], standing: str = "", functions: str = ""
) -> Prompt:
    """Build the agent's prompt; `functions` says what its memory offers, `standing` how that stands now."""
    style = benchmark_of(state["task"], runtime).answer_style
    instruction = paragraphs(MANAGE_ORDER.format(style=style), functions, f"Question: {state['assignment']}")
    shown = paragraphs(standing, format_rounds_left(state, runtime))
    return await search_prompt(state, instruction, "executor", runtime, shown=shown, closing=MANAGE_CLOSING)


@lru_cache(maxsize=16)
def _managed_form(tools: tuple[str, ...]) -> type[ManagedMove]:
    return create_model("ManagedMove", __base__=ManagedMove, tool=(Literal[tools], ...))  # type: ignore[arg-type]


def _to_memory_call(move: ManagedMove) -> ToolCall:
    text = WORLD_TAG.sub(" ", move.text)
    args: dict[str, Any] = {"content": text}
    if move.tool == CORE_REPLACE:
        args = {"old_content": text, "new_content": WORLD_TAG.sub(" ", move.new)}
    elif move.tool in (ARCHIVE_SEARCH, RECALL_SEARCH):
        args = {"query": text, "page": max(move.page, 1)}  # models write 0 where no page is meant
    return ToolCall(name=move.tool, args=args)


FIELDS: Mapping[str, str] = {
    CORE_APPEND: "`text` is the line.",
    CORE_REPLACE: "`text` is the passage, `new` what replaces it.",
    ARCHIVE_INSERT: "`text` is the text to keep.",
    ARCHIVE_SEARCH: "`text` is the query, `page` the page, from 1.",
    RECALL_SEARCH: "`text` is the query, `page` the page, from 1.",
}
"""For each memory function, the fields of `ManagedMove` that hold its arguments."""

MANAGE_ORDER = """\
Think first: what does the question need to know, which of it was found, and what is the next thing to find out or to
keep? Then make one choice. Finish with {style} once the question is settled.
"""

MANAGE_CLOSING = "What is the next choice?"

MEMORY_FUNCTIONS = """\
Use a tool of the world (`text` is its input, `new` stays empty and `page` 1), or in its place one of these functions,
whose answer you see before you choose again, and which uses up no round:
{functions}
"""

MEMORY_SIZES = """\
Core memory ({notes}): {size:,} of {core:,} characters. Entries in archival memory: {archived}. Earlier rounds that are
no longer shown: {flushed}{so_far}. Memory functions that can be used before the next tool: {left}.
"""

FUNCTIONS_USED = """\
Now use a tool of the world; after it the memory functions can be used again.
"""

PRESSURE_WARNING = """
Your context is nearly full: after your next action in the world, a summary takes the place of all rounds but the latest
{kept}. Keep what matters of the others in your memory now.
"""


# The queue: what leaves it is summarised and can still be searched.


def _world_turns(turns: Sequence[Turn]) -> list[Turn]:
    return [turn for turn in turns if not isinstance(turn, MemoryTurn)]


def _is_queue_full(turns: Sequence[Turn], most: float) -> bool:
    leaves_some = len(_world_turns(turns)) > KEPT_TURNS
    return leaves_some and transcript_length(turns) > most


async def _flush_queue(belief: Belief, state: DecideView, runtime: Runtime[Context]) -> Belief:
    """Summarise all turns but the latest ones in MemGPT's queue, and remove them from it."""
    kept, profile = _world_turns(state["turns"])[-KEPT_TURNS], await profile_of("memory", runtime)
    fields = {"before": quote(belief.facts[0].text if belief.facts else "(none)"), "task": state["assignment"]}
    leaving = list(takewhile(lambda turn: turn is not kept, state["turns"]))
    history = format_rounds(leaving, profile, SUMMARISE_INSTRUCTION.format(**fields, turns=""))
    instruction = SUMMARISE_INSTRUCTION.format(**fields, turns=quote_history(history))
    answer = await ask(build_prompt(runtime, instruction, cut=history.cut), Summary, role="memory", runtime=runtime)
    summary = BelievedFact(text=unquote_line(answer.summary), source=SUMMARY_SOURCE)
    changes = {"facts": (summary,), "window": KEPT_TURNS + 1, "reorganised": belief.reorganised + 1}
    return belief.model_copy(update=changes)


SUMMARISE_INSTRUCTION = """\
Write one summary in place of an earlier one and of the rounds that are about to leave the context, in a few sentences:
what was found, with names, and what led nowhere.

The rounds were made to answer: {task}

Summary so far:
{before}

Rounds that are about to leave the context:
{turns}

What is the summary in place of both?
"""


# The memory functions, on the state of the run.


@factory
def use_memory(*, page: int = MemorySizes().page, core: int = MemorySizes().core) -> Operator:
    """Carry out the memory function that the agent chose, without a model.

    Archival memory is a part of the state. An entry is also written to the graph's LangGraph store, if there is one,
    in a namespace of the thread and the episode; the store ranks the results of a search if it has an index.

    Args:
        page: maximum number of results on a page of a search.
        core: maximum number of characters of core memory.
    """
    sizes = MemorySizes(core=core, page=page)

    async def use_memory(state: MemoryCallView, runtime: Runtime[Context]) -> dict[str, Any]:
        memory = _RunMemory(state, runtime.store, _space_of(state["episode"], runtime))
        try:
            text = await run_in_thread(call_memory, memory, memory_call_of(state["action"]), sizes)
            answer = MemoryAnswer(text=text)
        except MemoryRefusal as refusal:
            answer = MemoryAnswer(text=f"Error: {refusal}", failed=True)
        belief = state["belief"].model_copy(update={"notes": tuple(memory.core())})
        return {"belief": belief, "archive": memory.inserted, "answer": answer}

    return use_memory


def _space_of(episode: str, runtime: Runtime[Context]) -> Namespace:
    """Return the namespace of an episode's archival memory: the key of the episode differs from run to run."""
    thread = (runtime.execution_info.thread_id if runtime.execution_info else None) or "run"
    return (*memory_namespace(thread, episode), "archival")


class _RunMemory:
    """MemGPT's memory in the state of its run. The store has copies of archival entries, and need not have all."""

    def __init__(self, state: MemoryCallView, store: BaseStore | None, space: Namespace) -> None:
        self._state, self._store, self._space = state, store, space
        self._core: Sequence[str] = state["belief"].notes
        self.inserted: list[str] = []

    def core(self) -> Sequence[str]:
        return self._core

    def write_core(self, lines: Sequence[str]) -> None:
        self._core = lines

    def insert(self, text: str) -> bool:
        # The store first: if the process is killed before the state is saved, the call is repeated and writes the same.
        if self._store is not None:
            store_entry(self._store, self._space, text)
        if text in self._state["archive"]:
            return False
        self.inserted.append(text)
        return True

    def search(self, query: str) -> Sequence[str]:
        entries = self._state["archive"]
        ranked = search_store(self._store, self._space, query) if self._store is not None else None
        # What the state does not hold was written by a fork of the thread, or after the checkpoint of this run.
        found = [text for text in ranked or () if text in entries]
        return [*found, *rank_texts(query, [text for text in entries if text not in found])]

    def conversation(self) -> Sequence[str]:
        # Where a line is from stands behind it, without the words of the action, which would match every query like it.
        lines: dict[str, str] = {}
        for number, turn in enumerate(self._state["turns"], 1):
            if turn.thought:
                lines.setdefault(turn.thought, f"{turn.thought} (your thought, round {number})")
            for line in turn.observation.splitlines():
                lines.setdefault(line, f"{line} (round {number})")
        return [*lines.values()]

"""State of MemGPT (Packer et al., arXiv 2310.08560): archival memory, calls of memory functions, and operators' views.

Core memory is the notes of the belief, and recall memory is the log of all turns. Archival memory is a log of its own.
All of them are in checkpoints, so that a resumed run, a replay and a fork continue with exactly the memory that they
had. A LangGraph store gets copies of the archival entries and ranks them (`adapters.tools.memory`).
"""

from collections.abc import Sequence
from itertools import chain

from typing_extensions import TypedDict

from certigraph.state.channels import (
    Log,
)
from certigraph.state.records import Action, Record
from certigraph.state.run import Belief, DecideView, ReActState, Turn, belief_of, decide_view, remembered_turns
from certigraph.state.search import AnswerView, answer_view
from certigraph.state.tools import ToolCall

MEMORY = "memory"
"""Kind of an action that calls a memory function. Worlds never get it."""

CALL = "call"
"""Key in the `args` of such an action: its call."""


def create_memory_action(call: ToolCall) -> Action:
    """Create the action that calls a memory function."""
    return Action(text=format_memory_call(call), kind=MEMORY, args={CALL: call.as_json()})


def memory_call_of(action: Action) -> ToolCall:
    """Return the call of an action of kind `MEMORY`."""
    return ToolCall.model_validate(action.args[CALL])


def format_memory_call(call: ToolCall) -> str:
    """Format a call as worlds' actions are written: the name of the function, and its arguments in brackets."""
    texts = [str(value) for name, value in call.args.items() if name != "page"]
    page = call.args.get("page", 1)
    return f"{call.name}[{' -> '.join(texts)}{f', page {page}' if page != 1 else ''}]"


class MemoryAnswer(Record):
    """What a memory function returned."""

    text: str
    failed: bool = False
    """Whether the function refused the call, for example because it names a page that does not exist."""


class MemoryTurn(Turn):
    """A call of a memory function and its answer, which the agent sees among its turns. It is not a round of search."""

    after: int
    """Number of turns in the world before the call."""


class MemGPTState(ReActState, total=False):
    """State of a run of MemGPT that has memory functions."""

    archive: Log[str]
    """Entries of archival memory, oldest first; no two are equal."""
    memory_turns: Log[MemoryTurn]


class ManageView(DecideView):
    """View of MemGPT's agent. Its `turns` are what is left in the queue, with calls of memory functions among them."""

    memory_calls: int
    """Number of calls of memory functions since the last action in the world."""
    archived: int
    """Number of entries of archival memory."""
    flushed: int
    """Number of turns that have left the queue, and that only a search of recall memory shows."""


class MemoryCallView(TypedDict):
    """View of the operator that carries out a call of a memory function: the call and all of the agent's memory."""

    action: Action
    episode: str
    belief: Belief
    archive: Sequence[str]
    turns: Sequence[Turn]
    """All turns of the episode: recall memory."""


def manage_view(state: MemGPTState) -> ManageView:
    """Return the part of the state that MemGPT's agent may read."""
    return {
        **decide_view(state),
        "turns": queue_of(state),
        "memory_calls": sum(turn.after == len(state["turns"]) for turn in state["memory_turns"]),
        "archived": len(state["archive"]),
        "flushed": len(state["turns"]) - len(remembered_turns(state)),
    }


def memory_call_view(state: MemGPTState) -> MemoryCallView:
    """Return the part of the state that the operator which carries out calls of memory functions may read."""
    return {
        "action": state["action"],
        "episode": state["episode"],
        "belief": belief_of(state),
        "archive": state["archive"],
        "turns": state["turns"],
    }


def managed_answer_view(state: MemGPTState) -> AnswerView:
    """Return the part of the state from which MemGPT gives its final answer."""
    return {**answer_view(state), "turns": queue_of(state)}


def queue_of(state: MemGPTState) -> tuple[Turn, ...]:
    """Return MemGPT's queue: the turns that the belief's `window` shows, with the calls of memory functions in order.

    A call leaves the queue with the turns before it.
    """
    shown, total = remembered_turns(state), len(state["turns"])
    first = total - len(shown)
    calls: dict[int, list[Turn]] = {}
    for turn in state["memory_turns"]:
        if turn.after > first or not first:
            calls.setdefault(turn.after, []).append(turn)
    in_order = ((*calls.get(number, ()), turn) for number, turn in enumerate(shown, first))
    return (*chain.from_iterable(in_order), *calls.get(total, ()))


def create_memory_turn(thought: str, call: ToolCall, answer: MemoryAnswer, *, after: int, number: int) -> MemoryTurn:
    """Create the turn of a call of a memory function.

    Args:
        thought: the agent's thought before the call.
        call: the call.
        answer: what the function returned.
        after: number of turns in the world before the call.
        number: number of such calls before this one in the episode.
    """
    # One source a line, none of them used twice, so that prompts show every line, also where an answer is repeated.
    sources = tuple(f"memory {number}:{line}" for line in range(len(answer.text.splitlines())))
    return MemoryTurn(
        thought=thought,
        action=format_memory_call(call),
        observation=answer.text,
        accepted=not answer.failed,
        sources=sources,
        after=after,
    )

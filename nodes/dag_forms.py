"""How a model writes sub-tasks down, and how it is asked until what it wrote makes a task graph."""

from collections.abc import Callable, Iterable, Sequence
from typing import Annotated, Any, Generic, NamedTuple, TypeVar

from langgraph.runtime import Runtime
from pydantic import BaseModel, ConfigDict, Field, create_model

from certigraph.adapters.bounds import Cut, Within, at_most
from certigraph.adapters.context import Context
from certigraph.adapters.models.ask import ask
from certigraph.adapters.prompting import clipped, listed, prompt, quoted, unquoted
from certigraph.state.dag import Node

A = TypeVar("A", bound=BaseModel)

MOST_TEXT, MOST_NEEDS = 240, 8
"""Characters of a specification, and needs of one sub-task, in what a model under a grammar may write.

Some 120 tokens a sub-task at most: eight of them fit into an answer of the embedded models (`ANSWER_TOKENS`).
"""

MOST_FLAW = 200
"""Characters of a line on what is wrong."""

Id = Annotated[str, Cut(30)]


class Subtask(BaseModel):
    """A node as a model writes it."""

    model_config = ConfigDict(coerce_numbers_to_str=True)

    id: Id
    task: Annotated[str, Within(MOST_TEXT)]
    needs: list[Id]


class Asked(NamedTuple, Generic[A]):
    """The last answer, whether it was accepted, and what was wrong with those that were refused."""

    answer: A
    accepted: bool
    notes: tuple[str, ...]


async def asked(
    question: str, form: type[A], flaws: Callable[[A], Iterable[str]], *, again: int, runtime: Runtime[Context]
) -> Asked[A]:
    """Ask until an answer has no flaws, at most `again` times more: the model sees its last answer and its flaws.

    It is not asked again after the same answer twice, which is what it would say a third time.

    Raises:
        LimitReached: the budget has no room for another call.
        Fault: the endpoint failed, or what came was no answer at all.
    """
    told, notes, last = question, list[str](), None
    for _ in range(1 + again):
        answer = await ask(prompt(runtime, told), form, role="planner", runtime=runtime)
        if not (found := [clipped(flaw, MOST_FLAW) for flaw in flaws(answer)]):
            return Asked(answer, True, tuple(notes))
        if answer == last:
            break
        last, notes = answer, [*notes, *(f"refused: {flaw}" for flaw in found)]
        told = question + AGAIN.format(answer=quoted(answer.model_dump_json()), flaws=listed(found))
    return Asked(answer, False, tuple(notes))


def one_of(ids: Sequence[str]) -> Any:
    """An id; a model under a grammar writes none but these, others are read too: to be refused by name."""
    return Annotated[Id, Field(json_schema_extra={"enum": [*ids]})] if ids else Id


def subtask_form(ids: Sequence[str], needs: Sequence[str]) -> type[Subtask]:
    """A sub-task with one of these ids that needs some of those."""
    parts: dict[str, Any] = {"id": (one_of(ids), ...), "needs": (at_most(MOST_NEEDS, one_of(needs)), ...)}
    return create_model("Subtask", __base__=Subtask, **parts)


def nodes_of(written: Sequence[Subtask]) -> tuple[Node, ...]:
    """The nodes that a model means."""
    return tuple(
        Node(id=unquoted(w.id), task=unquoted(w.task), needs=tuple(dict.fromkeys(map(unquoted, w.needs))))
        for w in written
    )


AGAIN = """
You answered:
{answer}
It cannot be used:
{flaws}
Answer again, complete and without these faults.
"""

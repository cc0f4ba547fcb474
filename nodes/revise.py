"""Self-Revision: mend and sharpen what is still to come of the task graph (TDP section 3.4)."""

from collections.abc import Iterator
from typing import Annotated, Any

from langgraph.runtime import Runtime
from pydantic import BaseModel, ConfigDict, create_model

from certigraph.adapters.benchmarks import limits_of
from certigraph.adapters.bounds import Cut, at_most
from certigraph.adapters.context import Context
from certigraph.adapters.prompting import clipped, listed, quoted, unquoted
from certigraph.nodes.dag_forms import Id, Subtask, asked, nodes_of, one_of, subtask_form
from certigraph.nodes.situation import MOST_VIEW
from certigraph.nodes.special import specialised
from certigraph.state.dag import Dag, Node
from certigraph.state.revision import Revision, effective, new_ids, refusals, revised, room
from certigraph.state.tdp import ReviseView

ASKED_AGAIN = 1
"""How often a model whose revision cannot be carried out is asked for another, before the graph stays as it is."""

MOST_OUTCOME, MOST_OUTCOMES = 400, 20
"""Characters of a node's outcome in the prompt, and the latest outcomes that are shown: 10,000 characters hold them."""


class Changes(BaseModel):
    """The model's answer."""

    model_config = ConfigDict(coerce_numbers_to_str=True)

    reason: Annotated[str, Cut(200)]
    change: list[Subtask]
    add: list[Subtask]
    remove: list[Id]


@specialised
async def revise(state: ReviseView, runtime: Runtime[Context]) -> dict[str, Any]:
    """Ask the model what the outcomes change; a revision that cannot be carried out leaves the graph as it was.

    It is not asked where it could change nothing: all have run, and there is no room for another.
    """
    dag, most = state["dag"], limits_of(state["task"], runtime).nodes
    free = room(dag, most)
    if not dag.pending and not free:
        return {"dag": dag, "notes": ()}
    said = await asked(
        _question(state, free),
        _form(dag, free, max(most // 2, 1)),
        lambda answer: refusals(dag, _revision(dag, answer), most),
        again=ASKED_AGAIN,
        runtime=runtime,
    )
    if not said.accepted:
        return {"dag": dag, "notes": (*said.notes, KEPT)}
    return {"dag": Dag(nodes=revised(dag, _revision(dag, said.answer))), "notes": said.notes}


async def unrevised(state: ReviseView, runtime: Runtime[Context]) -> dict[str, Any]:
    """Leave the graph as it was decomposed: what Self-Revision contributes, by leaving it out."""
    return {"dag": state["dag"], "notes": ()}


def _revision(dag: Dag, answer: Changes) -> Revision:
    return effective(dag, Revision(nodes_of(answer.change), nodes_of(answer.add), tuple(map(unquoted, answer.remove))))


def _form(dag: Dag, free: int, most: int) -> type[Changes]:
    """An answer that changes, and adds, `most` sub-tasks where a grammar bounds it: one that is as short as a graph."""
    pending, new = [node.id for node in dag.pending], new_ids(dag, min(free, most))
    needs = [*(node.id for node in dag.nodes if node.status != "failed"), *new]
    parts: dict[str, Any] = {
        "change": (at_most(min(len(pending), most), subtask_form(pending, needs)), ...),
        "add": (at_most(len(new), subtask_form(new, needs)), ...),
        "remove": (at_most(len(pending), one_of(pending)), ...),
    }
    return create_model("Changes", __base__=Changes, **parts)


def _question(state: ReviseView, free: int) -> str:
    dag, latest = state["dag"], {outcome.node: outcome.result for outcome in state["outcomes"][-MOST_OUTCOMES:]}
    results = (f"{node}: {clipped(result, MOST_OUTCOME)}" for node, result in latest.items())
    return QUESTION.format(
        task=state["task"].goal,
        nodes=listed(_lines(dag)),
        results=quoted(listed(results)),
        view=quoted(state["evidence"].view, MOST_VIEW),
        order=(MORE if dag.pending else OVER).format(free=free),
    )


def _lines(dag: Dag) -> Iterator[str]:
    failed = {node.id for node in dag.nodes if node.status == "failed"}
    for node in dag.nodes:
        yield f"{node.id} ({_standing(node, failed)}): {node.task}"


def _standing(node: Node, failed: set[str]) -> str:
    needs = f", needs {', '.join(node.needs)}" if node.needs else ""
    in_vain = ", waits in vain" if node.status == "pending" and failed.intersection(node.needs) else ""
    return f"{node.status}{needs}{in_vain}"


KEPT = "the graph stays as it was"

QUESTION = """\
Task: {task}

Its sub-tasks:
{nodes}

What came of those that have run:
{results}

The world now:
{view}

{order}
The text of a sub-task is all that is known to whoever does it, beside the results of those it needs: it repeats the
names, places, dates and numbers that it is about.
"""

MORE = """\
Revise the pending sub-tasks where these results ask for it; lists that stay empty leave all as it is.
reason: what the results mean for the pending ones, in one short sentence.
change: pending ones with a sharper text that has the new facts, or with other needs.
add: at most {free} new ones, also in place of one that failed: change what needs that one, or it waits in vain.
remove: pending ones that are of no use any more. One pending sub-task still settles the task, all others lead to it."""

OVER = """\
All have run, and the world waits.
reason: whether the task is settled, in one short sentence.
add: nothing if it is; else at most {free} new ones for what is missing, the last of which settles the task.
change, remove: nothing."""

"""TDP's operators: decompose a task, gather what its sub-tasks did, and revise the task graph (TDP section 3).

A node of the task graph is a sub-task. The slots hold the schedule: which sub-tasks run next (`solve_views`), with how
many steps, and in which world.

By default `revise` asks the model only where a result is used or a sub-task failed, and `decompose` divides tasks over
tools only if at least two sub-tasks use results of others. `decompose_always` and `revise_always` are the paper's.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Annotated, Any, Generic, NamedTuple, TypeVar

from langgraph.runtime import Runtime
from langgraph.types import Overwrite
from pydantic import BaseModel, ConfigDict, Field, create_model

from certigraph.adapters.benchmarks import benchmark_of, call_world, context_of, limits_of, steps_before
from certigraph.adapters.episodes import can_step_in_parallel, live_episode
from certigraph.adapters.models.calls import ask
from certigraph.adapters.models.prompts import (
    build_prompt,
    bullet_list,
    clip,
    format_steps,
    format_world,
    paragraphs,
    quote,
    unquote_line,
)
from certigraph.adapters.models.schemas import (
    FirstReasoning,
    Reasoning,
    Requested,
    Truncated,
    bounded_list,
    offered_schema,
)
from certigraph.adapters.protocols import Context
from certigraph.nodes.own_tools import has_tools
from certigraph.nodes.requests import heard_before, words_of
from certigraph.nodes.slots import ACT_KEYS, CALL_KEYS, COMMANDS, RESET_KEYS, Slot, Update, prefer_benchmark_operator
from certigraph.state.endings import Fault, LimitReached
from certigraph.state.records import Spent, Usage
from certigraph.state.run import NestedStart
from certigraph.state.tdp import (
    Dag,
    DecomposeView,
    GraphRevision,
    Node,
    Outcome,
    ReviseView,
    SolveView,
    StatusChanges,
    TDPState,
    apply_revision,
    changed_after_run,
    decompose_view,
    decomposition_problems,
    drop_repetitions,
    is_goal_completed,
    latest_outcomes,
    new_ids,
    refusal_reasons,
    remaining_capacity,
    repair_nodes,
    revise_view,
    steps_taken,
)

# The slots of TDP's graph, and the schedule of its nodes.

DAG_KEYS = {"dag": Dag, "notes": Sequence[str]}
"""Keys, with their types, that an operator which writes the task graph must return."""

RESERVED_STEPS = 3
"""Number of world steps that are reserved for each sub-task that runs later, where any are (`_node_steps`)."""


def _clear_dag(state: TDPState, update: Update, runtime: Runtime[Context]) -> Update:
    concurrent = can_step_in_parallel(update["episode"])
    empty = {"dag": Dag(), "outcomes": Overwrite([]), "gathered": 0, "revisions": 0, "notes": Overwrite([])}
    return {**update, **empty, "concurrent": concurrent}


def _update_statuses(state: TDPState, update: Update, runtime: Runtime[Context]) -> Update:
    statuses = {outcome.node: outcome.status for outcome in state["outcomes"][state["gathered"] :]}
    try:
        state["dag"].with_status(statuses)  # what a checkpoint stores is applied whenever it is read
    except ValueError as error:
        message = f"solve gave outcomes that do not fit the task graph ({error}): give each its own sub-task's id"
        raise Fault("operator", message) from error
    return {
        **update,
        "dag": StatusChanges(statuses=statuses),
        "gathered": len(state["outcomes"]),
        "batch": tuple(statuses),
    }


def _check_decomposition(state: TDPState, update: Update, runtime: Runtime[Context]) -> Update:
    dag, maximum = update["dag"], limits_of(state["task"], runtime).nodes
    if not 1 <= len(dag.nodes) <= maximum or len(dag.pending) < len(dag.nodes):
        counts = f"decompose gave {len(dag.nodes)} nodes, {len(dag.pending)} of them pending"
        message = f"{counts}; it must give 1 to {maximum}, all pending"
        raise Fault("operator", f"{message}; allow more with --budget nodes=N, or Limits(nodes=N)")
    return {**update, "notes": [f"decomposing: {note}" for note in update["notes"]]}


def _check_revision(state: TDPState, update: Update, runtime: Runtime[Context]) -> Update:
    if touched := changed_after_run(state["dag"], update["dag"]):
        message = "revise changed nodes that have run, or marked pending nodes as run"
        raise Fault("operator", f"{message}: {', '.join(touched)}")
    number = state["revisions"] + 1
    notes = [f"revision {number}: {note}" for note in update["notes"]]
    changed = {} if update["dag"] == state["dag"] else {"dag": update["dag"]}  # an unchanged graph is not stored again
    return {"notes": notes, "revisions": number, **changed}


def _skip_revision(state: TDPState, runtime: Runtime[Context]) -> Update | None:
    """Skip Self-Revision, and leave the task graph as it is, if no revision is left.

    Raises:
        LimitReached: the task is not settled, and no world steps are left for it.
    """
    limits, steps_left = limits_of(state["task"], runtime), _steps_left(state, runtime)
    if steps_left <= 0 and not is_goal_completed(state):
        raise LimitReached("steps", limits.steps, limits.steps - steps_left)
    revisable = state["revisions"] < limits.revisions and steps_left > 0
    return None if revisable else {"notes": [], "revisions": state["revisions"]}


def solve_views(state: TDPState, runtime: Runtime[Context]) -> list[SolveView]:
    """Return the input of the slot `solve` for each sub-task that runs next.

    All sub-tasks that are ready run in parallel. If the world cannot be copied, one runs at a time.
    """
    batch, entered = _next_batch(state), context_of(runtime).entry
    if not batch:
        return []
    allowed = _node_steps(state, len(batch), runtime)
    return [_solve_view(state, _create_entry(state, node, entered), node, allowed, len(batch)) for node in batch]


def _next_batch(state: TDPState) -> tuple[Node, ...]:
    """Return the sub-tasks to run next: all that are ready, or one if the world cannot be copied.

    A sub-task that was stopped because it had spent its part of the budget waits until no other one is ready, and then
    runs alone.
    """
    cut_off = {outcome.node for outcome in state["outcomes"] if outcome.status == "pending"}
    fresh = tuple(node for node in state["dag"].ready if node.id not in cut_off)
    return fresh if fresh and state["concurrent"] else (fresh or state["dag"].ready)[:1]


def _steps_left(state: TDPState, runtime: Runtime[Context]) -> int:
    """Return the number of world steps left. For a run inside another run, the limit includes the steps before it."""
    return limits_of(state["task"], runtime).steps - steps_before(runtime) - steps_taken(state)


def _node_steps(state: TDPState, batch: int, runtime: Runtime[Context]) -> int:
    """Return how many world steps each of the `batch` sub-tasks that run next may take.

    The only one that is ready may take all that are left, because nothing else can run before it has ended. Of several,
    and where the last sub-task has to hand something in, each may take an equal part of the steps that remain after
    `RESERVED_STEPS` are reserved for each later sub-task. If that leaves too few, all steps left are divided equally
    among all pending sub-tasks.
    """
    left, pending = _steps_left(state, runtime), len(state["dag"].pending)
    benchmark = benchmark_of(state["task"], runtime)
    if len(state["dag"].ready) == 1 and not (benchmark.answers or benchmark.delivers):
        return max(left, 1)
    return max((left - RESERVED_STEPS * (pending - batch)) // batch, left // pending, 1)


def _solve_view(state: TDPState, entry: NestedStart, node: Node, allowed: int, share: int) -> SolveView:
    return {
        "task": state["task"],
        "node": node,
        "entry": entry,
        "steps": allowed,
        "share": share,
        "spent": state["spent"],
    }


def _create_entry(state: TDPState, node: Node, entered: NestedStart | None) -> NestedStart:
    """Return the starting point of a sub-task: the results that it depends on, and the world in which it acts.

    A sub-task that begins again is also shown the result of its own earlier run, whose world was discarded.

    If the world is a copy, it first repeats the steps taken before this run (if the run is inside another run), and
    then those of all sub-tasks on which this one depends.
    """
    outcomes = {outcome.node: outcome for outcome in state["outcomes"]}
    known = [f"{need}: {outcome.result}" for need, outcome in outcomes.items() if need in node.needs]
    own = [call for one in state["outcomes"] for call in one.answers if call.action]  # each where it was made
    known += [f"{EARLIER_RUN}: {outcomes[node.id].result}"] if node.id in outcomes else []
    entry = NestedStart(
        episode=state["episode"],
        steps=tuple(state["history"]),
        observation=state["observation"],
        known=tuple(known),
        last=node == state["dag"].goal and (entered is None or entered.last),
        whole=len(state["dag"].nodes) == 1,
        single=node.single,
        words=entered.words if entered else words_of(state),
        heard=entered.heard if entered else heard_before(state),
        commitment=entered.commitment if entered else state.get("commitment"),
        answers=(*(entered.answers if entered else state.get("answers", ())), *own),
    )
    if not state["concurrent"]:
        return entry
    before = state["dag"].before(node.id)
    done = [step for id_ in state["dag"].order() if id_ in before for step in outcomes[id_].steps]
    steps = (*(entered.steps if entered else ()), *done)
    return entry.model_copy(update={"episode": f"{entry.episode}/{node.id}", "steps": steps, "apart": True})


EARLIER_RUN = (
    "an earlier try at this assignment, in a copy of the world that was discarded (nothing that it did is in the world)"
)
"""What stands before the result of a sub-task's own earlier run."""

RESET = Slot("reset", RESET_KEYS, record=_clear_dag, starts_run=True, may_write=CALL_KEYS)
DECOMPOSE = Slot("decompose", DAG_KEYS, decompose_view, _check_decomposition)
SOLVE = Slot(
    "solve",
    {"outcomes": Sequence[Outcome], "usage": Sequence[Usage], "spent": Spent},
    nests=True,
    may_write={COMMANDS: Sequence[Any]},
)
GATHER = Slot("gather", ACT_KEYS, record=_update_statuses)
REVISE = Slot("revise", DAG_KEYS, revise_view, _check_revision, _skip_revision)


# The answer schemas for sub-tasks, and the repeated request for an answer that is a valid task graph.

A = TypeVar("A", bound=BaseModel)

MAX_FLAW = 200
"""Maximum number of characters of the description of one flaw in a model's answer."""

Id = Annotated[str, Truncated(30)]


class Subtask(BaseModel):
    """Answer schema of one sub-task: its id, its specification, and the ids of the sub-tasks whose results it needs."""

    model_config = ConfigDict(coerce_numbers_to_str=True)

    id: Id
    task: str
    needs: list[Id]


class ToolSubtask(Subtask):
    """Answer schema of one sub-task over tools: also whether one action is enough for it."""

    single: Annotated[bool, Requested] = False


class CheckedAnswer(NamedTuple, Generic[A]):
    """Result of `ask_until_valid`: the last answer, whether it has no flaws, and the flaws of all refused answers."""

    answer: A
    accepted: bool
    notes: tuple[str, ...]


async def ask_until_valid(
    question: str, form: type[A], flaws: Callable[[A], Iterable[str]], *, again: int, runtime: Runtime[Context]
) -> CheckedAnswer[A]:
    """Ask a model until its answer has no flaws. Each retry shows the model its last answer and the flaws found in it.

    If the model gives the same answer twice in a row, it is not asked again, since a third would hardly differ.

    Args:
        question: the prompt.
        form: the answer schema.
        flaws: function that returns what is wrong with an answer, one line for each flaw.
        again: maximum number of retries.
        runtime: the operator's runtime.

    Raises:
        LimitReached: the budget does not allow another call.
        Fault: the model's endpoint failed, or its reply did not fit the schema.
    """
    request, notes, last = question, list[str](), None
    for _ in range(1 + again):
        prompt = build_prompt(runtime, request, role=SUPERVISOR_ROLE)
        answer = await ask(prompt, form, role="planner", runtime=runtime)
        if not (found_flaws := [clip(flaw, MAX_FLAW) for flaw in flaws(answer)]):
            return CheckedAnswer(answer, True, tuple(notes))
        if answer == last:
            break
        last, notes = answer, [*notes, *(f"refused: {flaw}" for flaw in found_flaws)]
        shown = {"answer": quote(answer.model_dump_json()), "flaws": quote(bullet_list(found_flaws))}
        request = question + RETRY_INSTRUCTION.format(**shown)
    return CheckedAnswer(answer, False, tuple(notes))


def id_type(ids: Sequence[str]) -> Any:
    """Return the type of a sub-task's id in an answer schema, for which a grammar allows only `ids`.

    Other ids are parsed as well, so that they can be refused with a reason.
    """
    return Annotated[Id, Field(json_schema_extra=offered_schema(ids))] if ids else Id


def subtask_form(ids: Sequence[str], needs: int, base: type[Subtask] = Subtask) -> type[Subtask]:
    """Create the answer schema of a sub-task.

    Args:
        ids: ids that it may have; none for any.
        needs: maximum number of sub-tasks whose results it needs.
        base: the schema whose fields are restricted.
    """
    parts: dict[str, Any] = {"id": (id_type(ids), ...), "needs": (bounded_list(needs, Id, varies=True), ...)}
    return create_model("Subtask", __base__=base, **parts)


def to_nodes(written: Sequence[Subtask]) -> tuple[Node, ...]:
    """Convert the sub-tasks that a model wrote to nodes of the task graph; repeated needs are dropped."""
    return tuple(
        Node(
            id=unquote_line(one.id),
            task=unquote_line(one.task),
            needs=tuple(dict.fromkeys(map(unquote_line, one.needs))),
            single=isinstance(one, ToolSubtask) and one.single,
        )
        for one in written
    )


SUPERVISOR_ROLE = """\
You divide a task into sub-tasks that form a graph. Each sub-task is carried out by somebody who knows nothing but its
text and the results of the sub-tasks that it needs: not the task, not the other sub-tasks."""

RETRY_INSTRUCTION = """
You answered:
{answer}
It cannot be used:
{flaws}
Answer again, complete and without these faults.
"""


# Decompose: the Supervisor divides the task into a graph of sub-tasks (TDP section 3.2).

DECOMPOSE_RETRIES = 2
"""Maximum number of retries after an invalid task graph, before the last one is repaired by rule."""


class Subtasks(BaseModel):
    """Answer schema of `decompose`: the sub-tasks."""

    reasoning: FirstReasoning = ""
    nodes: list[Subtask]


LEAST_DEPENDENT = 2
"""Number of sub-tasks that use results of others from which on a task over tools is divided.

Below it one agent does the same in fewer calls: the parts are chains of calls, or come together in one last step.
"""


@prefer_benchmark_operator
async def decompose(state: DecomposeView, runtime: Runtime[Context]) -> dict[str, Any]:
    """Ask the model to divide the task into sub-tasks, each with the sub-tasks whose results it needs.

    What one agent can follow step by step stays one sub-task. Over tools the whole task is the only sub-task if fewer
    than `LEAST_DEPENDENT` use results of others.
    """
    over_tools = has_tools(benchmark_of(state["task"], runtime))
    divided = await _divide(state, runtime, ToolSubtask if over_tools else Subtask, chains=CHAIN_INSTRUCTION)
    if not over_tools or sum(bool(node.needs) for node in divided["dag"].nodes) >= LEAST_DEPENDENT:
        return divided
    whole = await undivided(state, runtime)
    return {**whole, "notes": (*divided["notes"], WHOLE_NOTE)}


async def decompose_always(state: DecomposeView, runtime: Runtime[Context]) -> dict[str, Any]:
    """Ask the model to divide the task into sub-tasks, and divide it so whatever the world (TDP section 3.2)."""
    return await _divide(state, runtime, Subtask, chains="")


async def _divide(
    state: DecomposeView, runtime: Runtime[Context], form: type[Subtask], *, chains: str
) -> dict[str, Any]:
    """Ask the model for a task graph; `chains` says what of it is not to be divided.

    An invalid task graph is refused; after `DECOMPOSE_RETRIES` retries the last one is repaired by rule.
    """
    task, maximum = state["task"], limits_of(state["task"], runtime).nodes
    used = format_steps(task, runtime, steps_before(runtime))
    question = paragraphs(
        DECOMPOSE_QUESTION.format(chains=chains) + (SINGLE_INSTRUCTION if form is ToolSubtask else ""),
        format_world(state["evidence"].view),
        f"Task: {task.goal}",
        used,
        DECOMPOSE_CLOSING,
    )
    proposal = await ask_until_valid(
        question,
        _decompose_form(maximum, form),
        lambda answer: decomposition_problems(to_nodes(answer.nodes), maximum),
        again=DECOMPOSE_RETRIES,
        runtime=runtime,
    )
    repaired = repair_nodes(to_nodes(proposal.answer.nodes), goal=task.goal, most=maximum)
    repairs = (clip(note, MAX_FLAW) for note in repaired.notes)
    return {"dag": Dag(nodes=repaired.nodes), "notes": (*proposal.notes, *repairs)}


async def undivided(state: DecomposeView, runtime: Runtime[Context]) -> dict[str, Any]:
    """Make the whole task the only sub-task, without a model (the ablation of Decompose)."""
    return {"dag": Dag(nodes=(Node(id="task", task=state["task"].goal),)), "notes": ()}


@lru_cache(maxsize=16)
def _decompose_form(maximum: int, base: type[Subtask]) -> type[Subtasks]:
    # A list of all possible ids would make the schema longer than the prompt; wrong ones are refused with a reason.
    parts: dict[str, Any] = {"nodes": (bounded_list(maximum, subtask_form((), maximum, base), least=1), ...)}
    return create_model("Subtasks", __base__=Subtasks, **parts)


DECOMPOSE_QUESTION = """\
Divide the task below into sub-tasks. Think first: which parts can be done without each other, what must
be found out before the rest can be decided, and what brings the parts together in the end?
- Each text stands alone: it repeats the names, places, dates, numbers and conditions of the task that it is about, and
  says what its result has to contain for those that need it.
- Parts that do not depend on each other do not need each other. A part that only others' results can decide needs them.
- What must be discovered before the rest can even be specified is a sub-task of its own.
{chains}- Each thing that is to be changed is changed by one sub-task; no other text asks for it again.
- The last sub-task needs, directly or through others, all of them, and settles the task: its text says what the task
  wants in the end, with all its conditions, since the task itself is not shown there, and which parts of it the
  others do.
`id`: n1, n2 and so on. `needs`: ids of the sub-tasks whose results it uses, none where it can begin at once.
"""

CHAIN_INSTRUCTION = """\
- What one agent finds and uses on its way is no sub-task of its own. A chain that one agent can follow step by step is
  one sub-task, and so is a task that is one piece of work: each further one starts without what others saw.
"""

SINGLE_INSTRUCTION = """\
`single`: true if one call, calls that can be made together, or handing in what the others found is all that it takes:
no plan is made for it.
"""

WHOLE_NOTE = f"one agent works on the whole task: fewer than {LEAST_DEPENDENT} sub-tasks use results of others"

DECOMPOSE_CLOSING = "Into which sub-tasks is it divided?"


# Gather: repeat what the nodes of a batch did in the world of the run, in the order of the task graph.


async def gather(state: TDPState, runtime: Runtime[Context]) -> dict[str, Any]:
    """Repeat in the run's own world the actions that the latest sub-tasks took in copies of it.

    Actions that were taken in the run's own world are not repeated.

    Raises:
        Fault: the world failed.
    """
    return await call_world(_repeat_steps, state["task"], runtime, state, runtime)


def _repeat_steps(state: TDPState, runtime: Runtime[Context]) -> dict[str, Any]:
    history, outcomes = state["history"], latest_outcomes(state)
    steps = [step for outcome in outcomes for step in outcome.steps]
    observation, copied = state["observation"], state["concurrent"]
    episode = live_episode(state["episode"], state["task"], history if copied else [*history, *steps], runtime)
    if copied:
        for step in steps:
            observation = episode.step(step.action)
    elif outcomes:
        observation = outcomes[-1].observation
    return {"observation": observation, "evidence": episode.evidence(), "history": episode.log[len(history) :]}


# Self-Revision: repair and sharpen the pending part of the task graph (TDP section 3.4).

REVISE_RETRIES = 1
"""Maximum number of retries after an invalid revision, before the task graph stays as it is."""


class Changes(BaseModel):
    """Answer schema of `revise`: sub-tasks to change, to add and to remove."""

    model_config = ConfigDict(coerce_numbers_to_str=True)

    reason: Reasoning
    change: list[Subtask]
    add: list[Subtask]
    remove: list[Id]


@prefer_benchmark_operator
async def revise(state: ReviseView, runtime: Runtime[Context]) -> dict[str, Any]:
    """Ask the model to revise the task graph by the outcomes so far. An invalid revision leaves it as it was.

    No model is asked unless a sub-task of the latest batch failed, or one that is ready now uses a result of it. A task
    over tools that was not divided is not revised.
    """
    over_tools = has_tools(benchmark_of(state["task"], runtime))
    if (over_tools and len(state["dag"].nodes) == 1) or not _may_change(state):
        return {"dag": state["dag"], "notes": ()}
    return await revise_always(state, runtime)


def _may_change(state: ReviseView) -> bool:
    dag, batch = state["dag"], {*state["batch"]}
    completed = {node.id for node in dag.nodes if node.id in batch and node.status == "completed"}
    # a sub-task that is not ready waits for more results, and is revised by all of them at once
    is_used = any(completed.intersection(node.needs) for node in dag.ready)
    return is_used or any(node.id in batch and node.status == "failed" for node in dag.nodes)


async def revise_always(state: ReviseView, runtime: Runtime[Context]) -> dict[str, Any]:
    """Ask the model to revise the task graph after every batch, whatever the world (TDP section 3.4).

    No model is asked if nothing could change: all sub-tasks have run, and no more may be added.
    """
    dag, maximum = state["dag"], limits_of(state["task"], runtime).nodes
    free = remaining_capacity(dag, maximum)
    if not dag.pending and not free:
        return {"dag": dag, "notes": ()}
    proposal = await ask_until_valid(
        _revise_question(state, runtime),
        _revise_form(dag, free, maximum),
        lambda answer: refusal_reasons(dag, _to_revision(dag, answer), maximum),
        again=REVISE_RETRIES,
        runtime=runtime,
    )
    if not proposal.accepted:
        return {"dag": dag, "notes": (*proposal.notes, UNCHANGED_NOTE)}
    nodes = apply_revision(dag, _to_revision(dag, proposal.answer))
    return {"dag": dag if nodes == dag.nodes else Dag(nodes=nodes), "notes": proposal.notes}


async def unrevised(state: ReviseView, runtime: Runtime[Context]) -> dict[str, Any]:
    """Leave the task graph unchanged, without a model (the ablation of Self-Revision)."""
    return {"dag": state["dag"], "notes": ()}


def _to_revision(dag: Dag, answer: Changes) -> GraphRevision:
    present = dag.by_id
    change = tuple(
        node.model_copy(update={"single": node.id in present and present[node.id].single})
        for node in to_nodes(answer.change)
    )
    return drop_repetitions(dag, GraphRevision(change, to_nodes(answer.add), tuple(map(unquote_line, answer.remove))))


def _revise_form(dag: Dag, free: int, maximum: int) -> type[Changes]:
    """Create the answer schema of a revision, with at most `maximum` changes and `maximum` additions.

    `free` is the number of sub-tasks that the task graph may still take.
    """
    pending, new = [node.id for node in dag.pending], new_ids(dag, min(free, maximum))
    needs = sum(node.status != "failed" for node in dag.nodes) + len(new)
    parts: dict[str, Any] = {
        "change": (bounded_list(min(len(pending), maximum), subtask_form(pending, needs), varies=True), ...),
        "add": (bounded_list(len(new), subtask_form((), needs), varies=True), ...),
        "remove": (bounded_list(len(pending), id_type(pending), varies=True), ...),
    }
    return create_model("Changes", __base__=Changes, **parts)


def _revise_question(state: ReviseView, runtime: Runtime[Context]) -> str:
    dag, latest = state["dag"], {outcome.node: outcome.result for outcome in state["outcomes"]}
    results = (f"{node}: {result}" for node, result in latest.items())
    return paragraphs(
        REVISE_TEXTS,
        REVISE_PENDING if dag.pending else REVISE_FINISHED,
        f"Task: {state['task'].goal}",
        f"Its sub-tasks:\n{bullet_list(f'{node.id}: {node.task}' for node in dag.nodes)}",
        f"Results of those that have run, in the order in which they ran:\n{quote(bullet_list(results))}",
        f"How the sub-tasks stand:\n{bullet_list(_format_statuses(dag))}",
        format_world(state["evidence"].view),
        format_steps(state["task"], runtime, steps_before(runtime) + state["steps"]),
        REVISE_CLOSING if dag.pending else FINISHED_CLOSING,
    )


def _format_statuses(dag: Dag) -> Iterator[str]:
    failed = {node.id for node in dag.nodes if node.status == "failed"}
    for node in dag.nodes:
        needs = f", needs {', '.join(node.needs)}" if node.needs else ""
        in_vain = ", waits in vain" if node.status == "pending" and failed.intersection(node.needs) else ""
        yield f"{node.id} ({node.status}{needs}{in_vain})"


UNCHANGED_NOTE = "the graph stays as it was"

REVISE_TEXTS = """\
You revise the sub-tasks of a task by the results of those that have run. The text of a sub-task is all that is known to
whoever does it, together with the results of those it needs: it repeats the names, places, dates and numbers that it is
about."""

REVISE_CLOSING = "What do the results change in the pending sub-tasks?"

FINISHED_CLOSING = "Is the task settled, or what is still missing?"

REVISE_PENDING = """\
Think first. Which assumptions of the pending sub-tasks do the results bear out, and which do they contradict? What did
they settle that a pending text still leaves open, such as a name, a place, a figure, or a choice that is now made? Can
the pending ones together still settle the task, also where a sub-task failed? Then give, where the results ask for it:
- reason: your thoughts.
- change: pending sub-tasks that become more exact by the results, or that need other ones. Write the whole new text,
  with what the results decide and without what they made superfluous; the results that it needs are shown with it.
- add: new ones, for what is missing or in place of one that failed. Whatever waits for a failed one must
  be changed to need its replacement, since it would otherwise never run. Their ids are new ones.
- remove: pending ones that nothing needs any more.
One pending sub-task still settles the task, and all other pending ones lead to it. Leave as it is what still fits: all
three lists may be empty.
"""

REVISE_FINISHED = """\
All have run. Think first: what does the task ask for, and does each part of it show in the results or in the world now?
- reason: your thoughts.
- add: nothing if the task is settled. Otherwise new ones for what is missing, the last of which settles the task; what
  failed is tried in another way.
- change, remove: nothing.
"""

"""Propose and Replan (SDP Eqs. 1 and 4) for research: narrowing steps; other queries and unread pages."""

from collections.abc import Sequence

from langgraph.runtime import Runtime

from certigraph.adapters.benchmarks import limits_of
from certigraph.adapters.context import Context
from certigraph.adapters.models.ask import ask
from certigraph.adapters.prompting import prompt, unquoted
from certigraph.adapters.research import prompts
from certigraph.adapters.research.forms import MOST_PAGES, MOST_QUERIES, Tools, decomposition_form
from certigraph.adapters.research.plans import (
    closing,
    failures,
    goal_of,
    is_step,
    results,
    step_predicate,
    told,
    unread,
)
from certigraph.state.records import Predicate
from certigraph.state.researching import EXTRACT, texts
from certigraph.state.sdp import ProposeView, ReplanView


async def proposed(state: ProposeView, runtime: Runtime[Context]) -> list[Predicate]:
    """One predicate a step, then answer and goal; a plan without steps looks for the question itself."""
    task = state["task"].goal
    most = limits_of(state["task"], runtime).subqueries
    instruction = prompts.DECOMPOSE.format(task=task, most=most)
    said = await ask(prompt(runtime, instruction), decomposition_form(most), role="planner", runtime=runtime)
    steps = [(str(step.kind), goal) for step in said.steps[:most] if (goal := unquoted(step.goal))]
    return [
        *(step_predicate(n, kind, goal) for n, (kind, goal) in enumerate(steps or [(EXTRACT, task)], 1)),
        *closing(),
    ]


async def replanned(state: ReplanView, runtime: Runtime[Context]) -> list[Predicate]:
    """The same tail, its step with new queries and unread pages to begin with; none where there is no other way.

    An answer that was refused to the end is no matter of planning: nothing is left but to hand in the closest one.
    """
    target, *rest = state["plan"][state["head"] :]
    if not is_step(target):
        return []
    queries, urls = await _another_way(state, target, runtime)
    if not (queries or urls):
        return []
    return [target.model_copy(update={"args": {**target.args, "queries": [*queries], "urls": [*urls]}}), *rest]


async def _another_way(
    state: ReplanView, target: Predicate, runtime: Runtime[Context]
) -> tuple[Sequence[str], Sequence[str]]:
    """Queries that were not asked and pages that were not read."""
    room = limits_of(state["task"], runtime).context // 4
    here = [attempt for attempt in state["attempts"] if attempt.position == state["head"]]
    instruction = prompts.RETHINK.format(
        task=state["task"].goal,
        known=told(state["certified"].known, room),
        kind=target.kind,
        goal=goal_of(target),
        failed=failures(here),
        view=results(state["evidence"], room),
        queries=MOST_QUERIES,
        pages=MOST_PAGES,
    )
    said = await ask(prompt(runtime, instruction), Tools, role="planner", runtime=runtime)
    spent = {query for attempt in here for query in texts(attempt.action.args.get("queries"))}
    left = unread(state["evidence"])
    return chosen_queries(said, spent), [url for url in chosen_pages(said, state["evidence"].sources) if url in left]


def chosen_queries(said: Tools, spent: set[str]) -> list[str]:
    """The queries that a model chose, without those that were spent."""
    plain = {query.lower() for query in spent}
    queries = dict.fromkeys(text for query in said.queries if (text := unquoted(query)))
    return [query for query in queries if query.lower() not in plain]


def chosen_pages(said: Tools, urls: Sequence[str]) -> list[str]:
    """The pages that a model chose by number, from 1; a number that is none of theirs names no page."""
    return [urls[number - 1] for number in dict.fromkeys(said.pages) if 1 <= number <= len(urls)]

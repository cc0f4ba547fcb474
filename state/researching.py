"""The actions of agents that research on the web: search, open a page, or both for one step of a plan."""

from collections.abc import Sequence

from pydantic import JsonValue

from certigraph.state.certified import Known
from certigraph.state.records import Action, Arguments
from certigraph.state.searching import answer, finish, use

OPEN, RESEARCH = "open", "research"
"""`open` reads one page; `research` is one step's searches and pages together."""

COLLECT, FILTER, EXTRACT, COMPUTE = "collect", "filter", "extract", "compute"
"""Kinds of steps (SDP paper, appendix A.4): raw candidates, fewer of them, one fact, a calculation or comparison."""

STEPS = (COLLECT, FILTER, EXTRACT, COMPUTE)


def open_page(url: str) -> Action:
    """Read a page that a search brought up or the question names."""
    return use(OPEN, url)


def research(
    goal: str, queries: Sequence[str], urls: Sequence[str], known: Sequence[Known], *, rejected: int, elsewhere: bool
) -> Action:
    """Gather evidence for one step.

    Args:
        goal: what the step is to establish.
        queries: what to search for.
        urls: pages to read; of those that neither a search brought up nor the question names, none is fetched.
        known: the findings so far: Validate sees them through the action alone.
        rejected: findings of this step that were refused so far.
        elsewhere: ask the second source of evidence too.
    """
    told = "; ".join([*(f"search: {query}" for query in queries), *(f"open: {url}" for url in urls)])
    args: dict[str, JsonValue] = {
        "goal": goal,
        "queries": [*queries],
        "urls": [*urls],
        "rejected": rejected,
        "elsewhere": elsewhere,
    }
    return Action(text=f"research[{told or 'nothing new'}]", kind=RESEARCH, args={**args, **carrying(known)})


def noted(text: str, known: Sequence[Known]) -> Action:
    """Note an answer, with the findings that it stands on."""
    return _with(answer(text), known)


def handed_in(text: str, known: Sequence[Known], **args: JsonValue) -> Action:
    """Hand an answer in, with the findings that it stands on; `policy` in `args` says what made it do."""
    return _with(finish(text, **args), known)


def carrying(known: Sequence[Known]) -> Arguments:
    """The argument by which an action carries findings along."""
    return {"known": [one.as_json() for one in known]} if known else {}


def carried(args: Arguments) -> list[Known]:
    """The findings that an action brought along."""
    known = args.get("known")
    return [Known.model_validate(one) for one in known] if isinstance(known, list) else []


def texts(value: JsonValue) -> list[str]:
    """The texts of a list among arguments, each once and without blanks around; none of anything else."""
    given = (str(one).strip() for one in value) if isinstance(value, list) else iter(())
    return list(dict.fromkeys(one for one in given if one))


def _with(action: Action, known: Sequence[Known]) -> Action:
    return action.model_copy(update={"args": {**action.args, **carrying(known)}})

"""What a person's own question came to: answer, findings, what nobody certified, and the cost."""

import shlex
from collections.abc import Iterator, Mapping

from pydantic import JsonValue

from certigraph.adapters.research.plans import goal_of, is_step
from certigraph.evaluation.result import Result
from certigraph.state.certified import Known
from certigraph.state.endings import resumable
from certigraph.state.records import Record, Spent


class Cost(Spent):
    """What was spent. `searches` and `pages` are those asked for, whether or not the web was kept from before."""

    searches: int
    pages: int
    unreadable: int
    """Pages that could not be read."""


class Closing(Record):
    """The summary of a question's run."""

    question: str
    answer: JsonValue = None
    answer_certified: bool = False
    answer_forced: str = ""
    """The policy, or what else, that an uncertified answer is owed to."""
    findings: tuple[Known, ...] = ()
    """Certified ones first."""
    unsettled: tuple[str, ...] = ()
    """What the steps of the plan that were not reached were to establish."""
    cost: Cost
    run: str
    resume: str = ""
    """The command that goes on; empty where the run came to an ending of its own."""


def closing_of(result: Result) -> Closing:
    """Read it off a run, finished or not."""
    state = result.state
    return Closing(
        question=result.trajectory.header.task.goal,
        answer=result.scores.answer if result.scores else None,
        answer_certified=result.terminated,
        answer_forced=_forced(result),
        findings=tuple(sorted(result.findings, key=lambda known: bool(known.forced))),
        unsettled=tuple(goal_of(step) for step in filter(is_step, state.get("plan", [])[state.get("head", 0) :])),
        cost=_cost(result),
        run=str(result.folder),
        resume=_resume(result) if resumable(result.ending) else "",
    )


def _forced(result: Result) -> str:
    """The policy that let the goal pass, else what forced the answer that was given in its place."""
    state = result.state
    if (certificates := result.certificates) and certificates[-1].forced and state["head"] >= len(state["plan"]):
        return certificates[-1].forced
    action = state.get("action")
    return str(action.args.get("forced", "")) if action else ""


def _cost(result: Result) -> Cost:
    seen = list(_observed(result))
    failed = {url for data in seen for url in _mapping(data.get("unreadable"))}
    return Cost(
        **result.usage.spent().model_dump(),
        searches=sum(_count(data, "searches") for data in seen),
        pages=sum(_count(data, "fetched") for data in seen),
        unreadable=len(failed),
    )


def _observed(result: Result) -> Iterator[Mapping[str, JsonValue]]:
    """What the world told of itself with each answer."""
    for event in result.trajectory.events:
        observation = _mapping((event.update or {}).get("observation"))
        yield _mapping(observation.get("data"))


def _mapping(value: JsonValue) -> Mapping[str, JsonValue]:
    return value if isinstance(value, dict) else {}


def _count(data: Mapping[str, JsonValue], name: str) -> int:
    value = data.get(name)
    return value if isinstance(value, int) else 0


def _resume(result: Result) -> str:
    """The command, with the larger budget that the message of a spent one names."""
    more = result.message[result.message.find(" --budget ") :] if result.ending.startswith("limit:") else ""
    return f"certigraph resume {shlex.quote(str(result.folder))}{more}"

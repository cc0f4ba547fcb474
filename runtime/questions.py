"""Questions of the user's own, researched on the web."""

import shlex
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from pydantic import JsonValue

from certigraph.adapters.assistantbench.web import OwnQuestion
from certigraph.adapters.benchmarks import load_benchmark
from certigraph.adapters.models.scripted import SIMULATED
from certigraph.adapters.protocols import Context
from certigraph.adapters.research.plans import goal_of, is_step
from certigraph.adapters.web.protocol import PageSource, SearchProvider
from certigraph.runtime.recorder import Listener
from certigraph.runtime.registry import AnyGraph
from certigraph.runtime.result import ASK, OnError, Result, check_on_error, report_failure
from certigraph.runtime.run import run
from certigraph.state.records import Record, Spent, Task, UnknownName, resumable
from certigraph.state.run import Known
from certigraph.state.search import GENERATED, MODEL, asked

# A question of one's own from Python: `certigraph.ask`.


def ask(
    question: str,
    *,
    search: str | SearchProvider = "",
    pages: str | Path | PageSource | None = None,
    graph: str | AnyGraph = "sdp",
    context: Context | None = None,
    out: Path | str = "runs",
    listener: Listener | None = None,
    on_error: OnError = "raise",
) -> Result:
    """Research a question: `result.findings` are what it found, with sources, `result.scores.answer` is its answer.

    Args:
        question: 1 to 2,000 characters.
        search: providers by name (`serper,brave`; `generated`: an invented web), else those of CERTIGRAPH_SEARCH or
            whose key is set; or an object with `name` and `search(query, k)`.
        pages: a folder of pages that is searched in place of the web; or an object with `name` and `page(url)`.
        graph: `sdp`, or one that you built.
        context: model, budget and limits; without one `openai:gpt-4o-mini` answers.
        out: the folder in which the run gets a folder of its own.
        listener: called with every trajectory line as it is written.
        on_error: what happens when the ending is `error:<boundary>`, so that there is no answer: "raise", "warn" or
            "ignore", as in `run`.

    Raises:
        UnknownName: the question is empty or too long, a provider or model is unknown, or the model is a script that
            does not know the question.
        RunFailed: the run failed and `on_error` is "raise"; its `result` has the findings until then.
    """
    check_on_error(on_error)
    task = asked(question, search if isinstance(search, str) else "")
    context = context or Context(model=MODEL)
    if isinstance(pages, str | Path):
        context, pages = context.model_copy(update={"data": str(pages)}), None
    live: Any
    if isinstance(search, str) and pages is None:
        live = load_benchmark(ASK, context.data)
    else:
        live = OwnQuestion(search=None if isinstance(search, str) else search, pages=pages)
    check_script(live, task, context)
    result = run(graph, live, task, context=context, out=out, listener=listener, on_error="ignore")
    return report_failure(result, on_error)


def check_script(live: Any, task: Task, context: Context) -> None:
    """Make sure that a script which is to answer knows the question. Raises UnknownName."""
    scripted = context.chat is None and context.model.startswith(("scripted:expert", SIMULATED))
    if scripted and not live.knows(task):
        fix = f"use one of them with --search {GENERATED}, in Python search={GENERATED!r}, word for word"
        other = "or name a language model, as in --model local:qwen-0.5b or Context(model=...)"
        raise UnknownName(
            f"{context.model} is a script that knows the questions of the benchmark `web` alone: {fix}, {other}"
        )


# What a person's own question came to: answer, findings, what nobody certified, and the cost.


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

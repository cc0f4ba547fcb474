"""Questions of a user, researched on the web: the function `ask`, and the summary of its run."""

import shlex
from collections.abc import Iterator, Mapping
from pathlib import Path

from pydantic import JsonValue

from certigraph.adapters.benchmarks import load_benchmark
from certigraph.adapters.models.scripts import SIMULATED_MODEL
from certigraph.adapters.protocols import Benchmark, Context
from certigraph.adapters.web.protocol import PageSource, SearchProvider
from certigraph.benchmarks.assistantbench.web import OwnQuestion
from certigraph.benchmarks.research.plans import goal_of, is_step
from certigraph.runtime.graph_sources import AnyGraph
from certigraph.runtime.recorder import Listener
from certigraph.runtime.result import ASK_BENCHMARK, OnError, Result, check_on_error, report_failure
from certigraph.runtime.run import run
from certigraph.state.certified_states import KnownFinding
from certigraph.state.defaults import DEFAULT_MODEL
from certigraph.state.endings import UnknownName, is_resumable
from certigraph.state.records import Record, Spent, Task
from certigraph.state.search import GENERATED_WEB, create_question_task


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
    """Research a question on the web.

    Args:
        question: 1 to 2,000 characters.
        search: names of search providers, separated by commas (`serper,brave`); `generated` stands for a generated web.
            By default those of CERTIGRAPH_SEARCH, or those whose key is set. Or an object with `name` and
            `search(query, k)`.
        pages: a folder of pages that is searched instead of the web; or an object with `name` and `page(url)`.
        graph: the name of a graph, or a compiled graph.
        context: model, budget and limits; the default model is `openai:gpt-4o-mini`.
        out: the folder in which the folder of the run is created.
        listener: called with every trajectory line as it is written.
        on_error: what happens when the ending is `error:<boundary>`, so that there is no answer: "raise", "warn" or
            "ignore", as in `run`.

    Returns:
        The result: `result.scores.answer` is the answer, `result.findings` are the findings with their sources.

    Raises:
        UnknownName: the question is empty or too long, a provider or model is unknown, or the model is a scripted model
            that does not know the question.
        RunFailed: the run failed and `on_error` is "raise"; its `result` has the findings until then.
    """
    check_on_error(on_error)
    task = create_question_task(question, search if isinstance(search, str) else "")
    context = context or Context(model=DEFAULT_MODEL)
    if isinstance(pages, str | Path):
        context, pages = context.model_copy(update={"data": str(pages)}), None
    live: Benchmark
    if isinstance(search, str) and pages is None:
        live = load_benchmark(ASK_BENCHMARK, context.data)
    else:
        live = OwnQuestion(search=None if isinstance(search, str) else search, pages=pages)
    check_scripted_model(live, task, context)
    result = run(graph, live, task, context=context, out=out, listener=listener, on_error="ignore")
    return report_failure(result, on_error)


def check_scripted_model(live: Benchmark, task: Task, context: Context) -> None:
    """Check that the model, if it is a scripted one, knows the question. Raises UnknownName if not."""
    scripted = context.chat is None and context.model.startswith(("scripted:expert", SIMULATED_MODEL))
    if scripted and not live.knows(task):
        fix = f"use one of them with --search {GENERATED_WEB}, in Python search={GENERATED_WEB!r}, word for word"
        other = "or name a language model, as in --model local:qwen-0.5b or Context(model=...)"
        raise UnknownName(
            f"{context.model} is a scripted model that knows only the questions of the benchmark `web`: {fix}, {other}"
        )


# The summary of a question's run: answer, findings and cost.


class ResearchCost(Spent):
    """Cost of the run that researched a question.

    `searches` and `pages` count requests to search providers and for pages, including those answered from the cache.
    """

    usd: float = 0.0
    searches: int
    pages: int
    unreadable: int
    """Number of pages that could not be read."""
    unpriced: int = 0
    """Number of calls of models whose price is unknown; `usd` lacks their cost."""


class ResearchSummary(Record):
    """Summary of the run that researched a question: answer, findings, open steps and cost."""

    question: str
    answer: JsonValue = None
    answer_certified: bool = False
    answer_forced: str = ""
    """Name of the policy, or the reason, that forced an answer which is not certified."""
    findings: tuple[KnownFinding, ...] = ()
    """The findings, certified ones first."""
    unsettled: tuple[str, ...] = ()
    """Goals of the plan's steps that were not reached."""
    cost: ResearchCost
    run: str
    resume: str = ""
    """Command that resumes the run; empty if the run is finished."""


def research_summary_of(result: Result) -> ResearchSummary:
    """Summarize the run that researched a question, finished or not."""
    state = result.state
    return ResearchSummary(
        question=result.trajectory.header.task.goal,
        answer=result.scores.answer if result.scores else None,
        answer_certified=result.terminated,
        answer_forced=_forcing_reason(result),
        findings=tuple(sorted(result.findings, key=lambda known: bool(known.forced))),
        unsettled=tuple(goal_of(step) for step in filter(is_step, state.get("plan", [])[state.get("head", 0) :])),
        cost=_cost_of(result),
        run=str(result.folder),
        resume=_resume_command(result) if is_resumable(result.ending) else "",
    )


def _forcing_reason(result: Result) -> str:
    # The policy that let the goal pass, else the reason why the final action had to answer.
    state = result.state
    if (certificates := result.certificates) and certificates[-1].forced and state["head"] >= len(state["plan"]):
        return certificates[-1].forced
    action = state.get("action")
    return str(action.args.get("forced", "")) if action else ""


def _cost_of(result: Result) -> ResearchCost:
    seen = list(_observation_data(result))
    failed = {url for data in seen for url in _as_mapping(data.get("unreadable"))}
    return ResearchCost(
        **result.usage.spent().model_dump(),
        searches=sum(_count_of(data, "searches") for data in seen),
        pages=sum(_count_of(data, "fetched") for data in seen),
        unreadable=len(failed),
        unpriced=result.trajectory.unpriced_calls,
    )


def _observation_data(result: Result) -> Iterator[Mapping[str, JsonValue]]:
    """Yield the `data` of every observation in the trajectory."""
    for event in result.trajectory.events:
        observation = _as_mapping((event.update or {}).get("observation"))
        yield _as_mapping(observation.get("data"))


def _as_mapping(value: JsonValue) -> Mapping[str, JsonValue]:
    return value if isinstance(value, dict) else {}


def _count_of(data: Mapping[str, JsonValue], name: str) -> int:
    value = data.get(name)
    return value if isinstance(value, int) else 0


def _resume_command(result: Result) -> str:
    # The message of a spent budget ends with the option for a larger one.
    option = result.message[result.message.find(" --budget ") :] if result.ending.startswith("limit:") else ""
    return f"certigraph resume {shlex.quote(str(result.folder))}{option}"

"""A question of one's own from Python: `certigraph.ask`."""

from pathlib import Path
from typing import Any

from certigraph.adapters.assistantbench.own import OwnQuestion
from certigraph.adapters.benchmarks import load_benchmark
from certigraph.adapters.context import Context
from certigraph.adapters.models.simulated import SIMULATED
from certigraph.adapters.research.own import GENERATED, MODEL, asked
from certigraph.adapters.web.protocol import PageSource, SearchProvider
from certigraph.evaluation.recorder import Listener
from certigraph.evaluation.report.graded import ASK
from certigraph.evaluation.result import OnError, Result, check_on_error, report_failure
from certigraph.evaluation.run import run
from certigraph.evaluation.settings import AnyGraph
from certigraph.state.endings import UnknownName
from certigraph.state.records import Task


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

"""A question of one's own from Python: `certigraph.ask`."""

from pathlib import Path

from certigraph.adapters.assistantbench.own import OwnQuestion
from certigraph.adapters.context import Context
from certigraph.adapters.research.own import MODEL, asked
from certigraph.adapters.web.protocol import PageSource, SearchProvider
from certigraph.evaluation.recorder import Listener
from certigraph.evaluation.report.graded import ASK
from certigraph.evaluation.result import Result
from certigraph.evaluation.run import run
from certigraph.evaluation.settings import AnyGraph


def ask(
    question: str,
    *,
    search: str | SearchProvider = "",
    pages: str | Path | PageSource | None = None,
    graph: str | AnyGraph = "sdp",
    context: Context | None = None,
    out: Path | str = "runs",
    listener: Listener | None = None,
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

    Raises:
        UnknownName: the question is empty or too long, or a provider or model is unknown.
    """
    task = asked(question, search if isinstance(search, str) else "")
    context = context or Context(model=MODEL)
    if isinstance(pages, str | Path):
        context, pages = context.model_copy(update={"data": str(pages)}), None
    if isinstance(search, str) and pages is None:
        return run(graph, ASK, task, context=context, out=out, listener=listener)
    own = OwnQuestion(search=None if isinstance(search, str) else search, pages=pages)
    return run(graph, own, task, context=context, out=out, listener=listener)

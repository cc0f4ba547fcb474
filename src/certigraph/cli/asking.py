"""A question of one's own, researched on the web."""

from pathlib import Path
from typing import Annotated

import typer

from certigraph.adapters.research.own import GENERATED, MODEL, asked
from certigraph.cli.options import AsJson, Budgets, Cache, Out, Roles, Swaps
from certigraph.state.endings import Fault, UnknownName


def ask_command(
    question: Annotated[str, typer.Argument(metavar="QUESTION", help="In quotes; at most 2,000 characters.")],
    model: Annotated[
        str, typer.Option(help="openai:NAME, local:qwen-0.5b, ...; `certigraph list` has all forms.")
    ] = MODEL,
    search: Annotated[
        str,
        typer.Option(
            help="serper, brave, searxng, openai:MODEL, local:FOLDER, several with commas between them: the first is "
            "searched, the second is another source of evidence. Else CERTIGRAPH_SEARCH, else those whose key is set. "
            "generated: the invented web of the benchmark `web`, to try things out."
        ),
    ] = "",
    pages: Annotated[str | None, typer.Option(metavar="DIR", help="A folder of pages to search.")] = None,
    out: Out = Path("runs"),
    role: Roles = None,
    swap: Swaps = None,
    budget: Budgets = None,
    cache: Cache = None,
    as_json: AsJson = False,
) -> None:
    """Answer a question from the web: each finding with its sources, what stayed uncertified, and the cost."""
    from certigraph.adapters.benchmarks import load_benchmark
    from certigraph.cli.printed import finish
    from certigraph.cli.watched import watching
    from certigraph.evaluation.ask import ask, check_script
    from certigraph.evaluation.budgets import context_from
    from certigraph.evaluation.report.graded import ASK
    from certigraph.evaluation.settings import build_graph, parse_swap

    if pages and search:
        raise UnknownName(f"--pages {pages} is searched alone: leave out --search {search}")
    task = asked(question, search)
    compiled = build_graph("sdp", dict(map(parse_swap, swap or [])))
    if pages and not Path(pages).is_dir():
        raise UnknownName(f"{pages}: no such folder: correct --pages DIR")
    try:
        context = context_from(model, role, pages, budget, ASK, cache)
    except Fault as fault:
        raise _with_another(fault) from None
    live = load_benchmark(ASK, pages)
    check_script(live, task, context)
    live.open(task).close()  # a key that is missing is told before a run begins
    with watching(out, context.limits, silent=as_json) as listener:
        result = ask(
            question, search=search, graph=compiled, context=context, out=out, listener=listener, on_error="ignore"
        )
    finish(result, as_json=as_json)


def _with_another(fault: Fault) -> Fault:
    """The fault; where an endpoint's model has no key, with a model that needs none."""
    if not str(fault).startswith("openai:"):
        return fault
    local = "or ask a model on this machine: --model local:qwen-0.5b"
    return Fault(fault.boundary, f"{fault}; {local}; to look at it first: --model scripted:expert --search {GENERATED}")

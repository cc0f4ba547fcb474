"""Commands for single runs: run, resume, report, ask and delete."""

import shlex
import sys
from pathlib import Path
from typing import Annotated

import typer

from certigraph.cli.options import (
    AsJson,
    BenchmarkName,
    Budgets,
    Cache,
    Data,
    Faults,
    GraphName,
    KeepPrompts,
    Model,
    Out,
    Roles,
    Swaps,
    Window,
)
from certigraph.state.defaults import DEFAULT_MODEL
from certigraph.state.endings import Fault, UnknownName

MAX_OPEN_RUNS = 3
"""Maximum number of unfinished runs that a message names."""

# One run: start it, resume it, write its report.


def run_command(
    graph: GraphName,
    benchmark: BenchmarkName = "",
    task: Annotated[
        str | None, typer.Option(help="Task id; by default the first task. For an agent of yours, the request.")
    ] = None,
    model: Model = "",
    role: Roles = None,
    data: Data = None,
    out: Out = Path("runs"),
    swap: Swaps = None,
    budget: Budgets = None,
    cache: Cache = None,
    window: Window = 0,
    faults: Faults = "",
    keep_prompts: KeepPrompts = True,
    as_json: AsJson = False,
) -> None:
    """Run a graph on one task, and show which predicates of its plan are certified.

    Without --model a script that knows the answer takes the model's place: scripted:expert.
    An agent of yours (MODULE:NAME, made by certigraph.agent or LangChain's create_agent) has tools in place of a
    benchmark, and takes a request as its task.
    """
    from certigraph.cli.output import announce_source, print_result, watch_run
    from certigraph.graphs.agent import AgentGraph
    from certigraph.graphs.assembly import operators_of
    from certigraph.runtime.agent_runs import create_agent_context, create_outside_context
    from certigraph.runtime.outside_runs import is_outside_agent
    from certigraph.runtime.registry import build_graph, check_encoders, create_context, parse_swap
    from certigraph.runtime.run import run

    compiled = build_graph(graph, dict(map(parse_swap, swap or [])))
    check_encoders(operators_of(compiled))
    if isinstance(compiled, AgentGraph):
        if data:
            raise UnknownName(f"--data {data} is for benchmarks, and {graph} has tools of its own: leave --data out")
        context = create_agent_context(compiled, model, role, budget, cache, window)
    elif task and not benchmark and is_outside_agent(compiled):
        context = create_outside_context(compiled, [*([model] if model else []), *(role or [])], budget)
    elif not benchmark:
        raise UnknownName(f"{graph} needs a benchmark: certigraph run {graph} BENCHMARK; `certigraph list` has them")
    else:
        context = create_context(model or "scripted:expert", role, data, budget, benchmark, cache, window)
        announce_source(benchmark, data)
    context = context.model_copy(update={"faults": faults}) if faults else context
    with watch_run(out, context.limits, silent=as_json) as listener:
        result = run(
            compiled,
            benchmark,
            task,
            context=context,
            out=out,
            keep_prompts=keep_prompts,
            listener=listener,
            on_error="ignore",
        )
    print_result(result, as_json=as_json)


def resume_command(
    folder: Annotated[Path, typer.Argument(metavar="RUN", help="Folder of a run.")],
    answer: Annotated[
        str | None, typer.Option(metavar="JSON", help="Answer to the question for which the run waits: JSON, or text.")
    ] = None,
    budget: Budgets = None,
    as_json: AsJson = False,
) -> None:
    """Resume a run that was killed or interrupted, stopped by its budget, or that waits for an answer."""
    from certigraph.cli.output import load_allowance, print_result, watch_run
    from certigraph.runtime.approvals import parse_answer
    from certigraph.runtime.run import resume

    _check_single_run(folder)
    given = None if answer is None else parse_answer(answer)
    if isinstance(given, str) and given.lstrip()[:1] in ("{", "["):
        fix = "close its brackets and quotes, and put it in single quotes for the shell"
        raise UnknownName(f"--answer {answer!r:.200} begins as JSON and is none: {fix}")
    new_budget, limits = load_allowance(folder, budget)
    with watch_run(folder.parent, limits, silent=as_json) as listener:
        result = resume(folder, answer=given, budget=new_budget, limits=limits, listener=listener, on_error="ignore")
    print_result(result, as_json=as_json)


def _check_single_run(folder: Path) -> None:
    """Raise UnknownName if a folder holds many runs that another command continues; the message names it."""
    from certigraph.adapters.trajectories import TRAJECTORY_FILE
    from certigraph.runtime.files import MANIFEST_FILE, find_trajectories, read_last_footer

    out, log = f"--out {shlex.quote(str(folder))}", max(folder.glob("*.eval"), default=None)
    if (folder / TRAJECTORY_FILE).is_file():
        return
    if (folder / MANIFEST_FILE).is_file():
        command = f"the command that began it: certigraph compare (or ablate, study cgdp, study tdp) {out}"
        raise UnknownName(f"{folder} holds a comparison, an ablation or a study: continue it with {command}")
    if any(folder.glob(f"*/{MANIFEST_FILE}")):
        fix = f"name the folder of one; if a sweep wrote {folder}, continue it with certigraph sweep FILE.yaml {out}"
        raise UnknownName(f"{folder} is not a run; it has folders of comparisons: {fix}")
    if log:
        retry = f"certigraph eval --retry {shlex.quote(str(log))}"
        open_runs = [path.parent for path in find_trajectories(folder) if read_last_footer(path) is None]
        shown = f"; begun and not finished: {', '.join(map(str, open_runs[-MAX_OPEN_RUNS:]))}" if open_runs else ""
        raise UnknownName(f"{folder} is not a run; continue its latest evaluation with {retry}{shown}")


def report_command(folder: Annotated[Path, typer.Argument(metavar="RUN", help="Folder of a run.")]) -> None:
    """Write the HTML report of a run, in place of an earlier one."""
    from certigraph.runtime.report import write_report

    typer.echo(write_report(folder))


# Prompts of a method.


def prompts_command(
    graph: GraphName,
    benchmark: BenchmarkName,
    task: Annotated[str | None, typer.Option(help="Task id; by default the first task.")] = None,
    role: Annotated[str, typer.Option(help="Only requests in this role, such as planner.")] = "",
    steps: Annotated[int, typer.Option(min=0, help="Stop after this many world steps; 0: run to the end.")] = 0,
    window: Annotated[int, typer.Option(min=0, help="Tokens of the model's context window; 0: 128,000.")] = 0,
    stable: Annotated[
        bool, typer.Option("--stable", help="Print a table: requests, mean tokens, and what a prefix cache can serve.")
    ] = False,
    model: Annotated[
        str, typer.Option(help="The script that answers: scripted:expert, simulated:act=0.3, scripted:random, ...")
    ] = "",
    swap: Swaps = None,
    data: Data = None,
    as_json: AsJson = False,
) -> None:
    """Print the prompts of a method as a model would get them, with their tokens. No model is called.

    A script plays the task: the benchmark's expert, else a simulated agent. Of each kind of request (node, role and
    answer) the last one is printed, which shows most of the inputs.
    """
    from certigraph.adapters.benchmarks import load_benchmark
    from certigraph.adapters.imports import check_names
    from certigraph.adapters.protocols import ROLES
    from certigraph.cli.output import announce_source, print_prompts
    from certigraph.runtime.prompts import collect_prompts
    from certigraph.runtime.registry import build_graph, parse_swap

    check_names([role] if role else [], ROLES, "no role")
    compiled, live = build_graph(graph, dict(map(parse_swap, swap or []))), load_benchmark(benchmark, data)
    announce_source(benchmark, data)
    collected = collect_prompts(compiled, live, task, model=model, window=window, steps=steps)
    print_prompts(collected, role, texts=not stable, as_json=as_json)


# A user's question, researched on the web.


def ask_command(
    question: Annotated[str, typer.Argument(metavar="QUESTION", help="In quotes; at most 2,000 characters.")],
    model: Annotated[
        str, typer.Option(help="openai:NAME, local:qwen-0.5b, ...; `certigraph list models` shows all forms.")
    ] = DEFAULT_MODEL,
    search: Annotated[
        str,
        typer.Option(
            help="serper, brave, searxng, openai:MODEL or local:FOLDER; several separated by commas: the first is "
            "searched, the second is another source of evidence. By default CERTIGRAPH_SEARCH, else those whose key is "
            "set. generated: the generated web of the benchmark `web`, to try the command."
        ),
    ] = "",
    pages: Annotated[
        str | None, typer.Option(metavar="DIR", help="Folder of pages to search, instead of --search.")
    ] = None,
    out: Out = Path("runs"),
    role: Roles = None,
    swap: Swaps = None,
    budget: Budgets = None,
    cache: Cache = None,
    window: Window = 0,
    as_json: AsJson = False,
) -> None:
    """Answer a question from the web, with the sources of each finding, what is not certified, and the cost."""
    from certigraph.adapters.benchmarks import load_benchmark
    from certigraph.benchmarks.ask import ask, check_scripted_model
    from certigraph.cli.output import print_result, watch_run
    from certigraph.runtime.registry import build_graph, create_context, parse_swap
    from certigraph.runtime.result import ASK_BENCHMARK
    from certigraph.state.search import create_question_task

    if pages and search:
        raise UnknownName(f"--pages {pages} cannot be combined with --search: leave out --search {search}")
    task = create_question_task(question, search)
    compiled = build_graph("sdp", dict(map(parse_swap, swap or [])))
    if pages and not Path(pages).is_dir():
        raise UnknownName(f"{pages}: no such folder: correct --pages DIR")
    try:
        context = create_context(model, role, pages, budget, ASK_BENCHMARK, cache, window)
    except Fault as fault:
        raise _add_model_advice(fault) from None
    live = load_benchmark(ASK_BENCHMARK, pages)
    check_scripted_model(live, task, context)
    live.open(task).close()  # raises an error for a missing key before the run starts
    with watch_run(out, context.limits, silent=as_json) as listener:
        result = ask(
            question, search=search, graph=compiled, context=context, out=out, listener=listener, on_error="ignore"
        )
    print_result(result, as_json=as_json)


def _add_model_advice(fault: Fault) -> Fault:
    """Add advice on models that need no key to the error about an OpenAI-compatible model whose key is missing."""
    if not str(fault).startswith("openai:"):
        return fault
    from certigraph.state.search import GENERATED_WEB

    local = "or use a model on this machine: --model local:qwen-0.5b"
    return Fault(
        fault.boundary, f"{fault}; {local}; to try the command: --model scripted:expert --search {GENERATED_WEB}"
    )


# Deletion of runs.


def delete_command(
    folders: Annotated[list[Path], typer.Argument(metavar="RUN...", help="Folders of runs.")],
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")] = False,
) -> None:
    """Delete runs completely: their files, checkpoints on a server, and lines in journals of evaluations."""
    from certigraph.runtime.run import delete, resolve_run_folder
    from certigraph.runtime.terminal import clean_line

    for folder in folders:
        resolve_run_folder(folder)
    if not yes:
        _confirm_deletion(folders)
    remaining = dict.fromkeys(left for folder in folders for left in delete(folder))
    typer.echo(
        "\n".join(["deleted: " + ", ".join(clean_line(str(folder)) for folder in folders), *map(clean_line, remaining)])
    )


def _confirm_deletion(folders: list[Path]) -> None:
    if not sys.stdin.isatty():
        what = "one run" if len(folders) == 1 else f"{len(folders)} runs"
        raise UnknownName(f"deleting {what} needs a confirmation, and there is no terminal to ask in: add --yes")
    typer.confirm(f"Delete {', '.join(map(str, folders))} permanently?", abort=True)

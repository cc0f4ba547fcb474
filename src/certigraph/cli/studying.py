"""Studies: CGDP's search harnesses, memory conditions and gate; TDP's prompts; and how well the retrievers find."""

import os
from pathlib import Path
from typing import Annotated, Literal

import typer

from certigraph.adapters.caching import expanded
from certigraph.cli.comparing import AtOnce, Limit, ReportOnly
from certigraph.cli.options import AsJson, Budgets, Cache, Data, Model, Roles, Split, Tasks
from certigraph.evaluation.extras import TABLES, equipped
from certigraph.state.endings import Fault

Named = list[str] | None

study_app = typer.Typer(help="Studies of agents, each a resumable folder with tables, figures and a page.")


@study_app.command("cgdp")
def cgdp_command(
    on: Annotated[str | None, typer.Option(metavar="BENCHMARK", help="Or BENCHMARK:CONFIGURATION.")] = None,
    harness: Annotated[Named, typer.Option(help="ircot, react, memgpt, iter_retgen; again for more; else all.")] = None,
    memory: Annotated[
        Named, typer.Option(help="native, lobotomized, structured or freeform; again for more; else all.")
    ] = None,
    gate: Annotated[
        Named, typer.Option(help="shadow (one run tells both: the default), on, off; again for more.")
    ] = None,
    gate_operator: Annotated[
        str, typer.Option(metavar="OPERATOR", help="The gate: smooth_gate:upr=0.1, judged_gate:stance=neutral.")
    ] = "exhaustion_gate",
    beside: Annotated[Named, typer.Option(metavar="GRAPH", help="Also run this graph, such as sdp.")] = None,
    ablate: Annotated[Literal["alpha", "k", "depth"] | None, typer.Option(help="An ablation of appendix H.")] = None,
    split: Split = "",
    task: Tasks = None,
    limit: Limit = 0,
    model: Model = "scripted:expert",
    role: Roles = None,
    data: Data = None,
    budget: Budgets = None,
    cache: Cache = None,
    out: Annotated[Path, typer.Option(help="The study's folder; one begun there goes on.")] = Path("study"),
    at_once: AtOnce = 1,
    report_only: ReportOnly = False,
    as_json: AsJson = False,
) -> None:
    """Run CGDP's study; started again, with the same options or with --out alone, it goes on where it stopped."""
    equipped("studies", *TABLES)
    from certigraph.cli.watched import said_source
    from certigraph.evaluation.budgets import context_from
    from certigraph.evaluation.comparing.command import Choice, order, order_in
    from certigraph.evaluation.studying.command import Asked, methods_of, worked_off

    if on and not report_only:
        asked = Asked(harness or (), memory or (), gate or ("shadow",), ablate or "", beside or (), gate_operator)
        methods = methods_of(asked)
        said_source(on, data)
        context = context_from(model, role, data, budget, on, cache)
        given = order(methods, on, Choice(task or [], split, limit), context)
    else:
        given = order_in(out)
    raise typer.Exit(worked_off(given, out, at_once=at_once, report_only=report_only, as_json=as_json))


@study_app.command("tdp")
def tdp_command(
    longest: Annotated[int | None, typer.Option(help="World steps of the longest episode, 40 by default.")] = None,
    out: Annotated[Path, typer.Option(help="The study's folder; one begun there goes on.")] = Path("tdp-prompts"),
    report_only: ReportOnly = False,
    as_json: AsJson = False,
) -> None:
    """How prompts grow with an episode, TDP's beside others': scripted episodes, seconds, no model."""
    equipped("studies", *TABLES)
    from certigraph.evaluation.studying.prompt_command import order_of, worked_off

    raise typer.Exit(worked_off(order_of(longest, out), out, report_only=report_only, as_json=as_json))


@study_app.command("retrieval")
def retrieval_command(
    split: Annotated[Named, typer.Option(help="'hotpotqa train', 'musique dev', ...; again for more.")] = None,
    dense: Annotated[bool, typer.Option(help="Also vectors, and mixtures with them.")] = True,
    data: Data = None,
    out: Annotated[Path, typer.Option(help="Folder for the figures.")] = Path("recall"),
    as_json: AsJson = False,
) -> None:
    """Passage recall of BM25, two-stage, dense and hybrid retrieval side by side, each question once and hop by hop."""
    equipped("studies", *TABLES)
    from certigraph.evaluation.recall.drawing import write_recall
    from certigraph.evaluation.recall.printing import print_recall
    from certigraph.evaluation.recall.questions import FILES
    from certigraph.evaluation.recall.study import recall_study

    study = recall_study(_root(data), splits=split or tuple(FILES), dense=dense)
    files = write_recall(study, out)
    if as_json:
        typer.echo(study.model_dump_json())
    else:
        print_recall(study)
        typer.echo(f"written: {', '.join(map(str, files))}")


def _root(data: str | None) -> Path:
    """The folder that holds one folder per benchmark."""
    given = data or os.environ.get("CERTIGRAPH_DATA")
    if not given:
        raise Fault("data", "the study needs hotpotqa/ and musique/: name their folder by --data or CERTIGRAPH_DATA")
    return expanded(given)

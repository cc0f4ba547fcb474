"""Recorded answers, graded by a model."""

from pathlib import Path
from typing import Annotated

import typer

from certigraph.cli.options import AsJson, Budgets, Cache, Data, Model
from certigraph.evaluation.extras import TABLES, equipped


def judge_command(
    folders: Annotated[list[Path], typer.Argument(metavar="FOLDER...", help="Searched for runs at any depth.")],
    rubric: Annotated[
        str,
        typer.Option(help="cgdp (0-100), swe-qa (five criteria), tdp (right or wrong); no model: strings, similarity."),
    ],
    model: Model = "scripted:expert",
    data: Data = None,
    budget: Budgets = None,
    cache: Cache = None,
    out: Annotated[Path, typer.Option(help="File of judgements; those in it are not asked for again.")] = Path(
        "judged.jsonl"
    ),
    as_json: AsJson = False,
) -> None:
    """Judge recorded answers beside their references, by a model or by measures of text; started again, it goes on."""
    equipped("judgements", *TABLES)
    from certigraph.adapters.context import Context
    from certigraph.adapters.models.chat import is_scripted, ready
    from certigraph.adapters.protocols import Limits
    from certigraph.evaluation.anatomy.reading import find_runs
    from certigraph.evaluation.budgets import allowance
    from certigraph.evaluation.judging.cases import cases_in
    from certigraph.evaluation.judging.judge import judge
    from certigraph.evaluation.judging.printing import print_judged, watching
    from certigraph.evaluation.judging.rubrics import Rubric
    from certigraph.evaluation.judging.rubrics import rubric as rubric_named

    chosen = rubric_named(rubric)
    if isinstance(chosen, Rubric):
        ready(model)
        if is_scripted(model):
            typer.echo("a script answers for the judge: its grades are no judgement; name one by --model", err=True)
    context = Context(model=model, budget=allowance(budget or [], Limits()).budget, cache=cache)
    cases = cases_in(find_runs(folders), data)
    with watching(len(cases.ended), silent=as_json) as told:
        judged = judge(cases.ended, chosen, context, out, told=told)
    print_judged(judged, cases, str(out), as_json=as_json)
    raise typer.Exit(1 if judged.left else 0)

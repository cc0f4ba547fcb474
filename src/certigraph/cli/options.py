"""Arguments and options that several commands share."""

from pathlib import Path
from typing import Annotated

import typer

GRAPH_HELP = "Name of a graph, or module:attribute for your own; `certigraph list` shows all."
BENCHMARK_HELP = "BENCHMARK or BENCHMARK:CONFIGURATION, or module:attribute for your own."
GraphName = Annotated[str, typer.Argument(metavar="GRAPH", help=GRAPH_HELP)]
BenchmarkName = Annotated[str, typer.Argument(metavar="BENCHMARK", help=BENCHMARK_HELP)]
Model = Annotated[
    str,
    typer.Option(
        help="openai:NAME, local, local:qwen-0.5b, local:FILE.gguf, scripted:expert, scripted:first, scripted:random, "
        "simulated:act=0.2."
    ),
]
Roles = Annotated[
    list[str] | None,
    typer.Option("--role", help="ROLE=MODEL: planner, executor, validator, extractor, memory, judge or world."),
]
Data = Annotated[
    str | None, typer.Option(help="Data folder; by default CERTIGRAPH_DATA, or a generated world without that.")
]
Out = Annotated[Path, typer.Option(help="Folder in which each run gets a subfolder.")]
Swaps = Annotated[list[str] | None, typer.Option("--swap", help="SLOT=OPERATOR: validate=always_pass.")]
Budgets = Annotated[
    list[str] | None,
    typer.Option("--budget", help="KEY=N: calls, tokens, usd, seconds, steps, attempts, replans, trials, ..."),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")]
Cache = Annotated[str | None, typer.Option(help="Folder that stores replies of models, so that none is paid twice.")]
Profile = Annotated[
    str,
    typer.Option("--profile", help="Size of prompts and answers: full or small; by default by the model's window."),
]
Split = Annotated[str, typer.Option(help="Split of the tasks; by default the benchmark's.")]
Tasks = Annotated[list[str] | None, typer.Option("--task", help="Task id, instead of a split; repeat for more.")]
Faults = Annotated[str, typer.Option(metavar="RATES", help="Faults to inject: timeout=0.1,crash=0.01,seed=3.")]

"""What several commands share: arguments, options, the layout of the help, and an exit status."""

from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

WAITING = 3
"""Exit status of a run that waits for an answer of a person."""

GRAPH_HELP = "Name of a graph, or module:attribute for your own; `certigraph list graphs` shows all."
BENCHMARK_HELP = "Name of a benchmark, or NAME:CONFIGURATION, or module:attribute for your own."
GraphName = Annotated[str, typer.Argument(metavar="GRAPH", help=GRAPH_HELP)]
BenchmarkName = Annotated[str, typer.Argument(metavar="BENCHMARK", help=BENCHMARK_HELP)]
Model = Annotated[
    str,
    typer.Option(
        help="Model, or a script instead: openai:NAME, local, local:qwen-0.5b, local:FILE.gguf, scripted:expert, "
        "scripted:first, scripted:random, simulated:act=0.2 (a script that errs, at rates that runs show)."
    ),
]
Roles = Annotated[
    list[str] | None,
    typer.Option(
        "--role",
        help="Another model for a role, ROLE=MODEL: planner, executor, validator, extractor, memory, judge or world.",
    ),
]
Data = Annotated[
    str | None,
    typer.Option(help="Folder of benchmark data; by default that of CERTIGRAPH_DATA, else generated sample data."),
]
Folders = Annotated[list[Path], typer.Argument(metavar="FOLDER...", help="Folders with runs, at any depth.")]
OnBenchmark = typer.Option("--on", metavar="BENCHMARK", help="BENCHMARK or BENCHMARK:CONFIGURATION.")
Out = Annotated[Path, typer.Option(help="Folder in which each run gets a subfolder.")]
Swaps = Annotated[
    list[str] | None,
    typer.Option("--swap", help="Replace the operator of a slot: SLOT=OPERATOR, such as replan=give_up."),
]
Budgets = Annotated[
    list[str] | None,
    typer.Option(
        "--budget", help="Limit of a run, KEY=N: calls, tokens, usd, seconds, steps, attempts, replans, trials, ..."
    ),
]
KeepPrompts = Annotated[
    bool, typer.Option(help="Keep each request to a model and its reply in the run's folder; its report shows them.")
]
KeepAllPrompts = Annotated[
    bool,
    typer.Option("--keep-prompts", help="Keep requests to models and their replies; the reports of runs show them."),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")]
Cache = Annotated[str | None, typer.Option(help="Folder that stores replies of models, so that none is paid twice.")]
Window = Annotated[
    int,
    typer.Option(
        "--window",
        min=0,
        help="Tokens of the models' context window, if neither they nor their endpoint say it or less is to be used.",
    ),
]
Split = Annotated[str, typer.Option(help="Split of the tasks; by default the benchmark's.")]
Tasks = Annotated[list[str] | None, typer.Option("--task", help="Task id, instead of a split; repeat for more.")]
Faults = Annotated[str, typer.Option(metavar="RATES", help="Faults to inject: crash=0.1,seed=3.")]
Names = list[str] | None
"""Type of an option that may be repeated."""

TaskLimit = Annotated[int, typer.Option("--limit", min=0, help="Maximum number of tasks, from the first; 0: all.")]
Trials = Annotated[int, typer.Option(min=1, help="Number of runs of each method on each task.")]
AtOnce = Annotated[
    int, typer.Option("--at-once", min=1, help="Number of runs at a time, if the model's endpoint allows several.")
]
Processes = Annotated[int, typer.Option("--at-once", min=1, help="Number of processes.")]
ReportOnly = Annotated[bool, typer.Option("--report-only", help="Start no run; report the finished ones.")]
Workers = Annotated[int | None, typer.Option(min=1, help="Number of processes that execute the runs.")]
PairLimit = Annotated[int, typer.Option(min=0, help="Maximum number of pairs of each domain; 0: all.")]


class CommandGroup(TyperGroup):
    """A group of commands whose help lists them by purpose, each with its whole first sentence."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write a list of commands for each purpose (`rich_help_panel`)."""
        by_purpose: dict[str, list[tuple[str, str]]] = {}
        for name, command in self.commands.items():
            purpose = getattr(command, "rich_help_panel", None) or "Commands"
            by_purpose.setdefault(purpose, []).append((name, command.get_short_help_str(limit=200)))
        for purpose, rows in by_purpose.items():
            with formatter.section(purpose):
                formatter.write_dl(rows)

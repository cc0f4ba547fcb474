"""The command line: the application, its commands, and the conversion of errors to messages.

`EXIT_STATUS` says with which status commands end.
"""

import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from certigraph.adapters.extras import extra_of, missing_packages_fault
from certigraph.adapters.own_modules import OwnModules, find_own_modules
from certigraph.adapters.user_warnings import CallWarning
from certigraph.cli.applications import init_command
from certigraph.cli.artifacts import (
    anatomy_command,
    export_command,
    figures_command,
    graph_command,
    index_command,
    list_command,
    published_command,
    rewards_app,
)
from certigraph.cli.doctor import doctor_command
from certigraph.cli.evaluations import (
    ablate_command,
    compare_command,
    eval_command,
    judge_command,
    score_command,
    study_app,
    sweep_command,
)
from certigraph.cli.options import WAITING, CommandGroup
from certigraph.cli.runs import (
    ask_command,
    delete_command,
    prompts_command,
    report_command,
    resume_command,
    run_command,
)
from certigraph.state.endings import AnswerMissing, Fault, Interrupted, UnknownName

__all__ = ["app", "main"]

COMMANDS: dict[str, dict[str, Callable[..., None]]] = {
    "Run a method": {
        "init": init_command,
        "run": run_command,
        "ask": ask_command,
        "resume": resume_command,
        "report": report_command,
        "delete": delete_command,
    },
    "Measure and compare": {
        "eval": eval_command,
        "compare": compare_command,
        "ablate": ablate_command,
        "sweep": sweep_command,
        "score": score_command,
        "judge": judge_command,
    },
    "Analyse recorded runs": {
        "anatomy": anatomy_command,
        "figures": figures_command,
        "export": export_command,
    },
    "Look around": {
        "list": list_command,
        "doctor": doctor_command,
        "graph": graph_command,
        "prompts": prompts_command,
        "published": published_command,
        "index": index_command,
    },
}
"""Commands by name, by purpose, in the order of the help."""

EXIT_STATUS = (
    "Exit status of a run: 0 if the goal was certified or an answer given, whatever score the benchmark gives; 1 for "
    "another ending, 2 for invalid arguments, 3 if it waits for an answer of a person, 130 if interrupted."
)

app = typer.Typer(
    cls=CommandGroup,
    help=f"Long-horizon language agents whose progress is certified.\n\n{EXIT_STATUS}",
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # rich would more than double the time of --help
    context_settings={"help_option_names": ["-h", "--help"]},
)
for purpose, commands in COMMANDS.items():
    for name, command in commands.items():
        ends_as_run = name in ("run", "resume", "ask")
        app.command(name, rich_help_panel=purpose, epilog=EXIT_STATUS if ends_as_run else None)(command)
app.add_typer(study_app, name="study", rich_help_panel="Measure and compare")
app.add_typer(rewards_app, name="rewards", rich_help_panel="Measure and compare")


def _print_version(wanted: bool) -> None:
    if wanted:
        from certigraph import __version__

        typer.echo(f"certigraph {__version__}")
        raise typer.Exit


@app.callback()
def read_options(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """Read the options that stand before a command."""


def main(arguments: list[str] | None = None) -> None:
    """Run the `certigraph` command."""
    warnings.formatwarning = _create_warning_format()
    find_own_modules(OwnModules(str(Path.cwd())))
    try:
        sys.exit(app(arguments, standalone_mode=False) or 0)
    except AnswerMissing as waiting:
        _exit_with_message(str(waiting), WAITING)
    except (UnknownName, Fault) as error:
        _exit_with_message(str(error), 2)
    except Interrupted as interrupt:
        _exit_with_message(str(interrupt), 130)
    except (KeyboardInterrupt, typer.Abort):
        _exit_with_message("interrupted", 130)
    except ModuleNotFoundError as error:
        module = (error.name or "").partition(".")[0]
        if (extra := extra_of(module)) is None:
            raise
        _exit_with_message(str(missing_packages_fault("this command needs", [module], extra)), 2)
    except OSError as error:
        _exit_with_message(_file_error(error), 2)
    except Exception as error:
        if not hasattr(error, "format_message"):
            raise
        _exit_with_message(_usage_error(error, sys.argv[1:] if arguments is None else arguments), 2)


def _usage_error(error: Any, arguments: list[str]) -> str:
    # One line, though typer lists the choices of an option on a line each, with the command whose help has more.
    message = " ".join(str(error.format_message()).replace("Value error, ", "").split())
    if not arguments:
        return "name a command, for example: certigraph list"
    ctx = getattr(error, "ctx", None)  # the program may be "python -m certigraph"
    # an option without its value is refused before its command is known
    words = ctx.command_path.removeprefix(ctx.find_root().info_name).split() if ctx else arguments[:1]
    if words == ["run"] and getattr(error, "option_name", "") == "--limit":
        message += "; a run has one task: choose it with --task, or run several with certigraph eval ... --limit N"
    if getattr(error, "option_name", "") == "--limits":
        message = "No such option: --limits; limits of a run belong to its budget, as in --budget steps=60"
    return f"{message.rstrip('.')}; see {' '.join(['certigraph', *words, '--help'])}"


def _file_error(error: OSError) -> str:
    from certigraph.runtime.files import is_disk_full

    fix = "name another with --out, --data or --plans"
    if is_disk_full(error):
        fix = "free space, then repeat the command; a run that was started is resumed with: certigraph resume FOLDER"
    return f"{error.filename or 'a file'}: {error.strerror or error}: {fix}"


def _create_warning_format() -> Callable[..., str]:
    """Create the function that formats warnings: those of certigraph as one line, each once.

    File name and line number do not help a user of commands. Python's own filter forgets what it showed whenever a
    library changes the filters.
    """
    shown: set[str] = set()

    def format_warning(message: Warning | str, category: type[Warning], filename: str, *rest: Any) -> str:
        if not (issubclass(category, CallWarning) or Path(filename).is_relative_to(Path(__file__).parents[1])):
            return _FORMAT_WARNING(message, category, filename, *rest)
        line = f"certigraph: warning: {message}\n"
        if line in shown:
            return ""
        shown.add(line)
        return line

    return format_warning


_FORMAT_WARNING = warnings.formatwarning


def _exit_with_message(message: str, status: int) -> None:
    from rich.console import Console

    from certigraph.adapters.redaction import redact_message
    from certigraph.runtime.terminal import clean_lines

    text = clean_lines(f"certigraph: {redact_message(message)}")
    Console(stderr=True, highlight=False, soft_wrap=True).print(text, markup=False)
    sys.exit(status)

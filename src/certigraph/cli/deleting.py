"""Runs that are to be gone."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from certigraph.state.endings import UnknownName


def delete_command(
    folders: Annotated[list[Path], typer.Argument(metavar="RUN...", help="Folders of runs.")],
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Ask nothing.")] = False,
) -> None:
    """Delete runs with everything of their own: files, checkpoints on a server, lines in journals."""
    from certigraph.evaluation.deleting import delete, must_be_run
    from certigraph.evaluation.live.text import clean

    for folder in folders:
        must_be_run(folder)
    if not yes:
        _agreed(folders)
    left = dict.fromkeys(told for folder in folders for told in delete(folder))
    typer.echo("\n".join(["deleted: " + ", ".join(clean(str(folder)) for folder in folders), *map(clean, left)]))


def _agreed(folders: list[Path]) -> None:
    if not sys.stdin.isatty():
        raise UnknownName(f"nobody can be asked here whether to delete {len(folders)} runs: add --yes")
    typer.confirm(f"Delete {', '.join(map(str, folders))} for good?", abort=True)

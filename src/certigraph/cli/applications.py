"""The command that writes a LangGraph application: init."""

from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer

from certigraph.state.endings import Fault

APPLICATION = {
    "tools.py": "tools.py.txt",
    "agent.py": "agent.py.txt",
    "run.py": "run.py.txt",
    "scripted_model.py": "scripted_model.py.txt",
    "langgraph.json": "langgraph.json.txt",
    ".env.example": "env.example.txt",
    "README.md": "README.md.txt",
}
"""Files of an application, and the template of each."""


def init_command(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="Folder of the application; it is created.")],
) -> None:
    """Write a LangGraph application with an agent and tools of its own, ready for `langgraph dev`."""
    for file in write_application(folder):
        typer.echo(file)
    missing = "" if find_spec("langgraph_cli") else ", after: pip install 'certigraph[studio]'"
    typer.echo(f"\nnext: cd {folder}, and run: python run.py")
    typer.echo("A script takes the model's place until you name a model: no key is needed to try it.")
    typer.echo("To name one: cp .env.example .env, edit it, and run: set -a; . ./.env; set +a; python run.py")
    typer.echo(f"In LangGraph Studio, which reads .env by itself: langgraph dev{missing}")


def write_application(folder: Path) -> list[Path]:
    """Write the files of an application, and return them.

    Raises:
        Fault: ("data") one of the files exists already; nothing is written.
    """
    written = {folder / name: template for name, template in APPLICATION.items()}
    if taken := [file for file in written if file.exists() or file.is_symlink()]:
        raise Fault("data", f"{taken[0]} exists already, and nothing was written: name another folder")
    folder.mkdir(parents=True, exist_ok=True)
    templates = files("certigraph.cli") / "templates"
    for file, template in written.items():
        file.write_text((templates / template).read_text(encoding="utf-8"), encoding="utf-8")
    return list(written)

"""The command that shows what is installed, what is missing, and which command brings it: doctor."""

import json
import os
import platform
import shutil
from collections.abc import Iterator, Sequence
from importlib import metadata
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

import typer

from certigraph.cli.options import AsJson

PROGRAMS = {
    "java": ("ScienceWorld's simulator", "apt install openjdk-17-jre-headless"),
    "dot": ("drawings as PNG where the extra draw is missing", "apt install graphviz"),
    "chromium": ("pages that need JavaScript", "pip install 'certigraph[browser]' && playwright install chromium"),
}
"""Programs on the search path: what needs each, and the command that installs it."""

EXTRAS = {
    "local": "embedded language models",
    "embeddings": "sentence encoders for rewards and retrieval",
    "retrieval": "indexes of large corpora",
    "scienceworld": "ScienceWorld's simulator",
    "alfworld": "ALFWorld's simulator",
    "textworld": "TextWorld's games",
    "webshop": "WebShop's reward",
    "agentdojo": "AgentDojo's tasks and attacks",
    "web": "pages of the web",
    "browser": "pages that need JavaScript",
    "lora": "tuning of reward models",
    "eval": "evaluations, statistics and plots",
    "postgres": "checkpoints in Postgres",
    "ray": "evaluations on several machines",
    "studio": "LangGraph Studio",
    "langchain": "models of other providers, PROVIDER:NAME",
    "mcp": "tools of MCP servers",
    "draw": "drawings of graphs as PNG",
    "docs": "the documentation as a website",
}
"""What each extra is for."""

GPL_EXTRAS = ("alfworld", "textworld")
"""Extras that need GPL packages, which no other command installs."""


class InstalledPart(NamedTuple):
    """Something that certigraph can use: its kind and name, whether it is there, and what it is or what brings it."""

    kind: str
    name: str
    found: bool
    detail: str


def doctor_command(as_json: AsJson = False) -> None:
    """Show what is installed, what is missing, and which command brings it. Keys are named, never shown."""
    parts = list(inspect_installation())
    if as_json:
        typer.echo(json.dumps([part._asdict() for part in parts]))
        return
    for kind, found in groupby(parts, key=lambda part: part.kind):
        group = list(found)
        typer.echo(f"{kind}:")
        for part in group:
            detail = EXTRAS.get(part.name, "") if kind == "extras" else part.detail
            typer.echo(f"  {_MARKS[part.found]}  {part.name:<22} {detail}")
        if kind == "extras":
            for command in _install_commands([part.name for part in group if not part.found]):
                typer.echo(f"       {command}")


_MARKS = {True: typer.style("yes", fg="green"), False: typer.style("no ", fg="yellow")}


def _install_commands(extras: Sequence[str]) -> Iterator[str]:
    from certigraph.adapters.encoders import TORCH_COMMAND, TORCH_REASON

    if "embeddings" in extras and not _is_installed("torch", ""):
        yield f"{TORCH_COMMAND}  # first: {TORCH_REASON}"
    for names, comment in (
        ([extra for extra in extras if extra not in GPL_EXTRAS], ""),
        ([extra for extra in extras if extra in GPL_EXTRAS], "  # needs GPL packages"),
    ):
        if names:
            yield f"{_format_install(names)}{comment}"


def _format_install(extras: Sequence[str]) -> str:
    return f"pip install 'certigraph[{','.join(extras)}]'"


def inspect_installation() -> Iterator[InstalledPart]:
    """Yield what certigraph can use on this machine, in the order of the printed list. Nothing heavy is imported."""
    yield InstalledPart("this machine", "python", True, f"{platform.python_version()}, {platform.system()}")
    yield InstalledPart("this machine", "certigraph", True, _version("certigraph"))
    yield from _extras()
    for name, (use, command) in PROGRAMS.items():
        found = shutil.which(name) is not None
        yield InstalledPart("programs", name, found, use if found else f"{use}: {command}")
    yield from _models()
    yield from _data()


def _version(distribution: str) -> str:
    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return "run from a checkout that is not installed"


def _extras() -> Iterator[InstalledPart]:
    """Yield the extras of certigraph; one is there if all its packages are, in versions that it accepts."""
    from packaging.requirements import Requirement

    try:
        about = metadata.metadata("certigraph")
    except metadata.PackageNotFoundError:
        return
    requirements = [Requirement(text) for text in about.get_all("Requires-Dist") or ()]
    for extra in about.get_all("Provides-Extra") or ():
        of_extra = (r for r in requirements if r.marker and r.marker.evaluate({"extra": extra}))
        needed = [r for r in of_extra if r.name != "certigraph"]
        if extra in ("all", "dev") or not needed:
            continue
        use = EXTRAS.get(extra, "")
        missing = [r.name for r in needed if not _is_installed(r.name, str(r.specifier))]
        yield InstalledPart("extras", extra, not missing, f"{use}: {_format_install([extra])}" if missing else use)


def _is_installed(name: str, specifier: str) -> bool:
    from packaging.specifiers import SpecifierSet

    try:
        return SpecifierSet(specifier).contains(metadata.version(name), prereleases=True)
    except metadata.PackageNotFoundError:
        return False


def _models() -> Iterator[InstalledPart]:
    """Yield keys and endpoints by the names of their variables, and weights that are installed."""
    from certigraph.adapters.encoders import find_encoder, install_advice
    from certigraph.adapters.models.clients import NAMED_WEIGHTS, load_named_weights
    from certigraph.adapters.redaction import show_address
    from certigraph.state.defaults import DEFAULT_ENCODER, MATCHING_ENCODER
    from certigraph.state.endings import Fault

    key, address = os.environ.get("OPENAI_API_KEY"), os.environ.get("CERTIGRAPH_BASE_URL")
    yield InstalledPart("models", "OPENAI_API_KEY", bool(key), "is set" if key else "export OPENAI_API_KEY=...")
    if address:
        yield InstalledPart("models", "CERTIGRAPH_BASE_URL", True, show_address(address))
    for name in NAMED_WEIGHTS:
        try:
            path = load_named_weights(name)
        except Fault as fault:
            yield InstalledPart("models", f"local:{name}", False, str(fault).rpartition("; run ")[2])
        else:
            size = f"{path.stat().st_size / 1e6:.0f} MB of weights"
            usable = _is_installed("xllamacpp", "")
            advice = "" if usable else f", and nothing that runs them: {_format_install(['local'])}"
            yield InstalledPart("models", f"local:{name}", usable, f"{size}{advice}")
    for name, use in ((DEFAULT_ENCODER, "rewards and retrieval"), (MATCHING_ENCODER, "matching of actions")):
        found = find_encoder(name) is not None
        yield InstalledPart("models", name, found, f"sentence encoder: {use}" if found else install_advice(name))


def _data() -> Iterator[InstalledPart]:
    """Yield the folders of benchmark data."""
    from certigraph.cli.inventory import read_inventory

    folder = os.environ.get("CERTIGRAPH_DATA")
    if not folder:
        yield InstalledPart(
            "data", "CERTIGRAPH_DATA", False, "generated worlds stand in; or export CERTIGRAPH_DATA=DIR"
        )
        return
    for name in read_inventory()["benchmarks"]:
        if (Path(folder) / name).is_dir():
            yield InstalledPart("data", name, True, f"CERTIGRAPH_DATA/{name}")
    if not Path(folder).is_dir():
        yield InstalledPart("data", "CERTIGRAPH_DATA", False, "names a folder that does not exist")

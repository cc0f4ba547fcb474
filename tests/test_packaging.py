"""What builds and tools take from a checkout: with symbolic links, and without, as git makes it on some systems."""

import fnmatch
import re
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from collections.abc import Sequence
from pathlib import Path

import pytest
from helpers.files.product import LINKED, REAL, ROOT, folder_of

SETTINGS = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
BUILD = SETTINGS["tool"]["setuptools"]
PIP = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet"]

PARTS = {"": ROOT / "src" / "certigraph", **{part: folder_of(part) for part in (*LINKED, *REAL)}}


def package_folders() -> dict[str, Path]:
    """The folder of each package of the product, by its name."""
    found = {"certigraph": ROOT / "src" / "certigraph"}
    for part in (*LINKED, *REAL):
        top = folder_of(part)
        for file in top.rglob("__init__.py"):
            inner = file.parent.relative_to(top.parent).parts
            found[".".join(("certigraph", *inner))] = file.parent
    return found


def test_the_list_of_packages_is_that_of_the_folders():
    assert sorted(BUILD["packages"]) == sorted(package_folders())
    assert BUILD["package-dir"] == {"": "src", **{f"certigraph.{part}": part for part in LINKED}}


def test_every_file_that_is_not_a_module_is_listed():
    folders = package_folders()
    listed = [
        (folders[package], pattern) for package, patterns in BUILD["package-data"].items() for pattern in patterns
    ]
    tracked = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()
    files = [ROOT / name for name in tracked if not name.endswith(".py")]
    inside = [file for file in files if not file.is_symlink() and any(file.is_relative_to(at) for at in PARTS.values())]
    assert len(inside) > 30
    left_out = [
        str(file)
        for file in inside
        if not any(
            file.is_relative_to(at) and fnmatch.fnmatch(file.relative_to(at).as_posix(), pattern)
            for at, pattern in listed
        )
    ]
    assert left_out == []


def clone(tmp_path: Path, *, links: bool) -> Path:
    """A clone of the checkout, with symbolic links or with small files in their place."""
    target = tmp_path / ("with" if links else "without")
    options = ["-c", f"core.symlinks={str(links).lower()}"]
    subprocess.run(["git", "clone", "--quiet", *options, str(ROOT), str(target)], check=True)
    assert (target / "src/certigraph/state").is_symlink() == links
    return target


def build(checkout: Path, out: Path) -> tuple[Path, Path]:
    """The wheel and the sdist of a checkout."""
    code = "import setuptools.build_meta as b, sys; out = sys.argv[1]; b.build_sdist(out); b.build_wheel(out)"
    out.mkdir()
    subprocess.run([sys.executable, "-c", code, str(out)], cwd=checkout, capture_output=True, check=True)
    [wheel], [sdist] = out.glob("*.whl"), out.glob("*.tar.gz")
    return wheel, sdist


def environment(tmp_path: Path) -> Path:
    """The Python of a new environment that finds the packages installed here, but not certigraph."""
    folder = tmp_path / "environment"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    [site] = folder.glob("lib/python*/site-packages")
    (site / "packages.pth").write_text("\n".join(path for path in sys.path if path.endswith("site-packages")))
    return folder / "bin" / "python"


def install(python: Path, *arguments: str) -> None:
    command = [sys.executable, "-m", "pip", "--python", str(python), "--quiet", "--disable-pip-version-check"]
    subprocess.run([*command, "install", "--no-deps", *arguments], capture_output=True, check=True)


RUN = """
import certigraph, certigraph.cli, certigraph.studies.tdp
from pathlib import Path
from certigraph.runtime.report import write_report
result = certigraph.run("sdp", "blocksworld", "3-1", out="runs")
page = write_report(result.trajectory, Path("report.html")).read_text("utf-8")
print(certigraph.__file__, certigraph.studies.tdp.__file__, result.ending, "goal certified" in page)
"""


def run_certigraph(python: Path, folder: Path) -> list[str]:
    """Run a task in a folder outside any checkout; return the places of two modules, the ending and what is shown."""
    folder.mkdir()
    done = subprocess.run([str(python), "-c", RUN], cwd=folder, capture_output=True, text=True, check=True)
    return done.stdout.split()


@pytest.mark.long
@pytest.mark.slow
def test_a_checkout_without_links_builds_the_same_files(tmp_path: Path):
    built = {links: build(clone(tmp_path, links=links), tmp_path / f"dist-{links}") for links in (True, False)}
    wheels = {links: sorted(zipfile.ZipFile(wheel).namelist()) for links, (wheel, _) in built.items()}
    sdists = {links: names_in_archive(sdist) for links, (_, sdist) in built.items()}
    assert len([name for name in wheels[True] if name.endswith(".py")]) > 300
    assert wheels[True] == wheels[False]
    assert without_links(sdists[True]) == without_links(sdists[False])
    python = environment(tmp_path)
    install(python, str(built[False][0]))
    *places, ending, shown = run_certigraph(python, tmp_path / "outside")
    assert all(place.startswith(str(tmp_path / "environment")) for place in places)
    assert (ending, shown) == ("goal", "True")


def names_in_archive(sdist: Path) -> list[str]:
    with tarfile.open(sdist) as archive:
        return sorted(archive.getnames())


def without_links(names: Sequence[str]) -> list[str]:
    """The names of an sdist but those in place of links, which builds do not read."""
    places = {f"src/certigraph/{part}" for part in LINKED}
    return [name for name in names if name.partition("/")[2] not in places]


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.parametrize("links", [True, False])
def test_an_editable_installation_runs(links: bool, tmp_path: Path):
    checkout, python = clone(tmp_path, links=links), environment(tmp_path)
    install(python, "--editable", str(checkout))
    first, second, ending, shown = run_certigraph(python, tmp_path / "outside")
    assert first.startswith(str(checkout)) and second.startswith(str(checkout))
    assert (ending, shown) == ("goal", "True")
    tests = [str(python), "-m", "pytest", "-p", "no:cacheprovider", "tests/state", "tests/nodes/test_plans.py"]
    assert "passed" in subprocess.run(tests, cwd=checkout, capture_output=True, text=True, check=True).stdout


FAULT = "\nimport os\n\nplanted: int = 'a text'\n"


def plant_faults(checkout: Path) -> list[str]:
    """Add an unused import and a wrong type to a module of each part; return the parts."""
    for part, folder in PARTS.items():
        module = "__main__.py" if part == "" else "__init__.py"
        with (checkout / folder.relative_to(ROOT) / module).open("a") as file:
            file.write(FAULT)
    return sorted(PARTS)


@pytest.mark.long
@pytest.mark.slow
def test_the_linter_reports_a_fault_in_every_folder_once(tmp_path: Path):
    checkout = clone(tmp_path, links=True)
    planted = plant_faults(checkout)
    command = [
        sys.executable,
        "-m",
        "ruff",
        "check",
        "--no-cache",
        "--select",
        "F401",
        "--output-format",
        "concise",
        ".",
    ]
    found = subprocess.run(command, cwd=checkout, capture_output=True, text=True, check=False).stdout
    assert reported_parts(found) == planted


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.parametrize("links", [True, False])
def test_the_type_checker_reports_a_fault_in_every_folder_once(links: bool, tmp_path: Path):
    checkout, python = clone(tmp_path, links=links), environment(tmp_path)
    planted = plant_faults(checkout)
    if not links:
        install(python, "--config-settings", "editable_mode=strict", "--editable", str(checkout))
    command = [sys.executable, "-m", "mypy", "--python-executable", str(python)]
    found = subprocess.run(command, cwd=checkout, capture_output=True, text=True, check=False).stdout
    assert reported_parts(found) == planted


def reported_parts(output: str) -> list[str]:
    """The parts of the product in whose files a checker found something, once for each finding."""
    files = re.findall(r"^(\S+\.py):\d+:", output, re.MULTILINE)
    names = [re.sub(r"^(build/[^/]*/|src/)?(certigraph/)?", "", file) for file in files]
    return sorted(name.partition("/")[0] if "/" in name else "" for name in names)

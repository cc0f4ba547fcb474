"""Questions about code repositories, finding the repositories' checkouts, and a small invented repository."""

import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from pydantic import BaseModel, Field

from certigraph.adapters.files import JsonRow, expand_path, read_rows, read_text, validate_row
from certigraph.benchmarks.qa import questions as searching
from certigraph.state.endings import Fault
from certigraph.state.records import Record

# Questions about repositories in the layouts of SWE-QA and of SWE-QA-Pro's training release.

COMMITS_FILE = "repo_commit.txt"
"""Name of the file that lists SWE-QA's projects and their commits."""

REPOSITORY_PATTERN = re.compile(r"(?:https?://[^/]+/)?(?P<owner>[\w-][\w.-]*)/(?P<name>[\w-][\w.-]*)")
"""Pattern of a repository, given as `owner/name` or as a URL."""


class RepositoryOrigin(Record):
    """Origin of a repository: `owner/name` on GitHub, and the commit that its questions are about."""

    owner: str
    name: str
    commit: str


class RepositoryQuestion(searching.MultiHopQuestion):
    """A question about a repository; `answers` holds one reference answer in prose, an empty text if there is none."""

    origin: RepositoryOrigin | None = None
    """Origin by which the repository's checkout is found; None if the repository is given in another way."""


class _Plain(BaseModel):
    question: str
    answer: str | None = None


class _Extra(_Plain):
    repo_name: str
    commit_id: str


class _Kind(BaseModel):
    class_name: str = Field(pattern=r"\S")


class _Pro(BaseModel):
    extra_info: _Extra
    qa_type: _Kind | None = None


def read_questions(path: Path, origins: Mapping[str, RepositoryOrigin]) -> dict[str, RepositoryQuestion]:
    """Read the questions of a file by id, such as `flask/0`: the file's name and the row's index from 0.

    Args:
        path: JSONL file, which may be gzipped. Each row is {question, answer} or has the layout of SWE-QA-Pro.
        origins: Origins of SWE-QA's repositories, by the name of the repository's question file without suffix.

    Raises:
        Fault: ("data") a row has neither layout; the message names the line.
    """
    stem = path.name.partition(".jsonl")[0]
    questions = [
        _parse_question(row, f"{stem}/{index}", origins.get(stem), stem) for index, row in enumerate(read_rows(path))
    ]
    return {question.id: question for question in questions}


def read_origins(folder: Path) -> dict[str, RepositoryOrigin]:
    """Read the origins of SWE-QA's repositories, by name, from repo_commit.txt; empty if there is no such file.

    Each line of the file is `URL COMMIT`.

    Raises:
        Fault: ("data") the file cannot be read.
    """
    path = folder / COMMITS_FILE
    text = read_text(path) if path.is_file() else ""
    return {origin.name: origin for origin in _parse_origins(text)}


def parse_origin(repository: str, commit: str) -> RepositoryOrigin | None:
    """Parse `owner/name` or a URL as an origin; None for any other text."""
    match = REPOSITORY_PATTERN.fullmatch(repository.removesuffix(".git"))
    return RepositoryOrigin(owner=match["owner"], name=match["name"], commit=commit) if match else None


def _parse_origins(text: str) -> Iterator[RepositoryOrigin]:
    for line in text.splitlines():
        address, _, commit = line.strip().partition(" ")
        if origin := parse_origin(address, commit.strip()):
            yield origin


def _parse_question(row: JsonRow, id_: str, origin: RepositoryOrigin | None, kind: str) -> RepositoryQuestion:
    if isinstance(row.value, dict) and "extra_info" in row.value:
        pro = validate_row(_Pro, row)
        extra, kind = pro.extra_info, pro.qa_type.class_name.split()[0] if pro.qa_type else kind
        return _build_question(id_, extra, parse_origin(extra.repo_name, extra.commit_id), kind)
    return _build_question(id_, validate_row(_Plain, row), origin, kind)


def _build_question(id_: str, row: _Plain, origin: RepositoryOrigin | None, kind: str) -> RepositoryQuestion:
    common: dict[str, Any] = {"id": id_, "kind": kind, "passages": (), "hops": ()}
    return RepositoryQuestion(text=row.question.strip(), answers=(row.answer or "",), origin=origin, **common)


# Finding the repositories: checkouts under one folder, named after the project. Nothing is downloaded.

REPOS_VARIABLE = "CERTIGRAPH_REPOS"
"""Environment variable: the folder with the checkouts."""


def require_checkout(origin: RepositoryOrigin) -> Path:
    """Return the checkout of a repository: the folder `name` or `owner__name` under CERTIGRAPH_REPOS.

    The commit that is checked out there is not verified.

    Raises:
        Fault: ("data") there is no checkout; the message gives the commands that create it.
    """
    if path := find_checkout(origin):
        return path
    root, name = os.environ.get(REPOS_VARIABLE), f"{origin.owner}/{origin.name}"
    folder = root or "repos"
    problem = f"no checkout of {name} ({f'{REPOS_VARIABLE}={root}' if root else f'{REPOS_VARIABLE} is not set'})"
    clone = f"git clone https://github.com/{name} {folder}/{origin.name}"
    fix = f"{clone} && git -C {folder}/{origin.name} checkout {origin.commit} && export {REPOS_VARIABLE}={folder}"
    raise Fault("data", f"{problem}: {fix}")


def find_checkout(origin: RepositoryOrigin) -> Path | None:
    """Return the checkout of a repository (see `require_checkout`), or None if there is none."""
    root = os.environ.get(REPOS_VARIABLE)
    names = (origin.name, f"{origin.owner}__{origin.name}") if root else ()
    return next((folder for name in names if (folder := expand_path(Path(root or "", name))).is_dir()), None)


# A small invented repository with questions, used if none is checked out.

SAMPLE = Path(__file__).with_name("sample.yaml")


def write_sample_repository(folder: Path) -> Path:
    """Write the invented repository into a folder, and return the folder."""
    for path, text in _load_sample()["files"].items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text, encoding="utf-8")
    return folder


def sample_questions() -> dict[str, RepositoryQuestion]:
    """Return the questions about the invented repository by id, `made/0` to `made/5`."""
    rows = enumerate(_load_sample()["questions"])
    questions = (_build_question(f"made/{number}", _Plain.model_validate(row), None, "made") for number, row in rows)
    return {question.id: question for question in questions}


def _load_sample() -> Any:
    import yaml

    return yaml.safe_load(read_text(SAMPLE))

"""Questions about repositories, read from the layouts of SWE-QA and of SWE-QA-Pro's training release."""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from certigraph.adapters.rows import Row, checked, file_text, read_rows
from certigraph.adapters.searching import questions as searching
from certigraph.state.records import Record

COMMITS = "repo_commit.txt"

REPOSITORY = re.compile(r"(?:https?://[^/]+/)?(?P<owner>[\w-][\w.-]*)/(?P<name>[\w-][\w.-]*)")


class Origin(Record):
    """Where a repository comes from: `owner/name` on GitHub, and the commit that its questions are about."""

    owner: str
    name: str
    commit: str


class Asked(searching.Question):
    """A question about a repository; `answers` is one reference in prose, empty where nobody gave one."""

    origin: Origin | None = None
    """None: the repository is no checkout to be found by name."""


class _Plain(BaseModel):
    question: str
    answer: str | None = None


class _Extra(_Plain):
    repo_name: str
    commit_id: str


class _Kind(BaseModel):
    class_name: str


class _Pro(BaseModel):
    extra_info: _Extra
    qa_type: _Kind | None = None


def read_questions(path: Path, origins: Mapping[str, Origin]) -> dict[str, Asked]:
    """The questions of a file by id, `flask/0`: the file's name and the row's place, from 0.

    Args:
        path: JSON lines, gzipped or not, each {question, answer}, or a row of SWE-QA-Pro.
        origins: of SWE-QA's projects, by the name of their file.

    Raises:
        Fault: ("data") a row is of neither layout; names the line.
    """
    stem = path.name.partition(".jsonl")[0]
    read = [_asked(row, f"{stem}/{place}", origins.get(stem), stem) for place, row in enumerate(read_rows(path))]
    return {asked.id: asked for asked in read}


def read_origins(folder: Path) -> dict[str, Origin]:
    """SWE-QA's projects by name: the lines of repo_commit.txt, `URL COMMIT`; none where there is no such file.

    Raises Fault where it cannot be read.
    """
    path = folder / COMMITS
    text = file_text(path) if path.is_file() else ""
    return {origin.name: origin for origin in _origins(text)}


def origin_of(repository: str, commit: str) -> Origin | None:
    """The origin that `owner/name` or a URL names; None for what is neither."""
    match = REPOSITORY.fullmatch(repository.removesuffix(".git"))
    return Origin(owner=match["owner"], name=match["name"], commit=commit) if match else None


def _origins(text: str) -> Iterator[Origin]:
    for line in text.splitlines():
        address, _, commit = line.strip().partition(" ")
        if origin := origin_of(address, commit.strip()):
            yield origin


def _asked(row: Row, id_: str, origin: Origin | None, kind: str) -> Asked:
    if isinstance(row.value, dict) and "extra_info" in row.value:
        pro = checked(_Pro, row)
        extra, kind = pro.extra_info, pro.qa_type.class_name.split()[0] if pro.qa_type else kind
        return _made(id_, extra, origin_of(extra.repo_name, extra.commit_id), kind)
    return _made(id_, checked(_Plain, row), origin, kind)


def _made(id_: str, told: _Plain, origin: Origin | None, kind: str) -> Asked:
    common: dict[str, Any] = {"id": id_, "kind": kind, "passages": (), "hops": ()}
    return Asked(text=told.question.strip(), answers=(told.answer or "",), origin=origin, **common)

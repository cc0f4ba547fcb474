"""Questions about code repositories, finding the repositories' checkouts, and a small generated repository."""

import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from pydantic import BaseModel, Field

from certigraph.adapters.files import JsonRow, expand_path, read_rows, read_text, validate_row
from certigraph.adapters.qa import questions as searching
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


# A small generated repository with questions, used if none is checked out.

SETTINGS = '''\
"""Settings of the parcel service, read once at start."""

RETRIES = 4
DEPOT = "north"


def load_settings(path):
    """Read key=value lines; unknown keys are ignored."""
    found = {}
    with open(path) as lines:
        for line in lines:
            key, _, value = line.partition("=")
            found[key.strip()] = value.strip()
    return {"depot": found.get("depot", DEPOT), "retries": int(found.get("retries", RETRIES))}
'''

ROUTES = '''\
"""Which depot a parcel goes through."""

from parcels.errors import UnknownZone

ZONES = {"1": "north", "2": "south", "3": "harbour"}


class Router:
    """Routes by the first digit of the postcode."""

    def __init__(self, zones=ZONES):
        self.zones = zones

    def depot_for(self, postcode):
        """The depot of a postcode."""
        try:
            return self.zones[postcode[0]]
        except KeyError:
            raise UnknownZone(postcode) from None
'''

ERRORS = '''\
"""What can go wrong with a parcel."""


class ParcelError(Exception):
    """Base of all."""


class UnknownZone(ParcelError):
    """No depot serves the postcode."""


class TooHeavy(ParcelError):
    """Above the limit of thirty kilograms."""
'''

SENDING = '''\
"""Hand parcels to carriers."""

from parcels.errors import TooHeavy
from parcels.routes import Router

LIMIT = 30


def send(parcel, carrier, retries=4):
    """Route a parcel and offer it to a carrier until it is taken."""
    if parcel.kilograms > LIMIT:
        raise TooHeavy(parcel.number)
    depot = Router().depot_for(parcel.postcode)
    for attempt in range(retries):
        if carrier.offer(depot, parcel):
            return attempt + 1
    return 0
'''

BADGE = """\
// Draws the badge of a parcel in the shop's page.
export function drawBadge(parcel) {
  return `<b class="parcel">${parcel.number}</b>`;
}
"""

FILES: Mapping[str, str] = {
    "README.md": "# parcels\n\nRoutes parcels to depots and hands them to carriers.\n",
    "parcels/__init__.py": '"""Parcels."""\n',
    "parcels/settings.py": SETTINGS,
    "parcels/routes.py": ROUTES,
    "parcels/errors.py": ERRORS,
    "parcels/sending.py": SENDING,
    "web/badge.js": BADGE,
}

QUESTIONS = (
    ("What is raised when no depot serves a postcode?", "UnknownZone (parcels/routes.py: line 14-19)"),
    ("Which parcels does send refuse?", "Those above 30 kilograms, by TooHeavy (parcels/sending.py: line 11-12)"),
    ("What does send return when no carrier takes the parcel?", "0 (parcels/sending.py: line 9-17)"),
    ("By what does Router choose a depot?", "The first digit of the postcode (parcels/routes.py: line 8-16)"),
    ("Where are the defaults of the settings?", "RETRIES and DEPOT (parcels/settings.py: line 3-4)"),
    ("Which function draws the badge?", "drawBadge (web/badge.js: line 2-4)"),
)


def write_repository(folder: Path) -> Path:
    """Write the generated repository into a folder, and return the folder."""
    for path, text in FILES.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text, encoding="utf-8")
    return folder


def generated_questions() -> dict[str, RepositoryQuestion]:
    """Return the questions about the generated repository by id, `made/0` to `made/5`."""
    questions = (
        RepositoryQuestion(id=f"made/{index}", text=text, answers=(answer,), kind="made", passages=(), hops=())
        for index, (text, answer) in enumerate(QUESTIONS)
    )
    return {question.id: question for question in questions}

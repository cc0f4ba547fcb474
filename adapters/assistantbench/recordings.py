"""What web agents saw on the way to AssistantBench's answers: Who&When's trajectories (facts/qa_scoring.md, 3.1).

That is results which a search tool printed, and the text of pages which a browser showed. What agents said themselves
is left out, and so are search engines' own pages, which show no whole addresses.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from pydantic import BaseModel

from certigraph.adapters.rows import checked, read_rows
from certigraph.state.endings import Fault

FILES = ("whowhen_trajectories.jsonl", "whowhen_trajectories.jsonl.gz")

TERMINAL, BROWSER = "Computer_terminal", "WebSurfer"
"""Who brought what was seen: the output of programs, and a browser."""

SEARCHES = "bing.com/search"

_RESULT = re.compile(r"Search Result \d+:\n(?P<title>.+)\n(?P<url>https?://\S+)\n(?P<text>.+)")
_SHOWN = re.compile(r"Here is a screenshot of \[(?P<title>.*?)\]\((?P<url>https?://\S+?)\)\. The viewport", re.DOTALL)
_TEXT = re.compile(r"detected the following text:\n(?P<text>.*?)(?=\nTraceback|\Z)", re.DOTALL)
_COURTESY = re.compile(r"\A\s*[^\n]*(?:transcribed|transcription|visible text)[^\n]{0,40}\n", re.IGNORECASE)
"""How the model that read screenshots begins."""


class Message(BaseModel):
    """One message of a trajectory; who sent it is its `name`, else its `role`."""

    role: str
    content: str
    name: str = ""


class Recording(BaseModel):
    """One trajectory; what was found wrong with it is not looked at."""

    id: str
    history: list[Message]


class Seen(NamedTuple):
    """A piece of a page, and the question that it was seen for."""

    task: str
    url: str
    title: str
    text: str


def read_seen(folder: Path) -> Iterator[Seen]:
    """Every piece of a page that was seen, in order. Raises Fault where the file is missing or malformed."""
    path = next((folder / name for name in FILES if (folder / name).is_file()), None)
    if path is None:
        raise Fault("data", f"{folder}: no {FILES[0]}: put the recorded trajectories there, or leave out :recorded")
    for recording in (checked(Recording, row) for row in read_rows(path)):
        for message in recording.history:
            yield from (piece._replace(task=recording.id) for piece in _pieces(message))


def _pieces(message: Message) -> Iterator[Seen]:
    who, content = message.name or message.role, message.content
    if who == TERMINAL:
        yield from (Seen("", address(one["url"]), one["title"], one["text"]) for one in _RESULT.finditer(content))
    shown, text = _SHOWN.search(content), _TEXT.search(content)
    if who == BROWSER and shown and text and SEARCHES not in shown["url"]:
        yield Seen("", address(shown["url"]), shown["title"], _COURTESY.sub("", text["text"]).strip())


def address(url: str) -> str:
    """The address of the page that a URL leads to, wherever on the page."""
    return url.partition("#")[0]

"""What goes to a search server and what comes back: the index's settings, questions, uploads and replies."""

import json
from collections.abc import Iterable
from typing import Any

from pydantic import BaseModel, Field

from certigraph.adapters.retrieval.analyzer import STOPWORDS
from certigraph.state.passages import Passage

TITLE_WEIGHT = 2.0

SETTINGS: dict[str, Any] = {
    "settings": {
        "analysis": {
            "tokenizer": {"runs": {"type": "pattern", "pattern": r"[^\p{L}\p{M}\p{N}]+"}},
            "filter": {"ours": {"type": "stop", "stopwords": sorted(STOPWORDS)}},
            "analyzer": {
                "certigraph": {"type": "custom", "tokenizer": "runs", "filter": ["lowercase", "asciifolding", "ours"]}
            },
        }
    },
    "mappings": {
        "properties": {
            "id": {"type": "keyword"},
            "title": {"type": "text", "analyzer": "certigraph"},
            "text": {"type": "text", "analyzer": "certigraph"},
            "place": {"type": "long"},
        }
    },
}
"""Our analysis, as far as a server has its like; `place` is a passage's number, which orders equal scores."""


def question(query: str, k: int) -> str:
    """The body of a search; the server's analyzer leaves nothing of a query of stopwords, which finds nothing."""
    fields = [f"title^{TITLE_WEIGHT:g}", "text"]
    body = {
        "size": k,
        "query": {"multi_match": {"query": query, "fields": fields, "type": "most_fields"}},
        "sort": [{"_score": "desc"}, {"place": {"order": "asc", "unmapped_type": "long"}}],
        "track_scores": True,
        "_source": ["id", "title", "text"],
    }
    return json.dumps(body)


def upload_lines(numbered: Iterable[tuple[int, Passage]]) -> str:
    """The body of an upload: for each passage a line that names it and a line that holds it."""
    pairs = (({"index": {"_id": p.id}}, {**p.model_dump(), "place": place}) for place, p in numbered)
    return "".join(f"{json.dumps(line)}\n" for pair in pairs for line in pair)


class Source(BaseModel):
    """A stored passage."""

    id: str
    title: str
    text: str

    def passage(self) -> Passage:
        """It as our record."""
        return Passage(id=self.id, title=self.title, text=self.text)


class Scored(BaseModel):
    """A passage found."""

    score: float = Field(alias="_score")
    source: Source = Field(alias="_source")


class Hits(BaseModel):
    """Passages found, the best first."""

    hits: list[Scored]


class Found(BaseModel):
    """The reply to a search."""

    hits: Hits


class Document(BaseModel):
    """The reply to a question for one passage."""

    found: bool
    source: Source | None = Field(default=None, alias="_source")


class Stored(BaseModel):
    """What became of one uploaded passage."""

    id: str = Field(alias="_id")
    status: int


class Uploaded(BaseModel):
    """The reply to an upload; each item has the one key `index`."""

    items: list[dict[str, Stored]]

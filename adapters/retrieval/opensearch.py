"""Passages from OpenSearch or Elasticsearch."""

import json
import os
import re
import time
from collections.abc import Iterable
from itertools import islice
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import quote

from pydantic import BaseModel, Field, ValidationError

from certigraph.adapters.http import PACKED, UnboundedAnswer, bound_answer
from certigraph.adapters.redaction import mask_logs, remember_address, show_address
from certigraph.adapters.retrieval.bm25 import STOPWORDS, Hit
from certigraph.state.records import Fault, UnknownName
from certigraph.state.search import Passage

if TYPE_CHECKING:
    import httpx


# What goes to a search server and what comes back: the index's settings, questions, uploads and replies.

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


# Requests to a search server: its address and credentials, bounded retries, and faults that show no credentials.

VARIABLE = "CERTIGRAPH_OPENSEARCH_URL"
BUSY = (429, 503)
TRIES = 4
LONGEST_WAIT = 20.0
"""Seconds between two tries, whatever the server asks for."""

MOST_BYTES = 16_000_000
"""Unpacked bytes of one answer: of a thousand passages, or of a batch that was stored."""

NDJSON = "application/x-ndjson"

T = TypeVar("T", bound=BaseModel)


class Server:
    """A search server at `url`, else at CERTIGRAPH_OPENSEARCH_URL; either may hold a user's name and password.

    `shown` is the address as errors say it: scheme, host and port. Threads may share a server.
    """

    def __init__(self, url: str, client: "httpx.Client | None", timeout: float) -> None:
        import httpx

        mask_logs()
        address = _address(remember_address(url) or os.environ.get(VARIABLE, ""))
        self.shown = show_address(str(address))
        self._base = f"{address.scheme}://{address.netloc.decode()}{address.path.rstrip('/')}"
        self._auth: Any = httpx.USE_CLIENT_DEFAULT
        if address.username or address.password:
            self._auth = httpx.BasicAuth(address.username, address.password)
        self._client = client or httpx.Client()
        self._timeout = timeout

    def ask(
        self, method: str, path: str, body: str = "", *, kind: str = "application/json", fine: tuple[int, ...] = ()
    ) -> "httpx.Response":
        """The answer, once the server is not busy; a status of `fine` is one too, any other failure is not.

        Raises:
            Fault: no answer, a refusal, or still busy at the last of four tries.
        """
        for tried in range(1, TRIES + 1):
            reply = self._sent(method, path, body, kind)
            if reply.status_code not in BUSY or tried == TRIES:
                break
            time.sleep(min(_asked_wait(reply, 0.5 * 2**tried), LONGEST_WAIT))
        if reply.is_success or reply.status_code in fine:
            return reply
        raise Fault("environment", f"{method} {self.shown}{path} failed: {_told(reply)}{_advice(reply.status_code)}")

    def read(self, reply: "httpx.Response", form: type[T]) -> T:
        """The answer as a record. Raises Fault where it is not JSON or has another shape."""
        try:
            return form.model_validate_json(reply.content)
        except ValidationError as error:
            wrong = "is no JSON" if error.errors()[0]["type"] == "json_invalid" else "has another form than expected"
            told = f"the answer of {self.shown} {wrong} (status {reply.status_code}, {len(reply.content)} bytes)"
            raise Fault("environment", f"{told}: set {VARIABLE} to an OpenSearch or Elasticsearch server") from None

    def _sent(self, method: str, path: str, body: str, kind: str) -> "httpx.Response":
        import httpx

        try:
            with self._client.stream(
                method,
                self._base + path,
                content=body.encode() or None,
                headers={**PACKED, **({"Content-Type": kind} if body else {})},
                auth=self._auth,
                timeout=self._timeout,
            ) as reply:
                bound_answer(reply, MOST_BYTES)
                reply.read()
                return reply
        except UnboundedAnswer as error:
            raise Fault("environment", f"the search server at {self.shown}: {error}: check {VARIABLE}") from None
        except httpx.HTTPError as error:
            failed = f"no answer from the search server at {self.shown} ({type(error).__name__})"
            raise Fault("environment", f"{failed}: start it, or set {VARIABLE} to its address") from None


def _address(url: str) -> "httpx.URL":
    """The parsed address; what is none is not shown, for it may hold a password."""
    import httpx

    try:
        address = httpx.URL(url)
    except (httpx.InvalidURL, ValueError):
        address = httpx.URL()
    if address.scheme not in ("http", "https") or not address.host:
        what = "is not an address" if url else "is not set"
        raise Fault("environment", f"{VARIABLE} {what}: export {VARIABLE}=https://user:password@host:9200")
    return address


def _asked_wait(reply: "httpx.Response", otherwise: float) -> float:
    asked = reply.headers.get("Retry-After", "")
    return float(asked) if asked.isdecimal() else otherwise


def _told(reply: "httpx.Response") -> str:
    """Status and kind of error; the server's prose could repeat what it was sent."""
    kind = re.search(r'"type"\s*:\s*"([a-z_]+)"', reply.text)
    return f"status {reply.status_code}" + (f", {kind[1]}" if kind else "")


def _advice(status: int) -> str:
    if status in (401, 403):
        return f"; set {VARIABLE} with credentials that may use this index: https://user:password@host:9200"
    return f"; it was busy in {TRIES} tries: try again later" if status in BUSY else ""


# Passages from an OpenSearch or Elasticsearch index: for corpora that outgrow one machine.

TIMEOUT = 30.0
BULK = 500
"""Passages of one upload request, about half a megabyte."""


class OpenSearch:
    """Scores are the server's: BM25 of the title, doubled, plus BM25 of the text.

    `upload` makes the index with an analyzer like ours: runs of letters and digits, lower case, accents folded, the
    same stopwords removed, no stemming. Titles are not matched first, as `Pool` and `Corpus` do.
    """

    name = "opensearch"

    def __init__(self, url: str, index: str, *, client: "httpx.Client | None" = None, timeout: float = TIMEOUT) -> None:
        """Name an index; nothing is sent yet.

        Args:
            url: https://user:password@host:9200; empty: what CERTIGRAPH_OPENSEARCH_URL holds.
            index: the index's name.
            client: whose certificates and proxies to use; it stays the caller's to close.
            timeout: seconds for connecting, and for each part of an answer.

        Raises:
            Fault: that is no address.
        """
        self._server = Server(url, client, timeout)
        self._index = index
        self._path = f"/{quote(index, safe='')}"

    def search(self, query: str, k: int) -> list[Hit]:
        """At most `k` passages, the best first, equal scores in the corpus's order; none for a query of stopwords.

        Raises:
            Fault: the server is down or stays busy, answers in no known form, or has no such index.
        """
        if k < 1:
            return []
        reply = self._ask("POST", "/_search", question(query, k))
        return [Hit(hit.source.passage(), hit.score) for hit in self._server.read(reply, Found).hits.hits]

    def passage(self, id: str) -> Passage:
        """The passage of an id. Raises UnknownName where the index has none, Fault as `search` does."""
        found = self._server.read(self._ask("GET", f"/_doc/{quote(id, safe='')}"), Document)
        if found.source is None:
            raise UnknownName(f"no passage {id!r} in the index {self._index!r} at {self._server.shown}")
        return found.source.passage()

    def upload(self, passages: Iterable[Passage]) -> int:
        """Put passages into the index, which is made where it is missing; returns how many.

        A passage that is there already is replaced, so an upload that was cut off is simply done again.

        Raises:
            Fault: as `search` does; or the server refused a passage.
        """
        if self._server.ask("HEAD", self._path, fine=(404,)).status_code == 404:
            self._server.ask("PUT", self._path, json.dumps(SETTINGS))
        numbered, count = enumerate(passages), 0
        while some := list(islice(numbered, BULK)):
            reply = self._server.ask("POST", f"{self._path}/_bulk", upload_lines(some), kind=NDJSON)
            self._check(self._server.read(reply, Uploaded))
            count += len(some)
        self._server.ask("POST", f"{self._path}/_refresh")
        return count

    def _ask(self, method: str, path: str, body: str = "") -> "httpx.Response":
        reply = self._server.ask(method, self._path + path, body, fine=(404,))
        if reply.status_code == 404 and "index_not_found" in reply.text:
            make = f"OpenSearch({self._server.shown!r}, {self._index!r}).upload(passages)"
            raise Fault("data", f"no index {self._index!r} at {self._server.shown}: make it by {make}")
        return reply

    def _check(self, uploaded: Uploaded) -> None:
        stored = [done for item in uploaded.items for done in item.values()]
        refused = [done for done in stored if done.status >= 300]
        if refused:
            told = f"{self._server.shown} refused {len(refused)} of {len(stored)} passages"
            first = f"{refused[0].id!r} with status {refused[0].status}"
            raise Fault("environment", f"{told}, the first {first}: upload again, what is there is replaced")


def at_address(address: str) -> OpenSearch:
    """The index that `https://HOST:9200/NAME` names. Raises Fault where that is no address."""
    server, _, name = address.rstrip("/").rpartition("/")
    return OpenSearch(server, name)

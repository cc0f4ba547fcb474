"""Passages from OpenSearch or Elasticsearch.

`OpenSearch` is a retriever over one index; `SearchServer` sends its requests with bounded retries.
"""

import json
import os
import re
import time
from collections.abc import Iterable
from itertools import islice
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import quote

from pydantic import BaseModel, Field, ValidationError

from certigraph.adapters.http import ENCODING_HEADERS, UnboundedAnswer, limit_response, read_retry_after
from certigraph.adapters.redaction import mask_logs, remember_address, show_address
from certigraph.adapters.retrieval.bm25 import STOPWORDS, PassageHit
from certigraph.state.endings import Fault, UnknownName
from certigraph.state.search import Passage

if TYPE_CHECKING:
    import httpx


# Bodies of requests to a search server, and models of its replies.

TITLE_WEIGHT = 2.0

INDEX_SETTINGS: dict[str, Any] = {
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
"""Settings of an index: the text analysis of `bm25`, as far as a server supports it, and the fields of a passage.

The field `place` is the position in the corpus, which orders equal scores.
"""


def build_query(query: str, k: int) -> str:
    """Build the JSON body of a search request.

    The server's analyzer removes stopwords, so that a query of stopwords matches nothing.
    """
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
    """Build the body of an upload: two JSON lines per passage, the first with its id, the second with its content.

    Args:
        numbered: passages with their positions in the corpus.
    """
    pairs = (({"index": {"_id": p.id}}, {**p.model_dump(), "place": position}) for position, p in numbered)
    return "".join(f"{json.dumps(line)}\n" for pair in pairs for line in pair)


class StoredPassage(BaseModel):
    """A passage as the search server stores it."""

    id: str
    title: str
    text: str

    def passage(self) -> Passage:
        """Convert to a Passage."""
        return Passage(id=self.id, title=self.title, text=self.text)


class ScoredPassage(BaseModel):
    """A passage that matches a search, with its score."""

    score: float = Field(alias="_score")
    source: StoredPassage = Field(alias="_source")


class SearchHits(BaseModel):
    """Passages that match a search, best first."""

    hits: list[ScoredPassage]


class SearchReply(BaseModel):
    """Reply to a search."""

    hits: SearchHits


class PassageReply(BaseModel):
    """Reply to a request for one passage."""

    found: bool
    source: StoredPassage | None = Field(default=None, alias="_source")


class UploadStatus(BaseModel):
    """Result of one uploaded passage."""

    id: str = Field(alias="_id")
    status: int


class UploadReply(BaseModel):
    """Reply to an upload; each item has the single key `index`."""

    items: list[dict[str, UploadStatus]]


# Requests to a search server: address and credentials, bounded retries, and faults that show no credentials.

ADDRESS_VARIABLE = "CERTIGRAPH_OPENSEARCH_URL"
BUSY_STATUSES = (429, 503)
TIMEOUT = 30.0
"""Maximum seconds for connecting, and for waiting for each part of a reply."""

MAX_TRIES = 4
MAX_WAIT_SECONDS = 20.0
"""Maximum seconds between two tries, whatever the server asks for."""

MAX_REPLY_BYTES = 16_000_000
"""Maximum unpacked bytes of one reply: of a thousand passages, or of an uploaded batch."""

NDJSON = "application/x-ndjson"

T = TypeVar("T", bound=BaseModel)


class SearchServer:
    """Client of the search server at `url`, or at the address in CERTIGRAPH_OPENSEARCH_URL if `url` is empty.

    The address may contain a user name and a password. Threads may share a client.

    Attributes:
        shown: the address for error messages: scheme, host and port.
    """

    def __init__(self, url: str) -> None:
        import httpx

        mask_logs()
        address = _parse_address(remember_address(url) or os.environ.get(ADDRESS_VARIABLE, ""))
        self.shown = show_address(str(address))
        self._base = f"{address.scheme}://{address.netloc.decode()}{address.path.rstrip('/')}"
        self._auth: Any = httpx.USE_CLIENT_DEFAULT
        if address.username or address.password:
            self._auth = httpx.BasicAuth(address.username, address.password)
        self._client = httpx.Client(timeout=TIMEOUT)

    def ask(
        self, method: str, path: str, body: str = "", *, kind: str = "application/json", accepted: tuple[int, ...] = ()
    ) -> "httpx.Response":
        """Send a request, repeated while the server is busy.

        Args:
            method: HTTP method.
            path: path of the request.
            body: body of the request.
            kind: content type of the body.
            accepted: HTTP statuses that count as no failure, in addition to those of success.

        Raises:
            Fault: the server sends no reply, refuses the request, or is still busy at the last of four tries.
        """
        for attempt in range(1, MAX_TRIES + 1):
            reply = self._send(method, path, body, kind)
            if reply.status_code not in BUSY_STATUSES or attempt == MAX_TRIES:
                break
            requested = read_retry_after(reply.headers.get("Retry-After", ""))
            time.sleep(min(0.5 * 2**attempt if requested is None else requested, MAX_WAIT_SECONDS))
        if reply.is_success or reply.status_code in accepted:
            return reply
        raise Fault(
            "environment", f"{method} {self.shown}{path} failed: {_describe_failure(reply)}{_advise(reply.status_code)}"
        )

    def read(self, reply: "httpx.Response", form: type[T]) -> T:
        """Parse a reply as the type `form`. Raises Fault if it is not JSON or does not fit that type."""
        try:
            return form.model_validate_json(reply.content)
        except ValidationError as error:
            problem = "is not JSON" if error.errors()[0]["type"] == "json_invalid" else "has another form than expected"
            message = f"the answer of {self.shown} {problem} (status {reply.status_code}, {len(reply.content)} bytes)"
            raise Fault(
                "environment", f"{message}: set {ADDRESS_VARIABLE} to an OpenSearch or Elasticsearch server"
            ) from None

    def _send(self, method: str, path: str, body: str, kind: str) -> "httpx.Response":
        import httpx

        try:
            with self._client.stream(
                method,
                self._base + path,
                content=body.encode() or None,
                headers={**ENCODING_HEADERS, **({"Content-Type": kind} if body else {})},
                auth=self._auth,
            ) as reply:
                limit_response(reply, MAX_REPLY_BYTES)
                reply.read()
                return reply
        except UnboundedAnswer as error:
            raise Fault(
                "environment", f"the search server at {self.shown}: {error}: check {ADDRESS_VARIABLE}"
            ) from None
        except httpx.HTTPError as error:
            message = f"no answer from the search server at {self.shown} ({type(error).__name__})"
            raise Fault("environment", f"{message}: start it, or set {ADDRESS_VARIABLE} to its address") from None


def _parse_address(url: str) -> "httpx.URL":
    """Parse an address. The error message does not show an invalid one, because it may contain a password."""
    import httpx

    try:
        address = httpx.URL(url)
    except (httpx.InvalidURL, ValueError):
        address = httpx.URL()
    if address.scheme not in ("http", "https") or not address.host:
        problem = "is not an address" if url else "is not set"
        raise Fault(
            "environment", f"{ADDRESS_VARIABLE} {problem}: export {ADDRESS_VARIABLE}=https://user:password@host:9200"
        )
    return address


def _describe_failure(reply: "httpx.Response") -> str:
    """Return the status and the error type of a reply, without the server's text, which could repeat the request."""
    kind = re.search(r'"type"\s*:\s*"([a-z_]+)"', reply.text)
    return f"status {reply.status_code}" + (f", {kind[1]}" if kind else "")


def _advise(status: int) -> str:
    if status in (401, 403):
        return f"; set {ADDRESS_VARIABLE} with credentials that may use this index: https://user:password@host:9200"
    return f"; it was busy in {MAX_TRIES} tries: retry later" if status in BUSY_STATUSES else ""


# Retriever over an OpenSearch or Elasticsearch index, for corpora too large for one machine.

BULK_PASSAGES = 500
"""Number of passages in one upload request, about half a megabyte."""


class OpenSearch:
    """Retriever over an index of a search server.

    Scores are the server's: twice the BM25 score of the title plus that of the text. `upload` creates the index with
    nearly the text analysis of the other retrievers: runs of letters and digits, lower case, accents folded, the same
    stopwords removed, no stemming. Unlike `PassagePool` and `IndexedCorpus`, it does not rank passages first whose
    title the query names.
    """

    name = "opensearch"

    def __init__(self, url: str, index: str) -> None:
        """Create a retriever; no request is sent yet.

        Args:
            url: address such as https://user:password@host:9200; if empty, that in CERTIGRAPH_OPENSEARCH_URL.
            index: name of the index.

        Raises:
            Fault: the address is invalid.
        """
        self._server = SearchServer(url)
        self._index = index
        self._path = f"/{quote(index, safe='')}"

    def search(self, query: str, k: int) -> list[PassageHit]:
        """Return at most `k` passages, best first, equal scores in corpus order; none for a query of stopwords.

        Raises:
            Fault: the server is down or stays busy, sends a reply that cannot be parsed, or has no such index.
        """
        if k < 1:
            return []
        reply = self._ask("POST", "/_search", build_query(query, k))
        return [PassageHit(hit.source.passage(), hit.score) for hit in self._server.read(reply, SearchReply).hits.hits]

    def passage(self, id: str) -> Passage:
        """Return the passage with an id.

        Raises:
            UnknownName: the index has no such passage.
            Fault: as `search` raises.
        """
        document = self._server.read(self._ask("GET", f"/_doc/{quote(id, safe='')}"), PassageReply)
        if document.source is None:
            raise UnknownName(f"no passage {id!r} in the index {self._index!r} at {self._server.shown}")
        return document.source.passage()

    def upload(self, passages: Iterable[Passage]) -> int:
        """Upload passages to the index, which is created if it is missing, and return their number.

        Existing passages are replaced, so that an interrupted upload can be repeated.

        Raises:
            Fault: as `search` raises, or the server refused a passage.
        """
        if self._server.ask("HEAD", self._path, accepted=(404,)).status_code == 404:
            self._server.ask("PUT", self._path, json.dumps(INDEX_SETTINGS))
        numbered, count = enumerate(passages), 0
        while batch := list(islice(numbered, BULK_PASSAGES)):
            reply = self._server.ask("POST", f"{self._path}/_bulk", upload_lines(batch), kind=NDJSON)
            self._check(self._server.read(reply, UploadReply))
            count += len(batch)
        self._server.ask("POST", f"{self._path}/_refresh")
        return count

    def _ask(self, method: str, path: str, body: str = "") -> "httpx.Response":
        reply = self._server.ask(method, self._path + path, body, accepted=(404,))
        if reply.status_code == 404 and "index_not_found" in reply.text:
            upload = f"OpenSearch({self._server.shown!r}, {self._index!r}).upload(passages)"
            raise Fault("data", f"no index {self._index!r} at {self._server.shown}: create it by {upload}")
        return reply

    def _check(self, uploaded: UploadReply) -> None:
        stored = [result for item in uploaded.items for result in item.values()]
        refused = [result for result in stored if result.status >= 300]
        if refused:
            message = f"{self._server.shown} refused {len(refused)} of {len(stored)} passages"
            first = f"{refused[0].id!r} with status {refused[0].status}"
            raise Fault("environment", f"{message}, the first {first}: upload again, which replaces existing passages")


def open_address(address: str) -> OpenSearch:
    """Create the retriever of an index named by an address `https://HOST:9200/NAME`. Raises Fault if it is invalid."""
    server, _, name = address.rstrip("/").rpartition("/")
    return OpenSearch(server, name)

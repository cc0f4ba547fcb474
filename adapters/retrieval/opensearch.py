"""Passages from an OpenSearch or Elasticsearch index: for corpora that outgrow one machine."""

import json
from collections.abc import Iterable
from itertools import islice
from typing import TYPE_CHECKING
from urllib.parse import quote

from certigraph.adapters.retrieval.opensearch_forms import SETTINGS, Document, Found, Uploaded, question, upload_lines
from certigraph.adapters.retrieval.opensearch_http import NDJSON, Server
from certigraph.adapters.retrieval.protocol import Hit
from certigraph.state.endings import Fault, UnknownName
from certigraph.state.passages import Passage

if TYPE_CHECKING:
    import httpx

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

"""Readers of what services answer: search providers, a model that cites, a search server; and of their addresses."""

import os
from collections.abc import Callable
from functools import cache
from unittest.mock import patch

import httpx
from fuzzing.target import Read, Target, join_texts, of_text, of_texts
from langchain_core.messages import AIMessage

from certigraph.adapters.http import read_retry_after
from certigraph.adapters.retrieval.opensearch import (
    PassageReply,
    SearchReply,
    SearchServer,
    UploadReply,
    _describe_failure,
)
from certigraph.adapters.web import search
from certigraph.adapters.web.page_sources import SerperPages
from certigraph.adapters.web.protocol import to_hits
from certigraph.adapters.web.search import (
    SEARXNG,
    SERPER,
    Brave,
    HttpProvider,
    SearXNG,
    Serper,
    ServiceClient,
    ServiceReply,
    advise_refusal,
)
from certigraph.adapters.web.sources import CitingCompletion
from certigraph.state.endings import Fault

CLIENT = httpx.Client()
KEYS = {"SERPER_API_KEY": "k" * 20, "BRAVE_API_KEY": "k" * 20, "SEARXNG_URL": "https://user:word@example.org"}
ORGANIC = b'{"organic": [{"title": "A", "link": "https://a.org/", "snippet": "s"}], "answerBox": {"answer": "x"}}'
LISTED = b'{"type": "search", "results": [{"title": "A", "url": "https://a.org/", "content": "s"}]}'
WEB = b'{"type": "search", "web": {"results": [{"title": "A", "url": "https://a.org/", "description": "<strong>s"}]}}'
CITED = (
    b'{"choices": [{"message": {"content": "It is so ([a](https://a.org)). Yes.", "annotations": [{"url_citation":'
    b' {"title": "A", "url": "https://a.org/?utm_source=openai", "start_index": 9, "end_index": 28}}]}}],'
    b' "usage": {"prompt_tokens": 3, "completion_tokens": 2}}'
)
SCRAPED = (
    b'{"text": "Open till 6. Open till 6. Open till 6. Open till 6. Open till 6. Open till 6. Open till 6. Open till",'
    b' "markdown": null, "metadata": {"og:title": "Gym"}}'
)
SCORED = b'{"hits": {"hits": [{"_score": 1.5, "_source": {"id": "1", "title": "t", "text": "x"}}]}}'


@cache
def _provider(make: Callable[..., HttpProvider]) -> HttpProvider:
    with patch.dict(os.environ, KEYS):
        return make()


def _searched(make: Callable[..., HttpProvider]) -> Read:
    """A provider whose service answers with these bytes."""

    def searched(data: bytes) -> object:
        with patch.object(ServiceClient, "request", lambda *a, **k: ServiceReply(200, data, "")):
            return _provider(make).search("open gym", 5)

    return searched


@cache
def _scraper() -> SerperPages:
    with patch.dict(os.environ, KEYS):
        return SerperPages(resolve=lambda host, port: ["93.184.216.34"])


def _scraped(data: bytes) -> object:
    with patch.object(ServiceClient, "request", lambda *a, **k: ServiceReply(200, data, "")):
        return _scraper().page("https://a.org/")


def _refused(data: bytes) -> object:
    """A service that refuses; what it says begins with a status and when to come again."""
    status, again, content = [*data.split(b"\x1e", 2), b"", b""][:3]
    code = int(status) if status.isdigit() and len(status) < 4 else 500
    reply = ServiceReply(code, content, again.decode("latin-1"))
    with patch.object(ServiceClient, "request", lambda *a, **k: reply), patch.object(search, "sleep"):
        return _provider(Serper).search("open gym", 5), advise_refusal(SEARXNG, code, content)


def _cited(data: bytes) -> object:
    completion = CitingCompletion.model_validate_json(data)
    return to_hits(completion.to_results(), 5), AIMessage("x", usage_metadata=completion.used())


def _addressed(text: str) -> object:
    if "\0" in text:  # no environment holds one
        return None
    with patch.dict(os.environ, {"SERPER_URL": text, "SERPER_API_KEY": text}):
        return SERPER.address(), SERPER.secret()


def _search_server(address: str) -> SearchServer:
    with patch.object(httpx, "Client", lambda **settings: CLIENT):  # a new one would cost more than what is read
        return SearchServer(address)


def _served(text: str) -> object:
    return _search_server(text).shown


def _stored(data: bytes) -> object:
    server, reply = _search_server("https://example.org"), httpx.Response(200, content=data)
    return [_read(server, reply, form) for form in (SearchReply, PassageReply, UploadReply)], _describe_failure(reply)


def _read(server: SearchServer, reply: httpx.Response, form: type[SearchReply | PassageReply | UploadReply]) -> object:
    try:
        return server.read(reply, form)
    except Fault:
        return None


def _waited(text: str, body: str) -> object:
    reply = httpx.Response(503, content=body.encode(errors="replace"))
    return read_retry_after(text), _describe_failure(reply)


TARGETS = (
    Target("service.serper", _searched(Serper), (Fault,), (ORGANIC,)),
    Target("service.brave", _searched(Brave), (Fault,), (WEB,)),
    Target("service.searxng", _searched(SearXNG), (Fault,), (LISTED,)),
    Target("service.scraped", _scraped, (Fault,), (SCRAPED, SCRAPED.replace(b"null", b'"# Gym"'))),
    Target("service.refusal", _refused, (Fault,), (join_texts("200", "", ORGANIC.decode()),)),
    Target("service.citations", _cited, (ValueError,), (CITED,)),
    Target("service.address", of_text(_addressed), (Fault,), (b"https://example.org/x",)),
    Target(
        "service.opensearch",
        _stored,
        (),
        (SCORED, b'{"found": false}', b'{"items": [{"index": {"_id": "1", "status": 201}}]}'),
    ),
    Target("service.opensearch_address", of_text(_served), (Fault,), (b"https://user:word@example.org:9200/a",)),
    Target(
        "service.opensearch_wait", of_texts(_waited, 2), (), (join_texts("3", '{"error": {"type": "es_rejected"}}'),)
    ),
)

"""Page sources by name, reading by a service, and several sources in turn."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from helpers.web.search_stub import StubAnswer, search_stub

from certigraph.adapters.web.page_sources import PageSourceChain, SerperPages, create_page_source
from certigraph.adapters.web.pages import Fetcher
from certigraph.adapters.web.protocol import Unreadable, WebPage
from certigraph.benchmarks.assistantbench.benchmark import AssistantBench
from certigraph.state.endings import Fault, UnknownName

KEY = "k3y-of-the-service-1234567890"
URL = "http://museum.example/hours"
TEXT = "The museum opens at nine and closes at five, every day but Monday. " * 3


@pytest.fixture(autouse=True)
def own_environment(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("SERPER_API_KEY", KEY)
    for name in ("SERPER_SCRAPE_URL", "CERTIGRAPH_PAGES"):
        monkeypatch.delenv(name, raising=False)


def served(
    monkeypatch: pytest.MonkeyPatch, *answers: StubAnswer, url: str = URL, at: Sequence[str] = ("93.184.216.34",)
) -> Any:
    """What the service makes of a page, and the requests that it got."""
    with search_stub(*answers) as server:
        monkeypatch.setenv("SERPER_SCRAPE_URL", server.url)
        monkeypatch.setattr("certigraph.adapters.web.search.sleep", lambda seconds: None)
        source = SerperPages(resolve=lambda host, port: at)
        return source.page(url), server.requests


def test_a_page_comes_as_markdown_with_its_title(monkeypatch: pytest.MonkeyPatch):
    answer = {"text": "plain", "markdown": f"# Hours\n{TEXT}", "metadata": {"title": "Museum", "n": 1}, "credits": 2}
    page, requests = served(monkeypatch, StubAnswer(answer))
    assert page == WebPage(url=URL, title="Museum", text=f"# Hours\n{TEXT}".strip())
    assert requests[0].body == {"url": URL, "includeMarkdown": True}
    assert requests[0].headers["X-API-KEY"] == KEY


def test_a_page_without_markdown_comes_as_text(monkeypatch: pytest.MonkeyPatch):
    page, _ = served(monkeypatch, StubAnswer({"text": TEXT, "metadata": None}))
    assert page == WebPage(url=URL, title="", text=TEXT.strip())


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (StubAnswer({"message": "Scraping failed"}, status=400), "could not read it (status 400)"),
        (StubAnswer({"message": "gone"}, status=404), "could not read it (status 404)"),
        (StubAnswer({"message": "later"}, status=500), "could not read it (status 500)"),
        (StubAnswer({"text": "short"}), "less than 100 characters"),
        (StubAnswer({"markdown": None}), "less than 100 characters"),
        (StubAnswer({"text": "x" * 6_000_000}), "did not deliver it"),
    ],
)
def test_what_happens_to_one_page_is_a_reason_and_ends_no_run(
    answer: StubAnswer, reason: str, monkeypatch: pytest.MonkeyPatch
):
    page, _ = served(monkeypatch, *[answer] * 3)
    assert isinstance(page, Unreadable)
    assert reason in page.reason


@pytest.mark.parametrize(
    ("answer", "advice"),
    [
        (StubAnswer({"message": "Unauthorized."}, status=403, echoes=True), "SERPER_API_KEY"),
        (StubAnswer({"message": "Not enough credits"}, status=400, echoes=True), "quota"),
        (StubAnswer(b"no json", echoes=True), "SERPER_SCRAPE_URL"),
        (StubAnswer({"text": 7}, echoes=True), "SERPER_SCRAPE_URL"),
    ],
)
def test_what_is_wrong_with_the_service_is_a_fault_that_shows_no_key(
    answer: StubAnswer, advice: str, monkeypatch: pytest.MonkeyPatch
):
    with pytest.raises(Fault) as raised:
        served(monkeypatch, answer)
    assert advice in str(raised.value)
    assert KEY not in str(raised.value)


def test_a_key_in_a_page_is_masked(monkeypatch: pytest.MonkeyPatch):
    page, _ = served(monkeypatch, StubAnswer({"text": f"{TEXT} X-API-KEY: {KEY}", "metadata": {"title": KEY}}))
    assert isinstance(page, WebPage)
    assert KEY not in page.text + page.title


@pytest.mark.parametrize(
    ("url", "at"),
    [
        ("http://intranet/", ()),
        ("http://127.0.0.1/", ("127.0.0.1",)),
        ("http://wiki.corp.example/", ("10.0.0.7",)),
        ("http://museum.example:8080/", ("93.184.216.34",)),
        ("file:///etc/passwd", ()),
        ("http://user:word@museum.example/", ("93.184.216.34",)),
    ],
)
def test_no_private_address_is_sent_to_the_service(url: str, at: Sequence[str], monkeypatch: pytest.MonkeyPatch):
    page, requests = served(monkeypatch, StubAnswer({"text": TEXT}), url=url, at=at)
    assert isinstance(page, Unreadable)
    assert requests == []


def test_a_public_name_that_only_the_service_can_resolve_is_sent_to_it(monkeypatch: pytest.MonkeyPatch):
    page, _ = served(monkeypatch, StubAnswer({"text": TEXT}), at=())
    assert isinstance(page, WebPage)


def test_a_service_needs_its_key(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("SERPER_API_KEY")
    with pytest.raises(Fault, match="CERTIGRAPH_PAGES=fetch"):
        create_page_source("serper")


def test_sources_are_named(monkeypatch: pytest.MonkeyPatch):
    assert isinstance(create_page_source(), Fetcher)
    monkeypatch.setenv("CERTIGRAPH_PAGES", "serper")
    assert isinstance(create_page_source(), SerperPages)
    chain = create_page_source("fetch, serper,fetch")
    assert isinstance(chain, PageSourceChain)
    assert chain.name == "page, pages serper pages"
    with pytest.raises(UnknownName, match="fetch, serper, browser"):
        create_page_source("fetch,firefox")


def test_a_benchmark_says_before_a_run_that_its_page_source_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("CERTIGRAPH_PAGES", "telnet")
    with pytest.raises(UnknownName, match="telnet"):
        AssistantBench(tmp_path).ready()


class Source:
    def __init__(self, name: str, answer: WebPage | Unreadable) -> None:
        self.name, self.answer, self.read = name, answer, list[str]()

    def page(self, url: str) -> WebPage | Unreadable:
        self.read.append(url)
        return self.answer


READ = WebPage(url=URL, title="t", text=TEXT)
EMPTY = Unreadable(url=URL, reason="less than 100 characters of text", lasting=True)
PRIVATE = Unreadable(url=URL, reason="a private address", forbidden=True)


def test_the_next_source_reads_what_the_first_cannot():
    first, second = Source("a", EMPTY), Source("b", READ)
    assert PageSourceChain([first, second]).page(URL) == READ
    assert PageSourceChain([second, first]).page(URL) == READ
    assert len(first.read) == 1


def test_what_is_forbidden_is_not_tried_by_another_way():
    first, second = Source("a", PRIVATE), Source("b", READ)
    refused = PageSourceChain([first, second]).page(URL)
    assert refused == PRIVATE
    assert second.read == []


def test_a_page_that_no_source_reads_has_all_reasons():
    refused = PageSourceChain([Source("a", EMPTY), Source("b", Unreadable(url=URL, reason="status 404"))]).page(URL)
    assert refused == Unreadable(url=URL, reason="less than 100 characters of text; status 404")

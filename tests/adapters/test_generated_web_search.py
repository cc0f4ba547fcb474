"""The search engines of the invented web, over HTTP."""

import httpx
import pytest

from certigraph.adapters.assistantbench.price_questions import all_pages, everything, made
from certigraph.adapters.assistantbench.server import FIRST, SECOND, Searching, Server, engine_at
from certigraph.state.records import Fault


@pytest.fixture(scope="module")
def server():
    serving = Server(all_pages(everything()))
    yield serving
    serving.close()


@pytest.fixture
def engine(server):
    return lambda path: engine_at(f"test{path}", f"http://{server.address}{path}", sleep=lambda seconds: None)


def test_the_second_engine_knows_what_the_first_does_not(engine):
    way = made("parcels", 1).question.way[2]
    wanted = {*way.pages}
    first = {hit.url for hit in engine(FIRST).search(way.queries[0], 50)}
    second = {hit.url for hit in engine(SECOND).search(way.queries[0], 50)}
    assert not wanted & first
    assert wanted <= second


def test_results_have_the_form_of_serpers(server):
    reply = httpx.post(
        f"http://{server.address}{FIRST}", json={"q": "museum prices", "num": 3}, headers={"X-API-KEY": "any"}
    ).json()
    assert reply["credits"] == 1
    assert [result["position"] for result in reply["organic"]] == [1, 2, 3]
    assert all({"title", "link", "snippet", "position"} == result.keys() for result in reply["organic"])


def test_without_a_key_nothing_is_searched_and_of_an_unknown_engine_neither(server):
    assert httpx.post(f"http://{server.address}{FIRST}", json={"q": "museum"}).status_code == 403
    assert httpx.post(f"http://{server.address}/third", json={"q": "museum"}).status_code == 404


@pytest.mark.parametrize(("mode", "told"), [(Searching.SPENT, "spent"), (Searching.MALFORMED, "no JSON")])
def test_an_engine_that_is_spent_or_breaks_off_is_a_fault(server, engine, mode, told):
    server.searching = mode
    try:
        with pytest.raises(Fault, match=told):
            engine(FIRST).search("museum prices", 3)
    finally:
        server.searching = Searching.WORKS

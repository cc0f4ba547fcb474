"""What providers say when a search fails: in one line, with the way on, and never with a key."""

import logging
from traceback import format_exception

import pytest
from search_stub import Told, search_stub

from certigraph.adapters.web import search as requests
from certigraph.adapters.web.search import SERPER, Brave, Requests, SearXNG, Serper, _SerperAnswer
from certigraph.adapters.web.sources import Asked
from certigraph.state.records import Fault

KEY = "sentinel-key-0123456789"
PLACES = {
    "serper": ("SERPER_URL", Serper),
    "brave": ("BRAVE_URL", Brave),
    "searxng": ("SEARXNG_URL", SearXNG),
    "openai": ("CERTIGRAPH_BASE_URL", lambda sleep: Asked("m", sleep=sleep)),
}
GOOD = {"organic": [{"title": "Gyms", "link": "https://a.org"}]}


@pytest.fixture(autouse=True)
def environment(monkeypatch):
    for variable, _ in PLACES.values():
        monkeypatch.delenv(variable, raising=False)
    for name in ("SERPER_API_KEY", "BRAVE_API_KEY", "OPENAI_API_KEY"):
        monkeypatch.setenv(name, KEY)


@pytest.fixture
def failing(monkeypatch):
    def search(name, *answers, waits=None):
        """The one line that a search by this provider fails with, and how often it asked."""
        variable, made = PLACES[name]
        with search_stub(*answers) as server:
            monkeypatch.setenv(variable, server.url.replace("://", f"://ann:{KEY}@"))
            provider = made(sleep=(waits if waits is not None else []).append)
            with pytest.raises(Fault) as raised:
                provider.search("gyms", 3)
        text = str(raised.value)
        assert raised.value.ending == "error:environment" and "\n" not in text and name in text
        assert KEY not in "".join(format_exception(raised.value)) and server.url in text
        return text, len(server.requests)

    return search


@pytest.mark.parametrize(
    ("name", "status", "body", "told"),
    [
        (
            "serper",
            400,
            {"message": "Not enough credits"},
            "the quota of SERPER_API_KEY is spent: top it up at https://serper.dev",
        ),
        (
            "serper",
            403,
            {"message": "Unauthorized."},
            "the key is refused, or its quota is spent: check SERPER_API_KEY",
        ),
        ("serper", 401, {}, "the key is refused: check SERPER_API_KEY at https://serper.dev"),
        ("serper", 404, {}, "it takes no such request: check the provider's name and SERPER_URL"),
        ("serper", 302, {}, "it takes no such request: check the provider's name and SERPER_URL"),
        ("brave", 402, {}, "the quota of BRAVE_API_KEY is spent: top it up at https://api-dashboard.search.brave.com"),
        ("brave", 422, {"error": {"code": "SUBSCRIPTION_TOKEN_INVALID"}}, "the key is refused: check BRAVE_API_KEY"),
        ("brave", 429, {"error": {"code": "QUOTA_LIMITED"}}, "the quota of BRAVE_API_KEY is spent"),
        ("searxng", 403, {}, "add json to search.formats in its settings.yml"),
        ("openai", 401, {"error": {"code": "invalid_api_key"}}, "the key is refused: check OPENAI_API_KEY"),
        ("openai", 429, {"error": {"code": "insufficient_quota"}}, "the quota of OPENAI_API_KEY is spent"),
    ],
)
def test_a_refusal_is_asked_once_and_told_with_the_way_on(failing, name, status, body, told):
    text, asked = failing(name, Told(body, status, echoes=True))
    assert f"answered with status {status}: {told}" in text and asked == 1
    assert text.endswith(f"CERTIGRAPH_SEARCH={'serper' if name == 'searxng' else 'searxng'}")
    assert "certigraph resume RUN" in text


@pytest.mark.parametrize("name", PLACES)
@pytest.mark.parametrize(
    ("status", "told"), [(429, "it limits the rate, or the quota is spent"), (503, "it failed itself")]
)
def test_a_busy_service_is_asked_three_times(failing, name, status, told):
    waits = []
    # Brave names its quota when only the rate was too high
    body = {"error": {"code": "RATE_LIMITED", "meta": {"quota_limit": 2000, "quota_current": 3}}}
    text, asked = failing(name, Told(body, status, echoes=True), waits=waits)
    assert told in text and "certigraph resume RUN" in text and asked == 3 and waits == [1.0, 2.0]


def test_it_waits_as_long_as_it_is_told_within_reason_and_goes_on(monkeypatch):
    waits = []
    answers = [
        Told(status=429, headers={"Retry-After": "3"}),
        Told(status=500, headers={"Retry-After": "9999"}),
        Told(GOOD),
    ]
    with search_stub(*answers) as server:
        monkeypatch.setenv("SERPER_URL", server.url)
        assert len(Serper(sleep=waits.append).search("gyms", 3)) == 1
    assert waits == [3.0, requests.LONGEST_WAIT]


@pytest.mark.parametrize("name", PLACES)
@pytest.mark.parametrize("body", [b"<html>hello", b"", b'{"organic": [', b"\xff\xfe", b"[" * 5000])
def test_what_is_no_json_is_told_with_its_status_and_size(failing, name, body):
    text, asked = failing(name, Told(body))
    assert f"answered with no JSON (status 200, {len(body)} bytes): check that" in text and asked == 1


@pytest.mark.parametrize(
    ("name", "body"),
    [
        ("serper", {}),
        ("serper", []),
        ("serper", {"organic": None}),
        ("serper", {"organic": [{"link": 3}]}),
        ("brave", {"web": {"results": []}}),
        ("brave", {"type": "search", "web": []}),
        ("searxng", {"results": {}}),
        ("searxng", "results"),
        ("openai", {"choices": []}),
        ("openai", {"choices": [{"message": {"annotations": 3}}]}),
    ],
)
def test_another_shape_is_told_with_its_status_and_size(failing, name, body):
    text, _ = failing(name, Told(body))
    assert "answered with JSON of another form than expected (status 200, " in text and "check that" in text


def test_a_long_answer_is_left_before_its_end(failing, monkeypatch):
    text, asked = failing("serper", Told(b" " * (requests.MOST_BYTES + 1)))
    assert "answered with more than 5 MB" in text and "check SERPER_URL" in text and asked == 1


def test_a_small_answer_that_unpacks_to_a_long_one_is_left_too(failing):
    from gzip import compress

    text, _ = failing("serper", Told(compress(b" " * 6_000_000), headers={"Content-Encoding": "gzip"}))
    assert "answered with more than 5 MB" in text


def test_what_cannot_be_unpacked_is_no_answer(failing):
    text, _ = failing("serper", Told(b"no gzip", headers={"Content-Encoding": "gzip"}))
    assert "no answer from serper at" in text and "(DecodingError): check the network and SERPER_URL" in text


@pytest.mark.parametrize("waits", [0.5, 0.04], ids=["nothing comes", "it comes in drops"])
def test_a_slow_service_is_left_in_time(monkeypatch, waits):
    with search_stub(Told(GOOD, waits=waits)) as server:
        monkeypatch.setenv("SERPER_URL", server.url)
        slow = Requests(SERPER, timeout=0.1)
        with pytest.raises(Fault, match=r"no answer within 0\.1 s from serper at .*certigraph resume RUN") as fault:
            slow.post(_SerperAnswer, {"q": "gyms"}, {"X-API-KEY": KEY})
    assert KEY not in "".join(format_exception(fault.value)) and len(server.requests) == 1


@pytest.mark.parametrize("name", PLACES)
def test_a_service_that_is_not_there_is_told_with_its_variable(monkeypatch, name):
    variable, made = PLACES[name]
    monkeypatch.setenv(variable, f"http://ann:{KEY}@127.0.0.1:9")
    with pytest.raises(Fault, match=rf"\(ConnectError\): check the network and {variable}") as fault:
        made(sleep=None).search("gyms", 3)
    assert KEY not in "".join(format_exception(fault.value))


@pytest.mark.parametrize(
    ("made", "variable", "page"),
    [
        (Serper, "SERPER_API_KEY", "https://serper.dev"),
        (Brave, "BRAVE_API_KEY", "https://api-dashboard.search.brave.com"),
        (lambda: Asked("m"), "OPENAI_API_KEY", "https://platform.openai.com/api-keys"),
    ],
)
def test_a_missing_or_odd_key_is_told_with_where_to_get_one(monkeypatch, made, variable, page):
    monkeypatch.delenv(variable)
    ways = rf"needs a key: export {variable}=\.\.\. \({page}\), or name another provider: CERTIGRAPH_SEARCH=searxng"
    with pytest.raises(Fault, match=ways):
        made()
    for odd in ("secret\n", "secret 1", "secr\u00e9t"):
        monkeypatch.setenv(variable, odd)
        with pytest.raises(Fault, match=f"{variable} has a blank.*copy the key again from {page}") as fault:
            made()
        assert "secr" not in str(fault.value)


def test_searxng_needs_an_address():
    with pytest.raises(Fault, match=r"searxng needs an address: export SEARXNG_URL=http.*CERTIGRAPH_SEARCH=serper"):
        SearXNG()


@pytest.mark.parametrize(
    "address", ["localhost:8080", "ftp://ann:hunter2@host", "http://ann:hunter2@host:99999", "http://", "http://xn--a/"]
)
def test_what_is_no_address_is_not_repeated(monkeypatch, address):
    monkeypatch.setenv("SEARXNG_URL", address)
    with pytest.raises(Fault, match="SEARXNG_URL is not an address") as fault:
        SearXNG()
    assert "hunter2" not in "".join(format_exception(fault.value)) and "localhost" not in str(fault.value)


def test_the_key_goes_nowhere_else_and_into_no_log(monkeypatch, caplog):
    caplog.set_level(logging.DEBUG)
    with search_stub(Told(GOOD)) as other, search_stub(Told(status=307, headers={"Location": other.url})) as server:
        monkeypatch.setenv("SERPER_URL", server.url.replace("://", f"://ann:{KEY}@"))
        with pytest.raises(Fault, match="status 307") as fault:
            Serper().search("gyms", 3)
    assert other.requests == [] and len(server.requests) == 1
    assert KEY not in str(fault.value) and KEY not in caplog.text and "307" in caplog.text


@pytest.mark.parametrize("proxy", [f"foo://ann:{KEY}@host", "http://host:port"])
def test_a_proxy_that_is_none_is_told_without_its_address(monkeypatch, proxy):
    monkeypatch.setenv("ALL_PROXY", proxy)
    with pytest.raises(Fault, match="correct or unset ALL_PROXY") as fault:
        Serper()
    assert KEY not in "".join(format_exception(fault.value))


def test_a_token_in_the_address_is_sent_and_not_shown(monkeypatch):
    with search_stub(Told(status=404)) as server:
        monkeypatch.setenv("SERPER_URL", f"{server.url}/v1?token={KEY}")
        with pytest.raises(Fault, match=r"serper at http://127\.0\.0\.1:[0-9]* answered") as fault:
            Serper().search("gyms", 3)
    assert server.requests[0].query == {"token": KEY} and KEY not in str(fault.value)

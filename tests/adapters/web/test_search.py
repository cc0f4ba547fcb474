"""Tests of `adapters.web.search`."""

import logging
from contextlib import ExitStack
from gzip import compress
from traceback import format_exception

import pytest
from helpers.web.search_stub import StubAnswer, search_stub

from certigraph.adapters.models.exchanges import use_exchange_log
from certigraph.adapters.models.usage import Meter, metering
from certigraph.adapters.protocols import Budget
from certigraph.adapters.web import search as requests
from certigraph.adapters.web.protocol import SearchHit
from certigraph.adapters.web.search import SERPER, Brave, SearXNG, Serper, ServiceClient, _SerperAnswer
from certigraph.adapters.web.sources import ModelSearch, create_providers, sentence_at
from certigraph.state.endings import Fault, LimitReached, UnknownName

# Each search provider over real HTTP on loopback: what it asks, and what it reads of the answer.

KEY = "sentinel-key-0123456789"
VARIABLES = ("SERPER_API_KEY", "BRAVE_API_KEY", "OPENAI_API_KEY")
PLACES = ("SERPER_URL", "BRAVE_URL", "SEARXNG_URL", "CERTIGRAPH_BASE_URL", "CERTIGRAPH_SEARCH", "OPENAI_BASE_URL")

ORGANIC = [{"title": "Gyms", "link": "https://a.org/1", "snippet": "Open\n at 6.", "position": 1}]


@pytest.fixture(autouse=True)
def environment(monkeypatch):
    for name in PLACES:
        monkeypatch.delenv(name, raising=False)
    for name in VARIABLES:
        monkeypatch.setenv(name, KEY)


@pytest.fixture
def served(monkeypatch):
    """Serve answers at the addresses of all providers."""
    with ExitStack() as servers:

        def serve(*answers):
            server = servers.enter_context(search_stub(*answers))
            for name in ("SERPER_URL", "SEARXNG_URL", "BRAVE_URL"):
                monkeypatch.setenv(name, server.url)
            monkeypatch.setenv("CERTIGRAPH_BASE_URL", f"{server.url}/v1")
            return server

        yield serve


def test_serper_is_queried_with_its_key_and_its_results_are_read(served, monkeypatch):
    server = served(StubAnswer({"organic": ORGANIC, "credits": 1}))
    monkeypatch.setenv("SERPER_URL", f"{server.url}/search")
    hits = Serper().search("gyms  near\nthe park", 5)
    assert hits == [SearchHit(title="Gyms", url="https://a.org/1", snippet="Open at 6.")]
    request = server.requests[0]
    assert (request.method, request.path, request.body) == ("POST", "/search", {"q": "gyms near the park", "num": 5})
    assert request.headers["X-API-KEY"] == KEY and request.headers["Connection"] == "close"


@pytest.mark.parametrize(
    ("box", "first"),
    [
        (
            {"title": "Park", "link": "https://b.org", "answer": "6 am"},
            SearchHit(title="Park", url="https://b.org", snippet="6 am"),
        ),
        ({"title": "Sum", "answer": "42"}, SearchHit(title="Gyms", url="https://a.org/1", snippet="Open at 6.")),
    ],
    ids=["with a page", "without one"],
)
def test_an_answer_at_once_is_the_first_result_where_it_has_a_page(served, box, first):
    served(StubAnswer({"organic": ORGANIC, "answerBox": box}))
    assert Serper().search("gyms", 1) == [first]


def test_brave_is_queried_with_its_token_and_its_markup_is_taken_out(served, monkeypatch):
    found = {
        "title": "<strong>Gyms</strong> &amp; pools",
        "url": "https://a.org",
        "description": "a &lt;b&gt; <strong>x",
    }
    server = served(StubAnswer({"type": "search", "web": {"results": [found], "family_friendly": True}}))
    monkeypatch.setenv("BRAVE_URL", f"{server.url}/res/v1/web/search")
    hits = Brave().search("w " * 60, 50)
    assert hits == [SearchHit(title="Gyms & pools", url="https://a.org", snippet="a <b> x")]
    request = server.requests[0]
    assert (request.method, request.path, request.headers["X-Subscription-Token"]) == ("GET", "/res/v1/web/search", KEY)
    assert request.query == {"q": " ".join("w" * 50), "count": "20"}


def test_brave_without_a_result_is_not_a_fault(served):
    served(StubAnswer({"type": "search", "query": {}}))
    assert Brave().search("gyms", 3) == []


def test_searxng_is_queried_for_json_as_the_user_in_its_address(served, monkeypatch):
    server = served(StubAnswer({"results": [{"title": "Gyms", "url": "http://a.org", "content": None}]}))
    monkeypatch.setenv("SEARXNG_URL", server.url.replace("://", "://ann:hunter2@") + "/")
    query = "gyms & pools caf\u00e9 \ud800 x"  # UTF-8 cannot hold half a character
    assert SearXNG().search(query, 3) == [SearchHit(title="Gyms", url="http://a.org")]
    request = server.requests[0]
    assert (request.method, request.path) == ("GET", "/search")
    assert request.query == {"q": "gyms & pools caf\u00e9 x", "format": "json"}
    assert request.headers["Authorization"] == "Basic YW5uOmh1bnRlcjI="


def test_results_are_bounded_web_addresses_and_each_comes_once(served):
    odd = [
        "javascript:alert(1)",
        "ftp://a.org",
        "https://",
        "https://a b",
        "https://a.org/\n",
        "https://ann:hunter2@a.org",
        "http://[",
        None,
        "",
        "https://a.org/" + "x" * 2000,
    ]
    rest = ["https://a.org", "https://a.org", "http://b.org", "https://c.org"]
    found = [{"title": f"{at}" * 999, "link": url, "snippet": " s" * 999} for at, url in enumerate(rest)]
    found = [{"title": "t", "link": url} for url in odd] + found
    served(StubAnswer({"organic": found}))
    hits = Serper().search("gyms", 2)
    assert [hit.url for hit in hits] == ["https://a.org", "http://b.org"]
    assert hits[0].title.startswith("0" * 296) and len(hits[0].title) == 300
    assert 990 < len(hits[0].snippet) <= 1000 and "  " not in hits[0].snippet


def test_a_key_that_a_service_repeats_is_in_no_result(served):
    found = [
        {"title": KEY, "link": "https://a.org", "snippet": f"asked with {KEY}."},
        {"title": "x", "link": f"https://b.org/{KEY}"},
    ]
    served(StubAnswer({"organic": found}))
    [hit] = Serper().search("gyms", 3)
    assert hit == SearchHit(title="[redacted]", url="https://a.org", snippet="asked with [redacted].")


@pytest.mark.slow
@pytest.mark.parametrize(("query", "k"), [("  \n", 5), ("gyms", 0)])
def test_nothing_is_queried_for_nothing(served, query, k):
    server = served(StubAnswer({"organic": ORGANIC}))
    for provider in (Serper(), Brave(), SearXNG(), ModelSearch("m")):
        assert provider.search(query, k) == []
    assert server.requests == []


# --- a model that searches ------------------------------------------------------------------------------------------

CONTENT = "Hours differ. Avea opens at 6. ([a.org](https://a.org/?utm_source=openai)) The rest is late."


def completion(content=CONTENT, cited=True):
    start = content.find("[a.org]")
    place = {"start_index": start, "end_index": content.find("))") + 1, "title": "Avea"}
    note = {"type": "url_citation", "url_citation": {**place, "url": "https://a.org/?utm_source=openai"}}
    message = {"role": "assistant", "content": content, "annotations": [note] if cited else []}
    used = {"prompt_tokens": 100, "completion_tokens": 10, "prompt_tokens_details": {"cached_tokens": 64}}
    return {"choices": [{"index": 0, "message": message}], "usage": used}


@pytest.fixture
def endpoint(served):
    return served(StubAnswer(completion()))


@pytest.mark.slow
def test_the_pages_that_a_model_cites_are_its_results_and_its_tokens_are_counted(endpoint):
    with metering(Meter("execute", Budget())) as meter:
        hits = ModelSearch("gpt-4o-search-preview").search("gyms {park}", 4)
    assert hits == [SearchHit(title="Avea", url="https://a.org/", snippet="Avea opens at 6.")]
    request = endpoint.requests[0]
    assert request.path == "/v1/chat/completions" and request.headers["Authorization"] == f"Bearer {KEY}"
    assert request.body["web_search_options"] == {} and "gyms {park}" in request.body["messages"][0]["content"]
    (call,) = meter.records
    assert (call.role, call.model, call.failure) == ("search", "gpt-4o-search-preview", "")
    assert (call.input_tokens, call.output_tokens, call.cached_tokens) == (100, 10, 64)


def test_a_run_that_keeps_prompts_keeps_those_of_a_search(endpoint):
    kept = []
    with use_exchange_log(lambda exchange: kept.append(exchange) or len(kept)), metering(Meter("x", Budget())) as meter:
        ModelSearch("m").search("gyms", 4)
    [exchange], [request] = kept, endpoint.requests
    assert exchange.request["messages"] == request.body["messages"]
    assert (exchange.response, exchange.call["role"], meter.records[0].prompt) == (CONTENT, "search", 1)


def test_an_answer_that_cites_nothing_has_no_results(endpoint):
    endpoint.answers = [StubAnswer(completion(cited=False))]
    assert ModelSearch("m").search("gyms", 4) == []


def test_a_spent_budget_ends_the_run_before_the_model_is_queried(endpoint):
    with metering(Meter("execute", Budget(calls=0))), pytest.raises(LimitReached, match="calls"):
        ModelSearch("m").search("gyms", 4)
    assert endpoint.requests == []


def test_a_call_that_failed_is_counted_too(endpoint):
    endpoint.answers = [StubAnswer({"error": {"code": "x"}}, status=404)]
    with metering(Meter("execute", Budget())) as meter, pytest.raises(Fault, match="status 404"):
        ModelSearch("m").search("gyms", 4)
    assert meter.calls == 1 and "status 404" in meter.records[0].failure


def test_an_endpoint_of_ones_own_needs_no_key(endpoint, monkeypatch):
    monkeypatch.delenv("OPENAI_API_KEY")
    assert len(ModelSearch("m").search("gyms", 4)) == 1 and "Authorization" not in endpoint.requests[0].headers


@pytest.mark.parametrize(
    ("content", "cited", "expected"),
    [
        ("One. Two ([x](http://x)) goes on. Three.", "[x](http://x)", "Two goes on."),
        ("One.\n\nTwo. [x](http://x)\nThree.", "[x](http://x)", "Two."),
        ("One. Two ([y](http://y)) and ([x](http://x)).", "[x](http://x)", "Two and."),
        ("One. Two is cited. Three.", "Two is cited.", "Two is cited."),
        ("One costs 3.50 here. Two.", "3.50", "One costs 3.50 here."),
        ("No stop at all", "stop", "No stop at all"),
        ("Short.", "", "Short."),
    ],
)
def test_a_citation_stands_by_its_sentence(content, cited, expected):
    start = content.find(cited) if cited else 999
    assert sentence_at(content, start, start + len(cited)) == expected


# --- choosing -------------------------------------------------------------------------------------------------------


def names(chosen):
    return [provider.name.partition(" at ")[0] for provider in chosen]


@pytest.mark.slow
def test_providers_are_taken_by_name_then_by_variable_then_by_key(monkeypatch, tmp_path):
    assert names(create_providers()) == ["serper", "brave"]
    monkeypatch.setenv("SEARXNG_URL", "http://localhost:8080")
    monkeypatch.delenv("BRAVE_API_KEY")
    assert names(create_providers()) == ["serper", "searxng"]
    monkeypatch.setenv("CERTIGRAPH_SEARCH", "openai:gpt-4o-search-preview, searxng, searxng")
    assert names(create_providers()) == ["openai:gpt-4o-search-preview", "searxng"]
    (tmp_path / "a.md").write_text("gyms")
    assert names(create_providers(f"local:{tmp_path}")) == ["local"]


def test_without_a_provider_the_fault_names_the_variables_that_give_one(monkeypatch):
    for name in VARIABLES:
        monkeypatch.delenv(name)
    with pytest.raises(Fault) as fault:
        create_providers()
    assert fault.value.ending == "error:environment"
    assert all(name in str(fault.value) for name in ("SERPER_API_KEY", "BRAVE_API_KEY", "SEARXNG_URL"))


@pytest.mark.slow
def test_a_service_at_another_address_is_another_provider(monkeypatch):
    here = [Serper().name, ModelSearch("m").name]
    monkeypatch.setenv("SERPER_URL", f"http://ann:{KEY}@127.0.0.1:1/search?token={KEY}")
    monkeypatch.setenv("CERTIGRAPH_BASE_URL", "http://127.0.0.1:1/v1")
    there = [Serper().name, ModelSearch("m").name]
    assert here == ["serper", "openai:m"]
    monkeypatch.setenv("CERTIGRAPH_BASE_URL", "http://127.0.0.1:1/v2")
    assert [name.rpartition(" ")[0] for name in there] == [f"{name} at http://127.0.0.1:1" for name in here]
    assert ModelSearch("m").name != there[1] and KEY not in "".join(there)


@pytest.mark.parametrize("name", ["bing", "openai:", "local:", "serper:x"])
def test_an_unknown_provider_is_refused(name):
    with pytest.raises(UnknownName, match=name):
        create_providers(f"serper,{name}")


# What providers say when a search fails: in one line, with the way on, and never with a key.

PROVIDERS = {
    "serper": ("SERPER_URL", Serper),
    "brave": ("BRAVE_URL", Brave),
    "searxng": ("SEARXNG_URL", SearXNG),
    "openai": ("CERTIGRAPH_BASE_URL", lambda: ModelSearch("m")),
}
GOOD = {"organic": [{"title": "Gyms", "link": "https://a.org"}]}


@pytest.fixture
def failing(monkeypatch):
    def search(name, *answers, waits=None):
        """The one line that a search by this provider fails with, and how often it asked."""
        variable, made = PROVIDERS[name]
        with search_stub(*answers) as server:
            monkeypatch.setenv(variable, server.url.replace("://", f"://ann:{KEY}@"))
            monkeypatch.setattr(requests, "sleep", (waits if waits is not None else []).append)
            provider = made()
            with pytest.raises(Fault) as raised:
                provider.search("gyms", 3)
        text = str(raised.value)
        assert raised.value.ending == "error:environment" and "\n" not in text and name in text
        assert KEY not in "".join(format_exception(raised.value)) and server.url in text
        return text, len(server.requests)

    return search


@pytest.mark.parametrize(
    ("name", "status", "body", "remedy"),
    [
        ("serper", 400, {"message": "Not enough credits"}, "SERPER_API_KEY"),
        ("serper", 403, {"message": "Unauthorized."}, "SERPER_API_KEY"),
        ("serper", 404, {}, "SERPER_URL"),
        ("serper", 302, {}, "SERPER_URL"),
        ("brave", 402, {}, "BRAVE_API_KEY"),
        ("brave", 422, {"error": {"code": "SUBSCRIPTION_TOKEN_INVALID"}}, "BRAVE_API_KEY"),
        ("brave", 429, {"error": {"code": "QUOTA_LIMITED"}}, "BRAVE_API_KEY"),
        ("searxng", 403, {}, "settings.yml"),
        ("openai", 401, {"error": {"code": "invalid_api_key"}}, "OPENAI_API_KEY"),
        ("openai", 429, {"error": {"code": "insufficient_quota"}}, "OPENAI_API_KEY"),
    ],
)
def test_a_refusal_is_queried_once_and_names_what_to_correct(failing, name, status, body, remedy):
    text, queries = failing(name, StubAnswer(body, status, echoes=True))
    assert str(status) in text and remedy in text and queries == 1


@pytest.mark.parametrize("name", PROVIDERS)
@pytest.mark.parametrize("status", [429, 503])
def test_a_busy_service_is_queried_three_times(failing, name, status):
    waits = []
    # Brave names its quota when only the rate was too high
    body = {"error": {"code": "RATE_LIMITED", "meta": {"quota_limit": 2000, "quota_current": 3}}}
    text, queries = failing(name, StubAnswer(body, status, echoes=True), waits=waits)
    assert str(status) in text and queries == 3 and waits == [1.0, 2.0]


def test_it_waits_as_long_as_the_server_demands_within_reason_and_goes_on(served, monkeypatch):
    waits = []
    answers = [
        StubAnswer(status=429, headers={"Retry-After": "3"}),
        StubAnswer(status=500, headers={"Retry-After": "9999"}),
        StubAnswer(GOOD),
        StubAnswer(status=429, headers={"Retry-After": "Wed, 21 Oct 2015 07:28:00 GMT"}),
        StubAnswer(status=429, headers={"Retry-After": "soon"}),
        StubAnswer(GOOD),
    ]
    served(*answers)
    monkeypatch.setattr(requests, "sleep", waits.append)
    assert [len(Serper().search(query, 3)) for query in ("gyms", "baths")] == [1, 1]
    assert waits == [3.0, requests.MAX_WAIT_SECONDS, 0.0, 2.0]


@pytest.mark.parametrize(
    ("name", "body", "shown"),
    [
        *((name, b"<html>hello", "(status 200, 11 bytes)") for name in PROVIDERS),
        ("serper", {"organic": [{"link": 3}]}, "(status 200, "),
        ("brave", {"web": {"results": []}}, "(status 200, "),
        ("searxng", {"results": {}}, "(status 200, "),
        ("openai", {"choices": []}, "(status 200, "),
        ("serper", b" " * (requests.MAX_ANSWER_BYTES + 1), "more than 5 MB"),
    ],
)
def test_an_answer_of_another_form_is_queried_once_and_reported_with_its_status_and_size(failing, name, body, shown):
    text, queries = failing(name, StubAnswer(body))
    assert shown in text and queries == 1


@pytest.mark.parametrize(
    ("packed", "shown"), [(compress(b" " * 6_000_000), "more than 5 MB"), (b"no gzip", "DecodingError")]
)
def test_a_packed_answer_costs_no_more_than_is_allowed(failing, packed, shown):
    text, _ = failing("serper", StubAnswer(packed, headers={"Content-Encoding": "gzip"}))
    assert shown in text


@pytest.mark.parametrize("waits", [0.5, 0.04], ids=["nothing comes", "it comes in drops"])
def test_a_slow_service_is_left_in_time(served, waits):
    server = served(StubAnswer(GOOD, waits=waits))
    slow = ServiceClient(SERPER, timeout=0.1)
    with pytest.raises(Fault, match=r"0\.1 s") as fault:
        slow.post(_SerperAnswer, {"q": "gyms"}, {"X-API-KEY": KEY})
    assert KEY not in "".join(format_exception(fault.value)) and len(server.requests) == 1


@pytest.mark.parametrize("name", PROVIDERS)
def test_a_service_that_is_not_there_is_reported_with_its_variable(monkeypatch, name):
    variable, made = PROVIDERS[name]
    monkeypatch.setenv(variable, f"http://ann:{KEY}@127.0.0.1:9")
    with pytest.raises(Fault, match=variable) as fault:
        made().search("gyms", 3)
    assert KEY not in "".join(format_exception(fault.value))


@pytest.mark.parametrize(
    ("made", "variable"),
    [
        (Serper, "SERPER_API_KEY"),
        (Brave, "BRAVE_API_KEY"),
        (lambda: ModelSearch("m"), "OPENAI_API_KEY"),
        (SearXNG, "SEARXNG_URL"),
    ],
)
@pytest.mark.parametrize("odd", ["", "secret\n", "secret 1", "secr\u00e9t"])
def test_a_missing_or_odd_key_is_refused_by_the_name_of_its_variable(monkeypatch, made, variable, odd):
    monkeypatch.setenv(variable, odd)
    with pytest.raises(Fault, match=variable) as fault:
        made()
    assert "secr" not in str(fault.value)


@pytest.mark.parametrize(
    "address",
    ["localhost:8080", "ftp://ann:hunter2@host", "http://ann:hunter2@host:99999", "http://", "http://xn--a/"],
)
def test_what_is_not_an_address_is_not_repeated(monkeypatch, address):
    monkeypatch.setenv("SEARXNG_URL", address)
    with pytest.raises(Fault, match="SEARXNG_URL") as fault:
        SearXNG()
    assert "hunter2" not in "".join(format_exception(fault.value)) and "localhost" not in str(fault.value)


def test_the_key_goes_nowhere_else_and_into_no_log(served, monkeypatch, caplog):
    caplog.set_level(logging.DEBUG)
    other = served(StubAnswer(GOOD))
    server = served(StubAnswer(status=307, headers={"Location": other.url}))
    monkeypatch.setenv("SERPER_URL", server.url.replace("://", f"://ann:{KEY}@"))
    with pytest.raises(Fault, match="307") as fault:
        Serper().search("gyms", 3)
    assert other.requests == [] and len(server.requests) == 1
    assert KEY not in str(fault.value) and KEY not in caplog.text and "307" in caplog.text


@pytest.mark.parametrize("proxy", [f"foo://ann:{KEY}@host", "http://host:port"])
def test_a_proxy_that_is_none_is_reported_without_its_address(monkeypatch, proxy):
    monkeypatch.setenv("ALL_PROXY", proxy)
    with pytest.raises(Fault, match="ALL_PROXY") as fault:
        Serper()
    assert KEY not in "".join(format_exception(fault.value))


def test_a_token_in_the_address_is_sent_and_not_shown(served, monkeypatch):
    server = served(StubAnswer(status=404))
    monkeypatch.setenv("SERPER_URL", f"{server.url}/v1?token={KEY}")
    with pytest.raises(Fault, match=r"serper at http://127\.0\.0\.1:[0-9]* ") as fault:
        Serper().search("gyms", 3)
    assert server.requests[0].query == {"token": KEY} and KEY not in str(fault.value)

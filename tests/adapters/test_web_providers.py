"""Each search provider over real HTTP on loopback: what it asks, and what it reads of the answer."""

import pytest
from search_stub import Told, search_stub

from certigraph.adapters.models.usage import Meter, metering
from certigraph.adapters.protocols import Budget
from certigraph.adapters.web.protocol import Hit
from certigraph.adapters.web.search import Brave, SearXNG, Serper
from certigraph.adapters.web.sources import Asked, providers, sentence
from certigraph.state.records import Fault, LimitReached, UnknownName

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


def test_serper_is_asked_with_its_key_and_its_results_are_read(monkeypatch):
    with search_stub(Told({"organic": ORGANIC, "credits": 1})) as server:
        monkeypatch.setenv("SERPER_URL", f"{server.url}/search")
        hits = Serper().search("gyms  near\nthe park", 5)
    assert hits == [Hit(title="Gyms", url="https://a.org/1", snippet="Open at 6.")]
    asked = server.requests[0]
    assert (asked.method, asked.path, asked.body) == ("POST", "/search", {"q": "gyms near the park", "num": 5})
    assert asked.headers["X-API-KEY"] == KEY and asked.headers["Connection"] == "close"


@pytest.mark.parametrize(
    ("box", "first"),
    [
        (
            {"title": "Park", "link": "https://b.org", "answer": "6 am"},
            Hit(title="Park", url="https://b.org", snippet="6 am"),
        ),
        ({"title": "Sum", "answer": "42"}, Hit(title="Gyms", url="https://a.org/1", snippet="Open at 6.")),
    ],
    ids=["with a page", "without one"],
)
def test_an_answer_at_once_is_the_first_result_where_it_has_a_page(monkeypatch, box, first):
    with search_stub(Told({"organic": ORGANIC, "answerBox": box})) as server:
        monkeypatch.setenv("SERPER_URL", server.url)
        assert Serper().search("gyms", 1) == [first]


def test_brave_is_asked_with_its_token_and_its_markup_is_taken_out(monkeypatch):
    found = {
        "title": "<strong>Gyms</strong> &amp; pools",
        "url": "https://a.org",
        "description": "a &lt;b&gt; <strong>x",
    }
    with search_stub(Told({"type": "search", "web": {"results": [found], "family_friendly": True}})) as server:
        monkeypatch.setenv("BRAVE_URL", f"{server.url}/res/v1/web/search")
        hits = Brave().search("w " * 60, 50)
    assert hits == [Hit(title="Gyms & pools", url="https://a.org", snippet="a <b> x")]
    asked = server.requests[0]
    assert (asked.method, asked.path, asked.headers["X-Subscription-Token"]) == ("GET", "/res/v1/web/search", KEY)
    assert asked.query == {"q": " ".join("w" * 50), "count": "20"}


def test_brave_without_a_result_is_no_fault(monkeypatch):
    with search_stub(Told({"type": "search", "query": {}})) as server:
        monkeypatch.setenv("BRAVE_URL", server.url)
        assert Brave().search("gyms", 3) == []


def test_searxng_is_asked_for_json_as_the_user_in_its_address(monkeypatch):
    with search_stub(Told({"results": [{"title": "Gyms", "url": "http://a.org", "content": None}]})) as server:
        monkeypatch.setenv("SEARXNG_URL", server.url.replace("://", "://ann:hunter2@") + "/")
        assert SearXNG().search("gyms & pools", 3) == [Hit(title="Gyms", url="http://a.org")]
    asked = server.requests[0]
    assert (asked.method, asked.path, asked.query) == ("GET", "/search", {"q": "gyms & pools", "format": "json"})
    assert asked.headers["Authorization"] == "Basic YW5uOmh1bnRlcjI="


def test_results_are_bounded_web_addresses_and_each_comes_once(monkeypatch):
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
    with search_stub(Told({"organic": found})) as server:
        monkeypatch.setenv("SERPER_URL", server.url)
        hits = Serper().search("gyms", 2)
    assert [hit.url for hit in hits] == ["https://a.org", "http://b.org"]
    assert hits[0].title == "0" * 300 and len(hits[0].snippet) in (999, 1000) and "  " not in hits[0].snippet


def test_a_key_that_a_service_repeats_is_in_no_result(monkeypatch):
    found = [
        {"title": KEY, "link": "https://a.org", "snippet": f"asked with {KEY}."},
        {"title": "x", "link": f"https://b.org/{KEY}"},
    ]
    with search_stub(Told({"organic": found})) as server:
        monkeypatch.setenv("SERPER_URL", server.url)
        assert Serper().search("gyms", 3) == [
            Hit(title="[redacted]", url="https://a.org", snippet="asked with [redacted].")
        ]


@pytest.mark.parametrize(("query", "k"), [("  \n", 5), ("gyms", 0)])
def test_nothing_is_asked_for_nothing(monkeypatch, query, k):
    with search_stub(Told({"organic": ORGANIC})) as server:
        monkeypatch.setenv("SERPER_URL", server.url)
        monkeypatch.setenv("SEARXNG_URL", server.url)
        monkeypatch.setenv("BRAVE_URL", server.url)
        monkeypatch.setenv("CERTIGRAPH_BASE_URL", server.url)
        for provider in (Serper(), Brave(), SearXNG(), Asked("m")):
            assert provider.search(query, k) == []
    assert server.requests == []


def test_a_query_that_utf8_cannot_hold_is_asked_without_that(monkeypatch):
    with search_stub(Told({"results": []})) as server:
        monkeypatch.setenv("SEARXNG_URL", server.url)
        assert SearXNG().search("caf\u00e9 \ud800 x", 3) == []
    assert server.requests[0].query["q"] == "caf\u00e9 x"


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
def endpoint(monkeypatch):
    with search_stub(Told(completion())) as server:
        monkeypatch.setenv("CERTIGRAPH_BASE_URL", f"{server.url}/v1")
        yield server


@pytest.mark.slow
def test_the_pages_that_a_model_cites_are_its_results_and_its_tokens_are_billed(endpoint):
    with metering(Meter("execute", Budget())) as meter:
        hits = Asked("gpt-4o-search-preview").search("gyms {park}", 4)
    assert hits == [Hit(title="Avea", url="https://a.org/", snippet="Avea opens at 6.")]
    asked = endpoint.requests[0]
    assert asked.path == "/v1/chat/completions" and asked.headers["Authorization"] == f"Bearer {KEY}"
    assert asked.body["web_search_options"] == {} and "gyms {park}" in asked.body["messages"][0]["content"]
    (call,) = meter.records
    assert (call.role, call.model, call.failure) == ("search", "gpt-4o-search-preview", "")
    assert (call.input_tokens, call.output_tokens, call.cached_tokens) == (100, 10, 64)


def test_an_answer_that_cites_nothing_has_no_results(endpoint):
    endpoint.answers = [Told(completion(cited=False))]
    assert Asked("m").search("gyms", 4) == []


def test_a_spent_budget_ends_the_run_before_the_model_is_asked(endpoint):
    with metering(Meter("execute", Budget(calls=0))), pytest.raises(LimitReached, match="calls"):
        Asked("m").search("gyms", 4)
    assert endpoint.requests == []


def test_a_call_that_failed_is_on_the_bill_too(endpoint):
    endpoint.answers = [Told({"error": {"code": "x"}}, status=404)]
    with metering(Meter("execute", Budget())) as meter, pytest.raises(Fault, match=r"status 404: .*provider's name"):
        Asked("m").search("gyms", 4)
    assert meter.calls == 1 and "status 404" in meter.records[0].failure


def test_an_endpoint_of_ones_own_needs_no_key(endpoint, monkeypatch):
    monkeypatch.delenv("OPENAI_API_KEY")
    assert len(Asked("m").search("gyms", 4)) == 1 and "Authorization" not in endpoint.requests[0].headers


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
    assert sentence(content, start, start + len(cited)) == expected


# --- choosing -------------------------------------------------------------------------------------------------------


def names(chosen):
    return [provider.name.partition(" at ")[0] for provider in chosen]


def test_providers_are_taken_by_name_then_by_variable_then_by_key(monkeypatch, tmp_path):
    assert names(providers()) == ["serper", "brave"]
    monkeypatch.setenv("SEARXNG_URL", "http://localhost:8080")
    monkeypatch.delenv("BRAVE_API_KEY")
    assert names(providers()) == ["serper", "searxng"]
    monkeypatch.setenv("CERTIGRAPH_SEARCH", "openai:gpt-4o-search-preview, searxng, searxng")
    assert names(providers()) == ["openai:gpt-4o-search-preview", "searxng"]
    (tmp_path / "a.md").write_text("gyms")
    assert names(providers(f"local:{tmp_path}")) == ["local"]


def test_without_a_provider_the_fault_tells_every_way_to_one(monkeypatch):
    for name in VARIABLES:
        monkeypatch.delenv(name)
    ways = r"SERPER_API_KEY=.*serper\.dev.*BRAVE_API_KEY=.*brave\.com.*SEARXNG_URL=.*CERTIGRAPH_SEARCH=local:FOLDER"
    with pytest.raises(Fault, match=ways) as fault:
        providers()
    assert fault.value.ending == "error:environment" and "\n" not in str(fault.value)


def test_a_service_at_another_address_is_another_provider(monkeypatch):
    here = [Serper().name, Asked("m").name]
    monkeypatch.setenv("SERPER_URL", f"http://ann:{KEY}@127.0.0.1:1/search?token={KEY}")
    monkeypatch.setenv("CERTIGRAPH_BASE_URL", "http://127.0.0.1:1/v1")
    there = [Serper().name, Asked("m").name]
    assert here == ["serper", "openai:m"]
    monkeypatch.setenv("CERTIGRAPH_BASE_URL", "http://127.0.0.1:1/v2")
    assert [name.rpartition(" ")[0] for name in there] == [f"{name} at http://127.0.0.1:1" for name in here]
    assert Asked("m").name != there[1] and KEY not in "".join(there)


@pytest.mark.parametrize("name", ["bing", "openai:", "local:", "serper:x"])
def test_an_unknown_provider_is_told_the_forms(name):
    with pytest.raises(UnknownName, match="serper, brave, searxng, openai:gpt-4o-search-preview, local:FOLDER"):
        providers(f"serper,{name}")

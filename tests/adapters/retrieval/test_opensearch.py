"""The client against a stub on loopback that answers as OpenSearch would, ranked by our own BM25; no real server."""

import json
from base64 import b64encode
from contextlib import contextmanager
from traceback import format_exception
from urllib.parse import unquote

import pytest
from helpers.servers.endpoint_stub import LocalServer, QuietHandler, serving

from certigraph import cli
from certigraph.adapters.retrieval import opensearch
from certigraph.adapters.retrieval import opensearch as opensearch_http
from certigraph.adapters.retrieval.bm25 import PassagePool
from certigraph.adapters.retrieval.opensearch import OpenSearch
from certigraph.benchmarks.hotpotqa.benchmark import HotpotQA
from certigraph.state.endings import Fault, UnknownName
from certigraph.state.run import search
from certigraph.state.search import Passage

pytestmark = pytest.mark.slow  # a server that answers over HTTP

PASSWORD = "hunter2hunter2"
CORPUS = [
    Passage(id="a/1", title="Škoda", text="A maker of cars in Bohemia."),
    Passage(id="b", title="Bohemia", text="A land of rivers."),
    Passage(id="c", title="Rivers", text="Water that runs."),
    Passage(id="d", title="Rivers", text="Water that runs."),
]


class Stub(LocalServer):
    def __init__(self):
        super().__init__(Handler)
        self.indexes, self.requests, self.failures, self.refuses = {}, [], [], set()


class Handler(QuietHandler):
    protocol_version = "HTTP/1.1"

    def answer(self):
        stub, body = self.server, self.rfile.read(int(self.headers.get("Content-Length", 0))).decode()
        stub.requests.append((self.command, self.path, body, self.headers))
        if stub.failures:
            self.send(*stub.failures.pop(0))
            return
        index, _, rest = self.path[1:].partition("/")
        if self.command == "PUT":
            stub.indexes[index] = {}
            self.send(200, {"acknowledged": True})
        elif index not in stub.indexes:
            self.send(404, {"error": {"type": "index_not_found_exception"}, "status": 404})
        else:
            self.send(*self.served(stub.indexes[index], rest, body))

    do_GET = do_POST = do_PUT = do_HEAD = answer  # noqa: N815

    def served(self, stored, rest, body):
        if rest == "_bulk":
            return 200, self.kept(stored, body)
        if rest == "_search":
            return 200, found(stored, json.loads(body))
        if rest.startswith("_doc/"):
            source = stored.get(unquote(rest.split("/")[1]))
            return (200, {"found": True, "_source": source}) if source else (404, {"found": False})
        return 200, {}

    def kept(self, stored, body):
        lines, items = [json.loads(line) for line in body.splitlines()], []
        for action, source in zip(lines[::2], lines[1::2], strict=True):
            id = action["index"]["_id"]
            refused = id in self.server.refuses
            if not refused:
                stored[id] = source
            items.append({"index": {"_id": id, "status": 429 if refused else 201}})
        return {"errors": any(item["index"]["status"] > 299 for item in items), "items": items}

    def send(self, status, payload, headers=()):
        data = payload if isinstance(payload, bytes) else json.dumps(payload).encode()
        self.send_response(status)
        for name, value in headers:
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)


def found(stored, query):
    assert query["query"]["multi_match"]["fields"] == ["title^2", "text"]
    pool = PassagePool(
        [Passage(id=s["id"], title=s["title"], text=s["text"]) for s in stored.values()], boost_titles=False
    )
    hits = pool.search(query["query"]["multi_match"]["query"], query["size"])
    sources = [{name: stored[hit.passage.id][name] for name in query["_source"]} for hit in hits]
    return {"hits": {"hits": [{"_score": h.score, "_source": s} for h, s in zip(hits, sources, strict=True)]}}


@contextmanager
def served():
    with serving(Stub()) as server:
        yield server


@pytest.fixture
def stub():
    with served() as server:
        yield server


@pytest.fixture
def waits(monkeypatch):
    slept = []
    monkeypatch.setattr(opensearch_http.time, "sleep", slept.append)
    return slept


@pytest.fixture
def filled(stub):
    OpenSearch(stub.url, "wiki").upload(CORPUS)
    stub.requests.clear()
    return stub


def ids(hits):
    return [hit.passage.id for hit in hits]


def test_what_was_uploaded_is_found_and_had_by_id(stub):
    retriever = OpenSearch(stub.url, "wiki")
    assert retriever.upload(CORPUS) == 4
    hits = retriever.search("the cars of Bohemia", 3)
    assert ids(hits) == ["a/1", "b"] and hits[0].passage == CORPUS[0] and hits[0].score > hits[1].score
    assert ids(retriever.search("water", 9)) == ["c", "d"] and ids(retriever.search("water", 1)) == ["c"]
    assert retriever.search("who is it?", 5) == retriever.search("rivers", 0) == []
    assert retriever.passage("a/1") == CORPUS[0]
    with pytest.raises(UnknownName, match="no passage 'z' in the index 'wiki'"):
        retriever.passage("z")


def test_an_upload_makes_the_index_once_and_goes_in_parts(stub, monkeypatch):
    monkeypatch.setattr(opensearch, "BULK_PASSAGES", 3)
    retriever = OpenSearch(stub.url, "wiki")
    assert retriever.upload(iter(CORPUS)) == retriever.upload(CORPUS) == 4
    sent = [(method, path) for method, path, _, _ in stub.requests]
    parts = [("POST", "/wiki/_bulk"), ("POST", "/wiki/_bulk"), ("POST", "/wiki/_refresh")]
    assert sent == [("HEAD", "/wiki"), ("PUT", "/wiki"), *parts, ("HEAD", "/wiki"), *parts]
    made = json.loads(stub.requests[1][2])["settings"]["analysis"]
    assert "the" in made["filter"]["ours"]["stopwords"] and "asciifolding" in made["analyzer"]["certigraph"]["filter"]
    assert [source["place"] for source in stub.indexes["wiki"].values()] == [0, 1, 2, 3]
    assert stub.requests[2][3]["Content-Type"] == "application/x-ndjson"


def test_equal_scores_are_requested_in_the_corpus_s_order(filled):
    OpenSearch(filled.url, "wiki").search("rivers", 2)
    assert json.loads(filled.requests[0][2])["sort"][1]["place"]["order"] == "asc"


def test_a_refused_passage_is_a_fault_that_says_which(stub):
    stub.refuses = {"c"}
    with pytest.raises(Fault, match=r"refused 1 of 4 passages, the first 'c' with status 429: upload again"):
        OpenSearch(stub.url, "wiki").upload(CORPUS)


def test_a_missing_index_is_a_fault_with_the_call_that_makes_it(stub):
    with pytest.raises(Fault, match=r"no index 'wiki' at .*upload\(passages\)") as fault:
        OpenSearch(stub.url, "wiki").search("rivers", 3)
    assert fault.value.ending == "error:data"
    with pytest.raises(Fault, match="no index 'wiki'"):
        OpenSearch(stub.url, "wiki").passage("a/1")


def test_a_busy_server_is_queried_again_when_it_says(filled, waits):
    filled.failures = [(429, {}, [("Retry-After", "3")]), (503, {}), (429, {}, [("Retry-After", "9999")])]
    assert ids(OpenSearch(filled.url, "wiki").search("water", 1)) == ["c"]
    assert waits == [3.0, 2.0, opensearch_http.MAX_WAIT_SECONDS]


def test_a_server_that_stays_busy_is_a_fault(filled, waits):
    filled.failures = [(429, {"error": {"type": "too_many_requests"}})] * 9
    with pytest.raises(Fault, match="status 429, too_many_requests; it was busy in 4 tries") as fault:
        OpenSearch(filled.url, "wiki").search("rivers", 1)
    assert fault.value.ending == "error:environment" and len(filled.requests) == 4 and len(waits) == 3


@pytest.mark.parametrize("body", [b"<html>", b"", b'{"hits": 3}', b'{"hits": {"hits": [{"_score": null}]}}'])
def test_an_answer_in_no_known_form_is_a_fault(filled, body):
    filled.failures = [(200, body)]
    with pytest.raises(Fault, match=r"the answer of http://127.*CERTIGRAPH_OPENSEARCH_URL") as fault:
        OpenSearch(filled.url, "wiki").search("rivers", 1)
    assert fault.value.ending == "error:environment"


def test_a_server_that_is_down_is_a_fault_with_its_address_and_the_variable():
    with served() as gone:
        url = gone.url
    with pytest.raises(Fault, match=f"no answer from the search server at {url} .*CERTIGRAPH_OPENSEARCH_URL") as fault:
        OpenSearch(url, "wiki").search("rivers", 1)
    assert fault.value.ending == "error:environment"


@pytest.mark.timeout(5)
def test_a_server_that_does_not_answer_in_time_is_a_fault(stub, monkeypatch):
    stub.shutdown()
    monkeypatch.setattr(opensearch_http, "TIMEOUT", 0.05)
    with pytest.raises(Fault, match="ReadTimeout"):
        OpenSearch(stub.url, "wiki").search("rivers", 1)


class TestCredentials:
    def named(self, url):
        return url.replace("://", f"://anna:{PASSWORD}@")

    def test_they_are_sent_and_may_come_from_the_environment(self, filled, monkeypatch):
        monkeypatch.setenv("CERTIGRAPH_OPENSEARCH_URL", self.named(filled.url) + "/")
        assert ids(OpenSearch("", "wiki").search("water", 1)) == ["c"]
        assert filled.requests[0][3]["Authorization"] == f"Basic {b64encode(f'anna:{PASSWORD}'.encode()).decode()}"

    @pytest.mark.parametrize(
        "failure", [(401, {"error": {"type": f"no_{PASSWORD}", "reason": PASSWORD}}), (200, b"?"), None]
    )
    def test_no_error_shows_them(self, filled, failure):
        filled.failures = [failure] if failure else []
        retriever = OpenSearch(self.named(filled.url), "wiki" if failure else "other")
        with pytest.raises(Fault) as fault:
            retriever.search(f"rivers {PASSWORD}", 1)
        assert PASSWORD not in "".join(format_exception(fault.value)) and "anna" not in str(fault.value)
        assert not failure or "CERTIGRAPH_OPENSEARCH_URL" in str(fault.value)

    def test_they_are_sent_to_no_other_server(self, filled):
        with served() as elsewhere:
            filled.failures = [(302, {}, [("Location", elsewhere.url)])]
            with pytest.raises(Fault, match="302"):
                OpenSearch(self.named(filled.url), "wiki").search("rivers", 1)
            assert elsewhere.requests == []

    def test_no_connection_error_shows_them(self):
        with served() as gone:
            url = self.named(gone.url)
        with pytest.raises(Fault) as fault:
            OpenSearch(url, "wiki").search("rivers", 1)
        shown = "".join(format_exception(fault.value))
        assert PASSWORD not in shown and "anna" not in shown

    @pytest.mark.parametrize(
        "url", ["", f"anna:{PASSWORD}@host:9200", f"https://anna:{PASSWORD}@host:port", "ftp://host"]
    )
    def test_what_is_not_an_address_is_not_shown(self, url, monkeypatch):
        monkeypatch.delenv("CERTIGRAPH_OPENSEARCH_URL", raising=False)
        with pytest.raises(Fault, match="export CERTIGRAPH_OPENSEARCH_URL=https://user:password@host:9200") as fault:
            OpenSearch(url, "wiki")
        assert PASSWORD not in str(fault.value)


def test_a_benchmark_searches_the_server_that_the_command_filled(stub, tmp_path, monkeypatch, capsys):
    rows = ({"id": p.id, "title": p.title, "text": p.text} for p in CORPUS)
    (tmp_path / "wiki.jsonl").write_text("\n".join(map(json.dumps, rows)))
    with pytest.raises(SystemExit) as stop:
        cli.main(["index", str(tmp_path / "wiki.jsonl"), "--out", f"{stub.url}/wiki"])
    assert (stop.value.code, capsys.readouterr().out) == (0, "4 passages uploaded\n")
    monkeypatch.setenv("CERTIGRAPH_INDEX", f"{stub.url}/wiki")
    benchmark = HotpotQA(None, "corpus")
    found = benchmark.open(benchmark.tasks()[0]).step(search("water"))
    assert (found.sources, found.data["retriever"]) == (("c", "d"), "opensearch")

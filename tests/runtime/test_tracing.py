"""Traces of a run by LangChain callbacks: OpenTelemetry with OpenInference, and LangSmith."""

import asyncio
import json
import subprocess
import sys

import pytest
from helpers.processes.children import child_path
from helpers.worlds.scripted_benchmark import GarbageModel
from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.runnables import RunnableLambda
from openinference.instrumentation.langchain import LangChainInstrumentor
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import StatusCode

from certigraph.adapters.protocols import Budget, Context
from certigraph.runtime.registry import build_graph, parse_swap
from certigraph.runtime.run import arun, resume, run

pytestmark = pytest.mark.slow  # runs with tracers and their libraries

TASK = {"task": {"benchmark": "blocksworld", "id": "4-0"}}


class Spans:
    """The finished spans in order of start."""

    def __init__(self, exporter):
        self.all = sorted(exporter.get_finished_spans(), key=lambda span: span.start_time)
        self._by_id = {span.context.span_id: span for span in self.all}

    def of(self, kind):
        return [span for span in self.all if span.attributes["openinference.span.kind"] == kind]

    def parent(self, span):
        return self._by_id[span.parent.span_id] if span.parent else None

    @property
    def roots(self):
        return [span for span in self.all if span.parent is None]

    @property
    def nodes(self):
        return [span for span in self.all if self.parent(span) in self.roots]

    def tokens(self, kind):
        return sum(span.attributes[f"llm.token_count.{kind}"] for span in self.of("LLM"))


@pytest.fixture
def exporter():
    memory, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(memory))
    LangChainInstrumentor().instrument(tracer_provider=provider)
    yield memory
    LangChainInstrumentor().uninstrument()


@pytest.mark.parametrize("graph", ["sdp", "react", "plan_and_solve", "reflexion", "clin", "step"])
def test_a_run_is_a_tree_of_its_nodes_and_their_model_calls(exporter, graph, tmp_path):
    result = run(graph, out=tmp_path)
    spans = Spans(exporter)
    assert [root.name for root in spans.roots] == [graph]
    assert [node.name for node in spans.nodes] == [*(event.node for event in result.trajectory.events), "result"]
    values = [spans.parent(span).name for span in spans.of("LLM")]
    assert values == [event.node for event in result.trajectory.events for _ in event.calls]
    assert (spans.tokens("prompt"), spans.tokens("completion")) == (
        result.usage.input_tokens,
        result.usage.output_tokens,
    )


def by_invoke(graph):
    return graph.invoke(TASK)


def by_ainvoke(graph):
    return asyncio.run(graph.ainvoke(TASK))


@pytest.mark.parametrize("call", [by_invoke, by_ainvoke])
def test_a_graph_that_is_invoked_traces_the_same(exporter, call):
    state = call(build_graph("sdp:paper"))
    spans = Spans(exporter)
    assert [root.name for root in spans.roots] == ["sdp"]
    assert [node.name for node in spans.nodes] == [*(usage.node for usage in state["usage"]), "result"]
    assert {spans.parent(span).name for span in spans.of("LLM")} == {"propose", "realize", "validate"}
    assert spans.tokens("prompt") == sum(usage.input_tokens for usage in state["usage"])


def test_spans_name_the_operator_and_tell_the_verdict(exporter, tmp_path):
    graph = build_graph("sdp", dict([parse_swap("validate=capped:depth=1")]))
    result = run(graph, out=tmp_path)
    validated = [span for span in Spans(exporter).nodes if span.name == "validate"]
    parsed = [json.loads(span.attributes["output.value"])["attempts"][0] for span in validated]
    assert [attempt["verdict"]["depth"] for attempt in parsed] == [a.verdict.depth for a in result.state["attempts"]]
    assert [attempt["target"]["text"] for attempt in parsed] == [a.target.text for a in result.state["attempts"]]
    metadata = json.loads(validated[0].attributes["metadata"])
    assert metadata["operator"] == {"name": "capped", "args": {"depth": 1}}
    assert metadata["thread_id"] == result.folder.name


def test_every_try_and_the_failed_node_are_seen(exporter, tmp_path):
    result = run("sdp", out=tmp_path, context=Context(chat=GarbageModel()))
    spans = Spans(exporter)
    assert result.ending == "error:model"
    assert [spans.parent(span).name for span in spans.of("LLM")] == ["propose"] * 3
    failed = [span.name for span in spans.all if span.status.status_code is StatusCode.ERROR]
    assert failed == ["sdp", "propose"]


def test_a_resumed_run_is_a_second_tree(exporter, tmp_path):
    stopped = run("sdp:paper", out=tmp_path, context=Context(budget=Budget(calls=5)))
    result = resume(stopped.folder, budget=Budget(calls=100))
    spans = Spans(exporter)
    assert [root.name for root in spans.roots] == ["sdp", "sdp"]
    assert len(spans.of("LLM")) == result.usage.calls


class Names(BaseCallbackHandler):
    """Callback handler that records what started."""

    def __init__(self):
        self.began = []

    def on_chain_start(self, serialized, inputs, **about):
        self.began.append(about["name"])

    def on_chat_model_start(self, serialized, messages, **about):
        self.began.append(about["metadata"]["langgraph_node"])


@pytest.mark.parametrize("blocking", [True, False])
def test_a_run_inside_a_runnable_has_its_callbacks(blocking, tmp_path):
    names = Names()
    if blocking:
        RunnableLambda(lambda task: run("react", out=tmp_path)).invoke("", {"callbacks": [names]})
    else:
        awaited = RunnableLambda(lambda task: task, lambda task: arun("react", out=tmp_path))
        asyncio.run(awaited.ainvoke("", {"callbacks": [names]}))
    assert names.began[:4] == ["RunnableLambda", "react", "reset", "decide"]
    assert names.began.count("decide") > 2


def test_a_runs_own_callbacks_hear_its_nodes_and_its_model(tmp_path):
    names = Names()
    run("sdp:paper", "blocksworld", "3-0", context=Context(callbacks=[names]), out=tmp_path)
    assert names.began[:4] == ["sdp", "reset", "propose", "propose"], "the second is the node's model call"


LANGSMITH = """
import http.server, os, sys, threading
seen = []
class Sink(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        seen.append(self.rfile.read(int(self.headers.get("Content-Length") or 0)))
        self.send_response(202); self.send_header("Content-Length", "2"); self.end_headers(); self.wfile.write(b"{}")
    def do_GET(self):
        seen.append(b"")
        self.send_response(404); self.send_header("Content-Length", "0"); self.end_headers()
    def log_message(self, *_): pass
server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Sink)
threading.Thread(target=server.serve_forever, daemon=True).start()
os.environ.update(LANGSMITH_ENDPOINT=f"http://127.0.0.1:{server.server_port}", LANGSMITH_API_KEY="none")
from langchain_core.tracers.langchain import wait_for_all_tracers
from certigraph.runtime.run import run
run("sdp", out=sys.argv[1])
wait_for_all_tracers()
print(len(seen))
"""


@pytest.mark.parametrize("tracing", ["", "true"])
def test_langsmith_gets_runs_only_when_tracing_is_on(tracing, tmp_path):
    environment = {"PYTHONPATH": child_path(), "PATH": "", **({"LANGSMITH_TRACING": tracing} if tracing else {})}
    command = [sys.executable, "-c", LANGSMITH, str(tmp_path)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True, timeout=60)
    assert (int(done.stdout) > 0) is bool(tracing)

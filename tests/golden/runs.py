"""The runs that goldens are made of, and what is kept of each: trajectory, prompts, ending, scores, usage."""

import atexit
import json
import os
import tempfile
import warnings
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

from golden.normalise import brief, compact, line, lines, plain, sha
from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.messages import BaseMessage

import certigraph

MODELS = {"expert": "scripted:expert", "simulated": "simulated:seed=0"}

DATA = "CERTIGRAPH_DATA"


@dataclass(frozen=True)
class Run:
    """A graph on a task.

    `data` says whether the benchmark's own files are read (below CERTIGRAPH_DATA) or its generated world is used;
    `slow` marks what starts a JVM or a sentence encoder; `variant` names a graph with other operators; `models` names
    the models, of MODELS, under which it is recorded.
    """

    graph: str
    world: str
    task: str | certigraph.Task
    data: bool = False
    slow: bool = False
    variant: str = ""
    operators: Callable[[], dict[str, Any]] = dict
    limits: dict[str, int] = field(default_factory=dict)
    models: tuple[str, ...] = ("expert", "simulated")

    @property
    def name(self) -> str:
        """Name of the run in file names."""
        variant = f"+{self.variant}" if self.variant else ""
        world = self.world.replace(":", ".") + ("-data" if self.data else "")
        own = "" if isinstance(self.task, str) else "-own"
        return f"{self.graph}{variant}-{world}{own}"


class Prompts(BaseCallbackHandler):
    """Collects what models are sent, hashed, by the node execution that sent it: (scope, superstep, node)."""

    def __init__(self) -> None:
        self.sent: dict[tuple[str, int, str], list[str]] = defaultdict(list)

    def on_chat_model_start(self, serialized: Any, messages: list[list[BaseMessage]], **more: Any) -> None:
        """Keep the question's beginning, and hashes of all messages with their roles and of the answer's form."""
        about = more.get("metadata") or {}
        scope = "|".join(str(about.get("langgraph_checkpoint_ns", "")).split("|")[:-1])
        where = (scope, int(about.get("langgraph_step", -1)), str(about.get("langgraph_node", "")))
        form = (more.get("invocation_params") or {}).get("response_format") or {}
        shape = line(form.get("json_schema", {}).get("schema"))
        self.sent[where] += [_hashed(one, shape) for one in messages]


def _hashed(messages: list[BaseMessage], shape: str) -> str:
    texts = [f"[{one.type}]\n{plain(str(one.content))}" for one in messages]
    question = " ".join(plain(str(messages[-1].content)).split())
    return f"{question[:40]}... sha256 {sha(chr(10).join(texts))}, form {sha(shape)[:8]}"


@cache
def caches() -> str:
    """A folder for what benchmarks generate and encoders compute, for as long as the process runs.

    Benchmarks are loaded once a process and keep the files that they generated.
    """
    folder = tempfile.TemporaryDirectory()
    atexit.register(folder.cleanup)
    return folder.name


@contextmanager
def workplace(data: bool) -> Iterator[Path]:
    """A temporary folder to work in, with nothing of the caller's settings but, where it is wanted, the data folder."""
    before, here = dict(os.environ), Path.cwd()
    with tempfile.TemporaryDirectory() as folder:
        for name in [name for name in os.environ if name.startswith("CERTIGRAPH_") and not (data and name == DATA)]:
            del os.environ[name]
        os.environ["XDG_CACHE_HOME"] = caches()
        os.environ["CERTIGRAPH_WEB_CACHE"] = str(Path(folder) / "pages")
        os.chdir(folder)
        try:
            yield Path(folder)
        finally:
            os.chdir(here)
            os.environ.clear()
            os.environ.update(before)


def places(folder: Path) -> dict[str, str]:
    """The folders of this machine, by the words that stand for them."""
    data = os.environ.get(DATA)
    return {str(folder): "OUT", **({data: "DATA"} if data else {})}


def record_run(run: Run, model: str) -> str:
    """Run it and give the golden's text: header, events with their prompts, footer; one a line."""
    prompts = Prompts()
    module = import_module(f"certigraph.graphs.{run.graph}")
    with workplace(run.data) as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        limits = None
        if run.limits:
            limits = certigraph.load_benchmark(run.world).limits.model_copy(update=run.limits)
        context = certigraph.Context(model=MODELS[model], callbacks=[prompts], limits=limits)
        graph = module.build(**run.operators())
        result = certigraph.run(graph, run.world, run.task, context=context, out=folder / "runs", on_error="ignore")
        text = (result.folder / "trajectory.jsonl").read_text(encoding="utf-8")
        return lines(normalised([json.loads(one) for one in text.splitlines()], prompts, places(folder)))


def normalised(rows: list[dict[str, Any]], prompts: Prompts, where: dict[str, str]) -> list[Any]:
    """A trajectory's lines in a fixed order, with the prompts of each event, without what differs between runs."""
    header = next(row for row in rows if row["type"] == "header")
    task = header["task"]
    events = [row for row in rows if row["type"] == "event"]
    others = [row for row in rows if row["type"] not in ("header", "event", "footer")]
    for event in events:
        _add_prompts(event, prompts)
        update = event["update"] or {}
        if update.get("task") == task:
            update["task"] = "the header's"
    if "constants" in task:
        task["constants"] = {key: brief(value) for key, value in task["constants"].items()}
    kept = [{**lean(compact(one, where)), "scope": one["scope"]} for one in events]
    footers = [row for row in rows if row["type"] == "footer"]
    ends = [compact(one, where) for one in others + footers]
    return [compact(header, where), *ordered(kept), *nested_prompts(prompts), *ends]


def lean(event: dict[str, Any]) -> dict[str, Any]:
    """An event without the fields of its own, and of its usage, that are empty or zero, which most are."""
    usage = {key: value for key, value in event["usage"].items() if value and key != "node"}
    return {key: value for key, value in {**event, "usage": usage}.items() if value not in ("", 0, [], {})}


def _add_prompts(event: dict[str, Any], prompts: Prompts) -> None:
    """Put its prompt into each call of an event: calls and prompts of one event are in the same order.

    The name of an answer's form goes, since it is the name of a class; the form itself is hashed with the prompt.
    """
    for call in event["calls"]:
        call.pop("schema_name", None)
    sent = prompts.sent.pop((event["scope"], event["superstep"], event["node"]), None)
    if sent is None:
        return  # the node's inner graph has no events of its own: `nested_prompts`
    assert len(sent) == len(event["calls"]), f"{event['node']}: {len(event['calls'])} calls and {len(sent)} prompts"
    for call, prompt in zip(event["calls"], sent, strict=True):
        call["prompt"] = prompt


def nested_prompts(prompts: Prompts) -> list[dict[str, Any]]:
    """Prompts of inner graphs that leave no events (the searches of `hypotheses`), one line a graph, in a fixed order.

    The graphs run at once and only their own prompts have an order.
    """
    graphs: dict[str, list[str]] = defaultdict(list)
    for (scope, _, _), sent in prompts.sent.items():
        graphs[scope.split("|")[0]] += sent
    found = [{"type": "prompts", "node": scope.split(":")[0], "prompts": sent} for scope, sent in graphs.items()]
    return sorted(found, key=line)


def ordered(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Events in an order that does not depend on timing.

    Nodes of one superstep (TDP's sub-tasks, the searches of `hypotheses`) run at once, and the events of their inner
    graphs reach the file in any order. Here the events of one inner graph stay together, in their own order, before the
    outer event that they lead to; inner graphs, and outer events, of one superstep are ordered by what they say.
    """
    supersteps, superstep = [0.0] * len(events), float("inf")
    for place in range(len(events) - 1, -1, -1):
        superstep = superstep if events[place]["scope"] else events[place]["superstep"]
        supersteps[place] = superstep
    groups: dict[tuple[float, bool, str], list[dict[str, Any]]] = defaultdict(list)
    for place, event in enumerate(events):
        scope = event["scope"].split("|")[0]
        groups[supersteps[place], not scope, scope or str(place)].append(event)
    texts = [(key[:2], [_placed(one) for one in group]) for key, group in groups.items()]
    return [event for _, group in sorted(texts, key=lambda one: (one[0], line(one[1]))) for event in group]


def _placed(event: dict[str, Any]) -> dict[str, Any]:
    scope = compact(event["scope"])
    return {key: value for key, value in {**event, "scope": scope}.items() if value != "" or key != "scope"}

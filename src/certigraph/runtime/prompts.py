"""Prompts of a method as a model would get them, collected from a run in which a script answers.

`collect_prompts` runs a graph on a task and keeps every request. `group_prompts` puts requests of one kind together and
measures how much of a request is the same in an earlier one, which is what a prefix cache can serve. The schema of the
answer counts as the beginning of a request, where OpenAI's endpoints put it.
"""

import json
import tempfile
from bisect import bisect_left, insort
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

from langchain_core.callbacks import CallbackManagerForLLMRun
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import BaseMessage, SystemMessage
from langchain_core.outputs import ChatResult
from pydantic import Field

from certigraph.adapters.models.attachments import text_of_request
from certigraph.adapters.models.chat_models import chat_model, is_scripted
from certigraph.adapters.models.endpoint import format_schema
from certigraph.adapters.models.profiles import DEFAULT_WINDOW, ModelProfile, estimate_tokens
from certigraph.adapters.models.schemas import Schema, constant_schema
from certigraph.adapters.models.scripts import ScriptedChat, current_situation
from certigraph.adapters.protocols import Benchmark, Context, Limits
from certigraph.adapters.tools.world import UNDO_ADVICE, Tools
from certigraph.runtime.graph_sources import AnyGraph
from certigraph.runtime.history import read_history
from certigraph.runtime.result import Result
from certigraph.runtime.run import run
from certigraph.state.endings import LimitReached, UnknownName
from certigraph.state.records import Task

# Requests, as a model gets them.


class SentPrompt(NamedTuple):
    """One request to a model."""

    node: str
    """Name of the graph node; inside a graph that solves a sub-task also the node around it, as in `solve/execute`."""
    role: str
    """Role of the model, such as `planner`."""
    form: str
    """Name of the answer's schema; `text` for free text."""
    system: str
    user: str
    schema: Schema | None
    """JSON schema of the answer, as a model is first asked by it; None for free text."""

    @property
    def text(self) -> str:
        """System and user part in the order in which a model reads them."""
        return f"{self.system}\n\n{self.user}"

    @property
    def cached_text(self) -> str:
        """What a prefix cache compares: the schema, then the text."""
        return f"{json.dumps(self.schema)}\n\n{self.text}" if self.schema else self.text

    @property
    def tokens(self) -> int:
        """Estimated tokens of system and user part."""
        return estimate_tokens(self.text)

    @property
    def schema_tokens(self) -> int:
        """Estimated tokens of the answer's schema, which endpoints count in different ways; 0 for free text."""
        return estimate_tokens(format_schema(self.schema)) if self.schema else 0


class RecordingChat(ScriptedChat):
    """Scripted chat model of one role that reports every request before it answers."""

    role: str
    record: Callable[[SentPrompt], None] = Field(exclude=True)
    bounded: bool = False

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        form = (kwargs.get("response_format") or {}).get("json_schema") or {}
        if form and not self.bounded:  # a script gets the complete schema, another model first the constant one
            form = {**form, "schema": constant_schema(form["schema"])}
        self.record(_sent_prompt(self.role, messages, form))
        return super()._generate(messages, stop, run_manager, **kwargs)


def _sent_prompt(role: str, messages: list[BaseMessage], form: Mapping[str, Any]) -> SentPrompt:
    situation = current_situation()
    # the place also holds what a request is about, as the text of a dict
    nodes = [part.rpartition(":")[0] for part in (situation.place if situation else ()) if not part.startswith("{")]
    system = [text_of_request(message) for message in messages if isinstance(message, SystemMessage)]
    user = [text_of_request(message) for message in messages if not isinstance(message, SystemMessage)]
    name, schema = str(form.get("name", "text")), form.get("schema")
    return SentPrompt("/".join(nodes), role, name, "\n\n".join(system), "\n\n".join(user), schema)


class RecordingModels:
    """Models for `Context.chat`: the same script in every role, each request kept in `sent`.

    Args:
        script: the scripted model that answers.
        window: tokens of the context window that the models state.
        steps: maximum number of world steps, after which no request is answered; 0 for no maximum.
    """

    def __init__(self, script: ScriptedChat, window: int, steps: int = 0) -> None:
        self.model_name = script.model_name
        self.sent: list[SentPrompt] = []
        self._script, self._window, self._steps = script, window, steps
        self._models: dict[str, RecordingChat] = {}

    def for_role(self, role: str) -> BaseChatModel:
        """Return the model of a role."""
        if role not in self._models:
            script = self._script
            self._models[role] = RecordingChat(
                role=role,
                record=self._record,
                responder=script.responder,
                model_name=script.model_name,
                blocks=script.blocks,
                profile={"max_input_tokens": self._window},
                bounded=ModelProfile(self._window).most_characters > 0,
            )
        return self._models[role]

    def _record(self, prompt: SentPrompt) -> None:
        situation = current_situation()
        taken = len(situation.state.get("history", ())) if situation else 0
        if self._steps and taken >= self._steps:
            raise LimitReached("steps", self._steps, taken)
        self.sent.append(prompt)


class CollectedPrompts(NamedTuple):
    """The requests of one run, and the run itself."""

    sent: list[SentPrompt]
    model: str
    """The script that answered."""
    window: int
    """Tokens of the context window that the script stated."""
    steps: int
    """Number of world steps."""
    ending: str
    message: str


def collect_prompts(
    graph: str | AnyGraph,
    benchmark: Benchmark,
    task: str | Task | None = None,
    *,
    model: str = "",
    window: int = 0,
    steps: int = 0,
    limits: Limits | None = None,
) -> CollectedPrompts:
    """Run a graph on a task with a script in the model's place, and return every request that a model would get.

    Args:
        graph: the name of a graph, or a compiled graph.
        benchmark: the benchmark.
        task: a task or its id; by default the benchmark's first task.
        model: the script; by default `scripted:expert` where the benchmark has one, else `simulated`.
        window: tokens of the model's context window; 0 for 128,000.
        steps: maximum number of world steps; 0 for no other maximum than the limits. Prompts do not mention it.
        limits: limits of the run; by default the benchmark's.

    Raises:
        UnknownName: a graph or task is unknown, `model` names no script, or the script would call the user's
            own tools, whose effects nothing undoes.
    """
    expert = benchmark.expert()
    name = model or ("scripted:expert" if expert else "simulated")
    if not is_scripted(name):
        raise UnknownName(f"model {name!r} is not a script: name one, such as scripted:expert or simulated:act=0.2")
    if isinstance(benchmark, Tools) and (lasting := benchmark.lasting_tools()):
        raise UnknownName(f"the script would call {', '.join(lasting)}, and nothing undoes what they do: {UNDO_ADVICE}")
    script, size = chat_model(name, expert=expert), window or DEFAULT_WINDOW
    assert isinstance(script, ScriptedChat)
    models = RecordingModels(script, size, steps)
    context = Context(model=name, chat=models, limits=limits)
    with tempfile.TemporaryDirectory() as folder:
        result = run(graph, benchmark, task, context=context, out=Path(folder), on_error="ignore")
        return CollectedPrompts(models.sent, name, size, _count_steps(result), result.ending, result.message)


def _count_steps(result: Result) -> int:
    return read_history(result.trajectory).steps


# Requests of one kind, and what a prefix cache can serve of them.


class PromptKind(NamedTuple):
    """The requests of one kind: of the same node, role and answer schema."""

    node: str
    role: str
    form: str
    prompts: tuple[SentPrompt, ...]
    """The requests in the order in which they were sent."""
    shared: tuple[int, ...]
    """For each request after the first, the characters at its beginning that an earlier one begins with too.

    The schema counts as its beginning.
    """

    @property
    def latest(self) -> SentPrompt:
        """The last request, which shows most of the inputs."""
        return self.prompts[-1]

    @property
    def mean_tokens(self) -> float:
        """Mean of the estimated tokens of a request, without the answer's schema."""
        return sum(prompt.tokens for prompt in self.prompts) / len(self.prompts)

    @property
    def prefix_share(self) -> float | None:
        """Share of the requests after the first that a prefix cache can serve, by characters; None for one request."""
        return self._share(1)

    @property
    def stable_share(self) -> float | None:
        """Share of the requests from the third on that a prefix cache can serve; None for less than three requests.

        The first two may lack parts that all later ones have, such as a history.
        """
        return self._share(2)

    def _share(self, start: int) -> float | None:
        lengths = [len(prompt.cached_text) for prompt in islice(self.prompts, start, None)]
        return sum(islice(self.shared, start - 1, None)) / sum(lengths) if lengths else None

    @property
    def schemas(self) -> int:
        """Number of different answer schemas. Endpoints that put the schema first serve only requests with the same."""
        return len({repr(prompt.schema) for prompt in self.prompts})


def group_prompts(sent: Iterable[SentPrompt]) -> list[PromptKind]:
    """Group requests by node, role and answer schema, in the order in which the kinds first occur."""
    groups: dict[tuple[str, str, str], list[SentPrompt]] = {}
    for prompt in sent:
        groups.setdefault((prompt.node, prompt.role, prompt.form), []).append(prompt)
    return [
        PromptKind(*kind, tuple(prompts), tuple(_shared_prefixes([prompt.cached_text for prompt in prompts])))
        for kind, prompts in groups.items()
    ]


def _shared_prefixes(texts: list[str]) -> Iterable[int]:
    # Of all earlier texts, one that is next to a text in alphabetical order shares the longest prefix with it.
    earlier: list[str] = []
    for text in texts:
        if earlier:
            place = bisect_left(earlier, text)
            yield max(map(partial(_common_prefix, text), earlier[max(place - 1, 0) : place + 1]))
        insort(earlier, text)


def _common_prefix(text: str, other: str) -> int:
    # Bisection: comparing slices is faster than comparing characters one by one.
    shared, most = 0, min(len(text), len(other))
    while shared < most:
        middle = (shared + most + 1) // 2
        if text[:middle] == other[:middle]:
            shared = middle
        else:
            most = middle - 1
    return shared

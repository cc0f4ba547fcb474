"""Runs and models of an inspect_ai evaluation."""

import json
import os
import re
from collections import Counter
from collections.abc import Mapping
from contextlib import nullcontext
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

from inspect_ai._util.error import PrerequisiteError
from inspect_ai.agent import AgentState, agent_bridge
from inspect_ai.log import transcript
from inspect_ai.model import (
    ChatMessage,
    GenerateConfig,
    Model,
    ModelAPI,
    ModelCall,
    ModelOutput,
    get_model,
    model_roles,
    modelapi,
)
from inspect_ai.model._generate_config import active_generate_config
from inspect_ai.solver import TaskState
from inspect_ai.tool import ToolChoice, ToolInfo
from inspect_ai.util import LimitExceededError
from langchain_core.language_models import BaseChatModel
from langchain_openai import ChatOpenAI
from openai import APIStatusError
from pydantic import JsonValue, PrivateAttr, SecretStr
from tenacity import RetryError

from certigraph.adapters.http import async_openai_client
from certigraph.adapters.models.chat_models import (
    FORMS,
    chat_model,
    check_model,
    is_scripted,
    refused_under,
    takes_temperature,
)
from certigraph.adapters.models.clients import ANSWER_TOKENS, local_endpoint, weights
from certigraph.adapters.protocols import ROLES, Benchmark, Context
from certigraph.adapters.redaction import mask_logs, redact_message, redacted
from certigraph.evaluation.workers import Job, Pool, Shared
from certigraph.graphs.assembly import operators_of
from certigraph.runtime.registry import AnyGraph
from certigraph.runtime.result import Row, row_of
from certigraph.runtime.run import begun, completed, run_name, spoilt
from certigraph.state.records import Fault, LimitKind, LimitReached, Task, UnknownName, read_bounded_lines
from certigraph.state.trajectory import Event, Line

# certigraph's model names as inspect models: `--model certigraph/local`, `--model certigraph/openai:NAME`.

Answered = ModelOutput | tuple[ModelOutput | Exception, ModelCall]

NO_MODEL = "none/none"
"""inspect's own name for a task that asks it for no model."""


def inspect_model(name: str) -> Model | None:
    """inspect's model of a name: one that is never asked for the scripted ones, None where inspect is to choose.

    Raises:
        UnknownName: the name is neither certigraph's nor inspect's PROVIDER/NAME with a provider that inspect knows.
        Fault: inspect's provider lacks its package or its key.
    """
    try:
        # not memoized: an endpoint's address may be another one the next time
        if not name:
            return None
        served = _inspect_name(name)
        return get_model(served, memoize=False, **_sending(served))
    except PrerequisiteError as missing:
        told = re.sub(r"\[/?[a-z]+\]", "", str(missing.message))
        raise Fault("model", f"{name}: {' '.join(told.split())}") from missing
    except ValueError as unknown:
        raise UnknownName(f"{unknown} The forms are PROVIDER/NAME of inspect's, {FORMS}") from unknown


class Endpoint(ModelAPI):
    """The OpenAI-compatible endpoint behind `local`, `local:FILE.gguf` or `openai:NAME` at CERTIGRAPH_BASE_URL."""

    def __init__(
        self,
        model_name: str,
        base_url: str | None = None,
        api_key: str | None = None,
        config: GenerateConfig | None = None,
        **model_args: Any,
    ) -> None:
        mask_logs()
        config = config or GenerateConfig()
        super().__init__(model_name, base_url, api_key, [], config)
        self._local = model_name.startswith("local")
        at = _address(model_name, base_url)
        self.served = at.model
        asked = f"openai-api/certigraph/{at.model}"
        given = {**_ONE_REQUEST, "http_client": async_openai_client(), **model_args}
        self._api = get_model(asked, base_url=at.url, api_key=at.key, config=config, memoize=False, **given).api

    async def generate(
        self, input: list[ChatMessage], tools: list[ToolInfo], tool_choice: ToolChoice, config: GenerateConfig
    ) -> Answered:
        """One request, as inspect's provider for such endpoints makes it; it is logged without the key.

        Parameters that the model refuses are left out.
        """
        refused = refused_under(("inspect", f"certigraph/{self.model_name}"))
        refused |= set() if takes_temperature(self.served) else {"temperature"}
        taken = config.model_copy(update=dict.fromkeys(refused & set(GenerateConfig.model_fields)))
        try:
            return _redacted(await self._api.generate(input, tools, tool_choice, taken))
        except APIStatusError as error:
            _mask_error(error)
            raise

    def should_retry(self, ex: Exception) -> Any:
        """Whether inspect should repeat a failed request."""
        return self._api.should_retry(ex)

    def max_tokens(self) -> int | None:
        """The longest answer where the run sets none."""
        return ANSWER_TOKENS if self._local else None

    async def aclose(self) -> None:
        """Close the client."""
        await self._api.aclose()


_ONE_REQUEST = {"max_retries": 0}
"""Settings of OpenAI's client under inspect: what it repeats by itself no budget counts."""


def _sending(name: str) -> dict[str, Any]:
    """The arguments of inspect's model that is made for one of certigraph's names."""
    return {**_ONE_REQUEST, "http_client": async_openai_client()} if name.startswith("openai/") else {}


@modelapi(name="certigraph")
def certigraph() -> type[ModelAPI]:
    """The provider, registered under certigraph's name."""
    return Endpoint


def _redacted(answered: Answered) -> Answered:
    """What inspect writes into its log: an answer or an error, and the request with what came back."""
    if isinstance(answered, ModelOutput):
        return redacted(answered)
    said, call = answered
    safe = redacted(call)
    call.request, call.response = safe.request, safe.response  # in place: inspect's event holds the call already
    if isinstance(said, APIStatusError):
        _mask_error(said)
    return (redacted(said) if isinstance(said, ModelOutput) else said), call


def _mask_error(error: APIStatusError) -> None:
    error.message = redact_message(str(error))
    error.args, error.body = (error.message,), None


def _inspect_name(name: str) -> str:
    kind, _, rest = name.partition(":")
    if "/" in name and kind not in ("local", "openai"):
        return name
    if is_scripted(check_model(name)):
        return NO_MODEL
    if kind == "openai" and not os.environ.get("CERTIGRAPH_BASE_URL"):
        return f"openai/{rest}"
    return f"certigraph/{name}"


class _Address(NamedTuple):
    url: str
    model: str
    key: str


def _address(name: str, base_url: str | None) -> _Address:
    kind, _, rest = check_model(name).partition(":")
    if kind == "local":
        return _Address(local_endpoint(name), weights(name).stem, "none")
    url = base_url or os.environ.get("CERTIGRAPH_BASE_URL")
    if kind != "openai" or not url:
        raise Fault("model", f"certigraph/{name} needs an endpoint: export CERTIGRAPH_BASE_URL=http://host/v1")
    return _Address(url, rest, os.environ.get("OPENAI_API_KEY") or "none")


# A chat model that asks whatever inspect was given, inside its agent bridge.

LIMITS: Mapping[str, LimitKind] = {"token": "tokens", "cost": "usd", "time": "seconds", "working": "seconds"}
"""inspect's limits by the names of ours; the others count calls."""

ACTIVE = "inspect"
"""The bridge's name of the model that the evaluation runs with; `inspect/ROLE` is that of a role."""

SENDING = {"max_connections", "adaptive_connections", "max_retries", "timeout", "attempt_timeout"}
"""Settings of inspect's that decide how a request is sent, not what is answered."""


class BridgedChat(ChatOpenAI):
    """Asks inspect's model, and takes inspect's limits for the run's own."""

    _limit: LimitExceededError | None = PrivateAttr(None)

    async def _agenerate(self, *args: Any, **kwargs: Any) -> Any:
        try:
            return await super()._agenerate(*args, **kwargs)
        except LimitExceededError as limit:
            self._limit = limit
            raise LimitReached(LIMITS.get(limit.type, "calls"), limit.limit, limit.value) from limit
        except RetryError as spent:
            error = spent.last_attempt.exception()
            if spent.last_attempt.attempt_number == 1 and isinstance(error, Exception):
                raise error from None  # inspect did not repeat it
            raise Fault("model", redact_message(f"every retry failed: {error!r}")) from None

    @property
    def limit(self) -> LimitExceededError | None:
        """The limit of inspect that stopped the run, if one did."""
        return self._limit

    @property
    def priced_as(self) -> str:
        """The name of what answers behind the bridge, as prices are listed by."""
        return str(self._behind)

    @property
    def free(self) -> bool:
        """Whether it is a model in this process."""
        return self.priced_as.startswith("certigraph/local")

    @property
    def _behind(self) -> Model:
        _, _, role = self.model_name.partition("/")
        return get_model(role=role) if role else get_model()

    @property
    def _identifying_params(self) -> dict[str, Any]:
        """What answers behind the bridge: it tells the cache of replies one model from another."""
        behind = self._behind
        settings = behind.config.merge(active_generate_config()).model_dump(exclude_none=True, exclude=SENDING)
        return {"model": str(behind), "served": getattr(behind.api, "served", ""), **settings}


class Minds(BridgedChat):
    """The models of one run by role, as far as inspect answers for them; the others are scripts."""

    _by_role: dict[str, BridgedChat] = PrivateAttr(default_factory=dict)
    _context: Context = PrivateAttr()
    _benchmark: Benchmark = PrivateAttr()

    def for_role(self, role: str) -> BaseChatModel:
        """The model of a role."""
        if role in self._by_role:
            return self._by_role[role]
        name = self._context.roles.get(role, self._context.model)
        if is_scripted(name):
            return chat_model(name, expert=self._benchmark.expert(), trial=self._context.trial)
        return self

    @property
    def limit(self) -> LimitExceededError | None:
        """The limit of inspect that stopped the run, whichever role met it."""
        met = (chat._limit for chat in (self, *self._by_role.values()))
        return next(filter(None, met), None)


def minds_of(context: Context, benchmark: Benchmark) -> Minds | None:
    """The chat model of a run under inspect; None where only scripts answer, which need no bridge."""
    names = (context.model, *context.roles.values())
    if not model_roles() and all(map(is_scripted, names)):
        return None
    minds = Minds(model=ACTIVE, **_SILENT)
    minds._context, minds._benchmark = context, benchmark
    for role in set(ROLES) & set(model_roles()):
        minds._by_role[role] = BridgedChat(model=f"{ACTIVE}/{role}", **_SILENT)
    return minds


_SILENT: Any = {"api_key": SecretStr("none"), "max_retries": 0, "disable_streaming": True}


# Which run belongs to which sample, so that a retry after a crash finds what had been done.

_FIX = "delete the file, and the evaluation's runs begin again"


class Cell(NamedTuple):
    """A task's id and which repetition of it."""

    task: str
    trial: int


class Journal:
    """An append-only file beside the runs of one evaluation and of its retries; without a name nothing is kept.

    inspect writes finished samples in batches. The runs' own folders are complete at any moment, and with this file
    they are found again, whatever inspect had not yet written.
    """

    def __init__(self, out: Path | str, name: str) -> None:
        self._shared = Shared(str(out))
        self._name = f"{name}.jsonl" if name else ""
        self._begun = Counter[Cell]()

    def run_of(self, cell: Cell, graph: str, task: Task) -> str:
        """The name of the cell's run: of the one to take or to go on with, else of one to begin."""
        folder = self.begun(cell)
        if folder and not spoilt(folder):
            return folder.name
        if folder:
            self._shared.drop(folder.name)
        name = run_name(graph, task)
        self.note(cell, name)
        return name

    def times(self, cell: Cell) -> int:
        """How many runs were begun for a cell before its latest one."""
        return max(self._begun[cell] - 1, 0)

    def note(self, cell: Cell, run: str) -> None:
        """A run is about to begin for a cell."""
        self._runs[cell] = run
        self._begun[cell] += 1
        if self._name:
            with (self._shared.here / self._name).open("a", encoding="utf-8") as lines:
                # a line of its own, also after one that a crash tore
                lines.write("\n" + json.dumps([*cell, run], ensure_ascii=False))
            self._shared.keep(self._name)

    def begun(self, cell: Cell) -> Path | None:
        """The folder of the cell's latest run; None where there is none, or its folder is gone."""
        folder = self._shared.run(self._runs[cell]) if cell in self._runs else None
        return folder if folder and begun(folder) else None

    @cached_property
    def _runs(self) -> dict[Cell, str]:
        file = self._shared.file(self._name) if self._name else None
        if file is None or not file.is_file():
            return {}
        with file.open("rb") as lines:
            noted = [_entry(line) for line in read_bounded_lines(lines, str(file), fix=_FIX)]
        known = [entry for entry in noted if entry]
        self._begun.update(cell for cell, _ in known)
        return dict(known)


def _entry(line: bytes) -> tuple[Cell, str] | None:
    """One line of the file; None for one that a crash tore, whose run had done nothing yet, or that is none of ours."""
    try:
        task, trial, run = json.loads(line.decode(errors="replace"))
    except (ValueError, TypeError, RecursionError):
        return None
    ours = isinstance(task, str) and isinstance(trial, int) and isinstance(run, str)
    return (Cell(task, trial), run) if ours and _plain(run) else None


def _plain(name: str) -> bool:
    """Whether it names a folder right beside the file, and none elsewhere."""
    return Path(name).name == name and name not in ("", "..")


# How one run of an evaluation is carried out: in this process behind inspect's bridge, or by a worker elsewhere.

SCRIPTED = "scripted:expert"
"""The model where neither the task nor inspect names one."""


class Ran(NamedTuple):
    """What a run came to, the model that it asked, and the limit of inspect's that stopped it."""

    row: Row
    model: str
    limit: LimitExceededError | None = None


class Runs(NamedTuple):
    """What the runs of an evaluation have in common; without a model's name the choice is inspect's."""

    graph: AnyGraph
    benchmark: str
    live: Benchmark
    model: str
    context: Context
    out: str

    async def on_workers(self, pool: Pool, cell: Cell, run: str) -> Ran:
        """Have a worker carry a run to its ending; it asks the model itself."""
        context = self.context.model_copy(update={"model": self.model or SCRIPTED, "trial": cell.trial})
        job = Job(
            graph=self.graph.name,
            operators=operators_of(self.graph),
            benchmark=self.benchmark,
            task=cell.task,
            context=context,
            out=self.out,
            run=run,
        )
        row = await pool.done(job)
        Shared(self.out).drop(run)  # what was fetched to see how far it had come
        return Ran(row, context.model)

    async def here(self, state: TaskState, cell: Cell, run: str) -> Ran:
        """Carry a run to its ending in this process, with inspect's model behind the bridge."""
        context = self.context.model_copy(update={"model": _model(self.model), "trial": cell.trial})
        minds = minds_of(context, self.live)
        given = context.model_copy(update={"chat": minds})
        shared = Shared(self.out)
        # a script asks inspect for nothing
        async with agent_bridge(AgentState(messages=state.messages)) if minds else nullcontext():
            result = await completed(shared.run(run), self.graph, self.live, cell.task, given, listener=_note)
        row = row_of(cell.task, result, cell.trial)
        shared.keep(run)
        return Ran(row, context.model, minds.limit if minds else None)


def _model(name: str) -> str:
    if is_scripted(name):
        return name
    active = str(get_model())
    return SCRIPTED if active == NO_MODEL else active


def _note(line: Line) -> None:
    """Show verdicts and certificates in inspect's transcript."""
    if isinstance(line, Event) and line.update and (told := _told(line.update)):
        transcript().info(told, source=f"certigraph.{line.node}")


def _told(update: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
    return {key: update[key] for key in ("verdict", "certificates") if update.get(key)}

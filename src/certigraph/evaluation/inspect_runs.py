"""Runs and models of an evaluation under Inspect (the package `inspect_ai`).

Contents: certigraph's models as Inspect models (`Endpoint`), Inspect's models as LangChain chat models (`BridgedChat`),
the journal in which a retry finds earlier runs, and the execution of one run.
"""

import asyncio
import json
import os
import re
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from contextvars import ContextVar
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
from certigraph.adapters.json_lines import read_bounded_lines
from certigraph.adapters.models.chat_models import (
    MODEL_FORMS,
    chat_model,
    check_model_name,
    is_scripted,
    refused_parameters_of_key,
    supports_temperature,
)
from certigraph.adapters.models.clients import ANSWER_TOKENS, find_weights, local_endpoint
from certigraph.adapters.models.profiles import find_window
from certigraph.adapters.protocols import ROLES, Benchmark, Context
from certigraph.adapters.redaction import mask_logs, redact_message, redact_record
from certigraph.evaluation.jobs import RunJob, RunStorage, execute_run
from certigraph.evaluation.workers import active_pool
from certigraph.runtime.graph_sources import AnyGraph
from certigraph.runtime.result import BenchmarkRow
from certigraph.runtime.run import create_run_name, has_run, needs_restart, needs_resume
from certigraph.state.endings import Fault, LimitKind, LimitReached, UnknownName
from certigraph.state.records import Task
from certigraph.state.trajectory import Event, TrajectoryLine

# certigraph's models as Inspect models: `--model certigraph/local`, `--model certigraph/openai:NAME`.

EndpointReply = ModelOutput | tuple[ModelOutput | Exception, ModelCall]

NO_MODEL = "none/none"
"""Inspect's model name for a task that needs no model."""


def inspect_model(name: str) -> Model | None:
    """Create the Inspect model for the name of a model.

    Returns:
        The model; for a scripted model, a placeholder that receives no request; for an empty name None, so that Inspect
        chooses the model.

    Raises:
        UnknownName: the name is neither one of certigraph's nor PROVIDER/NAME with a provider that Inspect knows.
        Fault: the package or the API key of Inspect's provider is missing.
    """
    try:
        # not memoized, because the address of an endpoint may change
        if not name:
            return None
        inspect_name, options = _inspect_name(name), dict[str, Any]()
        if inspect_name.startswith("openai/"):
            options = {**_NO_RETRIES, "http_client": async_openai_client()}
        return get_model(inspect_name, memoize=False, **options)
    except PrerequisiteError as missing:
        message = re.sub(r"\[/?[a-z]+\]", "", str(missing.message))
        raise Fault("model", f"{name}: {' '.join(message.split())}") from missing
    except ValueError as unknown:
        raise UnknownName(f"{unknown} The forms are PROVIDER/NAME of inspect's, {MODEL_FORMS}") from unknown


class Endpoint(ModelAPI):
    """Inspect model for certigraph's model names, which sends requests to an OpenAI-compatible endpoint.

    The names are `local` and `local:FILE.gguf` for a local server, `openai:NAME` for a model at CERTIGRAPH_BASE_URL.
    """

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
        url, self.served, key = _endpoint_address(model_name, base_url)
        arguments = {**_NO_RETRIES, "http_client": async_openai_client(), **model_args}
        self._api = get_model(
            f"openai-api/certigraph/{self.served}",
            base_url=url,
            api_key=key,
            config=config,
            memoize=False,
            **arguments,
        ).api

    async def generate(
        self, input: list[ChatMessage], tools: list[ToolInfo], tool_choice: ToolChoice, config: GenerateConfig
    ) -> EndpointReply:
        """Send one request through Inspect's provider for OpenAI-compatible endpoints.

        Parameters that the model refuses are left out, and API keys are masked in Inspect's log.
        """
        refused = refused_parameters_of_key(("inspect", f"certigraph/{self.model_name}"))
        refused |= set() if supports_temperature(self.served) else {"temperature"}
        accepted = config.model_copy(update=dict.fromkeys(refused & set(GenerateConfig.model_fields)))
        try:
            return _redact_reply(await self._api.generate(input, tools, tool_choice, accepted))
        except APIStatusError as error:
            _mask_error(error)
            raise

    def should_retry(self, ex: Exception) -> Any:
        """Return whether Inspect should repeat a failed request."""
        return self._api.should_retry(ex)

    def max_tokens(self) -> int | None:
        """Return the default maximum number of tokens of a reply; None (no maximum) for models that are not local."""
        return ANSWER_TOKENS if self._local else None

    async def aclose(self) -> None:
        """Close the HTTP client."""
        await self._api.aclose()


_NO_RETRIES = {"max_retries": 0}
"""Setting of OpenAI's client under Inspect: no automatic retries, because a run's budget would not count them."""


@modelapi(name="certigraph")
def certigraph() -> type[ModelAPI]:
    """Return the class of models that Inspect creates for names with the prefix `certigraph/`."""
    return Endpoint


def _redact_reply(reply: EndpointReply) -> EndpointReply:
    """Mask API keys in everything that Inspect logs: the reply or error, and the call with its request and response."""
    if isinstance(reply, ModelOutput):
        return redact_record(reply)
    output, call = reply
    safe = redact_record(call)
    call.request, call.response = safe.request, safe.response  # in place: Inspect's event holds the call already
    if isinstance(output, APIStatusError):
        _mask_error(output)
    return (redact_record(output) if isinstance(output, ModelOutput) else output), call


def _mask_error(error: APIStatusError) -> None:
    error.message = redact_message(str(error))
    error.args, error.body = (error.message,), None


def _inspect_name(name: str) -> str:
    kind, _, rest = name.partition(":")
    if "/" in name and kind not in ("local", "openai"):
        return name
    if is_scripted(check_model_name(name)):
        return NO_MODEL
    if kind == "openai" and not os.environ.get("CERTIGRAPH_BASE_URL"):
        return f"openai/{rest}"
    return f"certigraph/{name}"


def _endpoint_address(name: str, base_url: str | None) -> tuple[str, str, str]:
    """Return address, name of the served model, and API key of an endpoint."""
    kind, _, rest = check_model_name(name).partition(":")
    if kind == "local":
        return local_endpoint(name), find_weights(name).stem, "none"
    url = base_url or os.environ.get("CERTIGRAPH_BASE_URL")
    if kind != "openai" or not url:
        raise Fault("model", f"certigraph/{name} needs an endpoint: export CERTIGRAPH_BASE_URL=http://host/v1")
    return url, rest, os.environ.get("OPENAI_API_KEY") or "none"


# Inspect's models as LangChain chat models, inside Inspect's agent bridge.

OWN_LIMITS: Mapping[str, LimitKind] = {"token": "tokens", "cost": "usd", "time": "seconds", "working": "seconds"}
"""certigraph's name for each of Inspect's limits; any other limit of Inspect is reported as a limit of calls."""

ACTIVE_MODEL = "inspect"
"""Name of the evaluation's model in Inspect's agent bridge; `inspect/ROLE` is the model of a role."""

REQUEST_SETTINGS = {"max_connections", "adaptive_connections", "max_retries", "timeout", "attempt_timeout"}
"""Inspect's settings of how a request is sent, which do not change the reply."""


class BridgedChat(ChatOpenAI):
    """LangChain chat model that sends its requests to Inspect's model through Inspect's agent bridge.

    If a limit of Inspect is reached, the run ends as if a limit of its own budget were reached.
    """

    _limit: LimitExceededError | None = PrivateAttr(default=None)

    async def _agenerate(self, *args: Any, **kwargs: Any) -> Any:
        try:
            return await super()._agenerate(*args, **kwargs)
        except LimitExceededError as limit:
            self._limit = limit
            raise LimitReached(OWN_LIMITS.get(limit.type, "calls"), limit.limit, limit.value) from limit
        except RetryError as failure:
            error = failure.last_attempt.exception()
            if failure.last_attempt.attempt_number == 1 and isinstance(error, Exception):
                raise error from None  # Inspect did not repeat it
            raise Fault("model", redact_message(f"every retry failed: {error!r}")) from None

    @property
    def limit(self) -> LimitExceededError | None:
        """The limit of Inspect that stopped the run; None if no limit did."""
        return self._limit

    @property
    def label(self) -> str:
        """Name of Inspect's model in headers of runs and in reports: `inspect/local`, `inspect/anthropic/NAME`."""
        return f"{ACTIVE_MODEL}/{str(self._behind).removeprefix('certigraph/')}"

    @property
    def priced_as(self) -> str:
        """Name of Inspect's model, under which its price is looked up."""
        return str(self._behind)

    @property
    def free(self) -> bool:
        """Whether Inspect's model is a local model of certigraph, whose calls cost nothing."""
        return self.priced_as.startswith("certigraph/local")

    @property
    def _behind(self) -> Model:
        _, _, role = self.model_name.partition("/")
        return get_model(role=role) if role else get_model()

    @property
    def _identifying_params(self) -> dict[str, Any]:
        """Name and settings of Inspect's model; they distinguish models in the cache of replies."""
        behind = self._behind
        settings = behind.config.merge(active_generate_config()).model_dump(exclude_none=True, exclude=REQUEST_SETTINGS)
        return {"model": str(behind), "served": getattr(behind.api, "served", ""), **settings}


class RoleChatModels(BridgedChat):
    """Chat models of one run by role: Inspect's models, and scripted models for the roles that are assigned one."""

    _by_role: dict[str, BridgedChat] = PrivateAttr(default_factory=dict)
    _context: Context = PrivateAttr()
    _benchmark: Benchmark = PrivateAttr()

    def for_role(self, role: str) -> BaseChatModel:
        """Return the chat model of a role."""
        if role in self._by_role:
            return self._by_role[role]
        name = self._context.roles.get(role, self._context.model)
        if is_scripted(name):
            return chat_model(name, expert=self._benchmark.expert(), trial=self._context.trial)
        return self

    @property
    def limit(self) -> LimitExceededError | None:
        """The limit of Inspect that stopped the run, reached by the model of any role; None if no limit did."""
        met = (chat._limit for chat in (self, *self._by_role.values()))
        return next(filter(None, met), None)


def create_chat_models(context: Context, benchmark: Benchmark) -> RoleChatModels | None:
    """Create the chat models of a run under Inspect; None if all models are scripted, which do not need Inspect."""
    names = (context.model, *context.roles.values())
    if not model_roles() and all(map(is_scripted, names)):
        return None
    models = RoleChatModels(model=ACTIVE_MODEL, **_options_like(get_model()))
    models._context, models._benchmark = context, benchmark
    for role in set(ROLES) & set(model_roles()):
        options = _options_like(get_model(role=role))
        models._by_role[role] = BridgedChat(model=f"{ACTIVE_MODEL}/{role}", **options)
    return models


def _options_like(behind: Model) -> dict[str, Any]:
    """Return the options by which a bridged model gets the same prompts as the model behind it does in `run`."""
    provider, _, name = str(behind).partition("/")
    if provider != "certigraph":
        return _CHAT_OPTIONS
    own = chat_model(name)
    window = {"max_input_tokens": known} if (known := find_window(own)) else {}
    return {**_CHAT_OPTIONS, "profile": {**(own.profile or {}), **window}, "metadata": own.metadata}


_CHAT_OPTIONS: dict[str, Any] = {"api_key": SecretStr("none"), "max_retries": 0, "disable_streaming": True}


# The journal: which run belongs to which sample, so that a retry after a crash finds earlier runs.

_JOURNAL_FIX = "delete the file; the evaluation's runs then start again"


class SampleRun(NamedTuple):
    """A sample in one epoch: the task's id, and the number of the repetition, from 0."""

    task: str
    trial: int


class RunJournal:
    """Append-only file in the folder of an evaluation that names the run of every sample.

    Inspect writes finished samples in batches, but the folder of a run is always up to date. With this file a retry
    finds all runs, even those that Inspect had not yet logged.

    Args:
        out: folder, or URL, of the evaluation and its retries.
        name: name of the file without its suffix; the empty string: nothing is saved.
    """

    def __init__(self, out: Path | str, name: str) -> None:
        self._shared = RunStorage(str(out))
        self._name = f"{name}.jsonl" if name else ""
        self._begun = Counter[SampleRun]()

    def find_or_name_run(self, cell: SampleRun, graph: str, task: Task) -> str:
        """Return the name of the run to use for a sample.

        It is the latest run of the sample if that run is finished or can be resumed, or if it has a folder and nothing
        in it because the process was killed at its start; else a new run, which is recorded.
        """
        folder = self._latest_folder(cell)
        if folder and not (has_run(folder) and needs_restart(folder)):
            return folder.name
        if folder:
            self._shared.drop_copy(folder.name)
        name = create_run_name(graph, task)
        self.record(cell, name)
        return name

    def restarts(self, cell: SampleRun) -> int:
        """Return how many runs were started for a sample before its latest run."""
        return max(self._begun[cell] - 1, 0)

    def ended_runs(self) -> set[str]:
        """Return the runs of samples that ended, and not in an error, as far as their folders are on this machine."""
        folders = [self._shared.folder / run for run in self._runs.values()]
        return {folder.name for folder in folders if has_run(folder) and not needs_resume(folder)}

    def record(self, cell: SampleRun, run: str) -> None:
        """Record that a run is about to start for a sample."""
        self._runs[cell] = run
        self._begun[cell] += 1
        if self._name:
            with (self._shared.folder / self._name).open("a", encoding="utf-8") as lines:
                # newline first, because a crash may have cut off the line before
                lines.write("\n" + json.dumps([*cell, run], ensure_ascii=False))
            self._shared.upload(self._name)

    def _latest_folder(self, cell: SampleRun) -> Path | None:
        # where somebody deleted the folder, a server may still have checkpoints under its name, which is not used again
        folder = self._shared.fetch_run(self._runs[cell]) if cell in self._runs else None
        return folder if folder and folder.is_dir() else None

    @cached_property
    def _runs(self) -> dict[SampleRun, str]:
        file = self._shared.fetch_file(self._name) if self._name else None
        if file is None or not file.is_file():
            return {}
        with file.open("rb") as lines:
            entries = [_parse_entry(line) for line in read_bounded_lines(lines, str(file), fix=_JOURNAL_FIX)]
        valid = [entry for entry in entries if entry]
        self._begun.update(cell for cell, _ in valid)
        return dict(valid)


def _parse_entry(line: bytes) -> tuple[SampleRun, str] | None:
    """Parse a line of the journal; None if it is malformed.

    A line that a crash cut off can be ignored: its run had not started.
    """
    try:
        task, trial, run = json.loads(line.decode(errors="replace"))
    except (ValueError, TypeError, RecursionError):
        return None
    if not (isinstance(task, str) and isinstance(trial, int) and isinstance(run, str)):
        return None
    # a path in the journal could point anywhere on the disk
    return (SampleRun(task, trial), run) if Path(run).name == run and run not in ("", "..") else None


# Execution of one run: in this process behind Inspect's bridge, or by a worker.

DEFAULT_MODEL = "scripted:expert"
"""Model of a run if neither the task nor Inspect names one."""


class SampleResult(NamedTuple):
    """Summary row of a run, the name of its model, and the limit of Inspect that stopped it, if one did."""

    row: BenchmarkRow
    model: str
    limit: LimitExceededError | None = None


RowListener = Callable[[BenchmarkRow], None]
"""Function that is called with the summary of every run of an evaluation when it ends."""

row_listener: ContextVar[RowListener] = ContextVar("certigraph_row_listener", default=lambda row: None)
"""Listener of the evaluation that is running."""


async def run_sample(job: RunJob, model: str, graph: AnyGraph, live: Benchmark, state: TaskState) -> SampleResult:
    """Execute the run of a sample: by a worker if there are any, else in this process through Inspect's agent bridge.

    Workers send requests to the model without Inspect. With an empty `model`, Inspect chooses the model.
    """
    if pool := active_pool():
        context = job.context.model_copy(update={"model": model or DEFAULT_MODEL})
        row = await pool.done(job.model_copy(update={"context": context}))
        RunStorage(job.out).drop_copy(job.run)  # the copy that the journal fetched to see the run's progress
        return SampleResult(row, context.model)
    if not is_scripted(model):
        model = DEFAULT_MODEL if str(get_model()) == NO_MODEL else str(get_model())
    context = job.context.model_copy(update={"model": model})
    # weights are read from disk, and an endpoint is asked for its window
    models = await asyncio.to_thread(create_chat_models, context, live)
    # scripted models need no bridge
    async with agent_bridge(AgentState(messages=state.messages)) if models else nullcontext():
        row = await execute_run(job, graph, live, context.model_copy(update={"chat": models}), _log_line)
    return SampleResult(row, context.model, models.limit if models else None)


def _log_line(line: TrajectoryLine) -> None:
    """Log the verdicts and certificates of a trajectory line in Inspect's transcript."""
    update = (isinstance(line, Event) and line.update) or {}
    fields: dict[str, JsonValue] = {key: update[key] for key in ("verdict", "certificates") if update.get(key)}
    if isinstance(line, Event) and fields:
        transcript().info(fields, source=f"certigraph.{line.node}")

"""Runs a graph as inspect's solver: one sample is one run, with inspect's model behind the bridge."""

from collections.abc import Mapping
from typing import Any

from inspect_ai.agent import AgentState, agent_bridge
from inspect_ai.log import transcript
from inspect_ai.model import ModelOutput, get_model
from inspect_ai.solver import Generate, Solver, TaskState, solver
from inspect_ai.util import LimitExceededError
from langchain_openai import ChatOpenAI
from pydantic import JsonValue, PrivateAttr, SecretStr
from tenacity import RetryError

from certigraph.adapters.benchmarks import load_benchmark
from certigraph.adapters.context import Context
from certigraph.adapters.models.redact import redact
from certigraph.evaluation.inspecting.models import NO_MODEL
from certigraph.evaluation.inspecting.rows import ROW, Row, row_of
from certigraph.evaluation.run import arun
from certigraph.evaluation.settings import build_graph, parse_swap
from certigraph.state.endings import Fault, LimitKind, LimitReached
from certigraph.state.trajectory import Event, Line

SCRIPTED = "scripted:expert"
"""The model where neither the task nor inspect names one."""

LIMITS: Mapping[str, LimitKind] = {"token": "tokens", "cost": "usd", "time": "seconds", "working": "seconds"}
"""inspect's limits by the names of ours; the others count calls."""


class BridgedChat(ChatOpenAI):
    """Asks whatever model inspect was given, and takes inspect's limits for the run's own."""

    _limit: LimitExceededError | None = PrivateAttr(None)

    async def _agenerate(self, *args: Any, **kwargs: Any) -> Any:
        try:
            return await super()._agenerate(*args, **kwargs)
        except LimitExceededError as limit:
            self._limit = limit
            raise LimitReached(LIMITS.get(limit.type, "calls"), limit.limit, limit.value) from limit
        except RetryError as spent:
            raise Fault("model", redact(f"every retry failed: {spent.last_attempt.exception()!r}")) from None

    @property
    def limit(self) -> LimitExceededError | None:
        """The limit of inspect that stopped the run, if one did."""
        return self._limit


class RunError(Exception):
    """A run ended in an error; inspect records the sample as failed, and `inspect eval-retry` runs it again."""


@solver
def certified_run(
    graph: str, benchmark: str, *, swaps: dict[str, str], model: str = "", data: str = "", out: str = "runs"
) -> Solver:
    """Run a graph on the benchmark's task of the sample's id; the run's row is left in the sample's store.

    Args:
        graph: a graph's name.
        benchmark: a benchmark's name, its configuration included.
        swaps: operators by slot, as in `{"validate": "capped:depth=1"}`.
        model: a scripted model; any other name leaves the choice to inspect.
        data: data folder, or the empty string for the default.
        out: the folder in which every run gets a folder of its own.
    """
    compiled = build_graph(graph, dict(parse_swap(f"{slot}={text}") for slot, text in swaps.items()))
    live = load_benchmark(benchmark, data or None)

    async def solve(state: TaskState, generate: Generate) -> TaskState:
        task = live.task(str(state.sample_id))
        context = Context(model=_model(model), data=data or None)
        chat = None if context.model.startswith("scripted:") else bridged_chat()
        context = context.model_copy(update={"chat": chat})
        async with agent_bridge(AgentState(messages=state.messages)):
            result = await arun(compiled, live, task, context=context, out=out, listener=_note)
        row = row_of(task.id, result)
        state.store.set(ROW, row.model_dump(mode="json"))
        state.output = ModelOutput.from_content(context.model, row.ending)
        if chat and chat.limit:
            raise chat.limit
        _refuse_errors(row)
        return state

    return solve


def bridged_chat() -> BridgedChat:
    """The chat model that inspect answers for, inside its agent bridge."""
    return BridgedChat(model="inspect", api_key=SecretStr("none"), max_retries=0, disable_streaming=True)


def _model(name: str) -> str:
    if name.startswith("scripted:"):
        return name
    active = str(get_model())
    return SCRIPTED if active == NO_MODEL else active


def _note(line: Line) -> None:
    """Show verdicts and certificates in inspect's transcript."""
    if isinstance(line, Event) and line.update and (told := _told(line.update)):
        transcript().info(told, source=f"certigraph.{line.node}")


def _told(update: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
    return {key: update[key] for key in ("verdict", "certificates") if update.get(key)}


def _refuse_errors(row: Row) -> None:
    if row.ending.startswith("error:"):
        raise RunError(f"{row.ending}: {row.footer.message} (run: {row.run})")

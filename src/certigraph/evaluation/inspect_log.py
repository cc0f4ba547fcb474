"""Conversion of runs to an Inspect log (package `inspect_ai`), for `inspect view` and Inspect's analysis tools.

A log holds the runs of one combination of benchmark, graph, operators and model. A run is a sample, with its
conversation as messages and its verdicts as events.
"""

import hashlib
import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime, timedelta
from typing import Any

from inspect_ai.event import InfoEvent
from inspect_ai.log import (
    EvalConfig,
    EvalDataset,
    EvalError,
    EvalLog,
    EvalMetric,
    EvalPlan,
    EvalPlanStep,
    EvalResults,
    EvalSample,
    EvalSampleLimit,
    EvalScore,
    EvalSpec,
    EvalStats,
)
from inspect_ai.model import (
    ChatMessage,
    ChatMessageAssistant,
    ChatMessageTool,
    ChatMessageUser,
    ModelOutput,
    ModelUsage,
)
from inspect_ai.scorer import Score
from inspect_ai.tool import ToolCall

from certigraph.evaluation.rounds import (
    EventsByGraph,
    GraphEvents,
    RunRound,
    clean_trajectory,
    cut_folders,
    method_name,
    run_metadata,
    split_by_graph,
    split_rounds,
    start_time,
    task_text,
)
from certigraph.runtime.files import translate_trajectory_errors
from certigraph.runtime.registry import header_swaps, model_name
from certigraph.runtime.result import ROW_KEY, BenchmarkRow
from certigraph.state.certified_states import certified_state
from certigraph.state.endings import INTERRUPTED, Fault
from certigraph.state.trajectory import Event, Footer, Header, Trajectory

# A run's conversation and node executions, as Inspect's messages and events.

SHOWN_CHANNELS = (
    *("plan", "outline", "subtask", "dag", "outcomes", "progress", "action", "approval", "observation"),
    *("verdict", "certificates", "trials", "lessons"),
)
"""State channels whose updates are shown in Inspect's event of a node execution."""


def messages_of(run: Trajectory) -> Iterator[ChatMessage]:
    """Convert a run to a conversation: the task, the agent's plans and actions, and the observations.

    Sub-tasks that were solved concurrently follow one another, each before the message with its outcome.
    """
    name = run.header.run_id
    yield ChatMessageUser(id=f"{name}-task", content=task_text(run.header.task))
    parts = split_by_graph(run.events)
    yield from _conversation(GraphEvents("", "", parts.own), name, parts)


def _conversation(graph: GraphEvents, name: str, parts: EventsByGraph) -> Iterator[ChatMessage]:
    inner = {part.subtask: part for part in parts.within(graph.scope)}
    for number, part in enumerate(split_rounds(graph.events), 1):
        for subtask in part.solved:
            if inner_graph := inner.pop(subtask, None):
                yield from _conversation(inner_graph, f"{name}-{subtask}", parts)
        if part.resets and part.observation:
            goal = part.update.get("task", {}).get("goal") if part.events[0].scope else None
            yield ChatMessageUser(id=f"{name}-{number}", content="\n".join(filter(None, [goal, part.observation.text])))
        elif not part.shows_nothing:
            yield from _action_messages(part, f"{name}-{number}")
    for unfinished in inner.values():
        yield from _conversation(unfinished, f"{name}-{unfinished.subtask}", parts)


def _action_messages(part: RunRound, name: str) -> Iterator[ChatMessage]:
    used, answer = part.tool_call, part.observation
    if used is None:
        yield ChatMessageAssistant(id=name, content=part.text)
        return
    function, arguments = used
    call = ToolCall(id=f"call-{name}", function=function, arguments=dict(arguments))
    yield ChatMessageAssistant(id=name, content=part.thought, tool_calls=[call])
    if answer:
        yield ChatMessageTool(id=f"{name}-a", content=answer.text, tool_call_id=call.id, function=call.function)


def events_of(run: Trajectory, start: datetime) -> Iterator[InfoEvent]:
    """Convert every node execution of a run to an Inspect event with the verdict, certificate or plan it returned.

    Timestamps count only the time inside nodes, because a trajectory does not record when a run was resumed.
    """
    worked = 0.0
    for number, event in enumerate(run.events, 1):
        worked += event.usage.seconds
        update = event.update or {}
        shown = {key: update[key] for key in SHOWN_CHANNELS if update.get(key)}
        yield InfoEvent(
            uuid=f"{run.header.run_id}-{number}",
            timestamp=start + timedelta(seconds=worked),
            working_start=worked,
            source=f"certigraph.{event.node}",
            data={
                **shown,
                **({"subtask": event.subtask} if event.scope else {}),
                "superstep": event.superstep,
                "usage": event.usage.as_json(),
                "failed": event.update is None,
            },
        )


# One run as an Inspect sample, with its score, cost and ending.

INSPECT_LIMITS: dict[str, Any] = {"tokens": "token", "usd": "cost", "seconds": "working"}
"""Inspect's name for each of certigraph's limits; Inspect has none for model calls and world steps."""


def sample_of(run: Trajectory, epoch: int) -> EvalSample:
    """Convert a run to an Inspect sample; `epoch` distinguishes the repetitions of a task.

    The run must come from `clean_trajectory`, which masks API keys.
    """
    header, footer, usage = run.header, run.footer, run.usage
    start = start_time(header)
    return EvalSample(
        id=header.task.id,
        epoch=epoch,
        uuid=header.run_id,
        input=task_text(header.task),
        target=header.task.condition,
        messages=list(messages_of(run)),
        output=ModelOutput.from_content(model_name(str(header.context.get("model", "none"))), run.ending),
        scores={ROW_KEY: _score_of(run, footer)} if footer and footer.scores else {},
        metadata={"ending": run.ending, "trial": header.trial, **run_metadata(header)},
        events=list(events_of(run, start)),
        model_usage=usage_by("model", [*run.events, *run.superseded]),
        role_usage=usage_by("role", [*run.events, *run.superseded]),
        started_at=start.isoformat(),
        completed_at=(start + timedelta(seconds=usage.seconds)).isoformat() if footer else None,
        working_time=usage.seconds,
        error=EvalError(message=f"{run.ending}: {footer.message}", traceback="", traceback_ansi="")
        if footer and run.ending.startswith("error:")
        else None,
        limit=_limit_of(footer),
    )


def usage_by(field: str, events: Iterable[Event]) -> dict[str, ModelUsage]:
    """Sum the tokens and dollars of all model calls, grouped by the field `model` or `role` of the calls."""
    sums: defaultdict[str, ModelUsage] = defaultdict(ModelUsage)
    calls: Iterator[dict[str, Any]] = (call for event in events for call in event.calls)
    for call in calls:
        read, cached, written = (call.get(f"{kind}_tokens", 0) for kind in ("input", "cached", "output"))
        sums[model_name(str(call[field]))] += ModelUsage(
            input_tokens=read - cached,  # without cached tokens, as Inspect counts
            input_tokens_cache_read=cached,
            output_tokens=written,
            total_tokens=read + written,
            total_cost=call.get("usd"),
        )
    return dict(sums)


def _score_of(run: Trajectory, footer: Footer) -> Score:
    """Return the score of a run, the same as the scorer of `certigraph eval` gives, without its explanation."""
    state = run.state()
    certified = certified_state(state.get("certificates", []), state.get("invalidations", [])).predicates
    planned = len(state.get("plan", []))
    header = run.header
    row = BenchmarkRow(id=header.task.id, run=header.run_id, certified=len(certified), planned=planned, footer=footer)
    about: dict[str, Any] = {"explanation": row.ending, "metadata": row.model_dump(mode="json")}
    return Score(value=row.value, **about) if row.scored else Score.unscored(reason=row.ending, **about)


def _limit_of(footer: Footer | None) -> EvalSampleLimit | None:
    if footer is None or not footer.ending.startswith("limit:"):
        return None
    # from the message of LimitReached, because a resume may have raised the limit in the header
    amount = re.search(r" of (\S+) ", footer.message)
    kind = INSPECT_LIMITS.get(footer.ending.removeprefix("limit:"), "custom")
    return EvalSampleLimit(type=kind, limit=float(amount[1]) if amount else 0.0, reason=footer.message)


# The log of several runs.


def log_key_of(header: Header) -> tuple[str, ...]:
    """Return what all runs of one log share: benchmark, graph, operators and model of the run with this header."""
    about = run_metadata(header)
    operators = repr(sorted((slot, repr(spec)) for slot, spec in about["operators"].items()))
    return header.task.benchmark, header.graph, operators, model_name(str(header.context.get("model", "none")))


def to_inspect(trajectories: Sequence[Trajectory]) -> EvalLog:
    """Convert runs of one combination of benchmark, graph, operators and model to an Inspect log; a run is one sample.

    `task_args` has the graph and each operator that differs from the graph's default. A node execution is an InfoEvent
    `certigraph.<node>` with its verdict, certificate or plan. Repetitions of a task are epochs, in the order of their
    trials. The status of the log is `cancelled` if a run has no ending, else `error` if a run ended in an error. Write
    the log with `inspect_ai.log.write_eval_log`.

    Raises:
        Fault: there is no run, or the runs belong to several logs.
    """
    cleaned = map(clean_trajectory, trajectories)
    runs = sorted(cleaned, key=lambda run: (run.header.task.id, run.header.trial, run.header.run_id))
    kinds = {log_key_of(run.header) for run in runs}
    if len(kinds) != 1:
        problem = f"{len(runs)} runs of {len(kinds)} kinds do not make one inspect log"
        raise Fault(
            "data", f"{problem}: group them by log_key_of(run.header), or have export(...) write a log for each"
        )
    epochs, samples, endings = Counter[str](), list[EvalSample](), [run.ending for run in runs]
    for run in runs:
        epochs[run.header.task.id] += 1
        with translate_trajectory_errors(run.header.run_id):
            samples.append(sample_of(run, epochs[run.header.task.id]))
    failed = any(ending.startswith("error:") for ending in endings)
    events = [event for run in runs for event in (*run.events, *run.superseded)]
    times = sorted(start_time(run.header) for run in runs)
    return EvalLog(
        status="cancelled" if INTERRUPTED in endings else "error" if failed else "success",
        eval=_spec(runs, samples, times[0].isoformat()),
        plan=EvalPlan(steps=[EvalPlanStep(solver=runs[0].header.graph, params=run_metadata(runs[0].header))]),
        results=_results(samples),
        stats=EvalStats(
            started_at=times[0].isoformat(),
            completed_at=times[-1].isoformat(),
            model_usage=usage_by("model", events),
            role_usage=usage_by("role", events),
        ),
        samples=samples,
    )


def _spec(runs: Sequence[Trajectory], samples: Sequence[EvalSample], created: str) -> EvalSpec:
    header, names = runs[0].header, [run.header.run_id for run in runs]
    key = hashlib.sha256("\n".join(names).encode()).hexdigest()[:22]
    ids: list[str | int] = list(dict.fromkeys(str(sample.id) for sample in samples))
    swaps = {slot: cut_folders(str(spec)) for slot, spec in header_swaps(header).items()}
    return EvalSpec(
        eval_id=key,
        run_id=key,
        task_id=key,
        created=created,
        task=f"certigraph/{header.task.benchmark}",
        task_args={"graph": header.graph, **swaps},
        solver=method_name(header),
        dataset=EvalDataset(name=header.task.benchmark, samples=len(ids), sample_ids=ids),
        model=model_name(str(header.context.get("model", "none"))),
        config=EvalConfig(epochs=max(sample.epoch for sample in samples)),
        metadata={"runs": names},
    )


def _results(samples: Sequence[EvalSample]) -> EvalResults:
    scores = [score.as_float() for sample in samples for score in (sample.scores or {}).values()]
    values = [score for score in scores if not math.isnan(score)]
    scored = EvalScore(
        name=ROW_KEY,
        scorer=ROW_KEY,
        scored_samples=len(values),
        unscored_samples=len(scores) - len(values),
        metrics={"mean": EvalMetric(name="mean", value=sum(values) / len(values) if values else 0.0)},
    )
    finished = sum(sample.completed_at is not None for sample in samples)
    return EvalResults(total_samples=len(samples), completed_samples=finished, scores=[scored] if values else [])

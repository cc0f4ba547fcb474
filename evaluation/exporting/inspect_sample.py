"""One run as a sample of inspect_ai: its conversation, its verdicts as events, its score, cost and ending."""

import re
from collections import defaultdict
from collections.abc import Iterable
from datetime import timedelta
from typing import Any

from inspect_ai.log import EvalError, EvalSample, EvalSampleLimit
from inspect_ai.model import ModelOutput, ModelUsage
from inspect_ai.scorer import Score

from certigraph.evaluation.exporting.clean import circumstances, started
from certigraph.evaluation.exporting.inspect_transcript import events_of, messages_of
from certigraph.evaluation.exporting.told import asked
from certigraph.evaluation.inspecting.rows import ROW, Row, unfinished
from certigraph.evaluation.settings import model_name
from certigraph.state.certified import certified_state
from certigraph.state.trajectory import Event, Footer, Trajectory

LIMITS: dict[str, Any] = {"tokens": "token", "usd": "cost", "seconds": "working"}
"""Our limits by inspect's names; it has none for model calls and world steps."""


def sample_of(run: Trajectory, epoch: int) -> EvalSample:
    """The sample of a cleaned run; `epoch` tells the repetitions of a task apart."""
    header, footer, usage = run.header, run.footer, run.usage
    began = started(header)
    return EvalSample(
        id=header.task.id,
        epoch=epoch,
        uuid=header.run_id,
        input=asked(header.task),
        target=header.task.condition,
        messages=list(messages_of(run)),
        output=ModelOutput.from_content(model_name(str(header.context.get("model", "none"))), run.ending),
        scores={ROW: _score(run)} if footer and footer.scores else {},
        metadata={"ending": run.ending, "trial": header.context.get("trial", 0), **circumstances(header)},
        events=list(events_of(run, began)),
        model_usage=usage_by("model", [*run.events, *run.superseded]),
        role_usage=usage_by("role", [*run.events, *run.superseded]),
        started_at=began.isoformat(),
        completed_at=(began + timedelta(seconds=usage.seconds)).isoformat() if footer else None,
        working_time=usage.seconds,
        error=_error(footer),
        limit=_limit(footer),
    )


def usage_by(field: str, events: Iterable[Event]) -> dict[str, ModelUsage]:
    """Tokens and dollars by the model or the role of the calls."""
    sums: defaultdict[str, ModelUsage] = defaultdict(ModelUsage)
    for call in (call for event in events for call in event.calls):
        sums[model_name(str(call[field]))] += _usage(call)
    return dict(sums)


def _usage(call: dict[str, Any]) -> ModelUsage:
    read, cached, written = (call.get(f"{kind}_tokens", 0) for kind in ("input", "cached", "output"))
    # inspect counts cached tokens beside the input, not within it
    return ModelUsage(
        input_tokens=read - cached,
        input_tokens_cache_read=cached,
        output_tokens=written,
        total_tokens=read + written,
        total_cost=call.get("usd"),
    )


def _score(run: Trajectory) -> Score:
    """As the scorer of `certigraph eval` writes it."""
    state = run.state()
    row = Row(
        id=run.header.task.id,
        run=run.header.run_id,
        certified=len(certified_state(state.get("certificates", []), state.get("invalidations", [])).predicates),
        planned=len(state.get("plan", [])),
        footer=run.footer or unfinished(),
    )
    if not row.scored:
        return Score.unscored(reason=row.ending, explanation=row.ending, metadata=row.model_dump(mode="json"))
    return Score(value=row.value, explanation=row.ending, metadata=row.model_dump(mode="json"))


def _error(footer: Footer | None) -> EvalError | None:
    if footer is None or not footer.ending.startswith("error:"):
        return None
    return EvalError(message=f"{footer.ending}: {footer.message}", traceback="", traceback_ansi="")


def _limit(footer: Footer | None) -> EvalSampleLimit | None:
    if footer is None or not footer.ending.startswith("limit:"):
        return None
    amount = re.search(r" of (\S+) ", footer.message)  # as LimitReached words it: a resume may have raised the limit
    kind = LIMITS.get(footer.ending.removeprefix("limit:"), "custom")
    return EvalSampleLimit(type=kind, limit=float(amount[1]) if amount else 0.0, reason=footer.message)

"""Attributes of OpenTelemetry spans: what was certified, denied and done in the run that a span stands for."""

import sys
from collections.abc import Sequence
from typing import Any

from certigraph.adapters.redaction import redact_message, redact_to_json
from certigraph.state.records import Record

PREFIX = "certigraph."
"""Beginning of the names of attributes."""


def note_on_span(span: Any, *, ending: str, reason: str, **records: Sequence[Record]) -> None:
    """Set attributes on a span, with secrets masked.

    Args:
        span: the span, as `find_span` returns it.
        ending: how the agent's turn ended.
        reason: why it ended so.
        **records: records by the name of their attribute, which is a list of JSON texts.
    """
    span.set_attribute(f"{PREFIX}ending", ending)
    span.set_attribute(f"{PREFIX}ending_reason", redact_message(reason))
    for name, found in records.items():
        span.set_attribute(f"{PREFIX}{name}", [redact_to_json(one)[1] for one in found])


def find_span() -> Any:
    """Return the span of the graph whose node is running, as OpenInference keeps it; else the current span.

    Nothing is imported: a process that traces has loaded its packages. None if nothing is traced.
    """
    inference, trace = map(sys.modules.get, ("openinference.instrumentation.langchain", "opentelemetry.trace"))
    span = trace.get_current_span() if trace else None
    if inference and inference.LangChainInstrumentor().is_instrumented_by_opentelemetry:
        span = next(iter(inference.get_ancestor_spans()), inference.get_current_span())
    return span if span is not None and span.is_recording() else None


__all__ = ["find_span", "note_on_span"]

"""What went wrong between here and an endpoint, in plain words."""

import json
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from email.utils import parsedate_to_datetime

from langchain_core.language_models import BaseChatModel

from certigraph.adapters.bounded_http import UnboundedAnswer
from certigraph.adapters.models.chat import EFFORT, model_label
from certigraph.adapters.models.parameters import REFUSALS
from certigraph.adapters.models.redact import redact_message, show_address
from certigraph.state.endings import Fault
from certigraph.state.json_text import replace_surrogates

SHOWN = 500
"""Characters of an endpoint's or a model's words that an error message repeats."""

LONGEST_WAIT = 60.0
"""Seconds that an endpoint may ask to wait, at most."""

UNREADABLE = (ValueError, TypeError, AttributeError, LookupError, RecursionError)
"""What the client of an endpoint raises over a body that is no completion."""


def is_endpoint_error(error: Exception, model: BaseChatModel) -> bool:
    """Whether an error is of the way to an endpoint or of what it answered, and no mistake in the code that asks."""
    if isinstance(error, UNREADABLE) and hasattr(model, "openai_api_base"):
        return True
    # looked up, not imported: who never talked to OpenAI need not load its client
    clients = [getattr(sys.modules.get(module), name, None) for module, name in _CLIENT_ERRORS]
    known = tuple(kind for kind in clients if kind is not None)
    broken = (OSError, json.JSONDecodeError, UnboundedAnswer, *known)
    return isinstance(error, broken) or isinstance(getattr(error, "status_code", None), int)


class PassingFault(Fault):
    """An endpoint that fails now and may not in a moment; `wait` are the seconds that it asks for, if it does."""

    def __init__(self, message: str, wait: float) -> None:
        self.wait = wait
        super().__init__("model", message)


def fault_of(error: Exception, model: BaseChatModel) -> Fault:
    """The fault that an error of an endpoint is to a run; a passing one where the same request may yet succeed."""
    status, told = getattr(error, "status_code", None), explained(error, model)
    if any(isinstance(cause, UnboundedAnswer) for cause in _causes(error)):
        return Fault("model", told)
    passing = status is None or status in (408, 409, 429) or status >= 500
    return PassingFault(told, _asked_to_wait(error)) if passing else Fault("model", told)


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    """An error and what it was raised from: OpenAI's client hides what broke a connection."""
    seen: list[BaseException] = []  # an error that was raised again may be its own context
    while error is not None and error not in seen:
        yield error
        seen.append(error)
        error = error.__cause__ or error.__context__


def _asked_to_wait(error: Exception) -> float:
    told = getattr(getattr(error, "response", None), "headers", {}).get("retry-after", "")
    readings: tuple[Callable[[str], float], ...] = (float, _until)
    for seconds in readings:
        with suppress(ValueError, OverflowError):
            return min(max(0.0, seconds(told)), LONGEST_WAIT)  # in this order: of nan and 0 it is 0
    return 0.0


def _until(date: str) -> float:
    return parsedate_to_datetime(date).timestamp() - time.time()


_CLIENT_ERRORS = (("openai", "OpenAIError"), ("httpx", "HTTPError"), ("httpx2", "HTTPError"))


def explained(error: Exception, model: BaseChatModel) -> str:
    """What failed, in the endpoint's own words without keys, and what to do about it."""
    where = getattr(model, "openai_api_base", None)
    asked = f"{model_label(model)} at {show_address(str(where))}" if where else model_label(model)
    unbounded = next((cause for cause in _causes(error) if isinstance(cause, UnboundedAnswer)), None)
    if unbounded:
        return f"{asked} failed: {unbounded}; check the endpoint, or what stands between here and it"
    said = " ".join(redact_message(replace_surrogates(f"{type(error).__name__}: {error}")).split())[:SHOWN]
    status, effort = getattr(error, "status_code", None), getattr(model, "reasoning_effort", None)
    told = f"; or it knows no reasoning effort: leave {EFFORT}{effort} away" if effort and status in REFUSALS else ""
    # the words of adapters/faults
    remedy = "--faults, or a FaultyModel, made it so" if str(error).startswith("injected ") else _remedy(status)
    return f"{asked} failed: {said}; {remedy}{told}"


def _remedy(status: int | None) -> str:  # noqa: PLR0911 - one line each
    match status:
        case None:
            return "check CERTIGRAPH_BASE_URL and that the endpoint runs"
        case 401 | 403:
            return "check OPENAI_API_KEY"
        case 404:
            return "check the model's name and CERTIGRAPH_BASE_URL, which usually ends in /v1"
        case 301 | 302 | 303 | 307 | 308:
            return "redirects are not followed: set CERTIGRAPH_BASE_URL to the address that the endpoint has now"
        case 429:
            return "the endpoint limits the rate or the quota is spent: resume later"
        case status if status >= 500:
            return "the endpoint failed itself: resume later"
        case _:
            return "the endpoint refuses this request: check the model's name and the length of its context"

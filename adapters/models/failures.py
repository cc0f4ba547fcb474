"""What went wrong between here and an endpoint, in plain words."""

import json
import sys

from langchain_core.language_models import BaseChatModel

from certigraph.adapters.models.chat import EFFORT, model_label
from certigraph.adapters.models.redact import redact
from certigraph.state.endings import Fault

SHOWN = 500
"""Characters of an endpoint's or a model's words that an error message repeats."""

LONGEST_WAIT = 60.0
"""Seconds that an endpoint may ask to wait, at most."""

REFUSALS = (400, 422)
"""Status of a request whose form the endpoint does not take."""


def is_endpoint_error(error: Exception) -> bool:
    """Whether an error is of the way to an endpoint or of what it answered, and no mistake in the code that asks."""
    # looked up, not imported: who never talked to OpenAI need not load its client
    clients = [getattr(sys.modules.get(module), name, None) for module, name in _CLIENT_ERRORS]
    known = tuple(kind for kind in clients if kind is not None)
    # a body that is no JSON is the endpoint's, and OpenAI's client hands its reader's error on as it is
    broken = (OSError, json.JSONDecodeError, *known)
    return isinstance(error, broken) or isinstance(getattr(error, "status_code", None), int)


class PassingFault(Fault):
    """An endpoint that fails now and may not in a moment; `wait` are the seconds that it asks for, if it does."""

    def __init__(self, message: str, wait: float) -> None:
        self.wait = wait
        super().__init__("model", message)


def fault_of(error: Exception, model: BaseChatModel) -> Fault:
    """The fault that an error of an endpoint is to a run; a passing one where the same request may yet succeed."""
    status, told = getattr(error, "status_code", None), explained(error, model)
    passing = status is None or status in (408, 409, 429) or status >= 500
    return PassingFault(told, _asked_to_wait(error)) if passing else Fault("model", told)


def _asked_to_wait(error: Exception) -> float:
    headers = getattr(getattr(error, "response", None), "headers", {})
    try:
        return min(max(float(headers.get("retry-after", 0)), 0.0), LONGEST_WAIT)
    except ValueError:  # a date
        return 0.0


_CLIENT_ERRORS = (("openai", "OpenAIError"), ("httpx", "HTTPError"), ("httpx2", "HTTPError"))


def explained(error: Exception, model: BaseChatModel) -> str:
    """What failed, in the endpoint's own words without keys, and what to do about it."""
    where = getattr(model, "openai_api_base", None)
    asked = f"{model_label(model)} at {where}" if where else model_label(model)
    said = redact(f"{type(error).__name__}: {error}")[:SHOWN]
    status, effort = getattr(error, "status_code", None), getattr(model, "reasoning_effort", None)
    told = f"; or it knows no reasoning effort: leave {EFFORT}{effort} away" if effort and status in REFUSALS else ""
    return f"{redact(asked)} failed: {said}; {_remedy(status)}{told}"


def _remedy(status: int | None) -> str:
    match status:
        case None:
            return "check CERTIGRAPH_BASE_URL and that the endpoint runs"
        case 401 | 403:
            return "check OPENAI_API_KEY"
        case 404:
            return "check the model's name and CERTIGRAPH_BASE_URL, which usually ends in /v1"
        case 429:
            return "the endpoint limits the rate or the quota is spent: resume later"
        case status if status >= 500:
            return "the endpoint failed itself: resume later"
        case _:
            return "the endpoint refuses this request: check the model's name and the length of its context"

"""Context windows of models: how long a prompt may be, and whether the schemas of answers are bounded.

Every model gets the same prompts, cut by tokens to its context window. The answers of a model with a small window are
bounded by their schemas, so that they end.
"""

import asyncio
from collections.abc import Mapping
from functools import lru_cache
from math import ceil
from typing import Any, NamedTuple

from langchain_core.language_models import BaseChatModel

from certigraph.adapters.composed_chat import models_in
from certigraph.adapters.http import ENCODING_HEADERS, MAX_ANSWER_BYTES, UnboundedAnswer, limit_response

DEFAULT_WINDOW = 128_000
"""Tokens of the context window of a model about which nothing is known, as of GPT-4o."""

BOUNDED_WINDOW = 16_000
"""The answers of models with fewer tokens of context than this are bounded by their schemas."""

ANSWER_SHARE = 4
"""The answer gets at least one part in so many of the context window; the prompt gets the rest."""

CHARACTERS_PER_TOKEN = 3.5
"""Characters that are counted as one token. English has about 4; lists of names and JSON have fewer."""

JSON_CHARACTERS_PER_TOKEN = 3
"""Characters of an answer in JSON that are counted as one token."""

ASK_TIMEOUT = 5.0
"""Maximum seconds in which an endpoint says how large its context window is."""

WINDOW_KEYS = ("max_model_len", "context_length", "max_context_length", "context_window", "n_ctx")
"""Names under which endpoints list the context window of a model: vLLM, OpenRouter, LM Studio, Groq, llama.cpp."""


class ModelProfile(NamedTuple):
    """What the context window of a model allows."""

    window: int
    """Tokens of the context window."""

    @property
    def prompt_tokens(self) -> int:
        """Maximum tokens of a prompt, so that the answer fits into the window too."""
        return self.window - self.answer_tokens

    @property
    def answer_tokens(self) -> int:
        """Tokens of the window that are kept for the answer."""
        return self.window // ANSWER_SHARE

    @property
    def most_characters(self) -> int:
        """Maximum characters of an answer with a schema; 0 if its texts and lists need no bound."""
        return self.answer_tokens * JSON_CHARACTERS_PER_TOKEN if self.window < BOUNDED_WINDOW else 0


def estimate_tokens(text: str) -> int:
    """Estimate the number of tokens of a text, for any model, by CHARACTERS_PER_TOKEN."""
    return ceil(len(text) / CHARACTERS_PER_TOKEN)


async def profile_for(model: BaseChatModel, most: int = 0) -> ModelProfile:
    """Return the profile of a model.

    The window is that of LangChain's `model.profile`, else what the endpoint says, else 128,000 tokens. A model that
    is made of several has the smallest of theirs.

    Args:
        model: the model.
        most: tokens of the window if neither says it, and the most that is used of it; 0 for all of it.
    """
    windows = [window for one in models_in(model) if (window := await _find_window(one))]
    known = min(windows, default=None)
    return ModelProfile(min(known, most) if known and most else known or most or DEFAULT_WINDOW)


async def _find_window(model: BaseChatModel) -> int | None:
    known = _window_of_profile(model)
    if known or not getattr(model, "openai_api_base", None):
        return known
    return await asyncio.to_thread(_window_of_endpoint, model)


def find_window(model: BaseChatModel) -> int | None:
    """Return the context window of a model in tokens, from its profile or its endpoint's list; None if unknown.

    Blocks while the endpoint is asked, once for each model.
    """
    return _window_of_profile(model) or _window_of_endpoint(model)


def _window_of_profile(model: BaseChatModel) -> int | None:
    known: Mapping[str, Any] = model.profile or {}
    return int(known.get("max_input_tokens") or 0) or None


def _window_of_endpoint(model: BaseChatModel) -> int | None:
    if not (address := getattr(model, "openai_api_base", None)):
        return None
    name, key = str(getattr(model, "model_name", "")), getattr(model, "openai_api_key", None)
    return _ask_endpoint(str(address), name, key.get_secret_value() if key else "")


@lru_cache(maxsize=64)
def _ask_endpoint(address: str, name: str, key: str) -> int | None:
    """Return the window that the endpoint's list of models gives for a model; None if it gives none."""
    import httpx

    def bound(response: Any) -> None:
        limit_response(response, MAX_ANSWER_BYTES)

    headers = {**ENCODING_HEADERS, "Authorization": f"Bearer {key}"}
    try:
        with httpx.Client(event_hooks={"response": [bound]}, headers=headers, timeout=ASK_TIMEOUT) as client:
            reply = client.get(f"{address.rstrip('/')}/models")
        listed = reply.json()["data"] if reply.is_success else []
        entries = [entry for entry in listed if entry.get("id") == name] or (listed if len(listed) == 1 else [])
        return next((window for entry in entries if (window := _window_of(entry))), None)
    except (httpx.HTTPError, UnboundedAnswer, ValueError, TypeError, KeyError, AttributeError):
        return None  # an endpoint need not list its models


def _window_of(entry: Mapping[str, Any]) -> int | None:
    values = ({**(entry.get("meta") or {}), **entry}.get(key) for key in WINDOW_KEYS)
    return next((value for value in values if isinstance(value, int) and value > 0), None)

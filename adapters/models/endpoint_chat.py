"""ChatOpenAI for endpoints that cannot be trusted: bounded answers, one request a call, token counts checked."""

from typing import Any

from langchain_core.outputs import ChatResult
from langchain_openai import ChatOpenAI
from pydantic import SecretStr

from certigraph.adapters.bounded_http import openai_settings
from certigraph.adapters.models.token_counts import credible

ONE_REQUEST = {"Connection": "close"}
"""Headers of every request. A kept connection belongs to one event loop, and a cached model outlives many."""


class EndpointChat(ChatOpenAI):
    """ChatOpenAI that drops token counts which are none; the call is then counted by the length of its texts."""

    def _create_chat_result(self, response: Any, generation_info: dict[str, Any] | None = None) -> ChatResult:
        used = response.get("usage") if isinstance(response, dict) else getattr(response, "usage", None)
        if used is not None and not credible(used):
            if isinstance(response, dict):
                response = {**response, "usage": None}
            else:
                response.usage = None
        return super()._create_chat_result(response, generation_info)


def endpoint_chat(*, key: str, timeout: float, **settings: Any) -> EndpointChat:
    """A chat model behind an address.

    Args:
        key: the key that is sent.
        timeout: seconds that one request may take.
        settings: of ChatOpenAI.
    """
    return EndpointChat(
        api_key=SecretStr(key),
        timeout=timeout,
        max_retries=0,  # requests are repeated, and counted, where they are made
        default_headers=ONE_REQUEST,
        disable_streaming=True,  # a streamed answer may come without its token counts
        **openai_settings(),
        **settings,
    )

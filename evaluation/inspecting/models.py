"""certigraph's model names as inspect models: `--model certigraph/local`, `--model certigraph/openai:NAME`."""

import os
import re
from typing import Any, NamedTuple

from inspect_ai._util.error import PrerequisiteError
from inspect_ai.model import ChatMessage, GenerateConfig, Model, ModelAPI, ModelCall, ModelOutput, get_model, modelapi
from inspect_ai.tool import ToolChoice, ToolInfo
from openai import APIStatusError

from certigraph.adapters.bounded_http import async_openai_client
from certigraph.adapters.models.chat import FORMS, check_model, is_scripted
from certigraph.adapters.models.local import ANSWER_TOKENS, local_endpoint, weights
from certigraph.adapters.models.parameters import refused_under, takes_temperature
from certigraph.adapters.models.redact import mask_logs, redact_message, redacted
from certigraph.state.endings import Fault, UnknownName

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

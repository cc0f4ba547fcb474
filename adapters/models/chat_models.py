"""Chat models by name, and the request parameters that they accept.

`chat_model` creates the model of a name such as `openai:NAME`, `local` or `scripted:expert`. `refused_parameters` and
`remember_refused` keep a table of parameters that an endpoint refuses.
"""

import os
import re
from collections.abc import Collection, Hashable, Mapping
from functools import lru_cache
from typing import Any
from urllib.parse import urlsplit
from weakref import WeakValueDictionary

from langchain_core.language_models import BaseChatModel

from certigraph.adapters.composed_chat import change_models, models_in, unwrap_model
from certigraph.adapters.extras import import_extra
from certigraph.adapters.models.prices import load_list_prices
from certigraph.adapters.models.scripts import (
    RANDOM_MODEL,
    SIMULATED_MODEL,
    ScriptedChat,
    format_error_rates,
    parse_error_rates,
    random_responder,
    simulated_name,
    simulated_responder,
)
from certigraph.adapters.protocols import Responder
from certigraph.adapters.redaction import mask_logs
from certigraph.state.endings import Fault, UnknownName

# Parameters that a model refuses: by its family, or by an earlier refusal in this process.

REFUSAL_STATUSES = (400, 422)
"""HTTP statuses with which endpoints refuse an invalid request."""

INTERNAL_STATUSES = (500, 501)
"""HTTP statuses with which some endpoints refuse a parameter that they do not know, as llama.cpp's server does."""

RESPONSE_FORMAT = "response_format"

IGNORED_FORMAT = "ignored_response_format"
"""Kept among the refused parameters of a model that ignores `response_format`: its prompts hold the schema too."""

STREAM_USAGE = "stream_usage"
"""Streamed replies with their token usage: without it, a model does not stream at all, since its tokens count."""

PARAMETER_NAMES = {
    RESPONSE_FORMAT: RESPONSE_FORMAT,
    "json_schema": RESPONSE_FORMAT,
    "schema": RESPONSE_FORMAT,
    "grammar": RESPONSE_FORMAT,
    "tools": "tools",
    "tool_choice": "tool_choice",
    "temperature": "temperature",
    "max_completion_tokens": "max_tokens",
    "max_tokens": "max_tokens",
    "reasoning_effort": "reasoning_effort",
    "reasoning": "reasoning",
    "seed": "seed",
    "stream_options": STREAM_USAGE,
    "stream": STREAM_USAGE,
    "top_p": "top_p",
    "top_logprobs": "top_logprobs",
    "logprobs": "logprobs",
    "logit_bias": "logit_bias",
    "frequency_penalty": "frequency_penalty",
    "presence_penalty": "presence_penalty",
    "stop": "stop",
    "verbosity": "verbosity",
    "service_tier": "service_tier",
    "store": "store",
}
"""Optional parameters of a request, by every name that endpoints use for them."""

UNNAMED_FALLBACKS = ("tool_choice", "tools", RESPONSE_FORMAT, "temperature")
"""Parameters that are left out, one after the other, if an endpoint refuses a request without naming a parameter."""

_NAME_PATTERN = re.compile(rf"(?<![\w.])({'|'.join(sorted(PARAMETER_NAMES, key=len, reverse=True))})(?!\w)")
_REASONING_MODEL = re.compile(r"(?:.*/)?(?:o\d|gpt-(?:[6-9]|5(?!.*chat)))")

_ABOUT_VALUE = re.compile(
    r"too (?:large|big|high|long|small|low)|at (?:most|least)|maximum|minimum|context (?:length|window)|range|between"
)

_REFUSED: dict[Hashable, frozenset[str]] = {}
_MODELS_BY_ID: WeakValueDictionary[int, BaseChatModel] = WeakValueDictionary()
"""Models by id(), for models whose key in _REFUSED is their id().

They are compared before the key is used, because another object may get the same id() later.
"""


class ParameterRefused(Fault):
    """An endpoint refused one parameter of a request; without it the request may succeed.

    Attributes:
        parameter: the parameter.
        lasting: whether later requests must omit it too; false if only its value did not fit this request.
    """

    def __init__(self, parameter: str, message: str, *, lasting: bool = True) -> None:
        self.parameter, self.lasting = parameter, lasting
        super().__init__("model", message)


def supports_temperature(name: str) -> bool:
    """Return whether a model's temperature can be set: OpenAI's reasoning models refuse it."""
    return not _REASONING_MODEL.match(name.lower())


def refused_parameters(model: BaseChatModel) -> frozenset[str]:
    """Return the names of the parameters that a model's family or endpoint refuses, so that they must not be sent."""
    model = unwrap_model(model)
    by_family = frozenset[str]()
    if hasattr(model, "openai_api_base") and not supports_temperature(_model_name(model)):
        by_family |= {"temperature"}
    return by_family | refused_parameters_of_key(_model_key(model))


def refused_parameters_of_key(key: Hashable) -> frozenset[str]:
    """Return the refused parameters that are stored under a key, such as `("inspect", NAME)` for a model of Inspect."""
    return _REFUSED.get(key, frozenset())


def remember_refused(model: BaseChatModel, parameters: Collection[str]) -> None:
    """Omit these parameters from the model's requests for the rest of the process."""
    model = unwrap_model(model)
    key = _model_key(model)
    if key == id(model):
        _MODELS_BY_ID[id(model)] = model
    _REFUSED[key] = _REFUSED.get(key, frozenset()) | frozenset(parameters)


def find_refused_parameter(error: Exception, sent: Collection[str]) -> str:
    """Return which of the sent parameters an endpoint's error names; the empty string if it names none."""
    parameter = getattr(error, "param", None)
    if isinstance(parameter, str) and parameter:
        canonical = PARAMETER_NAMES.get(re.split(r"[.\[]", parameter)[0], "")
        return canonical if canonical in sent else ""
    # Inspect's errors repeat the request; `provider_message` is the endpoint's text alone
    message = getattr(error, "provider_message", None) or str(error)
    matches = [PARAMETER_NAMES[name] for name in _NAME_PATTERN.findall(message)]
    about_tools = "tools" if RESPONSE_FORMAT in matches and "tools" in sent else ""  # the schemas of their arguments
    return next((name for name in matches if name in sent), about_tools)


def is_about_value(error: Exception) -> bool:
    """Return whether an endpoint's error is about a parameter's value, such as a maximum length that is too large."""
    return bool(_ABOUT_VALUE.search(str(error).lower()))


def has_named_parameter(error: Exception) -> bool:
    """Return whether an endpoint's error names the part of the request that it refuses."""
    return bool(getattr(error, "param", None))


def preset_parameters(model: BaseChatModel) -> frozenset[str]:
    """Return the names of the parameters that are set in a model object and sent with every request."""
    names = set(PARAMETER_NAMES.values())
    return frozenset(
        name
        for one in models_in(model)
        for name in names & set(type(one).model_fields)
        if getattr(one, name) is not None
    )


def without_parameters(model: BaseChatModel, parameters: Collection[str]) -> BaseChatModel:
    """Return the model, or a copy of it, that does not send these parameters; without `stream_usage`, no stream."""

    def change(one: BaseChatModel) -> BaseChatModel:
        changed: dict[str, Any] = dict.fromkeys(preset_parameters(one) & set(parameters))
        if STREAM_USAGE in parameters and one.disable_streaming is not True:
            changed["disable_streaming"] = True
        return one.model_copy(update=changed) if changed else one

    return change_models(model, change) if parameters else model


def is_embedded(model: BaseChatModel) -> bool:
    """Return whether a model runs in this process by weights of its own (`local_chat`)."""
    return "weights" in (unwrap_model(model).metadata or {})


def _model_name(model: BaseChatModel) -> str:
    return str(getattr(model, "priced_as", None) or getattr(model, "model_name", ""))


def _model_key(model: BaseChatModel) -> Hashable:
    if served := getattr(model, "priced_as", None):
        return "inspect", served
    if hasattr(model, "openai_api_base"):
        return str(model.openai_api_base), _model_name(model)
    if _MODELS_BY_ID.get(id(model)) is not model:
        _REFUSED.pop(id(model), None)
    return id(model)


# Chat models by name.

MODEL_FORMS = (
    "openai:NAME, local, local:qwen-0.5b, local:FILE.gguf, scripted:first, scripted:expert, scripted:random, "
    "simulated, simulated:act=0.2,seed=3, openai:NAME?effort=medium, PROVIDER:NAME"
)

EFFORT_SEPARATOR = "?effort="
"""Separator between a model and its reasoning effort, as in `openai:gpt-oss-20b?effort=medium`."""

PROVIDERS = (
    *("anthropic", "anthropic_bedrock", "azure_ai", "azure_openai", "bedrock", "bedrock_converse", "cohere"),
    *("deepseek", "fireworks", "google_anthropic_vertex", "google_genai", "google_vertexai", "groq", "huggingface"),
    *("ibm", "litellm", "mistralai", "nvidia", "ollama", "openrouter", "perplexity", "together", "upstage", "xai"),
)
"""Providers whose models LangChain's `init_chat_model` creates, each from a package of its own."""

REQUEST_TIMEOUT = 120.0
"""Maximum seconds of one request to an endpoint."""


def chat_model(name: str, *, expert: Responder | None = None, trial: int = 0) -> BaseChatModel:
    """Create a chat model from its name, such as `openai:gpt-4o` or `scripted:first`; MODEL_FORMS lists the forms.

    `openai:` uses the endpoint at CERTIGRAPH_BASE_URL if that is set, else OpenAI, with the key in OPENAI_API_KEY;
    `?effort=` sets the reasoning effort. `scripted:first` takes the first option and `scripted:random` a
    random one. `simulated:...` is the scripted expert with random errors. `PROVIDER:NAME`, such as `anthropic:NAME`, is
    created by LangChain's `init_chat_model`.

    Args:
        name: the name.
        expert: function that answers for `scripted:expert` and `simulated`; without one both answer like
            `scripted:first`.
        trial: number of the repetition; part of the seed of random and simulated answers.

    Raises:
        UnknownName: the name has none of these forms.
        Fault: the key, the local runtime or its weights are missing.
    """
    kind, _, rest = check_model_name(name).partition(":")
    if kind == "openai":
        return _endpoint_model(rest, _base_url(), os.environ.get("OPENAI_API_KEY") or None)
    if kind == "local":
        from certigraph.adapters.models.clients import local_chat

        return local_chat(name)
    if kind in PROVIDERS:
        return _provider_model(name)
    return (_scripted_model if isinstance(expert, Hashable) else _scripted_model.__wrapped__)(name, expert, trial)


def _base_url() -> str | None:
    address = os.environ.get("CERTIGRAPH_BASE_URL")
    try:
        host, _ = (parts := urlsplit(address or "http://unset")).hostname, parts.port
    except ValueError:
        host = None
    if not host:  # the address is not shown, because it may contain a password
        raise Fault("model", "CERTIGRAPH_BASE_URL is not an address: export CERTIGRAPH_BASE_URL=http://host/v1")
    return address or None


def is_known_model(name: str) -> bool:
    """Return whether a name has one of the forms that `chat_model` takes."""
    try:
        check_model_name(name)
    except UnknownName:
        return False
    return True


def is_scripted(name: str) -> bool:
    """Return whether a model's name, as given or as a header has it, is that of a script and of no language model.

    Scripts are the expert, the simulated agent, and those that take the first or a random option.
    """
    given = name.removeprefix(LIVE_PREFIX)
    return given.partition(":")[0] == "scripted" or is_simulated(given)


def is_local(name: str) -> bool:
    """Return whether a model name selects weights that run on this machine."""
    return name.partition(":")[0] == "local"


def is_simulated(name: str) -> bool:
    """Return whether a model name selects the simulated agent, which makes errors at set rates."""
    return name.partition(":")[0] == SIMULATED_MODEL


SCRIPT_DESCRIPTIONS = {
    "scripted:expert": "a script that knows the answer",
    "scripted:first": "a script that takes the first option",
    RANDOM_MODEL: "a script that takes any option",
    SIMULATED_MODEL: "a script that knows the answer and errs at set rates",
}
"""Descriptions of the scripted models by name."""


LIVE_PREFIX = "live:"
"""Prefix of a model's name in a header if the model was passed as an object, which the name alone cannot create."""


def describe_model(name: str) -> str:
    """Return a model's name; if it is scripted, with a description that says that it is not a language model."""
    if name.startswith(LIVE_PREFIX):
        kind = ": a script passed as an object, no language model" if is_scripted(name) else " (object)"
        return f"{name.removeprefix(LIVE_PREFIX)}{kind}"
    if not is_scripted(name):
        return name
    kind = SCRIPT_DESCRIPTIONS.get(name) or SCRIPT_DESCRIPTIONS.get(name.partition(":")[0], "a script")
    return f"{name}: {kind}, no language model"


def describe_models(model: str, roles: Mapping[str, object] | None = None) -> str:
    """Describe the model of a run and those of its roles in one line."""
    roles_text = (f"{role} {describe_model(str(other))}" for role, other in (roles or {}).items())
    return "; ".join([f"model {describe_model(model)}", *roles_text])


def describe_error_rates(model: str, roles: Mapping[str, object] | None = None) -> str:
    """Describe in one line the error rates of the simulated agents among the models of a run; empty if none is one."""
    names = {"": model, **{role: str(other) for role, other in (roles or {}).items()}}
    rates = [
        f"{role} {format_error_rates(parse_error_rates(name))}".lstrip()
        for role, name in names.items()
        if is_simulated(name)
    ]
    return f"error rates: {'; '.join(rates)}" if rates else ""


NAMED_MODELS = ("local", "scripted:first", "scripted:expert", RANDOM_MODEL)
"""Models whose whole name is fixed."""


def check_model_name(name: str) -> str:
    """Return the name of a model if it is valid.

    Raises:
        UnknownName: the name has none of the forms of MODEL_FORMS; the message lists them.
    """
    kind, _, rest = name.partition(":")
    if kind == SIMULATED_MODEL:
        parse_error_rates(name)
        return name
    if kind == "openai" and EFFORT_SEPARATOR in rest and not all(rest.split(EFFORT_SEPARATOR, 1)):
        raise UnknownName(f"{name!r} has an empty model or effort; write openai:NAME{EFFORT_SEPARATOR}medium")
    if kind == "openai" and "?" in rest and EFFORT_SEPARATOR not in rest:
        raise UnknownName(f"{name!r}: only the effort can follow a question mark; write openai:NAME?effort=medium")
    if name in NAMED_MODELS:
        return name
    kinds = ("openai", "local", *PROVIDERS)
    if rest and kind in kinds:
        return name
    known = (*NAMED_MODELS, SIMULATED_MODEL, *(f"{one}:{rest}" for one in kinds if rest))
    raise UnknownName(f"unknown model {name!r}", name, known, f"the forms are {MODEL_FORMS}")


def check_model_available(name: str) -> None:
    """Check that a model can be used: its name is valid, and its key or weights are available.

    Raises:
        UnknownName: the name has none of the forms.
        Fault: the key, the local runtime or its weights are missing.
    """
    if not is_scripted(check_model_name(name)):
        chat_model(name)


def model_label(model: BaseChatModel) -> str:
    """Return the name under which a model's calls are recorded."""
    return str(getattr(model, "model_name", None) or model._llm_type)


def label_object(model: BaseChatModel) -> str:
    """Return how a header names a model that was passed as an object, by its attribute `label` if it has one."""
    return f"{LIVE_PREFIX}{getattr(model, 'label', '') or model_label(model)}"


@lru_cache(maxsize=32)
def _scripted_model(name: str, expert: Responder | None, trial: int) -> BaseChatModel:
    # cached, because LangChain inspects every new model object, which takes longer than an answer
    blocks = bool(getattr(expert, "blocks", False))
    if name.partition(":")[0] == SIMULATED_MODEL:
        errors = parse_error_rates(name)
        return ScriptedChat(
            responder=simulated_responder(errors, expert, trial), model_name=simulated_name(errors), blocks=blocks
        )
    responder = random_responder(trial) if name == RANDOM_MODEL else expert if name == "scripted:expert" else None
    return ScriptedChat(responder=responder, model_name=name, blocks=blocks and responder is expert)


@lru_cache(maxsize=32)
def _endpoint_model(name: str, base_url: str | None, key: str | None) -> BaseChatModel:
    if key is None and base_url is None:
        raise Fault(
            "model", f"openai:{name} needs a key: export OPENAI_API_KEY=..., or CERTIGRAPH_BASE_URL=http://host/v1"
        )
    from certigraph.adapters.models.clients import endpoint_chat

    mask_logs()
    load_list_prices(base_url)  # before a run's seconds count
    plain, _, effort = name.partition(EFFORT_SEPARATOR)
    return endpoint_chat(
        key=key or "none",
        timeout=REQUEST_TIMEOUT,
        model=plain,
        reasoning_effort=effort or None,
        base_url=base_url,
        temperature=0 if supports_temperature(plain) else None,
    )


@lru_cache(maxsize=32)
def _provider_model(name: str) -> BaseChatModel:
    langchain = import_extra("langchain.chat_models", f"the model {name} needs", "langchain", "model")
    mask_logs()
    try:
        model: BaseChatModel = langchain.init_chat_model(name, temperature=0)
    except (ImportError, ValueError) as error:  # a missing package of the provider, or a missing key
        raise Fault("model", f"{name} cannot be used: {str(error).splitlines()[0]}") from error
    return model

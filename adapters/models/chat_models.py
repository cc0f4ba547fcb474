"""Chat models by name, and the parameters that model families take."""

import os
import re
from collections.abc import Collection, Hashable, Mapping
from functools import lru_cache
from urllib.parse import urlsplit
from weakref import WeakValueDictionary

from langchain_core.language_models import BaseChatModel

from certigraph.adapters.models.scripted import (
    RANDOM,
    SIMULATED,
    ScriptedChat,
    by_chance,
    errors_named,
    name_of,
    simulated,
)
from certigraph.adapters.protocols import Responder
from certigraph.adapters.redaction import mask_logs
from certigraph.state.records import Fault, UnknownName

# Which parameters of a request a model takes: those that its family is known to refuse, and those that it refused.

REFUSALS = (400, 422)
"""Status of a request whose form the endpoint does not take."""

RESPONSE_FORMAT = "response_format"

SPELLINGS = {
    RESPONSE_FORMAT: RESPONSE_FORMAT,
    "json_schema": RESPONSE_FORMAT,
    "temperature": "temperature",
    "max_completion_tokens": "max_tokens",
    "max_tokens": "max_tokens",
    "reasoning_effort": "reasoning_effort",
    "reasoning": "reasoning",
    "seed": "seed",
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
"""The parameters that a request can do without, by every name that endpoints have for them."""

UNNAMED = (RESPONSE_FORMAT, "temperature")
"""What is left out, one after the other, where an endpoint refuses a request without saying what it refuses."""

_NAMES = re.compile(rf"(?<![\w.])({'|'.join(sorted(SPELLINGS, key=len, reverse=True))})(?!\w)")
_REASONING = re.compile(r"(?:.*/)?(?:o\d|gpt-(?:[6-9]|5(?!.*chat)))")

_ABOUT_VALUE = re.compile(
    r"too (?:large|big|high|long|small|low)|at (?:most|least)|maximum|minimum|context (?:length|window)|range|between"
)

_REFUSED: dict[Hashable, frozenset[str]] = {}
_OBJECTS: WeakValueDictionary[int, BaseChatModel] = WeakValueDictionary()
"""Models that are known by their id, which another object may have later."""


class ParameterRefused(Fault):
    """An endpoint that does not take one parameter of a request; without that one it may answer.

    `lasting`: whether it is left out of later requests too; not where the value alone did not suit this request.
    """

    def __init__(self, parameter: str, message: str, *, lasting: bool = True) -> None:
        self.parameter, self.lasting = parameter, lasting
        super().__init__("model", message)


def takes_temperature(name: str) -> bool:
    """Whether a model of that name lets its temperature be set: the reasoning models of OpenAI do not."""
    return not _REASONING.match(name.lower())


def refused_by(model: BaseChatModel) -> frozenset[str]:
    """The parameters that are not to be sent to a model: its family refuses them, or it did in this process."""
    model = wrapped_model(model)
    known = frozenset[str]()
    if hasattr(model, "openai_api_base") and not takes_temperature(_served_name(model)):
        known |= {"temperature"}
    return known | refused_under(_key(model))


def refused_under(key: Hashable) -> frozenset[str]:
    """What was refused by the model of a key: `("inspect", NAME)` is that of inspect's model of a name."""
    return _REFUSED.get(key, frozenset())


def remember_refused(model: BaseChatModel, parameters: Collection[str]) -> None:
    """Send the model none of these parameters again, as long as this process lives."""
    model = wrapped_model(model)
    key = _key(model)
    if key == id(model):
        _OBJECTS[id(model)] = model
    _REFUSED[key] = _REFUSED.get(key, frozenset()) | frozenset(parameters)


def forget_refused() -> None:
    """Forget what was refused: another endpoint may have the address."""
    _REFUSED.clear()


def find_refused(error: Exception, sent: Collection[str]) -> str:
    """The parameter that an endpoint's error names among those that were sent; empty where it names none."""
    named = getattr(error, "param", None)
    if isinstance(named, str) and named:
        spelled = SPELLINGS.get(re.split(r"[.\[]", named)[0], "")
        return spelled if spelled in sent else ""
    # inspect's errors repeat the request; the endpoint's own words are apart from it
    words = getattr(error, "provider_message", None) or str(error)
    found = (SPELLINGS[name] for name in _NAMES.findall(words))
    return next((name for name in found if name in sent), "")


def is_about_value(error: Exception) -> bool:
    """Whether an endpoint refuses the value of a parameter, as an answer longer than the context has room for."""
    return bool(_ABOUT_VALUE.search(str(error).lower()))


def names_something(error: Exception) -> bool:
    """Whether an endpoint says which part of a request it refuses."""
    return bool(getattr(error, "param", None))


def set_parameters(model: BaseChatModel) -> frozenset[str]:
    """The parameters that a model sends with every request of its own accord."""
    model = wrapped_model(model)
    fields = type(model).model_fields
    return frozenset(name for name in set(SPELLINGS.values()) & set(fields) if getattr(model, name) is not None)


def without_parameters(model: BaseChatModel, parameters: Collection[str]) -> BaseChatModel:
    """The model, or a copy that sends none of these parameters of its own accord."""
    changed = dict.fromkeys(set_parameters(model) & set(parameters))
    if not changed:
        return model
    if (behind := wrapped_model(model)) is not model:
        return model.model_copy(update={"chat": behind.model_copy(update=changed)})
    return model.model_copy(update=changed)


def wrapped_model(model: BaseChatModel) -> BaseChatModel:
    """The model itself, or the one that a FaultyModel asks."""
    behind: BaseChatModel = getattr(model, "chat") if getattr(type(model), "spoils", False) else model  # noqa: B009
    return behind


def _served_name(model: BaseChatModel) -> str:
    return str(getattr(model, "priced_as", None) or getattr(model, "model_name", ""))


def _key(model: BaseChatModel) -> Hashable:
    if served := getattr(model, "priced_as", None):
        return "inspect", served
    if hasattr(model, "openai_api_base"):
        return str(model.openai_api_base), _served_name(model)
    if _OBJECTS.get(id(model)) is not model:
        _REFUSED.pop(id(model), None)
    return id(model)


# A model's name -> a LangChain chat model.

FORMS = (
    "openai:NAME, local, local:qwen-0.5b, local:FILE.gguf, scripted:first, scripted:expert, scripted:random, "
    "simulated, simulated:act=0.2,seed=3, openai:NAME?effort=medium"
)

EFFORT = "?effort="
"""Stands between an endpoint's model and its reasoning effort: `openai:gpt-oss-20b?effort=medium`."""

TIMEOUT = 120.0
"""Seconds that one request to an endpoint may take."""


def chat_model(name: str, *, expert: Responder | None = None, trial: int = 0) -> BaseChatModel:
    """The chat model of a name: one of FORMS.

    `openai:` asks the endpoint at CERTIGRAPH_BASE_URL where that is set, with OPENAI_API_KEY as its key if there is
    one; `?effort=` tells it the reasoning effort. The expert answers for `scripted:expert`; without one it answers like
    `scripted:first`. `scripted:random` takes any option; `simulated` is the expert with errors. Both are drawn anew for
    each trial.

    Raises:
        UnknownName: the name has none of these forms.
        Fault: the key, the local runtime or its weights are missing.
    """
    kind, _, rest = check_model(name).partition(":")
    if kind == "openai":
        return _endpoint(rest, _address(), os.environ.get("OPENAI_API_KEY") or None)
    if kind == "local":
        from certigraph.adapters.models.clients import local_chat

        return local_chat(name)
    return (_script if isinstance(expert, Hashable) else _script.__wrapped__)(name, expert, trial)


def _address() -> str | None:
    given = os.environ.get("CERTIGRAPH_BASE_URL")
    try:
        host, _ = (found := urlsplit(given or "http://unset")).hostname, found.port
    except ValueError:
        host = None
    if not host:  # not shown, for it may hold a password
        raise Fault("model", "CERTIGRAPH_BASE_URL is no address: export CERTIGRAPH_BASE_URL=http://host/v1")
    return given or None


def is_scripted(name: str) -> bool:
    """Whether no language model answers, but a script: the expert's, the simulated agent's, the first or any option."""
    return name.partition(":")[0] in ("scripted", SIMULATED)


SCRIPTS = {
    "scripted:expert": "a script that knows the answer",
    "scripted:first": "a script that takes the first option",
    RANDOM: "a script that takes any option",
    SIMULATED: "a script that knows the answer and errs at set rates",
}
"""What answers under the name of a script."""


def describe_model(name: str) -> str:
    """A model's name; of a script also what it is, so that nobody takes it for a language model."""
    if not is_scripted(name):
        return name
    kind = SCRIPTS.get(name) or SCRIPTS.get(name.partition(":")[0], "a script")
    return f"{name}: {kind}, no language model"


def describe_models(model: str, roles: Mapping[str, object] | None = None) -> str:
    """The model of a run and those of its roles, in one line."""
    named = (f"{role} {describe_model(str(other))}" for role, other in (roles or {}).items())
    return "; ".join([f"model {describe_model(model)}", *named])


def check_model(name: str) -> str:
    """The name, if it has one of the forms. Raises UnknownName listing them."""
    kind, _, rest = name.partition(":")
    if kind == SIMULATED:
        errors_named(name)
        return name
    if kind == "openai" and EFFORT in rest and not all(rest.split(EFFORT, 1)):
        raise UnknownName(f"{name!r} names no effort; write openai:NAME{EFFORT}medium")
    if name in ("local", "scripted:first", "scripted:expert", RANDOM) or (kind in ("openai", "local") and rest):
        return name
    raise UnknownName(f"no model is called {name!r}; the forms are {FORMS}")


def ready(name: str) -> None:
    """Make sure that a model can be asked at all: its form is known, its key or weights are there.

    Raises:
        UnknownName: the name has none of the forms.
        Fault: the key, the local runtime or its weights are missing.
    """
    if check_model(name).startswith(("openai:", "local")):
        chat_model(name)


def model_label(model: BaseChatModel) -> str:
    """The name under which a model's calls are recorded."""
    return str(getattr(model, "model_name", None) or model._llm_type)


@lru_cache(maxsize=32)
def _script(name: str, expert: Responder | None, trial: int) -> BaseChatModel:
    # kept, because LangChain describes every new model object to itself, which takes longer than an answer
    blocks = bool(getattr(expert, "blocks", False))
    if name.partition(":")[0] == SIMULATED:
        errors = errors_named(name)
        slips = simulated(errors, expert, trial)
        return ScriptedChat(responder=slips, model_name=name_of(errors), blocks=blocks)
    responder = by_chance(trial) if name == RANDOM else expert if name == "scripted:expert" else None
    return ScriptedChat(responder=responder, model_name=name, blocks=blocks and responder is expert)


@lru_cache(maxsize=32)
def _endpoint(name: str, base_url: str | None, key: str | None) -> BaseChatModel:
    if key is None and base_url is None:
        raise Fault(
            "model", f"openai:{name} needs a key: export OPENAI_API_KEY=..., or CERTIGRAPH_BASE_URL=http://host/v1"
        )
    from certigraph.adapters.models.clients import endpoint_chat

    mask_logs()
    plain, _, effort = name.partition(EFFORT)
    return endpoint_chat(
        key=key or "none",
        timeout=TIMEOUT,
        model=plain,
        reasoning_effort=effort or None,
        base_url=base_url,
        temperature=0 if takes_temperature(plain) else None,
    )

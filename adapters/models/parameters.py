"""Which parameters of a request a model takes: those that its family is known to refuse, and those that it refused."""

import re
from collections.abc import Collection, Hashable
from weakref import WeakValueDictionary

from langchain_core.language_models import BaseChatModel

from certigraph.state.endings import Fault

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

"""A model's name -> a LangChain chat model."""

import os
from collections.abc import Hashable, Mapping
from functools import lru_cache
from urllib.parse import urlsplit

from langchain_core.language_models import BaseChatModel

from certigraph.adapters.models.chance import RANDOM, by_chance
from certigraph.adapters.models.parameters import takes_temperature
from certigraph.adapters.models.redact import mask_logs
from certigraph.adapters.models.scripted import ScriptedChat
from certigraph.adapters.models.simulated import SIMULATED, errors_named, name_of, simulated
from certigraph.adapters.protocols import Responder
from certigraph.state.endings import Fault, UnknownName

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
        from certigraph.adapters.models.local import local_chat

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
    from certigraph.adapters.models.endpoint_chat import endpoint_chat

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

"""Runnables that behave as chat models, and changes of the chat models inside them.

`with_fallbacks`, `with_retry`, `bind`, `with_config`, `configurable_fields` and `init_chat_model()` without a name give
Runnables of LangChain that are not chat models, but answer as one.
"""

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, cast

from langchain_core.callbacks import AsyncCallbackManagerForLLMRun, CallbackManager, CallbackManagerForLLMRun
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import BaseMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.runnables import Runnable, RunnableConfig, RunnableWithFallbacks
from langchain_core.runnables.base import RunnableBindingBase
from langchain_core.runnables.config import ensure_config
from langchain_core.runnables.configurable import DynamicRunnable
from pydantic import PrivateAttr

from certigraph.state.endings import Fault

OWN_PARAMETERS = ("tools", "tool_choice", "response_format")
"""Parameters of a request that certigraph sets, and that a bound model therefore must not set."""

ModelChange = Callable[[BaseChatModel], Runnable[Any, Any]]


class ComposedChat(BaseChatModel):
    """Chat model that is a Runnable made of chat models. Its attributes, such as its name, are those of the first."""

    composition: Any
    """The Runnable."""
    cache: Any = False
    """LangChain's cache is left to the models inside."""
    _resolved: dict[str, "ComposedChat"] = PrivateAttr(default_factory=dict)

    def resolve(self) -> "ComposedChat":
        """Return the composition for the current configuration; the same object for an equal configuration.

        Raises:
            Fault: ("model") the configuration names no model, or one that cannot be created.
        """
        if not _is_dynamic(self.composition):
            return self
        try:
            current = ComposedChat(composition=self.change(lambda model: model))
        except Exception as error:  # what a provider's package raises without its key is a class of its own
            reason = str(error).partition("\n")[0]
            fix = 'name one as config={"configurable": {"model": "PROVIDER:NAME"}}'
            raise Fault("model", f"the model of this configuration cannot be created: {reason}; {fix}") from error
        return self._resolved.setdefault(str(current._identifying_params), current)

    @property
    def models(self) -> list[BaseChatModel]:
        """The chat models inside, the first one to answer first; those of the current configuration."""
        found: list[BaseChatModel] = []
        self.change(lambda model: found.append(model) or model)  # type: ignore[func-returns-value]
        return found

    def change(self, change: ModelChange) -> Runnable[Any, Any]:
        """Return the Runnable with a change made to each chat model inside."""
        return _change_models(self.composition, change)

    def bind_tools(self, tools: Sequence[Any], **kwargs: Any) -> "ComposedChat":
        """Bind tools to each chat model in the way of its class."""
        return self.model_copy(update={"composition": self.change(lambda model: model.bind_tools(tools, **kwargs))})

    def __getattr__(self, name: str) -> Any:
        """Return an attribute of the first chat model."""
        if name.startswith("_"):
            return super().__getattr__(name)  # type: ignore[misc]
        return getattr(self.models[0], name)

    @property
    def _llm_type(self) -> str:
        return self.models[0]._llm_type

    @property
    def _identifying_params(self) -> dict[str, Any]:
        return {"models": [[model._llm_type, dict(model._identifying_params)] for model in self.models]}

    def _get_ls_params(self, stop: list[str] | None = None, **kwargs: Any) -> Any:
        return self.models[0]._get_ls_params(stop, **kwargs)

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        message = self.composition.invoke(messages, _config_below(run_manager), **_with_stop(stop, kwargs))
        return ChatResult(generations=[ChatGeneration(message=message)])

    async def _agenerate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        message = await self.composition.ainvoke(messages, _config_below(run_manager), **_with_stop(stop, kwargs))
        return ChatResult(generations=[ChatGeneration(message=message)])


def _config_below(run: CallbackManagerForLLMRun | AsyncCallbackManagerForLLMRun | None) -> RunnableConfig:
    """Return the configuration of the requests inside, whose callbacks see them as parts of the running one."""
    if run is None:
        return {}
    inherited = run.inheritable_handlers
    return {"callbacks": CallbackManager(inherited, inheritable_handlers=inherited, parent_run_id=run.run_id)}


def _with_stop(stop: list[str] | None, parameters: dict[str, Any]) -> dict[str, Any]:
    return {**parameters, "stop": stop} if stop else parameters


def as_chat_model(given: Any) -> BaseChatModel | None:
    """Return a chat model as it is, and a Runnable that behaves as one as a chat model; None for anything else.

    Raises:
        TypeError: the Runnable has tools or a form of the answer of its own.
    """
    if isinstance(given, BaseChatModel):
        return given
    return ComposedChat(composition=given) if _is_composition(given) else None


def _is_composition(given: Any) -> bool:
    match given:
        case BaseChatModel():
            return True
        case RunnableWithFallbacks():
            return all(map(_is_composition, given.runnables))
        case RunnableBindingBase():
            if own := [name for name in OWN_PARAMETERS if name in given.kwargs]:
                raise TypeError(f"the model has {own[0]} of its own: leave that out, and give tools as tools=[...]")
            return _is_composition(given.bound)
        case DynamicRunnable():
            return _is_composition(given.default)
        case _:
            return _is_configurable(given)


def _is_configurable(given: Any) -> bool:
    """Return whether a Runnable is what LangChain's `init_chat_model` returns for a model that the run configures."""
    return isinstance(given, Runnable) and type(given).__name__ == "_ConfigurableModel"


def _is_dynamic(runnable: Any) -> bool:
    match runnable:
        case RunnableWithFallbacks():
            return any(map(_is_dynamic, runnable.runnables))
        case RunnableBindingBase():
            return _is_dynamic(runnable.bound)
        case _:
            return not isinstance(runnable, BaseChatModel)


def _change_models(runnable: Any, change: ModelChange) -> Runnable[Any, Any]:
    match runnable:
        case BaseChatModel():
            return change(runnable)
        case RunnableWithFallbacks():
            first, *others = (_change_models(one, change) for one in runnable.runnables)
            return runnable.model_copy(update={"runnable": first, "fallbacks": others})
        case RunnableBindingBase():
            return runnable.model_copy(update={"bound": _change_models(runnable.bound, change)})
        case DynamicRunnable():
            return _change_models(runnable.prepare(ensure_config())[0], change)
        case _:
            return _change_models(runnable._model(ensure_config()), change)  # it is created for this configuration


@lru_cache(maxsize=256)
def spoils_answers(kind: type) -> bool:
    """Return whether a class of models wraps another model to inject faults; pydantic's classes find that slowly."""
    return bool(getattr(kind, "spoils", False))


def models_in(model: BaseChatModel) -> list[BaseChatModel]:
    """Return the chat models inside a chat model, the first one to answer first; itself if it wraps none."""
    if isinstance(model, ComposedChat):
        return model.models
    return models_in(cast(Any, model).chat) if spoils_answers(type(model)) else [model]


def unwrap_model(model: BaseChatModel) -> BaseChatModel:
    """Return the first chat model inside a chat model; itself if it wraps none."""
    return models_in(model)[0]


def change_models(model: BaseChatModel, change: Callable[[BaseChatModel], BaseChatModel]) -> BaseChatModel:
    """Return a chat model with a change made to each chat model inside it; to itself if it wraps none."""
    if isinstance(model, ComposedChat):
        return model.model_copy(update={"composition": model.change(change)})
    if not spoils_answers(type(model)):
        return change(model)
    inner = cast(Any, model).chat
    changed = change_models(inner, change)
    return model if changed is inner else model.model_copy(update={"chat": changed})

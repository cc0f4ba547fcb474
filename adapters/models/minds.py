"""Which model answers in a role."""

import asyncio
import warnings
from functools import cache

from langchain_core.language_models import BaseChatModel

from certigraph.adapters.context import Context
from certigraph.adapters.models.chat import chat_model, describe_model, is_scripted
from certigraph.adapters.protocols import Responder


class ScriptedModelWarning(UserWarning):
    """No model was named, so that a script answers; issued once a process."""


@cache
def warn_of_default(model: str) -> None:
    """Warn, once a process, that no model was named and which script answers."""
    fix = "name one, as in Context(model='openai:NAME')"
    message = f"the context names no model, so that the default answers: {describe_model(model)}; {fix}"
    warnings.warn(message, ScriptedModelWarning, stacklevel=2)


async def model_for(role: str, context: Context) -> BaseChatModel:
    """The chat model of a role: the live one that was handed over, else the one named for the role or for all.

    With the context's faults, where it names some.
    """
    model = await _named_for(role, context)
    if not context.faults:
        return model
    from certigraph.adapters.faults.model import FaultyModel

    return FaultyModel(chat=model, faults=context.faults, trial=context.trial)


async def _named_for(role: str, context: Context) -> BaseChatModel:
    if context.chat is not None:
        by_role = getattr(context.chat, "for_role", None)
        return by_role(role) if by_role else context.chat  # type: ignore[no-any-return]
    name = context.roles.get(role, context.model)
    if is_scripted(name):
        if role not in context.roles and "model" not in context.model_fields_set:
            warn_of_default(name)
        return chat_model(name, expert=_expert(context), trial=context.trial)
    # weights and certificates are read from disk: not on the event loop
    return await asyncio.to_thread(chat_model, name)


def _expert(context: Context) -> Responder | None:
    expert = getattr(context.benchmark, "expert", None)
    return expert() if expert else None

"""A chain that a model made of itself, asked of another model in its place."""

from typing import Any

from langchain_core.language_models import BaseChatModel
from langchain_core.runnables import Runnable, RunnableBinding, RunnableParallel, RunnableSequence


def rewired(chain: Runnable[Any, Any], old: BaseChatModel, new: BaseChatModel) -> Runnable[Any, Any]:
    """The chain with `new` wherever `old` stands: bound to arguments, in a sequence, or beside others."""
    if chain is old:
        return new
    match chain:
        case RunnableBinding():
            return chain.model_copy(update={"bound": rewired(chain.bound, old, new)})
        case RunnableSequence():
            return RunnableSequence(*(rewired(step, old, new) for step in chain.steps))
        case RunnableParallel():
            return RunnableParallel({name: rewired(step, old, new) for name, step in chain.steps__.items()})
        case _:
            return chain

"""Models as callers give them, chat models, Runnables and names, as fields of the context."""

from collections.abc import Mapping
from typing import Any

from certigraph.adapters.composed_chat import as_chat_model
from certigraph.adapters.extras import import_extra
from certigraph.adapters.models.chat_models import is_known_model, is_local, is_scripted
from certigraph.adapters.processes import is_loop_running
from certigraph.state.endings import Fault


def role_fields(roles: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of the context for the models of roles: those by name, and the objects."""
    given = {role: model_fields(model, f"roles[{role!r}]") for role, model in roles.items()}
    return {
        "roles": {role: fields["model"] for role, fields in given.items() if "model" in fields},
        "chats": {role: fields["chat"] for role, fields in given.items() if "chat" in fields},
    }


def model_fields(model: Any, keyword: str = "model") -> dict[str, Any]:
    """Return the field of the context for a model: an object, or a name.

    Args:
        model: the model.
        keyword: how the caller gave it, for messages.

    Raises:
        TypeError: it is neither.
        ValueError: it is a script of benchmarks.
        Fault: ("model") the package, the key or the weights of a named model are missing.
    """
    if (chat := as_chat_model(model)) is not None:
        return {"chat": chat}
    if not isinstance(model, str):
        script = "; a function answers as certigraph.ScriptedChat(responder=...)" if callable(model) else ""
        shown = " ".join(repr(model).split())[:100]
        raise TypeError(f"{keyword}={shown}: give a LangChain chat model, a Runnable that is one, or its name{script}")
    if is_scripted(model):
        reason = "scripts by name know the tasks of benchmarks, not your tools"
        raise ValueError(f"{keyword}={model!r}: {reason}; give a chat model, its name, or a certigraph.ScriptedChat")
    if is_local(model) and not is_loop_running():  # on a server's event loop nothing may look at files
        from certigraph.adapters.models.clients import check_local_package, find_weights

        check_local_package()  # what is missing is named here, and not in the middle of a run
        find_weights(model)
    if is_known_model(model):
        return {"model": model}
    chat_models = import_extra("langchain.chat_models", f"the model {model!r} needs", "langchain", "model")
    try:
        return {"chat": chat_models.init_chat_model(model)}
    except Exception as error:  # what a provider's package raises without its key is a class of its own
        reason = str(error).partition("\n")[0]
        raise Fault("model", f"the model {model!r} cannot be used: {reason}") from error


__all__ = ["model_fields", "role_fields"]

"""What a client of a server may set of a run's context."""

from collections.abc import Mapping
from typing import Any

from certigraph.adapters.models.chat_models import is_local
from certigraph.adapters.protocols import Context
from certigraph.state.endings import Fault

SERVED_FIELDS = ("model", "window", "budget", "limits")
"""Fields of the context that a client of a server may set. The server offers no others, and drops them."""


def served_form(fields: tuple[str, ...]) -> dict[str, Any]:
    """Return the JSON schema of the context with these fields alone."""
    form = Context.model_json_schema()
    return {**form, "properties": {name: form["properties"][name] for name in fields}}


def check_client_context(context: Any) -> None:
    """Check that a context in JSON, as clients of a server give it, names no file of this machine as weights.

    Raises:
        Fault: ("model") it does.
    """
    if not isinstance(context, Mapping):
        return
    roles = context.get("roles")
    for model in (context.get("model"), *(roles.values() if isinstance(roles, Mapping) else ())):
        if isinstance(model, str) and is_local(model) and not _is_known(model):
            reason = "a context in JSON selects local weights by a known name alone"
            raise Fault(
                "model",
                f"the model {model[:100]!r} is refused: {reason}; whoever runs the server names a file by "
                "CERTIGRAPH_GGUF, and a program by certigraph.Context(model=...)",
            )


def _is_known(model: str) -> bool:
    from certigraph.adapters.models.clients import NAMED_WEIGHTS

    return model.partition(":")[2] in ("", *NAMED_WEIGHTS)

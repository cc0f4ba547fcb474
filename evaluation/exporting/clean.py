"""A trajectory as it may leave the house: without keys, without folders of this machine, in valid Unicode."""

import re
from collections.abc import Callable
from datetime import datetime
from functools import cache
from typing import Any

from certigraph.adapters.models.redact import redact
from certigraph.evaluation.figures.traces import method_of
from certigraph.evaluation.settings import model_name
from certigraph.state.endings import Fault
from certigraph.state.trajectory import Header, Trajectory

_FOLDERS = re.compile(r"(?<![\w:/.~])~?/(?:[^\s/:'\"]+/)+")
_CONTEXT = ("model", "roles", "budget", "limits", "trial", "data")


def cleaned(trajectory: Trajectory) -> Trajectory:
    """The same run with keys masked, lone surrogates replaced, and of a path in a message the last name alone."""
    # the same texts come again and again: a view, its observation, the names of fields
    copy = Trajectory.model_validate(_plain(trajectory.model_dump(), cache(_valid)))
    footer = copy.footer and copy.footer.model_copy(update={"message": without_folders(copy.footer.message)})
    return copy.model_copy(update={"footer": footer})


def circumstances(header: Header) -> dict[str, Any]:
    """What a header says of method, operators, context and versions, without the folders of the machine it ran on."""
    context = {key: header.context[key] for key in _CONTEXT if header.context.get(key)}
    roles = context.get("roles")
    if isinstance(roles, dict):
        context["roles"] = {role: model_name(str(name)) for role, name in roles.items()}
    about = {"context": context, "versions": header.versions}
    told = {"method": method_name(header), "operators": header.operators, **about}
    plain: dict[str, Any] = _plain(told, without_folders)
    return plain


def method_name(header: Header) -> str:
    """The graph with what is swapped in it, as in `sdp validate=always_pass`."""
    return without_folders(str(method_of(header)))


def started(header: Header) -> datetime:
    """When the run began. Raises Fault where the header holds no ISO date."""
    try:
        return datetime.fromisoformat(header.created)
    except ValueError as error:
        told = f"run {header.run_id} was created {header.created!r}, which is no ISO date"
        raise Fault("data", f"{told}; restore its trajectory.jsonl or leave the run out") from error


def without_folders(text: str) -> str:
    """The text with absolute paths cut to their last name."""
    return _FOLDERS.sub("", text)


def _valid(text: str) -> str:
    return redact(text.encode("utf-16", "surrogatepass").decode("utf-16", "replace"))


def _plain(value: Any, change: Callable[[str], str]) -> Any:
    if isinstance(value, str):
        return change(value)
    if isinstance(value, dict):
        return {change(key): _plain(part, change) for key, part in value.items()}
    return [_plain(part, change) for part in value] if isinstance(value, (list, tuple)) else value

"""Members that a chat model may have or lack, looked up quickly."""

from functools import lru_cache
from typing import Any

from pydantic import BaseModel


def get_member(model: Any, name: str, default: Any = None) -> Any:
    """Return a member of a model, or the default: `getattr`, but quick for a pydantic model that lacks the member."""
    return getattr(model, name, default) if _may_have(model, name) else default


def has_member(model: Any, name: str) -> bool:
    """Return whether a model has a member: `hasattr`, but quick for a pydantic model that lacks it."""
    return _may_have(model, name) and hasattr(model, name)


def _may_have(model: Any, name: str) -> bool:
    return name in getattr(model, "__dict__", ()) or not _lacks(type(model), name)  # type: ignore[arg-type]


@lru_cache(maxsize=256)
def _lacks(kind: type, name: str) -> bool:
    """Return whether no object of a class has a member that is not in the object's own dictionary.

    Pydantic formats an error message for a missing member, which takes longer than the rest of the work on a request.
    """
    if not issubclass(kind, BaseModel) or vars(BaseModel)["__getattr__"] is not kind.__getattr__:  # type: ignore[attr-defined]
        return False  # it may find members of its own
    allows_others = kind.model_config.get("extra") == "allow" or name in kind.__private_attributes__
    return not allows_others and not any(name in vars(base) for base in kind.__mro__)

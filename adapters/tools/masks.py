"""Tools whose answers and errors are masked before LangChain's callbacks, and so tracers, see them."""

import traceback
from collections.abc import Callable
from dataclasses import replace
from functools import cache, wraps
from typing import Any

from langchain_core.tools import BaseTool, ToolException
from langgraph.errors import GraphBubbleUp
from langgraph.types import Command
from pydantic import BaseModel

from certigraph.adapters.redaction import redact_message, redact_value


class MaskedError(Exception):
    """An error in place of one whose text holds a secret: type and masked text, with the masked traceback as a note."""

    def __init__(self, original: BaseException, trace: str) -> None:
        super().__init__(redact_message(f"{type(original).__name__}: {original}"))
        self.original = original
        """The error as the tool raised it."""
        self.add_note(trace)


def masked(tool: BaseTool) -> BaseTool:
    """Return a tool that shares its attributes with the given one and masks what it answers and raises."""
    kind = _masked_kind(type(tool))
    view = kind.__new__(kind)
    for name in ("__dict__", "__pydantic_fields_set__", "__pydantic_extra__", "__pydantic_private__"):
        object.__setattr__(view, name, getattr(tool, name))
    return view


@cache
def _masked_kind(kind: type[BaseTool]) -> type[BaseTool]:
    methods: dict[str, Any] = {"_run": _mask_sync(kind._run), "__module__": kind.__module__}
    if kind._arun is not BaseTool._arun:  # else it calls the other one
        methods["_arun"] = _mask_async(kind._arun)
    return type(kind.__name__, (kind,), methods)


def _mask_sync(run: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(run)
    def masking(*args: Any, **kwargs: Any) -> Any:
        try:
            return mask_answer(run(*args, **kwargs))
        except (Exception, SystemExit) as error:
            shown = _mask_error(error)
            if shown is error:
                raise
        raise shown

    return masking


def _mask_async(run: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(run)
    async def masking(*args: Any, **kwargs: Any) -> Any:
        try:
            return mask_answer(await run(*args, **kwargs))
        except (Exception, SystemExit) as error:
            shown = _mask_error(error)
            if shown is error:
                raise
        raise shown

    return masking


def mask_answer(answer: Any) -> Any:
    """Return what a tool returned with secrets masked; an object that is not JSON and shows one becomes its text."""
    if isinstance(answer, Command):
        update = redact_value(answer.update, redact_message)
        return answer if update is answer.update else replace(answer, update=update)
    if isinstance(answer, tuple) and len(answer) == 2:  # perhaps content and artifact, which may be any object
        return (mask_answer(answer[0]), redact_value(answer[1], redact_message))
    if isinstance(answer, list):
        parts = [mask_answer(part) for part in answer]
        return answer if all(new is part for new, part in zip(parts, answer, strict=True)) else parts
    safe = redact_value(answer, redact_message)
    if isinstance(safe, str | BaseModel):
        return safe
    text = str(safe)  # as which LangChain shows an object that is not JSON
    return safe if (shown := redact_message(text)) == text else shown


def _mask_error(error: BaseException) -> BaseException:
    """Return the error, or a `MaskedError` in its place if what tracers show of it holds a secret."""
    if isinstance(error, GraphBubbleUp):
        return error
    trace = _format_trace(error)
    if (safe := redact_message(trace)) == trace:
        return error
    if isinstance(error, ToolException):  # its content becomes the answer, if the tool says so, by its type
        error.args = redact_value(error.args, redact_message)
        vars(error).update({name: redact_value(value, redact_message) for name, value in vars(error).items()})
        error.__cause__, error.__suppress_context__ = None, True
        if (trace := _format_trace(error)) == redact_message(trace):
            return error
    return MaskedError(error, safe)


def _format_trace(error: BaseException) -> str:
    """Return what tracers show of an error: its representation, and the traceback with the errors behind it."""
    return f"{error!r}\n{''.join(traceback.format_exception(error))}"

"""What a call's effect is bound to, and which errors leave it unknown whether the effect happened.

A call has an unknown outcome if its request may have left before the answer was lost: it ran out of time, the
connection broke, the process ended. An error that shows that nothing was sent, such as a refused connection, is a
plain failure.
"""

import inspect
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from certigraph.adapters.processes import is_async_callable, run_in_lone_thread

Scope = Literal["turn", "thread", "store"]
"""Within what an effect happens once: a turn of a thread, a thread, or all threads of a checkpointer."""

LookUp: TypeAlias = Callable[..., Any]
"""A function of a call's arguments, plain or async, that finds out whether its effect happened: True or the answer as a
text if it did, False if it did not, None if that cannot be found out."""


@dataclass(frozen=True)
class Once:
    """How the effect of a tool happens once: `effects={"refund": Once(...)}`.

    Args:
        key: function of the arguments, by name, that returns what the effect is bound to, such as `refund:17`. A second
            call with an equal key is not made and gets the answer of the first. Unset: the arguments themselves; within
            a turn, equal calls that the agent chooses again are then calls of their own.
        scope: within what the effect happens once.
        on_unknown: what settles a call of which nobody knows whether it took effect: a person (`ask`), the agent, which
            learns of it and looks (`tell`), or a function that looks. Without a checkpointer `ask` means `tell`.
        ambiguous: further errors of the tool after which the outcome is unknown.
    """

    key: Callable[..., str] | None = None
    scope: Scope = "turn"
    on_unknown: Literal["ask", "tell"] | LookUp = "ask"
    ambiguous: tuple[type[BaseException], ...] = ()

    def __post_init__(self) -> None:
        """Check the arguments.

        Raises:
            ValueError, TypeError: an argument has another form.
        """
        if self.scope not in ("turn", "thread", "store"):
            raise ValueError(f"Once(scope={self.scope!r}): give 'turn', 'thread' or 'store'")
        if self.on_unknown not in ("ask", "tell") and not callable(self.on_unknown):
            raise ValueError(f"Once(on_unknown={self.on_unknown!r:.100}): give 'ask', 'tell' or a function")
        if self.key is not None and not callable(self.key):
            raise TypeError(f"Once(key={self.key!r:.100}): give a function of the arguments that returns a text")

    def bind(self, name: str, args: Mapping[str, Any], turn: str, chosen: str) -> str:
        """Return the key under which a call is entered in the ledger.

        Args:
            name: name of the tool.
            args: arguments of the call.
            turn: id of the turn.
            chosen: identifies the call as the agent chose it: its key if the rule binds the effect to nothing else.
        """
        place = turn if self.scope == "turn" else self.scope
        if self.key is not None:
            return f"{place}|{name}|{self.key(**args)}"
        return chosen if self.scope == "turn" else f"{place}|{name}|{sorted(args.items())!r}"


Effect: TypeAlias = Literal["once", "repeatable"] | Once
"""What a call of a tool does: something that must happen `once`, or something that may be repeated, such as reading."""


def check_effect(name: str, effect: object) -> None:
    """Check what a user gave as the effect of a tool.

    Raises:
        ValueError: it is not an effect.
    """
    if not isinstance(effect, Once) and effect not in ("once", "repeatable"):
        raise ValueError(f"effects[{name!r}] is {effect!r}: give 'once', 'repeatable' or certigraph.Once(...)")


async def look_up_outcome(look_up: LookUp, args: Mapping[str, Any]) -> Any:
    """Call the function that finds out whether the effect of a call happened."""
    if is_async_callable(look_up):
        return await look_up(**args)
    found = await run_in_lone_thread(look_up, **args)
    return await found if inspect.isawaitable(found) else found


AMBIGUOUS = (
    ("http.client", "IncompleteRead"),
    ("httpx", "ReadTimeout"),
    ("httpx", "WriteTimeout"),
    ("httpx", "ReadError"),
    ("httpx", "WriteError"),
    ("httpx", "CloseError"),
    ("httpx", "RemoteProtocolError"),
    ("httpcore", "ReadTimeout"),
    ("httpcore", "WriteTimeout"),
    ("httpcore", "ReadError"),
    ("httpcore", "WriteError"),
    ("httpcore", "RemoteProtocolError"),
    ("requests.exceptions", "ReadTimeout"),
    ("requests.exceptions", "ChunkedEncodingError"),
    ("urllib3.exceptions", "ReadTimeoutError"),
    ("urllib3.exceptions", "ProtocolError"),
    ("aiohttp", "ServerDisconnectedError"),
    ("aiohttp", "ServerTimeoutError"),
    ("aiohttp", "ClientPayloadError"),
    ("anyio", "BrokenResourceError"),
    ("anyio", "ClosedResourceError"),
    ("anyio", "EndOfStream"),
    ("botocore.exceptions", "ReadTimeoutError"),
    ("botocore.exceptions", "ConnectionClosedError"),
)
"""Errors of clients after which a request may have taken effect, by module and name."""

NOT_SENT = (
    ("builtins", "ConnectionRefusedError"),
    ("socket", "gaierror"),
    ("httpx", "ConnectError"),
    ("httpx", "ConnectTimeout"),
    ("httpx", "PoolTimeout"),
    ("httpcore", "ConnectError"),
    ("httpcore", "ConnectTimeout"),
    ("httpcore", "PoolTimeout"),
    ("requests.exceptions", "ConnectTimeout"),
    ("urllib3.exceptions", "NewConnectionError"),
    ("urllib3.exceptions", "ConnectTimeoutError"),
    ("aiohttp", "ClientConnectorError"),
    ("aiohttp", "ConnectionTimeoutError"),
    ("botocore.exceptions", "ConnectTimeoutError"),
    ("botocore.exceptions", "EndpointConnectionError"),
)
"""Errors that show that no request left."""


def is_ambiguous(error: BaseException, further: tuple[type[BaseException], ...] = ()) -> bool:
    """Return whether a call that failed with an error may have taken effect.

    The errors that caused it count as well: clients wrap what the connection raised.
    """
    chain = list(_chain(error))
    if any(isinstance(one, (*_loaded(AMBIGUOUS), *further)) or _is_mcp_loss(one) for one in chain):
        return True
    if any(isinstance(one, _loaded(NOT_SENT)) for one in chain):
        return False  # a timeout below it is that of connecting
    lost = (TimeoutError, ConnectionResetError, ConnectionAbortedError, BrokenPipeError)
    return any(isinstance(one, lost) for one in chain)


def _loaded(names: tuple[tuple[str, str], ...]) -> tuple[type[BaseException], ...]:
    # looked up in sys.modules: whoever raised the error has imported its module
    found = (getattr(sys.modules.get(module), name, None) for module, name in names)
    return tuple(one for one in found if isinstance(one, type) and issubclass(one, BaseException))


def _chain(error: BaseException) -> Iterator[BaseException]:
    waiting, seen = [error], set[int]()
    while waiting:
        one = waiting.pop(0)
        if id(one) in seen:
            continue
        seen.add(id(one))
        yield one
        inner = one.exceptions if isinstance(one, BaseExceptionGroup) else ()
        wrapped = (*one.args, getattr(one, "reason", None))  # as requests and urllib3 wrap errors
        around = (*inner, *wrapped, one.__cause__, one.__context__)
        waiting += [cause for cause in around if isinstance(cause, BaseException)]


MCP_CODES = (408, -32000)
"""Codes of errors of MCP clients: no answer in time, and a connection that was closed."""


def _is_mcp_loss(error: BaseException) -> bool:
    """Return whether an MCP server gave no answer: its client raises an error of its own with a code."""
    return type(error).__name__ == "McpError" and getattr(getattr(error, "error", None), "code", None) in MCP_CODES


__all__ = ["Effect", "LookUp", "Once", "Scope", "check_effect", "is_ambiguous", "look_up_outcome"]

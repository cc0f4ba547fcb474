"""How a run may end: a closed set of names, and the exceptions that carry the ones raised on the way."""

from typing import Literal

GOAL = "goal"
WORLD_ENDED = "world_ended"
GAVE_UP = "gave_up"
EXHAUSTED = "exhausted"

INTERRUPTED = "interrupted"
"""No ending: what is said of a run that has none on record."""

LimitKind = Literal["calls", "tokens", "usd", "seconds", "steps", "plan", "subtasks", "rounds"]
"""What a run may use up: its budget, the steps of an episode, and what a method allows itself (`METHODS_OWN`)."""

METHODS_OWN: tuple[LimitKind, ...] = ("plan", "subtasks", "rounds")
"""Limits that only some methods have: a run that one of them ended says less about the method than about the limit."""

FAULTS = frozenset({"error:environment", "error:data"})
"""Endings by a failure of the world or its data: such a run says nothing about a method, so no rate counts it.

`error:model` and `error:operator` count as failures of the method: answers that fit no form and operators that raise
are its own, and an endpoint that is down for long cannot be told from them afterwards."""

Boundary = Literal["model", "environment", "data", "operator"]


def resumable(ending: str) -> bool:
    """Whether a run can go on from its last checkpoint: an ending of the method's own is final."""
    return ending == INTERRUPTED or ending.startswith(("limit:", "error:"))


def is_error(ending: str) -> bool:
    """Whether something outside the method failed: the ending is `error:<boundary>`."""
    return ending.startswith("error:")


class UnknownName(KeyError):
    """A graph, benchmark, task, operator or model that does not exist; the message lists those that do."""

    def __str__(self) -> str:
        """The message as it was written, where KeyError would quote it."""
        return str(self.args[0])


class Interrupted(Exception):
    """Ctrl-C, with the command that goes on; the command line library would swallow a KeyboardInterrupt's words."""


class Stopped(Exception):
    """A run was stopped from outside its graph; `ending` is the name that goes into the trajectory's footer."""

    ending: str


class LimitReached(Stopped):
    """A budget or another limit is spent. The thread stays resumable with a larger one.

    Args:
        kind: what is spent, which names the ending.
        limit: how much there was.
        spent: how much was used.
        happened: what happened, in words that name both numbers; that so much of the kind is spent otherwise.
        option: the field of `Budget` or `Limits` that is to be larger; the kind otherwise.
    """

    def __init__(self, kind: LimitKind, limit: float, spent: float, *, happened: str = "", option: str = "") -> None:
        self.kind, self.limit, self.spent = kind, limit, spent
        self.ending = f"limit:{kind}"
        self.of_method = kind == "steps" or kind in METHODS_OWN
        more = f"--budget {option or kind}={2 * max(limit, spent) or 1:g}"
        super().__init__(f"{happened or f'{spent:g} of {limit:g} {kind} are spent'}; resume with more: {more}")


class Fault(Stopped):
    """Something outside the method failed: the model's endpoint, the world, the data or an operator's own code."""

    def __init__(self, boundary: Boundary, message: str) -> None:
        self.boundary = boundary
        self.ending = f"error:{boundary}"
        super().__init__(message)

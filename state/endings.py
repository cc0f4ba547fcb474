"""The ways a run may end, a closed set of names, and the exceptions that stop a run with one of them.

No record is defined here, so that the command line can handle these exceptions without loading pydantic.
"""

from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from typing import Any, Literal

GOAL = "goal"
WORLD_ENDED = "world_ended"
GAVE_UP = "gave_up"
EXHAUSTED = "exhausted"

FINISHED = "finished"
"""Ending of a user's own graph that reached its end without naming an ending."""

QUESTION = "question"
"""Ending of a turn of an agent whose answer asks the user something: it is not an end of the work, so nobody judged it.
"""

REFUSED = "refused"
"""Ending of a run that chose a call again which was denied twice, where no person can decide about it."""

STOPPED = "stopped"
"""Ending of a turn that something else than an answer of the model has ended, such as a limit of LangChain's."""

INTERRUPTED = "interrupted"
"""Status of a run whose trajectory records no ending."""

LimitKind = Literal["calls", "tokens", "usd", "seconds", "steps", "plan", "subtasks", "rounds"]
"""Limits that can end a run: those of the budget, the steps of an episode, and `METHOD_LIMITS`."""

METHOD_LIMITS: tuple[LimitKind, ...] = ("plan", "subtasks", "rounds")
"""Internal limits that only some methods have, such as the maximum number of subtasks.

The score of a run that hit one says more about the limit than about the method.
"""

FAULT_ENDINGS = frozenset({"error:environment", "error:data"})
"""Endings of runs in which the world or its data failed. No success rate counts these runs.

They say nothing about the method. `error:model` and `error:operator` do count as failures of the method: malformed
answers and operators that raise are its fault, and an endpoint that was down for long cannot be distinguished from them
afterwards.
"""

Boundary = Literal["model", "environment", "data", "operator"]
"""Part of a run that can fail. If one does, the ending of the run is `error:<boundary>`."""


def is_resumable(ending: str) -> bool:
    """Return whether a run can continue from its last checkpoint. Endings that the method itself chose are final."""
    return ending == INTERRUPTED or ending.startswith(("limit:", "error:"))


def is_error(ending: str) -> bool:
    """Return whether the model, the world, the data or an operator failed: the ending is `error:<boundary>`."""
    return ending.startswith("error:")


class UnknownName(KeyError):
    """A graph, benchmark, task, operator or model does not exist, or a value is not allowed.

    The message suggests the most similar name or lists the existing ones, or says what is allowed.
    """

    def __init__(self, message: str, name: str = "", known: Iterable[str] = (), more: str = "") -> None:
        """Complete the message about a name that was looked up.

        Args:
            message: what happened, with the name.
            name: the unknown name; empty if none was looked up.
            known: the names among which it was looked up.
            more: text after a suggestion, and in place of a list of all names.
        """
        names = list(dict.fromkeys(known))
        if near := _most_similar(name, names):
            message = f"{message}; did you mean {near}? {more}".rstrip()
        elif more or names:
            message = f"{message}; {more or 'known: ' + ', '.join(names)}"
        super().__init__(message)

    def __str__(self) -> str:
        """Return the message without the quotes that KeyError would add."""
        return str(self.args[0])


def _most_similar(name: str, known: Sequence[str]) -> str:
    """Return the known name that is most similar to `name`, with or without its prefix; empty if none is similar."""
    unprefixed = {one.replace(":", ".").rpartition(".")[2]: one for one in reversed(known)}
    spelled = unprefixed | {one: one for one in known}
    # a word with another first letter is rather another word than a slip
    near = get_close_matches(name, [one for one in spelled if one[:1] == name[:1]], 1)
    return spelled[near[0]] if near else ""


class AnswerMissing(UnknownName):
    """A run waits for an answer of a person, and none was given. The message has the question and how to answer it."""


class Interrupted(Exception):
    """The user pressed Ctrl-C. The message has the command that resumes the run.

    It is not a KeyboardInterrupt because the command line library would drop the message of one.
    """


class Stopped(RuntimeError):
    """Base class of exceptions that stop a run; `ending` is the ending that the trajectory's footer then records.

    It is a RuntimeError because LangGraph's server hides the messages of other exceptions from its clients.
    """

    ending: str
    outcomes: Sequence[Any] = ()
    """The `Outcome` of the sub-task that was cut off, in which its effects stand."""
    inner_usage: Sequence[Any] = ()
    """What the nodes of that sub-task had spent, each a `Usage`."""

    def __reduce__(self) -> Any:
        """Return how the exception is restored in another process, such as the parent of a worker."""
        return _restore_exception, (type(self), self.args, self.__dict__)


def _restore_exception(kind: type[Stopped], args: tuple[Any, ...], attributes: dict[str, Any]) -> Stopped:
    error = kind.__new__(kind)
    error.args, error.__dict__ = args, attributes
    return error


class LimitReached(Stopped):
    """A budget or another limit is used up. The run can be resumed with a larger one.

    Args:
        kind: what is used up; the ending is `limit:<kind>`.
        limit: the amount that was allowed.
        spent: the amount that was used.
        happened: sentence for the message that names both numbers; default: "SPENT of LIMIT KIND are spent", or if the
            limit was larger before, "SPENT KIND are spent, and the limit is LIMIT".
        option: field of `Budget` or `Limits` that has to be larger; default: `kind`.
    """

    usage: Any = None
    """What the node had spent in which the limit was reached, a `Usage`; None outside a node."""
    messages: Sequence[Any] = ()
    """Messages of the work of an inner graph that the limit cut off."""

    def __init__(self, kind: LimitKind, limit: float, spent: float, *, happened: str = "", option: str = "") -> None:
        self.kind, self.limit, self.spent = kind, limit, spent
        self.ending = f"limit:{kind}"
        self.of_method = kind == "steps" or kind in METHOD_LIMITS
        spent_shown, limit_shown, more = map(_format_amount, (spent, limit, 2 * max(limit, spent) or 1))
        self._more = f"{option or kind}={more}"
        if spent > limit:
            happened = happened or f"{spent_shown} {kind} are spent, and the limit is {limit_shown}"
        self.happened = happened or f"{spent_shown} of {limit_shown} {kind} are spent"
        super().__init__(f"{self.happened}; resume with more: --budget {self._more}")

    def advise_caller(self) -> None:
        """Replace the advice for the command line by that for the caller of a graph, which has no run folder."""
        fields = "Limits" if self.of_method else "Budget"
        goes_on = "with a checkpointer invoke(None, config, context=Context(...)) goes on"
        self.args = (f"{self.happened}; give the context {fields}({self._more}); {goes_on}",)


def _format_amount(amount: float) -> str:
    """Format an amount so that it can be given as a budget: whole numbers without an exponent."""
    return f"{amount:.0f}" if float(amount).is_integer() else f"{amount:.6g}"


class Refused(Stopped):
    """A call was denied twice before it was made, and no person can decide about it. The run cannot be resumed."""

    ending = REFUSED
    usage: Any = None
    """What the node had spent in which the call was denied, a `Usage`; None outside a node."""
    messages: Sequence[Any] = ()
    """Messages of the work of an inner graph that the denial cut off."""


class Exhausted(Stopped):
    """A search repeats its actions and finds nothing new. The message names the actions."""

    ending = EXHAUSTED


class Fault(Stopped):
    """The model's endpoint, the world, the data or the code of an operator failed."""

    def __init__(self, boundary: Boundary, message: str) -> None:
        self.boundary = boundary
        self.ending = f"error:{boundary}"
        super().__init__(message)


class UnusableAnswer(Fault):
    """No answer of a model to a request had the form that was requested."""

"""Channel types of graph state besides LangGraph's default (last value wins): append-only logs and plans.

A checkpoint stores only what changed, so its size does not grow with the length of the run.
"""

from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from operator import is_
from threading import local
from typing import Annotated, Any, Generic, NamedTuple, Protocol, Self, TypeVar, get_type_hints

from langgraph.channels import DeltaChannel, LastValue

from certigraph.state.records import Predicate

T = TypeVar("T")
E = TypeVar("E")
Index = TypeVar("Index", bound="LogIndex")

SNAPSHOT_EVERY = 5000
"""Number of writes between two full copies of a channel.

Frequent copies make the stored history quadratic in length.
"""


def _extend_log(log: list[Any], writes: Sequence[list[Any]]) -> list[Any]:
    return [*log, *(entry for write in writes for entry in write)]


def _last_write(plan: list[Any], writes: Sequence[list[Any]]) -> list[Any]:
    return list(writes[-1]) if writes else plan


class ChangesChannel(DeltaChannel[Any]):
    """Delta channel whose empty value is stored in every checkpoint.

    LangGraph rebuilds a delta channel from the latest checkpoint that has its value. Without the empty ones, a channel
    that was written in the first of many turns and never again would be searched for through all of them.
    """

    def checkpoint(self) -> Any:
        """Return what a checkpoint stores: the value if it is empty, else LangGraph's mark for a value left out."""
        return self.value if self.is_available() and self.value == self.typ() else super().checkpoint()


class TurnsChannel(ChangesChannel):
    """Delta channel of a conversation, which is stored whole where a person's message begins a turn.

    What is read of a thread then does not grow with the number of its turns, nor what is stored with that of its steps.
    """

    _begins = False

    def update(self, values: Sequence[Any]) -> bool:
        """Take in what was written, and note whether it has a message of a person."""
        before = {id(one) for one in self.value} if self.is_available() else set[int]()
        changed = super().update(values)
        self._begins = changed and any(
            getattr(one, "type", "") == "human" and id(one) not in before for one in self.value
        )
        return changed

    def checkpoint(self) -> Any:
        """Return what a checkpoint stores: the whole value where a turn begins, else as `ChangesChannel`."""
        return self.value if self._begins else super().checkpoint()


# One alias for every append-only log, so that LangGraph's beta DeltaChannel can be replaced in one place.
Log = Annotated[list[T], ChangesChannel(_extend_log, snapshot_frequency=SNAPSHOT_EVERY)]

Plan = Annotated[list[Predicate], ChangesChannel(_last_write, snapshot_frequency=SNAPSHOT_EVERY)]


class ReadChannel(LastValue[Any]):
    """Channel that stores a JSON object, and whose value is what a function reads from it.

    A class of the caller's stands in no checkpoint then, and its validators see only what was given.

    Args:
        read: makes the value of an object; where it raises ValueError, the object itself is the value.
        key: name of the channel.
    """

    def __init__(self, read: Callable[[Mapping[str, Any]], Any], key: str = "") -> None:
        super().__init__(read, key)  # under LangGraph's name for the type, with which it makes copies
        self._known: tuple[Any, Any] = (None, None)

    ValueType = UpdateType = property(lambda self: Any)

    def copy(self) -> Self:
        """Return a copy of the channel."""
        same = super().copy()
        same._known = self._known
        return same

    def get(self) -> Any:
        """Return what was read from the object; any other value as it is."""
        given = super().get()
        if not isinstance(given, Mapping):
            return given
        if self._known[0] is not given:
            try:
                self._known = given, self.typ(given)
            except ValueError:  # of an earlier form
                self._known = given, given
        return self._known[1]


# Indexes of logs: what is found by looking at a whole log, without looking at all of it at every superstep.


class LogIndex(Protocol):
    """Index of a log's entries."""

    def add(self, entries: Any, /) -> object:
        """Take in entries that were added to the log."""


class LogIndexes(Generic[E, Index]):
    """Function of a log that returns its index, and takes in only the entries that were added since the last call.

    A log that does not begin with the very same entries, such as that of another fork of a thread, is read again from
    its beginning. Use an index at once and do not change it: a later call does.

    Args:
        create: creates an empty index.
    """

    def __init__(self, create: Callable[[], Index]) -> None:
        self._create, self._kept = create, local()

    def __call__(self, log: Sequence[E]) -> Index:
        """Return the index of a log."""
        kept: OrderedDict[int, tuple[tuple[E, ...], Index]] = self._kept.__dict__.setdefault("logs", OrderedDict())
        # The kept entries stay alive, so that no other object gets the id of the first one.
        before, index = kept.pop(id(log[0]), ((), None)) if log else ((), None)
        known = len(before)
        if index is None or len(log) < known or not all(map(is_, before, log)):
            known, index = 0, self._create()
        index.add(log[known:])
        if log:
            kept[id(log[0])] = (*log,), index  # a copy, because the caller may change a list
            if len(kept) > MAX_INDEXED_LOGS:
                kept.popitem(last=False)
        return index


MAX_INDEXED_LOGS = 64
"""Maximum number of logs of one kind whose indexes are kept in a thread: one for each run at the same time."""


class DeltaChannels(NamedTuple):
    """How the channels of a state that store only what changed take an update.

    In every other channel the last value replaces the one before.
    """

    lists: frozenset[str]
    """Names of the channels that are empty lists before their first update."""
    logs: frozenset[str]
    """Names of those of `lists` that append an update to the list that they hold; the others replace it."""
    values: Mapping[str, "ValueChannel"]
    """The other channels by name: their updates may be a part of their value."""


class ValueChannel(NamedTuple):
    """A channel with a value that is not a list.

    `empty` creates its value before the first update. `reducer` takes the value and updates in order, whose types its
    annotations name.
    """

    empty: Callable[[], Any]
    reducer: Callable[[Any, Sequence[Any]], Any]


@lru_cache(maxsize=32)
def delta_channels_of(state: Any) -> DeltaChannels:
    """Return the channels of a state, given as its TypedDict, that store only what changed."""
    channels = {
        name: (hint.__origin__, annotation.reducer)
        for name, hint in get_type_hints(state, include_extras=True).items()
        for annotation in getattr(hint, "__metadata__", ())
        if _is_delta_channel(annotation)
    }
    of_lists = {name: reducer for name, (_, reducer) in channels.items() if reducer in (_extend_log, _last_write)}
    return DeltaChannels(
        frozenset(of_lists),
        frozenset(name for name, reducer in of_lists.items() if reducer is _extend_log),
        {name: ValueChannel(*channel) for name, channel in channels.items() if name not in of_lists},
    )


def _is_delta_channel(mark: Any) -> bool:
    return isinstance(mark, DeltaChannel)

"""Where each passage stands in its corpus."""

from collections.abc import Sequence

from certigraph.state.endings import Fault
from certigraph.state.passages import Passage


def places_of(passages: Sequence[Passage]) -> dict[str, int]:
    """The place of each passage by its id. Raises Fault where there are no passages, or two with one id."""
    if not passages:
        raise Fault("data", "no passages to search: give a corpus of at least one")
    places: dict[str, int] = {}
    for place, passage in enumerate(passages):
        if places.setdefault(passage.id, place) != place:
            raise Fault("data", f"two passages have the id {passage.id!r}: give each its own")
    return places

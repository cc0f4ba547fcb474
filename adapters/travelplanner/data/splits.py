"""The queries of a data folder by the ids of their tasks."""

from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

from certigraph.adapters.hints import unknown_task
from certigraph.adapters.travelplanner.data.legs import ListedLeg, legs
from certigraph.adapters.travelplanner.data.queries import SPLIT_SUFFIXES, Query, read_queries, split_file
from certigraph.state.endings import UnknownName
from certigraph.state.records import Arguments

SPLIT = "validation"
SPLITS = (SPLIT, "train")

ASKED = {"org", "dest", "days", "people_number", "date", "local_constraint", "budget", "level"}


class Splits:
    """A task's id is the idx of its query, `train/IDX` in the train split. Files are read when first asked for."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._read = cache(self._queries)

    def ids(self, split: str = "") -> Sequence[str]:
        """The ids of a split, validation where none is named. Raises UnknownName where there is no such split."""
        if split and split not in SPLITS:
            raise UnknownName(f"travelplanner has no split {split!r}; known: {', '.join(SPLITS)}")
        return list(self._read(split or SPLIT))

    def queries(self, split: str = "") -> Sequence[Query]:
        """The queries of a split, in file order."""
        return list(self._read(split or SPLIT).values())

    def query(self, task_id: str) -> Query:
        """One query. Raises UnknownName, which lists some ids that are there."""
        queries = self._read(task_id.partition("/")[0] if "/" in task_id else SPLIT)
        if task_id not in queries:
            pattern = f"the rows of {SPLIT} from 1, here {len(queries)} of them, or train/ROW where train is there"
            raise unknown_task("travelplanner", task_id, pattern, queries)
        return queries[task_id]

    def legs(self) -> list[ListedLeg]:
        """The legs that the reference information of all queries at hand lists."""
        here = [split for split in SPLITS if any((self._folder / f"{split}{end}").is_file() for end in SPLIT_SUFFIXES)]
        return [leg for split in here for query in self.queries(split) for leg in legs(query)]

    def _queries(self, split: str) -> Mapping[str, Query]:
        prefix = "" if split == SPLIT else f"{split}/"
        return {f"{prefix}{query.idx}": query for query in read_queries(split_file(self._folder, split))}


def asked(query: Query) -> Arguments:
    """What a query asks for, without its reference information and human plan: the constants of its task."""
    return query.model_dump(mode="json", by_alias=True, include=ASKED)

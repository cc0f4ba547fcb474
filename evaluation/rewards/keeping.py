"""The files of a built dataset: pairs a line, dropped tasks a line, and the counts."""

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel, Field, ValidationError

from certigraph.adapters.caching import whole_file
from certigraph.adapters.rewardprediction.rows import Pair
from certigraph.adapters.rows import MOST_SETTINGS, checked, file_bytes, read_rows
from certigraph.evaluation.rewards.attempts import Dropped
from certigraph.state.endings import Fault
from certigraph.state.json_text import json_value
from certigraph.state.lines import drop_torn_line
from certigraph.state.records import Record

M = TypeVar("M", bound=BaseModel)

COUNTS, DROPPED = "counts.json", "dropped.jsonl"


class Count(Record):
    """What became of a domain."""

    domain: str
    published: int | None
    """Pairs of the paper; None where it has none of that domain."""
    wanted: int = 0
    seed: int
    splits: tuple[str, ...]
    built: int = 0
    kinds: dict[str, int] = Field(default_factory=dict)
    dropped: dict[str, int] = Field(default_factory=dict)
    """Tasks that were tried in vain, by the reason."""
    failed: str = ""
    """What kept the whole domain from being built."""

    @property
    def out(self) -> int:
        """How many tasks were tried in vain."""
        return sum(self.dropped.values())


def pairs_in(folder: Path, domain: str) -> list[Pair]:
    """The pairs that were built."""
    return read_lines(folder / f"{domain}.jsonl", Pair)


def dropped_in(folder: Path, domain: str) -> list[Dropped]:
    """The tasks that were dropped."""
    return [one for one in read_lines(folder / DROPPED, Dropped) if one.domain == domain]


def keep(folder: Path, outcome: Pair | Dropped) -> None:
    """Add a line to the file that it belongs in."""
    name = f"{outcome.domain}.jsonl" if isinstance(outcome, Pair) else DROPPED
    append(folder / name, outcome)


def append(path: Path, line: BaseModel) -> None:
    """Add a line to a file, in one write."""
    with path.open("a", encoding="utf-8") as file:
        file.write(line.model_dump_json() + "\n")


def sort_pairs(folder: Path, domain: str, pairs: Iterable[Pair]) -> None:
    """Write the pairs in an order that does not depend on which came first."""
    with whole_file(folder / f"{domain}.jsonl") as draft:
        lines = (pair.model_dump_json() + "\n" for pair in sorted(pairs, key=lambda pair: pair.task))
        draft.write_text("".join(lines), encoding="utf-8")


def read_counts(folder: Path) -> dict[str, Count]:
    """The counts by domain; none where nothing was built. Raises Fault where the file is none of ours."""
    path = folder / COUNTS
    if not path.is_file():
        return {}
    try:
        found = [Count.model_validate(one) for one in json_value(file_bytes(path, MOST_SETTINGS))]
    except (ValueError, TypeError, ValidationError) as error:
        raise Fault("data", f"{path} is no list of counts: delete it, and build again in that folder") from error
    return {count.domain: count for count in found}


def write_count(folder: Path, count: Count) -> None:
    """Put a domain's count in the place of its last one."""
    counts = {**read_counts(folder), count.domain: count}
    with whole_file(folder / COUNTS) as draft:
        draft.write_text(json.dumps([one.model_dump() for one in counts.values()], indent=1), encoding="utf-8")


def settle(folder: Path, count: Count) -> None:
    """Begin a domain, or make sure that the folder's was begun in the same way.

    Raises:
        Fault: it was begun otherwise; the message says how, and what to do.
    """
    folder.mkdir(parents=True, exist_ok=True)
    there = read_counts(folder).get(count.domain)
    if there is None:
        write_count(folder, count)
        return
    for name in ("seed", "wanted", "splits"):
        if (before := getattr(there, name)) != (now := getattr(count, name)):
            told = f"{folder} holds {count.domain} with {name} {before}, not {now}"
            raise Fault("data", f"{told}: go on with that, or build in another folder")


def reasons(dropped: Sequence[Dropped]) -> dict[str, int]:
    """How often each reason was given, the commonest first."""
    return dict(Counter(one.reason for one in dropped).most_common())


def read_lines(path: Path, model: type[M]) -> list[M]:
    """The lines of a file; one that was cut off is taken away, so that the next one starts a line."""
    if not path.is_file():
        return []
    drop_torn_line(path)
    return [checked(model, row) for row in read_rows(path)]

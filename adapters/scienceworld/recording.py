"""Gold paths with what the simulator answered to them, on disk; `recorder` makes them, `twin` replays them."""

import gzip
import hashlib
import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from pydantic import ConfigDict, Field, model_validator

from certigraph.adapters.caching import whole_file
from certigraph.adapters.rows import Row, read_rows
from certigraph.adapters.scienceworld import replies
from certigraph.adapters.scienceworld.setting import Setting
from certigraph.adapters.scienceworld.splits import SPLITS
from certigraph.state.endings import Fault
from certigraph.state.records import Record, Task


class Recording(Record):
    """One gold path. `obs[0]` is the first look, `obs[i + 1]` the reply to `gold[i]`, `scores[i]` the score after it.

    `resolved` is `gold` as an agent would say it: a number that answers a question replaced by the option's text, what
    does not answer it, and so drops it, by "cancel". `firstdone` is the 1-based index of the action that first reaches
    100; what follows it is idle waiting. `start` is the score after the first look, `moves` the simulator's count at
    the end. `digest` is of the first look, all replies and scores.
    """

    model_config = ConfigDict(frozen=True, extra="ignore", populate_by_name=True)

    task: str
    variation: int = Field(alias="var")
    simplification: str = Field("", alias="simp")
    desc: str
    gold: tuple[str, ...]
    resolved: tuple[str, ...]
    obs: tuple[str, ...]
    scores: tuple[int, ...]
    start: int = 0
    firstdone: int
    moves: int
    progress: str = ""
    digest: str

    @model_validator(mode="before")
    @classmethod
    def _completed(cls, row: dict[str, Any]) -> dict[str, Any]:
        found = digest(row["obs"], row["scores"])
        if row.get("digest", found) != found:
            raise ValueError(
                f"digest {row['digest']} of {row['task']} does not fit its replies, {found}: record it again"
            )
        return {"resolved": _resolve(row["gold"], row["obs"]), "digest": found, **row}

    @property
    def actions(self) -> tuple[str, ...]:
        """What an agent does to reach 100, answers as texts."""
        return self.resolved[: self.firstdone]

    @property
    def setting(self) -> Setting:
        """The episode it was made in: nothing limited."""
        return (
            SPLITS["gold"].setting(self.task, self.variation).model_copy(update={"simplification": self.simplification})
        )

    @property
    def id(self) -> str:
        """The task's id, as one of the split `gold`."""
        return f"gold/{self.task}:{self.variation}"

    def as_task(self) -> Task:
        """Its task, made without the simulator."""
        return Task(benchmark="scienceworld", id=self.id, goal=self.desc, constants=self.setting.model_dump())


def read_recordings(path: Path) -> tuple[Recording, ...]:
    """The recordings in a gzipped JSONL file, one a line.

    Raises:
        Fault: ("data") the file or a line of it cannot be read; names the line.
    """
    return tuple(_read(row) for row in read_rows(path))


def write_recordings(path: Path, recordings: Iterable[Recording]) -> None:
    """Write them; equal recordings give equal bytes."""
    lines = "".join(json.dumps(r.model_dump(mode="json", by_alias=True)) + "\n" for r in recordings)
    with whole_file(path) as unfinished:
        unfinished.write_bytes(gzip.compress(lines.encode(), mtime=0))


def digest(obs: Sequence[str], scores: Sequence[int]) -> str:
    """Sixteen hex digits of replies and scores."""
    return hashlib.sha256(json.dumps([list(obs), list(scores)]).encode()).hexdigest()[:16]


def _read(row: Row) -> Recording:
    try:
        return Recording.model_validate(row.value)
    except (ValueError, KeyError, TypeError) as error:
        raise Fault("data", f"{row.where} is no recording: {error}") from error


def _resolve(gold: Sequence[str], obs: Sequence[str]) -> tuple[str, ...]:
    return tuple(_meant(action, replies.options_in(before)) for action, before in zip(gold, obs, strict=False))


def _meant(action: str, options: Sequence[str]) -> str:
    if not options:
        return action
    number = replies.choose(action, options)
    return replies.CANCEL if number is None else options[number]

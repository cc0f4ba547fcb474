"""Gold paths (the simulator's own solutions) of ScienceWorld: recording and storing them."""

import gzip
import hashlib
import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from pydantic import ConfigDict, Field, model_validator

from certigraph.adapters.files import JsonRow, cache_folder, read_rows, replace_file
from certigraph.benchmarks.scienceworld import world
from certigraph.benchmarks.scienceworld.objects import PathState, parse_focus, select_states
from certigraph.benchmarks.scienceworld.pool import DEFAULT_POOL
from certigraph.benchmarks.scienceworld.simulator import VERSION, JavaSimulator
from certigraph.state.endings import Fault
from certigraph.state.records import Record

# Recordings and their files.


class GoldRecording(Record):
    """Recorded gold path with the simulator's replies.

    `obs[0]` is the first look around, `obs[i + 1]` the reply to the action `gold[i]`, `scores[i]` the score after it.
    `resolved` holds the actions of `gold` as an agent would write them. If the simulator asks which object is meant, a
    number as the answer is replaced by the option's text, and an action that does not answer by "cancel". `firstdone`
    is the number (from 1) of the action that first reaches score 100; later actions only wait. `start` is the score
    after the first look, `moves` the simulator's count of moves at the end. `digest` is a hash of `obs` and `scores`.
    `states` are the conditions that become true on the way to score 100, read from the simulator's own state.
    """

    model_config = ConfigDict(frozen=True, extra="ignore", populate_by_name=True)

    task: str
    variation: int = Field(alias="var")
    simplification: str = Field(default="", alias="simp")
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
    states: tuple[PathState, ...] = ()

    @model_validator(mode="before")
    @classmethod
    def _completed(cls, row: dict[str, Any]) -> dict[str, Any]:
        expected = compute_digest(row["obs"], row["scores"])
        if row.get("digest", expected) != expected:
            raise ValueError(
                f"digest {row['digest']} of {row['task']} does not fit its replies, {expected}: record it again"
            )
        return {"resolved": _resolve_answers(row["gold"], row["obs"]), "digest": expected, **row}

    @property
    def actions(self) -> tuple[str, ...]:
        """Actions up to score 100 as an agent would write them (see `resolved`)."""
        return self.resolved[: self.firstdone]


def read_recordings(path: Path) -> tuple[GoldRecording, ...]:
    """Read the recordings of a gzipped JSONL file, one per line.

    Raises:
        Fault: ("data") the file or a line cannot be read; the message names the line.
    """
    return tuple(_parse_recording(row) for row in read_rows(path))


def write_recordings(path: Path, recordings: Iterable[GoldRecording]) -> None:
    """Write recordings to a gzipped JSONL file; equal recordings give equal bytes."""
    lines = "".join(json.dumps(r.model_dump(mode="json", by_alias=True)) + "\n" for r in recordings)
    with replace_file(path) as unfinished:
        unfinished.write_bytes(gzip.compress(lines.encode(), mtime=0))


def compute_digest(obs: Sequence[str], scores: Sequence[int]) -> str:
    """Hash replies and scores to sixteen hex digits."""
    return hashlib.sha256(json.dumps([list(obs), list(scores)]).encode()).hexdigest()[:16]


def _parse_recording(row: JsonRow) -> GoldRecording:
    try:
        return GoldRecording.model_validate(row.value)
    except (ValueError, KeyError, TypeError) as error:
        raise Fault("data", f"{row.where} is not a valid recording: {error}") from error


def _resolve_answers(gold: Sequence[str], obs: Sequence[str]) -> tuple[str, ...]:
    return tuple(
        _resolve_answer(action, world.parse_options(before)) for action, before in zip(gold, obs, strict=False)
    )


def _resolve_answer(action: str, options: Sequence[str]) -> str:
    if not options:
        return action
    number = world.choose_option(action, options)
    return world.CANCEL if number is None else options[number]


# Recording.


def record_gold(simulator: JavaSimulator, task: str, variation: int = 0, simplification: str = "") -> GoldRecording:
    """Get the gold path of a task from the simulator, and record its replies to it.

    This takes seconds; for the tasks on Mendelian genetics, one to two minutes.
    """
    simulator.load(task, variation, simplification, gold=True)
    gold, desc = simulator.gold_actions(), simulator.description()
    obs, start = [simulator.load(task, variation, simplification)], simulator.score()
    scores, focus, states = list[int](), "", [simulator.read_state("")]
    for action in gold:
        obs.append(simulator.step(action))
        scores.append(simulator.score())
        focus = parse_focus(obs[-1]) or focus
        states.append(simulator.read_state(focus))
    if 100 not in scores:
        raise Fault("environment", f"the gold path of {task}:{variation} ({simplification!r}) ends at {scores[-1:]}")
    row = {"task": task, "var": variation, "simp": simplification, "desc": desc, "gold": gold, "obs": obs}
    result = {"scores": scores, "start": start, "firstdone": scores.index(100) + 1, "moves": simulator.moves()}
    path = _resolve_answers(gold, obs)[: scores.index(100) + 1]
    selected = select_states(path, states[: len(path) + 1])
    return GoldRecording.model_validate({**row, **result, "progress": simulator.progress(), "states": selected})


FORMAT = 2
"""Format of the cached recordings. Those of another format are not read, and the paths are recorded again."""


def load_gold_recording(task: str, variation: int = 0, simplification: str = "") -> GoldRecording:
    """Return the recorded gold path of a task; recorded on first use on a machine, then read from a cache file."""
    name = f"gold{FORMAT}-{task}-{variation}{simplification and '-'}{simplification.replace(',', '-')}.jsonl.gz"
    path = cache_folder() / f"scienceworld-{VERSION}" / name
    if path.is_file():
        return read_recordings(path)[0]
    with DEFAULT_POOL.lend() as simulator:
        recording = record_gold(simulator, task, variation, simplification)
    write_recordings(path, [recording])
    return recording

"""Reading pairs: those that `certigraph rewards build` writes, and files laid out as the published ones.

Ours are `DOMAIN.jsonl`, a pair a line. The published ones are a trajectory each: `DOMAIN/TASK/positive.json` and
`DOMAIN/TASK/negative_0.json`; or rows of one file, named by `id`: `TASK_positive`, `TASK_negative_0`.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from certigraph.adapters.rewardprediction.domains import PUBLISHED
from certigraph.adapters.rewardprediction.rows import Pair, Recording
from certigraph.adapters.rows import Row, checked, read_json, read_rows
from certigraph.state.endings import Fault
from certigraph.state.lines import ends_line

ENDINGS = (".json", ".jsonl", ".json.gz", ".jsonl.gz")

BOOKS = {"counts.json", "dropped.jsonl"}
"""Files beside ours that hold no pairs."""

PART = re.compile(r"(?P<task>.*?)[/_]?(?P<part>positive|negative)(_\d+)?")
"""The name of a trajectory."""


class Read(NamedTuple):
    """What a folder holds."""

    pairs: tuple[Pair, ...]
    unpaired: Mapping[str, int]
    """By domain, tasks left out for want of a positive or a negative trajectory."""


def read_pairs(folder: Path) -> Read:
    """All pairs under a folder, gzipped or not, by domain and task.

    Raises:
        Fault: ("data") a file is malformed, or no pair is there; one line that names the file and the fix.
    """
    pairs: list[Pair] = []
    loose: dict[tuple[str, str], dict[str, list[Recording]]] = defaultdict(lambda: defaultdict(list))
    for path in sorted(path for path in folder.rglob("*") if path.name.endswith(ENDINGS) and path.name not in BOOKS):
        for row in _rows(path):
            if isinstance(row.value, dict) and "positive" in row.value:
                pairs.append(checked(Pair, row))
            else:
                domain, task, part = _named(path.relative_to(folder).as_posix(), folder.resolve().name, row)
                loose[domain, task][part].append(_recording(row))
    whole = {key: parts for key, parts in loose.items() if parts["positive"] and parts["negative"]}
    pairs += [
        Pair(domain=domain, task=task, positive=parts["positive"][0], negatives=tuple(parts["negative"]))
        for (domain, task), parts in whole.items()
    ]
    unpaired = Counter(domain for domain, task in loose if (domain, task) not in whole)
    if not pairs:
        searched = f"no rewardprediction data in {folder}: it has no pair of trajectories"
        raise Fault("data", f"{searched}: {lacking(unpaired)}")
    return Read(tuple(sorted(pairs, key=lambda pair: pair.domain)), unpaired)


def lacking(unpaired: Mapping[str, int]) -> str:
    """What is missing of a folder without pairs, and the fix, given its tasks that are half there."""
    if not unpaired:
        files = "BENCHMARK.jsonl, or TASK/positive.json with negative_0.json"
        call = "certigraph run statefactory rewardprediction --data FOLDER"
        return f"expected {files}; name their folder ({call}), or build some: certigraph rewards build FOLDER"
    told = ", ".join(f"{count} of {domain}" for domain, count in unpaired.items())
    return f"its tasks have no positive or no negative ones ({told}); put negative_0.json beside each positive.json"


def _rows(path: Path) -> Iterator[Row]:
    """The trajectories or pairs of a file. Raises Fault where there are none, or where the file is cut off."""
    if ".jsonl" in path.name:
        rows = list(_lines(path))
    else:
        value = read_json(path)
        rows = [Row(f"{path}: row {n}", v) for n, v in enumerate(value, 1)] if isinstance(value, list) else []
        rows = rows or ([Row(str(path), value)] if value else [])
    if not rows:
        raise Fault("data", f"{path} is empty: delete it, or put the whole file there")
    yield from rows


def _lines(path: Path) -> Iterator[Row]:
    try:
        yield from read_rows(path)
    except Fault as fault:
        if path.suffix == ".gz" or not path.is_file() or ends_line(path):
            raise
        fix = f"start `certigraph rewards build {path.parent}` again, which goes on there, or delete that line"
        raise Fault("data", f"{path}: its last line is cut off: {fix}") from fault


def _named(where: str, root: str, row: Row) -> tuple[str, str, str]:
    """Domain, task, and positive or negative, by a trajectory's id, else by the place of its file."""
    place = re.sub(r"\.jsonl?(\.gz)?$", "", where)
    folder, _, name = place.rpartition("/")
    given = row.value.get("id", row.value.get("task_id")) if isinstance(row.value, dict) else None
    inside = root in PUBLISHED  # the folder of one domain was named
    domain = root if inside else place.partition("/")[0]
    found = PART.fullmatch(str(given) if given else name)
    if not found:
        raise Fault("data", f"{row.where}: neither positive nor negative: name the file positive.json, negative_0.json")
    inner = folder if inside else folder.partition("/")[2]
    return domain, "/".join(filter(None, (inner, found["task"]))), found["part"]


def _recording(row: Row) -> Recording:
    value: Any = row.value if isinstance(row.value, dict) else {}
    steps = value.get("trajectory") or []
    if bare := [n for n, step in enumerate(steps) if not isinstance(step, dict) or "reward" not in step]:
        fix = 'each needs "reward": {"raw": 0, "shaped": 0}: take the published files, or certigraph rewards build'
        raise Fault("data", f"{row.where}: step {bare[0]} of the trajectory has no reward: {fix}")
    kept = [{key: step[key] for key in ("action", "observation", "reward") if key in step} for step in steps]
    return checked(Recording, Row(row.where, {"goal_description": value.get("goal_description"), "trajectory": kept}))

"""Real rows to begin with, read from CERTIGRAPH_DATA where it is; nothing of them is kept."""

import gzip
import os
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from fuzzing.target import BETWEEN

ROWS, LONGEST = 3, 20_000

PATTERNS = {
    "questions.hotpotqa": "hotpotqa/dev*",
    "questions.musique": "musique/*dev*",
    "questions.assistantbench": "assistantbench/assistant*",
    "questions.seen": "assistantbench/whowhen*",
    "questions.swe_qa": "swe_qa*/*.jsonl.gz",
    "questions.origins": "swe_qa/repo_commit.txt",
    "questions.recall": "hotpotqa/dev*",
    "world.recordings": "scienceworld/gold_var0.jsonl.gz",
    "world.queries": "travelplanner/validation*",
    "world.plans": "travelplanner/scored_plans*",
    "world.shop": "webshop/products*",
    "model.plan": "travelplanner/scored_plans*",
    "answer.assistantbench": "assistantbench/scorer_golden*",
}
"""Files of each target by a pattern."""


def samples(name: str) -> Iterator[bytes]:
    """A few rows that a target's files begin with; of a shop, whose file is one of two, with nothing for the other."""
    root, pattern = os.environ.get("CERTIGRAPH_DATA"), PATTERNS.get(name)
    for path in islice(sorted(Path(root).glob(pattern)), ROWS) if root and pattern else ():
        with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
            rows = [row for row in islice(file, ROWS) if len(row) <= LONGEST]
        yield from (row + BETWEEN + b"{}" if name == "world.shop" else row for row in rows)

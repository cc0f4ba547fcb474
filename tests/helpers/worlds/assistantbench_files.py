"""AssistantBench's files in small."""

import json
from pathlib import Path
from typing import Any

from certigraph.benchmarks.assistantbench.benchmark import AssistantBench

ROW: dict[str, Any] = {"id": "a", "set": "dev", "task": "Which gym?", "answer": "The Root", "difficulty": "Hard"}
OTHER = {**ROW, "id": "b", "answer": "20", "difficulty": "Medium"}
TEXTLESS = {**ROW, "id": "c", "task": None, "answer": "VGT", "difficulty": "Medium"}
HIDDEN = {"id": "t", "set": "test", "task": "What is hidden?", "answer": None, "gold_url": None, "metadata": ""}


def benchmark(folder: Path, *rows: object, config: str = "", name: str = "assistant_bench_v1.0_dev.jsonl"):
    given = rows or (ROW, OTHER, TEXTLESS)
    (folder / name).write_text("\n".join(map(json.dumps, given)), encoding="utf-8")
    return AssistantBench(folder, config)

"""What runs leave behind in their process: nothing, however many there were."""

import gc
import sys
from pathlib import Path

import pytest

from certigraph.runtime.registry import AnyGraph, build_graph
from certigraph.runtime.run import run

TASKS = ("3-0", "3-1", "3-2")

LEFT = 20
"""Blocks a run that may be left: pytest keeps a few log records. One record of a trajectory is more."""


def blocks_after(graph: AnyGraph, out: Path, rounds: int) -> int:
    """Python's memory blocks in use after some runs and a collection."""
    for _ in range(rounds):
        for task in TASKS:
            run(graph, "blocksworld", task, out=out)
    gc.collect()
    return sys.getallocatedblocks()


@pytest.mark.slow
@pytest.mark.alone
@pytest.mark.parametrize("name", ["sdp", "step", "tdp", "reflexion"])
def test_a_run_leaves_nothing_in_memory(name: str, tmp_path: Path):
    graph = build_graph(name)
    before = blocks_after(graph, tmp_path, rounds=14)  # until the caches of `typing` are full
    left = blocks_after(graph, tmp_path, rounds=6) - before
    assert left < LEFT * 6 * len(TASKS), f"{left} blocks of 18 runs"

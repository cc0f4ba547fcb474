"""Threat 2, types lost on the way through a checkpoint: state is annotated exactly, and comes back as it was."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, get_args, get_origin, get_type_hints

import pytest
from helpers.processes.children import child_environment
from pydantic import JsonValue

from certigraph.runtime.registry import GRAPHS, graph_module
from certigraph.state.records import Record

HERE = Path(__file__).parent

VAGUE = (Any, object, list, dict, tuple, set, frozenset, bytes)
"""What says too little of a value for it to be restored."""


def vague(hint: Any, path: str, seen: set[Any]) -> Iterator[str]:
    """Where an annotation, or one inside it, leaves open what a value is."""
    if any(hint is open_to_anything for open_to_anything in VAGUE):
        yield f"{path}: {hint}"
    if hint is JsonValue:  # plain JSON comes back as it is
        return
    if isinstance(hint, type) and issubclass(hint, Record) and hint not in seen:
        seen.add(hint)
        for name, field in hint.model_fields.items():
            yield from vague(field.annotation, f"{path}.{name}", seen)
    inner = get_args(hint)[:1] if get_origin(hint) is Annotated else get_args(hint)
    for part in inner:
        if part is not Ellipsis and not isinstance(part, (str, int)):
            yield from vague(part, path, seen)


@pytest.mark.parametrize("name", GRAPHS)
def test_no_state_has_a_channel_of_any_type(name: str):
    schema = graph_module(name).graph.builder.state_schema
    hints = get_type_hints(schema, include_extras=True)
    assert hints
    assert [entry for channel, hint in hints.items() for entry in vague(hint, channel, set())] == []


@pytest.mark.parametrize("hint", [Any, list, dict, list[Any], dict[str, list], tuple[int, object]])
def test_the_walk_finds_what_is_vague(hint: Any):
    assert list(vague(hint, "x", set()))


@pytest.mark.long
@pytest.mark.slow
def test_every_graph_comes_back_as_it_was_under_strict_msgpack(tmp_path: Path):
    env = child_environment(HERE.parent, LANGGRAPH_STRICT_MSGPACK="true", OMP_NUM_THREADS="1")
    for name in ("CERTIGRAPH_DATA", "CERTIGRAPH_POSTGRES"):
        env.pop(name, None)
    done = subprocess.run(
        [sys.executable, HERE / "strict_runs.py", tmp_path], env=env, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr[-3000:]
    assert done.stdout.split() == list(GRAPHS)
    assert "unregistered" not in done.stderr.lower()
    assert "blocked" not in done.stderr.lower()

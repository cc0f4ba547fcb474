"""What certigraph writes of a run whose trajectory others wrote, any value in its lines: pages, exports, rows."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from fuzzing.target import Target, of_file
from fuzzing.trajectories import EVENT, FILE, FOOTER, HEADER, RUN
from helpers.sample_runs.recorded_runs import row_of

from certigraph.adapters.trajectories import read_trajectory
from certigraph.evaluation.atif import write_atif
from certigraph.evaluation.export import rows_of as transitions
from certigraph.evaluation.frame_rows import frame_rows_of
from certigraph.evaluation.frames import find_runs, read_recorded_runs
from certigraph.runtime.report import write_report
from certigraph.state.endings import Fault
from certigraph.state.trajectory import Trajectory

GO: dict[str, Any] = {"text": "go"}
STEP: dict[str, Any] = {"action": GO, "digest": "0c8a"}
TURN: dict[str, Any] = {"thought": "so", "action": "go", "observation": "a hall", "sources": ["p1"]}
SEEN: dict[str, Any] = {"observation": {"text": "a hall", "data": {"score": 5}}, "history": [STEP], "turns": [TURN]}
CALL: dict[str, Any] = {"role": "planner", "model": "m", "schema_name": "Plan", "input_tokens": 3, "output_tokens": 2}
TARGET: dict[str, Any] = {"text": "a", "kind": "goal"}
DEEP: dict[str, Any] = {"depth": 1, "reason": "it is"}
OBJECTS: dict[str, Any] = {"entities": [{"identity": "egg", "attributes": {"place": "table"}}]}
FACTS: dict[str, Any] = {"form": "structured", "facts": [{"text": "A is B", "source": "A"}], "questions": ["who?"]}
VIEW: dict[str, Any] = {"steps": [STEP], "observation": {"text": "a hall"}}
SCORED: dict[str, Any] = {"value": 1.0, "parts": {"goal": 1.0}}


def _run(graph: str, *updates: tuple[str, dict[str, Any]], **inside: str) -> bytes:
    """A trajectory of a graph whose nodes wrote these updates; `inside` is the place of an inner graph."""
    common = {"type": "event", "t": 0.1, "usage": {"node": "x", "calls": 1}, "calls": [CALL], **inside}
    events = [{**common, "superstep": n, "node": node, "update": entry} for n, (node, entry) in enumerate(updates, 1)]
    lines = b"".join(json.dumps(event).encode() + b"\n" for event in events)
    return HEADER.replace(b'"sdp"', f'"{graph}"'.encode()) + lines + FOOTER


PLANNED = _run(
    "sdp",
    ("propose", {"plan": [TARGET], "head": 0}),
    ("realize", {"action": GO}),
    ("act", SEEN),
    ("validate", {"verdict": DEEP, "attempts": [{**STEP, "position": 0, "target": TARGET, "verdict": DEEP}]}),
    ("certify", {"certificates": [{**STEP, "step": 1, "position": 0, "targets": [TARGET]}], "head": 1}),
)
LEARNT = _run(
    "step",
    ("planner", {"subtask": {"text": "go"}, "refusals": [], "trial": 1}),
    ("act", SEEN),
    ("assess", {"subtasks": [{"text": "go", "status": "completed", "reason": "it is"}]}),
    ("conclude", {"trials": [{"number": 1, "scores": SCORED, "ending": "goal", "steps": 6}]}),
    ("memory", {"lessons": [{"trial": 1, "report": "Done."}]}),
)
DECOMPOSED = _run(
    "tdp",
    ("decompose", {"dag": {"nodes": [{"id": "n1", "task": "go"}]}, "notes": []}),
    (
        "solve",
        {"outcomes": [{"node": "n1", "status": "completed", "result": "x", "ending": "goal", "steps": [STEP], **VIEW}]},
    ),
)
INNER = _run("tdp", ("plan", {"outline": ["go"]}), ("act", SEEN), ("supervise", {"progress": DEEP}), scope="s:1")
SOUGHT = _run(
    "pbai",
    ("act", SEEN),
    ("memory", {"belief": FACTS}),
    ("gate", {"stagnation": {"streak": 1}, "rounds": [{"action": "go", "chunks": ["p1"], "jaccard": 0.0, "upr": 1.0}]}),
    ("explore", {"branches": [{"number": 1, "hypothesis": "up", "answer": "x", "rounds": 3, "ending": "exhausted"}]}),
)
RATED = _run(
    "statefactory",
    ("reset", {"steps": [{"action": "go", "observation": "a hall"}]}),
    ("extract", {"factored": OBJECTS}),
    ("interpret", {"goal": OBJECTS}),
    ("route", {"reward": 0.7, "rewards": [{"reward": 0.7}], "position": 1}),
)
SEEDS = (RUN, PLANNED, LEARNT, DECOMPOSED, INNER, SOUGHT, RATED, HEADER.replace(b'"sdp"', b'"unknown"') + EVENT)


def _output_target(name: str, tell: Callable[[Trajectory, Path], object]) -> Target:
    def read(path: Path) -> object:
        return tell(read_trajectory(path), path.parent)

    return Target(f"output.{name}", of_file(read, FILE), (Fault,), SEEDS)


def _rows(run: Trajectory, folder: Path) -> object:
    return row_of(run), [frame_rows_of(recorded) for recorded in read_recorded_runs(find_runs([folder]))]


TARGETS = (
    _output_target("report", lambda run, folder: write_report(run, folder / "report.html")),
    _output_target("atif", lambda run, folder: write_atif(run, folder / "atif.json")),
    _output_target("transitions", lambda run, folder: list(transitions(run))),
    _output_target("rows", _rows),
)

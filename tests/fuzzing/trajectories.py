"""Readers of trajectories: whole, their heads and ends alone, and the state that they add up to."""

from pathlib import Path

from fuzzing.target import Target, of_file, of_folder, of_text

from certigraph.adapters.trajectories import add_line_number, parse_line, read_trajectory
from certigraph.evaluation.frames import find_runs
from certigraph.runtime.files import PROMPTS_FILE, has_header, read_last_footer, read_run_id
from certigraph.runtime.report import KeptPrompts
from certigraph.state.endings import Fault

HEADER = (
    b'{"type": "header", "schema_version": 4, "run_id": "r", "created": "2026-01-01T00:00:00+00:00", "graph": "sdp",'
    b' "operators": {}, "task": {"benchmark": "blocksworld", "id": "4-0"}, "context": {"trial": 0}, "versions": {}}\n'
)
EVENT = (
    b'{"type": "event", "t": 0.1, "superstep": 1, "node": "propose", "usage": {"node": "propose"},'
    b' "update": {"plan": [{"text": "a"}], "head": 0}}\n'
)
BEGUN = b'{"type": "call_begun", "id": 1, "t": 0.1, "superstep": 1, "node": "propose", "input_tokens": 9}\n'
RESUMED = b'{"type": "resumed", "superstep": 1}\n'
FOOTER = b'{"type": "footer", "ending": "goal", "scores": {"value": 1.0}, "usage": {"node": "all"}}\n'
RUN = HEADER + BEGUN + EVENT + RESUMED + FOOTER
NUMBERED = b"".join(add_line_number(line.decode(), n).encode() + b"\n" for n, line in enumerate(RUN.splitlines(), 1))

FILE = "trajectory.jsonl"


PROMPT = (
    b'{"number": 1, "node": "propose", "superstep": 1, "scope": "", "subtask": "", "call": {"role": "planner"},'
    b' "request": {"messages": [{"role": "user", "content": "plan"}], "tools": []}, "response": "a"}\n'
)


def _state(path: Path) -> object:
    return read_trajectory(path).state()


def _prompts(path: Path) -> object:
    return list(KeptPrompts(path).take_rest())


TARGETS = (
    Target("trajectory.line", of_text(parse_line), (ValueError, Fault), (HEADER, BEGUN, EVENT, RESUMED, FOOTER)),
    Target("trajectory.whole", of_file(read_trajectory, FILE), (Fault,), (RUN, NUMBERED, HEADER + EVENT[:40])),
    Target("trajectory.header", of_folder(lambda folder: find_runs([folder]), FILE), (Fault,), (RUN,)),
    Target("trajectory.begun", of_file(has_header, FILE), (), (RUN, HEADER[:40])),
    Target("trajectory.run_id", of_file(read_run_id, FILE), (), (RUN, HEADER[:40])),
    Target("trajectory.footer", of_file(read_last_footer, FILE), (), (RUN, RUN + FOOTER[:20])),
    Target("trajectory.state", of_file(_state, FILE), (Fault,), (RUN,)),
    Target("trajectory.prompts", of_file(_prompts, PROMPTS_FILE), (Fault,), (PROMPT, PROMPT + PROMPT[:20])),
)

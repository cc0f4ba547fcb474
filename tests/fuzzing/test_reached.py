"""The table is whole: whatever parses text from outside has run while some target's seeds were read."""

import ast
import contextlib
import sys
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import FrameType
from typing import NamedTuple

import pytest
from fuzzing import actions
from fuzzing.targets import TARGETS
from helpers.files.product import ROOT, product_files, product_path

from certigraph.adapters import benchmarks

PARSERS = {
    *("json.loads", "json.load", "tomllib.loads", "ast.literal_eval", "ast.parse", "csv.reader", "csv.DictReader"),
    *("yaml.parse", "yaml.compose", "numpy.load", "tarfile.open", "json_repair.loads", "parse_json", "read_rows"),
    *("read_json", "read_bytes", "read_text", "parse_reply", "parse_line", "read_header_line", "read_lines"),
    *("read_list", "parse_json_at", "read_bounded_lines", "read_remaining_bytes"),
}
METHODS = {"model_validate_json", "validate_json"}

OTHERWISE: Mapping[str, str] = {
    **dict.fromkeys(("adapters/models/calls.py:ask", "adapters/models/calls.py:_choice_form"), "in forms: model.forms"),
    "adapters/retrieval/dense.py:_load_part": "as own.vectors; what is spoilt is made anew",
    "runtime/recorder.py:__init__": "lines of the run itself: trajectory.line",
    "studies/reward_data.py:_outcomes": "as own.rated",
    "studies/rewards_report.py:_measure_speeds": "as own.rated",
    "studies/rewards.py:probe_encoders": "as own.rated",
    "studies/rewards_report.py:write_report": "one value, of rows.plain's reader",
    **dict.fromkeys(("runtime/postgres.py:load_json", "runtime/postgres.py:unescape_value"), "test_postgres_hostile"),
    "benchmarks/scienceworld/simulator.py:object_tree": "written by the simulator that this process started",
    "cli/inventory.py:read_inventory": "a file of the package, compared with the registries by a test",
    "evaluation/published_figures.py:read_papers": "files of the package, each read by a test",
    "benchmarks/assistantbench/server.py:_send_results": "asked by our own client",
    "adapters/models/faults.py:corrupt_body": "serves the tests of users, and spoils on purpose",
    "adapters/models/faults.py:_request_answer": "serves the tests of users",
    **dict.fromkeys(
        (
            *("evaluation/export.py:format_submission", "evaluation/tables.py:records_of"),
            *("studies/rewards.py:_build_predictor", "evaluation/jobs.py:_graph"),
            "adapters/models/exchanges.py:_to_json",
            *("evaluation/worker_processes.py:serve", "evaluation/worker_processes.py:_serve"),
            "evaluation/worker_processes.py:_read_replies",
        ),
        "what this very process, or the one that started it, has just written",
    ),
}
"""Functions that parse and are in no target, and why not."""


class Function(NamedTuple):
    """A function by its file, below the root, and its name."""

    file: str
    name: str


def parsing() -> Iterator[Function]:
    """The functions that parse."""
    for path in product_files():
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and any(map(_parses, ast.walk(node))):
                yield Function(product_path(path), node.name)


def _parses(node: ast.AST) -> bool:
    if not isinstance(node, ast.Call):
        return False
    method = node.func.attr if isinstance(node.func, ast.Attribute) else ""
    return method in METHODS or ast.unparse(node.func) in PARSERS


@contextlib.contextmanager
def watched() -> Iterator[set[Function]]:
    """The functions of ours that are called inside the block."""
    files, called = dict[str, str](), set[Function]()

    def call(frame: FrameType, event: str, _: object) -> None:
        code = frame.f_code
        if event == "call" and "certigraph" in code.co_filename:
            if code.co_filename not in files:
                path = Path(code.co_filename).resolve()
                files[code.co_filename] = product_path(path) if path.is_relative_to(ROOT) else ""
            called.add(Function(files[code.co_filename], code.co_name))

    before = sys.getprofile()
    threading.setprofile(call)
    sys.setprofile(call)
    try:
        yield called
    finally:
        sys.setprofile(before)
        threading.setprofile(before)


@pytest.mark.long
@pytest.mark.slow  # every reader once, watched
def test_whatever_parses_is_fuzzed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CERTIGRAPH_DATA", raising=False)
    for cached in (benchmarks._load_shipped, actions._world, actions._repository):
        cached.cache_clear()  # or their samples were read by another test
    with watched() as called:
        for target in TARGETS.values():
            for seed in target.seeds:
                target.read(seed)
    missed = {f"{function.file}:{function.name}" for function in {*parsing()} - called}
    assert missed - set(OTHERWISE) == set(), "make targets of them in tests/fuzzing"
    assert set(OTHERWISE) <= missed, "a reason for what is fuzzed, or no longer there"

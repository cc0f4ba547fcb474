"""Tests of `adapters.files`."""

import gzip
import json
from pathlib import Path

import pytest

from certigraph.adapters.benchmarks import check_ready, load_benchmark
from certigraph.adapters.files import read_json, read_rows
from certigraph.state.endings import Fault

# What a benchmark says where its data is not in the folder that was named, and where no task has the id.

NEEDING_FILES = ("alfworld", "blocksworld", "hotpotqa", "locomo", "musique", "swe_qa", "travelplanner", "webshop")


@pytest.mark.parametrize("name", [*NEEDING_FILES, "rewardprediction"])
def test_a_wrong_data_folder_is_named_with_what_it_should_hold_and_the_call(name: str, tmp_path: Path) -> None:
    benchmark = load_benchmark(name, str(tmp_path))
    with pytest.raises(Fault) as fault:
        check_ready(benchmark)
        benchmark.tasks()
    message = str(fault.value)
    assert message.startswith(f"no {name} data in {tmp_path}: ")
    assert "--data" in message
    assert f"holds {tmp_path.name}/" not in message
    assert ".jsonl" in message or ".tar" in message


# The reading of JSON files row by row.

PACKED = gzip.compress(b'{"a": 1}', mtime=0)


@pytest.mark.parametrize("name", ["q.jsonl", "q.json", "q.jsonl.gz", "q.json.gz"])
def test_rows_are_read_from_lines_and_lists_plain_or_packed(tmp_path: Path, name: str):
    rows = [{"a": 1}, {"a": 2}]
    text = json.dumps(rows, indent=1) if ".json" in name and "jsonl" not in name else "\n\n".join(map(json.dumps, rows))
    raw = text.encode()
    (tmp_path / name).write_bytes(gzip.compress(raw, mtime=0) if name.endswith(".gz") else raw)
    assert [row.value for row in read_rows(tmp_path / name)] == rows


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("q.jsonl", b'{"a": 1}\n{"a":\n', r"q\.jsonl:2: not JSON .*one JSON object a line"),
        ("cut.jsonl.gz", PACKED[:12], r"cut\.jsonl\.gz cannot be read"),
        ("spoilt.jsonl.gz", PACKED[:10] + b"\xff" * 20, r"spoilt\.jsonl\.gz cannot be read"),
        ("plain.jsonl.gz", b'{"a": 1}', r"plain\.jsonl\.gz cannot be read"),
        ("latin.jsonl", b'{"a": "\xe9"}', r"latin\.jsonl:1: not JSON .*utf-8"),
    ],
)
def test_unreadable_files_are_named_with_the_line(tmp_path: Path, name: str, content: bytes, message: str):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(Fault, match=message):
        list(read_rows(tmp_path / name))


def test_a_missing_file_is_named(tmp_path: Path):
    with pytest.raises(Fault, match=r"none\.json: no such file"):
        read_json(tmp_path / "none.json")

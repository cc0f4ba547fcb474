"""Tests of `adapters.files`."""

import codecs
import gzip
import json
import tarfile
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from certigraph.adapters.benchmarks import check_ready, load_benchmark
from certigraph.adapters.files import read_json, read_rows, read_text, warn_of_partial_answers
from certigraph.adapters.retrieval.sources import read_passages
from certigraph.adapters.user_warnings import CallWarning
from certigraph.benchmarks.travelplanner.queries import read_text_lines
from certigraph.evaluation.sweep import read_sweep
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


# Files from Windows, which begin with a byte order mark.

PASSAGE = b'{"id": "1", "title": "A", "text": "b"}'
READERS: list[tuple[str, bytes, Callable[[Path], Any]]] = [
    ("rows.jsonl", b'{"a": 1}\n{"a": 2}', lambda path: [row.value for row in read_rows(path)]),
    ("list.json", b'[{"a": 1}]', lambda path: [row.value for row in read_rows(path)]),
    ("value.json", b'{"a": 1}', read_json),
    ("text.txt", b"text", read_text),
    ("table.csv", b"a,b\n1,2\n", lambda path: [*read_text_lines(path)]),
    ("corpus.jsonl", PASSAGE, lambda path: [*read_passages(path)]),
    ("corpus.json", b"[" + PASSAGE + b"]", lambda path: [*read_passages(path)]),
    ("sweep.yaml", b"graphs: [sdp]\nbenchmarks: [blocksworld]\n", read_sweep),
]


READERS += [(f"{name}.gz", content, read) for name, content, read in READERS[:-1]]


@pytest.mark.parametrize(("name", "content", "read"), READERS)
def test_a_byte_order_mark_changes_nothing(name: str, content: bytes, read: Callable[[Path], Any], tmp_path: Path):
    made = []
    for folder, mark in (("plain", b""), ("marked", codecs.BOM_UTF8)):
        path = tmp_path / folder / name
        path.parent.mkdir()
        path.write_bytes(gzip.compress(mark + content) if name.endswith(".gz") else mark + content)
        made.append(read(path))
    assert made[0] == made[1]
    assert made[0]


def test_a_byte_order_mark_in_an_archive_changes_nothing(tmp_path: Path):
    (tmp_path / "part.jsonl").write_bytes(codecs.BOM_UTF8 + PASSAGE)
    with tarfile.open(tmp_path / "corpus.tar.bz2", "w:bz2") as archive:
        archive.add(tmp_path / "part.jsonl", "part.jsonl")
    assert [passage.title for passage in read_passages(tmp_path / "corpus.tar.bz2")] == ["A"]


# Files with a part of the answers.


@pytest.mark.parametrize(
    ("answered", "counts"),
    [
        (["1", "2", "3"], []),
        (["1"], [("2 of 3", "no answer")]),
        (["1", "2", "3", "x"], [("1 of 4", "x")]),
        (["x", "1"], [("2 of 3", "no answer"), ("1 of 2", "x")]),
    ],
)
def test_missing_and_unknown_answers_are_counted(answered: list[str], counts: list[tuple[str, str]], tmp_path: Path):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        warn_of_partial_answers(tmp_path / "a.json", answered, ["1", "2", "3"])
    assert len(caught) == len(counts)
    for warning, parts in zip(caught, counts, strict=True):
        assert issubclass(warning.category, CallWarning)
        assert all(part in str(warning.message) for part in parts)

"""Lines and values without an end: what reading them costs, and what is read of lists in pieces."""

import bz2
import gzip
import io
import json
import os
import subprocess
import sys
import tarfile

import pytest
from hypothesis import given
from hypothesis import strategies as st

from certigraph.adapters import files, json_lines
from certigraph.adapters.retrieval.sources import read_passages
from certigraph.evaluation.inspect_runs import RunJournal, SampleRun
from certigraph.evaluation.judges import read_judgements
from certigraph.state.endings import Fault

MEGABYTES = 1_000_000
LENGTH = 400 * MEGABYTES
BAR = 100 * MEGABYTES

READERS = {
    "corpus.jsonl": "list(read_passages(path))",
    "corpus.jsonl.gz": "list(read_passages(path))",
    "corpus.jsonl.bz2": "list(read_passages(path))",
    "corpus.json.gz": "list(read_passages(path))",
    "corpus.tar.gz": "list(read_passages(path))",
    "rows.jsonl": "list(read_rows(path))",
    "rows.jsonl.gz": "list(read_rows(path))",
    "list.jsonl.gz": "list(read_rows(path))",
    "list.json": "read_json(path)",
    "value.json.gz": "read_json(path)",
    "trajectory.jsonl": "read_trajectory(path)",
    "e.jsonl": "RunJournal(path.parent, 'e')._latest_folder(SampleRun('a', 1))",
    "journal-0.jsonl": "list(find_journals(path.parent / 'run'))",
    "judgements.jsonl": "read_judgements(path)",
    "queries.csv": "read_queries(path)",
    "queries.csv.gz": "read_queries(path)",
    "problem.pddl": "read_problems(path)",
}
"""By the name of the file; one that begins with `list` is a list with one endless text."""

SCRIPT = """
import sys
from pathlib import Path
from certigraph.benchmarks.blocksworld.benchmark import read_problems
from certigraph.adapters.retrieval.sources import read_passages
from certigraph.adapters.files import read_json, read_rows
from certigraph.benchmarks.travelplanner.queries import read_queries
from certigraph.runtime.run import find_journals
from certigraph.evaluation.inspect_runs import RunJournal, SampleRun
from certigraph.evaluation.judges import read_judgements
from certigraph.state.endings import Fault
from certigraph.adapters.trajectories import read_trajectory

def peak():
    status = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in status if line.startswith("VmHWM")) * 1024

path, before = Path(sys.argv[1]), peak()
try:
    {call}
except Fault as fault:
    print(fault, peak() - before, sep="\\n")
"""


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.parametrize("name", READERS)
def test_an_endless_line_costs_less_than_a_hundred_megabytes(name, tmp_path):
    path = tmp_path / name
    write_endless(path)
    command = [sys.executable, "-c", SCRIPT.format(call=READERS[name]), path]
    printed = subprocess.run(command, check=True, capture_output=True, text=True, timeout=300).stdout
    message, cost = printed.strip().rsplit("\n", 1)
    assert name in message and "more than" in message and "bytes" in message
    print(f"{name}: {int(cost) / MEGABYTES:.0f} MB")
    assert int(cost) < BAR


def write_endless(path):
    """Write 400 MB without a newline before the end: sparse, or packed into a few megabytes."""
    begun = b'["' if path.name.startswith("list") or ".json." in path.name else b""
    if path.suffix in (".gz", ".bz2"):
        if path.name.endswith(".tar.gz"):
            member = tarfile.TarInfo("a.jsonl")
            member.size = LENGTH
            begun = member.tobuf()
        with gzip.open(path, "wb", 1) if path.suffix == ".gz" else bz2.open(path, "wb", 1) as file:
            file.write(begun)
            for _ in range(LENGTH // (100 * MEGABYTES)):
                file.write(b"x" * 100 * MEGABYTES)
    else:
        path.write_bytes(begun)
        os.truncate(path, LENGTH - 1)
        with path.open("ab") as file:
            file.write(b"\n")


def test_a_line_that_is_too_long_is_named_with_its_number_and_the_limit(tmp_path, monkeypatch):
    monkeypatch.setattr(json_lines.read_bounded_lines, "__defaults__", (50, json_lines.SPLIT_LINE_ADVICE))
    long = b'{"text": "' + b"x" * 60 + b'"}'
    for name, content in (("a.jsonl", b"{}\n" + long + b"\n{}\n"), ("b.jsonl.gz", gzip.compress(b"{}\n" + long))):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(Fault, match=rf"{name}:2: a line has more than 50 bytes: .*split that line"):
            list(files.read_rows(tmp_path / name))
    with pytest.raises(Fault, match=r"c\.jsonl:1: a line has more than 50 bytes"):
        (tmp_path / "c.jsonl").write_bytes(long)
        list(read_passages(tmp_path / "c.jsonl"))
    for read in (
        lambda: RunJournal(tmp_path, "d")._latest_folder(SampleRun("a", 1)),
        lambda: read_judgements(tmp_path / "d.jsonl"),
    ):
        (tmp_path / "d.jsonl").write_bytes(long + b"\n")
        with pytest.raises(Fault, match=r"d\.jsonl:1: a line has more than 50 bytes: \w+"):
            read()


@pytest.mark.parametrize("size", [1, 2, 7, 100])
def test_lines_are_the_same_however_they_are_cut(size, monkeypatch):
    monkeypatch.setattr(json_lines, "_CHUNK_BYTES", size)
    for content in (b"", b"\n", b"a", b"abc\n\nde\nf", b"x" * 20 + b"\n" + b"y" * 20):
        assert list(json_lines.read_bounded_lines(io.BytesIO(content), "f")) == content.splitlines(keepends=True)


@pytest.mark.parametrize("size", [1, 3, 1_000])
def test_only_what_follows_the_last_newline_is_dropped(size, tmp_path, monkeypatch):
    monkeypatch.setattr(json_lines, "_CHUNK_BYTES", size)
    path = tmp_path / "f"
    json_lines.drop_incomplete_line(path)
    for content, kept in ((b"", b""), (b"ab", b""), (b"ab\n", b"ab\n"), (b"a\nbcdef", b"a\n"), (b"a\n\nb", b"a\n\n")):
        path.write_bytes(content)
        assert json_lines.ends_with_newline(path) == (content == kept)
        json_lines.drop_incomplete_line(path)
        assert path.read_bytes() == kept


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(st.characters(codec="utf-8")),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)


@pytest.mark.slow
@given(st.lists(VALUES, max_size=6), st.integers(1, 40), st.sampled_from([None, 1]), st.booleans())
def test_a_list_read_in_pieces_is_the_list(values, size, indent, escaped):
    text = json.dumps(values, indent=indent, ensure_ascii=escaped).encode()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(files, "CHUNK_BYTES", size)
        assert [row.value for row in files.read_list(io.BytesIO(text), "f")] == values


@pytest.mark.parametrize("size", [1, 5, 1_000])
@pytest.mark.parametrize("text", ["[", "[1", "[1,", "[1 2]", "[1]]", "[,1]", "[1,]", '["a', "[tru]", "[[1]", '{"a"'])
def test_a_list_that_is_cut_or_malformed_is_refused(text, size, monkeypatch):
    monkeypatch.setattr(files, "CHUNK_BYTES", size)
    with pytest.raises(Fault, match=r"^f:( row)? ?\d+: not JSON"):
        list(files.read_list(io.BytesIO(text.encode()), "f"))

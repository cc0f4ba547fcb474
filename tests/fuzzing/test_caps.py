"""Sizes and depths: what is larger or deeper than anything that is written is refused with a clear message."""

import gzip

import pytest
from fuzzing.trajectories import EVENT, HEADER, RUN

from certigraph.adapters import files, trajectories
from certigraph.adapters.json_lines import MAX_DEPTH as DEEPEST
from certigraph.adapters.json_lines import parse_json
from certigraph.adapters.retrieval.index import read_manifest
from certigraph.evaluation.comparison import read_plan
from certigraph.runtime.registry import load_settings
from certigraph.state.endings import Fault


def nested(levels: int) -> str:
    return "[" * levels + "]" * levels


def test_json_is_read_to_its_depth_and_no_deeper() -> None:
    assert parse_json(nested(DEEPEST))
    for text in (nested(DEEPEST + 1), nested(100_000), '{"a":' * 101 + "1" + "}" * 101):
        with pytest.raises(ValueError, match="nested deeper than 100 levels"):
            parse_json(text)


def test_many_brackets_after_one_another_are_not_deep() -> None:
    assert len(parse_json("[" + "[]," * 1_000 + '{"a": [1]}]')) == 1_001


@pytest.mark.parametrize("text", [b'"\\ud800"', '"\\uDC00x"', b'{"\\ud83d": 1}', b'"\xed\xa0\x80"'])
def test_half_a_surrogate_pair_in_a_data_file_is_refused(text: str | bytes) -> None:
    with pytest.raises(Fault, match="here: not JSON"):
        files.decode_json(text, "here")


def test_a_whole_surrogate_pair_is_a_character() -> None:
    assert files.decode_json(b'"\\ud83d\\ude00"', "here") == "\U0001f600"


@pytest.mark.parametrize("name", ["rows.jsonl", "rows.jsonl.gz"])
def test_a_file_larger_than_is_read_is_refused_packed_or_not(name, tmp_path, monkeypatch) -> None:
    content = b'{"a": "' + b"x" * 5_000 + b'"}\n'
    (tmp_path / name).write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
    assert list(files.read_rows(tmp_path / name))
    with pytest.raises(Fault, match=r"has more than 4,000 bytes, unpacked"):
        files.read_text(tmp_path / name, 4_000)


def test_a_packed_file_is_not_unpacked_beyond_what_is_read(tmp_path) -> None:
    path = tmp_path / "bomb.jsonl.gz"
    path.write_bytes(gzip.compress(b"\0" * 50_000_000, 1))
    with pytest.raises(Fault, match="has more than"):
        files.read_bytes(path, 1_000)


@pytest.mark.parametrize("last", [b"", b"\n"])
def test_a_line_longer_than_a_trajectory_has_is_not_a_torn_one(last, tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(trajectories, "MAX_TRAJECTORY_LINE", 1_000)
    path = tmp_path / "trajectory.jsonl"
    path.write_bytes(HEADER + EVENT.replace(b'"a"', b'"' + b"a" * 2_000 + b'"').rstrip() + last)
    with pytest.raises(Fault, match=r"trajectory.jsonl:2: a line has more than 1,000 bytes: restore the file"):
        trajectories.read_trajectory(path)


@pytest.mark.parametrize(
    ("read", "name"),
    [(read_plan, "comparison.json"), (load_settings, "local.json"), (read_manifest, "manifest.json")],
)
def test_settings_larger_than_any_are_not_read(read, name, tmp_path) -> None:
    (tmp_path / name).write_bytes(b" " * (files.MAX_SETTINGS_BYTES + 1))
    with pytest.raises(Fault, match="has more than"):
        read(tmp_path)


@pytest.mark.parametrize("cut", range(1, len(EVENT), 17))
def test_a_torn_last_line_is_still_left_out(cut, tmp_path) -> None:
    path = tmp_path / "trajectory.jsonl"
    path.write_bytes(RUN + EVENT[:cut])
    assert trajectories.read_trajectory(path) == trajectories.read_trajectory(_whole(tmp_path))


def _whole(folder):
    path = folder / "whole.jsonl"
    path.write_bytes(RUN)
    return path

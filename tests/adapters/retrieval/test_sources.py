"""Corpora as people have them, and how a row that is none is reported."""

import bz2
import gzip
import json
import tarfile
from pathlib import Path

import pytest
from helpers.files.real_data import data_folder

from certigraph.adapters.retrieval.sources import read_passages
from certigraph.state.endings import Fault
from certigraph.state.search import Passage

HOTPOT = {"_id": "q1", "question": "?", "context": [["Alien", ["A film.", " Of 1979."]], ["Loire", ["A river."]]]}
MUSIQUE = {"id": "2hop__1_2", "paragraphs": [{"idx": 0, "title": "Alien", "paragraph_text": "A film. Of 1979."}]}


def lines(*rows: object) -> bytes:
    return "".join(json.dumps(row) + "\n" for row in rows).encode()


def read(path: Path) -> list[Passage]:
    return list(read_passages(path))


@pytest.mark.parametrize(
    ("row", "passage"),
    [
        ({"id": "7", "title": "T", "text": "words", "url": "..."}, ("7", "T", "words")),
        ({"title": "T", "text": "words"}, ("2503f5e48d72e961", "T", "words")),
        ({"id": 7, "contents": "words"}, ("7", "", "words")),
        ({"id": "7", "title": None, "paragraph_text": "words"}, ("7", "", "words")),
        ({"id": "7", "title": "T", "text": ["One.", " Two."]}, ("7", "T", "One. Two.")),
        ({"id": "7", "title": "T", "text": ""}, ("7", "T", "")),
    ],
)
def test_rows_as_they_are_spelled(tmp_path: Path, row: dict[str, object], passage: tuple[str, str, str]):
    (tmp_path / "c.jsonl").write_bytes(b"\n" + lines(row))
    assert [tuple(dict(found).values()) for found in read(tmp_path / "c.jsonl")] == [passage]


def test_questions_give_each_paragraph_once_under_one_id_in_every_layout(tmp_path: Path):
    (tmp_path / "hotpot.json").write_text(json.dumps([HOTPOT, HOTPOT], indent=1))
    (tmp_path / "musique.jsonl").write_bytes(lines(MUSIQUE))
    found = read(tmp_path)
    assert [(passage.title, passage.text) for passage in found] == [
        ("Alien", "A film. Of 1979."),
        ("Loire", "A river."),
    ]
    assert read(tmp_path / "musique.jsonl") == found[:1]
    assert len(found[0].id) == 16


def test_plain_files_archives_and_folders_say_the_same(tmp_path: Path):
    first, second = (lines({"id": str(n), "title": "T", "text": ["words"]}) for n in (1, 2))
    (tmp_path / "plain.jsonl").write_bytes(first + second)
    (tmp_path / "packed.jsonl.gz").write_bytes(gzip.compress(first + second))
    (tmp_path / "dump" / "AA").mkdir(parents=True)
    (tmp_path / "dump" / "AA" / "wiki_00.bz2").write_bytes(bz2.compress(first))
    (tmp_path / "dump" / "AA" / "wiki_01.bz2").write_bytes(bz2.compress(second))
    (tmp_path / "dump" / "README.txt").write_text("not a row")
    with tarfile.open(tmp_path / "dump.tar.bz2", "w:bz2") as archive:
        archive.add(tmp_path / "dump" / "AA" / "wiki_00.bz2", "dump/AA/wiki_00.bz2")
        archive.add(tmp_path / "dump" / "AA" / "wiki_01.bz2", "dump/AA/wiki_01.bz2")
    found = [read(tmp_path / name) for name in ("plain.jsonl", "packed.jsonl.gz", "dump", "dump.tar.bz2")]
    assert [passage.id for passage in found[0]] == ["1", "2"]
    assert found == [found[0]] * 4


def test_archives_are_read_and_not_unpacked(tmp_path: Path):
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "c.jsonl").write_bytes(lines({"id": "1", "text": "words"}))
    with tarfile.open(tmp_path / "in" / "c.tar", "w") as archive:
        archive.add(tmp_path / "in" / "c.jsonl", "../out.jsonl")
    assert [passage.id for passage in read(tmp_path / "in" / "c.tar")] == ["1"]
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["c.jsonl", "c.tar", "in"]


@pytest.mark.parametrize(
    "line",
    [
        b"\xff\xfe",
        b'{"id": "7", "title": "T"}',
        b'{"id": null, "text": "words"}',
        b'{"id": "7", "text": "\\ud800"}',
        b'{"id": "7", "context": [["Alien"]]}',
        b'[{"id": "1", "text": "words"}, 7]',
    ],
)
def test_a_malformed_row_is_named_by_file_and_line(tmp_path: Path, line: bytes):
    (tmp_path / "c.jsonl").write_bytes(lines({"id": "0", "text": "fine"}) + line + b"\n")
    with pytest.raises(Fault, match=r"c\.jsonl:2: "):
        read(tmp_path / "c.jsonl")


@pytest.mark.parametrize(
    "name", ["none.jsonl", "none", "none.tar.bz2", "c.txt", "empty", "c.jsonl.gz", "c.tar.bz2", "c.bz2"]
)
def test_what_is_not_a_corpus_says_what_one_is(tmp_path: Path, name: str):
    (tmp_path / "empty").mkdir()
    for there in ("c.txt", "c.jsonl.gz", "c.tar.bz2", "c.bz2"):
        (tmp_path / there).write_bytes(b"not packed at all")
    with pytest.raises(Fault, match=rf"{name}.*\.jsonl file, plain"):
        read(tmp_path / name)


def test_real_files_give_the_union_of_their_paragraphs():
    counts = [len(read(data_folder(b) / f"{name}.jsonl.gz")) for b, name in REAL]
    assert counts == [994, 1_890]


REAL = [("hotpotqa", "train_distractor"), ("musique", "musique_ans_train")]

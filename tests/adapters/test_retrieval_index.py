"""Building an index: whole or not there, going on after a kill, and what is refused."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from certigraph.adapters.retrieval import index
from certigraph.adapters.retrieval.index import JOURNAL, Manifest, build_index, open_corpus, unfinished_folder
from certigraph.state.records import Fault
from certigraph.state.search import Passage

ROOT = Path(__file__).parents[2]


def passages(number: int, word: str = "common") -> list[Passage]:
    return [Passage(id=f"p{n}", title=f"Title {n}", text=f"{word} text of number {n}") for n in range(number)]


def cut_off(number: int, of: list[Passage]) -> Iterator[Passage]:
    yield from of[:number]
    raise KeyboardInterrupt


def begun(folder: Path, number: int = 25, batch: int = 10) -> None:
    with pytest.raises(KeyboardInterrupt):
        build_index(cut_off(number, passages(40)), folder, source="c.jsonl", batch=batch)


@pytest.fixture
def written(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Ids of the passages that are written, as opposed to skipped."""
    ids: list[str] = []
    document = index.document

    def noted(passage: Passage, place: int) -> object:
        ids.append(passage.id)
        return document(passage, place)

    monkeypatch.setattr(index, "document", noted)
    return ids


def test_progress_is_told_and_the_manifest_says_what_is_in(tmp_path: Path):
    told: list[int] = []
    manifest = build_index(passages(2_500), tmp_path / "i", source="c.jsonl", progress=told.append)
    assert told == [1_000, 2_000]
    assert (manifest.passages, manifest.skipped, manifest.source) == (2_500, 0, "c.jsonl")
    assert open_corpus(tmp_path / "i").manifest == manifest


def test_an_index_is_seen_only_when_it_is_whole(tmp_path: Path):
    begun(tmp_path / "i")
    assert not (tmp_path / "i").exists()
    with pytest.raises(Fault, match=r"half built.*certigraph index CORPUS --out"):
        open_corpus(tmp_path / "i")
    build_index(passages(40), tmp_path / "i")
    assert [entry.name for entry in tmp_path.iterdir()] == ["i"]


def test_an_interrupted_build_goes_on_after_its_last_commit(tmp_path: Path, written: list[str]):
    whole = build_index(passages(40), tmp_path / "whole")
    begun(tmp_path / "i", number=25, batch=10)
    written.clear()
    resumed = build_index(passages(40), tmp_path / "i", batch=10)
    assert written == [f"p{n}" for n in range(20, 40)]
    assert resumed == whole
    assert [hit.passage.id for hit in open_corpus(tmp_path / "i").search("common", 40)] == [f"p{n}" for n in range(40)]


def test_a_build_goes_on_while_what_stopped_it_is_still_looked_at(tmp_path: Path):
    with pytest.raises(KeyboardInterrupt) as stopped:
        build_index(cut_off(25, passages(40)), tmp_path / "i", batch=10)
    assert build_index(passages(40), tmp_path / "i", batch=10).passages == 40
    assert stopped.tb


def test_a_build_that_was_killed_before_it_was_renamed_is_finished_without_writing(tmp_path: Path, written: list[str]):
    whole = build_index(passages(40), tmp_path / "i")
    (tmp_path / "i").rename(unfinished_folder(tmp_path / "i"))
    written.clear()
    assert build_index(passages(40), tmp_path / "i") == whole
    assert written == []


def test_a_line_for_a_commit_that_never_came_does_no_harm(tmp_path: Path, written: list[str]):
    begun(tmp_path / "i")
    with (unfinished_folder(tmp_path / "i") / JOURNAL).open("a") as journal:
        journal.write('[30, "never committed"]\n[3')
    written.clear()
    build_index(passages(40), tmp_path / "i")
    assert len(written) == 20


def test_a_build_that_other_versions_began_is_begun_anew(tmp_path: Path, written: list[str]):
    begun(tmp_path / "i")
    journal = unfinished_folder(tmp_path / "i") / JOURNAL
    journal.write_text(journal.read_text().replace("english-1", "english-0"))
    written.clear()
    build_index(passages(40), tmp_path / "i")
    assert len(written) == 40


@pytest.mark.parametrize("others", [passages(40, word="other"), passages(5)])
def test_a_build_begun_with_other_passages_is_refused_with_the_command(tmp_path: Path, others: list[Passage]):
    begun(tmp_path / "i")
    with pytest.raises(Fault, match=r"was begun with .*rm -r .*unfinished && certigraph index c\.jsonl --out"):
        build_index(others, tmp_path / "i", source="c.jsonl")


def test_the_command_that_removes_a_build_quotes_its_folder(tmp_path: Path):
    begun(tmp_path / "my films")
    with pytest.raises(Fault, match=r"rm -r '[^']*\.my films\.unfinished' && "):
        build_index(passages(5), tmp_path / "my films")


def test_an_index_is_replaced_where_one_stands_in_it_or_links_to_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    build_index(passages(3), tmp_path / "i")
    (tmp_path / "link").symlink_to(tmp_path / "i")
    build_index(passages(4), tmp_path / "link")
    assert (tmp_path / "link").is_symlink()
    assert open_corpus(tmp_path / "i").manifest.passages == 4
    monkeypatch.chdir(tmp_path / "i")
    build_index(passages(5), Path())
    assert open_corpus(tmp_path / "i").manifest.passages == 5


def test_an_index_is_replaced_by_one_of_another_corpus(tmp_path: Path):
    build_index(passages(3), tmp_path / "i")
    reader = open_corpus(tmp_path / "i")
    build_index(passages(3, word="other"), tmp_path / "i")
    assert reader.search("common", 1)  # who had it open keeps it
    assert not open_corpus(tmp_path / "i").search("common", 1)
    assert [entry.name for entry in tmp_path.iterdir()] == ["i"]


def test_passages_without_title_and_text_are_left_out_and_counted(tmp_path: Path):
    bare = [
        Passage(id="a", title="", text="words"),
        Passage(id="b", title=" ", text=""),
        Passage(id="c", title="T", text=""),
    ]
    manifest = build_index(bare, tmp_path / "i")
    assert (manifest.passages, manifest.skipped) == (2, 1)
    assert open_corpus(tmp_path / "i").passage("a").title == ""


@pytest.mark.parametrize("batch", [10, 3])
def test_ids_given_twice_are_refused(tmp_path: Path, batch: int):
    with pytest.raises(Fault, match="'p1'"):
        build_index([*passages(4), passages(2)[1]], tmp_path / "i", batch=batch)
    assert not (tmp_path / "i").exists()


@pytest.mark.parametrize("nothing", [[], [Passage(id="a", title="", text="")]])
def test_an_empty_corpus_is_refused(tmp_path: Path, nothing: list[Passage]):
    with pytest.raises(Fault, match=r"c\.jsonl has no passage"):
        build_index(nothing, tmp_path / "i", source="c.jsonl")
    assert not list(tmp_path.iterdir())


def test_a_folder_of_something_else_is_left_alone(tmp_path: Path):
    (tmp_path / "thesis.tex").write_text("ten years")
    with pytest.raises(Fault, match="no index: name another with --out"):
        build_index(passages(3), tmp_path)
    assert (tmp_path / "thesis.tex").read_text() == "ten years"


def test_two_builds_of_one_index_do_not_mix(tmp_path: Path):
    def while_building() -> Iterator[Passage]:
        yield from passages(1)
        with pytest.raises(Fault, match="another build is at work"):
            build_index(passages(3), tmp_path / "i")
        yield from passages(3)[1:]

    assert build_index(while_building(), tmp_path / "i").passages == 3


SCRIPT = """
import sys, time
from pathlib import Path
sys.path.insert(0, sys.argv[2])
from test_retrieval_index import build_index, passages
def slow():
    for n, passage in enumerate(passages(5_000)):
        time.sleep(0.05 if n > 3_500 else 0)
        yield passage
build_index(slow(), Path(sys.argv[1]), progress=lambda n: print(n, flush=True), batch=500)
"""


@pytest.mark.slow
def test_a_build_killed_with_sigkill_goes_on(tmp_path: Path, written: list[str]):
    whole = build_index(passages(5_000), tmp_path / "whole")
    killed(tmp_path / "i")
    assert not (tmp_path / "i").exists()
    written.clear()
    resumed: Manifest = build_index(passages(5_000), tmp_path / "i", batch=500)
    assert resumed == whole
    assert len(written) in (1_500, 2_000)  # the commit at 3,500 may have been under way
    corpus = open_corpus(tmp_path / "i")
    for n in range(0, 5_000, 250):
        assert [hit.passage.id for hit in corpus.search(f"number {n}", 1)] == [f"p{n}"]


def killed(folder: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    command = [sys.executable, "-c", SCRIPT, str(folder), str(Path(__file__).parent)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as process:
        assert process.stdout
        assert [process.stdout.readline().strip() for _ in range(3)] == ["1000", "2000", "3000"]
        unfinished = unfinished_folder(folder) / JOURNAL
        while '[3500, "' not in unfinished.read_text():
            assert process.poll() is None
        process.send_signal(signal.SIGKILL)

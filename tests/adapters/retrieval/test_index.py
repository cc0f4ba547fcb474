"""Tests of `adapters.retrieval.index`."""

import gzip
import json
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

import pytest
from helpers.files.real_data import data_folder
from helpers.processes.children import child_environment

from certigraph.adapters.retrieval import index
from certigraph.adapters.retrieval.bm25 import PassagePool, Retriever
from certigraph.adapters.retrieval.index import (
    JOURNAL,
    MANIFEST,
    IndexedCorpus,
    Manifest,
    build_index,
    open_corpus,
    read_manifest,
    unfinished_folder,
    write_manifest,
)
from certigraph.adapters.retrieval.sources import passage_of_text, read_passages
from certigraph.state.endings import Fault, UnknownName
from certigraph.state.search import Passage

# Building an index: whole or not there, going on after a kill, and what is refused.


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
    document = index.build_document

    def noted(passage: Passage, place: int) -> object:
        ids.append(passage.id)
        return document(passage, place)

    monkeypatch.setattr(index, "build_document", noted)
    return ids


def test_progress_is_reported_and_the_manifest_says_what_is_in(tmp_path: Path):
    messages: list[int] = []
    manifest = build_index(passages(2_500), tmp_path / "i", source="c.jsonl", progress=messages.append)
    assert messages == [1_000, 2_000]
    assert (manifest.passages, manifest.skipped, manifest.source) == (2_500, 0, "c.jsonl")
    assert open_corpus(tmp_path / "i").manifest == manifest


def test_an_index_is_seen_only_when_it_is_whole(tmp_path: Path):
    begun(tmp_path / "i")
    assert not (tmp_path / "i").exists()
    with pytest.raises(Fault, match="unfinished"):
        open_corpus(tmp_path / "i")
    build_index(passages(40), tmp_path / "i")
    assert [entry.name for entry in tmp_path.iterdir()] == ["i"]


@pytest.mark.slow
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


def test_a_build_that_other_versions_began_is_begun_again(tmp_path: Path, written: list[str]):
    begun(tmp_path / "i")
    journal = unfinished_folder(tmp_path / "i") / JOURNAL
    journal.write_text(journal.read_text().replace("english-1", "english-0"))
    written.clear()
    build_index(passages(40), tmp_path / "i")
    assert len(written) == 40


@pytest.mark.parametrize("others", [passages(40, word="other"), passages(5)])
def test_a_build_begun_with_other_passages_is_refused_with_the_command(tmp_path: Path, others: list[Passage]):
    begun(tmp_path / "i")
    with pytest.raises(Fault, match=r"c\.jsonl"):
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
    with pytest.raises(Fault, match="not an index: name another with --out"):
        build_index(passages(3), tmp_path)
    assert (tmp_path / "thesis.tex").read_text() == "ten years"


def test_two_builds_of_one_index_do_not_mix(tmp_path: Path):
    def while_building() -> Iterator[Passage]:
        yield from passages(1)
        with pytest.raises(Fault, match="another build is running"):
            build_index(passages(3), tmp_path / "i")
        yield from passages(3)[1:]

    assert build_index(while_building(), tmp_path / "i").passages == 3


SCRIPT = """
import sys, time
from pathlib import Path
sys.path.insert(0, sys.argv[2])
from test_index import build_index, passages
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
    environment = child_environment()
    command = [sys.executable, "-c", SCRIPT, str(folder), str(Path(__file__).parent)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as process:
        assert process.stdout
        assert [process.stdout.readline().strip() for _ in range(3)] == ["1000", "2000", "3000"]
        unfinished = unfinished_folder(folder) / JOURNAL
        while '[3500, "' not in unfinished.read_text():
            assert process.poll() is None
        process.send_signal(signal.SIGKILL)


# BM25 on disk: rank-bm25's passages on real questions, the corpus's order, threads, and folders it refuses.

Films = Callable[..., Retriever]

ALIEN = Passage(id="1", title="Alien (film)", text="A crew meets a creature in space.")
SPACE = Passage(id="2", title="", text="Space films about a crew in space and their space ships.")
RIVER = Passage(id="3", title="Loire", text="A river of France.")
EMPTY = Passage(id="4", title="", text="")
OTHERS = [Passage(id=f"o{n}", title="", text=f"Something else, number {n}.") for n in range(6)]
FILMS = [ALIEN, SPACE, RIVER, *OTHERS]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    build_index(FILMS, tmp_path / "films", source="films.jsonl")
    return tmp_path / "films"


@pytest.fixture(params=["pool", "index"])
def films(request: pytest.FixtureRequest, folder: Path) -> Films:
    """The films in memory and on disk, with or without titles first."""

    def opened(boost_titles: bool = True) -> Retriever:
        if request.param == "index":
            return open_corpus(folder, boost_titles=boost_titles)
        return PassagePool([*FILMS, EMPTY], boost_titles=boost_titles)

    return opened


def found(retriever: Retriever, query: str, k: int = 10) -> list[str]:
    return [hit.passage.id for hit in retriever.search(query, k)]


def test_passages_come_back_as_they_were_the_best_first(films: Films):
    hits = films(boost_titles=False).search("the crew of a space ship", 10)
    assert [hit.passage for hit in hits] == [SPACE, ALIEN]
    assert hits[0].score > hits[1].score > 0


def test_a_passage_whose_title_is_named_comes_first(films: Films):
    query = "In space, space films, does the crew of Alien meet?"
    assert found(films(boost_titles=False), query)[0] == "2"
    assert found(films(), query) == ["1", "2"]


@pytest.mark.parametrize("query", ["", "who is the", "?!", "zebra"])
def test_a_query_without_a_term_of_the_corpus_finds_nothing(films: Films, query: str):
    assert found(films(), query) == []


@pytest.mark.parametrize("k", [0, -1])
def test_no_passages_are_found_where_none_are_requested(films: Films, k: int):
    assert found(films(), "space", k) == []


def test_a_passage_is_had_by_its_id(films: Films):
    assert films().passage("3") == RIVER
    with pytest.raises(UnknownName, match="'9'"):
        films().passage("9")


@pytest.mark.slow
def test_equal_passages_stay_in_the_order_of_the_corpus_over_many_commits(tmp_path: Path):
    equal = [Passage(id=f"e{n}", title="", text="equal text") for n in range(60)]
    build_index(equal, tmp_path / "equal", batch=7)
    corpus = open_corpus(tmp_path / "equal")
    assert [found(corpus, "equal", k) for k in (1, 10, 60)] == [[f"e{n}" for n in range(k)] for k in (1, 10, 60)]


def test_many_threads_search_one_corpus(films: Films):
    corpus = films()
    with ThreadPoolExecutor(8) as threads:
        assert list(threads.map(lambda _: found(corpus, "space crew"), range(64))) == [["2", "1"]] * 64


class Real(NamedTuple):
    questions: list[tuple[str, set[str]]]
    """Each with the ids of its evidence."""
    passages: list[Passage]
    plain: IndexedCorpus
    two_stage: IndexedCorpus


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str, str], Real]:
    def opened(benchmark: str, name: str) -> Real:
        path, folder = data_folder(benchmark) / name, tmp_path_factory.mktemp(benchmark) / "index"
        passages = list(read_passages(path))
        build_index(passages, folder)
        questions = list(map(evidence, gzip.decompress(path.read_bytes()).splitlines()))
        return Real(questions, passages, open_corpus(folder, boost_titles=False), open_corpus(folder))

    return opened


def evidence(line: bytes) -> tuple[str, set[str]]:
    row = json.loads(line)
    if "context" in row:
        titles = {title for title, _ in row["supporting_facts"]}
        gold = [(title, "".join(sentences)) for title, sentences in row["context"] if title in titles]
    else:
        gold = [(one["title"], one["paragraph_text"]) for one in row["paragraphs"] if one["is_supporting"]]
    return row["question"], {passage_of_text(title, text).id for title, text in gold}


def recall(retriever: Retriever, questions: list[tuple[str, set[str]]], k: int) -> float:
    return sum(len(gold & set(found(retriever, entry, k))) / len(gold) for entry, gold in questions) / len(questions)


@pytest.mark.slow
def test_the_first_ten_are_rank_bm25s_on_real_questions(real):
    train = real("hotpotqa", "train_distractor.jsonl.gz")
    pool = PassagePool(train.passages, boost_titles=False)
    pairs = [(set(found(pool, entry)), set(found(train.plain, entry))) for entry, _ in train.questions[:40]]
    assert sum(len(ours & theirs) / 10 for ours, theirs in pairs) / len(pairs) > 0.85  # k1 and idf differ


@pytest.mark.slow
@pytest.mark.parametrize(
    ("benchmark", "name", "gain"),
    [("hotpotqa", "train_distractor.jsonl.gz", 0.07), ("musique", "musique_ans_train.jsonl.gz", 0.02)],
)
def test_titles_bring_evidence_into_the_first_two_and_lose_none_in_ten(real, benchmark: str, name: str, gain: float):
    train = real(benchmark, name)
    plain, two_stage = ([recall(one, train.questions, k) for k in (2, 10)] for one in (train.plain, train.two_stage))
    assert two_stage[0] - plain[0] >= gain
    assert two_stage[1] >= plain[1] > 0.55


def damaged(folder: Path) -> None:
    (folder / "meta.json").unlink()


def of_another_analyzer(folder: Path) -> None:
    write_manifest(folder, read_manifest(folder).model_copy(update={"analyzer": "german-1"}))


def of_another_layout(folder: Path) -> None:
    write_manifest(folder, read_manifest(folder).model_copy(update={"layout": 0}))


def without_manifest(folder: Path) -> None:
    (folder / MANIFEST).unlink()


@pytest.mark.parametrize(
    ("harm", "message"),
    [
        (damaged, "damaged"),
        (of_another_analyzer, "german-1.*english-1"),
        (of_another_layout, "layout 0.*layout 1"),
        (without_manifest, "not an index"),
    ],
)
def test_a_folder_that_cannot_be_searched_says_the_command(folder: Path, harm: Callable[[Path], None], message: str):
    harm(folder)
    with pytest.raises(Fault, match=message):
        open_corpus(folder)

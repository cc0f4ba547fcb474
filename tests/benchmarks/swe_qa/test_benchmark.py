"""Repository questions: nothing outside the root is read, tools are bounded, layouts are read, runs work offline."""

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from helpers.files.real_data import data_folder

from certigraph.benchmarks.swe_qa.benchmark import SweQA
from certigraph.benchmarks.swe_qa.questions import parse_origin, write_sample_repository
from certigraph.benchmarks.swe_qa.world import (
    MAX_FILE_BYTES,
    MAX_MATCHES,
    MAX_READ_LINES,
    Repository,
    RepositoryWorld,
    find_lines,
    find_paths,
    find_symbols,
    resolve_lines,
)
from certigraph.runtime.run import run
from certigraph.state.endings import Fault, UnknownName
from certigraph.state.run import finish, search, use_tool

SECRET = "the secret outside"


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    """The generated repository, with traps next to it and in it."""
    (tmp_path / "secret.txt").write_text(SECRET, encoding="utf-8")
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "more.py").write_text(SECRET, encoding="utf-8")
    root = write_sample_repository(tmp_path / "repo")
    (root / "link.txt").symlink_to(tmp_path / "secret.txt")
    (root / "folder").symlink_to(tmp_path / "outside")
    (root / "binary.dat").write_bytes(b"parcel\0\x01")
    (root / "large.txt").write_text("parcel\n" * (MAX_FILE_BYTES // 7 + 1), encoding="utf-8")
    (root / ".env").write_text(SECRET, encoding="utf-8")
    return Repository(root)


@pytest.fixture
def world() -> RepositoryWorld:
    benchmark = SweQA()
    opened = benchmark.open(benchmark.task("made/0"))
    opened.reset()
    return opened


def lines(folder: Path, count: int, text: str = "x = 1") -> Repository:
    folder.mkdir()
    (folder / "long.py").write_text(f"{text}\n" * count, encoding="utf-8")
    return Repository(folder)


def test_links_hidden_binary_and_large_files_are_not_part(repository: Repository):
    assert repository.paths == tuple(sorted(Repository(write_sample_repository(repository.root)).paths))
    assert not {"link.txt", "folder/more.py", "binary.dat", "large.txt", ".env"} & set(repository.paths)
    assert "parcels/routes.py" in repository.paths


@pytest.mark.parametrize(
    "path",
    [
        "../secret.txt",
        "parcels/../../secret.txt",
        "parcels/../README.md",
        "/etc/passwd",
        "//etc/passwd",
        "..\\secret.txt",
        "link.txt",
        "folder/more.py",
        ".env",
        "~/.bashrc",
        "",
        "parcels",
    ],
)
def test_what_leaves_the_root_is_refused_and_never_read(repository: Repository, path: str):
    assert repository.path_of(path) is None
    assert isinstance(resolve_lines(repository, path), str)
    assert isinstance(resolve_lines(repository, f"{path}:1-5"), str)
    with pytest.raises(Fault, match="is not, or no longer, a file of"):
        repository.lines(path)


def test_an_absolute_path_into_the_root_is_refused_too(repository: Repository):
    assert repository.path_of(str(repository.root / "README.md")) is None


def test_no_tool_shows_what_is_outside(repository: Repository):
    assert find_lines(repository, "secret outside") == []
    assert find_paths(repository, "secret") == find_paths(repository, "more.py") == []
    assert find_paths(repository, "../*") == []


def test_a_file_that_became_a_link_is_not_followed(repository: Repository, tmp_path: Path):
    assert "README.md" in repository.paths
    (repository.root / "README.md").unlink()
    (repository.root / "README.md").symlink_to(tmp_path / "secret.txt")
    with pytest.raises(Fault, match="is not, or no longer, a file of"):
        repository.lines("README.md")


def test_a_file_that_grew_is_read_no_further_than_the_limit(repository: Repository):
    assert "README.md" in repository.paths
    (repository.root / "README.md").write_text("x" * (MAX_FILE_BYTES + 1_000), encoding="utf-8")
    assert len(repository.lines("README.md")[0]) == MAX_FILE_BYTES


def test_a_file_that_is_gone_while_it_is_listed_is_not_part(repository: Repository, monkeypatch: pytest.MonkeyPatch):
    opened = Path.open

    def gone(path: Path, *arguments: Any, **options: Any) -> Any:
        if path.name == "README.md":
            raise FileNotFoundError(path)
        return opened(path, *arguments, **options)

    monkeypatch.setattr(Path, "open", gone)
    assert "README.md" not in repository.paths


def test_paths_are_found_by_part_and_by_pattern(repository: Repository):
    assert find_paths(repository, "ROUTES") == ["parcels/routes.py"]
    assert find_paths(repository, "*.js") == ["web/badge.js"]
    assert find_paths(repository, "parcels/e*") == ["parcels/errors.py"]
    assert find_paths(repository, "./parcels/routes.py") == []


def test_grep_compares_text_word_for_word(repository: Repository):
    assert [str(where) for where in find_lines(repository, "raise unknownzone")] == ["parcels/routes.py:19"]
    assert find_lines(repository, "RAISE") == []  # upper case is meant
    assert find_lines(repository, "r.ise") == []
    assert find_lines(repository, "(a+)+$") == []


def test_looks_are_bounded(tmp_path: Path):
    repository = lines(tmp_path / "repo", 500)
    where = resolve_lines(repository, "long.py:10-400")
    assert not isinstance(where, str)
    assert (where.first, where.last) == (10, 10 + MAX_READ_LINES - 1)
    assert len(find_lines(repository, "x = 1")) == MAX_MATCHES


@pytest.mark.parametrize(
    ("place", "shown"),
    [
        ("long.py", "long.py:1-20"),
        ("./long.py:3", "long.py:3-20"),
        ("long.py:3-5", "long.py:3-5"),
        ("long.py:0-2", "long.py:1-2"),
        ("long.py:20-99", "long.py:20"),
    ],
)
def test_reading_takes_a_path_and_lines(tmp_path: Path, place: str, shown: str):
    assert str(resolve_lines(lines(tmp_path / "repo", 20), place)) == shown


@pytest.mark.parametrize("place", ["long.py:21-30", "long.py:9-3"])
def test_lines_that_are_not_there_are_refused(tmp_path: Path, place: str):
    assert "has 20 lines" in str(resolve_lines(lines(tmp_path / "repo", 20), place))


def test_a_line_of_megabytes_is_cut(tmp_path: Path):
    repository = lines(tmp_path / "repo", 1, "x" * 10_000)
    where = resolve_lines(repository, "long.py")
    assert not isinstance(where, str)
    assert len(repository.passage(where).text) == 300


def test_symbols_by_name_and_by_qualified_name(repository: Repository):
    assert [str(s.lines) for s in find_symbols(repository, "depot_for")] == ["parcels/routes.py:14-19"]
    assert [s.name for s in find_symbols(repository, "Router.depot_for()")] == ["Router.depot_for"]
    assert [s.name for s in find_symbols(repository, "drawbadge")] == ["drawBadge"]
    assert {s.name for s in find_symbols(repository, "Parcel")} == {"ParcelError"}
    assert find_symbols(repository, "") == find_symbols(repository, "depot_for.x") == []


@pytest.mark.parametrize(
    "text", ["def f(:\n    pass", "x = " + "-" * 5_000 + "1\ndef f(): pass", "def f(): pass\n# \0 "]
)
def test_symbols_survive_what_python_cannot_parse(tmp_path: Path, text: str):
    (tmp_path / "odd.py").write_text(text.replace("\0", "\x0c"), encoding="utf-8")
    assert [s.name for s in find_symbols(Repository(tmp_path), "f")] == ["f"]


def test_symbols_survive_a_thousand_elifs(tmp_path: Path):
    branches = "".join(f"    elif x == {n}:\n        pass\n" for n in range(1_500))
    text = f"def parse(x):\n    if x:\n        pass\n{branches}    def inner(): ..."
    assert [s.name for s in find_symbols(lines(tmp_path / "repo", 1, text), "inner")] == ["parse.inner"]


def test_tools_answer_with_places_as_sources(world: RepositoryWorld):
    shown = world.step(use_tool("read", "parcels/routes.py:14-16"))
    assert shown.text.splitlines()[0].startswith("14     def depot_for")
    assert shown.sources == ("parcels/routes.py:14-16",) * 3
    found = world.step(use_tool("symbols", "send"))
    assert found.sources == ("parcels/sending.py:9-17",)
    assert set(world.sources()) == {"parcels/routes.py:14-16", "parcels/sending.py:9-17"}


@pytest.mark.parametrize(
    ("tool", "text"),
    [("read", "../x"), ("grep", "nowhere"), ("symbols", "nobody"), ("find", "*.rs"), ("grep", "")],
)
def test_what_is_not_there_is_refused_with_the_reason(world: RepositoryWorld, tool: str, text: str):
    answer = world.step(use_tool(tool, text))
    assert not answer.accepted
    assert answer.text


def test_every_source_is_a_passage_of_the_library(world: RepositoryWorld):
    benchmark = SweQA()
    library = benchmark.library(benchmark.task("made/0"))
    for action in (
        search("depot"),
        use_tool("grep", "depot"),
        use_tool("symbols", "Router"),
        use_tool("read", "README.md"),
    ):
        assert all(library.passage(id_).text for id_ in world.step(action).sources)
    for nowhere in ("../secret.txt:1-2", "README.md:0-2"):
        with pytest.raises(UnknownName, match="PATH:FIRST-LAST"):
            library.passage(nowhere)


def test_a_line_number_of_thousands_of_digits_names_nothing(world: RepositoryWorld):
    endless = "9" * 5_000
    with pytest.raises(UnknownName, match="PATH:FIRST-LAST"):
        SweQA().library(SweQA().task("made/0")).passage(f"README.md:{endless}")
    assert not world.step(use_tool("read", f"README.md:{endless}")).accepted
    world.step(finish(f"see README.md: line {endless}"))
    assert world.score().value >= 0


def test_evidence_is_the_share_of_cited_files(world: RepositoryWorld):
    world.step(finish("no idea"))
    assert world.score().parts["evidence_found"] == 0.0
    world.reset()
    world.step(use_tool("read", "parcels/routes.py:1-2"))
    world.step(finish("UnknownZone"))
    assert world.score().parts["evidence_found"] == 1.0


def test_your_own_question_about_any_folder(repository: Repository, tmp_path: Path):
    result = run("react", SweQA.over(repository.root, "Who raises TooHeavy?"), "own/0", out=tmp_path / "runs")
    assert result.scores is not None, result.message
    assert result.scores.parts["evidence_found"] is None


def test_a_folder_of_ones_own_questions_next_to_its_repository(tmp_path: Path):
    write_sample_repository(tmp_path / "repo")
    row = {"question": "What routes?", "answer": "Router in src/parcels/routes.py and routes.py"}
    (tmp_path / "questions.jsonl").write_text(json.dumps(row), encoding="utf-8")
    benchmark = SweQA(tmp_path)
    [task] = benchmark.tasks()
    assert (task.id, task.goal) == ("questions/0", "What routes?")
    assert [hop.passage.id for hop in benchmark.gold(task).hops] == ["parcels/routes.py:1-40"]


def test_the_layouts_of_both_benchmarks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    pro = {"question": "Why?", "answer": None, "repo_name": "own/er", "commit_id": "abc"}
    for folder, name, row in (
        ("swe_qa", "flask", {"question": "How?", "answer": "So."}),
        ("swe_qa_pro", "rl_test", {"extra_info": pro, "qa_type": {"class_name": "Why (Causal)"}}),
    ):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / f"{name}.jsonl.gz").write_bytes(gzip.compress(json.dumps(row).encode()))
    (tmp_path / "swe_qa" / "repo_commit.txt").write_text(
        "https://github.com/pallets/flask 85c5d93\n\n", encoding="utf-8"
    )
    benchmark = SweQA(tmp_path / "swe_qa")
    assert [task.id for task in benchmark.tasks()] == ["flask/0"]
    other = benchmark.bank.question("rl_test/0")
    assert (other.kind, other.answers, other.origin and other.origin.commit) == ("Why", ("",), "abc")
    write_sample_repository(tmp_path / "repos" / "pallets__flask")
    monkeypatch.setenv("CERTIGRAPH_REPOS", str(tmp_path / "repos"))
    assert [task.id for task in benchmark.tasks("present")] == ["flask/0"]
    assert benchmark.open(benchmark.task("flask/0")).reset().text.startswith("7 text files")


@pytest.mark.parametrize("name", ["../../etc", "..", "a/b/c", "plain", "own/..", "https://x/own/../er"])
def test_a_name_that_leads_elsewhere_is_not_an_origin(name: str):
    assert parse_origin(name, "abc") is None


def test_a_missing_checkout_comes_with_its_commands(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("CERTIGRAPH_REPOS", raising=False)
    benchmark = SweQA(data_folder("swe_qa"))
    with pytest.raises(Fault, match=r"git clone https://github.com/pallets/flask repos/flask && .* checkout 85c5d93"):
        benchmark.open(benchmark.task("flask/0"))


PRO = {"question": "?", "repo_name": "pallets/flask", "commit_id": "85c5d93"}


@pytest.mark.parametrize(
    "broken",
    [
        {"answer": "x"},
        {"extra_info": {"question": "?"}},
        {"extra_info": PRO, "qa_type": {"class_name": " "}},
        "a text",
    ],
)
def test_a_malformed_row_is_named_with_its_line(tmp_path: Path, broken: Any):
    (tmp_path / "questions.jsonl").write_text("\n" + json.dumps(broken) + "\n{}", encoding="utf-8")
    with pytest.raises(Fault, match=r"questions\.jsonl:2"):
        SweQA(tmp_path).tasks()


def test_empty_folders_are_not_a_repository_and_no_questions(tmp_path: Path):
    with pytest.raises(Fault, match="no text file"):
        _ = Repository(tmp_path).paths
    with pytest.raises(Fault, match="no such folder"):
        Repository(tmp_path / "nowhere")
    with pytest.raises(Fault, match=r"for \*\.jsonl"):
        SweQA(tmp_path).tasks()


def test_the_shared_questions_are_read_whole():
    benchmark = SweQA(data_folder("swe_qa"))
    assert len(benchmark.tasks()) == 479
    assert (len(benchmark.tasks("rl_test")), len(benchmark.tasks("rl_train"))) == (28, 308)
    origins = {question.origin for question in benchmark.bank.split()}
    assert None not in origins
    assert len(origins) == 15

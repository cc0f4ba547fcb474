"""`certigraph index`: what it prints, where it writes, and how it goes on."""

import json
from pathlib import Path

import pytest

from certigraph import cli
from certigraph.adapters.retrieval import index
from certigraph.adapters.retrieval.index import open_corpus


@pytest.fixture
def certigraph(capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    rows = [{"id": str(n), "title": f"T{n}", "text": f"words of {n}"} for n in range(30)] + [{"id": "x", "text": " "}]
    (tmp_path / "films.jsonl").write_text("\n".join(map(json.dumps, rows)))

    def call(*arguments: str) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as stop:
            cli.main(["index", *arguments])
        return int(stop.value.code or 0), *capsys.readouterr()

    return call


def test_an_index_is_written_and_described(certigraph):
    status, out, _ = certigraph("films.jsonl")
    assert status == 0
    assert out.startswith("films.index: 30 passages (1 without title and text left out) in ")
    assert open_corpus("films.index").search("words", 1)[0].passage.id == "0"


def test_json_is_one_object_and_nothing_else(certigraph, tmp_path: Path):
    status, out, err = certigraph("films.jsonl", "--out", "there", "--json")
    done = json.loads(out)
    assert (status, err) == (0, "")
    assert (done["folder"], done["passages"], done["skipped"]) == ("there", 30, 1)
    assert done["bytes"] == sum(file.stat().st_size for file in (tmp_path / "there").iterdir())


def test_ctrl_c_says_the_command_that_goes_on(certigraph, monkeypatch: pytest.MonkeyPatch):
    def interrupted(*arguments: object, **options: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(index, "build_index", interrupted)
        status, _, err = certigraph("films.jsonl", "--out", "my films")
    assert (status, err.strip()) == (
        130,
        "certigraph: interrupted; resume with: certigraph index films.jsonl --out 'my films'",
    )
    assert certigraph("films.jsonl", "--out", "my films")[0] == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("none.jsonl",), "no corpus at none.jsonl"),
        (("bad.jsonl",), "bad.jsonl:1"),
        (("empty.jsonl",), "has no passages"),
        (("films.jsonl", "--out", "."), "name another with --out"),
        ((), "CORPUS"),
    ],
)
def test_what_cannot_be_indexed_says_why_and_exits_2(
    certigraph, tmp_path: Path, arguments: tuple[str, ...], message: str
):
    (tmp_path / "bad.jsonl").write_text("words")
    (tmp_path / "empty.jsonl").write_text("")
    status, _, err = certigraph(*arguments)
    assert status == 2
    assert message in err
    assert "Traceback" not in err

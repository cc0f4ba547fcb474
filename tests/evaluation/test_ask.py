"""`certigraph.ask`: with engines by name, a folder, or search and pages of one's own."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from small_web import RIGHT, TEXT, SmallWeb

import certigraph
from certigraph import Context, RunFailed
from certigraph.adapters.models.schemas import minimal
from certigraph.adapters.models.scripted import ScriptedChat
from certigraph.state.records import UnknownName

HALL = "http://a.example/hall"


def knowing() -> Context:
    """A mind that draws its finding from the first source."""

    def respond(prompt: str, schema: dict[str, Any]) -> Any:
        return next((RIGHT[field] for field in schema.get("properties", {}) if field in RIGHT), minimal(schema))

    return Context(chat=ScriptedChat(responder=respond))


def test_a_folder_is_asked_in_place_of_the_web(tmp_path: Path):
    notes = tmp_path / "notes"
    notes.mkdir()
    (notes / "hall.md").write_text(TEXT)
    result = certigraph.ask(
        "How many seats has the Hall of Glass?", pages=notes, context=knowing(), out=tmp_path / "out"
    )
    assert (result.ending, result.scores.answer) == ("goal", "340")  # type: ignore[union-attr]
    assert result.findings[0].finding.sources == ("local:hall.md",)


def test_an_engine_and_a_reader_of_one_s_own_are_asked(tmp_path: Path):
    web = SmallWeb({HALL: TEXT})
    result = certigraph.ask("How many seats?", search=web, pages=web, context=knowing(), out=tmp_path)
    assert result.findings[0].finding.sources == (HALL,)
    assert web.fetched == [HALL]


class Plain:
    """Speaks in plain dicts."""

    name = "plain"

    def __init__(self, hit: Any) -> None:
        self._hit = hit

    def search(self, query: str, k: int) -> Sequence[Any]:
        return [self._hit]

    def page(self, url: str) -> Any:
        return {"url": f"{url}#top", "title": "Hall", "text": TEXT}


def test_plain_dicts_will_do(tmp_path: Path):
    plain: Any = Plain({"title": "Hall", "url": HALL})
    result = certigraph.ask("How many seats?", search=plain, pages=plain, context=knowing(), out=tmp_path)
    assert result.findings[0].finding.sources == (HALL,)


def test_what_is_no_result_is_told_with_the_right_form(tmp_path: Path):
    wrong: Any = Plain(HALL)
    with pytest.raises(RunFailed) as failed:
        certigraph.ask("How many seats?", search=wrong, pages=wrong, context=knowing(), out=tmp_path)
    result = failed.value.result
    assert result.ending == "error:environment"
    assert "Hit(title, url, snippet)" in result.message


def test_a_question_of_blanks_is_none():
    with pytest.raises(UnknownName, match="empty"):
        certigraph.ask("  ")

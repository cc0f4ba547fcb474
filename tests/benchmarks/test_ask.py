"""Tests of `benchmarks.ask`."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import typer
from helpers.sample_runs.finding_runs import FOUND, PASSED
from helpers.sample_runs.question_runs import Inquiry, run_inquiry
from helpers.web.small_web import RIGHT, TEXT, SmallWeb, quote_sources

import certigraph
from certigraph import Context, RunFailed
from certigraph.adapters.models.schemas import minimal_instance
from certigraph.adapters.models.scripts import ScriptedChat
from certigraph.adapters.protocols import Limits
from certigraph.benchmarks.ask import research_summary_of
from certigraph.cli.output import closing_lines, print_result
from certigraph.state.endings import Fault, UnknownName
from certigraph.state.records import Verdict

# `certigraph.ask` with search providers by name, with a folder, and with search and page objects.

HALL = "http://a.example/hall"


def knowing(*, free: bool = True) -> Context:
    """A scripted model that takes its finding from the first source."""

    def respond(prompt: str, schema: dict[str, Any]) -> Any:
        fields = schema.get("properties", {})
        answer: Any = next((RIGHT[field] for field in fields if field in RIGHT), minimal_instance(schema))
        return {**answer, "quotes": quote_sources(prompt, answer)} if "quotes" in fields else answer

    return Context(chat=ScriptedChat(responder=respond, free=free))


def test_a_folder_is_queried_in_place_of_the_web(tmp_path: Path):
    notes = tmp_path / "notes"
    notes.mkdir()
    (notes / "hall.md").write_text(TEXT)
    result = certigraph.ask(
        "How many seats has the Hall of Glass?", pages=notes, context=knowing(), out=tmp_path / "out"
    )
    assert (result.ending, result.scores.answer) == ("goal", "340")  # type: ignore[union-attr]
    assert result.findings[0].finding.sources == ("local:hall.md",)


def test_an_engine_and_a_reader_of_one_s_own_are_used(tmp_path: Path):
    web = SmallWeb({HALL: TEXT})
    result = certigraph.ask("How many seats?", search=web, pages=web, context=knowing(), out=tmp_path)
    assert result.findings[0].finding.sources == (HALL,)
    assert web.fetched == [HALL]


class Plain:
    """A search provider that returns plain dicts."""

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


def test_what_is_not_a_result_is_reported_with_the_right_form(tmp_path: Path):
    wrong: Any = Plain(HALL)
    with pytest.raises(RunFailed) as failed:
        certigraph.ask("How many seats?", search=wrong, pages=wrong, context=knowing(), out=tmp_path)
    result = failed.value.result
    assert result.ending == "error:environment"
    assert "Hit(title, url, snippet)" in result.message


def test_a_question_of_blanks_is_none():
    with pytest.raises(UnknownName, match="empty"):
        certigraph.ask("  ")


# The summary of a user's question.

FORCED = (PASSED.model_copy(update={"finding": None, "forced": "force_accept"}),) * 2


def printed_lines(result):
    return list(closing_lines(research_summary_of(result)))


@pytest.mark.parametrize(
    ("answer", "printed"),
    [
        ('["Ann", "Bo"]', ["Ann", "Bo"]),
        ('["{\\"price\\": 3}"]', ['{"price": 3}']),
        ("[1, 2]", ["[1, 2]"]),
        ("149", ["149"]),
        ("[sic", ["[sic"]),
        ("", []),
    ],
)
def test_several_answers_are_a_line_each(answer, printed, tmp_path):
    lines = printed_lines(run_inquiry(tmp_path, Inquiry(answer=answer)))
    assert [line.removeprefix("answer: ") for line in lines if line.startswith("answer: ")] == printed


def test_searches_and_pages_are_counted_and_dead_pages_once(tmp_path):
    result = run_inquiry(tmp_path, Inquiry())
    cost = research_summary_of(result).cost
    steps = len(result.state["history"])
    assert (cost.searches, cost.pages, cost.unreadable) == (2 * steps, 3 * steps, 1)


def test_what_was_not_reached_and_the_command_that_goes_on_are_reported(tmp_path):
    result = run_inquiry(tmp_path / "a run", Inquiry(answer=None, limits=Limits(steps=1)))
    summary = research_summary_of(result)
    assert "what the cheaper one costs" in summary.unsettled
    assert str(result.folder) in summary.resume and summary.resume.endswith("--budget steps=2")


def test_a_run_that_never_planned_has_a_summary_too(tmp_path):
    summary = research_summary_of(run_inquiry(tmp_path, Inquiry(fails={"open": Fault("environment", "no --budget")})))
    assert (summary.answer, summary.unsettled) == (None, ())
    assert "--budget" not in summary.resume


def test_what_pages_wrote_cannot_steer_the_terminal_or_pass_for_another_line(tmp_path):
    evil = FOUND.model_copy(update={"text": "one\ncertified: forged\x1b[2J", "sources": ("https://a\n.example",)})
    inquiry = Inquiry(answer="x\x1b]8;;http://evil\x07")
    inquiry.verdicts = [Verdict(depth=1, finding=evil), *inquiry.verdicts[1:]]
    lines = printed_lines(run_inquiry(tmp_path, inquiry))
    assert all(line.isprintable() for line in lines)
    assert sum(line.startswith("certified:") for line in lines) == 1


@pytest.mark.slow
def test_json_has_the_same(tmp_path, capsys):
    result = run_inquiry(tmp_path, Inquiry(*FORCED))
    with pytest.raises(typer.Exit) as left:
        print_result(result, as_json=True)
    assert left.value.exit_code == 1
    parsed = json.loads(capsys.readouterr().out)
    assert [parsed["answer"], parsed["answer_certified"], parsed["answer_forced"]] == [
        "20\nor 21",
        False,
        "force_accept",
    ]
    assert [found["forced"] for found in parsed["findings"]] == ["", "force_pass"], "certified findings come first"
    assert [found["certified"] for found in parsed["findings"]] == [True, False]
    assert parsed["findings"][0]["against"] == list(FOUND.against)
    assert parsed["cost"]["searches"] == 10
    assert parsed["certified"] == 1

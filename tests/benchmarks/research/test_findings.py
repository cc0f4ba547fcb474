"""Findings that are lists: what supports an item, what later steps see of it, and that none is lost on the way."""

import json
from pathlib import Path
from typing import Any

import pytest
from helpers.web.small_web import RIGHT, ScriptedAnswers, SmallResearch, SmallWeb
from hypothesis import given
from hypothesis import strategies as st

import certigraph
from certigraph.adapters.models.profiles import estimate_tokens
from certigraph.adapters.models.scripts import ScriptedChat
from certigraph.adapters.protocols import Context
from certigraph.benchmarks.research.findings import (
    MAX_NAMED_ITEMS,
    format_findings,
    items_problem,
    resolve_items,
)
from certigraph.benchmarks.research.operators import unforced
from certigraph.benchmarks.research.plans import ListedItem
from certigraph.graphs import sdp
from certigraph.nodes.search import abstain
from certigraph.state.certified_states import KnownFinding
from certigraph.state.records import Finding, FoundItem

HALLS = {f"Hall {n:02}": f"{100 + 7 * n} seats" for n in range(40)}
FIRST, SECOND = "http://a.example/halls", "http://b.example/halls"
ROWS = [f"{name} of Orrin has {seats}." for name, seats in HALLS.items()]
PAGES = {FIRST: "\n".join(ROWS[:20]), SECOND: "\n".join(ROWS[20:])}
EARLIER = (
    KnownFinding(
        finding=Finding(
            about="the halls",
            text="two halls",
            sources=(FIRST,),
            items=(
                FoundItem(name="Hall 01", detail="107 seats", source=FIRST, quote="Hall 01 of Orrin has 107 seats"),
            ),
        )
    ),
)


def listed(name: str, number: int) -> dict[str, Any]:
    return {"name": name, "detail": HALLS[name], "source": number, "words": f"{name} of Orrin has {HALLS[name]}"}


def all_listed() -> list[dict[str, Any]]:
    return [listed(name, 1 + (index >= 20)) for index, name in enumerate(HALLS)]


def finding_of(items: list[dict[str, Any]]) -> dict[str, Any]:
    found = {"finding": f"{len(items)} halls", "missing": "", "supported_by": [], "contradicted_by": [], "dispute": ""}
    return {**found, "quotes": [], "items": items}


def list_answers(*findings: dict[str, Any], kinds: tuple[str, ...] = ("collect",), **more: Any) -> ScriptedAnswers:
    plan = [{"kind": kind, "goal": f"The halls of Orrin, step {n}"} for n, kind in enumerate(kinds)]
    answers = iter(findings)
    return {
        **RIGHT,
        "steps": {"steps": plan},
        "queries": {"queries": ["01", "39"], "pages": []},
        "finding": lambda _: next(answers),
        **more,
    }


def run_list(
    scripted_answers: ScriptedAnswers, out: Path, window: int = 0, **operators: Any
) -> tuple[Any, SmallResearch]:
    benchmark = SmallResearch(SmallWeb(PAGES), scripted_answers)
    context = Context(model="scripted:expert", window=window)
    return certigraph.run(sdp.build(**operators), benchmark, context=context, out=out), benchmark


def test_a_list_is_certified_item_by_item_with_sources_and_words(tmp_path: Path):
    result, benchmark = run_list(list_answers(finding_of(all_listed())), tmp_path)
    found = result.certificates[0].finding
    assert [(item.name, item.detail) for item in found.items] == [*HALLS.items()]
    assert [item.source for item in found.items] == [FIRST] * 20 + [SECOND] * 20
    assert all(item.quote.startswith(item.name) for item in found.items)
    assert found.sources == (FIRST, SECOND)
    assert result.certificates[0].forced == ""
    answered = benchmark.prompts[-2]
    assert all(f"{name}: {seats}" in answered for name, seats in HALLS.items())
    assert all(item.quote in answered and item.source in answered for item in found.items)


def test_an_item_of_an_earlier_finding_keeps_its_source_through_a_filter(tmp_path: Path):
    kept = [{"name": name, "detail": "", "source": 0, "words": ""} for name in [*HALLS][::2]]
    scripted_answers = list_answers(finding_of(all_listed()), finding_of(kept), kinds=("collect", "filter"))
    result, _ = run_list(scripted_answers, tmp_path)
    before, after = (certificate.finding for certificate in result.certificates if certificate.finding)
    assert after.items == before.items[::2]


@pytest.mark.parametrize(
    ("item", "named"),
    [
        ({"words": "Hall 01 has 900 seats"}, "'Hall 01' are not in the source"),
        ({"words": ""}, "'Hall 01' are not in the source"),
        ({"source": 2}, "'Hall 01' are not in the source"),
        ({"source": 9}, "no source and no finding before it has 'Hall 01'"),
        ({"source": 0, "words": ""}, "no source and no finding before it has 'Hall 01'"),
    ],
)
def test_a_list_with_an_item_that_nothing_shows_is_refused_whatever_the_validator_says(
    item: dict[str, Any], named: str, tmp_path: Path
):
    items = [listed("Hall 00", 1), {**listed("Hall 01", 1), **item}]
    scripted_answers = {**list_answers(), "finding": finding_of(items)}
    result, _ = run_list(scripted_answers, tmp_path, validate=unforced, answer=abstain)
    assert result.certificates == []
    verdict = result.state["attempts"][0].verdict
    assert named in verdict.reason and "of 2 items" in verdict.reason
    assert verdict.decided_by == "code"


@pytest.mark.slow
def test_a_list_passes_uncertified_with_its_items_at_the_second_refusal(tmp_path: Path):
    found = finding_of(all_listed()) | {"finding": ""}
    scripted_answers = {**list_answers(), "finding": found, "adequate": {"reason": "no", "adequate": False}}
    result, _ = run_list({**scripted_answers, "answers": {"answers": []}}, tmp_path)
    certificate = result.certificates[0]
    assert (certificate.forced, len(certificate.finding.items)) == ("force_pass", 40)
    assert json.loads(result.scores.answer) == [*HALLS]  # the closest answer are the items of the last finding


def test_an_item_of_a_known_name_has_its_latest_source_and_repetitions_count_once():
    again = ListedItem(name="hall 01", detail="", source=0, words="")
    own = ListedItem(name="Hall 02", detail="114", source=1, words="Hall 02 of Orrin")
    found = resolve_items([again, own, own], [SECOND], EARLIER)
    assert found == (
        FoundItem(name="hall 01", detail="107 seats", source=FIRST, quote="Hall 01 of Orrin has 107 seats"),
        FoundItem(name="Hall 02", detail="114", source=SECOND, quote="Hall 02 of Orrin"),
    )


def test_a_refusal_names_a_few_items_and_counts_the_others():
    loose = [ListedItem(name=f"n{n}", detail="", source=0, words="") for n in range(20)]
    problem = items_problem(loose, {}, (), derived=False)
    assert problem.count("'n") == MAX_NAMED_ITEMS and "12 more" in problem
    assert items_problem(loose, {}, (), derived=True) == ""


texts = st.text(max_size=12)
items = st.builds(ListedItem, name=texts, detail=texts, source=st.integers(-2, 4), words=texts)


@pytest.mark.slow
@given(st.lists(items, max_size=6), st.booleans())
def test_items_without_a_problem_have_a_source_or_a_name_that_was_found(answer: list[ListedItem], derived: bool):
    sources = {1: "one two three", 2: "0 1 2"}
    if items_problem(answer, sources, EARLIER, derived=derived) or derived:
        return
    for item in resolve_items(answer, [FIRST, SECOND], EARLIER):
        assert item.source and item.quote


@pytest.mark.parametrize("most", [20, 60, 200])
def test_short_findings_end_between_words(most: int):
    shown = format_findings(EARLIER, most).text
    assert "10 " not in shown.replace("107 ", "") and "107 s " not in shown


def test_findings_that_do_not_fit_lose_words_first_and_names_of_items_last():
    items = tuple(FoundItem(name=name, detail=seats, source=FIRST, quote="words " * 9) for name, seats in HALLS.items())
    known = [KnownFinding(finding=Finding(about="a", text="halls", sources=(FIRST,), items=items))] * 2
    lengths = [100_000, 4_000, 1_700, 600]
    whole, without_words, without_details, cut = (format_findings(known, most) for most in lengths)
    assert whole.cut == () and "words words" in whole.text
    assert without_words.cut and "words words" not in without_words.text
    assert all(without_words.text.count(f"{name}: {seats}") == 2 for name, seats in HALLS.items())
    assert without_details.cut and all(
        without_details.text.count(f"{name}: {seats}") == 1 for name, seats in HALLS.items()
    )
    assert all(without_details.text.count(name) == 2 for name in HALLS)
    assert cut.cut == ("the end of findings",) and len(cut.text) < 650
    assert format_findings(known, 4_000, quotes=False).cut == ()


@pytest.mark.slow
@pytest.mark.parametrize("window", [4_096, 16_000])
def test_every_prompt_with_long_lists_fits_a_small_window(window: int, tmp_path: Path):
    kinds = ("collect", "extract", "extract", "extract", "extract")
    scripted_answers = list_answers(*[finding_of(all_listed()) for _ in kinds], kinds=kinds)
    benchmark = SmallResearch(SmallWeb(PAGES), scripted_answers)
    chat = ScriptedChat(responder=benchmark.expert(), profile={"max_input_tokens": window})
    result = certigraph.run(sdp.build(), benchmark, context=Context(chat=chat), out=tmp_path)
    assert max(map(estimate_tokens, benchmark.prompts)) <= 1.02 * 0.75 * window
    if window < 16_000:
        return  # too little for the lists of all steps
    assert [len(c.finding.items) for c in result.certificates if c.finding] == [40] * 5
    calls = [call for event in result.trajectory.events for call in event.calls]
    assert any("words of the sources" in str(call.get("cut")) for call in calls)

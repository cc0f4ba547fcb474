"""`certigraph study tdp`: prompts of scripted episodes of growing length."""

import csv
import json
import re
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from helpers.sample_runs.recorded_runs import rows_of

from certigraph.adapters.models.scripts import ScriptedChat
from certigraph.adapters.protocols import Context
from certigraph.cli.evaluations import study_app
from certigraph.evaluation.comparison import parse_methods
from certigraph.evaluation.frames import RecordedRun, frames_of
from certigraph.evaluation.statistics import fit_slope
from certigraph.runtime.run import run
from certigraph.state.endings import Fault, UnknownName
from certigraph.state.records import Action
from certigraph.studies.tdp import (
    ANY_OPERATOR,
    SIZE_COLUMNS,
    SUBTASK,
    TASK_GRAPH,
    WHOLE_TASK,
    Corridor,
    PromptStudy,
    build_order,
    run_command,
    size_table,
    slope_table,
    total_table,
    write_report,
)

pytest.importorskip("scipy", reason="pip install 'certigraph[eval]'")


LONGEST = 24


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> tuple[PromptStudy, Path]:
    """Three lengths, which takes seconds."""
    folder = tmp_path_factory.mktemp("study")
    given = build_order(LONGEST, folder)
    assert run_command(given, folder, report_only=False, as_json=True) == 0
    return write_report(given.plan, folder), folder


def slope(study: PromptStudy, kind: str, method: str, operator: str = ANY_OPERATOR) -> Any:
    [found] = study.slopes.query("kind == @kind and method == @method and operator == @operator").itertuples()
    return found


def size(rooms: int, characters: int, about: str = SUBTASK, operator: str = "execute", method: str = "tdp") -> tuple:
    return ("wide", rooms, method, about, operator, "n", 0, characters // 4, characters, 10)


def slopes_of(*sizes: tuple) -> list[Any]:
    return list(slope_table(pd.DataFrame(sizes, columns=SIZE_COLUMNS)).itertuples())


# --- slopes


def test_the_slope_by_hand():
    """Deviations -8, 0, 8 and -8, -8, 16: 192 / 128; residuals 4, -8, 4, error sqrt(96 / 128)."""
    found = fit_slope([8, 16, 24], [100, 100, 124])
    assert found == pytest.approx((1.5, 1.5 - 12.706205 * 0.75**0.5, 1.5 + 12.706205 * 0.75**0.5))


def test_a_slope_is_called_by_its_interval():
    growing = slopes_of(*(size(rooms, 10 * rooms) for rooms in (8, 16, 24)))[0]
    level = slopes_of(*(size(rooms, 400) for rooms in (8, 16, 24)))[0]
    uncertain = slopes_of(*(size(rooms, value) for rooms, value in ((24, 124), (8, 100), (16, 100))))[0]
    assert [found.words for found in (growing, level, uncertain)] == ["growing", "bounded", "undecided"]
    assert (level.slope, level.low, level.high) == (0, 0, 0)
    assert (uncertain.shortest, uncertain.longest, uncertain.slope) == (100, 124, pytest.approx(1.5))


def test_two_lengths_do_not_tell():
    assert slopes_of(size(8, 100), size(16, 900))[0].words.startswith("too few lengths")


def test_only_the_largest_prompt_counts_and_the_task_graph_apart():
    sizes = [size(8, 100), size(8, 40), size(8, 60, operator="plan"), size(8, 999, TASK_GRAPH, "revise")]
    found = {(s.about, s.operator): s.longest for s in slopes_of(*sizes)}
    graph = {(TASK_GRAPH, "revise"): 999}
    assert found == {(SUBTASK, ANY_OPERATOR): 100, (SUBTASK, "execute"): 100, (SUBTASK, "plan"): 60, **graph}


def test_a_token_more_or_less_is_rounding():
    [constant] = slopes_of(size(8, 1084), size(16, 1084), size(24, 1088))[1:]
    [unclear] = slopes_of(size(8, 1084), size(16, 1084), size(24, 1092))[1:]
    assert (constant.words, unclear.words) == ("bounded", "undecided")


# --- the study


@pytest.mark.slow
@pytest.mark.parametrize(("graph", "grows"), [("tdp", False), ("react", True), ("plan_and_act", True)])
def test_a_longer_episode_needs_larger_prompts_unless_it_is_decoupled(graph: str, grows: bool, tmp_path: Path):
    corridor, [method] = Corridor(), parse_methods([graph])
    largest = []
    for task in ("wide-08", "wide-12"):
        done = run(method.build(), corridor, task, context=Context(limits=corridor.limits), out=tmp_path)
        sizes = size_table(frames_of([RecordedRun(method.name, task, 0, done.trajectory)]).calls)
        largest.append(sizes[sizes["about"] != TASK_GRAPH]["characters"].max())
    assert (largest[1] > largest[0] + 400) == grows
    assert (largest[1] == largest[0]) != grows


@pytest.mark.long
@pytest.mark.slow
def test_prompts_of_sub_tasks_are_bounded_and_those_of_others_grow(whole: tuple[PromptStudy, Path]):
    for method in ("react", "cot", "plan_and_act"):
        assert slope(whole[0], "wide", method).words == "growing"
        assert slope(whole[0], "wide", method).low > 50
    for operator in (ANY_OPERATOR, "plan", "execute", "supervise"):
        found = slope(whole[0], "wide", "tdp", operator)
        assert found.words == "bounded"
        assert abs(found.slope) < 1


@pytest.mark.slow
def test_within_one_sub_task_tdp_s_prompts_grow_like_any(whole: tuple[PromptStudy, Path]):
    assert slope(whole[0], "deep", "tdp").words == "growing"


@pytest.mark.slow
def test_every_episode_reaches_its_goal_in_its_steps(whole: tuple[PromptStudy, Path]):
    rows = rows_of(build_order(None, whole[1]).plan, whole[1])
    assert len(rows) == 4 * 2 * 3
    assert {row.score for row in rows} == {100}
    assert {row.task[-2:]: row.steps for row in rows if row.method == "tdp"} == {"08": 9, "16": 17, "24": 25}


@pytest.mark.slow
def test_prompts_are_distinguished_by_what_they_are_about(whole: tuple[PromptStudy, Path]):
    prompts = list(whole[0].prompts.itertuples())
    about = {(s.method, s.operator): s.about for s in prompts}
    assert about["react", "decide"] == WHOLE_TASK
    assert (about["tdp", "decompose"], about["tdp", "execute"]) == (TASK_GRAPH, SUBTASK)
    last = [s for s in prompts if (s.kind, s.rooms, s.method, s.operator) == ("wide", 24, "tdp", "plan")]
    assert [(s.subtask, s.steps) for s in last] == [(f"n{n:02}", 4 * n) for n in range(6)]


@pytest.mark.slow
def test_everything_is_written(whole: tuple[PromptStudy, Path]):
    study, folder = whole
    with (folder / "prompts.csv").open() as file:
        assert len(list(csv.DictReader(file))) == len(study.prompts)
    assert (folder / "prompts.png").read_bytes().startswith(b"\x89PNG")
    page = (folder / "study.html").read_text(encoding="utf-8")
    assert "a script answers for the model" in page
    assert "not finished" not in page
    assert re.findall(r'(?:href|src)="(?!#)[^"]*"|url\((?!#)[^)]*\)|<script|<link', page) == []


@pytest.mark.slow
def test_a_begun_study_goes_on_with_its_own_lengths(
    whole: tuple[PromptStudy, Path], capsys: pytest.CaptureFixture[str]
):
    before = {path: path.stat().st_mtime_ns for path in whole[1].rglob("trajectory.jsonl")}
    assert study_app(["tdp", "--out", str(whole[1]), "--json"], standalone_mode=False) == 0
    parsed = json.loads(capsys.readouterr().out)["slopes"]
    assert len(parsed) == len(whole[0].slopes)
    assert {path: path.stat().st_mtime_ns for path in whole[1].rglob("trajectory.jsonl")} == before
    with pytest.raises(Fault, match=f"certigraph study tdp --out {whole[1]}"):
        run_command(build_order(32, whole[1]), whole[1], report_only=False, as_json=True)


@pytest.mark.slow
def test_a_study_that_is_not_done_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    given = build_order(LONGEST, tmp_path)
    with pytest.raises(Fault, match="holds no comparison"):
        run_command(given, tmp_path, report_only=True, as_json=True)
    (tmp_path / "comparison.json").write_text(given.plan.model_dump_json())
    assert run_command(given, tmp_path, report_only=True, as_json=True) == 1
    assert "24 runs not finished" in (tmp_path / "study.html").read_text(encoding="utf-8")


@pytest.mark.parametrize("longest", [0, 16, 97])
def test_lengths_that_tell_nothing_are_refused(longest: int, tmp_path: Path):
    with pytest.raises(UnknownName, match="24 to 96 steps"):
        build_order(longest, tmp_path)


# --- the corridor


def test_rooms_answer_alike_and_an_answer_ends_them():
    corridor = Corridor()
    world = corridor.open(corridor.task("deep-08"))
    assert len({len(world.step(Action(text=f"search[room {n:02}]")).text) for n in (1, 9, 10, 96)}) == 1
    assert not world.step(Action(text="search[room 97]")).accepted
    assert not world.step(Action(text="walk")).accepted
    assert world.step(Action(text="finish[word-08]")).done
    assert world.score().value == 1


@pytest.mark.parametrize("task", ["deep-97", "wide-0", "long-08", "deep"])
def test_tasks_that_do_not_exist(task: str):
    with pytest.raises(UnknownName, match="deep-40 or wide-40"):
        Corridor().task(task)


def test_the_scripted_agent_answers_inside_a_run_only():
    form: Any = {"type": "json_schema", "json_schema": {"name": "x", "schema": {"type": "object"}}}
    with pytest.raises(LookupError, match="certigraph study tdp"):
        ScriptedChat(responder=Corridor().expert()).invoke("where?", response_format=form)


def test_the_calls_of_an_episode_are_added_up_and_methods_keep_their_order():
    sizes = [size(8, 100), size(8, 60, method="react"), size(8, 300), size(16, 40)]
    totals = total_table(pd.DataFrame(sizes, columns=SIZE_COLUMNS))
    assert list(totals.itertuples(index=False, name=None)) == [
        ("wide", 8, "tdp", 2, 100, 20),
        ("wide", 8, "react", 1, 15, 10),
        ("wide", 16, "tdp", 1, 10, 10),
    ]

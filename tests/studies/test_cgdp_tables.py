"""The study's figures by hand: pairs and families of tests, savings, frontiers, and what reorganisations cost."""

from typing import Any

import pandas as pd
import pytest
from helpers.sample_runs.recorded_runs import event, trajectory

from certigraph.evaluation.tables import format_cell
from certigraph.state.run import Belief
from certigraph.studies.cgdp_runs import StudyArm, StudyRun
from certigraph.studies.cgdp_tables import (
    EPISODE_COLUMNS,
    REPLAY_COLUMNS,
    belief_fields,
    difference_table,
    differences_by,
    gate_table,
    pairs_of,
    pareto_table,
    replay_table,
    round_table,
    saving_of,
    state_difference_table,
)


def episode(arm: StudyArm, task: str, **figures: Any) -> dict[str, Any]:
    return {"method": arm.name, **arm._asdict(), "benchmark": "b", "task": task, "trial": 0, **figures}


def frame(*rows: dict[str, Any]) -> pd.DataFrame:
    return pd.DataFrame(list(rows), columns=list(EPISODE_COLUMNS), dtype="object").astype(dict(EPISODE_COLUMNS))


NATIVE, FREE, WIPED = (StudyArm("ircot", memory, "shadow") for memory in ("native", "freeform", "lobotomized"))


# --- differences


def test_pairs_differ_in_one_thing():
    real, wide = FREE._replace(gate="on"), FREE._replace(variant="K=12")
    other = StudyArm("react", "native", "shadow")
    assert set(pairs_of([NATIVE, FREE, WIPED, real, wide, other])) == {
        ("memory", FREE, NATIVE),
        ("memory", FREE, WIPED),
        ("memory", WIPED, NATIVE),
        ("gate", real, FREE),
        ("setting", wide, FREE),
    }


@pytest.mark.slow
def test_a_difference_is_over_the_tasks_of_both():
    rows = [episode(NATIVE, str(task), score=10.0 * task, tokens=100) for task in range(8)]
    rows += [episode(FREE, str(task), score=10.0 * task + 5 + task % 2, tokens=50) for task in range(1, 9)]
    line = difference_table(frame(*rows)).set_index("measure")
    assert (line.loc["score", "n"], line.loc["tokens", "difference"]) == (7, -50)
    assert line.loc["score", "difference"] == pytest.approx(5 + 4 / 7)
    assert line.loc["score", "p_holm"] == line.loc["score", "p"]
    assert "above ircot/native" in line.loc["score", "words"]


def test_arms_without_a_common_task_have_no_difference():
    rows = frame(episode(NATIVE, "a", score=1.0, tokens=1), episode(FREE, "b", score=1.0, tokens=1))
    assert difference_table(rows)["n"].tolist() == [0, 0]


@pytest.mark.slow
def test_each_number_of_hops_is_a_family():
    rows = [episode(arm, f"{hops}{n}", score=n, hops=hops) for arm in (NATIVE, FREE) for hops in (2, 3) for n in (1, 2)]
    table = differences_by(frame(*rows), "hops")
    assert table["hops"].tolist() == [2, 3]
    assert table["n"].tolist() == [2, 2]


# --- the gate


@pytest.mark.slow
def test_questions_with_and_without_an_answer_are_families_of_their_own():
    rows = [
        episode(arm, f"{kind}{n}", score=score + 10.0 * n, answerable=answerable)
        for answerable, kind, scores in ((True, "a", (40.0, 60.0)), (False, "u", (20.0, 90.0)))
        for arm, score in zip((NATIVE, FREE), scores, strict=True)
        for n in range(3)
    ]
    table = differences_by(frame(*rows), "answerable").set_index("answerable")
    assert table["difference"].to_dict() == {False: pytest.approx(70.0), True: pytest.approx(20.0)}
    only_answerable = frame(*(row for row in rows if row["answerable"]))
    assert len(differences_by(only_answerable, "answerable")) == 1
    assert differences_by(only_answerable, "answerable", least=2).empty


def test_rounds_have_a_mean_and_a_median():
    rows = [episode(NATIVE, f"t{n}", rounds=rounds) for n, rounds in enumerate((1, 2, 9))]
    [row] = round_table(frame(*rows)).to_dict("records")
    assert (row["value"], row["median"]) == (4.0, 2.0)


def test_settings_that_check_the_belief_are_compared_with_the_same_that_do_not():
    def replay(run: str, setting: str, fired: int | None, saved: int) -> dict[str, Any]:
        return {**episode(FREE, run), "run": run, "setting": setting, "fired": fired, "saved": saved, "tokens": 100}

    rows = [replay("a", "f", 3, 40), replay("a", "f_d", 3, 40), replay("b", "f", 2, 60), replay("b", "f_d", None, 0)]
    rows.append({**replay("c", "f", 2, 50), "method": NATIVE.name})  # no belief, so nothing to compare
    replays = pd.DataFrame(rows, columns=list(REPLAY_COLUMNS), dtype="object").astype(dict(REPLAY_COLUMNS))
    [row] = state_difference_table(replays).to_dict("records")
    assert (row["setting"], row["n"], row["same"]) == ("f", 2, 0.5)
    assert (row["fire"], row["fire_changed"], row["saving"], row["saving_changed"]) == (1.0, 0.5, 50.0, 20.0)
    assert set(replay_table(replays)["setting"]) == {"f"}


def test_savings_are_net_and_may_be_losses():
    rows = frame(
        episode(NATIVE, "a", tokens=100, blended_tokens=40), episode(NATIVE, "b", tokens=100, blended_tokens=140)
    )
    value, low, high = saving_of(rows)
    assert value == 10
    assert low is not None
    assert high is not None
    assert low < 0 < high
    assert saving_of(frame(episode(NATIVE, "a", tokens=0, blended_tokens=0)))[0] == 0


@pytest.mark.slow
def test_harnesses_are_pooled_as_trials_of_a_task():
    react = StudyArm("react", "native", "shadow")
    rows = [
        episode(arm, task, score=score, blended_score=score + 10, tokens=10, blended_tokens=5, fired=fired)
        for arm, score, fired in ((NATIVE, 0.0, 2), (react, 50.0, None))
        for task in ("a", "b")
    ]
    line = gate_table(frame(*rows), ["memory"]).set_index("memory").loc["native"]
    assert (line["n"], line["fire"], line["change"], line["saving"]) == (4, 0.5, 10, 50)


# --- quality against tokens


def test_the_frontier_holds_what_nothing_beats():
    points = [(10, 50.0), (20, 50.0), (20, 70.0), (30, 60.0), (10, 50.0)]
    arms = [StudyArm("ircot", f"memory {number}") for number in range(len(points))]
    rows = [episode(arm, "a", tokens=t, score=score) for arm, (t, score) in zip(arms, points, strict=True)]
    assert pareto_table(frame(*rows))["frontier"].tolist() == [True, False, True, False, True]


def test_natural_and_gated_conditions_have_a_frontier_each():
    rows = [episode(NATIVE, "a", score=50.0, tokens=100, blended_score=40.0, blended_tokens=50)]
    rows += [episode(FREE, "a", score=40.0, tokens=200, blended_score=60.0, blended_tokens=150)]
    found = pareto_table(frame(*rows)).set_index(["memory", "gate"])["frontier"].to_dict()
    assert found == {
        ("native", "off"): True,
        ("native", "on"): True,
        ("freeform", "off"): False,
        ("freeform", "on"): True,
    }


# --- what beliefs take


def test_refused_tries_of_an_extraction_are_not_reorganisation():
    def call(tokens: int, failure: str = "") -> dict[str, Any]:
        return {"role": "extractor", "input_tokens": tokens, "output_tokens": 1, "failure": failure}

    def update(reorganised: int, *questions: str) -> dict[str, Any]:
        return {"belief": Belief(form="structured", questions=questions, reorganised=reorganised).as_json()}

    run = trajectory(
        event("memory", calls=[call(10)], update=update(0, "who wrote it")),
        event("memory", calls=[call(10, "no JSON"), call(20), call(300), call(400)], update=update(1, "who")),
        event("memory", calls=[call(10)], update=update(1, "No evidence found")),
    )
    state = {"belief": Belief(reorganised=1)}
    upkeep = belief_fields(StudyRun(StudyArm("ircot", "structured"), 0, run, state, {}, True, judge=lambda text: 0.0))
    assert list(upkeep.values()) == [1, 2, 702, True]


@pytest.mark.parametrize(
    ("value", "shown"), [(0.12345, "0.123"), (12345.6, "12,346"), (1200, "1,200"), (None, "-"), (float("nan"), "-")]
)
def test_cells(value: Any, shown: str):
    assert format_cell(value) == shown


# --- as people read them

"""Tests of `studies.step`."""

import csv

import pandas as pd
import pytest
from helpers.files import real_data
from typer.testing import CliRunner

from certigraph.adapters.protocols import Context, Limits
from certigraph.cli import app
from certigraph.evaluation.frames import RecordedRun, frames_of
from certigraph.graphs.assembly import operators_of
from certigraph.nodes.specs import Spec
from certigraph.runtime.registry import build_graph, graph_module
from certigraph.runtime.run import run
from certigraph.state.endings import Fault
from certigraph.state.records import Observation, Scores, Step, Task, Usage
from certigraph.state.trajectory import Event, Footer, Header, assemble_trajectory
from certigraph.studies.step import (
    best_curves,
    episode_frame,
    find_accidents,
    is_focus,
    learning_curves,
    order_episodes,
    planner_changes,
    planner_tasks,
    read_episodes,
    read_gold_scores,
    reward_curves,
)
from certigraph.studies.step_figures import draw_figures

pytestmark = pytest.mark.slow  # whole runs, drawn

FRICTION = "inclined-plane-friction-named-surfaces"
RESET = {"history": []}


def lines(*episodes, graph="step", task="boil:1", ending="gave_up", run_id="r", benchmark="scienceworld", **swaps):
    """A run whose episodes are lists of scores, of (action, score), or of (action, Observation)."""
    operators = {**operators_of(graph_module(graph).graph), **{s: Spec(name=n).as_json() for s, n in swaps.items()}}
    header = Header(
        run_id=run_id,
        created="2026-01-01T00:00:00",
        graph=graph,
        operators={slot: Spec.model_validate(spec).model_dump() for slot, spec in operators.items()},
        task=Task(benchmark=benchmark, id=task),
        context={"model": "scripted:x"},
        versions={},
    )
    updates = [update for episode in episodes for update in (RESET, *map(acted, episode))]
    footer = [Footer(ending=ending, usage=Usage(node="all"), scores=Scores(value=0))] if ending else []
    return [header, *(event(number, update) for number, update in enumerate(updates, 1)), *footer]


def acted(entry):
    action, answer = entry if isinstance(entry, tuple) else ("look around", entry)
    seen = answer if isinstance(answer, Observation) else Observation(text="seen", data={"score": answer})
    step = Step.model_validate({"action": {"text": action}, "digest": "d"})
    return {"history": [step.as_json()], "observation": seen.as_json()}


def event(number, update):
    replaced = ["history"] if update is RESET else []
    return Event(t=0, superstep=number, node="act", usage=Usage(node="act"), update=update, replaced=replaced)


def read(*episodes, **about):
    run = assemble_trajectory(lines(*episodes, **about))
    return episode_frame(frames_of([RecordedRun("method", run.header.task.id, 0, run)]))


def ordered(*parts):
    return order_episodes(pd.concat(parts, ignore_index=True))


def write(folder, *episodes, **about):
    folder.mkdir(parents=True)
    text = "".join(line.model_dump_json() + "\n" for line in lines(*episodes, run_id=folder.name, **about))
    (folder / "trajectory.jsonl").write_text(text, encoding="utf-8")


def table(path):
    with path.open(encoding="utf-8") as file:
        return list(csv.DictReader(file))


def test_episodes_are_distinguished_and_scores_are_the_last_positive_ones():
    first, second = read([0, 30, -100], [10, 8, 50], task="step-18/boil:1").itertuples()
    assert (first.scores, first.final, first.episode, first.last) == ((0, 30, 30), 30, 1, False)
    assert (second.scores, second.episode, second.last, second.task) == ((10, 8, 50), 2, True, "boil")


def test_rewards_stand_in_for_a_score_that_the_world_does_not_tell():
    earned = [("a", Observation(text="", reward=r)) for r in (0.0, 0.25, 1.0)]
    [trace] = read(earned, benchmark="blocksworld", task="4-0").itertuples()
    assert (trace.scores, trace.solved, trace.task) == ((0, 25, 100), True, "blocksworld 4-0")


def test_methods_are_named_by_what_was_swapped():
    parts = read([1], run_id="a", planner="none"), read([1], run_id="b", graph="clin"), read([1], run_id="c")
    assert list(ordered(*parts)["method"].cat.categories) == ["step", "clin", "step planner=none"]


def test_curves_keep_the_score_of_episodes_that_are_over():
    both = ordered(read([20, 60], [40, 40, 40, 80]))
    curve = reward_curves(both)
    assert list(curve["n"]) == [2] * 5
    assert list(curve["mean"]) == [0, 30, 50, 50, 70]
    assert list(curve["sd"][:2]) == pytest.approx([0, 200**0.5])
    means = learning_curves(both).groupby("episodes")["mean"].agg(list)
    assert means.to_dict() == {"first": [0, 20, 60], "last": [0, 40, 40, 40, 80]}
    assert learning_curves(ordered(read([20], graph="react"))).empty


def test_best_row_is_the_best_episode_and_ends_with_it():
    best = best_curves(ordered(read([50, 70, 70, 70], [10, 90], [10, 10, 90])))
    assert (list(best["step"]), list(best["score"]), list(best["runs"])) == ([1, 2], [10, 90], [1, 1])
    mean = best_curves(ordered(read([10, 90], run_id="a"), read([50], task="boil:2", run_id="b")))
    assert (list(mean["score"]), list(mean["runs"])) == ([30, 70], [2, 2])


def test_planner_is_paired_by_task_within_its_group():
    whole = [read([100], task="use-thermometer:1", run_id="a"), read([60], task="boil:1", run_id="b")]
    whole.append(read([90], task="freeze:1", run_id="alone"))
    without = [read([40], task="use-thermometer:1", run_id="c", planner="none")]
    without.append(read([70], run_id="d", planner="none"))
    changes = planner_changes(planner_tasks(ordered(*whole, *without)))
    assert list(zip(changes["group"], changes["tasks"], strict=True)) == [("S", 1), ("L", 1), ("All", 2)]
    assert list(changes["score_change"]) == [-60, 10, -25]
    assert list(changes["success_change"]) == [-100, 0, -50]


def test_another_swap_is_not_an_ablation_of_the_planner():
    other = read([40], run_id="b", planner="none", memory="gain_insights")
    tasks = planner_tasks(ordered(read([90], run_id="a"), other))
    assert tasks.empty and planner_changes(tasks).empty


@pytest.mark.parametrize(
    ("episode", "accidental"),
    [
        ([10, ("focus on inclined plane b", 100)], True),
        ([10, ("Focus on plane", 10), ("1", 100)], True),
        ([30, ("focus on inclined plane b", 100)], False),
        ([10, ("pour jug into flower pot", 100)], False),
        ([10, ("focus on inclined plane b", 60)], False),
        ([10, ("focus on inclined plane a", -100)], False),
    ],
)
def test_a_win_is_accidental_when_a_focus_skips_the_milestones(episode, accidental):
    found = find_accidents(read(episode, task=f"{FRICTION}:1"), {FRICTION: 50.0})
    assert found[["step", "before"]].values.tolist() == [[len(episode), 10]] * accidental


def test_no_gold_path_of_the_real_recordings_is_accidental():
    from certigraph.benchmarks.scienceworld.recordings import read_recordings

    recordings = read_recordings(real_data.data_folder("scienceworld") / "gold_var0.jsonl.gz")
    golds = read_gold_scores(real_data.ROOT)
    assert golds[FRICTION] == 50
    assert "use-thermometer" not in golds  # its last action puts an object into a box
    for gold in recordings:
        episodes = read(list(zip(gold.gold, gold.scores, strict=True))[: gold.firstdone], task=f"{gold.task}:0")
        assert list(episodes["solved"]) == [1]
        assert find_accidents(episodes, golds).empty


def test_number_after_another_action_is_not_a_focus():
    assert not is_focus(["focus on a", "pour jug", "1"], 2)


@pytest.mark.slow
def test_figures_leave_out_accidents_and_unfinished_runs(tmp_path):
    runs = tmp_path / "runs"
    write(runs / "lucky", [5, ("focus on inclined plane b", 100)], [30, 40], task=f"{FRICTION}:1")
    write(runs / "deep" / "plain", [20, 45], [20, 30], task=f"{FRICTION}:1", planner="none")
    write(runs / "stopped", [90], ending="")
    write(runs / "broken", [90], ending="error:environment")
    drawn = draw_figures([runs], tmp_path / "figures")
    assert {folder.name for folder in drawn.left_out} == {"stopped", "broken"}
    assert drawn.accidents[["run", "step", "before"]].values.tolist() == [["lucky", 2, 5]]
    assert all(file.stat().st_size for file in drawn.files)
    assert {f.stem for f in drawn.files} == {"rewards", "learning", "best", "planner", "planner_tasks", "accidental"}
    assert drawn.changes["score_change"].iloc[-1] == 5
    best = [row["score"] for row in table(tmp_path / "figures" / "best.csv") if row["method"] == "step"]
    assert best == ["30", "40"]
    kept = draw_figures([runs], tmp_path / "figures", with_accidental=True)
    assert kept.changes["score_change"].iloc[-1] == 45 - 100


def test_same_runs_make_the_same_files(tmp_path):
    write(tmp_path / "runs" / "a", [20, 45], [20, 30])
    files = [draw_figures([tmp_path / "runs"], tmp_path / name).files for name in ("one", "two")]
    assert [one.read_bytes() == two.read_bytes() for one, two in zip(*files, strict=True)] == [True] * len(files[0])


def test_nothing_to_draw_says_what_to_give(tmp_path):
    write(tmp_path / "unfinished" / "stopped", [90], ending="")
    for name, problem in (("none", "none"), ("unfinished", "no episode of a finished run")):
        with pytest.raises(Fault, match=problem):
            read_episodes([tmp_path / name])
    write(tmp_path / "a", [("focus on a", 100)])
    with pytest.raises(Fault, match="--with-accidental"):
        draw_figures([tmp_path], tmp_path / "out")


@pytest.mark.slow
def test_real_runs_of_step_and_clin_are_drawn_by_the_command(tmp_path):
    context = Context(model="scripted:first", limits=Limits(trials=2, steps=6, substeps=3))
    for graph in (build_graph("step"), build_graph("step", {"planner": Spec(name="none")}), build_graph("clin")):
        run(graph, "blocksworld", "4-0", context=context, out=tmp_path / "runs")
    done = CliRunner().invoke(app, ["figures", str(tmp_path / "runs"), "--out", str(tmp_path / "figures")])
    assert done.exit_code == 0, done.output
    assert "6 episodes, 0 of them won by accident" in done.output
    methods = {row["method"] for row in table(tmp_path / "figures" / "rewards.csv")}
    assert methods == {"step", "step planner=none", "clin"}

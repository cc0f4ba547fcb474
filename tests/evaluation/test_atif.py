"""Runs with graphs inside their nodes, exported and analysed: every sub-task by itself, nothing written twice."""

import atif
import pandas as pd
import pytest
from helpers.sample_runs.recorded_runs import row_of
from helpers.worlds.scripted_benchmark import Script
from helpers.worlds.task_graphs import Jobs, SerialJobs, SlowModel, dag_of

from certigraph.adapters.protocols import Context
from certigraph.evaluation.atif import to_atif
from certigraph.evaluation.export import to_parquet
from certigraph.evaluation.frame_rows import RecordedRun, frame_rows_of
from certigraph.evaluation.frames import frames_of
from certigraph.evaluation.inspect_log import to_inspect
from certigraph.graphs import tdp
from certigraph.runtime.run import run

TASK = "deep"


async def two_parts(state, runtime):
    return {"dag": dag_of({"a": (), "goal": ("a",)}), "notes": ()}


async def unrevised(state, runtime):
    return {"dag": state["dag"], "notes": ()}


def worked_on(kind, out):
    return run(tdp.build(), kind(), TASK, context=Context(chat=SlowModel()), out=out)


def certified(out):
    """A run whose sub-tasks are certified: four predicates each."""
    graph = tdp.build(decompose=two_parts, revise=unrevised, solve="sdp")
    return run(graph, Script(verdicts=[0, 2]), out=out)


@pytest.fixture(scope="module", params=["jobs", "serial_jobs", "certified"])
def result(request, tmp_path_factory):
    out = tmp_path_factory.mktemp(request.param)
    made = certified(out) if request.param == "certified" else worked_on(KINDS[request.param], out)
    assert made.ending == "goal", made.message
    return made


KINDS = {"jobs": Jobs, "serial_jobs": SerialJobs}


def acts(result):
    return [event for event in result.trajectory.events if event.scope and event.node == "act"]


@pytest.mark.slow
def test_atif_has_a_document_for_every_sub_task_and_refers_to_each(result):
    made = atif.Trajectory.model_validate(to_atif(result.trajectory))
    documents = made.subagent_trajectories
    assert sorted(d.extra["subtask"] for d in documents) == sorted(outcome.node for outcome in result.state["outcomes"])
    results = [found for step in made.steps if step.observation for found in step.observation.results]
    referred = [ref.trajectory_id for found in results for ref in found.subagent_trajectory_ref or ()]
    assert sorted(referred) == sorted({document.trajectory_id for document in documents})
    calls = [step for document in documents for step in document.steps if step.tool_calls]
    assert sorted(step.observation.results[0].content for step in calls) == sorted(
        event.update["observation"]["text"] for event in acts(result)
    )
    assert not any(step.tool_calls for step in made.steps), "what gather repeats is told once"
    prompt_tokens = [step.metrics.prompt_tokens for part in (made, *documents) for step in part.steps if step.metrics]
    assert sum(prompt_tokens) == made.final_metrics.total_prompt_tokens == result.usage.input_tokens


@pytest.mark.slow
def test_an_atif_sub_task_begins_with_its_specification(result):
    for document in to_atif(result.trajectory)["subagent_trajectories"]:
        assert document["steps"][0]["message"].startswith(f"do {document['extra']['subtask']}")
        assert {step["extra"]["episode"] for step in document["steps"][1:]} == {1}


def test_the_table_has_each_action_once_and_each_sub_task_as_an_episode(result, tmp_path):
    table = pd.read_parquet(to_parquet([result.trajectory], tmp_path / "t.parquet"))
    assert len(table) == len(acts(result))
    assert table.groupby("episode")["subtask"].nunique().eq(1).all()
    assert table["episode"].nunique() == table["subtask"].nunique() == len(result.state["outcomes"])
    for _, episode in table.groupby("episode"):
        assert list(episode["t"]) == list(range(len(episode)))
        assert list(episode["done"] | episode["truncated"])[:-1] == [False] * (len(episode) - 1)
        states = [[], *(list(state) for state in episode["next_state"])]
        assert [list(state) for state in episode["state"]] == states[:-1]
    certified = {outcome.node: list(outcome.certified) for outcome in result.state["outcomes"]}
    assert {e["subtask"].iloc[0]: list(e["next_state"].iloc[-1]) for _, e in table.groupby("episode")} == certified


def test_an_inspect_log_tells_sub_tasks_one_after_the_other(result):
    (sample,) = to_inspect([result.trajectory]).samples
    calls = [message for message in sample.messages if message.role == "assistant" and message.tool_calls]
    assert len(calls) == len(acts(result)) == sum(message.role == "tool" for message in sample.messages)
    assert len({message.id for message in sample.messages}) == len(sample.messages)
    subtasks = [event.data["subtask"] for event in sample.events if "subtask" in event.data]
    assert {*subtasks} == {outcome.node for outcome in result.state["outcomes"]}


@pytest.mark.slow
def test_steps_are_those_that_the_nodes_took(result):
    taken = sum(outcome.taken for outcome in result.state["outcomes"])
    recorded = RecordedRun("tdp", "1", 0, result.trajectory)
    assert frame_rows_of(recorded)["runs"][0]["steps"] == row_of(result.trajectory).steps == taken == len(acts(result))
    assert len(frames_of([recorded]).steps) == taken


@pytest.mark.slow
def test_the_anatomy_of_certified_sub_tasks_is_that_of_each(tmp_path):
    result = certified(tmp_path)
    frames = frames_of([RecordedRun("tdp", "1", 0, result.trajectory)])
    (row,) = frames.runs.to_dict("records")
    predicates = sum(len(outcome.certified) for outcome in result.state["outcomes"])
    assert (row["certified"], row["planned"], row["certificates"]) == (predicates, predicates, 7)
    assert len(frames.predicates) == predicates == 8
    assert row["cascades"] == 1


@pytest.mark.slow
def test_the_anatomy_of_an_uncertified_sub_task_stops_at_one_target(tmp_path):
    graph = tdp.build(decompose=two_parts, revise=unrevised, solve="sdp")
    result = run(graph, Script(verdicts=[1, *[0] * 20], replans=False), out=tmp_path)
    assert result.ending == "gave_up"
    frames = frames_of([RecordedRun("tdp", "1", 0, result.trajectory)])
    assert list(frames.predicates["stopped"]) == [False, True, False, False]
    assert frames.runs["first_exhaustion"].iloc[0] == 1


@pytest.mark.slow
def test_sub_tasks_of_sub_tasks_are_shown_where_they_belong(tmp_path):
    result = run(tdp.build(solve="tdp"), "hotpotqa:interactive", out=tmp_path)
    made = atif.Trajectory.model_validate(to_atif(result.trajectory))
    documents = made.subagent_trajectories
    steps = [step for part in (made, *documents) for step in part.steps if step.observation]
    refs = [ref for step in steps for found in step.observation.results for ref in found.subagent_trajectory_ref or ()]
    assert sorted(ref.trajectory_id for ref in refs) == sorted(document.trajectory_id for document in documents)
    (sample,) = to_inspect([result.trajectory]).samples
    assert sum(message.role == "tool" for message in sample.messages) == len(acts(result))
    assert len({message.id for message in sample.messages}) == len(sample.messages)

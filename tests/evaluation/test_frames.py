"""Frames of recorded runs: steps, calls, findings and rounds by hand, and reading by several processes."""

from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from helpers.sample_runs.recorded_runs import event, header, trajectory

from certigraph.evaluation import frames as reader
from certigraph.evaluation.frame_rows import RecordedRun, frame_rows_of
from certigraph.evaluation.frames import Frames, find_runs, frames_of, read_frames
from certigraph.state.endings import Fault
from certigraph.state.trajectory import EmptyCalls, Event

KEY = ["method", "benchmark", "task", "trial", "run"]


def act(text: str, reward: float = 0.0, **more: Any) -> Event:
    observation = {"text": "seen", "reward": reward}
    return event("act", update={"history": [{"action": {"text": text}}], "observation": observation}, **more)


def run(*events: Event, name: str = "r", superseded: tuple[Event, ...] = (), graph: str = "react") -> RecordedRun:
    made = trajectory(*events, ending="gave_up")
    more = {"header": header(graph, run=name), "superseded": [*superseded]}
    return RecordedRun("m", "t", 0, made.model_copy(update=more))


def table(frame: pd.DataFrame, *columns: str) -> list[tuple[Any, ...]]:
    return list(frame[[*columns]].itertuples(index=False, name=None))


def test_steps_are_numbered_by_episode_and_keep_the_latest_positive_score():
    reset = event("reset", update={"history": []}, replaced=["history"])
    steps = frames_of([run(reset, reset, act("a", 0.25), act("b", -1.0), reset, act("c", 0.5))]).steps
    assert table(steps, "episode", "step", "action", "score") == [(1, 1, "a", 25), (1, 2, "b", 25), (2, 1, "c", 50)]


def test_calls_have_the_steps_before_them_and_repeated_work_is_marked():
    call = {"role": "executor", "input_tokens": 7, "output_tokens": 2}
    failed = {"role": "executor", "input_tokens": 5, "failure": "no JSON"}
    lost = event("decide", calls=[call])
    calls = frames_of([run(event("decide", calls=[failed, call]), act("a"), lost, superseded=(lost,))]).calls
    assert table(calls, "node", "steps", "input_tokens", "output_tokens", "failed", "superseded") == [
        ("decide", 0, 5, 0, True, False),
        ("decide", 0, 7, 2, False, False),
        ("decide", 1, 7, 2, False, False),
        ("decide", 0, 7, 2, False, True),
    ]


def test_a_run_has_its_empty_calls_by_reason_and_its_loss():
    call = {"role": "validator"}
    verdict = {"position": 0, "target": {"text": "p"}, "action": {"text": "a"}, "digest": "", "verdict": {"depth": 0}}
    judged = event("validate", calls=[call, call | {"failure": "no JSON"}], update={"attempts": [verdict]})
    lost = act("b").model_copy(
        update={
            "update": {
                "history": [{"action": {"text": "b"}}],
                "observation": {"text": "over", "reward": -1.5, "done": True, "data": {"score": -100}},
            }
        }
    )
    made = trajectory(judged, lost, judged, ending="world_ended", value=0.5)
    runs = frames_of([RecordedRun("m", "t", 0, made), run(act("a"))]).runs
    columns = [name for name in runs.columns if name.startswith("empty_")]
    assert columns == ["empty_calls", *(f"empty_{name}" for name in EmptyCalls._fields)]
    assert table(runs, *columns, "loss") == [
        (4, 1, 0, 0, 1, 2, "lost: the world ended at -100"),
        (0, 0, 0, 0, 0, 0, ""),
    ]


def test_attempts_that_nobody_judged_are_marked_and_not_rejected():
    def attempt(**verdict: Any) -> dict[str, Any]:
        made = {"position": 0, "target": {"text": "p"}, "action": {"text": "a"}, "digest": "d"}
        return {**made, "verdict": {"depth": 0, **verdict}}

    verdicts = [attempt(pending=True), attempt(), attempt(looked=True)]
    planned = event("propose", update={"plan": [{"text": "p"}], "head": 0})
    tried = [event("validate", update={"attempts": [one]}) for one in verdicts]
    found = frames_of([run(planned, *tried, graph="sdp")])
    assert found.attempts["judged"].tolist() == [False, True, False]
    assert found.predicates["rejected"].tolist() == [1]


def test_findings_are_those_of_verdicts():
    found = {"about": "who", "text": "Ann", "sources": ["u", "v"], "against": ["w"], "dispute": "Bob"}
    verdict = {"depth": 1, "reason": "", "finding": found}
    attempt = {"position": 0, "target": {"text": "p"}, "action": {"text": "a"}, "digest": "", "verdict": verdict}
    certificate = {"targets": [{"text": "p"}], "position": 0, "step": 1}
    update = {"attempts": [attempt], "certificates": [certificate], "head": 1}
    planned = event("propose", update={"plan": [{"text": "p"}], "head": 0})
    findings = frames_of([run(planned, event("validate", update=update), graph="sdp")]).findings
    [row] = table(
        findings, "position", "number", "certified", "about", "text", "dispute", "sources", "against", "items"
    )
    assert row == (0, 1, True, "who", "Ann", "Bob", 2, 1, 0)


def test_a_round_is_from_one_decision_to_the_next_without_the_gate():
    signal = {"action": "search[x]", "chunks": [], "jaccard": 0.0, "upr": 1.0}
    events = [
        *(event("reset", 1), event("gate", 2), event("decide", 10, 1), event("act", update={"rounds": [signal]})),
        *(event("memory", 5, 1), event("gate", 100, update={"stagnation": {"streak": 1, "at": 1}})),
        *(event("decide", 20, 2), event("act"), event("answer", 50), event("deliver")),
    ]
    rounds = frames_of([run(*events)]).rounds
    assert table(rounds, "round", "agent", "memory_node", "tokens", "gate_tokens") == [
        (1, 10, 5, 17, 100),
        (2, 20, 0, 22, 0),
    ]
    first, last = rounds.to_dict("records")
    assert (first["query"], first["upr"], first["streak"], first["stop"]) == ("search[x]", 1.0, 1, True)
    assert pd.isna([last[name] for name in ("query", "upr", "change", "streak", "stop")]).all()


def test_a_decision_about_the_memory_is_a_round_without_a_search():
    def signal(query: str) -> dict[str, Any]:
        return {"rounds": [{"action": query, "chunks": [], "jaccard": 0.0, "upr": 1.0}]}

    events = [
        *(event("reset"), event("decide"), event("act"), event("memory", update=signal("first"))),
        *(event("decide"), event("use_memory"), event("decide"), event("act"), event("memory", update=signal("next"))),
    ]
    rounds = frames_of([run(*events, graph="memgpt")]).rounds
    assert rounds["query"].fillna("").tolist() == ["first", "", "next"]
    assert rounds["upr"].isna().tolist() == [False, True, False]


def test_executions_have_the_round_and_the_score_of_the_episode():
    reset = event("reset", update={"observation": {"text": "", "reward": 0.0}, "history": []}, replaced=["history"])
    inner = act("x", 1.0, scope="solve:1")
    made = frames_of([run(reset, event("decide", 5, 1), act("a", 0.25), inner, act("b", 0.5), reset, act("c", 0.5))])
    rows = table(made.executions, "node", "round", "input_tokens", "score")
    assert rows[:4] == [("reset", 0, 0, 0), ("decide", 1, 5, 0), ("act", 1, 0, 25), ("act", 1, 0, 25)]
    assert [score for *_, score in rows[4:]] == [75, 0, 50]


def test_every_frame_has_the_columns_that_identify_a_run_also_without_rows():
    for frame, empty in zip(frames_of([run(act("a"))]), frames_of([]), strict=True):
        assert frame.columns[:5].tolist() == KEY
        assert (frame.dtypes == empty.dtypes).all()


def write(folder: Path, recorded: RecordedRun) -> Path:
    folder.mkdir(parents=True)
    _, _, _, trajectory = recorded
    lines = [trajectory.header, *trajectory.events, trajectory.footer]
    path = folder / "trajectory.jsonl"
    path.write_text("".join(line.model_dump_json() + "\n" for line in lines if line), encoding="utf-8")
    return path


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader, "BATCH_RUNS", 2)
    monkeypatch.setattr(reader, "MIN_PARALLEL_RUNS", 4)


@pytest.mark.long
@pytest.mark.slow
def test_several_processes_read_the_same_frames_in_the_same_order(few: None, tmp_path: Path):
    runs = [run(act("a", 0.5), act("b"), name=f"r{number}") for number in range(5)]
    for recorded in runs:
        write(tmp_path / recorded.trajectory.header.run_id, recorded)
    found = find_runs([tmp_path])
    alone, together = read_frames(found), read_frames(found, workers=2)
    assert alone.runs["run"].tolist() == [f"r{number}" for number in range(5)]
    for name in Frames._fields:
        pd.testing.assert_frame_equal(getattr(alone, name), getattr(together, name))


def test_the_methods_of_a_folder_are_in_one_order_whatever_began_first(tmp_path: Path):
    for name, graph in (("18-00-sdp", "sdp"), ("18-01-react", "react"), ("18-01-sdp", "sdp"), ("18-02-react", "react")):
        write(tmp_path / name, run(act("a"), name=name, graph=graph))
    runs = read_frames(find_runs([tmp_path])).runs
    assert runs["run"].tolist() == ["18-01-react", "18-02-react", "18-00-sdp", "18-01-sdp"]


@pytest.mark.slow
def test_a_torn_trajectory_is_named_by_the_process_that_read_it(few: None, tmp_path: Path):
    paths = [write(tmp_path / f"r{number}", run(act("a"), act("b"), name=f"r{number}")) for number in range(4)]
    lines = paths[3].read_text().splitlines()
    paths[3].write_text("\n".join([lines[0], "{", *lines[2:]]))
    with pytest.raises(Fault, match=r"r3/trajectory.jsonl:2: not a trajectory line"):
        read_frames(find_runs([tmp_path]), workers=2)


def test_contents_that_no_graph_writes_are_a_fault():
    with pytest.raises(Fault, match="run r has contents that no run of its graph writes"):
        frame_rows_of(run(event("decide", calls=[{"role": "executor", "input_tokens": "many"}])))

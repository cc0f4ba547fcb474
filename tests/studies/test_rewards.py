"""Tests of `studies.rewards`."""

import csv
import json
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from helpers.processes.children import child_environment

from certigraph.adapters.protocols import Context
from certigraph.benchmarks.rewardprediction.dataset import RewardRow, RewardTrajectory, TrajectoryPair, TrueReward
from certigraph.graphs import monotonic
from certigraph.state.endings import Fault, Interrupted, UnknownName
from certigraph.studies import rewards, rewards_report
from certigraph.studies.reward_data import BuildRequest, build_domain
from certigraph.studies.reward_heads import TransferResult
from certigraph.studies.rewards import (
    EPIC_FIGURE,
    MAX_CONSECUTIVE_FAULTS,
    OVERALL,
    Triplet,
    code_digest,
    create_triplets,
    encoder_of,
    format_probes,
    parse_predictors,
    predictor_table,
    probe_encoders,
    rate_pair,
    rate_pairs,
    rating_digest,
    read_rated_pairs,
    time_predictor,
    triplet_accuracy,
)
from certigraph.studies.rewards_report import (
    PREDICTORS_FILE,
    REWARDS_PAGE,
    ROWS_FILE,
    SPEEDS_FILE,
    TRANSFER_FILE,
    measure_rewards,
    write_transfer,
)


@pytest.fixture
def blocks():
    rows = tuple(
        RewardRow(action="act", observation=text, reward=TrueReward())
        for text in ("the red block is on the table.", "the red block is on top of the blue block.")
    )
    result = RewardTrajectory(goal_description="the red block is on top of the blue block", trajectory=rows)
    return TrajectoryPair(domain="blocksworld", task="0", positive=result, negatives=(result,))


def test_the_negative_is_another_value_of_the_same_attribute_where_there_was_one(monkeypatch, blocks):
    from certigraph.state.rewards import to_factored
    from certigraph.studies import rewards

    class Reading:
        def extract(self, state, goal, action, observation):
            return to_factored({"red block": {"location": observation}, "door": {"state": "shut"}})

    monkeypatch.setattr(rewards, "require_factors", lambda task: Reading())
    found = {one.anchor: one for one in create_triplets([blocks])}
    first, second = (f"red block: location {row.observation}" for row in blocks.positive.trajectory)
    assert found[first].contradiction == second and found[second].contradiction == first
    assert found["door: state shut"].contradiction in (first, second)
    assert all(one.paraphrase != one.anchor for one in found.values()) and len(found) == 3


def test_accuracy_is_the_share_whose_paraphrase_is_nearer():
    class Encoder:
        def encode_once(self, texts):
            return np.array([{"a": (1, 0), "near": (0.8, 0.6), "far": (0, 1)}[t] for t in texts], dtype=np.float32)

    right, wrong = Triplet("a", "near", "far"), Triplet("a", "far", "near")
    assert triplet_accuracy(Encoder(), [right, right, right, wrong]) == 0.75
    assert triplet_accuracy(Encoder(), [Triplet("a", "near", "near")]) == 0.0  # a tie is not a success
    assert triplet_accuracy(Encoder(), []) == 0.0


def test_an_unknown_domain_is_a_fault(blocks):
    with pytest.raises(Fault, match="no symbolic extractor reads lamps"):
        create_triplets([blocks.model_copy(update={"domain": "lamps"})])


def test_encoders_that_are_named_are_probed_once_and_reported_next_to_their_distance(monkeypatch, tmp_path, blocks):
    calls = []

    class Encoder:
        def encode_once(self, texts):
            calls.append(len(texts))
            return np.ones((len(texts), 2), dtype=np.float32)

    monkeypatch.setattr(rewards, "load_encoder", lambda name: Encoder())
    methods = parse_predictors(["statefactory"], ["wide", "narrow"])
    assert [encoder_of(method) for method in methods] == [None, "wide", "narrow"]
    pairs = [blocks, blocks.model_copy(update={"domain": "unread"})]
    found = probe_encoders(methods, pairs, tmp_path / "encoders.jsonl")
    assert [(one.encoder, one.accuracy) for one in found] == [("wide", 0.0), ("narrow", 0.0)]
    assert probe_encoders(methods, pairs, tmp_path / "encoders.jsonl") == found and len(calls) == 6
    assert found[0].triplets == calls[0] == len(create_triplets([blocks])) > 0
    table = pd.DataFrame(
        {"predictor": name, "domain": where, EPIC_FIGURE: epic}
        for name in ("statefactory", "wide")
        for where, epic in (("x", 0.75), (OVERALL, 0.25))
    )
    [sentence] = format_probes(methods, table, found)
    assert all(part in sentence for part in ("wide", "0.250", "0.000", str(calls[0])))
    assert probe_encoders(methods[:1], pairs, tmp_path / "none.jsonl") == [] and not (tmp_path / "none.jsonl").exists()


BASELINES = ("monotonic", "constant=monotonic:rate=constant")


@pytest.fixture
def generated(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("CERTIGRAPH_DATA", raising=False)


@pytest.fixture
def pairs(tmp_path: Path) -> Path:
    build_domain(BuildRequest("blocksworld", pairs=8), tmp_path / "data")
    return tmp_path / "data"


def ids(pairs: Path) -> list[str]:
    lines = (pairs / "blocksworld.jsonl").read_text().splitlines()
    return [f"blocksworld/{json.loads(line)['task']}" for line in lines]


@pytest.mark.usefixtures("generated")
@pytest.mark.slow
def test_a_predictor_without_weights_is_refused_with_what_to_use():
    with pytest.raises(UnknownName, match="rewards tune"):
        parse_predictors(["vlwm"])


@pytest.mark.long
@pytest.mark.slow
def test_baselines_land_where_they_are_known_to(pairs: Path, tmp_path: Path):
    assert measure_rewards(parse_predictors(BASELINES), Context(data=str(pairs)), tmp_path / "out", as_json=True) == 0
    rows = read_rated_pairs(tmp_path / "out" / ROWS_FILE)
    table = predictor_table(rows, ["monotonic", "constant"]).set_index("predictor")
    assert table[EPIC_FIGURE]["constant"] == pytest.approx(0.7071, abs=1e-4)
    assert 0.5 < table[EPIC_FIGURE]["monotonic"] < 0.65
    assert table["difference"]["constant"] > 0
    page = (tmp_path / "out" / REWARDS_PAGE).read_text()
    assert "0.707 " in page and "<svg" in page and "<script" not in page
    assert {"table.csv", "bars.png", "curves.svg", "rows.jsonl"} <= {p.name for p in (tmp_path / "out").iterdir()}


@pytest.mark.usefixtures("generated")
def test_a_measurement_goes_on_with_what_is_left(pairs: Path, tmp_path: Path):
    methods, context, rows = parse_predictors(BASELINES[:1]), Context(data=str(pairs)), tmp_path / "rows.jsonl"
    names = [
        f"blocksworld/{json.loads(line)['task']}" for line in (pairs / "blocksworld.jsonl").read_text().split("\n")[:3]
    ]
    rate_pairs(methods, names[:2], context, rows)
    kept = rows.read_text()
    rows.write_text(kept + '{"predictor": "mono')
    calls: list[int] = []
    assert rate_pairs(methods, names, context, rows, progress=lambda done, failed: calls.append(done)) == []
    assert calls == [3]
    assert rows.read_text().startswith(kept) and len(read_rated_pairs(rows)) == 3


@pytest.mark.usefixtures("generated")
def test_an_encoder_that_is_not_here_is_reported_before_anything_is_rated(pairs: Path, tmp_path: Path):
    with pytest.raises(Fault, match="'nowhere' is not installed") as fault:
        measure_rewards(parse_predictors(BASELINES, ["nowhere"]), Context(data=str(pairs)), tmp_path / "out")
    assert "\n" not in str(fault.value) and not (tmp_path / "out").exists()


@pytest.mark.long
@pytest.mark.usefixtures("generated")
@pytest.mark.slow
def test_a_matrix_of_transfer_is_on_the_page_of_its_folder(pairs: Path, tmp_path: Path):
    done = TransferResult(domains=("blocksworld", "webshop"), trained=("blocksworld",), distances=((0.312, 0.437),))
    write_transfer(done, tmp_path / "out")
    assert TransferResult.model_validate_json((tmp_path / "out" / TRANSFER_FILE).read_text()) == done
    assert (tmp_path / "out" / "heat.png").is_file()
    for out, carried in (("out", True), ("bare", False)):
        measure_rewards(
            parse_predictors(BASELINES[:1]), Context(data=str(pairs)), tmp_path / out, limit=2, as_json=True
        )
        assert (tmp_path / out / REWARDS_PAGE).read_text().count("<svg") == 2 + carried


class Broken:
    def invoke(self, given, context):
        raise RuntimeError("no idea")


@pytest.mark.usefixtures("generated")
def test_what_cannot_be_rated_is_reported_and_tried_again(pairs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    rows, context, methods = tmp_path / "rows.jsonl", Context(data=str(pairs)), parse_predictors(BASELINES[:1])
    with monkeypatch.context() as patched:
        patched.setattr(rewards, "_build_predictor", lambda method: Broken())
        failed = rate_pairs(methods, ids(pairs)[:1], context, rows)
    assert [(one.pair, one.reason) for one in failed] == [(ids(pairs)[0], "RuntimeError: no idea")]
    assert read_rated_pairs(rows) == []
    assert rate_pairs(methods, ids(pairs)[:1], context, rows) == []
    assert len(read_rated_pairs(rows)) == 1


class Silent:
    """Has no usable answer but for every third pair."""

    def __init__(self, usable: bool):
        self.requests, self.usable = 0, usable

    def invoke(self, given, context):
        self.requests += 1
        if self.usable and self.requests % MAX_CONSECUTIVE_FAULTS == 0:
            return monotonic.graph.invoke(given, context=context)
        raise Fault("model", "it gave no Rated in 3 tries")


@pytest.mark.usefixtures("generated")
def test_a_model_that_fails_at_some_pairs_costs_those_and_one_that_never_answers_stops_it(
    pairs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    context, methods = Context(data=str(pairs)), parse_predictors(BASELINES[:1])
    for usable in (True, False):
        graph = Silent(usable)
        monkeypatch.setattr(rewards, "_build_predictor", lambda method, graph=graph: graph)
        if usable:
            assert len(rate_pairs(methods, ids(pairs)[:6], context, tmp_path / "rows.jsonl")) == 4
            assert len(read_rated_pairs(tmp_path / "rows.jsonl")) == 2
        else:
            with pytest.raises(Fault, match="after 3 pairs in a row: it gave no Rated"):
                rate_pairs(methods, ids(pairs), context, tmp_path / "rows.jsonl")
            assert graph.requests == MAX_CONSECUTIVE_FAULTS


@pytest.mark.usefixtures("generated")
def test_a_row_is_of_the_models_and_of_the_code_that_read_the_pair(monkeypatch: pytest.MonkeyPatch):
    monotone, factory = parse_predictors(["monotonic", "statefactory"])

    def digests(method, **context):
        code_digest.cache_clear()
        return rating_digest(method, Context(**context), "blocksworld", "a pair")

    first = {method.name: digests(method) for method in (monotone, factory)}
    assert digests(factory) == first["statefactory"] != first["monotonic"]
    assert digests(monotone, roles={"judge": "scripted:first"}) != first["monotonic"]
    monkeypatch.setattr(Path, "read_text", lambda path, **how: "changed")
    assert digests(monotone) == first["monotonic"]
    assert digests(factory) != first["statefactory"]
    code_digest.cache_clear()


@pytest.mark.slow
@pytest.mark.usefixtures("generated")
def test_a_measurement_that_is_interrupted_goes_on_to_the_same_figures(
    pairs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    methods, context, left = parse_predictors(BASELINES), Context(data=str(pairs)), [4]

    def interrupted(piece):
        left[0] -= 1
        if left[0] < 0:
            raise KeyboardInterrupt
        return rate_pair(piece)

    monkeypatch.setattr(rewards_report, "_measure_speeds", lambda *args: [])
    monkeypatch.setattr(rewards_report, "write_report", lambda methods, benchmark, rows, *more: rows)
    monkeypatch.setattr(rewards_report, "print_findings", lambda findings, out, as_json: None)
    with monkeypatch.context() as patched:
        patched.setattr(rewards, "rate_pair", interrupted)
        with pytest.raises(Interrupted, match="resume with: "):
            measure_rewards(methods, context, tmp_path / "cut", limit=3, as_json=True)
    assert len(read_rated_pairs(tmp_path / "cut" / ROWS_FILE)) == 4
    for out in ("cut", "whole"):
        assert measure_rewards(methods, context, tmp_path / out, limit=3, as_json=True) == 0
    cut, whole = (
        [row.model_copy(update={"seconds": 0}) for row in read_rated_pairs(tmp_path / out / ROWS_FILE)]
        for out in ("cut", "whole")
    )
    assert cut == whole and len(cut) == 6


KILLED = """
import os, signal, sys
from pathlib import Path
from certigraph.adapters.protocols import Context
from certigraph.studies.rewards import parse_predictors
from certigraph.studies.rewards import rate_pairs
if __name__ == "__main__":
    data, rows, names = sys.argv[1], Path(sys.argv[2]), sys.argv[3:]
    def record_progress(done, failed):
        if done == 3:
            os.kill(os.getpid(), signal.SIGKILL)
    rate_pairs(parse_predictors(["monotonic"]), names, Context(data=data), rows, at_once=2, progress=record_progress)
"""


@pytest.mark.usefixtures("generated")
@pytest.mark.slow
def test_a_measurement_that_is_killed_between_pairs_goes_on(pairs: Path, tmp_path: Path):
    script, rows, names = tmp_path / "killed.py", tmp_path / "rows.jsonl", ids(pairs)
    script.write_text(KILLED)
    env = child_environment()
    command = [sys.executable, str(script), str(pairs), str(rows), *names]
    assert subprocess.run(command, env=env, timeout=120, check=False).returncode == -signal.SIGKILL
    kept = read_rated_pairs(rows)
    assert len(kept) == 3
    assert rate_pairs(parse_predictors(BASELINES[:1]), names, Context(data=str(pairs)), rows) == []
    assert read_rated_pairs(rows)[:3] == kept and sorted(row.pair for row in read_rated_pairs(rows)) == sorted(names)


@pytest.mark.slow
@pytest.mark.usefixtures("generated")
def test_speed_counts_trajectories(pairs: Path):
    (method,) = parse_predictors(["monotonic"])
    found = time_predictor(method, ids(pairs), Context(data=str(pairs)))
    assert found is not None and found.trajectories == 16 and min(found.cold, found.warm) > 0


@pytest.mark.long
@pytest.mark.usefixtures("generated")
@pytest.mark.slow
def test_files_say_who_read_the_states_and_what_it_cost(pairs: Path, tmp_path: Path):
    methods = parse_predictors(["statefactory", "reward_judge"])
    context = Context(data=str(pairs), roles={"judge": "scripted:first"})
    assert measure_rewards(methods, context, tmp_path, limit=2, as_json=True) == 0
    by_rules, judged = (
        [row for row in read_rated_pairs(tmp_path / ROWS_FILE) if row.predictor == method.name] for method in methods
    )
    assert {(row.read_by, row.spent.calls) for row in by_rules} == {("rules", 0)}
    assert all(row.read_by == "" and row.spent.calls == sum(map(len, row.rewards)) for row in judged)
    assert "judge scripted:first: a script" in judged[0].model
    about = json.loads((tmp_path / PREDICTORS_FILE).read_text())
    assert [one["graph"] for one in about["predictors"]] == ["statefactory", "reward_judge"]
    assert about["roles"] == {"judge": "scripted:first"}
    table = list(csv.DictReader((tmp_path / "table.csv").open()))
    assert [row["read_by"] for row in table] == ["rules", ""]
    assert int(table[1]["calls"]) == sum(row.spent.calls for row in judged)
    assert "<td>rules</td>" in (tmp_path / REWARDS_PAGE).read_text()


@pytest.mark.long
@pytest.mark.usefixtures("generated")
@pytest.mark.slow
def test_a_predictor_that_asks_a_model_is_not_run_again_to_time_it(pairs: Path, tmp_path: Path):
    context = Context(data=str(pairs), roles={"judge": "scripted:first"})
    measure_rewards(parse_predictors(["monotonic", "reward_judge"]), context, tmp_path, limit=2, as_json=True)
    timed = [json.loads(line)["predictor"] for line in (tmp_path / SPEEDS_FILE).read_text().splitlines()]
    assert timed == ["monotonic"]

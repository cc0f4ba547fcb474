"""Tests of `evaluation.anatomy`."""

import math
import re

import pandas as pd
import pytest
from helpers.sample_runs.finding_runs import FOUND, GOAL_PASSED, GUESSED, PASSED, report_page, run_with_findings
from helpers.sample_runs.question_runs import Inquiry, run_inquiry
from helpers.sample_runs.recorded_runs import replay_of
from helpers.worlds.scripted_benchmark import Script, predicates
from hypothesis import given, settings
from hypothesis import strategies as st
from statsmodels.stats.proportion import proportion_confint

from certigraph import cli
from certigraph.adapters.protocols import Context
from certigraph.adapters.trajectories import read_trajectory
from certigraph.evaluation.anatomy import ANALYSES, CAUSES, analyse, draw_anatomy
from certigraph.evaluation.atif import to_atif
from certigraph.evaluation.compare import build_job, run_comparison
from certigraph.evaluation.comparison import Choice, parse_methods
from certigraph.evaluation.export import rows_of
from certigraph.evaluation.frame_rows import frame_rows_of as anatomy_rows
from certigraph.evaluation.frames import Frames, RecordedRun, find_runs, frames_of, read_frames, read_recorded_runs
from certigraph.runtime.history import read_history
from certigraph.runtime.run import run
from certigraph.state.certified_states import certified_state
from certigraph.state.endings import Fault
from certigraph.state.records import RESTORE, Predicate, Scores, Task, Usage, Verdict
from certigraph.state.trajectory import Event, Footer, Header, Trajectory
from certigraph.studies.sdp import write_anatomy

# Analyses of hand-made trajectories with known results.

KINDS = ("transport", "stay", "meals", "goal")
PLAN = [{"text": f"p{place}", "kind": kind} for place, kind in enumerate(KINDS)]
ACTION = {"text": "do"}


class Tape:
    """A run written by hand: `tries(0, 2)` rejects once, then certifies two predicates."""

    def __init__(self, graph="sdp", plan=PLAN, task="1", run_id="r", benchmark="travelplanner", days=3):
        task = Task(benchmark=benchmark, id=task, constants={"days": days} if days else {})
        about = {"created": "", "operators": {}, "versions": {"certigraph": "9"}, "context": {"model": "m"}}
        self.header = Header(run_id=run_id, graph=graph, task=task, **about)
        self.events, self.plan, self.head = [], list(plan), 0
        if graph == "sdp":
            empty = {"certificates": [], "attempts": [], "plan": [], "head": 0}
            self.add("reset", {"history": [], **empty}, calls=0).add("propose", {"plan": self.plan})

    def add(self, node, update, calls=1):
        usage = Usage(node=node, calls=calls, input_tokens=8 * calls, output_tokens=2 * calls, seconds=0.5)
        self.events.append(Event(t=0, superstep=len(self.events), node=node, usage=usage, update=update))
        return self

    def act(self):
        answer = {"observation": {"text": "o"}, "history": [{"action": ACTION, "digest": "d"}]}
        return self.add("realize", {"action": ACTION}).add("act", answer, calls=0)

    def tries(self, *depths):
        for depth in depths:
            self.act()
            made = {"position": self.head, "action": ACTION, "digest": "d"}
            attempt = {**made, "target": self.plan[self.head], "verdict": {"depth": depth}}
            self.add("validate", {"verdict": {"depth": depth}, "attempts": [attempt]})
            if depth:
                targets = self.plan[self.head : self.head + depth]
                to = targets[0].get("args", {}).get("to")
                back = {} if to is None else {"restores": to}
                self.head += depth
                certificate = {**made, "step": 1, "targets": targets, **back}
                self.add("certify", {"certificates": [certificate], "head": self.head}, calls=0)
        return self

    def replan(self, *tail):
        self.plan = [*self.plan[: self.head], *tail] if tail else self.plan
        return self.add("replan", {"plan": self.plan} if tail else {})

    def ended(self, ending, score=0.0, method="sdp", trial=0, **parts):
        scores = Scores(value=score, parts=parts)
        footer = Footer(ending=ending, scores=scores, usage=Usage(node="all")) if ending else None
        trajectory = Trajectory(header=self.header, events=self.events, footer=footer)
        return RecordedRun(method, self.header.task.id, trial, trajectory)


def tables(*recorded):
    return analyse(frames_of(recorded))


def figures(table, *columns):
    """Value and n of each line, by the named columns."""
    lines = table.to_dict("records")
    return {tuple(line[c] for c in columns) or line["method"]: (round(line["value"], 6), line["n"]) for line in lines}


def row(*recorded):
    return frames_of(recorded).runs.iloc[0]


@pytest.mark.slow
def test_a_cascade_is_one_certificate_and_shares_its_cost():
    found = frames_of([Tape().tries(0, 2, 1, 1).ended("goal", 1)])
    analysis = analyse(found)
    assert figures(analysis["cascade_rate"]) == {"sdp": (round(1 / 3, 6), 3)}
    assert figures(analysis["depths"], "depth") == {(1,): (round(2 / 3, 6), 3), (2,): (round(1 / 3, 6), 3)}
    assert figures(analysis["retried"]) == {"sdp": (round(1 / 3, 6), 3)}
    first, second, third, last = found.predicates.to_dict("records")
    # a rejected and a certified attempt: two steps and four calls for two predicates, without the call for the plan
    assert [(p["steps"], p["calls"], p["tokens"]) for p in (first, second, third)] == [
        (1, 2, 20),
        (1, 2, 20),
        (1, 2, 20),
    ]
    assert [p["leads"] for p in (first, second, third, last)] == [True, False, True, True]
    assert (first["depth"], first["rejected"], second["rejected"]) == (2, 1, 0)
    credit = figures(analysis["credit"], "kind", "measure")
    assert credit["transport", "depth"] == (2, 1)
    assert ("stay", "depth") not in credit  # it led no transition
    assert credit["stay", "tokens"] == (20, 1)


@pytest.mark.slow
def test_row_of_a_run_that_gave_up():
    tape = Tape(days=5).tries(1, 0, 0, 0).replan({"text": "q", "kind": "stay"}, PLAN[-1]).tries(0, 0, 0).replan()
    columns = row(tape.ended("gave_up", 0.25, trial=2))
    assert (columns.certified, columns.planned, columns.replans, columns.steps, columns.attempts) == (1, 3, 1, 7, 7)
    assert (columns.first_exhaustion, columns.planned_then, columns.certificates, columns.cascades) == (1, 4, 1, 0)
    assert (columns.horizon, columns.horizon_name, columns.trial, columns.score) == (5, "5 days", 2, 0.25)
    assert (columns.calls, columns.tokens, columns.seconds) == (1 + 14 + 2, 170, 0.5 * (2 + 21 + 1 + 2))
    never = row(Tape().tries(1, 1, 1, 1).ended("goal", 1))
    assert pd.isna(never.first_exhaustion)


@pytest.mark.slow
def test_attempts_count_from_one_for_each_target():
    other = {"text": "q", "kind": "stay"}
    found = frames_of([Tape().tries(0, 1, 0, 0).replan(other, PLAN[-1]).tries(0, 1).ended("")]).attempts
    assert found["number"].tolist() == [1, 2, 1, 2, 1, 2]
    assert found["certified"].tolist() == [False, True, False, False, False, True]
    assert found["kind"].tolist() == ["transport"] * 2 + ["stay"] * 4


@pytest.mark.slow
def test_what_a_return_undid_is_not_certified():
    back = {"text": "back", "kind": "restore", "args": {"to": 0}}
    recorded = Tape().tries(1, 0).replan(back, *PLAN).tries(1, 2).ended("gave_up")
    columns = row(recorded)
    assert (columns.certified, columns.planned, columns.returns, columns.certificates, columns.cascades) == (
        2,
        4,
        1,
        3,
        1,
    )
    status = frames_of([recorded]).predicates["status"].tolist()
    assert status == ["undone", "return", "certified", "certified", "open", "open"]
    assert figures(tables(recorded)["cascade_rate"]) == {"sdp": (0.5, 2)}


@pytest.mark.slow
def test_a_return_takes_invalidations_back_with_the_state():
    back = {"text": "back", "kind": "restore", "args": {"to": 1}}
    lost = {"certificate": 0, "target": 0, "predicate": PLAN[0], "step": 2}
    tape = Tape().tries(1, 0).add("revalidate", {"invalidations": [lost]}).tries(1, 0).replan(back, *PLAN[1:]).tries(1)
    status = frames_of([tape.ended("gave_up")]).predicates["status"].tolist()
    assert status[:3] == ["certified", "undone", "return"]


@pytest.mark.slow
def test_where_and_how_far_failed_runs_stopped():
    stalled = Tape(task="1").tries(1, 0, 0, 0).replan().ended("gave_up")
    later = Tape(task="2").tries(1, 1, 1, 0).ended("limit:calls")
    accepted = Tape(task="3").tries(4).ended("goal")
    planless = Tape(task="4", plan=[]).ended("gave_up")
    solved = Tape(task="5").tries(4).ended("goal", 1)
    analysis = tables(stalled, later, accepted, planless, solved)
    kinds = figures(analysis["stopped_kinds"], "kind")
    assert kinds == {(kind,): (0.25, 4) for kind in ("stay", "goal", "goal certified", "no target")}
    places = figures(analysis["stopped_places"], "place")
    assert places == {(p,): (0.25, 4) for p in ("second quarter", "last quarter", "goal certified", "no target")}
    assert next(iter(analysis["stopped_places"]["place"])) == "second quarter"
    assert figures(analysis["certified_part"]) == {"sdp": (0.5, 2)}


@pytest.mark.slow
def test_replan_curve_and_compression():
    plain = [Tape(task=str(n)).tries(1, 1, 1, 1).ended("goal", score) for n, score in enumerate((1, 1, 0))]
    again = Tape(task="9").tries(0).replan(*PLAN).tries(2, 1, 1).ended("goal", 1)
    analysis = tables(*plain, again)
    assert figures(analysis["replan_curve"], "replans") == {(0,): (round(2 / 3, 6), 3), (1,): (1, 1)}
    [line] = analysis["compression"].to_dict("records")
    assert (line["value"], line["n"], line["predicates"], line["steps"]) == (1, 3, 4, 4)
    many = Tape()
    for _ in range(7):
        many.tries(0).replan(*PLAN)
    assert figures(tables(many.ended("gave_up"))["replan_curve"], "replans") == {(5,): (0, 1)}


@pytest.mark.slow
def test_calibration_sets_certified_goals_against_verdicts():
    runs = [Tape(task=str(n)).tries(4).ended("goal", n < 3) for n in range(4)]
    runs += [Tape(task=str(4 + n)).tries(1, 0).ended("gave_up", n == 0) for n in range(5)]
    runs += [Tape(task="f").tries(1).ended("error:model"), Tape(task="i").tries(1).ended("")]
    analysis = figures(tables(*runs)["calibration"], "measure")
    assert analysis["agreement",] == (round(7 / 9, 6), 9)
    assert analysis["solved if certified",] == (0.75, 4)
    assert analysis["solved if not certified",] == (0.2, 5)
    assert analysis["wrong goals",] == analysis["missed goals",] == (round(1 / 9, 6), 9)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("graph", "ending", "score", "parts", "cause"),
    [
        ("sdp", "goal", 1, {}, "none"),
        ("sdp", "goal", 0.9, {}, "validation"),
        ("sdp", "gave_up", 1, {}, "uncertified"),
        ("sdp", "limit:calls", 1, {}, "uncertified"),
        ("sdp", "gave_up", 0, {}, "planning"),
        ("sdp", "exhausted", 0, {}, "planning"),
        ("sdp", "gave_up", 0, {"evidence_found": 0.0}, "retrieval"),
        ("sdp", "gave_up", 0, {"evidence_found": 1.0}, "planning"),
        ("sdp", "limit:tokens", 0, {}, "budget"),
        ("sdp", "limit:tokens", 0, {"evidence_found": 0.0}, "retrieval"),
        ("sdp", "error:environment", 0, {}, "fault"),
        ("sdp", "world_ended", 0, {}, "world"),
        ("sdp", "", 0, {}, "interrupted"),
        ("react", "goal", 0, {}, "world"),
        ("react", "limit:calls", 1, {}, "none"),
        ("react", "gave_up", 0, {}, "planning"),
    ],
)
def test_causes_exclude_each_other(graph, ending, score, parts, cause):
    analysis = tables(Tape(graph).ended(ending, score, **parts))["failure_causes"]
    assert figures(analysis, "cause") == {(cause,): (1, 1)}
    assert cause in CAUSES


@pytest.mark.slow
def test_costs_by_node_and_by_certified_predicate():
    analysis = tables(Tape(task="1").tries(1, 0).ended("gave_up"), Tape(task="2", plan=[]).ended("gave_up"))
    nodes = figures(analysis["node_costs"], "node", "measure")
    assert nodes["realize", "tokens"] == (10, 2)  # the run that never came to it counts as 0
    assert nodes["propose", "calls"] == (1, 2)
    assert figures(analysis["certified_costs"], "measure")["calls",] == (6, 2)


@pytest.mark.slow
def test_bounds_of_amounts_stop_at_zero():
    few = Tape(task="1", plan=PLAN[:1]).tries(*[0] * 40, 1).ended("goal")
    analysis = tables(few, *(Tape(task=str(n)).tries(4).ended("goal", 1) for n in (2, 3)))
    spent = [analysis[name].query("measure == 'tokens'") for name in ("credit", "certified_costs", "node_costs")]
    for table in (*spent, analysis["compression"]):
        assert (table["low"].dropna() >= 0).all()
    assert [table["low"].min() for table in spent] == [0, 0, 0]


@pytest.mark.slow
def test_score_by_horizon_is_in_the_order_of_length():
    runs = [Tape(task=str(days), days=days).ended("gave_up", days / 10) for days in (7, 3)]
    analysis = tables(*runs, Tape(task="x", days=None, benchmark="mine").ended("gave_up"))["score_by_horizon"]
    assert analysis["horizon_name"].tolist() == ["3 days", "4 planned", "7 days"]
    assert analysis["value"].tolist() == [30, 0, 70]


@pytest.mark.slow
def test_shares_have_wilsons_interval_on_tasks():
    alone = tables(*(Tape(task=str(n)).tries(4).ended("goal", n < 3) for n in range(10)))["solved"].iloc[0]
    assert (alone["low"], alone["high"]) == pytest.approx(proportion_confint(3, 10, method="wilson"))
    same = [Tape(task=str(n)).tries(4).ended("goal", n < 3, trial=t) for n in range(10) for t in range(5)]
    trials = tables(*same)["solved"].iloc[0]
    assert (trials["n"], trials["tasks"]) == (50, 10)
    assert (trials["low"], trials["high"]) == pytest.approx((alone["low"], alone["high"]), abs=0.02)
    mixed = [Tape(task=str(n)).tries(4).ended("goal", t < 3, trial=t) for n in range(10) for t in range(10)]
    assert tables(*mixed)["solved"].iloc[0]["high"] < 0.41  # trials that vary within tasks are worth more than ten


@pytest.mark.slow
def test_graphs_without_predicates_have_runs_and_nodes_only():
    recorded = Tape("react").act().act().ended("goal", 1, method="react")
    found = frames_of([recorded])
    assert (len(found.attempts), len(found.predicates), found.runs.iloc[0].steps) == (0, 0, 2)
    assert pd.isna(found.runs.iloc[0].certified)
    analysis = analyse(found)
    kept = {name for name, table in analysis.items() if len(table)}
    assert kept == {"faults", "solved", "failure_causes", "score_by_horizon", "node_costs"}
    assert any("no data" in drawing for drawing in draw_anatomy(analysis, ["react"]).values())


@pytest.mark.slow
def test_no_runs_at_all(tmp_path):
    found = frames_of([])
    assert all(table.empty and {"method", "n", "value", "low", "high"} <= {*table} for table in analyse(found).values())
    write_anatomy(found, tmp_path)
    assert "No run is on record" in (tmp_path / "anatomy.html").read_text()
    assert found.runs.dtypes.to_dict() == frames_of([Tape().ended("goal", 1)]).runs.dtypes.to_dict()


DEPTHS = st.lists(st.integers(0, 2), max_size=12)


@st.composite
def tapes(draw):
    tape = Tape(task=str(draw(st.integers(0, 2))), run_id=str(draw(st.integers())))
    for depth in draw(DEPTHS):
        if tape.head + depth <= len(tape.plan) and tape.head < len(tape.plan):
            tape.tries(depth)
            if draw(st.booleans()) and tape.head < len(tape.plan):
                tape.replan(*draw(st.permutations(PLAN)))
    over = tape.head == len(tape.plan)
    ending = "goal" if over else draw(st.sampled_from(["gave_up", "limit:calls", "error:model", "world_ended", ""]))
    return tape.ended(ending, draw(st.sampled_from([0, 0.5, 1])), method=draw(st.sampled_from("ab")))


@pytest.mark.slow
@settings(max_examples=6, deadline=None)
@given(st.lists(tapes(), min_size=1, max_size=6, unique_by=lambda r: r.trajectory.header.run_id))
def test_frames_and_shares_add_up(recorded):
    found = frames_of(recorded)
    for made in recorded:
        mine = Frames(*(frame[frame["run"] == made.trajectory.header.run_id] for frame in found))
        counts = mine.predicates["status"].value_counts()
        assert counts.get("certified", 0) + counts.get("open", 0) == mine.runs["planned"].iloc[0]
        assert mine.nodes["calls"].sum() == made.trajectory.usage.calls == mine.runs["calls"].iloc[0]
        assert mine.nodes["seconds"].sum() == pytest.approx(made.trajectory.usage.seconds)
        # folding the state gives the same result as reading the events
        state = made.trajectory.state()
        assert (len(state["attempts"]), len(state["certificates"])) == (
            len(mine.attempts),
            mine.runs["certificates"].iloc[0],
        )
    analysis = analyse(found)
    for name, table in analysis.items():
        if name in ("credit", "node_costs", "certified_costs", "compression"):
            continue
        assert table["value"].dropna().between(0, 100 if name == "score_by_horizon" else 1).all(), name
        bounded = table.dropna(subset=["low"])
        assert (bounded["low"] <= bounded["value"] + 1e-9).all()
        assert (bounded["value"] <= bounded["high"] + 1e-9).all()
    for name in ("depths", "stopped_kinds", "stopped_places", "failure_causes"):
        sums = analysis[name].groupby("method")["value"].sum()
        assert all(math.isclose(total, 1) for total in sums), name


HOSTILE = "<script>alert(1)</script> $\\frac{ \"&' _x"


@pytest.mark.long
@pytest.mark.slow
def test_hostile_names_are_inert_and_many_long_ones_are_drawn(tmp_path):
    plan = [{"text": HOSTILE, "kind": HOSTILE}, *PLAN]
    names = [HOSTILE, *(f"_method {n} with a name that goes on and on over several lines of text" for n in range(7))]
    runs = [Tape(plan=plan, task=HOSTILE, run_id=HOSTILE).tries(1, 0).ended("", method=name) for name in names]
    page = write_anatomy(frames_of(runs), tmp_path).files[-1].read_text(encoding="utf-8")
    assert "<script" not in page
    assert "&lt;script&gt;alert(1)" in page
    assert "_method 6" in page
    assert not re.search(r"(src|href)=\"(?!#)|url\((?!#)|@import", page)


def write(folder, recorded, cut=0):
    folder.mkdir(parents=True)
    trajectory = recorded.trajectory
    lines = [trajectory.header, *trajectory.events, *filter(None, [trajectory.footer])]
    text = "".join(line.model_dump_json() + "\n" for line in lines)
    (folder / "trajectory.jsonl").write_text(text[: len(text) - cut], encoding="utf-8")
    return folder / "trajectory.jsonl"


@pytest.mark.slow
def test_everything_is_written_whole(tmp_path):
    write(tmp_path / "runs" / "deep" / "a", Tape(run_id="a").tries(2, 1, 1).ended("goal", 1))
    write(tmp_path / "runs" / "b", Tape(run_id="b").tries(1).ended(""), cut=9)
    (tmp_path / "runs" / "c").mkdir()
    (tmp_path / "runs" / "c" / "trajectory.jsonl").write_text('{"type":"hea')
    found = find_runs([tmp_path / "runs"])
    out = tmp_path / "out"
    anatomy = write_anatomy(read_frames(found), out)
    written = {file.relative_to(out).as_posix() for file in out.rglob("*") if file.is_file()}
    assert written == {file.relative_to(out).as_posix() for file in anatomy.files}
    assert {f"{name}.csv" for name in ANALYSES} | {"anatomy.html", "frames/runs.parquet", "rates.svg"} <= written
    assert anatomy.interrupted == ("b",)
    pd.testing.assert_frame_equal(pd.read_parquet(out / "frames" / "runs.parquet"), anatomy.frames.runs)


@pytest.mark.slow
def test_bad_folders_say_what_to_do(tmp_path):
    with pytest.raises(Fault, match="create some with `certigraph run`"):
        find_runs([tmp_path])
    with pytest.raises(Fault, match="no such folder"):
        find_runs([tmp_path / "none"])
    path = write(tmp_path / "a", Tape().tries(1).ended("goal"))
    lines = path.read_text().splitlines()
    path.write_text("\n".join([lines[0], '{"torn', *lines[2:]]))
    with pytest.raises(Fault, match=r"trajectory.jsonl:2: not a trajectory line"):
        read_frames(find_runs([tmp_path]))
    path.write_text("\n".join([lines[1], *lines]))
    with pytest.raises(Fault, match=r"trajectory.jsonl:1: not a header"):
        find_runs([tmp_path])


@pytest.mark.slow
def test_a_later_schema_is_refused(tmp_path):
    path = write(tmp_path / "a", Tape().tries(1).ended("goal"))
    path.write_text(path.read_text().replace('"schema_version":5', '"schema_version":7,"more":1'))
    for read in (read_trajectory, lambda file: find_runs([file.parent])):
        with pytest.raises(Fault, match=r"a/trajectory.jsonl: .* schema 7"):
            read(path)


@pytest.mark.slow
def test_methods_are_distinguished_by_what_differs(tmp_path):
    context = Context(model="scripted:expert")
    for graph in ("sdp", "react"):
        run(graph, "blocksworld", "4-0", context=context, out=tmp_path)
    found = read_frames(find_runs([tmp_path]))
    assert sorted(found.runs["method"]) == ["react", "sdp"]
    by_method = found.runs.set_index("method")
    assert by_method.loc["sdp", ["certified", "planned", "horizon_name"]].tolist() == [4, 4, "4 blocks"]
    assert by_method["solved"].all()
    assert figures(analyse(found)["cascade_rate"]) == {"sdp": (0, 4)}
    run("sdp", "blocksworld", "4-0", context=Context(model="scripted:first"), out=tmp_path)
    names = {r.method for r in read_recorded_runs(find_runs([tmp_path]))}
    assert names == {"react, scripted:expert", "sdp, scripted:expert", "sdp, scripted:first"}


@pytest.mark.slow
def test_the_names_that_a_comparison_gave_are_kept(tmp_path, capsys):
    names = ["sdp", "unchecked=sdp", "again=sdp"]
    job = build_job(
        parse_methods(names, ["unchecked:validate=always_pass"]), "blocksworld", Choice(ids=["3-0"]), Context()
    )
    run_comparison(job, tmp_path / "cmp", silent=True)
    with pytest.raises(SystemExit):
        cli.main(["anatomy", str(tmp_path / "cmp"), "--out", str(tmp_path / "anatomy")])
    printed = capsys.readouterr().out
    assert re.findall(r"^(sdp|unchecked|again) *$", printed, re.MULTILINE) == ["sdp", "unchecked", "again"]
    assert "always_pass" not in printed


# Findings and forced passes in figures and exports: nothing forced counts as certified.


@pytest.fixture
def result(tmp_path):
    return run_with_findings(tmp_path)


def test_credit_and_transitions_leave_forced_passes_out(result):
    assert result.ending == "goal"
    assert result.credit == [1, 1, 1]
    assert len(result.transitions) == 3
    assert [(known.finding, known.forced) for known in result.findings] == [(FOUND, ""), (GUESSED, "force_pass")]
    assert [predicate.text for predicate in result.uncertified] == ["p2"]
    plan = read_history(result.trajectory).plan
    assert (plan.in_force, plan.passed) == (3, 1)
    assert "3 of 4 certified, 1 passed uncertified" in repr(result)


def test_anatomy_counts_forced_passes_apart(result):
    rows = anatomy_rows(RecordedRun("sdp", "only", 0, result.trajectory))
    counts = {name: rows["runs"][0][name] for name in ("certified", "forced", "planned", "certificates", "cascades")}
    assert counts == {"certified": 3, "forced": 1, "planned": 4, "certificates": 3, "cascades": 0}
    assert [row["status"] for row in rows["predicates"]] == ["certified", "forced", "certified", "certified"]
    assert [row["certified"] for row in rows["attempts"]] == [True, False, False, True, True]


@pytest.mark.slow
def test_a_failed_run_whose_goal_was_let_pass_stopped_there(tmp_path):
    from certigraph.evaluation.anatomy import FORCED_LABEL, stopped_kinds, stopped_places
    from certigraph.evaluation.frames import frames_of

    failed = run_inquiry(tmp_path, Inquiry(*GOAL_PASSED))
    frames = frames_of([RecordedRun("sdp", "only", 0, failed.trajectory)])
    for stops, column in ((stopped_kinds(frames), "kind"), (stopped_places(frames), "place")):
        assert stops[stops["value"] > 0][column].tolist() == [FORCED_LABEL]


def test_exported_transitions_reward_no_forced_pass(result):
    rows = list(rows_of(result.trajectory))
    assert [row["certified"] for row in rows] == [True, False, False, True, True]
    assert [row["r_cert"] for row in rows] == [1, 0, 0, 1, 1]
    assert [row["forced"] for row in rows] == [None, None, "force_pass", None, None]
    assert rows[2]["next_state"] == rows[2]["state"] == ["p1"]
    assert rows[2]["predicates"] == []
    assert (rows[2]["finding"], rows[2]["sources"]) == (GUESSED.text, list(GUESSED.sources))
    assert rows[0]["against"] == list(FOUND.against)


@pytest.mark.slow
def test_an_atif_step_has_a_pass_in_the_place_of_a_certificate(result):
    extras = [step["extra"] for step in to_atif(result.trajectory)["steps"] if "verdict" in step.get("extra", {})]
    assert [("certificate" in extra, "passed" in extra) for extra in extras] == [
        (True, False),
        (False, False),
        (False, True),
        (True, False),
        (True, False),
    ]
    assert extras[0]["certificate"]["finding"]["sources"] == list(FOUND.sources)


@pytest.mark.slow
def test_replay_counts_certified_steps_alone(result):
    replay = replay_of(result.trajectory)
    assert (replay.certified_steps, replay.first_tries, replay.depths) == (3, 3, (1, 1, 1))


class Returning(Script):
    """The second predicate passes, the third fails, and the new plan returns to the state of the first."""

    def __init__(self):
        super().__init__(plan=3, verdicts=[1, PASSED, 0, 0, 0])

    async def _replan(self, state, runtime):
        return {"plan": [Predicate(text="as after p1", kind=RESTORE, args={"to": 1}), *predicates("r", 2)]}


def test_a_return_takes_a_forced_pass_back_too(tmp_path):
    result = run("sdp", Returning(), out=tmp_path)
    certificates = result.certificates
    plan = read_history(result.trajectory).plan
    assert (plan.in_force, plan.passed) == (len(certified_state(certificates).predicates), 0) == (3, 0)
    assert result.uncertified == []
    assert result.findings == []
    rows = anatomy_rows(RecordedRun("sdp", "only", 0, result.trajectory))
    assert [row["status"] for row in rows["predicates"]] == ["certified", "dropped", "return", "certified", "certified"]
    assert 'class="row undone' in report_page(result, tmp_path)


def test_a_forced_cascade_passes_all_of_its_predicates(tmp_path):
    wide = Verdict(depth=2, forced="force_pass")
    result = run("sdp", Script(plan=3, verdicts=[wide, 1]), out=tmp_path)
    assert [predicate.text for predicate in result.uncertified] == ["p1", "p2"]
    assert "<dd>1/3<small>predicates, 2 passed uncertified" in report_page(result, tmp_path)

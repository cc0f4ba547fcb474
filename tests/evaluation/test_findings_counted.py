"""What steps found, and what a policy let pass, in figures and exports: nothing forced counts as certified."""

import pytest
from asking import Inquiry, asked
from doubles import Script, predicates
from inquiring import FOUND, GOAL_PASSED, GUESSED, PASSED, inquiry, page

from certigraph.evaluation.atif import to_atif
from certigraph.evaluation.comparison_summary import replay_of
from certigraph.evaluation.export import rows_of
from certigraph.evaluation.frames import Recorded
from certigraph.evaluation.frames import rows_of as anatomy_rows
from certigraph.runtime.history import tally
from certigraph.runtime.run import run
from certigraph.state.records import RESTORE, Predicate, Verdict
from certigraph.state.run import certified_state


@pytest.fixture
def result(tmp_path):
    return inquiry(tmp_path)


def test_credit_and_transitions_leave_forced_passes_out(result):
    assert result.ending == "goal"
    assert result.credit == [1, 1, 1]
    assert len(result.transitions) == 3
    assert [(known.finding, known.forced) for known in result.findings] == [(FOUND, ""), (GUESSED, "force_pass")]
    assert [predicate.text for predicate in result.uncertified] == ["p2"]
    assert tally(result.certificates) == (3, 1)
    assert "3 of 4 certified, 1 passed uncertified" in repr(result)


def test_anatomy_counts_forced_passes_apart(result):
    rows = anatomy_rows(Recorded("sdp", "only", 0, result.trajectory))
    counts = {name: rows.run[name] for name in ("certified", "forced", "planned", "certificates", "cascades")}
    assert counts == {"certified": 3, "forced": 1, "planned": 4, "certificates": 3, "cascades": 0}
    assert [row["status"] for row in rows.predicates] == ["certified", "forced", "certified", "certified"]
    assert [row["certified"] for row in rows.attempts] == [True, False, False, True, True]


@pytest.mark.slow
def test_a_failed_run_whose_goal_was_let_pass_stopped_there(tmp_path):
    from certigraph.evaluation.anatomy import FORCED, stopped_kinds, stopped_places
    from certigraph.evaluation.frames import frames_of

    failed = asked(tmp_path, Inquiry(*GOAL_PASSED))
    frames = frames_of([Recorded("sdp", "only", 0, failed.trajectory)])
    for stops, column in ((stopped_kinds(frames), "kind"), (stopped_places(frames), "place")):
        assert stops[stops["value"] > 0][column].tolist() == [FORCED]


def test_exported_transitions_reward_no_forced_pass(result):
    rows = list(rows_of(result.trajectory))
    assert [row["certified"] for row in rows] == [True, False, False, True, True]
    assert [row["r_cert"] for row in rows] == [1, 0, 0, 1, 1]
    assert [row["forced"] for row in rows] == [None, None, "force_pass", None, None]
    assert rows[2]["next_state"] == rows[2]["state"] == ["p1"]
    assert rows[2]["predicates"] == []
    assert (rows[2]["finding"], rows[2]["sources"]) == (GUESSED.text, list(GUESSED.sources))
    assert rows[0]["against"] == list(FOUND.against)


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


def test_replay_counts_certified_steps_alone(result):
    replay = replay_of(result.trajectory)
    assert (replay.certified_steps, replay.first_tries, replay.depths) == (3, 3, (1, 1, 1))


class Returning(Script):
    """The second predicate passes, the third fails, and the new plan goes back to where the first stood."""

    def __init__(self):
        super().__init__(plan=3, verdicts=[1, PASSED, 0, 0, 0])

    async def _replan(self, state, runtime):
        return {"plan": [Predicate(text="as after p1", kind=RESTORE, args={"to": 1}), *predicates("r", 2)]}


def test_a_return_takes_a_forced_pass_back_too(tmp_path):
    result = run("sdp", Returning(), out=tmp_path)
    certificates = result.certificates
    assert tally(certificates) == (3, 0)
    assert tally(certificates).certified == len(certified_state(certificates).predicates)
    assert result.uncertified == []
    assert result.findings == []
    rows = anatomy_rows(Recorded("sdp", "only", 0, result.trajectory))
    assert [row["status"] for row in rows.predicates] == ["certified", "dropped", "return", "certified", "certified"]
    assert 'class="row undone' in page(result, tmp_path)


def test_a_forced_cascade_passes_all_of_its_predicates(tmp_path):
    wide = Verdict(depth=2, forced="force_pass")
    result = run("sdp", Script(plan=3, verdicts=[wide, 1]), out=tmp_path)
    assert [predicate.text for predicate in result.uncertified] == ["p1", "p2"]
    assert "<dd>1/3<small>predicates, 2 passed uncertified" in page(result, tmp_path)

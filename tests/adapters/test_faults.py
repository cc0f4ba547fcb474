"""Tests of `adapters.faults`."""

from pathlib import Path

import pytest
from helpers.models.faulty_models import faulty_model, reply_or_error
from helpers.worlds.scripted_benchmark import Script, World
from hypothesis import given
from hypothesis import strategies as st

from certigraph.adapters.faults import (
    MODEL_FAULTS,
    WORLD_FAULTS,
    CrashError,
    Faults,
    FaultyEnvironment,
    restarted_context,
)
from certigraph.adapters.protocols import Context, StateCheck
from certigraph.runtime.run import resume, run
from certigraph.state.endings import UnknownName
from certigraph.state.records import Action

# Rates of faults: read from a text, drawn the same way every time, drawn again for a run that is begun again.


@given(st.builds(Faults, timeout=st.floats(0, 1), crash=st.floats(0, 1), seed=st.integers(0, 99), start=st.just(2)))
def test_the_text_of_faults_is_read_back(faults: Faults) -> None:
    assert Faults.read(str(faults)) == faults


def test_no_faults_are_the_empty_text_and_what_is_usual_is_left_out() -> None:
    assert Faults.read("") == Faults.read("  ") == Faults()
    assert str(Faults()) == ""
    assert str(Faults.read(" crash = 0.01, timeout=0.10,seed=0")) == "timeout=0.1,crash=0.01"


@pytest.mark.parametrize("text", ["melt=0.1", "crash=2", "crash=-0.1", "crash=often", "crash", "crash=0.1,crash=0.2"])
def test_a_text_that_names_no_faults_is_answered_with_all_that_are_known(text: str) -> None:
    with pytest.raises(UnknownName) as unknown:
        Faults.read(text)
    assert all(name in str(unknown.value) for name in (repr(text), *MODEL_FAULTS, *WORLD_FAULTS, "seed", "retry_after"))


def test_rates_are_kept_and_one_kinds_rate_changes_nothing_for_another() -> None:
    faults, more = Faults(timeout=0.3), Faults(timeout=0.3, empty=0.5)
    struck = [faults.draw(MODEL_FAULTS, n) for n in range(500)]
    assert struck.count("timeout") == pytest.approx(150, abs=40)
    assert [kind == "timeout" for kind in struck] == [more.draw(MODEL_FAULTS, n) == "timeout" for n in range(500)]


def test_a_question_that_failed_may_be_answered_when_queried_again_and_a_run_begun_again_draws_again() -> None:
    model = faulty_model("server_error=0.5,seed=1")
    assert len({reply_or_error(model, "the same") for _ in range(20)}) == 2
    context = Context(faults="server_error=0.5,seed=1")
    again = [restarted_context(context, times).faults for times in range(20)]
    assert again[:3] == ["server_error=0.5,seed=1", *(f"server_error=0.5,seed=1,start={n}" for n in (1, 2))]
    assert len({reply_or_error(faulty_model(faults), "the same") for faults in again}) == 2
    assert restarted_context(Context(), 3) == Context()


# Injected faults of worlds: steps fail, replays do not, and a world that is opened again fails elsewhere.

STEPS = [Action(text=f"go {n}") for n in range(60)]


def outcomes(world: FaultyEnvironment) -> str:
    """A letter for each step: what it raised, or `.`"""
    marks = ""
    for action in STEPS:
        try:
            world.step(action)
            marks += "."
        except (CrashError, TimeoutError) as error:
            marks += type(error).__name__[0]
    return marks


def world(faults: str = "crash=0.1,hang=0.1,delay=0,seed=3", **given: object) -> FaultyEnvironment:
    return FaultyEnvironment(World(Script()), faults, **given)  # type: ignore[arg-type]


def test_steps_crash_or_hang_as_drawn_and_the_world_does_not_see_them() -> None:
    one = world()
    marks = outcomes(one)
    assert {*marks} == {".", "C", "T"}
    assert one.injected == {"crash": marks.count("C"), "hang": marks.count("T")}
    assert len(one.actions) == marks.count(".")
    assert outcomes(world()) == marks


def test_the_state_of_a_world_is_checked_without_faults() -> None:
    class Lit(World):
        def check_state(self, condition: str) -> StateCheck | None:
            return StateCheck(condition == "The lamp is on.", "lamp: on")

    one = FaultyEnvironment(Lit(Script()), "crash=1")
    assert one.check_state("The lamp is on.") == (True, "lamp: on")
    assert one.check_state("The lamp is off.") == (False, "lamp: on")


def test_another_task_trial_or_start_fails_at_other_steps() -> None:
    worlds = [world(), world(task="b"), world(trial=1), world("crash=0.1,hang=0.1,delay=0,seed=3,start=1")]
    assert len({outcomes(one) for one in worlds}) == 4


def test_steps_that_repeat_a_log_are_spared_and_those_after_it_are_drawn_as_before() -> None:
    plain = outcomes(world())
    assert outcomes(world(replayed_steps=30)) == "." * 30 + plain[30:]


def test_what_else_a_world_has_is_the_worlds_own() -> None:
    script = Script(fails={"view": ZeroDivisionError()})
    faulty = FaultyEnvironment(World(script), "crash=1")
    assert faulty.reset().text == "start"
    assert (faulty.admissible(), faulty.score().value, faulty.concurrent, faulty.script) == (None, 1.0, False, script)
    with pytest.raises(ZeroDivisionError):
        faulty.view()
    assert faulty.sources() == ()
    faulty.close()
    assert faulty.environment.closed


@pytest.mark.slow
def test_a_run_whose_world_goes_down_ends_so_and_goes_on_when_resumed(tmp_path: Path) -> None:
    script = Script(plan=8)
    begun = run("sdp", script, context=Context(faults="crash=0.15"), out=tmp_path)
    assert begun.ending == "error:environment"
    assert "injected crash" in begun.trajectory.footer.message
    lengths = [len(begun.state["history"])]
    while begun.ending != "goal" and len(lengths) < 5:
        begun = resume(begun.folder, benchmark=script)
        lengths.append(len(begun.state["history"]))
    assert (begun.ending, lengths) == ("goal", [1, 7, 8])

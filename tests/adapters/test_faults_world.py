"""Injected faults of worlds: steps fail, replays do not, and a world that is opened again fails elsewhere."""

from pathlib import Path

import pytest
from doubles import Script, World

from certigraph.adapters.faults import CrashError, FaultyBenchmark, FaultyEnvironment
from certigraph.adapters.protocols import Context
from certigraph.runtime.run import resume, run
from certigraph.state.records import Action

STEPS = [Action(text=f"go {n}") for n in range(60)]


def outcomes(world: FaultyEnvironment) -> str:
    """A letter for each step: what it raised, or `.`"""
    told = ""
    for action in STEPS:
        try:
            world.step(action)
            told += "."
        except (CrashError, TimeoutError) as error:
            told += type(error).__name__[0]
    return told


def world(faults: str = "crash=0.1,hang=0.1,delay=0,seed=3", **given: object) -> FaultyEnvironment:
    return FaultyEnvironment(World(Script()), faults, **given)  # type: ignore[arg-type]


def test_steps_crash_or_hang_as_drawn_and_the_world_does_not_see_them() -> None:
    one = world()
    told = outcomes(one)
    assert {*told} == {".", "C", "T"}
    assert one.injected == {"crash": told.count("C"), "hang": told.count("T")}
    assert len(one.actions) == told.count(".")
    assert outcomes(world()) == told


def test_another_task_trial_or_start_fails_at_other_steps() -> None:
    told = [world(), world(task="b"), world(trial=1), world("crash=0.1,hang=0.1,delay=0,seed=3,start=1")]
    assert len({outcomes(one) for one in told}) == 4


def test_steps_that_repeat_a_log_are_spared_and_those_after_it_are_drawn_as_before() -> None:
    plain = outcomes(world())
    assert outcomes(world(spared=30)) == "." * 30 + plain[30:]


def test_what_else_a_world_has_is_the_worlds_own() -> None:
    script = Script(fails={"view": ZeroDivisionError()})
    faulty = FaultyEnvironment(World(script), "crash=1")
    assert faulty.reset().text == "start"
    assert (faulty.admissible(), faulty.score().value, faulty.concurrent, faulty.script) == (None, 1.0, False, script)
    with pytest.raises(ZeroDivisionError):
        faulty.view()
    assert getattr(faulty, "sources", None) is None
    faulty.close()
    assert faulty.environment.closed


def test_a_benchmarks_worlds_fail_and_those_opened_again_do_so_elsewhere() -> None:
    script = Script()
    faulty = FaultyBenchmark(script, "crash=0.1,seed=3")
    task = faulty.task("only")
    assert (faulty.name, faulty.limits) == (script.name, script.limits)
    assert outcomes(faulty.open(task)) != outcomes(faulty.open(task))


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

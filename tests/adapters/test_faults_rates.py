"""Rates of faults: read from a text, drawn the same way every time, drawn anew for a run that is begun again."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from patient import faulty, heard

from certigraph.adapters.faults import MODEL, WORLD, Faults, begun_again
from certigraph.adapters.protocols import Context
from certigraph.state.records import UnknownName


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
    assert all(name in str(unknown.value) for name in (repr(text), *MODEL, *WORLD, "seed", "retry_after"))


def test_rates_are_kept_and_one_kinds_rate_changes_nothing_for_another() -> None:
    faults, more = Faults(timeout=0.3), Faults(timeout=0.3, empty=0.5)
    struck = [faults.strikes(MODEL, n) for n in range(500)]
    assert struck.count("timeout") == pytest.approx(150, abs=40)
    assert [kind == "timeout" for kind in struck] == [more.strikes(MODEL, n) == "timeout" for n in range(500)]


def test_a_question_that_failed_may_be_answered_when_asked_again_and_a_run_begun_again_draws_anew() -> None:
    model = faulty("server_error=0.5,seed=1")
    assert len({heard(model, "the same") for _ in range(20)}) == 2
    context = Context(faults="server_error=0.5,seed=1")
    again = [begun_again(context, times).faults for times in range(20)]
    assert again[:3] == ["server_error=0.5,seed=1", *(f"server_error=0.5,seed=1,start={n}" for n in (1, 2))]
    assert len({heard(faulty(faults), "the same") for faults in again}) == 2
    assert begun_again(Context(), 3) == Context()

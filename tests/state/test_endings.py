"""Exceptions that stop a run, in another process."""

import pickle

import pytest

from certigraph.state.endings import Fault, LimitReached, Stopped

STOPPED = [
    Fault("model", "the endpoint failed"),
    LimitReached("calls", 3, 4),
    LimitReached("subtasks", 2, 3, happened="an episode ended", option="failures"),
]


@pytest.mark.parametrize(
    ("limit", "spent", "more"), [(20, 20, 40), (2_000_000, 2_033_780, 4_067_560), (0, 0, 1), (0.5, 0.51, 1.02)]
)
def test_the_advice_of_a_limit_is_a_budget_that_can_be_given(limit: float, spent: float, more: float):
    advised = str(LimitReached("tokens", limit, spent)).rpartition("tokens=")[2]
    assert type(more)(advised) == more


@pytest.mark.parametrize("stopped", STOPPED, ids=lambda error: type(error).__name__)
def test_an_exception_of_a_worker_process_reaches_its_parent_whole(stopped: Stopped):
    restored = pickle.loads(pickle.dumps(stopped))
    assert type(restored) is type(stopped)
    assert (str(restored), vars(restored)) == (str(stopped), vars(stopped))

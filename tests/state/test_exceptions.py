"""Exceptions that stop a run, in another process."""

import pickle

import pytest

from certigraph.state.endings import Fault, LimitReached, Stopped

STOPPED = [
    Fault("model", "the endpoint failed"),
    LimitReached("calls", 3, 4),
    LimitReached("subtasks", 2, 3, happened="an episode ended", option="failures"),
]


@pytest.mark.parametrize("stopped", STOPPED, ids=lambda error: type(error).__name__)
def test_an_exception_of_a_worker_process_reaches_its_parent_whole(stopped: Stopped):
    restored = pickle.loads(pickle.dumps(stopped))
    assert type(restored) is type(stopped)
    assert (str(restored), vars(restored)) == (str(stopped), vars(stopped))

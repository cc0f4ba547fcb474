"""Rarer garbage collection ends with its block and leaves alone what a caller set up."""

import gc

import pytest

from certigraph.evaluation.evaluate import RARELY, seldom_collecting


def test_the_collector_is_as_it_was_after_the_block_and_after_an_error_in_it():
    before = gc.get_threshold(), gc.get_freeze_count()
    with pytest.raises(ZeroDivisionError), seldom_collecting():
        assert gc.get_threshold() == RARELY
        raise ZeroDivisionError
    assert (gc.get_threshold(), gc.get_freeze_count()) == before


def test_what_was_frozen_before_stays_frozen():
    gc.freeze()
    try:
        frozen = gc.get_freeze_count()
        with seldom_collecting(), seldom_collecting():
            pass
        # what dies while it is frozen is counted no more
        assert gc.get_freeze_count() > frozen * 0.9
    finally:
        gc.unfreeze()

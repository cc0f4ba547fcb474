"""Transcripts of search agents in prompts: each passage once, and a word about those that came up again."""

from certigraph.adapters.protocols import Limits
from certigraph.nodes.transcripts import ELIDED_MORE, ELIDED_NOTE, format_transcript
from certigraph.state.run import Turn


def turn(action: str, *sources: str) -> Turn:
    text = "\n".join(f"{source}: it says {source}" for source in sources)
    return Turn(action=action, observation=text, sources=sources)


def test_passages_that_come_up_again_are_counted_and_not_repeated():
    shown = format_transcript([turn("one", "a", "b"), turn("two", "b", "c", "a"), turn("three", "c")], Limits())
    assert [shown.count(f"it says {source}") for source in "abc"] == [1, 1, 1]
    assert shown.count(ELIDED_MORE.format(count=2)) == 1
    assert shown.endswith(ELIDED_NOTE)


def test_a_round_of_new_passages_alone_has_no_such_line():
    shown = format_transcript([turn("one", "a"), turn("two", "b")], Limits())
    assert ELIDED_NOTE not in shown
    assert "it says b" in shown.splitlines()[-1]

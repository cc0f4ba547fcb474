"""Transcripts of search agents in prompts: each passage once, and a word about those that came up again."""

from collections.abc import Sequence
from random import Random

import pytest

from certigraph.adapters.models.profiles import estimate_tokens
from certigraph.nodes.transcripts import (
    ELIDED_MORE,
    ELIDED_NOTE,
    _FittingTurns,
    format_whole_turns,
)
from certigraph.state.run import Turn


def turn(action: str, *sources: str) -> Turn:
    text = "\n".join(f"{source}: it says {source}" for source in sources)
    return Turn(action=action, observation=text, sources=sources)


def test_passages_that_come_up_again_are_counted_and_not_repeated():
    shown = "\n".join(format_whole_turns([turn("one", "a", "b"), turn("two", "b", "c", "a"), turn("three", "c")]))
    assert [shown.count(f"it says {source}") for source in "abc"] == [1, 1, 1]
    assert shown.count(ELIDED_MORE.format(count=2)) == 1
    assert shown.endswith(ELIDED_NOTE)


def test_a_round_of_new_passages_alone_has_no_such_line():
    shown = "\n".join(format_whole_turns([turn("one", "a"), turn("two", "b")]))
    assert ELIDED_NOTE not in shown
    assert "it says b" in shown.splitlines()[-1]


def draw_turns(random: Random) -> list[Turn]:
    turns = []
    for number in range(random.choice([5, 25])):
        sources = tuple(f"p{random.randrange(12)}" for _ in range(random.randrange(4)))
        text = "\n".join(f"{source}: {'w ' * random.randrange(30)}" for source in sources)
        answer = text if random.random() < 0.85 else "no\nlist\nof passages"
        turns.append(Turn(thought="t" * random.randrange(20), action=f"{number}", observation=answer, sources=sources))
    return turns


@pytest.mark.parametrize("seed", range(60))
def test_turns_that_are_kept_fit_as_if_all_were_formatted_again(seed: int):
    random = Random(seed)
    paragraphs, available = random.choice([None, 1, 5]), random.choice([50, 200, 600])
    turns, fitting = draw_turns(random), _FittingTurns(paragraphs)

    def texts(shown: Sequence[Turn]) -> list[str]:
        return format_whole_turns(shown, paragraphs=paragraphs)

    def size(shown: Sequence[Turn]) -> int:
        return sum(map(estimate_tokens, texts(shown)))

    for last, added in enumerate(turns):
        fitting.add([added])
        start = 0
        for end in range(last + 1) if size(turns[: last + 1]) > available else ():
            if size(turns[start : end + 1]) > available:
                while start < end and size(turns[start : end + 1]) > available // 2:
                    start += 1
        found, shown = fitting.fit(available)
        assert (found, [*shown]) == (start, texts(turns[start : last + 1]))

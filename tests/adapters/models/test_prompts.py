"""Which turns of an episode stand in a prompt, by the model's window."""

import itertools
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langgraph.runtime import Runtime

from certigraph.adapters.models.profiles import ModelProfile, estimate_tokens
from certigraph.adapters.models.prompts import MAX_QUOTE, format_history, format_view, quote_history
from certigraph.adapters.protocols import Context
from certigraph.nodes.slots import find_new_lines
from certigraph.state.records import Action, Observation
from certigraph.state.run import Turn, create_turn


def turns(*lengths: int) -> list[Turn]:
    return [Turn(action=f"act {n}", observation="x" * length) for n, length in enumerate(lengths, 1)]


def shown(text: str) -> list[int]:
    return [int(number) for number in re.findall(r"Action: act (\d+)$", text, re.MULTILINE)]


def window_for(tokens: int) -> ModelProfile:
    """A profile whose prompts have at most so many tokens."""
    return ModelProfile(tokens + tokens // 3 + 1)


@pytest.mark.slow
@given(st.lists(st.integers(0, 4_000), min_size=1, max_size=60), st.integers(100, 20_000))
def test_the_latest_turns_are_shown_as_far_as_they_fit(lengths: list[int], tokens: int):
    history = format_history(turns(*lengths), "", profile := window_for(tokens))
    numbers = shown(history.text)
    assert numbers == [*range(numbers[0], len(lengths) + 1)]
    assert len(numbers) == 1 or estimate_tokens(history.text) <= profile.prompt_tokens + 50
    left_out = [cut for cut in history.cut if cut != "the end of the latest turn"]
    assert left_out == ([f"the oldest {numbers[0] - 1} of {len(lengths)} turns"] if numbers[0] > 1 else [])


def test_a_cut_leaves_half_of_the_space_filled_and_the_start_moves_rarely():
    profile, long = window_for(6_500), [3_450] * 60  # six turns of about 1,000 tokens fit
    starts = [shown(format_history(turns(*long[:count]), "", profile).text)[0] for count in range(1, 61)]
    counts = [count - start + 1 for count, start in enumerate(starts, 1)]
    assert min(counts[5:]) == 3
    assert max(counts) == 6
    assert len(set(starts)) <= 60 / 4 + 1


def test_everything_is_shown_where_it_fits():
    history = format_history(turns(*[1_000] * 40), "", ModelProfile(128_000))
    assert shown(history.text) == [*range(1, 41)]
    assert history.cut == ()


def test_equal_turns_in_a_row_are_shown_once_with_their_numbers():
    same = Turn(action="act 2", observation="growing")
    seen = [Turn(action="act 1", observation="x"), *[same] * 3, Turn(action="act 2", observation="grown"), same]
    text = format_history(seen, "", ModelProfile(128_000)).text
    assert shown(text) == [1, 2, 2, 2]
    assert [line.split("Action")[0].strip() for line in text.splitlines() if "Action" in line] == [
        "1.",
        "2. to 4.",
        "5.",
        "6.",
    ]
    (cut,) = format_history([*[same] * 9, Turn(action="act 3", observation="y" * 4_000)], "", window_for(900)).cut[:1]
    assert cut == "the oldest 9 of 10 turns"


def test_what_the_view_newly_shows_is_kept_with_the_action():
    before, after = "A kitchen.\na door\na pot\nMoves: 1", "A kitchen.\na door\na stove\na cup\nMoves: 2"
    new = find_new_lines(before, after, "Done.\n a cup", ["Moves: "])
    assert new == "a stove"
    assert find_new_lines(before, after, "Done. a stove\n a cup", ["Moves: "]) == ""
    assert find_new_lines(before, after, "You see a stovepipe and a cupboard.", ["Moves: "]) == "a stove\na cup"
    assert find_new_lines(f"A hallway.\n{before}", after, "", ["Moves: "]) == "A kitchen.\na door\na stove\na cup"
    seen = [create_turn("", Action(text="go"), Observation(text="You enter."), seen=new)]
    assert new in format_history(seen, "", ModelProfile(128_000)).text


def test_a_limit_of_the_method_is_named():
    (cut,) = format_history(turns(*[3_450] * 9), "", ModelProfile(128_000), most_tokens=6_500).cut
    assert "6,500 tokens" in cut
    (cut,) = format_history(turns(*[3_450] * 9), "", window_for(5_000), most_tokens=6_500).cut
    assert "tokens" not in cut


def test_a_latest_turn_that_does_not_fit_loses_its_end_and_says_so():
    long = Turn(action="read", observation="x" * 400_000)
    history = format_history([Turn(action="first", observation="short"), long], "", ModelProfile(16_000))
    assert estimate_tokens(history.text) <= 12_100
    assert history.cut == ("the oldest 1 of 2 turns", "the end of the latest turn")
    assert format_history([Turn(action="a", observation="b")], "", ModelProfile(16_000)).cut == ()


def test_a_history_beyond_the_longest_quote_is_quoted_whole():
    history = format_history(turns(*[3_000] * 60), "", ModelProfile(1_000_000))
    assert shown(quote_history(history)) == [*range(1, 61)]
    assert len(history.text) > MAX_QUOTE


def test_no_turn_and_no_space_is_not_a_history():
    assert format_history([], "x" * 100_000, window_for(100)) == format_history([], "", window_for(100))


KITCHEN = "This is the kitchen.\nIn it you see:\na stove\na red apple\na red apple\nan open door"


@pytest.mark.parametrize(
    ("seen", "rest"),
    [
        (KITCHEN, ["In it you see:", "Moves: 3"]),
        (KITCHEN.replace("a red apple\na red apple", "a red apple"), ["In it you see:", "a red apple", "Moves: 3"]),
        ("a red apple", [*KITCHEN.splitlines(), "Moves: 3"]),
        ("", [*KITCHEN.splitlines(), "Moves: 3"]),
    ],
    ids=["a new place", "one thing twice", "one new thing", "nothing new"],
)
def test_lines_of_the_view_that_the_latest_turn_shows_are_not_shown_again(seen: str, rest: list[str]):
    runtime, turn = Runtime(context=Context()), Turn(action="go", observation="You go.", seen=seen)
    shown = format_view(f"{KITCHEN}\nMoves: 3", runtime, turns=[turn], profile=ModelProfile(128_000)).splitlines()
    known = [*f"{KITCHEN}\nMoves: 3".splitlines()]
    assert [line for line in shown if line in known] == rest


CARRIED = "In your inventory, you see:\nan orange"


def test_of_a_place_that_was_shown_only_what_changed_is_shown():
    before = f"{KITCHEN}\na pot\n{CARRIED}"
    after = f"{KITCHEN.replace('a stove', 'a stove, which is on')}\n{CARRIED}\na pot"
    seen = find_new_lines(before, after, "Done.", ())
    assert seen.splitlines() == ["In it you see:", "a stove, which is on", "In your inventory, you see:", "a pot"]
    turns = [
        Turn(action="go", observation="You go.", seen=before),
        Turn(action="take pot", observation="Done.", seen=seen),
    ]
    shown = format_view(after, Runtime(context=Context()), turns=turns, profile=ModelProfile(128_000))
    assert [line for line in shown.splitlines() if "action 1" in line]
    gone = shown.partition("<world>\n")[2].partition("\n</world>")[0]
    assert gone.splitlines() == ["In it you see:", "a stove", "a pot"]
    assert "an open door" not in shown


def test_a_view_that_changed_often_is_shown_again():
    views = [f"{KITCHEN}\na pot at {degrees} degrees" for degrees in range(9)]
    turns = [Turn(action="go", observation="You go.", seen=views[0])]
    for before, after in itertools.pairwise(views):
        turns.append(Turn(action="wait", observation="You wait.", seen=find_new_lines(before, after, "", ())))
    shown = format_view(views[-1], Runtime(context=Context()), turns=turns, profile=ModelProfile(128_000))
    assert views[-1] in shown

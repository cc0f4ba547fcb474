"""Tests of `adapters.matching`."""

from typing import ClassVar

import numpy as np
import pytest

from certigraph.adapters.encoders import find_encoder
from certigraph.adapters.matching import (
    MAX_ENCODED_ACTIONS,
    find_exact,
    matching_method,
    normalise_text,
    rank_actions,
    rank_meanings,
    select_actions,
    tokens,
)
from certigraph.state.defaults import MATCHING_ENCODER

ACTIONS = [
    "focus on thermometer",
    "go to kitchen",
    "look around",
    "look at thermometer",
    "move metal pot to stove",
    "move stove to metal pot",
    "move thermometer to blue box",
    "move thermometer to red box",
    "open door to kitchen",
    "pick up metal pot",
    "pick up thermometer",
    "activate stove",
]
SYNONYMS = {"take": "pick up", "put": "move", "put down": "drop", "turn on": "activate"}


class TopicEncoder:
    """Vectors of three topics, so that a test knows the cosine beforehand."""

    name = "topics"
    TOPICS = (("heat", "activate"), ("red",), ("look",))

    def __init__(self):
        self.batches = []

    def encode(self, texts):

        self.batches.append(list(texts))
        raw = np.array([[0.01 + any(word in text for word in topic) for topic in self.TOPICS] for text in texts])
        return (raw / np.linalg.norm(raw, axis=1, keepdims=True)).astype(np.float32)


def best(text, actions=ACTIONS, **options):
    return rank_actions(text, actions, **options)[0].action


@pytest.mark.parametrize("text", ["pick up thermometer", "  PICK  up\tthermometer. ", '"Pick up thermometer"'])
def test_the_text_itself_comes_first_with_score_one(text):
    for source in (None, TopicEncoder()):
        first, second = rank_actions(text, ACTIONS, encoder=source)[:2]
        assert first == ("pick up thermometer", 1.0)
        assert second.action != first.action


def test_the_encoder_cannot_outrank_the_text_itself():
    assert best("look at thermometer", ["red", "look at thermometer"], encoder=TopicEncoder()) == "look at thermometer"


def test_words_match_whatever_their_form_article_and_case():
    assert best("Picking up the thermometers") == "pick up thermometer"
    assert best("Moved the thermometer into a red box") == "move thermometer to red box"
    assert rank_actions("quux", ACTIONS)[0].score == 0


@pytest.mark.parametrize(
    "forms",
    [
        "focus focuses focused focusing",
        "put puts putting",
        "move moves moved moving",
        "use uses used using",
        "fill fills filled filling",
        "box boxes",
        "battery batteries",
        "seed seeds",
        "glass glasses",
        "freeze freezing",
    ],
)
def test_the_forms_of_a_word_are_one_token(forms):
    assert len(tokens(forms)) == 1


def test_words_that_only_look_like_forms_stay_apart():
    assert len(tokens("red re thing th string str pot pit bus bu")) == 10


def test_the_order_of_the_words_decides_between_equal_ones():
    assert best("move the metal pot to the stove") == "move metal pot to stove"
    assert best("move the stove to the metal pot") == "move stove to metal pot"


class TestFocus:
    def test_only_a_text_that_speaks_of_focus_gets_focus_actions(self):
        assert [m.action for m in rank_actions("I am focusing on the pot", ACTIONS)] == ["focus on thermometer"]
        assert "focus on thermometer" not in [m.action for m in rank_actions("the thermometer", ACTIONS)]
        assert rank_actions("focus on pot", ["open door to kitchen"]) == []

    def test_the_rule_can_be_left_out(self):
        actions = [m.action for m in rank_actions("the thermometer", ACTIONS, focus_rule=False)]
        assert "focus on thermometer" in actions and len(actions) == len(ACTIONS)


class TestSynonyms:
    def test_the_opening_phrase_is_worded_as_in_the_world(self):
        assert rank_actions("Take thermometer", ACTIONS, synonyms=SYNONYMS)[0] == ("pick up thermometer", 1.0)
        assert best("I will now put the thermometer in the blue box", synonyms=SYNONYMS) == ACTIONS[6]

    def test_the_longest_phrase_wins_and_only_at_the_beginning(self):
        assert normalise_text("put down pot", SYNONYMS) == "drop pot"
        assert normalise_text("puts pot", SYNONYMS) == "puts pot"
        assert normalise_text("open take away", SYNONYMS) == "open take away"


class TestWithAnEncoder:
    def test_it_ranks_what_the_words_cannot(self):
        assert best("heat the stove", ["open stove", "activate stove"]) == "open stove"
        assert best("heat the stove", ["open stove", "activate stove"], encoder=TopicEncoder()) == "activate stove"

    def test_it_sees_the_actions_that_share_most_words(self):
        source = TopicEncoder()
        many = [f"go to room {n}" for n in range(3 * MAX_ENCODED_ACTIONS)]
        matches = rank_actions(
            "heat the stove", [*many, "activate stove"], encoder=source, most=MAX_ENCODED_ACTIONS + 5
        )
        assert len(source.batches[0]) == MAX_ENCODED_ACTIONS + 1 and len(matches) == MAX_ENCODED_ACTIONS
        assert matches[0].action == "activate stove"

    def test_no_actions_are_not_work(self):
        source = TopicEncoder()
        assert rank_actions("heat", [], encoder=source) == [] == select_actions(["heat"], [], encoder=source)
        assert source.batches == []


@pytest.mark.parametrize("source", [None, TopicEncoder()], ids=["words", "vectors"])
def test_the_order_of_the_actions_changes_nothing(source):
    text = "the thermometer is in the red box"
    assert rank_actions(text, ACTIONS, encoder=source) == rank_actions(text, ACTIONS[::-1], encoder=source)
    assert select_actions([text, "go"], ACTIONS, encoder=source) == select_actions(
        [text, "go"], ACTIONS[::-1], encoder=source
    )


def test_ties_go_to_the_shorter_action_then_by_the_alphabet():
    assert [m.action for m in rank_actions("cup", ["eat bb", "eat c", "eat aa"])] == ["eat c", "eat aa", "eat bb"]


class TestShortlist:
    def test_every_query_has_its_turn(self):
        found = select_actions(["the thermometer is held", "the agent is in the kitchen"], ACTIONS, most=4)
        assert {"thermometer" in action for action in found} == {True, False}
        assert any("kitchen" in action for action in found)

    def test_many_likenesses_of_one_verb_do_not_displace_others(self):
        moves = [f"move thermometer to box {n}" for n in range(50)]
        found = select_actions(["move thermometer to box"], [*moves, *ACTIONS], most=8)
        assert len({action.split()[0] for action in found}) >= 4
        assert len(found) == len(set(found)) == 8

    def test_it_keeps_focus_actions(self):
        assert "focus on thermometer" in select_actions(["the thermometer"], ACTIONS)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("text", "meant", "other"),
    [
        ("grab the cup", "pick up cup", "eat cup"),
        ("leave the kitchen", "exit kitchen", "eat kitchen"),
        ("heat the pot", "put pot on stove", "eat pot"),
    ],
)
def test_minilm_finds_what_shares_no_verb(text, meant, other):
    found = find_encoder(MATCHING_ENCODER)
    assert found is not None and matching_method(found) == "all-MiniLM-L6-v2-int8"
    assert best(text, [meant, other], encoder=found) == meant
    assert best(text, [meant, other]) == other


class TestMeanings:
    """What a written action may mean, by the things that it names."""

    SHOWN: ClassVar = {"substance in metal pot": "water", "substance in jug": "salt"}
    LISTED = (
        *ACTIONS,
        "focus on substance in metal pot",
        "focus on substance in jug",
        "pour substance in jug into sink",
    )

    @pytest.mark.parametrize(
        ("text", "action"),
        [
            ("Focus on the water.", "focus on substance in metal pot"),
            ("focus on water in metal pot", "focus on substance in metal pot"),
            ("pour the salt into the sink", "pour substance in jug into sink"),
            ("take the thermometer", "pick up thermometer"),
            ("focus on sugar", None),
            ("pick up", None),
        ],
    )
    def test_an_action_is_named_exactly_in_the_worlds_words_or_in_those_of_its_view(self, text, action):
        assert find_exact(text, self.LISTED, shown=self.SHOWN, synonyms=SYNONYMS) == action

    def test_the_name_of_two_things_is_not_exact(self):
        shown = dict.fromkeys(self.SHOWN, "water")
        assert find_exact("focus on water", self.LISTED, shown=shown) is None
        assert rank_meanings("focus on water", self.LISTED, shown=shown) == [
            "focus on substance in metal pot", "focus on substance in jug",
        ]  # fmt: skip

    def test_a_last_letter_is_part_of_a_name(self):
        listed = ["focus on unknown substance a", "focus on unknown substance"]
        assert find_exact("focus on the unknown substance A", listed) == listed[0]
        assert find_exact("focus on an unknown substance", listed) == listed[1]

    def test_things_come_before_verbs_and_what_the_view_shows_counts(self):
        assert rank_meanings("heat salt", self.LISTED, shown=self.SHOWN, most=1) == ["pour substance in jug into sink"]

    def test_another_thing_is_not_a_meaning_of_a_focus(self):
        assert rank_meanings("focus on sugar", self.LISTED, shown=self.SHOWN) == []

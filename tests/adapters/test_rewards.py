"""Tests of `adapters.rewards`."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pytest import approx, mark

from certigraph.adapters.rewards import factors_of, require_factors, route_reward, worlds_with_factors
from certigraph.nodes.rewards import truncate_reward
from certigraph.state.endings import Fault
from certigraph.state.records import Task
from certigraph.state.rewards import Entity, FactoredState, coarsen, to_factored, to_raw

# Which worlds are read by rules: by the benchmark or the recording's domain, whatever its configuration.


@pytest.mark.parametrize("world", worlds_with_factors())
def test_every_configuration_of_a_world_is_read_by_its_rules(world):
    plain, configured = (factors_of(Task(benchmark=name, id="x")) for name in (world, f"{world}:drafted"))
    recorded = factors_of(Task(benchmark="rewardprediction", id="x", constants={"domain": world}))
    assert plain is not None
    assert type(plain) is type(configured) is type(recorded)


def test_other_worlds_are_read_by_a_model():
    task = Task(benchmark="hotpotqa:corpus", id="x")
    assert factors_of(task) is None
    with pytest.raises(Fault, match=r"reads hotpotqa: use extract=prompted_state, or .*blocksworld"):
        require_factors(task)


COSINES = {("apple", "apple 3"): 0.8, ("apple", "pear"): 0.5, ("place", "location"): 0.9, ("fridge", "table"): 0.4}
"""Of the texts that are neither equal nor unrelated."""


def encode(texts):
    """Vectors whose dot products are COSINES: each pair has two axes of its own, and each text one."""
    import numpy as np

    known = sorted({*texts, *(text for pair in COSINES for text in pair)})
    gram = np.eye(len(known), dtype=np.float64)
    for (one, other), cosine in COSINES.items():
        a, b = known.index(one), known.index(other)
        gram[a, b] = gram[b, a] = cosine
    values, vectors = np.linalg.eigh(gram)
    rooted = vectors * np.sqrt(np.clip(values, 0, None))
    return rooted[[known.index(text) for text in texts]].astype(np.float32)


def reward(goal, state):
    return route_reward(to_factored(goal), to_factored(state), encode).reward


class TestByHand:
    def test_identity_times_mean_attribute(self):
        goal = {"apple": {"place": "fridge", "heat": "warm"}}
        state = {"apple 3": {"location": "table", "heat": "warm"}, "pear": {"location": "fridge", "heat": "warm"}}
        # apple 3: 0.8 x (0.4 + 1) / 2 = 0.56; pear: 0.5 x (1 + 1) / 2 = 0.5
        found = route_reward(to_factored(goal), to_factored(state), encode)
        assert found.reward == approx(0.56, abs=1e-5)
        assert [(match.wanted, match.found) for match in found.matches] == [("apple", "apple 3")]

    @mark.parametrize(
        ("goal", "state", "worth"),
        [
            ({"apple": {"place": "fridge"}}, {"apple 3": {"location": "table"}, "pear": {"location": "fridge"}}, 0.5),
            ({"apple": {"place": "fridge"}}, {"apple": {"location": "table", "colour": "fridge"}}, 0.4),
            # neither name is like "place": the first one counts
            ({"apple": {"place": "fridge"}}, {"apple": {"above": "fridge", "below": "table"}}, 1.0),
            ({"apple": {"place": "fridge"}}, {"apple": {"above": "table", "below": "fridge"}}, 0.4),
            ({"apple": {}}, {"apple 3": {"location": "table"}, "pear": {}}, 0.8),
            ({"apple": {"place": "fridge"}}, {"apple": {}}, 0.0),
            ({"apple": {}, "lamp": {}}, {"apple 3": {}}, 0.4),
            *((goal, state, 0.0) for goal, state in (({}, {"apple": {}}), ({"apple": {}}, {}), ({}, {}))),
        ],
    )
    def test_names_times_values_of_the_most_similar_names_on_average_over_the_goal(self, goal, state, worth):
        assert route_reward(to_factored(goal), to_factored(state), encode).reward == approx(worth, abs=1e-5)

    def test_what_is_opposite_counts_as_unlike(self):
        def opposite(texts):
            import numpy as np

            return np.array([[1.0 if text == "apple" else -1.0] for text in texts], dtype=np.float32)

        assert route_reward(to_factored({"apple": {}}), to_factored({"pear": {}}), opposite).reward == 0.0

    @mark.parametrize(("whole", "cut"), [(0.5666, 0.56), (0.29, 0.29), (0.9999999, 1.0), (1.0, 1.0), (0.019, 0.01)])
    def test_rewards_are_cut_off_not_rounded(self, whole, cut):
        assert truncate_reward(whole, 2) == cut


def random_vectors(texts):
    import numpy as np

    rows = [np.random.default_rng(sum(map(ord, text))).normal(size=6) for text in texts]
    return np.array([row / np.linalg.norm(row) for row in rows], dtype=np.float32)


WORDS = st.sampled_from(["a", "bb", "ccc", "dd d", "e", "ff", "g"])
STATES = st.dictionaries(WORDS, st.dictionaries(WORDS, WORDS, max_size=3), max_size=5).map(to_factored)


class TestProperties:
    @pytest.mark.slow
    @given(STATES, STATES)
    @settings(max_examples=60, deadline=None)
    def test_rewards_are_in_the_unit_interval(self, goal, state):
        assert 0.0 <= route_reward(goal, state, random_vectors).reward <= 1.0

    @pytest.mark.slow
    @given(STATES.filter(lambda state: state.entities))
    @settings(max_examples=60, deadline=None)
    def test_a_state_fulfils_itself(self, state):
        assert route_reward(state, state, random_vectors).reward == approx(1.0, abs=1e-5)

    @pytest.mark.slow
    @given(STATES, STATES, STATES)
    @settings(max_examples=60, deadline=None)
    def test_more_objects_never_lower_it(self, goal, state, more):
        new = [entity for entity in more.entities if state.get(entity.identity) is None]
        larger = FactoredState(entities=(*state.entities, *new))
        assert (
            route_reward(goal, larger, random_vectors).reward >= route_reward(goal, state, random_vectors).reward - 1e-6
        )


def test_all_texts_are_encoded_by_one_call_and_each_once_a_side():
    calls = []

    def counting(texts):
        calls.append(list(texts))
        return encode(texts)

    state = to_factored({f"thing {n}": {"location": "table"} for n in range(5)})
    route_reward(to_factored({"apple": {"place": "fridge"}}), state, counting)
    assert len(calls) == 1 and len(calls[0]) == len(set(calls[0]))


def test_coarser_states_tell_the_same_facts_in_one_order():
    goal = to_factored({"apple 3": {"location": "fridge"}})
    state = to_factored({"cup 1": {"location": "shelf"}, "apple 3": {"state": "hot", "location": "table"}})
    assert coarsen(state, "textual", goal) == to_factored({"apple 3: state hot. apple 3: location table": {}})
    described = coarsen(state, "object", goal).get("apple 3")
    assert described == Entity(identity="apple 3", attributes={"description": "location table; state hot"})
    assert coarsen(state, "attribute", goal) == state


def test_flat_text_tells_everything_where_nothing_of_the_goal_is_known():
    state = to_factored({"cup 1": {}})
    assert coarsen(state, "textual", to_factored({"apple": {}})) == to_factored({"cup 1": {}})


def test_blank_text_is_not_a_state():
    assert to_raw("  \n") == FactoredState() and route_reward(to_raw("apple"), to_raw("pear"), encode).reward == approx(
        0.5, abs=1e-5
    )

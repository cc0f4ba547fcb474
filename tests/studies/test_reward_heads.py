"""Tests of `studies.reward_heads`."""

import numpy as np
import pytest

from certigraph.state.endings import Fault
from certigraph.studies.reward_heads import MAX_PAIRS_PER_TASK, PrefixSample, ranked_pairs


def test_better_prefixes_stand_first_and_equal_ones_are_not_ranked():
    sample = PrefixSample("lamps/0", "lamps", None, (0.5, 1.0, 0.0, 0.0))
    assert sorted(ranked_pairs(sample, 0)) == [(0, 2), (0, 3), (1, 0), (1, 2), (1, 3)]
    long = PrefixSample("lamps/0", "lamps", None, tuple(n / 40 for n in range(40)))
    assert len(set(ranked_pairs(long, 0))) == MAX_PAIRS_PER_TASK and ranked_pairs(long, 0) == ranked_pairs(
        long, 0
    ) != ranked_pairs(long, 1)
    assert ranked_pairs(PrefixSample("x", "lamps", None, (0.0, 0.0)), 0) == []


@pytest.mark.slow
class TestTraining:
    def samples(self, tasks=20):
        draw = np.random.default_rng(0)
        made = []
        for number in range(tasks):
            rewards = np.concatenate([np.linspace(0.1, 1, 10), np.zeros(10)])
            noise = draw.normal(size=(20, 12))
            noise[:, 0] = rewards * 3 + draw.normal(size=20) * 0.1
            made.append(PrefixSample(f"lamps/{number}", "lamps", noise.astype(np.float16), tuple(rewards)))
        return made

    def test_heads_rank_tasks_that_they_did_not_see_and_are_the_same_again(self):
        from certigraph.studies.reward_heads import mean_epic_distance, measure_transfer, train_heads

        found = self.samples()
        heads = train_heads(found, "letters", folds=4, progress=lambda line: None)
        assert mean_epic_distance(found, heads) < 0.35 and heads.card.domains == ("lamps",)
        again = train_heads(found, "letters", folds=4, progress=lambda line: None)
        np.testing.assert_array_equal(heads.heads[0].hidden, again.heads[0].hidden)
        assert measure_transfer(found, "letters", folds=4).distances == ((mean_epic_distance(found, heads),),)

    def test_a_head_is_not_trained_on_the_tasks_of_its_fold(self, monkeypatch):
        from certigraph.adapters.rewards import fold_of
        from certigraph.studies import reward_heads

        seen = []
        real = reward_heads.train_head
        monkeypatch.setattr(
            reward_heads, "train_head", lambda samples, seed: seen.append(samples) or real(samples, seed)
        )
        reward_heads.train_heads(self.samples(), "letters", folds=3, progress=lambda line: None)
        for fold, samples in enumerate(seen):
            assert samples and all(fold_of(one.task, 3) != fold for one in samples)

    @pytest.mark.parametrize("samples", [[], [PrefixSample("a", "lamps", np.ones((2, 3), np.float16), (0.0, 0.0))] * 3])
    def test_what_ranks_nothing_trains_nothing(self, samples):
        from certigraph.studies.reward_heads import train_head

        with pytest.raises(Fault, match="not enough for a reward head"):
            train_head(samples, 0)

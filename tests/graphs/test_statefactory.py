"""Tests of `graphs.statefactory`."""

import json

import numpy as np
import pytest

from certigraph.adapters.models.scripts import ScriptedChat
from certigraph.adapters.protocols import Context
from certigraph.adapters.rewards import Head, Heads, HeadsMetadata, fold_of, load_heads, prefix_features, save_heads
from certigraph.graphs import monotonic, reward_head, reward_judge
from certigraph.nodes import rewards as supervised_node
from certigraph.nodes.rewards import (
    constant,
    judge_reward,
    supervised,
)
from certigraph.state.endings import Fault, UnknownName
from certigraph.state.records import Task
from certigraph.state.rewards import DOMAIN, RECORDINGS, RecordedStep, group_by_recording

STEPS = [
    [{"action": "open the fridge", "observation": "It is open."}, {"action": "", "observation": "You see milk."}],
    [{"action": "wait", "observation": "Nothing happens."}] * 4,
]


def task(recordings=None, goal="put the milk on the table"):
    fields = {DOMAIN: "kitchen", RECORDINGS: STEPS if recordings is None else recordings}
    return Task(benchmark="rewardprediction", id="kitchen/1", goal=goal, constants=fields)


def rewards(graph, chat=None, given=None):
    final = graph.invoke({"task": given or task()}, context=Context(chat=chat))
    return group_by_recording(final["rewards"])


def test_the_monotonic_baseline_grows_evenly_along_each_recording():
    assert rewards(monotonic.graph) == [[0.5, 1.0], [0.25, 0.5, 0.75, 1.0]]


def test_a_constant_prediction_is_one():
    assert rewards(monotonic.build(rate=constant)) == [[0.5, 0.5], [0.5, 0.5, 0.5, 0.5]]


@pytest.mark.parametrize("recordings", [None, [], [[]], [[], [{"observation": "o"}]], [[{"action": "a"}]], "a, b"])
def test_a_task_without_recordings_is_refused_with_how_to_get_some(recordings):
    given = Task(benchmark="rewardprediction", id="x", goal="g", constants={RECORDINGS: recordings})
    with pytest.raises(Fault, match="has no trajectory"):
        rewards(monotonic.graph, given=given)


def test_an_empty_goal_is_reported():
    with pytest.raises(Fault, match="task kitchen/1 has an empty goal"):
        rewards(monotonic.graph, given=task(goal=" \n"))
    with pytest.raises(UnknownName, match=r"no task 'kitchen/1'.*a task of your own needs a goal"):
        rewards(monotonic.graph, given=task(goal=""))


class Judge:
    """Remembers what it was asked; its rewards are tenths."""

    def __init__(self):
        self.requests = []

    def __call__(self, prompt, schema):
        self.requests.append((prompt, schema))
        answer = {"reward": len(self.requests) / 10, "analysis": "so far", "belief": f"belief {len(self.requests)}"}
        return {name: answer[name] for name in schema["properties"]}


def judged(**kind):
    judge = Judge()
    found = rewards(reward_judge.build(rate=judge_reward(**kind)), ScriptedChat(responder=judge))
    assert found == [[0.1, 0.2], [0.3, 0.4, 0.5, 0.6]]
    return [prompt for prompt, _ in judge.requests], judge.requests[0][1]


class TestJudge:
    def test_without_a_state_it_reads_the_whole_trajectory_and_nothing_to_come(self):
        prompts, schema = judged()
        assert list(schema["properties"]) == ["reward"]
        assert "open the fridge" in prompts[1] and "You see milk." in prompts[1] and "put the milk" in prompts[1]
        assert "You see milk." not in prompts[0] and "fridge" not in prompts[2]

    def test_with_a_state_it_reads_its_belief_and_the_newest_step(self):
        prompts, schema = judged(stateful=True)
        assert list(schema["properties"]) == ["belief", "reward"]
        assert "belief 1" in prompts[1] and "open the fridge" not in prompts[1]
        assert "belief" not in prompts[2].partition("Your belief so far")[2]  # another trajectory begins

    LONG = tuple({"action": f"act {n}", "observation": f"{n}:" + "x" * 3_000} for n in range(40))

    def prompts(self, steps, **settings):
        calls = []

        def judge(prompt, schema):
            calls.append(prompt)
            return {"reward": 0.5}

        chat = ScriptedChat(responder=judge)
        chat.profile = {"max_input_tokens": settings.pop("window", 200_000)}
        graph = reward_judge.build()
        graph.invoke({"task": task([list(steps)])}, context=Context(chat=chat, **settings))
        return calls

    def test_what_does_not_fit_into_the_window_is_left_out_oldest_first(self):
        last = self.prompts(self.LONG, window=20_000)[-1]
        assert "act 39\n" in last and "act 0\n" not in last and "are left out" in last

    def test_a_long_belief_fits_into_a_small_window(self):
        def rambling(prompt, schema):
            prompts.append(prompt)
            return {"belief": "y" * 50_000, "reward": 1.0}

        prompts = []
        graph = reward_judge.build(rate=judge_reward(stateful=True))
        graph.invoke({"task": task()}, context=Context(chat=ScriptedChat(responder=rambling), window=4_096))
        assert "yyy" in prompts[-1] and max(map(len, prompts)) < 3.6 * 3_072

    def test_a_reward_outside_the_unit_interval_is_requested_again(self):
        chat = ScriptedChat(replies=(json.dumps({"reward": 7}), *[json.dumps({"reward": 0.7})] * 6))
        assert rewards(reward_judge.graph, chat)[0] == [0.7, 0.7]


class Encoder:
    """Texts as their counts of four letters, of length one."""

    name = "letters"

    def encode(self, texts):
        rows = np.array([[text.count(letter) + 0.1 for letter in "aeio"] for text in texts], dtype=np.float32)
        return rows / np.linalg.norm(rows, axis=1, keepdims=True)

    encode_once = encode


SEEN = [
    RecordedStep(action="open", observation="air"),
    RecordedStep(observation="oil"),
    RecordedStep(action="eat", observation="egg"),
]


def heads(folds=3):
    width = prefix_features("goal", SEEN, Encoder()).shape[1]
    made = [
        Head(
            mean=np.zeros(width, np.float32),
            spread=np.ones(width, np.float32),
            hidden=np.full((width, 2), 0.1, np.float32),
            hidden_bias=np.zeros(2, np.float32),
            out=np.array([fold, 1.0], np.float32),
            scale=np.array([0.0, 1.0], np.float32),
        )
        for fold in range(folds)
    ]
    return Heads(HeadsMetadata(encoder="letters", domains=("kitchen",), folds=folds, tasks=9, seed=0), tuple(made))


class TestHeads:
    def test_a_prefix_has_the_same_features_whatever_follows(self):
        whole = prefix_features("a goal", SEEN, Encoder())
        for count in (1, 2, 3):
            np.testing.assert_allclose(prefix_features("a goal", SEEN[:count], Encoder()), whole[:count], atol=1e-6)
        assert not np.allclose(prefix_features("another", SEEN, Encoder()), whole)

    def test_heads_are_as_they_were_saved(self, tmp_path):
        save_heads(tmp_path / "h.npz", heads())
        again = load_heads(tmp_path / "h.npz")
        features = prefix_features("a goal", SEEN, Encoder())
        assert again.card == heads().card
        for one, other in zip(again.heads, heads().heads, strict=True):
            np.testing.assert_array_equal(one.rewards(features), other.rewards(features))
            assert ((one.rewards(features) > 0) & (one.rewards(features) < 1)).all()

    @pytest.mark.parametrize("content", [None, b"", b"no archive", b"PK\x03\x04 cut off"])
    def test_what_is_not_a_file_of_heads_is_a_fault_with_the_command(self, tmp_path, content):
        if content is not None:
            (tmp_path / "h.npz").write_bytes(content)
        with pytest.raises(Fault, match="certigraph rewards train") as fault:
            load_heads(tmp_path / "h.npz")
        assert fault.value.ending == "error:model"

    def test_every_task_has_one_fold_and_all_folds_have_tasks(self):
        folds = [fold_of(f"kitchen/{n}", 5) for n in range(200)]
        assert set(folds) == set(range(5)) and folds == [fold_of(f"kitchen/{n}", 5) for n in range(200)]

    def test_the_graph_rates_each_step_by_the_head_of_the_tasks_fold(self, tmp_path, monkeypatch):
        monkeypatch.setattr(supervised_node, "load_encoder", lambda name: {"letters": Encoder()}[name])
        save_heads(tmp_path / "h.npz", heads())
        found = rewards(reward_head.build(rate=supervised(head=str(tmp_path / "h.npz"))))
        head = heads().heads[fold_of("kitchen/1", 3)]
        for ours, steps in zip(found, STEPS, strict=True):
            expected = head.rewards(prefix_features(task().goal, [RecordedStep(**step) for step in steps], Encoder()))
            assert ours == pytest.approx(expected.tolist(), abs=1e-6)

    def test_without_a_file_it_says_how_to_train_one(self):
        with pytest.raises(Fault, match="certigraph rewards train"):
            rewards(reward_head.graph)

"""Prompts that are collected from a run, and the part of them that a prefix cache can serve."""

import random
from itertools import takewhile
from pathlib import Path

import pytest

import certigraph
from certigraph.adapters.models.profiles import estimate_tokens
from certigraph.runtime.prompts import CollectedPrompts, SentPrompt, collect_prompts, group_prompts


def collect(graph: str, world: str, task: str, **options: object) -> CollectedPrompts:
    return collect_prompts(graph, certigraph.load_benchmark(world), task, **options)  # type: ignore[arg-type]


def sent(user: str, node: str = "decide", form: str = "choice") -> SentPrompt:
    return SentPrompt(node, "executor", form, "rules", user, None)


def shared(one: str, other: str) -> int:
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False)))


@pytest.mark.slow
def test_every_request_of_a_run_is_collected_with_its_role(tmp_path: Path):
    collected = collect("sdp", "blocksworld", "6-2")
    result = certigraph.run(
        "sdp", "blocksworld", "6-2", context=certigraph.Context(model="scripted:expert"), out=tmp_path
    )
    calls = [call for event in result.trajectory.events for call in event.calls]
    assert [(p.role, p.form) for p in collected.sent] == [(c["role"], c["schema_name"]) for c in calls]
    assert (collected.ending, collected.steps) == ("goal", 8)
    assert all(p.system and p.user and p.schema for p in collected.sent)


def test_requests_inside_a_graph_that_solves_a_sub_task_name_both_nodes():
    nodes = {prompt.node for prompt in collect("tdp", "blocksworld", "4-0").sent}
    assert {"decompose", "solve/execute", "solve/supervise"} <= nodes


def test_a_world_without_an_expert_is_played_by_a_simulated_agent():
    class Mute(certigraph.Environment):
        def reset(self) -> certigraph.Observation:
            return certigraph.Observation(text="start")

        def step(self, action: certigraph.Action) -> certigraph.Observation:
            return certigraph.Observation(text="end", done=True)

        def score(self) -> certigraph.Scores:
            return certigraph.Scores(value=0.0)

    class Mutes(certigraph.Benchmark):
        name = "mute"

        def tasks(self, split: str = "") -> list[certigraph.Task]:
            return [certigraph.Task(benchmark="mute", id="1", goal="say nothing")]

        def open(self, task: certigraph.Task) -> certigraph.Environment:
            return Mute()

    collected = collect_prompts("react", Mutes())
    assert collected.model == "simulated"
    assert "say nothing" in collected.sent[0].user


def test_a_maximum_of_steps_ends_the_run_and_changes_no_prompt():
    whole, part = collect("react", "blocksworld", "6-2"), collect("react", "blocksworld", "6-2", steps=3)
    assert part.ending == "limit:steps"
    assert part.sent == whole.sent[:3]


@pytest.mark.slow
def test_the_window_decides_what_is_left_out():
    full = collect("react", "blocksworld", "6-2")
    narrow = collect("react", "blocksworld", "6-2", window=1_500)
    assert (full.window, narrow.window) == (128_000, 1_500)
    first_action = full.sent[1].user.partition("Action: ")[2].splitlines()[0]
    assert first_action in full.sent[-1].user
    assert first_action not in narrow.sent[-1].user.partition("The world now")[0]
    assert max(p.tokens for p in narrow.sent) <= 1_125 < max(p.tokens for p in full.sent)


def test_only_scripts_can_answer():
    with pytest.raises(certigraph.UnknownName, match="openai:gpt-4o"):
        collect("react", "blocksworld", "6-2", model="openai:gpt-4o")


def test_prefix_share_compares_with_the_earlier_request_that_shares_most():
    head = "rules\n\n"
    (kind,) = group_prompts([sent("aaaa"), sent("zzzz"), sent("aaab")])
    assert kind.shared == (len(head), len(head) + 3)
    lengths = [len(head) + 4] * 2
    assert kind.prefix_share == sum(kind.shared) / sum(lengths)


def test_kinds_differ_by_node_and_answer_and_one_request_has_no_share():
    kinds = group_prompts([sent("a"), sent("a", node="plan"), sent("a", form="text"), sent("ab")])
    assert [(kind.node, kind.form, len(kind.prompts)) for kind in kinds] == [
        ("decide", "choice", 2),
        ("plan", "choice", 1),
        ("decide", "text", 1),
    ]
    assert [kind.prefix_share for kind in kinds[1:]] == [None, None]
    assert kinds[0].latest.user == "ab"
    assert kinds[0].mean_tokens == (estimate_tokens("rules\n\na") + estimate_tokens("rules\n\nab")) / 2


def test_shared_prefixes_equal_those_found_by_comparing_all_pairs():
    draw = random.Random(3)
    texts = ["".join(draw.choices("ab", k=draw.randint(0, 12))) for _ in range(120)]
    (kind,) = group_prompts([sent(text) for text in texts])
    whole = [sent(text).text for text in texts]
    expected = [max(shared(one, two) for two in whole[:n]) for n, one in enumerate(whole) if n]
    assert list(kind.shared) == expected

"""The command `prompts`: texts, table and JSON."""

import json

import pytest

from certigraph import cli


def call(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as stop:
        cli.main(["prompts", *arguments])
    out, err = capsys.readouterr()
    return int(stop.value.code or 0), out, err


def test_texts_show_both_parts_the_answer_and_the_tokens_of_each_kind(capsys: pytest.CaptureFixture[str]):
    status, out, _ = call(capsys, "sdp:paper", "blocksworld", "--task", "6-2")
    assert status == 0
    for node in ("propose", "realize", "validate"):
        (part,) = [part for part in out.split("=====") if part.startswith(f" {node},")]
        assert [mark in part for mark in ("----- system", "----- user", "----- schema", " tokens")] == [True] * 4
    assert '"choice"' in out
    assert "the orange block is on top of the yellow block" in out


@pytest.mark.slow
def test_one_role_only(capsys: pytest.CaptureFixture[str]):
    _, out, _ = call(capsys, "sdp:paper", "blocksworld", "--task", "6-2", "--role", "validator", "--json")
    assert [request["role"] for request in json.loads(out)["requests"]] == ["validator"]
    status, _, err = call(capsys, "sdp", "blocksworld", "--role", "captain")
    assert status == 2
    assert "planner" in err


@pytest.mark.slow
def test_json_holds_the_prompt_and_its_figures(capsys: pytest.CaptureFixture[str]):
    _, out, _ = call(capsys, "react", "blocksworld", "--task", "6-2", "--steps", "4", "--json")
    found = json.loads(out)
    (request,) = found["requests"]
    assert (found["steps"], found["window"], request["requests"]) == (4, 128_000, 4)
    assert 0 < request["prefix_share"] < 1
    assert request["latest_tokens"] == request["longest_tokens"] >= request["mean_tokens"]
    assert request["schemas"] == 1
    assert request["schema"]["properties"]["choice"]["type"] == "string"
    assert "enum" not in request["schema"]["properties"]["choice"], "the options would differ from request to request"
    _, table, _ = call(capsys, "react", "blocksworld", "--task", "6-2", "--steps", "4", "--json", "--stable")
    assert "system" not in json.loads(table)["requests"][0]


@pytest.mark.slow
def test_a_run_that_fails_says_why_after_the_prompts_that_it_sent(capsys: pytest.CaptureFixture[str]):
    status, out, err = call(capsys, "reward_head", "rewardprediction", "--stable")
    assert status == 1
    assert "0 requests" in out
    assert "error:model" in err

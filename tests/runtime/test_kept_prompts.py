"""Prompts and replies that a run keeps: what is in the file, after a kill too, and in the report."""

import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from helpers.files.installed_package import INSTALLED
from helpers.sample_runs.killed_runs import Case, carry, carry_until_killed, run_folder
from helpers.servers.endpoint_stub import Stub, stub
from helpers.servers.misbehaving_endpoint import misbehaving_endpoint
from helpers.worlds.study_world import Riddles
from langchain_core.language_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, HumanMessage

from certigraph import cli
from certigraph.adapters.models.exchanges import Exchange, use_exchange_log
from certigraph.adapters.models.scripts import ScriptedChat
from certigraph.adapters.models.usage import Call, Meter, metering
from certigraph.adapters.protocols import Budget, Context, Limits
from certigraph.adapters.trajectories import read_trajectory
from certigraph.runtime.recorder import PromptRecorder
from certigraph.runtime.report import write_report
from certigraph.runtime.result import Result
from certigraph.runtime.run import resume, run
from certigraph.state.endings import Fault
from certigraph.state.trajectory import Trajectory

FEW = Context(model="openai:m", limits=Limits(steps=1), budget=Budget(calls=6))
CHOICE = json.dumps({"thought": "why not", "choice": "pick up the red block"})


@pytest.fixture
def endpoint(monkeypatch: pytest.MonkeyPatch) -> Iterator[Stub]:
    with stub(CHOICE) as server:
        monkeypatch.setenv("CERTIGRAPH_BASE_URL", server.url)
        yield server


def kept(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "prompts.jsonl").read_text().splitlines()]


def named(trajectory: Trajectory) -> list[int]:
    """The lines that the calls of a trajectory name."""
    events = sorted([*trajectory.events, *trajectory.superseded], key=lambda event: event.prompts)
    return [number for event in events for number in event.prompts]


def page(result: Result) -> str:
    return write_report(result.trajectory, result.folder / "report.html").read_text(encoding="utf-8")


# What is kept.


@pytest.mark.parametrize("refuses_schema", [False, True])
def test_what_the_endpoint_received_and_answered_is_kept_word_for_word(
    refuses_schema: bool, endpoint: Stub, tmp_path: Path
):
    endpoint.refuses_schema = refuses_schema
    endpoint.replies = ["no JSON", CHOICE]
    result = run("react", "blocksworld", "4-0", context=FEW, out=tmp_path, keep_prompts=True)
    lines = kept(result.folder)
    assert len(lines) == len(endpoint.requests) == result.usage.calls == 2 + refuses_schema
    for line, received in zip(lines, endpoint.requests, strict=True):
        assert line["request"]["messages"] == received["messages"]
        assert line["request"].get("response_format") == received.get("response_format")
    answered = [line for line in lines if line["response"]]
    assert [line["response"] for line in answered][:2] == ["no JSON", CHOICE]
    assert "no JSON" in answered[0]["call"]["failure"] and "failure" not in answered[1]["call"]


def test_a_request_that_fails_is_kept_with_its_failure(endpoint: Stub, tmp_path: Path):
    endpoint.status = 400
    result = run("react", "blocksworld", "6-2", context=FEW, out=tmp_path, keep_prompts=True, on_error="ignore")
    assert result.ending == "error:model"
    assert all(line["response"] == "" and "400" in line["call"]["failure"] for line in kept(result.folder))
    assert len(kept(result.folder)) == len(endpoint.requests) > 0


def test_each_call_names_its_line_of_scripted_models_too(tmp_path: Path):
    result = run("sdp:paper", "blocksworld", "4-0", out=tmp_path, keep_prompts=True)
    lines = kept(result.folder)
    assert [line["number"] for line in lines] == [*range(1, result.usage.calls + 1)] == named(result.trajectory)
    for event in result.trajectory.events:
        for number, call in zip(event.prompts, event.calls, strict=True):
            line = lines[number - 1]
            assert (line["node"], line["superstep"]) == (event.node, event.superstep)
            assert line["call"] == {key: value for key, value in call.items() if key != "prompt"}


@pytest.mark.slow
def test_cached_replies_are_kept(tmp_path: Path):
    context = Context(model="openai:m", cache=str(tmp_path / "cache"), limits=Limits(steps=1))
    with stub(CHOICE) as server, pytest.MonkeyPatch.context() as patch:
        patch.setenv("CERTIGRAPH_BASE_URL", server.url)
        first, again = (
            run("react", "blocksworld", "4-0", context=context, out=tmp_path, keep_prompts=True) for _ in "12"
        )
    [line], [cached] = kept(first.folder), kept(again.folder)
    assert (cached["request"], cached["response"]) == (line["request"], CHOICE)
    assert cached["call"]["cached"] is True


def test_calls_of_a_model_in_a_node_of_the_users_own_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.syspath_prepend(INSTALLED)
    from ownagents.graphs import chatting

    chat = GenericFakeChatModel(messages=iter([AIMessage("Silt"), AIMessage("Loam")]))
    result = run(chatting(chat, 2), Riddles(), "found", out=tmp_path, keep_prompts=True)
    assert [line["response"]["content"] for line in kept(result.folder)] == ["Silt", "Loam"]
    assert kept(result.folder)[0]["request"]["messages"][0]["role"] == "user"
    assert (named(result.trajectory), page(result).count("Silt") > 0) == ([1, 2], True)


def test_half_of_a_surrogate_pair_is_replaced_for_no_file_can_hold_it(tmp_path: Path):
    recorder = PromptRecorder(tmp_path / "prompts.jsonl")
    with use_exchange_log(recorder.keep), metering(Meter("talk", Budget())) as meter:
        call = Call(role="", model="m", schema_name="")
        meter.charge(call, Exchange([HumanMessage("half \ud800 a pair")], reply="\udfff"))
    [line] = kept(tmp_path)
    assert (line["request"]["messages"][0]["content"], line["response"]) == ("half \ufffd a pair", "\ufffd")
    assert [record.prompt for record in meter.records] == [1]


# Where it is kept.


def test_nothing_is_kept_by_default(tmp_path: Path):
    result = run("sdp:paper", "blocksworld", "4-0", out=tmp_path)
    assert not (result.folder / "prompts.jsonl").exists()
    assert "prompt" not in {key for event in result.trajectory.events for call in event.calls for key in call}
    assert "Prompt and reply" not in page(result) and "Other prompts" not in page(result)
    assert "--keep-prompts" in page(result)


SWEEP = "{benchmarks: [{name: blocksworld, limit: 1}], graphs: [react], model: simulated}"


@pytest.mark.slow
@pytest.mark.parametrize(
    "arguments",
    [
        ("eval", "sdp", "blocksworld", "--limit", "1"),
        ("compare", "react", "sdp", "--limit", "1"),
        ("ablate", "sdp", "blocksworld", "--limit", "1"),
        ("sweep", "sweep.yaml"),
        ("study", "cgdp", "--harness", "react", "--memory", "native", "--limit", "1"),
    ],
)
@pytest.mark.parametrize("keeps", [True, False])
def test_runs_of_many_keep_prompts_on_request(
    arguments: tuple[str, ...], keeps: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.delenv("CERTIGRAPH_DATA", raising=False)
    monkeypatch.chdir(tmp_path)
    Path("sweep.yaml").write_text(SWEEP)
    with pytest.raises(SystemExit):
        cli.main([*arguments, "--out", "out", "--json", *(["--keep-prompts"] if keeps else [])])
    folders = [path.parent for path in Path("out").rglob("trajectory.jsonl")]
    assert folders and {(folder / "prompts.jsonl").is_file() for folder in folders} == {keeps}


@pytest.mark.slow
@pytest.mark.parametrize("again", [("compare", "react"), ("compare",), ("compare", "react", "--keep-prompts")])
@pytest.mark.parametrize("keeps", [True, False])
def test_a_comparison_that_goes_on_keeps_prompts_if_it_did_or_shall(
    again: tuple[str, ...], keeps: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.delenv("CERTIGRAPH_DATA", raising=False)
    choice = ["--limit", "2", "--out", str(tmp_path), "--json"]
    with pytest.raises(SystemExit):
        cli.main(["compare", "react", *choice, *(["--keep-prompts"] if keeps else [])])
    shutil.rmtree(next(tmp_path.rglob("trajectory.jsonl")).parent)
    with pytest.raises(SystemExit):
        cli.main([*again, *(choice if "react" in again else choice[2:])])
    assert len([*tmp_path.rglob("trajectory.jsonl")]) == 2
    expected = (2 if keeps else 0) or ("--keep-prompts" in again)
    assert len([*tmp_path.rglob("prompts.jsonl")]) == expected


# Resuming.


def stop_early(out: Path, *, keeps: bool) -> Result:
    stopped = run(
        "sdp:paper", "blocksworld", "4-0", context=Context(limits=Limits(steps=2)), out=out, keep_prompts=keeps
    )
    assert stopped.ending == "limit:steps"
    return stopped


@pytest.mark.slow
@pytest.mark.parametrize("keeps", [True, False])
def test_a_resumed_run_keeps_prompts_if_the_run_did(keeps: bool, tmp_path: Path):
    stopped = stop_early(tmp_path, keeps=keeps)
    result = resume(stopped.folder, limits=Limits(steps=60))
    assert result.ending == "goal" and result.usage.calls > stopped.usage.calls > 2
    assert named(result.trajectory) == ([*range(1, result.usage.calls + 1)] if keeps else [])
    assert (result.folder / "prompts.jsonl").is_file() is keeps


def test_a_line_that_was_not_written_completely_is_dropped(tmp_path: Path):
    stopped = stop_early(tmp_path, keeps=True)
    whole, path = kept(stopped.folder), stopped.folder / "prompts.jsonl"
    with path.open("a") as file:
        file.write('{"number": 99, "node": "rea')
    assert page(stopped).count('<details class="prompt">') == len(whole)
    lines = kept(resume(stopped.folder, limits=Limits(steps=60)).folder)
    assert lines[: len(whole)] == whole and len(lines) > len(whole)
    assert [line["number"] for line in lines] == [*range(1, len(lines) + 1)]


@pytest.mark.slow
def test_after_kills_every_call_names_the_line_with_its_prompt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("CERTIGRAPH_DATA", raising=False)
    case = Case("sdp:paper", "blocksworld", "4-0", calls=40, keep_prompts=True)
    with misbehaving_endpoint(delay=0.03) as server:
        for _ in range(3):
            assert carry_until_killed(case, server, tmp_path, server.count + 3)
        carry(case, server.url, tmp_path)
    folder = run_folder(tmp_path)
    assert folder
    trajectory, lines = read_trajectory(folder), kept(folder)
    assert trajectory.resumes == 3
    assert [line["number"] for line in lines] == [*range(1, len(lines) + 1)]
    calls = [call for event in [*trajectory.events, *trajectory.superseded] for call in event.calls if "prompt" in call]
    assert len({call["prompt"] for call in calls}) == len(calls) > 6
    for call in calls:
        assert lines[int(str(call["prompt"])) - 1]["call"]["id"] == call["id"]


# The report.


def test_a_report_shows_prompts_under_their_step_and_escapes_them(tmp_path: Path):
    evil = "<script>alert(1)</script>"

    def answer(prompt: str, schema: dict[str, Any]) -> Any:
        return {"thought": evil, "choice": schema["properties"]["choice"]["enum"][0]}

    context = Context(chat=ScriptedChat(responder=answer), limits=Limits(steps=2))
    html = page(run("react", "blocksworld", "4-0", context=context, out=tmp_path, keep_prompts=True))
    first, second = re.findall(r'<details class="turn.*?(?=<details class="turn|</section>)', html, re.DOTALL)
    for turn in (first, second):
        assert turn.count('<details class="prompt">') == 1 and "<b>system</b>" in turn and "<b>reply</b>" in turn
        assert "decide · executor" in turn
    assert evil not in html and "&lt;script&gt;" in html
    assert "Other prompts" not in html


@pytest.mark.slow
@pytest.mark.parametrize(
    ("graph", "benchmark"), [("sdp", "blocksworld"), ("step", "blocksworld"), ("tdp", "blocksworld")]
)
def test_every_kept_prompt_is_on_the_page_once_and_under_a_step(graph: str, benchmark: str, tmp_path: Path):
    context = Context(model="simulated:act=0.5,propose=0.3,seed=4", limits=Limits(steps=14))
    result = run(graph, benchmark, "4-0", context=context, out=tmp_path, keep_prompts=True, on_error="ignore")
    steps, _, others = page(result).partition("Other prompts")
    assert (steps + others).count('<details class="prompt">') == len(kept(result.folder)) > 3
    assert steps.count('<details class="prompt">') >= len(kept(result.folder)) - 2


def test_prompts_of_lost_work_are_shown_apart(tmp_path: Path):
    result = run("sdp:paper", "blocksworld", "4-0", out=tmp_path, keep_prompts=True)
    path = result.folder / "prompts.jsonl"
    lost = {**kept(result.folder)[0], "response": "lost in a kill"}
    path.write_text(path.read_text() + json.dumps(lost) + "\n")
    steps, _, others = page(result).partition("Other prompts")
    assert "lost in a kill" in others and "lost in a kill" not in steps


def test_a_damaged_file_is_reported_with_its_line(tmp_path: Path):
    result = run("sdp:paper", "blocksworld", "4-0", out=tmp_path, keep_prompts=True)
    path = result.folder / "prompts.jsonl"
    first, _, rest = path.read_text().partition("\n")
    path.write_text(f"{first}\nnot JSON\n{rest}")
    with pytest.raises(Fault, match=r"prompts\.jsonl:2"):
        page(result)

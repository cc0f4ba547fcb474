"""Tests of `evaluation.export`."""

import json

import atif
import pandas as pd
import pyarrow.parquet as pq
import pytest
from helpers.worlds.scripted_benchmark import Script, predicates
from inspect_ai.analysis import events_df, samples_df
from inspect_ai.log import list_eval_logs, read_eval_log, write_eval_log

from certigraph.adapters.protocols import Budget, Context, Limits
from certigraph.adapters.trajectories import add_line_number, parse_line, read_trajectory
from certigraph.evaluation.atif import to_atif
from certigraph.evaluation.export import SCHEMA, export, to_parquet
from certigraph.evaluation.inspect_log import to_inspect, usage_by
from certigraph.runtime.registry import build_graph, parse_swap
from certigraph.runtime.result import Result
from certigraph.runtime.run import resume, run
from certigraph.state.certified_states import certified_states
from certigraph.state.endings import Fault, UnknownName
from certigraph.state.records import RESTORE, Predicate, Usage
from certigraph.state.trajectory import Event, Resumed

SHORT = Limits(attempts=2, replans=1, steps=4, trials=2)
HOSTILE = '<script>alert("x")</script>\x00 attachment://0 \u202e [bold]\N{PILE OF POO}'
KEY = "sk-" + "a1B2" * 8


class Returning(Script):
    """The third predicate fails; the new plan first goes back to the state after the first one."""

    def __init__(self):
        super().__init__(plan=3, verdicts=[1, 1, 0, 0, 0])

    async def _replan(self, state, runtime):
        return {"plan": [Predicate(text="as after p1", kind=RESTORE, args={"to": 1}), *predicates("r", 2)]}


def resumed(out):
    stopped = run("sdp", out=out, context=Context(budget=Budget(calls=2)))
    return resume(stopped.folder, budget=Budget(calls=100))


def cut(out):
    whole = run("sdp", out=out)
    lines = file_of(whole).read_bytes().split(b"\n")
    file_of(whole).write_bytes(b"\n".join(lines[:9]) + b"\n" + lines[9][:40])
    return Result(whole.folder)


RUNS = {
    "sdp": lambda out: run("sdp", out=out),
    "always_pass": lambda out: run(build_graph("sdp", dict([parse_swap("validate=always_pass")])), out=out),
    "react": lambda out: run("react", "blocksworld", "6-2", out=out),
    "plan_and_solve": lambda out: run("plan_and_solve", out=out),
    "step": lambda out: run("step", out=out),
    "reflexion": lambda out: run("reflexion", out=out, context=Context(model="scripted:first", limits=SHORT)),
    "returning": lambda out: run("sdp", Returning(), out=out),
    "cascade": lambda out: run("sdp", Script(verdicts=[0, 3]), out=out),
    "gave_up": lambda out: run("sdp", Script(verdicts=[1, *[0] * 20], replans=False), out=out),
    "failed": lambda out: run("sdp", Script(fails={"step": Fault("environment", f"{out}/world.py broke")}), out=out),
    "spent": lambda out: run("sdp", out=out, context=Context(budget=Budget(calls=2))),
    "resumed": resumed,
    "cut": cut,
}


def file_of(result):
    return result.folder / "trajectory.jsonl"


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    out = tmp_path_factory.mktemp("runs")
    return {name: make(out / name) for name, make in RUNS.items()}


def document(result):
    return atif.Trajectory.model_validate(to_atif(result.trajectory))


def acts(steps):
    return [step for step in steps if step.tool_calls]


def table(results, path):
    to_parquet([result.trajectory for result in results], path)
    return pd.read_parquet(path)


def texts(states):
    return [[predicate.text for predicate in state.predicates] for state in states]


def rewritten(result, change):
    """The run as its file reads after a change of the text."""
    file_of(result).write_text(change(file_of(result).read_text(encoding="utf-8")), encoding="utf-8")
    return Result(result.folder)


@pytest.mark.slow
@pytest.mark.parametrize("name", RUNS)
def test_atif_accepts_every_kind_of_run(runs, name):
    result = runs[name]
    made = document(result)
    taken = [event for event in result.trajectory.events if event.update and event.update.get("history")]
    answered = [step for step in acts(made.steps) if step.observation]
    assert [step.observation.results[0].content for step in answered] == [
        event.update["observation"]["text"] for event in taken
    ]
    assert (made.steps[0].source, made.steps[0].message) == ("user", result.trajectory.header.task.goal)
    assert made.extra["ending"] == result.ending
    usage, final = result.usage, made.final_metrics
    assert (final.total_prompt_tokens, final.total_completion_tokens) == (usage.input_tokens, usage.output_tokens)
    prompt_tokens = sum(step.metrics.prompt_tokens for step in made.steps if step.metrics)
    assert prompt_tokens == sum(event.usage.input_tokens for event in result.trajectory.events)
    assert json.loads(json.dumps(made.to_json_dict())) == to_atif(result.trajectory)


@pytest.mark.slow
def test_an_atif_step_holds_target_verdict_and_certificate(runs):
    proposed, refused, cascaded, last = document(runs["cascade"]).steps[2:]
    assert (proposed.message, proposed.llm_call_count) == ("p1\np2\np3\np4", 0)
    assert (refused.extra["target"], refused.extra["verdict"]["depth"]) == ("p1", 0)
    assert "certificate" not in refused.extra
    assert (cascaded.message, cascaded.extra["certificate"]["depth"]) == ("p1 try 2", 3)
    assert cascaded.extra["nodes"] == ["realize", "act", "validate", "certify"]
    assert cascaded.observation.results[0].source_call_id == cascaded.tool_calls[0].tool_call_id
    assert last.extra["target"] == "p4"


@pytest.mark.slow
def test_an_atif_step_counts_model_calls_and_keeps_the_thought(runs):
    steps = document(runs["react"]).steps
    assert {step.llm_call_count for step in acts(steps)} == {1}
    assert {step.reasoning_content for step in acts(steps)} == {"it leads to the goal"}
    refusing = [step for step in document(runs["always_pass"]).steps if step.llm_call_count == 0]
    assert all(step.metrics is None for step in refusing)


def test_atif_tells_planning_learning_and_episodes(runs):
    episodes = document(runs["reflexion"]).steps
    assert [step.message for step in episodes if step.source == "system"] == ["Episode 1 begins.", "Episode 2 begins."]
    assert {step.extra["episode"] for step in acts(episodes)} == {1, 2}
    assert sum(step.message.startswith("Score 0 of 100.") for step in episodes) == 2
    replanned = next(s for s in document(runs["returning"]).steps if s.extra and s.extra.get("nodes") == ["replan"])
    assert replanned.message == "as after p1\nr1\nr2"


def test_atif_says_what_is_unfinished_failed_or_repeated(runs):
    assert (document(runs["cut"]).extra["ending"], "no ending" in document(runs["cut"]).notes) == ("interrupted", True)
    failed = document(runs["failed"])
    assert (failed.extra["ending"], failed.steps[-1].extra["failed"]) == ("error:environment", True)
    assert "resumed" in document(runs["resumed"]).notes
    assert document(runs["sdp"]).notes is None


@pytest.mark.parametrize("form", ["eval", "json"])
@pytest.mark.parametrize("name", ["sdp", "step", "reflexion", "failed", "spent", "resumed", "cut"])
def test_inspect_reads_back_what_was_written(runs, name, form, tmp_path):
    log = to_inspect([runs[name].trajectory])
    write_eval_log(log, str(tmp_path / f"log.{form}"))
    back = read_eval_log(str(tmp_path / f"log.{form}"), resolve_attachments="full")
    kept = [sample.model_copy(update={"attachments": {}}) for sample in back.samples]
    # as text: the value of an unscored sample is NaN, which equals nothing
    assert [sample.model_dump_json() for sample in kept] == [sample.model_dump_json() for sample in log.samples]
    assert (back.eval, back.plan, back.results, back.status) == (log.eval, log.plan, log.results, log.status)


def test_an_inspect_sample_is_the_run(runs):
    result = runs["sdp"]
    sample = to_inspect([result.trajectory]).samples[0]
    assert (sample.id, sample.epoch, sample.scores["certigraph"].value) == (result.state["task"].id, 1, 1.0)
    usage = sample.model_usage["scripted:expert"]
    assert usage.total_tokens == result.usage.input_tokens + result.usage.output_tokens
    assert sum(sample.role_usage[role].output_tokens for role in sample.role_usage) == result.usage.output_tokens
    validated = [event.data for event in sample.events if event.source == "certigraph.validate"]
    assert [attempt["verdict"]["depth"] for attempt in validated] == [a.verdict.depth for a in result.state["attempts"]]
    calls = [call for message in sample.messages if message.role == "assistant" for call in message.tool_calls or []]
    assert [call.arguments["text"] for call in calls] == [step.action.text for step in result.state["history"]]


def test_inspect_counts_cached_tokens_next_to_the_input():
    call = {"role": "planner", "model": "m", "input_tokens": 100, "output_tokens": 10, "cached_tokens": 64, "usd": 0.5}
    usage = Usage(node="propose", calls=2)
    result = usage_by("model", [Event(t=0, superstep=1, node="propose", usage=usage, calls=[call, call])])["m"]
    assert (result.input_tokens, result.input_tokens_cache_read, result.output_tokens) == (72, 128, 20)
    assert (result.total_tokens, result.total_cost) == (220, 1.0)


def test_inspect_tells_limits_errors_and_unfinished_runs(runs):
    (spent,) = to_inspect([runs["spent"].trajectory]).samples
    assert (spent.limit.type, spent.limit.limit, spent.error) == ("custom", 2, None)
    failed = to_inspect([runs["failed"].trajectory])
    assert (failed.status, failed.samples[0].error.message.startswith("error:environment")) == ("error", True)
    unfinished = to_inspect([runs["cut"].trajectory])
    assert (unfinished.status, unfinished.results.completed_samples) == ("cancelled", 0)
    assert (unfinished.samples[0].metadata["ending"], unfinished.samples[0].scores) == ("interrupted", {})


@pytest.mark.slow
def test_inspect_groups_runs_and_counts_repetitions_as_epochs(runs, tmp_path):
    again = [run("sdp", out=tmp_path, context=Context(trial=trial)).trajectory for trial in (1, 0)]
    log = to_inspect(again)
    assert [(sample.epoch, sample.metadata["trial"]) for sample in log.samples] == [(1, 0), (2, 1)]
    with pytest.raises(Fault, match="2 runs of 2 kinds"):
        to_inspect([runs["sdp"].trajectory, runs["always_pass"].trajectory])
    with pytest.raises(Fault, match="0 runs"):
        to_inspect([])


@pytest.mark.slow
def test_inspects_own_tools_read_an_exported_folder(runs, tmp_path):
    folders = [runs[name].folder for name in ("sdp", "react", "reflexion", "always_pass", "cut")]
    files = export(folders, "inspect", tmp_path / "logs")
    assert len(files) == 4  # sdp and its cut repetition are one log
    assert len(list_eval_logs(str(tmp_path / "logs"))) == 4
    samples = samples_df(str(tmp_path / "logs"), quiet=True)
    assert sorted(samples.metadata_ending) == ["gave_up", "goal", "goal", "goal", "interrupted"]
    assert set(samples.sample_id) == {folder.name for folder in folders}
    events = events_df(str(tmp_path / "logs"), quiet=True)
    assert events.event_id.is_unique
    assert len(events) == sum(len(read_trajectory(folder).events) for folder in folders)


@pytest.mark.parametrize("name", ["sdp", "cascade", "returning", "gave_up", "resumed", "cut", "always_pass"])
def test_the_certified_rows_are_the_chain_of_certified_states(runs, name, tmp_path):
    result = runs[name]
    certified = table([result], tmp_path / "t.parquet").query("certified")
    assert [list(state) for state in certified.state] == texts(t.before for t in result.transitions)
    assert [list(state) for state in certified.next_state] == texts(t.after for t in result.transitions)
    assert list(certified.action) == [transition.action.text for transition in result.transitions]
    assert list(certified.r_cert) == result.credit
    chain = [[], *(list(state) for state in certified.next_state)]
    assert chain == texts(certified_states(result.certificates))


def test_a_return_takes_predicates_away(runs, tmp_path):
    rows = table([runs["returning"]], tmp_path / "t.parquet")
    returned = rows[rows.restores.notna()].iloc[0]
    assert (list(returned.state), list(returned.next_state), returned.restores) == (["p1", "p2"], ["p1"], 1)
    assert list(returned.predicates) == ["as after p1"]
    assert list(rows.iloc[-1].next_state) == ["p1", "r1", "r2"]


def test_every_format_tells_variants_of_a_graph_apart(runs, tmp_path):
    both = [runs["sdp"], runs["always_pass"]]
    rows = table(both, tmp_path / "t.parquet")
    assert list(rows.method.unique()) == ["sdp", "sdp validate=always_pass"]
    assert (set(rows.graph), set(rows.model)) == ({"sdp"}, {"scripted:expert"})
    agents = [document(result).agent.extra for result in both]
    assert [agent["method"] for agent in agents] == ["sdp", "sdp validate=always_pass"]
    assert agents[1]["operators"]["validate"] == {"name": "always_pass", "args": {}}
    logs = export([result.folder for result in both], "inspect", tmp_path / "logs")
    logged = [read_eval_log(str(log)).eval for log in logs]
    assert [log.task_args for log in logged] == [{"graph": "sdp"}, {"graph": "sdp", "validate": "always_pass"}]
    assert [log.solver for log in logged] == ["sdp", "sdp validate=always_pass"]
    assert ["sdp-validate-always_pass" in log.name for log in logs] == [False, True]


def test_an_episode_is_done_once_however_long_its_run_went_on(tmp_path):
    result = run("sdp:paper", "blocksworld", "4-0", out=tmp_path)
    for trajectory in (result.trajectory, result.trajectory.model_copy(update={"footer": None})):
        for event in trajectory.events:
            if event.update and "observation" in event.update:
                event.update["observation"]["done"] = True
        to_parquet([trajectory], tmp_path / "t.parquet")
        rows = pd.read_parquet(tmp_path / "t.parquet")
        assert list(rows.done) == [False] * 3 + [True]
        assert not rows.truncated.any()


def test_uncertified_attempts_are_rows_that_change_no_state(runs, tmp_path):
    rows = table([runs["gave_up"]], tmp_path / "t.parquet")
    assert list(rows.r_cert) == [1, 0, 0, 0]
    assert [list(state) for state in rows.next_state] == [["p1"]] * 4
    assert list(rows.target) == ["p1", "p2", "p2", "p2"]
    assert (list(rows.done), list(rows.truncated)) == ([False] * 4, [False] * 3 + [True])
    assert list(rows.obs)[1:] == list(rows.next_obs)[:-1]


def test_runs_without_predicates_have_rewards_and_episodes(runs, tmp_path):
    rows = table([runs[name] for name in ("react", "step", "reflexion", "plan_and_solve")], tmp_path / "t.parquet")
    assert not rows.certified.any()
    assert rows.r_cert.isna().all()
    solved = rows[rows.graph == "react"]
    assert (list(solved.reward)[-1], list(solved.done)[-1], solved.truncated.any()) == (1.0, True, False)
    tried = rows[rows.graph == "reflexion"]
    assert [tuple(pair) for pair in tried[["episode", "t"]].values] == [(e, t) for e in (1, 2) for t in range(4)]
    assert list(tried.t[tried.truncated]) == [3, 3]
    assert rows[rows.graph == "step"].target.notna().all()


def test_the_table_has_its_columns_whatever_was_run(runs, tmp_path):
    to_parquet([runs["failed"].trajectory], tmp_path / "none.parquet")
    read = pq.read_table(tmp_path / "none.parquet")
    assert (read.num_rows, read.schema.equals(SCHEMA)) == (0, True)
    rows = table([runs["sdp"], runs["cascade"]], tmp_path / "t.parquet")
    assert rows.logprob.isna().all()
    assert rows[rows.run_id == runs["sdp"].folder.name].calls.sum() == runs["sdp"].usage.calls - 1  # Propose aside


def test_superseded_work_is_paid_and_not_shown(tmp_path):
    whole = run("sdp", Script(), out=tmp_path)
    header, *rest = file_of(whole).read_text(encoding="utf-8").splitlines()
    ahead = [header, *rest[:6], Resumed(superstep=2).model_dump_json(), *rest[2:]]
    plain = [parse_line(text).model_dump_json() for text in ahead]
    numbered = [add_line_number(text, number) for number, text in enumerate(plain, 1)]
    again = rewritten(whole, lambda text: "\n".join(numbered) + "\n")
    assert len(again.trajectory.superseded) == 4
    assert len(document(again).steps) == len(document(whole).steps)
    assert document(again).final_metrics.extra["superseded"]["seconds"] > 0
    assert len(table([again], tmp_path / "a")) == len(table([whole], tmp_path / "b")) == 4


def test_hostile_text_comes_through_as_text(tmp_path):
    result = run("sdp", Script(echo=HOSTILE), out=tmp_path)
    assert HOSTILE in acts(document(result).steps)[0].observation.results[0].content
    for form in ("eval", "json"):
        write_eval_log(to_inspect([result.trajectory]), str(tmp_path / f"log.{form}"))
        back = read_eval_log(str(tmp_path / f"log.{form}"), resolve_attachments="full")
        assert HOSTILE in next(m.text for m in back.samples[0].messages if m.role == "tool")
    assert HOSTILE in table([result], tmp_path / "t.parquet").next_obs[0]


@pytest.mark.parametrize("form", ["atif", "inspect", "parquet"])
def test_a_lone_surrogate_is_replaced(form, tmp_path):
    result = run("sdp", Script(echo="MARK"), out=tmp_path / "runs")
    rewritten(result, lambda text: text.replace("MARK", "\\ud83d"))
    files = export([tmp_path / "runs"], form, tmp_path / "out")
    assert files[0].stat().st_size


@pytest.mark.parametrize("form", ["atif", "inspect", "parquet"])
def test_nothing_leaks(runs, form, tmp_path, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "a key of 23 characters!")
    roles = {"planner": "local:/home/ann/weights/small.gguf"}
    result = run(
        "sdp", Script(echo="MARK", fails={"score": ValueError()}), out=tmp_path / "a", context=Context(roles=roles)
    )
    rewritten(result, lambda text: text.replace("MARK", f"{KEY} a key of 23 characters!"))
    failed = RUNS["failed"](tmp_path / "b")
    assert str(tmp_path) in failed.message
    files = export([tmp_path / "a", tmp_path / "b"], form, tmp_path / "out")
    content = "".join(map(readable, files))
    assert "[redacted]" in content
    assert [
        secret for secret in (KEY, "a key of 23", str(tmp_path), "/home/ann", "local.json") if secret in content
    ] == []


def readable(file):
    if file.suffix == ".parquet":
        return pd.read_parquet(file).to_json()
    if file.suffix == ".eval":
        return read_eval_log(str(file), resolve_attachments="full").model_dump_json()
    return file.read_text(encoding="utf-8")


def test_export_finds_runs_at_any_depth_and_names_files_safely(runs, tmp_path):
    for place in ("a/deep/down", "b"):
        folder = tmp_path / "runs" / place
        folder.mkdir(parents=True)
        text = file_of(runs["sdp"]).read_text(encoding="utf-8").replace(runs["sdp"].folder.name, "../../escape")
        (folder / "trajectory.jsonl").write_text(text, encoding="utf-8")
    files = export([tmp_path / "runs", tmp_path / "runs" / "b"], "atif", tmp_path / "new" / "out")
    assert [file.name for file in files] == ["------escape.json", "------escape-2.json"]
    assert {file.parent for file in files} == {tmp_path / "new" / "out"}
    for file in files:
        atif.Trajectory.model_validate_json(file.read_bytes())


def test_a_broken_export_leaves_the_last_one_and_no_half_file(runs, tmp_path):
    (before,) = export([runs["sdp"].folder], "parquet", tmp_path)
    rows = before.read_bytes()
    broken = tmp_path / "broken"
    broken.mkdir()
    header, *_ = (runs["sdp"].folder / "trajectory.jsonl").read_text(encoding="utf-8").splitlines()
    (broken / "trajectory.jsonl").write_text(header + '\n{"type": "nonsense"}\n{}\n', encoding="utf-8")
    with pytest.raises(Fault, match=r"broken cannot be exported: .*:2: not a trajectory line"):
        export([runs["sdp"].folder, broken], "parquet", tmp_path)
    assert before.read_bytes() == rows
    assert sorted(path.name for path in tmp_path.iterdir()) == ["broken", "transitions.parquet"]


def test_a_run_that_died_before_its_header_is_left_out(runs, tmp_path):
    unbegun = tmp_path / "unbegun"
    unbegun.mkdir()
    (unbegun / "trajectory.jsonl").touch()
    [file] = export([runs["sdp"].folder, unbegun], "parquet", tmp_path / "out")
    assert set(pd.read_parquet(file)["run_id"]) == {runs["sdp"].trajectory.header.run_id}
    with pytest.raises(Fault, match=r"no run below .*unbegun"):
        export([unbegun], "parquet", tmp_path)


def test_unusable_requests_are_refused(runs, tmp_path):
    (tmp_path / "empty").mkdir()
    (tmp_path / "X.eval").touch()
    for name in ("empty", "missing", "X.eval"):
        with pytest.raises(Fault, match=name):
            export([tmp_path / name], "atif", tmp_path / "out")
    with pytest.raises(UnknownName, match="csv"):
        export([runs["sdp"].folder], "csv", tmp_path / "out")
    assert not (tmp_path / "out").exists()
    undated = run("sdp", Script(), out=tmp_path / "undated")
    rewritten(undated, lambda text: text.replace(f'"created":"{undated.trajectory.header.created}"', '"created":"now"'))
    with pytest.raises(Fault, match="'now'"):
        export([tmp_path / "undated"], "atif", tmp_path / "out")

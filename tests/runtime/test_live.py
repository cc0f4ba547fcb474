"""Tests of `runtime.live`."""

import io
import re
from pathlib import Path

import pytest
from helpers.sample_runs.episode_tape import EpisodeTape, two_episodes
from helpers.sample_runs.finding_runs import FOUND, GOAL_PASSED, GUESSED, report_page, run_with_findings
from helpers.worlds.study_world import Riddles
from rich.console import Console

from certigraph.adapters.protocols import Context, Limits
from certigraph.runtime.live import LiveView
from certigraph.runtime.report import write_report
from certigraph.runtime.run import resume, run
from certigraph.runtime.terminal import clean_line
from certigraph.runtime.texts import format_duration
from certigraph.state.records import (
    Action,
    Attempt,
    Certificate,
    Finding,
    Observation,
    Predicate,
    Scores,
    Step,
    Task,
    Usage,
    Verdict,
)
from certigraph.state.step import Lesson
from certigraph.state.tdp import Outcome
from certigraph.state.trajectory import Event, Footer, Header, Question, Resumed

TASK = Task(benchmark="toy", id="7", goal="reach the end", constants={"budget": 100})
CONTEXT = {"model": "scripted:x", "limits": {"steps": 9}}
HEADER = Header(run_id="r", created="now", graph="sdp", operators={}, task=TASK, context=CONTEXT, versions={})


def plan(count):
    return [Predicate(text=f"condition {n}") for n in range(1, count + 1)]


def event(superstep, node, **update):
    usage = Usage(node=node, calls=1, input_tokens=1_000, output_tokens=24, cached_tokens=512)
    return Event(t=0.0, superstep=superstep, node=node, usage=usage, update=update)


def proposed(count):
    return event(1, "propose", plan=[p.as_json() for p in plan(count)], head=0)


def acted(superstep, cost):
    step = Step(action=Action(text="go"), digest="d").as_json()
    return event(superstep, "act", history=[step], observation=Observation(text="o", data={"cost": cost}).as_json())


def rejected(superstep, position, reason):
    verdict = Verdict(depth=0, reason=reason)
    attempt = Attempt(
        position=position, target=plan(99)[position], action=Action(text="go"), digest="d", verdict=verdict
    )
    return event(superstep, "validate", attempts=[attempt.as_json()])


def certified(superstep, position, depth=1, **fields):
    targets = tuple(plan(99)[position : position + depth])
    certificate = Certificate(
        step=superstep, position=position, targets=targets, action=Action(text="go"), digest="d", **fields
    )
    return event(superstep, "certify", certificates=[certificate.as_json()], head=position + depth)


def footer(ending):
    return Footer(ending=ending, usage=Usage(node="all"))


def plain(*lines):
    console = Console(file=io.StringIO(), width=60)
    with LiveView(console) as view:
        for line in lines:
            view(line)
    return console.file.getvalue().splitlines()


def last_frame(*lines, height=24, steps=None, width=110):
    console = Console(record=True, force_terminal=True, width=width, height=height, file=io.StringIO())
    with LiveView(console, steps) as view:
        for line in lines:
            view(line)
    shown = console.export_text()
    return shown[shown.rindex("╭") :].splitlines()


def line_with(text, frame):
    return next(line for line in frame if text in line)


def test_plain_lines_have_the_counts_of_certificates_replans_and_returns():
    replanned = event(4, "replan", plan=[p.as_json() for p in plan(5)])
    lines = [HEADER, proposed(4), certified(2, 0, depth=2), acted(3, 5), replanned, event(5, "replan")]
    lines += [certified(6, 2, forced="skipped"), certified(7, 3), certified(8, 4, restores=1), Resumed(superstep=2)]
    counts = [re.findall(r"\d+", text.rpartition(":")[0] or text) for text in plain(*lines)[2:-1]]
    assert counts == [*[["2", "2", "4", "2"]] * 2, ["1", "3"], ["1"], ["6"], ["7", "3", "5", "4"], ["8", "1"]]
    assert re.findall(r"\d+", plain(*lines)[-1]) == ["2", "4"]


def test_a_validator_that_looks_at_nothing_certifies_nothing():
    passing = HEADER.model_copy(update={"operators": {"validate": {"name": "always_pass", "args": {}}}})
    text = plain(passing, proposed(2), certified(2, 0), certified(3, 1), footer("goal"))
    assert text[2:4] == [f"step {step}: accepted unchecked {step - 1}/2: condition {step - 1}" for step in (2, 3)]
    assert text[4].startswith("ended goal, 2/2 accepted unchecked, ")
    frame = last_frame(passing, proposed(2), certified(2, 0))
    assert line_with("accepted unchecked 1/2", frame)
    assert not any("certified" in line for line in [*text, *frame])


@pytest.mark.parametrize("value", [0.0, 1.0])
def test_a_goal_that_the_scorer_denies_is_marked_where_it_was_certified(value):
    header = HEADER.model_copy(update={"task": TASK.model_copy(update={"benchmark": "blocksworld"})})
    ended = footer("goal").model_copy(update={"scores": Scores(value=value)})
    frame = last_frame(header, proposed(2), certified(2, 0), certified(3, 1), ended)
    assert ["✕" in line_with(f"condition {number}", frame) for number in (1, 2)] == [False, value < 1]


def test_the_sub_task_of_a_goal_that_the_scorer_denies_is_marked():
    task = {"id": "deliver", "task": "deliver the parcel", "needs": []}
    outcome = Outcome(
        node="deliver", status="completed", result="delivered", ending="goal", observation=Observation(text="o")
    )
    drawn = event(1, "decompose", dag={"nodes": [task]}, revisions=0)
    done = event(2, "gather", outcomes=[outcome.as_json()])
    header = HEADER.model_copy(update={"graph": "tdp", "task": TASK.model_copy(update={"benchmark": "blocksworld"})})
    for value in (0.0, 1.0):
        ended = footer("goal").model_copy(update={"scores": Scores(value=value)})
        row = line_with("deliver the parcel", last_frame(header, drawn, done, ended))
        assert ("✕" in row, "denied by the scorer" in row) == (value < 1, value < 1)
        assert ("denied by the scorer: deliver the parcel" in plain(header, drawn, done, ended)) == (value < 1)


def test_a_goal_that_an_audit_denies_shows_the_reason_below_it():
    audit = {"confirmed": False, "reason": "the box is empty"}
    frame = last_frame(HEADER, proposed(2), certified(2, 0), event(3, "audit", audits=[audit]))
    assert "condition 2" in frame[frame.index(line_with("the box is empty", frame)) - 1]


def test_plain_mode_of_a_real_run_has_one_line_per_certificate(tmp_path):
    console = Console(file=io.StringIO(), width=80)
    with LiveView(console) as view:
        result = run("sdp:paper", "blocksworld", "4-0", out=tmp_path, listener=view)
    printed = console.file.getvalue().splitlines()
    assert printed[0].endswith("model scripted:expert: a script that knows the answer, no language model")
    assert printed[1] == f"task: {result.trajectory.header.task.goal}"
    assert [line.split(":")[0] for line in printed[2:-1]] == [f"step {c.step}" for c in result.certificates]
    assert printed[-1].startswith("ended goal, score 100 of 100, 4/4 certified")
    assert (view.run.steps, view.run.spent["calls"]) == (len(result.state["history"]), result.usage.calls)


def test_frame_marks_what_is_certified_and_the_target():
    frame = last_frame(HEADER, proposed(3), acted(2, 40), certified(3, 0), acted(4, 40), rejected(5, 1, "too dear"))
    assert "✓" in line_with("condition 1", frame)
    assert "▸" in line_with("condition 2", frame)
    assert "1 tried" in line_with("condition 2", frame)
    assert "·" in line_with("condition 3", frame)
    assert line_with("too dear", frame)
    figures = " ".join(frame)
    for words in ("1/3", "2/9", "$40 of $100", "5.12k", "2.56k cached", "reach the end", "scripted:x"):
        assert words in figures


def test_long_plans_are_windowed_around_the_target():
    frame = last_frame(HEADER, proposed(90), certified(2, 0, depth=50), height=24)
    assert len(frame) <= 24
    assert "▸" in line_with("condition 51", frame)
    assert "✓" in line_with("condition 50", frame)
    assert not any("condition 9 " in line or "condition 89" in line for line in frame)
    assert "more above" in line_with("more below", frame)


def test_resume_drops_superseded_work_but_not_its_cost():
    frame = last_frame(HEADER, proposed(2), certified(2, 0), footer("limit:calls"), Resumed(superstep=1))
    assert "▸" in line_with("condition 1", frame)
    assert "limit:calls" not in " ".join(frame)
    assert "2.05k" in " ".join(frame)


@pytest.mark.slow
def test_a_resumed_run_shows_the_time_of_the_report_which_includes_that_before(tmp_path: Path):
    stopped = run("sdp:paper", "blocksworld", "4-0", context=Context(limits=Limits(steps=2)), out=tmp_path)
    console = Console(record=True, force_terminal=True, width=110, height=30, file=io.StringIO())
    with LiveView(console) as view:
        result = resume(stopped.folder, limits=Limits(steps=60), listener=view)
    time = format_duration(result.usage.seconds)
    assert result.usage.seconds > stopped.usage.seconds
    assert f"time {time}" in console.export_text()
    report = write_report(result.trajectory, tmp_path / "report.html").read_text(encoding="utf-8")
    assert f"<dt>time</dt><dd>{time}<" in report


def test_the_time_of_a_run_stands_still_while_it_waits_and_goes_on_in_a_node(monkeypatch: pytest.MonkeyPatch):
    clock = [100.0]
    monkeypatch.setattr("certigraph.runtime.live.time.monotonic", lambda: clock[0])
    worked = event(1, "act").model_copy(update={"usage": Usage(node="act", seconds=60)})
    console = Console(record=True, force_terminal=True, width=110, height=30, file=io.StringIO())
    with LiveView(console) as view:
        view(HEADER)
        view(worked)
        clock[0] += 5
    assert "time 1:05" in console.export_text()
    with LiveView(console) as view:
        view(HEADER)
        view(worked)
        view(Question(id="q", value={"question": "go on?"}))
        clock[0] += 5
    assert "time 1:00" in console.export_text()


def test_world_text_cannot_steer_the_terminal():
    evil = "\x1b[2J\x1b]0;owned\x07 [bold]markup[/bold]"
    shown = Console(file=io.StringIO(), force_terminal=True, width=110, height=24)
    with LiveView(shown) as view:
        for line in (HEADER, proposed(1), rejected(2, 0, evil)):
            view(line)
    assert "\x1b[2J" not in shown.file.getvalue()
    assert "]0;owned\x07" not in shown.file.getvalue()
    assert "[bold]markup[/bold]" in shown.file.getvalue()
    assert clean_line("a\x1b\n\tb") == "a b"


def test_the_cursor_stays_visible_so_that_a_kill_cannot_hide_it():
    shown = io.StringIO()
    with LiveView(Console(file=shown, force_terminal=True)) as view:
        view(HEADER)
        assert re.findall(r"\x1b\[\?25[hl]", shown.getvalue())[-1] == "\x1b[?25h"


@pytest.mark.parametrize("size", [(24, 80), (16, 60), (50, 200)])
def test_frame_of_an_episode_fits_and_keeps_its_height(size):
    tape, (height, width) = two_episodes(), size
    for number in range(30):
        tape.act(f"wait {number}", answer="nothing " * 60)
    heights = {
        len(last_frame(tape.header, *tape.lines[:count], height=height, width=width))
        for count in range(1, len(tape.lines), 3)
    }
    assert max(heights) <= height
    assert max(heights) - min(heights) <= 1  # the figures may need a second line
    assert line_with("wait 29", last_frame(tape.header, *tape.lines, height=height, width=width))


def test_plain_lines_of_episodes_have_scores_and_counts():
    tape = two_episodes()
    text = plain(tape.header, *tape.lines, footer("limit:calls"))
    assert re.findall(r"score (-?\d+) of 100 \(([+-]\d+)\)", "\n".join(text)) == [
        ("8", "+8"), ("-100", "-108"), ("25", "+25"), ("40", "+15"),
    ]  # fmt: skip
    assert len(text) == 13 and re.findall(r"\d+", text[-1]) == ["2", "2", "1", "1", "5", "19", "228"]


def test_recalled_lessons_are_not_taught_again():
    shared = [Lesson(trial=1, report="Score 0 of 100.", reflection="of another run").as_json()]
    tape = EpisodeTape("reflexion").episode().event("recall", lessons=shared)
    tape.act("go").conclude("gave_up", reflection="turn back sooner")
    taught = tape.lines[-1].update["lessons"]
    tape.episode().event("recall", lessons=taught)
    assert not any("of another run" in line for line in plain(tape.header, *tape.lines))
    assert plain(tape.header, *tape.lines).count("episode 1 taught: turn back sooner") == 1


def test_resumed_episode_drops_superseded_turns():
    tape = EpisodeTape("react").episode().act("open door", 10).act("eat door", 0)
    frame = last_frame(tape.header, *tape.lines, Resumed(superstep=2))
    assert line_with("open door", frame)
    assert not any("eat door" in line for line in frame)
    assert line_with("score 10 of 100   steps 1/40", frame)


@pytest.mark.parametrize("graph", ["react", "plan_and_solve", "reflexion", "clin", "step"])
def test_real_runs_without_predicates_are_watched_to_their_end(graph, tmp_path):
    console = Console(record=True, force_terminal=True, width=110, height=30, file=io.StringIO())
    with LiveView(console) as view:
        result = run(graph, "blocksworld", "4-0", context=Context(limits=Limits()), out=tmp_path, listener=view)
    frame = console.export_text()
    frame = frame[frame.rindex("╭") :].splitlines()
    assert line_with("goal · score 100 of 100", frame)
    assert line_with("score 100 of 100", frame)
    assert "+100" in line_with(f"→ {result.state['turns'][-1].action}", frame)
    assert ("of 5" in line_with("episode 1", frame)) == (graph in ("reflexion", "clin", "step"))


def test_searches_along_hypotheses_are_reported_in_order_once_all_have_ended(tmp_path):
    result = run("hypotheses", Riddles(), "found", out=tmp_path)
    header, *events = (result.trajectory.header, *result.trajectory.events)
    ended = [event for event in events if (event.update or {}).get("branches")]
    for order in (ended, ended[::-1]):
        plain = Console(width=300, file=io.StringIO())
        view, before = LiveView(plain), events.index(ended[0])
        for line in (header, *events[:before], *order, *events[before + len(ended) :], result.trajectory.footer):
            view(line)
        printed = plain.file.getvalue()
        assert "search 2: Silt: down the river" in printed
        places = [printed.index(text) for text in ("search 1:", "search 2:", "search 3:", "3 of 3", "ended")]
        assert places == sorted(places)
        assert "3 searches with 6 actions" in printed.splitlines()[-1]
        assert "certified" not in printed
    html = write_report(result.trajectory, tmp_path / "report.html").read_text(encoding="utf-8")
    assert all(text in html for text in ("up the river", "down the river", "by the lamps"))


# Findings and forced passes in reports and live views: nothing forced is shown as certified.


@pytest.fixture
def result(tmp_path):
    return run_with_findings(tmp_path)


def lines_of(result, **console):
    shown = Console(file=io.StringIO(), **console)
    with LiveView(shown) as view:
        for line in (result.trajectory.header, *result.trajectory.events, result.trajectory.footer):
            view(line)
    return shown.file.getvalue().splitlines()


def test_report_shows_findings_sources_and_forced_passes_under_their_predicates(result, tmp_path):
    html = report_page(result, tmp_path)
    assert re.findall(r'<li class="row (\w+)', html) == ["certified", "forced", "certified", "certified"]
    assert "<dd>3/4<small>predicates, 1 passed uncertified" in html
    assert "passed, uncertified (force_pass): still a blog alone" in html
    first, second = html.split('<li class="row')[1:3]
    assert all(f'href="{url}"' in first for url in (*FOUND.sources, *FOUND.against))
    assert re.search(r"contradicted by <a[^>]*>https://old.example/list</a>: there are three", first)
    assert second.count(GUESSED.text) == 2  # as it was refused, and as it was let pass
    assert FOUND.text not in second


def test_a_goal_that_was_let_pass_is_not_called_certified(tmp_path):
    result = run_with_findings(tmp_path, *GOAL_PASSED)
    html = report_page(result, tmp_path)
    assert result.ending == "gave_up"
    assert "goal passed, uncertified" in html
    assert "goal certified" not in html
    assert ">gave up<" not in html


@pytest.mark.parametrize(
    "url",
    [
        "javascript:alert(1)",
        "JaVaScRiPt:alert(1)",
        "data:text/html,<script>alert(1)</script>",
        " https://x.example",
        "java\nscript:alert(1)",
        "https:\n//x.example",
        "https://x.example/\u202efdp.exe",
        "//x.example/y",
        "file:///etc/passwd",
        '"onclick="alert(1)',
    ],
)
def test_only_web_addresses_are_links(url, tmp_path):
    shady = Finding(about="<u>", text="<u><script>1</script>", sources=(url,), against=(url,), dispute="<img src=x>")
    html = report_page(run_with_findings(tmp_path, found=shady), tmp_path)
    assert not re.search(r'<(script|img|u>)|"onclick="', html)
    assert all(link.startswith("https://blog.example/") for link in re.findall(r'href="([^"]*)"', html))


def test_links_tell_the_page_they_lead_to_nothing(result, tmp_path):
    links = re.findall(r"<a [^>]*>", report_page(result, tmp_path))
    assert links
    assert all('rel="noopener noreferrer nofollow"' in link for link in links)


def test_plain_lines_count_passes_apart_from_certificates_and_name_sources(result):
    lines = lines_of(result, width=60)
    assert sum(": certified " in line for line in lines) == 3
    assert [sum(url in line for line in lines) for url in (*FOUND.sources, *FOUND.against)] == [1, 1, 1]
    assert "3/4" in lines[-1] and "1 passed" in lines[-1]


def test_the_frame_tells_certified_and_passed_apart(result):
    frame = lines_of(result, force_terminal=True, width=150, height=24, color_system=None)
    first, second = (next(line for line in reversed(frame) if f" {n} p{n} " in line) for n in (1, 2))
    assert "✓" in first
    assert "→ Two gyms lie near the park. (https://gyms.example/list" in first
    assert "!" in second
    assert "passed, uncertified (force_pass)" in second
    assert any("certified 3/4" in line and "uncertified 1" in line for line in frame)

"""Tests of `runtime.live`."""

import io
import re
from pathlib import Path

import pytest
from helpers.sample_runs.episode_tape import EpisodeTape, two_episodes
from helpers.sample_runs.finding_runs import FOUND, GOAL_PASSED, GUESSED, report_page, run_with_findings
from helpers.worlds.library_world import LibraryBenchmark, ScriptedModel, same_passages, same_search
from helpers.worlds.study_world import Riddles
from rich.console import Console

from certigraph.adapters.models.scripts import ScriptedChat
from certigraph.adapters.protocols import Context, Limits
from certigraph.graphs import pbai, sdp
from certigraph.nodes.sdp import always_pass
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
    Invalidation,
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


def test_plain_mode_says_certificates_replans_and_the_ending():
    replanned = event(4, "replan", plan=[p.as_json() for p in plan(5)])
    text = plain(HEADER, proposed(4), certified(2, 0, depth=2), acted(3, 5), replanned, event(5, "replan"))
    assert text == [
        "sdp on toy 7, model scripted:x: a script, no language model",
        "task: reach the end",
        "step 2: certified 2/4 (cascade 2): condition 2",
        "step 1: replanned, 3 predicates from here: condition 3",
        "step 1: replanning gave up: condition 3",
    ]
    assert plain(HEADER, proposed(1), certified(2, 0), footer("goal"))[-1] == (
        "ended goal, 1/1 certified, 0 steps, 2 calls, 2,048 tokens"
    )


def test_a_certificate_after_passed_conditions_says_which_one_it_is_about():
    shown = plain(HEADER, proposed(4), certified(2, 0), certified(3, 1, 2, forced="skipped"), certified(3, 3))
    assert (shown[2], shown[-1]) == (
        "step 2: certified 1/4: condition 1",
        "step 3: certified 2/4 (condition 4): condition 4",
    )


def test_a_validator_that_looks_at_nothing_certifies_nothing():
    passing = HEADER.model_copy(update={"operators": {"validate": {"name": "always_pass", "args": {}}}})
    text = plain(passing, proposed(2), certified(2, 0), certified(3, 1), footer("goal"))
    assert text[2:4] == [f"step {step}: accepted unchecked {step - 1}/2: condition {step - 1}" for step in (2, 3)]
    assert text[4].startswith("ended goal, 2/2 accepted unchecked, ")
    frame = last_frame(passing, proposed(2), certified(2, 0))
    assert line_with("accepted unchecked 1/2", frame)
    assert not any("certified" in line for line in [*text, *frame])


def test_a_goal_that_the_scorer_denies_is_marked_where_it_was_certified(tmp_path):
    def shown(kind, **options):
        console = Console(record=True, force_terminal=kind, width=110, height=30, file=io.StringIO())
        with LiveView(console) as view:
            run(out=tmp_path, listener=view, **options)
        text = console.export_text()
        return text[text.rindex("╭") if kind else 0 :].splitlines()

    simulated = Context(model="simulated")
    unchecked = {"graph": sdp.build(validate=always_pass), "benchmark": "blocksworld", "task": "6-2"}
    frame = shown(True, **unchecked, context=simulated)
    rows = [line for line in frame if "✓" in line or "✕" in line]
    assert ["✕" in row for row in rows] == [row is rows[-1] for row in rows] and len(rows) > 1
    assert "denied by the scorer" in rows[-1]
    lines = shown(False, **unchecked, context=simulated)
    goal = lines[-3].partition(": accepted unchecked 8/8: ")[2]
    assert goal and lines[-2] == f"denied by the scorer: {goal}"
    solved = shown(False, graph="sdp", benchmark="blocksworld", task="6-2", context=simulated)
    assert not any("denied" in line for line in solved)


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
        result = run("sdp", "blocksworld", "4-0", out=tmp_path, listener=view)
    printed = console.file.getvalue().splitlines()
    assert printed[0].endswith("model scripted:expert: a script that knows the answer, no language model")
    assert printed[1] == f"task: {result.trajectory.header.task.goal}"
    assert [line.split(":")[0] for line in printed[2:-1]] == [f"step {c.step}" for c in result.certificates]
    assert printed[-1].startswith("ended goal, score 100 of 100, 4/4 certified")
    assert (view.run.steps, view.run.spent["calls"]) == (len(result.state["history"]), result.usage.calls)


def test_error_rates_of_simulated_agents_follow_the_model():
    simulated = HEADER.model_copy(
        update={"context": {**CONTEXT, "model": "simulated", "roles": {"judge": "simulated"}}}
    )
    rates = "error rates: wrong conditions 10%, wrong actions 20%"
    assert [line.startswith(rates) for line in plain(simulated, proposed(4))] == [False, True, False]
    for height in (20, 24, 30):
        frame = last_frame(simulated, proposed(40), height=height, width=80)
        assert rates in frame[3] and "judge wrong" in frame[4] and "false rejects 10%" in frame[5]
        assert len(frame) <= height


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


def test_frame_of_a_real_run_stays_with_its_ending(tmp_path):
    console = Console(record=True, force_terminal=True, width=110, height=30, file=io.StringIO())
    with LiveView(console, steps=40) as view:
        run("sdp", "blocksworld", "4-0", out=tmp_path, listener=view)
    frame = console.export_text()
    frame = frame[frame.rindex("╭") :]
    assert frame.count("✓") == 4
    assert "goal · score 100 of 100" in frame
    assert "4/40" in frame


def test_long_plans_are_windowed_around_the_target():
    frame = last_frame(HEADER, proposed(90), certified(2, 0, depth=50), height=24)
    assert len(frame) <= 24
    assert "▸" in line_with("condition 51", frame)
    assert "✓" in line_with("condition 50", frame)
    assert not any("condition 9 " in line or "condition 89" in line for line in frame)
    assert "more above" in line_with("more below", frame)


def test_return_takes_certificates_back():
    lines = [HEADER, proposed(4), certified(2, 0), certified(3, 1), certified(4, 2, restores=1)]
    frame = last_frame(*lines)
    assert "taken back" in line_with("condition 2", frame)
    assert "back to state 1" in line_with("condition 3", frame)
    assert "1/2" in " ".join(frame)
    assert plain(*lines)[-1] == "step 4: returned to certified state 1: condition 3"


@pytest.mark.parametrize(("to", "standing"), [(1, "1/2"), (2, "1/2")])
def test_return_takes_invalidations_back_with_the_state(to, standing):
    lost = Invalidation(certificate=0, target=0, predicate=plan(1)[0], step=3).as_json()
    undone = event(3, "revalidate", invalidations=[lost])
    lines = [HEADER, proposed(4), certified(2, 0), undone, certified(4, 1), certified(5, 2, restores=to)]
    frame = last_frame(*lines)
    assert ("taken back" in line_with("condition 1", frame)) is (to == 2)
    assert ("taken back" in line_with("condition 2", frame)) is (to == 1)
    assert standing in " ".join(frame)


def test_resume_drops_superseded_work_but_not_its_cost():
    frame = last_frame(HEADER, proposed(2), certified(2, 0), footer("limit:calls"), Resumed(superstep=1))
    assert "▸" in line_with("condition 1", frame)
    assert "limit:calls" not in " ".join(frame)
    assert "2.05k" in " ".join(frame)


def test_plain_lines_say_where_a_run_was_resumed():
    *_, resumed = plain(HEADER, proposed(2), certified(1, 0), Resumed(superstep=1))
    assert resumed.startswith("resumed") and resumed.endswith("1/2 certified")


@pytest.mark.slow
def test_a_resumed_run_shows_the_time_of_the_report_which_includes_that_before(tmp_path: Path):
    stopped = run("sdp", "blocksworld", "4-0", context=Context(limits=Limits(steps=2)), out=tmp_path)
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


def test_frame_of_an_episode_has_its_subtask_its_turns_and_the_scores_before():
    tape = two_episodes()
    frame = last_frame(tape.header, *tape.lines, width=80)
    assert "earlier scores 0" in line_with("episode 2 of 3", frame)
    assert "1 completed, 0 failed" in line_with("▸ heat it", frame)
    assert "+15" in line_with("→ turn on stove", frame)
    assert line_with("It glows.", frame)
    assert not any("More." in line for line in frame)
    assert "refused" in line_with("✗ focus on picture", frame)
    assert line_with("the picture does not help", frame)
    assert "score 40 of 100   steps 2/40" in line_with("score 40", frame)


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


def test_an_episode_names_what_is_open_where_no_subtask_has_ended():
    tape = EpisodeTape().episode().plan("find the kitchen").act("go to kitchen", 8)
    assert "1 episode, 1 subtask open, 1 step" in plain(tape.header, *tape.lines, footer("limit:calls"))[-1]
    assert "1 episode, 1 subtask ended by the goal" in plain(tape.header, *tape.lines, footer("goal"))[-1]


def test_plain_mode_of_episodes_says_scores_refusals_subtasks_and_lessons():
    tape = two_episodes()
    text = plain(tape.header, *tape.lines, footer("limit:calls"))
    assert text[2:] == [
        "step 1: score 8 of 100 (+8): go to kitchen",
        "step 1: subtask completed: find the kitchen",
        "step 3: score -100 of 100 (-108): focus on picture",
        "step 3: subtask failed (8 actions): fill a pot",
        "episode 1: world_ended, score 0 of 100, 3 steps",
        "episode 1 taught: 2 insights, 1 rule, 2 subtasks",
        "step 0: refused focus on picture: the picture does not help",
        "step 1: score 25 of 100 (+25): open sink",
        "step 1: subtask completed: fill the pot",
        "step 2: score 40 of 100 (+15): turn on stove",
        "ended limit:calls, 2 episodes, 2 subtasks completed, 1 failed, 1 open, 5 steps, 19 calls, 228 tokens",
    ]


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


def test_score_of_a_planned_run_is_shown_where_the_world_reports_one():
    scored = event(
        2,
        "act",
        history=[Step(action=Action(text="go"), digest="d").as_json()],
        observation=Observation(text="o", data={"score": 17}).as_json(),
    )
    assert line_with("score 17 of 100", last_frame(HEADER, proposed(2), scored))
    assert plain(HEADER, proposed(2), scored, certified(3, 0))[2:] == [
        "step 3: certified 1/2, score 17 of 100: condition 1"
    ]


def test_a_search_is_watched_with_its_belief_and_its_gate(tmp_path):
    facts = lambda prompt, times: [{"fact": f"Osk is lake {times}", "source": "Osk"}]  # noqa: E731
    reply = lambda prompt, times: {"facts": facts(prompt, times), "resolved": [], "questions": []}  # noqa: E731
    scripted_model = ScriptedModel(tool=same_search, facts=reply, answer={"answer": "Ada"})
    context = Context(chat=ScriptedChat(responder=scripted_model))
    plain = Console(width=300, file=io.StringIO())
    run(
        pbai.build(), LibraryBenchmark(same_passages), context=context, out=tmp_path / "plain", listener=LiveView(plain)
    )
    printed = plain.file.getvalue().splitlines()
    assert line_with("step 2: gate: stagnant, 1 in a row", printed)
    assert line_with("step 3: gate: stop; 2 rounds in a row", printed)
    console = Console(record=True, force_terminal=True, width=110, height=40, file=io.StringIO())
    with LiveView(console) as view:
        run(pbai.build(), LibraryBenchmark(same_passages), context=context, out=tmp_path / "frame", listener=view)
    frame = console.export_text()
    assert line_with("+ Osk is lake 5 (Osk)", frame[frame.rindex("╭") :].splitlines())  # the sixth round in all


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


def test_plain_lines_have_one_for_each_pass_and_each_finding(result):
    lines = lines_of(result, width=60)
    assert lines[2:6] == [
        "step 1: certified 1/4: p1",
        f"step 1: found: {FOUND.text} ({', '.join(FOUND.sources)}); contradicted by https://old.example/list: "
        "there are three",
        "step 3: passed, uncertified (force_pass): p2",
        "step 3: found: The cheaper one costs 20. (https://blog.example/20)",
    ]
    assert "3/4 certified, 1 passed uncertified" in lines[-1]


def test_the_frame_tells_certified_and_passed_apart(result):
    frame = lines_of(result, force_terminal=True, width=150, height=24, color_system=None)
    first, second = (next(line for line in reversed(frame) if f" {n} p{n} " in line) for n in (1, 2))
    assert "✓" in first
    assert "→ Two gyms lie near the park. (https://gyms.example/list" in first
    assert "!" in second
    assert "passed, uncertified (force_pass)" in second
    assert any("certified 3/4" in line and "uncertified 1" in line for line in frame)

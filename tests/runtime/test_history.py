"""Tests of `runtime.history`."""

import io
import re

import pytest
from helpers.sample_runs.episode_tape import EpisodeTape
from helpers.sample_runs.recorded_runs import row_of
from helpers.sample_runs.tdp_tape import TDPTape, eventful, small, wide
from rich.console import Console

from certigraph.graphs import tdp
from certigraph.runtime.history import RunHistory, TaskGraph, read_history
from certigraph.runtime.live import LiveView
from certigraph.runtime.report import draw_tasks, write_report
from certigraph.runtime.run import run
from certigraph.runtime.terminal import draw_frame
from certigraph.state.records import Action, Attempt, Certificate, Observation, Predicate, Scores, Step, Usage, Verdict
from certigraph.state.tdp import Node
from certigraph.state.trajectory import Event, Footer, Resumed, assemble_trajectory

EVIL = '<script>alert(1)</script>"onload="alert(2)\' &amp;'


def page(trajectory, tmp_path):
    return write_report(trajectory, tmp_path / "report.html").read_text(encoding="utf-8")


def watched(*lines, height=30, width=110):
    console = Console(record=True, force_terminal=True, width=width, height=height, file=io.StringIO())
    with LiveView(console) as view:
        for line in lines:
            view(line)
    shown = console.export_text()
    return shown[shown.rindex("╭") :].splitlines()


def printed_lines(*lines):
    console = Console(file=io.StringIO(), width=100)
    view = LiveView(console)
    for line in lines:
        view(line)
    return console.file.getvalue().splitlines()


def line_with(text, frame):
    return next(line for line in frame if text in line)


def test_fold_tells_states_revisions_and_what_each_node_took():
    tasks = read_history(eventful().trajectory()).tasks
    assert {id_: worked.status for id_, worked in tasks.nodes.items()} == {
        "a": "completed",
        "b": "removed",
        "c": "working",
        "g": "pending",
    }
    assert [(r.added, r.changed, r.removed) for r in tasks.revisions] == [(("c",), ("g",), ("b",))]
    assert tasks.nodes["g"].earlier == [(1, Node(id="g", task="tell", needs=("a", "b")))]
    assert [(w.steps, w.calls, w.tokens) for w in tasks.nodes.values()] == [
        (2, 9, 1080),
        (2, 8, 960),  # not the three that its predecessors did
        (0, 0, 0),
        (1, 5, 600),
    ]
    assert (tasks.goal, tasks.steps, tasks.live) == ("g", 5, 3)
    assert [[worked.node.id for worked in level] for level in tasks.levels()] == [["a", "b", "c"], ["g"]]


def test_a_task_graph_that_is_written_whole_after_each_batch_tells_the_same():
    before, now = (read_history(eventful(whole=whole).trajectory()).tasks for whole in (True, False))
    assert [worked.node for worked in before.nodes.values()] == [worked.node for worked in now.nodes.values()]
    assert [worked.status for worked in before.nodes.values()] == [worked.status for worked in now.nodes.values()]
    assert before.revisions == now.revisions != []


def test_a_revision_that_was_refused_tells_why_and_changes_nothing():
    tape = small().begin("a").act("a", "search A").end("a").own("gather", dag={"statuses": {"a": "completed"}})
    before = [worked.node for worked in read_history(tape.trajectory()).tasks.nodes.values()]
    tasks = read_history(tape.own("revise", notes=["refused: no"], revisions=1).trajectory()).tasks
    assert [revision.line for revision in tasks.revisions] == ["refused: no"]
    assert [worked.node for worked in tasks.nodes.values()] == before
    assert tasks.count("completed") == 1


def test_nodes_that_worked_at_once_overlap_in_time():
    tasks = read_history(eventful().trajectory()).tasks
    first, second = tasks.nodes["a"].spans, tasks.nodes["b"].spans
    assert first[0][0] < second[-1][1]
    assert second[0][0] < first[-1][1]


def test_what_a_resume_drops_is_paid_by_its_node_and_time_goes_on():
    tape = small().begin("a").act("a", "search A")
    resumed = [*tape.lines, Resumed(superstep=2, scopes={"solve:a": 2})]
    after = tape.lines[4].model_copy(update={"t": 0.75, "superstep": 3})
    tasks = read_history(assemble_trajectory([tape.header, *resumed, after])).tasks
    assert (tasks.nodes["a"].calls, tasks.nodes["a"].steps) == (6, 0)
    assert tasks.resume_times == [4.0]
    assert tasks.nodes["a"].spans[-1] == (4.25, 4.75)


def test_watched_resume_goes_on_with_what_its_checkpoints_hold():
    tape = small().begin("a").act("a", "search A")
    frame = watched(tape.header, *tape.lines, Resumed(superstep=2, scopes={"solve:a": 2}))
    assert "0 steps, 5 calls" in line_with("▸ a", frame)
    assert line_with("calls 7", frame)


def test_a_node_that_is_to_be_done_again_waits_without_its_first_outcome():
    tape = small().begin("a").act("a", "search A").end("a", "failed", "no A")
    tape.draw("revise", Node(id="a", task="find A elsewhere"), tape.nodes["b"], tape.nodes["g"], revisions=1)
    again = read_history(tape.trajectory()).tasks.nodes["a"]
    assert (again.status, again.outcome, again.steps, again.changed) == ("pending", None, 1, "revised")
    worked = read_history(tape.begin("a").trajectory()).tasks.nodes["a"]
    assert worked.status == "working"


def test_an_inner_run_stands_alone():
    tape = small().begin("a").act("a", "search A")
    inner = read_history(tape.trajectory()).tasks.nodes["a"].inside.episodes
    assert inner.acting
    assert [entry.turn.action for entry in inner.now.entries()] == ["search A"]


def test_events_of_graphs_nested_deeper_are_charged_to_the_node():
    tape = small().begin("a").own("act", (), "solve:a|solve:x", "x", history=[{}])
    worked = read_history(tape.trajectory()).tasks.nodes["a"]
    assert (worked.calls, worked.steps) == (3, 1)
    assert worked.inside.episodes.steps == 0


def test_frame_has_every_node_with_its_state_and_what_it_does_now():
    tape = eventful()
    frame = watched(tape.header, *tape.lines)
    assert "✓" in line_with("find A", frame)
    assert re.findall(r"\d[\d.]*", line_with("find A", frame).partition("find A")[2]) == ["2", "9", "1.08"]
    assert "~" in line_with("find B", frame)
    assert "▸" in line_with("find C instead", frame)
    narrow = line_with("sub-tasks", watched(tape.header, *tape.lines, width=80))
    assert re.findall(r"[\d.:]+", narrow) == ["1", "3", "5", "40", "28", "3.36", "0:14"]


def test_inner_plans_and_certificates_are_not_the_plan_of_the_run():
    tape = small(solver="sdp").begin("a").at("a", "propose", plan=[{"text": "p"}, {"text": "q"}], head=0)
    tape.certify("a", 0, "p holds")
    frame = watched(tape.header, *tape.lines)
    assert "1/2 certified" in line_with("▸ a", frame)
    assert not any("p holds" in line for line in frame)
    fold = RunHistory()
    for line in (tape.header, *tape.lines):
        fold.take(line)
    assert (fold.plan.plan, fold.plan.certificates, fold.tasks.nodes["a"].inside.plan.in_force) == ((), [], 1)


def test_a_validator_of_sub_tasks_that_looks_at_nothing_certifies_nothing(tmp_path):
    tape = small(solver="sdp").begin("a").at("a", "propose", plan=[{"text": "p"}, {"text": "q"}], head=0)
    tape.certify("a", 0, "p holds").header.operators["solve"]["args"]["validate"] = {"name": "always_pass", "args": {}}
    for height in (30, 11):  # with a second row for every sub-task, and without
        frame = watched(tape.header, *tape.lines, height=height)
        assert "1/2 accepted unchecked" in line_with("▸ a", frame)
        assert not any("certified" in line for line in frame)
    assert "working · 1/2 accepted unchecked" in page(tape.trajectory(), tmp_path)


def test_plain_lines_have_the_steps_and_calls_of_each_node():
    tape = eventful()
    shown = printed_lines(tape.header, *tape.lines, Footer(ending="limit:calls", usage=Usage(node="all")))[2:]
    counts = [(line[0], re.findall(r"\d+", line.rpartition(":")[0])) for line in shown[1:6]]
    assert counts == [("a", []), ("b", []), ("a", ["1"]), ("b", ["2", "8"]), ("a", ["2", "9"])]
    assert (len(shown), re.findall(r"[\d,]*\d", shown[-1])) == (9, ["1", "3", "0", "5", "28", "3,360"])


@pytest.mark.slow
@pytest.mark.parametrize("size", [(24, 80), (16, 60), (50, 200)])
def test_frame_of_two_hundred_nodes_fits_and_stands_still(size):
    tape, (height, width) = wide(200), size
    counts = (2, 9, 300, len(tape.lines))
    heights = {len(watched(tape.header, *tape.lines[:count], height=height, width=width)) for count in counts}
    assert max(heights) <= height
    assert max(heights) - min(heights) <= 1  # the figures may need a second line
    frame = watched(tape.header, *tape.lines, height=height, width=width)
    assert line_with("▸ n80", frame)
    assert line_with("more above", frame)


@pytest.mark.slow
def test_report_of_two_hundred_nodes_stays_small(tmp_path):
    html = page(wide(200).trajectory("limit:calls"), tmp_path)
    assert len(re.findall('<g class="task', html)) == 200
    assert len(html) < 1_500_000


def boxes(html):
    return re.findall(r'<g class="task (\w+)[^"]*">\s*<title>(\w+),', html)


def test_report_draws_the_graph_and_unfolds_every_node(tmp_path):
    html = page(eventful().trajectory(), tmp_path)
    assert sorted(boxes(html)) == [("certified", "a"), ("gone", "b"), ("target", "c"), ("waiting", "g")]
    assert len(re.findall(r'class="edge ', html)) == 2
    assert re.findall(r'class="subtask (\w+)"', html) == ["certified", "gone", "target", "waiting"]
    assert html.count('<details class="turn') == 5
    assert "<dd>1/3<small>completed, 0 failed" in html


def test_report_has_the_cost_and_the_time_of_every_node(tmp_path):
    html = page(eventful().trajectory(), tmp_path)
    cost = html[html.index("Cost by sub-task") : html.index("Cost by operator")]
    assert re.findall(r"<th>([^<]+)</th><td>(\d+)</td><td>(\d+)</td>", cost) == [
        ("task graph", "0", "6"),
        ("a", "2", "9"),
        ("b", "2", "8"),
        ("g", "0", "0"),
        ("c", "1", "5"),
    ]
    assert "3 nodes worked within" in html


@pytest.mark.parametrize("value", [0.5, 1.0])
def test_the_sub_task_that_settles_a_task_is_marked_if_the_scorer_denies_the_goal(value, tmp_path):
    footer = Footer(ending="goal", scores=Scores(value=value), usage=Usage(node="all"))
    made = small().begin("a").end("a").begin("b").end("b").begin("g").end("g").trajectory()
    html = page(made.model_copy(update={"footer": footer}), tmp_path)
    last = "denied" if value < 1 else "certified"
    assert sorted(boxes(html)) == [("certified", "a"), ("certified", "b"), (last, "g")]
    assert re.findall(r'class="subtask (\w+)"', html) == ["certified", "certified", last]
    assert re.findall(r'class="denial">([^<]*50 of 100)<', html) == re.findall(r'class="denial">([^<]*)<', html)
    assert html.count('class="denial"') == (value < 1)


def test_inner_certificates_are_shown_in_their_node(tmp_path):
    tape = small(solver="sdp").begin("a").at("a", "propose", plan=[{"text": "p"}, {"text": "q"}], head=0)
    html = page(tape.certify("a", 0, "p").trajectory(), tmp_path)
    assert re.findall(r'<li class="row (\w+)', html) == ["certified", "target"]
    assert "working · 1/2 certified" in html


@pytest.mark.slow
def test_a_long_run_has_a_short_timeline(tmp_path):
    tape = small().begin("a")
    for number in range(1_000):
        tape.act("a", f"search {number}")
    (drawing,) = re.findall(r'<svg [^>]*class="timeline".*?</svg>', page(tape.trajectory(), tmp_path), re.DOTALL)
    assert len(drawing) < 15_000


def test_nodes_stand_below_what_they_need():
    sources = [Node(id=name, task="find") for name in "xyz"]
    crossed = [Node(id=f"{need}2", task="tell", needs=(need,)) for need in "zyx"]
    boxes = draw_tasks(read_history(TDPTape(*sources, *crossed).trajectory()).tasks).boxes
    assert all(boxes[f"{need}2"].middle == boxes[need].middle for need in "xyz")
    assert all(boxes[f"{need}2"].y > boxes[need].y + boxes[need].height for need in "xyz")


def test_a_copy_of_the_world_begins_its_episode_after_what_was_repeated():
    tape = small().begin("b", before=3).act("b", "search B", off_plan=True).at("b", "replan", outline=["other"])
    (turn,) = read_history(tape.trajectory()).tasks.nodes["b"].inside.episodes.now.entries()
    assert turn.number == 1
    assert [note.text for note in turn.notes] == ["off plan", "⟲ plan made anew: 1 other"]


def test_a_plan_that_stays_as_it_was_is_not_shown_again():
    tape = small().begin("a").act("a", "search").at("a", "replan", outline=["look for a", "hand it in"])
    (turn,) = read_history(tape.trajectory()).tasks.nodes["a"].inside.episodes.now.entries()
    assert turn.notes == []


def test_everything_from_outside_is_inert(tmp_path):
    tape = TDPTape(Node(id=EVIL, task=EVIL), Node(id="g", task=EVIL, needs=(EVIL,)), goal=EVIL).begin(EVIL)
    tape.act(EVIL, EVIL, EVIL, reason=EVIL, guidance=EVIL, off_plan=True).at(EVIL, "replan", outline=[EVIL])
    tape.end(EVIL, "failed", EVIL).draw("revise", Node(id="g", task=EVIL * 2), revisions=1, notes=[EVIL])
    html = page(tape.trajectory(EVIL), tmp_path)
    assert "<script" not in html
    assert '"onload=' not in html
    assert html.count("&lt;script&gt;") >= 20
    assert not re.search(r"(src|href)=|url\(|@import", html)


def test_long_texts_do_not_displace_the_rest(tmp_path):
    long = "word " * 4_000
    html = page(TDPTape(Node(id=long, task=long), goal=long).begin(long).trajectory(), tmp_path)
    assert len(html) < 60_000
    cost = html[html.index("Cost by sub-task") : html.index("Cost by operator")]
    assert max(map(len, re.findall("<th>([^<]+)</th>", cost))) <= 60


@pytest.mark.parametrize(("value", "ink"), [(0.0, "yellow"), (1.0, "green"), (None, "green")])
def test_a_goal_that_scores_nothing_is_not_praised(value, ink):
    fold, scores = RunHistory(), None if value is None else Scores(value=value)
    for line in (small().header, Footer(ending="goal", usage=Usage(node="all"), scores=scores)):
        fold.take(line)
    assert draw_frame(fold, height=30, steps=None, seconds=0).subtitle.style == f"bold {ink}"


def test_runs_that_were_stopped_early_render(tmp_path):
    header = small().header
    assert "The task was not decomposed." in page(assemble_trajectory([header]), tmp_path)
    assert "No node was dispatched." in page(small().trajectory("error:model"), tmp_path)
    assert line_with("no task graph yet", watched(header))


def test_a_run_begun_again_on_its_thread_has_a_graph_of_its_own():
    tasks = TaskGraph("tdp")
    for line in [*eventful().lines, *small().lines]:
        tasks.fold(line)
    assert [*tasks.nodes] == ["a", "b", "g"]
    assert not tasks.revisions


@pytest.mark.slow
def test_a_real_run_is_watched_and_reported(tmp_path):
    console = Console(record=True, force_terminal=True, width=110, height=40, file=io.StringIO())
    with LiveView(console) as view:
        result = run("tdp", "blocksworld", "4-0", out=tmp_path, listener=view)
    frame = console.export_text()
    frame = frame[frame.rindex("╭") :].splitlines()
    live = len(result.state["dag"].nodes)
    assert line_with(f"sub-tasks {live}/{live}   steps {len(result.state['history'])}", frame)
    html = page(result.trajectory, tmp_path)
    assert len(boxes(html)) == live
    assert html.count("<details") == html.count("</details>")
    assert html.count('<details class="turn') == len(result.state["history"])


@pytest.mark.slow
def test_task_graphs_within_nodes_are_unfolded_there(tmp_path):
    result = run(tdp.build(solve="tdp"), "hotpotqa:interactive", out=tmp_path)
    taken = row_of(result.trajectory).steps
    assert read_history(result.trajectory).tasks.steps == taken
    assert page(result.trajectory, tmp_path).count('<details class="turn') == taken


@pytest.mark.parametrize("graph", ["plan_and_act", "cot"])
def test_outlines_of_one_agent_are_shown(graph, tmp_path):
    console = Console(record=True, force_terminal=True, width=110, height=40, file=io.StringIO())
    with LiveView(console) as view:
        result = run(graph, "blocksworld", "4-0", out=tmp_path, listener=view)
    assert f"▸ 1 {result.state['outline'][0]}" in console.export_text()
    assert "Plan</h3><ol><li>" in page(result.trajectory, tmp_path)


# What the last lines of a run say: what it cost by role, what brought no information, and whether it was lost.


PLAN = [Predicate(text="the door is open"), Predicate(text="the room is warm"), Predicate(text="all is done")]


def event(node, *roles, failed=(), **update):
    """An event of SDP's graph whose requests were sent to models of these roles; those to `failed` had no answer."""
    calls = [{"role": role, "input_tokens": 100, "output_tokens": 20} for role in roles]
    calls += [{"role": role, "failure": "no JSON"} for role in failed]
    usage = Usage(node=node, calls=len(calls), input_tokens=100 * len(roles), output_tokens=20 * len(roles))
    return Event(t=0.0, superstep=1, node=node, usage=usage, calls=calls, update=update)


def taken(text, **seen):
    step = Step(action=Action(text=text), digest="d").as_json()
    return event("act", history=[step], observation=Observation(**({"text": "done"} | seen)).as_json())


def judged(*roles, position=0, **verdict):
    attempt = Attempt(
        position=position,
        target=PLAN[position],
        action=Action(text="go"),
        digest="d",
        verdict=Verdict(**({"depth": 0} | verdict)),
    )
    return event("validate", *roles, attempts=[attempt.as_json()])


def certified(*steps):
    records = [
        Certificate(step=step, position=n, targets=(PLAN[n],), action=Action(text="go"), digest="d").as_json()
        for n, step in enumerate(steps)
    ]
    return event("certify", certificates=records, head=len(records))


def sdp_lines(*events, ending="world_ended", value=0.58):
    first = EpisodeTape("sdp")
    planned = event("propose", "planner", plan=[one.as_json() for one in PLAN], head=0)
    ended = Footer(ending=ending, scores=Scores(value=value), usage=Usage(node="all"))
    return [first.header, planned, *events, ended]


FATAL = {"reward": -1.58, "done": True, "data": {"score": -100, "ended": "failed"}}


def test_the_last_lines_say_what_a_run_cost_by_role_and_what_brought_no_information():
    events = [event("realize", "executor", "executor", failed=["executor"]), taken("a"), judged("validator")]
    *_, empty, ended = printed_lines(*sdp_lines(*events, ending="gave_up"))
    assert empty == (
        "calls without information: 2 of 5 (40 %): 1 verdict that changed nothing, 1 request without a usable answer"
    )
    assert ended.endswith(", 1 step, 5 calls (planner 1, executor 3, validator 1), 480 tokens")
    frame = watched(*sdp_lines(*events, ending="gave_up"))
    shown = " ".join("".join(frame).replace("│", "").split())
    assert "calls 5 (planner 1, executor 3, validator 1) without information 2 (1 verdict that changed" in shown
    one_role = printed_lines(*sdp_lines(taken("a"), ending="gave_up"))
    assert not any("without information" in line for line in one_role)
    assert "1 calls, 120 tokens" in one_role[-1]


def test_a_resume_counts_calls_once_and_pays_for_those_it_repeats():
    first, *rest, ended = sdp_lines(event("realize", "executor"), taken("a"), judged("validator"))
    again = [one.model_copy(update={"superstep": number}) for number, one in enumerate(rest, 1)]
    lines = [first, *again, Resumed(superstep=3), again[-1], ended]
    live, whole = RunHistory(), read_history(assemble_trajectory(lines))
    for line in lines:
        live.take(line)
    for run_history in (live, whole):
        assert {role: cost.calls for role, cost in run_history.roles.items()} == {
            "planner": 1,
            "executor": 1,
            "validator": 2,
        }
        assert run_history.empty.verdicts == 1


def test_a_lost_run_says_so_with_its_score_and_what_it_certified():
    lost = sdp_lines(taken("a"), judged(depth=1), certified(1), taken("b", **FATAL), judged(position=1))
    assert printed_lines(*lost)[-1].startswith(
        "ended world_ended, score 58 of 100 (lost: the world ended at -100), 1/3 certified, 2 steps, "
    )
    assert "world_ended · score 58 of 100 · lost: the world ended at -100" in watched(*lost)[-1]
    ended = sdp_lines(taken("a", done=True, data={"ended": "moves"}))
    assert "score 58 of 100 (the world ended without the goal: moves), 0/3" in printed_lines(*ended)[-1]
    solved = sdp_lines(taken("a", **FATAL | {"solved": True}), ending="goal", value=1.0)
    assert "the world ended" not in printed_lines(*solved)[-1]
    before = RunHistory()
    for line in lost[:-1]:
        before.take(line)
    assert before.loss == ""


def test_a_certificate_that_was_found_later_says_since_when_it_held():
    later = [taken("a"), judged(pending=True), taken("b"), judged(pending=True), taken("c"), judged(depth=2)]
    lines = printed_lines(*sdp_lines(*later, certified(1, 3)))
    assert "step 3: certified 1/3, held since step 1: the door is open" in lines
    assert "step 3: certified 2/3: the room is warm" in lines
    row = line_with("the door is open", watched(*sdp_lines(*later, certified(1, 3))))
    assert "step 1" in row
    passed = certified(1, 3)
    passed.update["certificates"][0]["forced"] = "skipped"  # nobody found that it held
    lines = printed_lines(*sdp_lines(*later, passed))
    assert [line for line in lines if "the door is open" in line] == [
        "step 3: passed, uncertified (skipped): the door is open"
    ]


def test_an_action_that_nobody_judged_is_not_shown_as_tried_or_rejected():
    reason = "Which door?"
    lines = sdp_lines(taken("a"), judged(reason=reason, pending=True), taken("b"), judged(pending=True))
    frame = watched(*lines[:-1])
    assert not any(reason in line or "tried" in line for line in frame)
    refused = watched(*lines[:-1], taken("c"), judged(reason="it is closed"))
    assert "1 tried" in line_with("the door is open", refused) and line_with("it is closed", refused)


def test_the_subtask_that_the_goal_ended_has_the_mark_of_a_completed_one():
    for ending, mark in (("goal", "✓"), ("gave_up", "▸")):
        tape = EpisodeTape().episode().plan("heat it").act("turn on stove", 100).conclude(ending)
        trajectory = tape.trajectory(ending)
        assert mark in line_with("heat it", watched(tape.header, *tape.lines, trajectory.footer))

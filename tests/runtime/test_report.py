"""Tests of `runtime.report`."""

import io
import re
import sys
from pathlib import Path

import pytest
from helpers.files.product import product_files
from helpers.sample_runs.effect_runs import EffectTape, do, look
from helpers.sample_runs.episode_tape import EpisodeTape, two_episodes
from helpers.web.browser_pages import boxes_that_overflow, layout_at, needs_browser
from helpers.worlds.library_world import LibraryBenchmark, ScriptedModel, same_passages, same_search
from rich.console import Console

from certigraph.adapters.models.scripts import IMPOSSIBLE_PREFIX, ScriptedChat
from certigraph.adapters.protocols import Context
from certigraph.graphs import pbai, sdp, tdp
from certigraph.graphs.tdp import solve
from certigraph.nodes.goal_checks import world_check
from certigraph.nodes.sdp import always_pass, capped
from certigraph.runtime.history import PlanHistory, read_history
from certigraph.runtime.live import LiveView
from certigraph.runtime.report import write_report
from certigraph.runtime.run import run
from certigraph.runtime.texts import format_compact, format_duration
from certigraph.state.certified_states import certified_state, valid_certificates
from certigraph.state.records import (
    RESTORE,
    Action,
    Attempt,
    Audit,
    Certificate,
    Invalidation,
    Observation,
    Predicate,
    Scores,
    Step,
    Task,
    Usage,
    Verdict,
)
from certigraph.state.run import finish
from certigraph.state.trajectory import Event, Footer, Header, Resumed, assemble_trajectory

EVIL = '<script>alert(1)</script>"onload="alert(2)\' &amp;'


def header(goal="reach the end", **changes):
    fields = {"operators": {"validate": {"name": "capped", "args": {"depth": 1}}}, "context": {"model": "scripted:x"}}
    task = Task(benchmark="toy", id="1", goal=goal)
    return Header(run_id="r", created="2026-01-01T00:00:00", graph="sdp", task=task, versions={}, **(fields | changes))


class Tape:
    """Hand-made trajectory lines of a run."""

    def __init__(self, *texts):
        self.lines, self.head, self.steps = [], 0, 0
        self.plan = [text if isinstance(text, Predicate) else Predicate(text=text) for text in texts]
        self.event("propose", plan=[p.as_json() for p in self.plan], head=0)

    def event(self, node, **update):
        usage = Usage(node=node, calls=1, input_tokens=10, output_tokens=2, cached_tokens=4, seconds=0.5)
        self.lines.append(Event(t=0.0, superstep=len(self.lines) + 1, node=node, usage=usage, update=update))

    def attempt(self, depth, action="go", reason="not yet", answer="a view", looked=False, pending=False, **seen):
        self.steps += 1
        verdict = Verdict(depth=depth, reason=reason, looked=looked, pending=pending)
        attempt = Attempt(
            position=self.head, target=self.plan[self.head], action=Action(text=action), digest="d", verdict=verdict
        )
        step, seen = Step(action=Action(text=action), digest="d"), {"data": {"cost": 7}} | seen
        self.event("act", history=[step.as_json()], observation=Observation(text=answer, **seen).as_json())
        self.event("validate", attempts=[attempt.as_json()])
        if depth:
            self.certify(depth, action)
        return self

    def certify(self, depth, action, restores=None, step=None, **basis):
        targets = tuple(self.plan[self.head : self.head + depth])
        certificate = Certificate(
            step=step or self.steps,
            position=self.head,
            targets=targets,
            action=Action(text=action),
            digest="d",
            restores=restores,
            **basis,
        )
        self.head += depth
        self.event("certify", certificates=[certificate.as_json()], head=self.head)
        return self

    def replan(self, *tail):
        self.plan = [*self.plan[: self.head], *tail]
        self.event("replan", **({"plan": [p.as_json() for p in self.plan]} if tail else {}))
        return self

    def invalidate(self, certificate, target=0):
        predicate = self.plan[certificate]
        lost = Invalidation(certificate=certificate, target=target, predicate=predicate, step=self.steps)
        self.event("revalidate", invalidations=[lost.as_json()])
        return self

    def trajectory(self, ending=None, scores=None, **changes):
        footer = [Footer(ending=ending, scores=scores, usage=Usage(node="all"))] if ending else []
        return assemble_trajectory([header(**changes), *self.lines, *footer])


def page(trajectory, tmp_path):
    return write_report(trajectory, tmp_path / "report.html").read_text(encoding="utf-8")


def tones(html):
    return re.findall(r'<details class="try (\w+)"', html)


def rows(html):
    return re.findall(r'<li class="row (\w+)', html)


def test_everything_from_outside_is_inert(tmp_path):
    tape = Tape(EVIL, "b").attempt(0, EVIL, EVIL, EVIL).attempt(1, EVIL, EVIL, EVIL).attempt(0, EVIL, EVIL)
    scores = Scores(value=0.5, parts={EVIL: 0.5}, answer=[{EVIL: EVIL}])
    html = page(tape.trajectory(EVIL, scores, goal=EVIL, context={"model": EVIL}), tmp_path)
    assert "<script" not in html
    assert '"onload=' not in html
    assert html.count("&lt;script&gt;") >= 10
    assert "&amp;amp;" in html  # text that looks escaped is shown as it was written


def test_page_stands_alone(tmp_path):
    html = page(Tape("a").attempt(1).trajectory("goal"), tmp_path)
    assert not re.search(r"(src|href)=|url\(|@import|<script", html)
    assert "default-src 'none'" in html
    assert "prefers-color-scheme: dark" in html


@pytest.mark.parametrize("graph", ["sdp", "react", "tdp", "step"])
def test_writing_a_report_enters_few_files(graph, tmp_path):
    result = run(graph, "blocksworld", "4-0", out=tmp_path)
    write_report(result)  # imports and compiles what the next call finds
    entered = set[Path]()

    def note(frame, event, _):
        if event == "call":
            entered.add(Path(frame.f_code.co_filename).resolve())

    sys.setprofile(note)
    try:
        write_report(result)
    finally:
        sys.setprofile(None)
    own = entered.intersection(product_files())
    # with effects, which say what brought a certificate about, and with the arguments of operators
    assert 1 < len(own) <= 12, own


@pytest.mark.slow
@needs_browser
@pytest.mark.parametrize("width", [400, 1600])
@pytest.mark.parametrize("graph", ["sdp", "tdp", "step", "clin"])
def test_a_report_fits_its_window(graph, width, tmp_path):
    result = run(graph, "blocksworld", "6-2", context=Context(model="simulated:seed=0"), out=tmp_path)
    html = write_report(result).read_text(encoding="utf-8").replace("<details>", "<details open>")
    assert layout_at(width, html, tmp_path).width <= width


def test_a_certificate_shows_who_decided_and_on_what_evidence(tmp_path):
    tape = Tape("a", "b", "c", "d", "e")
    tape.steps = 1
    tape.certify(1, "go", decided_by="code", evidence="row 17")
    tape.certify(2, "go", decided_by="code and model", evidence="row 18")
    tape.certify(1, "go", decided_by="model", evidence=EVIL).certify(1, "go", forced="always_pass", decided_by="model")
    html = page(tape.trajectory("goal"), tmp_path)
    assert html.count('<p class="basis"><b>') == 3  # what passed uncertified has no decision
    assert re.search(r"decided by code</b>\s*row 17", html)
    assert re.search(r"some decided by code, the others by a model</b>\s*row 18", html)
    assert "<script" not in html


def test_the_error_rates_of_a_simulated_agent_are_shown(tmp_path):
    context = Context(model="simulated", roles={"validator": "simulated:accept=0.25"})
    html = page(run("sdp:paper", "blocksworld", "3-0", context=context, out=tmp_path).trajectory, tmp_path)
    [rates] = re.findall("<b>error rates</b> ([^<]*)", html)
    assert {"10", "20", "25"} <= {*re.findall(r"\d+", rates)}
    assert "error rates" not in page(Tape("a").trajectory("gave_up"), tmp_path)


@pytest.mark.parametrize(
    ("model", "roles", "decider"),
    [
        ("simulated", {}, "decided by a simulated validator"),
        ("openai:m", {"validator": "simulated:accept=0.2"}, "decided by a simulated validator"),
        ("simulated", {"validator": "openai:m"}, "decided by a model"),
        ("simulations", {}, "decided by a model"),
    ],
)
def test_a_simulated_validator_is_not_called_a_model(model, roles, decider, tmp_path):
    tape = Tape("a")
    tape.steps = 1
    tape.certify(1, "go", decided_by="model")
    html = page(tape.trajectory("goal", context={"model": model, "roles": roles}), tmp_path)
    assert re.findall(r'<p class="basis"><b>([^<]+)</b>', html) == [decider]


def test_a_condition_that_a_simulated_agent_made_up_is_marked(tmp_path):
    html = page(Tape("a", f"{IMPOSSIBLE_PREFIX} (2).", "b").attempt(1).trajectory("gave_up"), tmp_path)
    assert ["injected error" in row for row in html.split('<li class="row')[1:]] == [False, True, False]


@pytest.mark.parametrize(
    ("graph", "badge"),
    [
        (sdp.build(validate=always_pass), "goal accepted unchecked"),
        (sdp.build(validate=capped(always_pass, depth=1)), "goal accepted unchecked"),
        (tdp.build(solve=solve(graph="sdp", validate=always_pass)), "task graph completed"),
        (sdp.build(validate=always_pass, audit=world_check()), "goal certified"),  # the audit checks the goal
    ],
)
def test_a_validator_that_looks_at_nothing_is_named(graph, badge, tmp_path):
    html = page(run(graph, "blocksworld", "4-0", out=tmp_path).trajectory, tmp_path)
    assert badge in html
    assert ("goal certified" in html) == (badge == "goal certified")
    assert "always_pass" in re.findall(r'<p class="message">(.*?)</p>', html)[0]


def test_failed_run_shows_where_it_failed_and_what_was_never_reached(tmp_path):
    tape = Tape("a", "b", "c", "d").attempt(2).attempt(0, reason="too dear").attempt(0).attempt(0).replan()
    html = page(tape.trajectory("gave_up"), tmp_path)
    assert rows(html) == ["certified", "certified", "failed", "waiting"]
    assert tones(html) == ["open", "open", "last"] and "too dear" in html
    assert "0 replans (1 gave up)" in html


@pytest.mark.parametrize("ending", ["world_ended", "gave_up", "limit:steps"])
def test_a_solved_run_that_did_not_certify_its_goal_shows_no_failure(ending, tmp_path):
    run_so_far = Tape("a", "b").attempt(1).attempt(0, reason="no").trajectory(ending)
    footer = run_so_far.footer.model_copy(update={"scores": Scores(value=1.0)})
    html = page(run_so_far.model_copy(update={"footer": footer}), tmp_path)
    assert re.findall(r'<span class="badge (\w+)">', html)[0] == "good"
    assert rows(html) == ["certified", "waiting"]


def test_return_to_an_earlier_state_takes_certificates_back(tmp_path):
    tape = Tape("a", "b", "c").attempt(1).attempt(1).attempt(0)
    back = Predicate(text="as before", kind=RESTORE, args={"to": 1})
    tape.replan(back, Predicate(text="b again"), Predicate(text="c")).certify(1, "undo", restores=1).attempt(1)
    trajectory = tape.trajectory("limit:calls")
    story, state = read_history(trajectory), trajectory.state()
    assert [row.status for row in story.rows] == ["certified", "undone", "restored", "certified", "target"]
    assert story.plan.in_force == len(certified_state(state["certificates"]).predicates)
    assert story.plan.curve == [(1, 1), (2, 2), (3, 1), (4, 2)]


def test_a_return_takes_invalidations_back_with_the_state(tmp_path):
    tape = Tape("a", "b", "c").attempt(1).attempt(0).invalidate(0).attempt(1).attempt(0)
    back = Predicate(text="as at first", kind=RESTORE, args={"to": 1})
    tape.replan(back, Predicate(text="b again"), Predicate(text="c"))
    tape.steps += 1
    tape.certify(1, "undo", restores=1)
    story = read_history(tape.trajectory("limit:calls"))
    assert [row.status for row in story.rows] == ["certified", "undone", "restored", "target", "waiting"]
    assert story.plan.curve == [(1, 1), (3, 1), (5, 1)]


def test_an_attempt_that_was_judged_to_hold_and_not_certified_is_shown(tmp_path):
    tape = Tape("a", "b").attempt(1, "first").attempt(1, "claim", reason="it holds")
    del tape.lines[-1]
    tape.head -= 1
    audit = Audit(confirmed=False, reason="not there", step=2)
    tape.event("audit", audits=[audit.as_json()])
    tape.replan(Predicate(text="b")).attempt(1, "last")
    html = page(tape.trajectory("goal"), tmp_path)
    assert re.findall(r'<span class="action">(\w+)</span>', html) == ["claim"]
    assert "judged to hold, but not certified" in html
    assert "it holds" not in html
    assert "attempt without a certificate" in html


@pytest.mark.parametrize(("looked", "missed"), [(True, 0), (False, 1)])
def test_an_attempt_that_only_looked_is_not_a_miss(looked, missed, tmp_path):
    tape = Tape("a").attempt(0, "look", looked=looked).attempt(1, "go")
    html = page(tape.trajectory("goal"), tmp_path)
    assert "look" in re.findall(r'<span class="action">(\w+)</span>', html)
    assert html.count("attempt without a certificate") == missed
    assert tones(html) == (["open"] if missed else ["looked"])


@pytest.mark.parametrize("value", [0.5, 1.0])
@pytest.mark.parametrize("depths", [(1, 1), (2,)])
def test_the_goal_is_marked_where_it_was_certified_if_the_scorer_denies_it(depths, value, tmp_path):
    tape = Tape("a", "b")
    for depth in depths:
        tape.attempt(depth, reason="it looks done")
    html = page(tape.trajectory("goal", Scores(value=value)), tmp_path)
    shown = re.findall(r'<p class="how denial">(.*?)</p>', html)
    assert rows(html) == ["certified", "denied" if value < 1 else "certified"]
    assert len(shown) == (value < 1)
    assert all("50 of 100" in text and "it looks done" in text for text in shown)


def test_an_audit_that_denies_the_goal_stands_out_with_its_reason(tmp_path):
    tape = Tape("a")
    for confirmed, reason in ((False, "not there"), (True, "it is there")):
        tape.event("audit", audits=[Audit(confirmed=confirmed, reason=reason, step=1).as_json()])
    html = page(tape.attempt(1).trajectory("goal"), tmp_path)
    [denied] = re.findall(r'<p class="replan denial">(.*?)</p>', html)
    assert "denied: not there" in denied


def test_interrupted_run_renders(tmp_path):
    html = page(Tape("a", "b").attempt(1).trajectory(), tmp_path)
    assert rows(html) == ["certified", "target"]
    assert '<span class="badge idle">interrupted</span>' in html
    assert "No predicate was proposed." in page(assemble_trajectory([header()]), tmp_path)


def test_graph_without_plan_and_head_shows_certificates_and_attempts(tmp_path):
    tape = Tape("a", "b").attempt(1).attempt(0)
    without = [
        line.model_copy(update={"update": {k: v for k, v in line.update.items() if k not in ("plan", "head")}})
        for line in tape.lines
    ]
    html = page(assemble_trajectory([header(), *without, Footer(ending="gave_up", usage=Usage(node="all"))]), tmp_path)
    assert rows(html) == ["certified", "failed"]


def test_superseded_work_is_paid_but_not_shown(tmp_path):
    tape = Tape("a").attempt(1)
    html = page(assemble_trajectory([header(), *tape.lines, Resumed(superstep=1)]), tmp_path)
    assert rows(html) == ["target"]
    assert "1 node execution, 3 calls made again" in html
    assert "<dd>4<small>" in html


def test_scores_tell_verdicts_from_amounts_and_the_answer_is_a_table(tmp_path):
    parts = {"Budget": 1.0, "Cuisine": 0.0, "Room Type": None, "cost": 1786.0, "malformed": 0.0}
    answer = [{"days": 1, "dinner": "-", "lunch": "A, X;B, Y"}, {"days": 2, "dinner": "C, Z"}]
    html = page(Tape("a").attempt(0).trajectory("gave_up", Scores(value=0.0, parts=parts, answer=answer)), tmp_path)
    assert re.findall(r'<li class="(pass|fail|unasked|amount)"', html) == ["pass", "fail", "unasked", *["amount"] * 2]
    assert "<div>A, X</div><div>B, Y</div>" in html


@pytest.mark.slow
def test_standing_of_long_runs_with_many_returns_is_fast():
    restored = [*[None] * 20_000, 10_000, None]
    expected, plan = {*range(10_000), 20_001}, PlanHistory()
    assert valid_certificates(restored) == expected
    targets = (Predicate(text="p"),)
    one = Certificate(step=1, position=0, targets=targets, action=Action(text="a"), digest="d").as_json()
    certificates = [one if state is None else {**one, "restores": state} for state in restored]
    plan.fold(
        Event(t=0.0, superstep=1, node="certify", usage=Usage(node="certify"), update={"certificates": certificates})
    )
    assert plan.valid_indices() == expected


@pytest.mark.parametrize(
    ("shown", "expected"),
    [
        (format_compact(1_234_567), "1.23M"),
        (format_compact(999), "999"),
        (format_duration(0.25), "250 ms"),
        (format_duration(3_700), "1 h 01 min"),
    ],
)
def test_figures_are_short(shown, expected):
    assert shown == expected


def subtasks(html):
    return re.findall(r'class="subtask (\w+)".*?class="condition">([^<]+)<', html)


def test_episodes_hold_their_subtasks_turns_refusals_and_lessons(tmp_path):
    html = page(two_episodes().trajectory("limit:calls"), tmp_path)
    assert re.findall(r"<b>(Episode \d)</b>", html) == ["Episode 1", "Episode 2"]
    assert subtasks(html) == [
        ("certified", "find the kitchen"),
        ("failed", "fill a pot"),
        ("certified", "fill the pot"),
        ("target", "heat it"),
    ]
    assert re.findall(r'class="points \w+">([^<]+)<', html) == ["+8", "+8", "-108", "-108", "+25", "+25", "+15", "+15"]
    assert html.count('<div class="refused">') == 1
    assert html.count("rule</span>") == 1
    assert "<dd>40<small>of 100, in 2 episodes" in html
    assert "<dd>2<small>completed, 1 failed" in html


def test_score_drawing_has_one_line_an_episode_and_space_for_fatal_mistakes(tmp_path):
    html = page(two_episodes().trajectory("limit:calls"), tmp_path)
    lines = re.findall(r'<path d="([^"]+)" class="score (ink\d)"', html)
    assert [(ink, d.count("H")) for d, ink in lines] == [("ink0", 3), ("ink1", 2)]
    heights = [float(y) for d, _ in lines for y in re.findall(r"V([\d.]+)", d)]
    assert max(heights) <= 140.0
    assert heights.index(max(heights)) == 2
    assert ">-100</text>" in html


def test_everything_from_outside_is_inert_in_episodes(tmp_path):
    tape = EpisodeTape(goal=EVIL).episode().plan(EVIL).refuse(EVIL, EVIL).act(EVIL, 10, EVIL, EVIL)
    tape.assess("failed", EVIL).conclude(EVIL, insights=(EVIL,), strategy=(EVIL,), reflection=EVIL)
    html = page(tape.event("outline", outline=[EVIL]).trajectory(EVIL), tmp_path)
    assert "<script" not in html
    assert '"onload=' not in html
    assert html.count("&lt;script&gt;") >= 14
    assert not re.search(r"(src|href)=|url\(|@import", html)


@pytest.mark.parametrize("graph", ["react", "plan_and_solve", "reflexion", "clin", "step"])
def test_reports_of_real_runs_without_predicates(graph, tmp_path):
    # only a memory that runs share is written after the last episode
    result = run(graph, "blocksworld", "4-0", context=Context(memory="ours"), out=tmp_path)
    html = page(result.trajectory, tmp_path)
    assert "goal reached" in html
    assert "<dd>100<small>of 100, in 1 episode" in html
    assert html.count('<details class="turn') == len(result.state["turns"])
    assert html.count("<details") == html.count("</details>")
    assert ("Lesson</h3>" in html) == (graph in ("reflexion", "clin", "step"))
    assert ("Plan</h3>" in html) == (graph == "plan_and_solve")
    assert len(subtasks(html)) == (len(result.state["subtasks"]) + 1 if graph == "step" else 0)


def test_a_search_shows_what_its_belief_took_up_and_what_the_gate_decided(tmp_path):
    facts = [{"fact": "Osk is a lake", "source": "Osk"}]
    reply = lambda prompt, times: {  # noqa: E731
        "facts": facts if times == 0 else [],
        "resolved": ["which river?"] if times == 1 else [],
        "questions": ["which river?"] if times == 0 else [EVIL],
    }
    scripted_model = ScriptedModel(tool=same_search, facts=reply, answer={"answer": "Ada"})
    context, plain = Context(chat=ScriptedChat(responder=scripted_model)), Console(width=300, file=io.StringIO())
    watch = LiveView(plain)
    result = run(pbai.build(), LibraryBenchmark(same_passages), context=context, out=tmp_path, listener=watch)
    assert re.findall(r"step (\d+): gate: .*?(\d)", plain.file.getvalue())[-2:] == [("2", "1"), ("3", "2")]
    html = page(result.trajectory, tmp_path)
    shown = re.findall(r'<span class="round(?: gate)?">(.*?)</span>', html)
    assert shown[:2] == ["+ Osk is a lake (Osk)", "? which river?"]
    assert next(text for text in shown if "gate" in text) == "gate: stagnant, 1 in a row"
    assert any(text.startswith("gate: stop; 2 rounds in a row") for text in shown)
    assert "✓ which river?" in shown
    assert "<script" not in html


def test_unknown_graph_that_takes_turns_is_shown_by_its_episodes(tmp_path):
    episodes = read_history(EpisodeTape("mine").episode().act("go", 5).trajectory()).episodes
    assert episodes.acting
    assert [episode.scores for episode in episodes.all] == [[5.0]]


def test_planned_run_gets_a_score_line_only_where_the_world_reports_one(tmp_path):
    tape = Tape("a").attempt(1)
    assert "Score by step" not in page(tape.trajectory("goal"), tmp_path)
    act = next(line for line in tape.lines if line.node == "act")
    act.update["observation"]["data"]["score"] = 17
    html = page(tape.trajectory("goal"), tmp_path)
    assert "Score by step" in html
    assert "episode 1 ended at 17 after 1" in html


@pytest.mark.parametrize(
    ("ending", "value", "badge"),
    [
        ("world_ended", 1.0, ("good", "answered")),
        ("world_ended", 0.5, ("idle", "answered")),
        ("limit:steps", 1.0, ("good", "stopped: limit:steps")),
        ("limit:steps", 0.0, ("idle", "stopped: limit:steps")),
        ("goal", 0.0, ("bad", "goal reached, denied by the scorer")),
    ],
)
def test_a_solved_run_is_green_whatever_ended_it(ending, value, badge, tmp_path):
    run_so_far = EpisodeTape("react").episode().act("answer").trajectory(ending)
    footer = run_so_far.footer.model_copy(update={"scores": Scores(value=value, answer="Ada")})
    html = page(run_so_far.model_copy(update={"footer": footer}), tmp_path)
    assert re.findall(r'<span class="badge (\w+)">([^<]+)</span>', html)[0] == badge


# Runs over tools: effects, and what is red.


def effects_in(html):
    """Of each effect its CSS class, its call and the points below it."""
    parts = re.findall(r'<li class="effect (\w+)">(.*?)</li>', html, re.DOTALL)
    return [
        (
            look,
            text_of(re.findall(r'class="call">(.*?)</span>', text)[0]),
            dict(re.findall(r"<p class=\"point\"><b>(\w+)</b>(.*?)</p>", text)),
        )
        for look, text in parts
    ]


def text_of(html):
    return re.sub(r"<[^>]*>", "", html)


def a_run_over_tools():
    tape = EffectTape("the refund is made", "the ticket is closed")
    denied = do("refund", "The call was not made.", order=1).model_copy(update={"made": False, "failed": True})
    tape.check("refund", "forbidden", args={"order": 1}, rule="no refund twice", next="close it").act(denied)
    tape.judge(0, "refused", decided_by="code")
    tape.check("refund", args={"order": 2}, decided_by="code").act(do("refund", "paid", order=2), approved=True)
    tape.judge(0, "it is not closed")
    tape.act(do("mail", "no answer", failed=True)).judge(0, "no mail went out")
    return tape.act(do("close", "closed")).judge(1, decided_by="code").act(do("mail", "sent"))


def test_each_effect_has_its_check_its_answer_and_what_covers_it(tmp_path):
    html = page(a_run_over_tools().trajectory("goal"), tmp_path)
    refund, lost, close, mail, denied = effects_in(html)
    assert (refund[0], refund[1]) == ("certified", "refund(order=2)")
    assert (text_of(refund[2]["check"]), refund[2]["answer"]) == ("allowed by code, approved by a person", "paid")
    assert 'href="#certificate-0"' in refund[2]["certificate"] and html.count('id="certificate-0"') == 1
    assert (lost[0], lost[2]["error"], text_of(lost[2]["certificate"])) == ("failed", "no answer", "not covered")
    assert (close[0], text_of(close[2]["certificate"])) == ("certified", "the refund is made")
    assert (mail[0], mail[2]["check"], text_of(mail[2]["certificate"])) == ("waiting", "not checked", "not covered")
    assert denied[0] == "failed"
    assert denied[2] == {"check": "forbidden by a model: no refund twice", "instead": "close it"}
    assert "4 lasting calls, 2 covered by a certificate, 2 not covered, 1 refused before being made" in html


def test_a_run_without_lasting_calls_has_no_box_of_effects(tmp_path):
    assert "<h2>Effects</h2>" in page(EffectTape("a").act(do("refund")).trajectory("goal"), tmp_path)
    assert "<h2>Effects</h2>" not in page(EffectTape("a").act(look("read", "x")).trajectory("goal"), tmp_path)


def test_an_attempt_whose_calls_took_effect_is_never_red(tmp_path):
    tape = EffectTape("a").act(do("refund")).judge(0, "more is needed")
    html = page(tape.act(do("mail")).judge(0, "more is needed").trajectory("gave_up"), tmp_path)
    assert tones(html) == ["open", "open"]
    assert rows(html) == ["failed"]  # the verdict that the goal is not reached at the end stays
    failing = EffectTape("a").act(do("refund", "no", failed=True)).judge(0).act(do("refund")).judge(0)
    assert tones(page(failing.trajectory("gave_up"), tmp_path)) == ["failing", "open"]


def test_a_pending_verdict_is_no_attempt_in_vain(tmp_path):
    tape = EffectTape("a").act(do("refund")).judge(0, pending=True, decided_by="").act(do("close")).judge(1)
    html = page(tape.trajectory("goal"), tmp_path)
    assert tones(html) == ["led"] and "the target does not hold" not in html and 'class="reason"' not in html
    assert "attempt without a certificate" not in html


def test_an_action_that_nobody_judged_is_red_only_if_the_world_refused_it(tmp_path):
    def shown(ending, **refusal):
        tape = Tape("a").attempt(0, reason="", pending=True, **refusal)
        html = page(tape.trajectory(ending), tmp_path)
        assert "the target does not hold" not in html
        return rows(html), tones(html), re.findall(r'<span class="(unjudged|reason)">\s*(.*?)\s*</span>', html)

    unjudged = [("unjudged", "not judged")]
    assert shown("gave_up") == (["failed"], ["looked"], unjudged)
    assert shown("limit:steps") == (["target"], ["looked"], unjudged)
    assert shown("gave_up", accepted=False) == (["failed"], ["failing"], unjudged)
    unanswered = page(Tape("a").attempt(0, reason="Which door?", pending=True).trajectory("gave_up"), tmp_path)
    assert "not judged: Which door?" in unanswered


def test_judged_actions_among_others_give_the_reason(tmp_path):
    tape = Tape("a").attempt(0, reason="too dear")
    for _ in range(3):
        tape.attempt(0, reason="", pending=True)
    html = page(tape.trajectory("gave_up"), tmp_path)
    [summary] = re.findall(r'<details class="many \w+"><summary>(.*?)</summary>', html, re.DOTALL)
    assert text_of(summary) == "4 actions, 1 attempt without a certificate among themtoo dear"


def test_a_certificate_stands_at_the_action_that_it_names(tmp_path):
    """Actions that nobody judged belong to the certificate that they brought about, with the world's answers."""
    tape = Tape("a", "b", "c")
    for number in range(1, 5):
        tape.attempt(0, f"action {number}", reason="", pending=True, answer=f"answer {number}")
    tape.attempt(0, "claim", reason="", pending=True, answer="answer 5")
    tape.certify(1, "action 2", step=2).certify(1, "action 4", step=4).certify(1, "claim")
    story = read_history(tape.trajectory("goal"))
    led = [[attempt and attempt.attempt.action.text for _, attempt in row.brought_by] for row in story.rows]
    assert led == [["action 1", "action 2"], ["action 3", "action 4"], ["claim"]]
    assert [row.answer for row in story.rows] == ["answer 2", "answer 4", "answer 5"]
    assert story.plan.curve == [(2, 1), (4, 2), (5, 3)]
    html = page(tape.trajectory("goal"), tmp_path)
    whens = [text_of(text) for text in re.findall(r'<span class="when">(.*?)</span>', html)]
    assert [text for text in whens if "held" in text] == [f"held since step {n}, found at step 5" for n in (2, 4)]
    assert tones(html) == ["led", "led"] and "not judged" not in html


def test_a_second_certificate_of_one_step_shows_that_step_alone():
    tape = Tape("a", "b").attempt(0, "first", pending=True).attempt(0, "second", pending=True)
    story = read_history(tape.certify(1, "second").certify(1, "second").trajectory("goal"))
    shown = [[action.text for action, _ in row.brought_by] for row in story.rows]
    assert shown == [["first", "second"], ["second"]]


def test_what_certificates_of_one_verdict_cost_is_divided_over_their_predicates():
    tape = Tape("a", "b", "c").attempt(0, pending=True).attempt(0, pending=True)
    targets = tape.plan
    step = {"action": Action(text="go"), "digest": "d"}
    records = [
        Certificate(step=1, position=0, targets=tuple(targets[:1]), **step).as_json(),
        Certificate(step=2, position=1, targets=tuple(targets[1:]), **step).as_json(),
    ]
    tape.event("certify", certificates=records, head=3)
    costs = [entry.cost for entry in read_history(tape.trajectory("goal")).plan.certificates]
    first, second = map(list, costs)
    assert first == pytest.approx([2 / 3, 5 / 3, 20]) and second == pytest.approx([2 * amount for amount in first])


def test_only_judged_attempts_at_a_predicate_count_as_rejected():
    tape = Tape("a").attempt(0, pending=True).attempt(0).attempt(0, looked=True).attempt(1)
    [entry] = read_history(tape.trajectory("goal")).plan.certificates
    assert (entry.rejected, entry.tried) == (1, 4)


@pytest.mark.parametrize("alone", [True, False])
def test_the_goal_shows_what_the_world_reports(alone, tmp_path):
    tape = Tape("a", Predicate(text="the task is done", kind="goal"))
    if alone:
        tape.attempt(1)
    report = {"solved": True, "done": True, "data": {"goal": "Score: 100 of 100."}}
    tape.attempt(1 if alone else 2, answer="You wait.", **report)
    html = page(tape.trajectory("goal"), tmp_path)
    assert re.findall(r"<b>the world reports</b>(.*?)</p>", html) == ["Score: 100 of 100."]


def test_a_certificate_shows_the_actions_since_the_one_before(tmp_path):
    html = page(a_run_over_tools().trajectory("goal"), tmp_path)
    shown = [text.strip() for text in re.findall(r'<p class="how[^"]*">(.*?)<', html)]
    assert shown == ["brought about by", "refund(order=2)", "and then close()"]


def test_a_certificate_of_an_agent_without_a_plan_is_shown(tmp_path):
    tape = EffectTape(graph="react").act(do("refund", "paid"))
    tape.plan = [Predicate(text="the task is done", kind="goal")]
    tape.event("decide", turns=[]).certify(1, Verdict(depth=1, calls=(1,), decided_by="model"))
    html = page(tape.trajectory("goal"), tmp_path)
    assert "goal certified" in html and rows(html) == ["certified"]
    assert 'href="#certificate-0"' in effects_in(html)[0][2]["certificate"]


def test_everything_from_outside_is_inert_in_effects(tmp_path):
    tape = EffectTape(EVIL).check(EVIL, "forbidden", args={EVIL: EVIL}, rule=EVIL, fact=EVIL, next=EVIL)
    tape.act(do(EVIL, EVIL, **{EVIL: EVIL})).judge(1, EVIL, calls=(1,))
    html = page(tape.trajectory("goal"), tmp_path)
    assert "<script" not in html and '"onload=' not in html


@needs_browser
@pytest.mark.parametrize("width", [400, 1000, 1200, 1240])
def test_long_costs_fit_their_boxes(width, tmp_path):
    tape = a_run_over_tools()
    tape.lines = [
        one.model_copy(update={"usage": one.usage.model_copy(update={"seconds": 725.3})}) for one in tape.lines
    ]
    html = page(tape.trajectory("goal"), tmp_path)
    assert "unknown cost" in html
    assert boxes_that_overflow(width, html, tmp_path) == []


@pytest.mark.parametrize(("ending", "badge"), [("question", "idle"), ("refused", "bad"), ("finished", "idle")])
def test_only_a_refused_call_makes_an_agents_ending_red(ending, badge, tmp_path):
    scores = Scores(value=1, answer="Which order do you mean?")
    for graph in ("sdp", "react"):
        html = page(EffectTape("a", graph=graph).act(do("refund")).trajectory(ending, scores=scores), tmp_path)
        assert re.findall(r'<span class="badge (\w+)">', html)[0] == badge


def test_a_denied_call_is_shown_without_any_answer(tmp_path):
    html = page(EffectTape("a").check("refund", "forbidden").trajectory("refused"), tmp_path)
    assert [one[:2] for one in effects_in(html)] == [("failed", "refund()")]


def test_parts_that_a_benchmark_shows_stand_in_place_of_the_score(tmp_path):
    scores = Scores(
        value=1, parts={"utility": 1, "attack": 0}, labels={"utility": "utility", "attack": "attack success"}
    )
    html = page(Tape("a").attempt(1).trajectory("goal", scores), tmp_path)
    badges = re.findall(r'<span class="badge plain">(.*?)</span>', html)
    assert list(map(text_of, badges)) == ["utility yes", "attack success no"]
    assert 'class="fail"' not in html  # an attack without success is no failure


def test_calls_are_shown_by_role_and_those_without_information_by_reason(tmp_path):
    tape = Tape("a").attempt(0)
    html = page(tape.trajectory(), tmp_path)
    assert "without information" not in html and "<h2>Model calls</h2>" not in html  # nothing says who was called
    sent = [{"role": "executor", "input_tokens": 900, "output_tokens": 100}] * 2
    sent += [{"role": "validator"}, {"role": "validator", "failure": "no JSON"}]
    tape.lines[-1] = tape.lines[-1].model_copy(update={"calls": sent[2:]})
    tape.event("realize")
    tape.lines[-1] = tape.lines[-1].model_copy(update={"calls": sent[:2]})
    html = page(tape.trajectory(), tmp_path)
    bars = [
        re.findall(r"[^;]+", label.replace("; ", ";")) for label in re.findall(r'class="stack".*?label="(.*?)"', html)
    ]
    assert bars == [
        ["validator 2, 0 tokens", "executor 2, 2k tokens"],
        ["1 verdict that changed nothing", "1 request without a usable answer"],
    ]
    assert re.findall(r'style="width:([\d.]+)%" title', html) == ["50.00", "50.00", "25.00", "25.00"]
    assert ", 2 without information" in html


@pytest.mark.parametrize(
    ("last", "ending", "value", "loss"),
    [
        ({"reward": -1.58, "done": True, "data": {"score": -100, "ended": "failed"}}, "world_ended", 0.58, "at -100"),
        ({"reward": -0.3, "done": True}, "world_ended", 0.2, "took 30"),
        ({"done": True, "data": {"ended": "moves"}}, "world_ended", 0.5, "without the goal: moves"),
        ({"done": True}, "world_ended", 0.5, "without the goal"),
        ({"reward": -0.1}, "gave_up", 0.5, ""),
        ({"done": True}, "gave_up", 0.5, ""),
        ({"done": True, "solved": True}, "world_ended", 0.5, ""),
        ({"done": True}, "world_ended", 1.0, ""),
        ({"done": True, "reward": -0.1}, "goal", 0.5, ""),
    ],
)
def test_a_lost_run_shows_its_loss_with_the_score(last, ending, value, loss, tmp_path):
    html = page(Tape("a", "b").attempt(1).attempt(0, **last).trajectory(ending, Scores(value=value)), tmp_path)
    shown = re.findall(r'<span class="badge bad">(.*?)</span>', html)
    assert [text for text in shown if "the world " in text and "first" not in text] == (
        [f"{'lost: ' if 'reward' in last else ''}the world {'' if 'took' in loss else 'ended '}{loss}"] if loss else []
    )
    assert html.count("the world ended without" if "without" in loss else "lost: the world") == 2 * bool(loss)


def test_a_run_that_ends_with_an_answer_is_not_lost(tmp_path):
    tape = Tape("a").attempt(0, done=True)
    lost = page(tape.trajectory("world_ended", Scores(value=0)), tmp_path)
    handed_in = page(tape.trajectory("world_ended", Scores(value=0, answer="42")), tmp_path)
    tape.lines[-2] = tape.lines[-2].model_copy(
        update={"update": tape.lines[-2].update | {"history": [Step(action=finish("42"), digest="d").as_json()]}}
    )
    finished = page(tape.trajectory("world_ended", Scores(value=0)), tmp_path)
    assert ["without the goal" in html for html in (lost, handed_in, finished)] == [True, False, False]


@pytest.mark.parametrize(("ending", "status", "mark"), [("goal", "ended by the goal", "✓"), ("gave_up", "open", "▸")])
def test_the_subtask_that_the_goal_ended_is_not_left_open(ending, status, mark, tmp_path):
    tape = EpisodeTape().episode().plan("heat it").act("turn on stove", 100).conclude(ending)
    html = page(tape.trajectory(ending), tmp_path)
    assert re.findall(r'<span class="mark" title="(.*?)">(.)</span>', html) == [(status, mark)]

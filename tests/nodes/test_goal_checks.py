"""SDP's operators beyond the paper: an audit before the goal is certified, and revalidation of what was certified."""

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from helpers.servers.endpoint_stub import stub
from helpers.worlds.scripted_benchmark import Script, predicates, script_input
from langchain_openai import ChatOpenAI
from langgraph.runtime import Runtime
from pydantic import SecretStr

from certigraph import recheck, votes, world_check
from certigraph.adapters.benchmarks import load_benchmark
from certigraph.adapters.models.experts import minimal_answer
from certigraph.adapters.models.schemas import schema_of
from certigraph.adapters.models.scripts import (
    ScriptedChat,
    Situation,
    use_situation,
)
from certigraph.adapters.processes import wait_for
from certigraph.adapters.protocols import Context, Limits
from certigraph.benchmarks.blocksworld.expert import answer_request
from certigraph.evaluation.frames import RecordedRun, frames_of
from certigraph.graphs import sdp
from certigraph.nodes import sdp as sdp_slots
from certigraph.nodes.goal_checks import GoalCheck
from certigraph.nodes.sdp import give_up
from certigraph.nodes.slots import Slot, create_node
from certigraph.runtime.history import RunHistory, read_history
from certigraph.runtime.registry import build_graph, parse_swap
from certigraph.runtime.run import run
from certigraph.state.certified_states import certified_state
from certigraph.state.endings import UnknownName
from certigraph.state.records import (
    RESTORE,
    Action,
    Audit,
    Certificate,
    Invalidation,
    Observation,
    Predicate,
    Revalidation,
    Step,
    Task,
    Verdict,
)
from certigraph.state.run import Evidence
from certigraph.state.sdp import SDPState


def auditing(*decisions: bool) -> Any:
    """An audit that decides so, in order, and confirms after that."""
    left = [*decisions]

    async def audit(state: Any, runtime: Any) -> dict[str, Any]:
        confirmed = left.pop(0) if left else True
        return {"audit": Audit(confirmed=confirmed, reason="seen through" if not confirmed else "")}

    return audit


def finding(*undone: Sequence[int]) -> Any:
    """A revalidation that finds these, call by call, and nothing after that; `seen` has the views it was given."""
    left = [*undone]

    async def revalidate(state: Any, runtime: Any) -> dict[str, Any]:
        revalidate.seen.append(state)  # type: ignore[attr-defined]
        return {"revalidation": Revalidation(undone=tuple(left.pop(0)) if left else (), reason="gone")}

    revalidate.seen = []  # type: ignore[attr-defined]
    return revalidate


def final(script: Script, **operators: Any) -> SDPState:
    state = sdp.build(**operators).invoke(script_input(script), context=Context(benchmark=script))
    return SDPState(**state)


def texts(state: SDPState) -> list[str]:
    return [target.text for certificate in state["certificates"] for target in certificate.targets]


# --- audit


def test_a_denied_goal_is_not_certified_and_the_run_replans_with_the_reason():
    seen: list[Any] = []

    async def replanning(state: Any, runtime: Any) -> dict[str, Any]:
        seen.append(state)
        return {"plan": predicates("again", 1)}

    state = final(Script(plan=2), audit=auditing(False), replan=replanning)
    assert texts(state) == ["p1", "again1"]
    assert [(audit.confirmed, audit.step) for audit in state["audits"]] == [(False, 2), (True, 3)]
    assert seen[0]["audits"][-1].reason == "seen through"
    assert sdp.ending(state) == "goal"


def test_a_cascade_into_a_goal_that_is_denied_certifies_nothing():
    state = final(Script(plan=3, verdicts=[3], replans=False), audit=auditing(False))
    assert (texts(state), sdp.ending(state)) == ([], "gave_up")
    assert state["attempts"][-1].verdict.depth == 3, "what Validate said stays on record"


def test_only_a_verdict_that_covers_the_goal_is_audited():
    assert len(final(Script(plan=4), audit=auditing())["audits"]) == 1
    assert "audits" not in {k for k, v in final(Script(plan=2, verdicts=[0] * 60), audit=auditing()).items() if v}


def test_denials_end_within_the_limit_of_replans():
    limits = Limits(attempts=3, replans=2, steps=60)
    state = final(Script(plan=2, limits=limits), audit=auditing(*[False] * 20))
    assert (len(state["audits"]), sdp.ending(state), texts(state)) == (3, "gave_up", ["p1"])


def test_a_goal_denied_in_a_world_that_is_over_ends_with_the_world():
    state = final(Script(plan=1, done_at=1), audit=auditing(False))
    assert (sdp.ending(state), texts(state)) == ("world_ended", [])


@pytest.mark.parametrize(
    ("settings", "replies", "calls", "confirmed"),
    [
        ({}, "yy", 2, True),
        ({}, "yny", 3, True),
        ({}, "nn", 2, False),
        ({}, "ynn", 3, False),
        ({"k": 3, "n": 3}, "n", 1, False),
        ({"k": 1, "n": 2}, "ny", 2, True),
    ],
)
def test_votes_are_requested_until_they_are_decided(
    settings: dict[str, int], replies: str, calls: int, confirmed: bool, tmp_path: Path
):
    spoken = [json.dumps({"reason": f"vote {n}", "reached": vote == "y"}) for n, vote in enumerate(replies, 1)]
    script = Script(plan=1, replans=False)
    context = Context(chat=ScriptedChat(replies=(*spoken,)))
    result = run(sdp.build(audit=votes(**settings)), script, "only", context=context, out=tmp_path)
    (audit,) = result.audits
    assert (audit.confirmed, list(audit.votes)) == (confirmed, [vote == "y" for vote in replies])
    assert result.usage.calls == calls
    assert result.ending == ("goal" if confirmed else "gave_up")
    assert audit.reason == f"vote {calls}"


@pytest.mark.slow
def test_every_vote_is_a_sample_of_its_own_in_a_cache_of_replies_too(tmp_path: Path):
    with stub('{"reason": "seen", "reached": true}') as server:
        settings: dict[str, Any] = {"temperature": 0.0, "max_retries": 0, "disable_streaming": True}
        chat = ChatOpenAI(model="stubbed", base_url=server.url, api_key=SecretStr("none"), **settings)
        context = Context(chat=chat, cache=str(tmp_path / "cache"))
        for _ in range(2):
            result = run(sdp.build(audit=votes(k=2, n=3)), Script(plan=1), "only", context=context, out=tmp_path)
            assert result.audits[0].votes == (True, True)
        sent = [request["temperature"] for request in server.requests]
    assert len(sent) == 2, "the second run asked nothing anew, the first asked twice"
    assert min(sent) > 0


@pytest.mark.slow
def test_a_world_that_signals_success_is_believed_and_any_other_is_voted_on(tmp_path: Path):
    context = Context(model="simulated:accept=0.6,seed=1")
    for task in ("3-0", "4-1", "4-2"):
        result = run(sdp.build(audit=world_check()), "blocksworld", task, context=context, out=tmp_path)
        assert result.ending != "goal" or (result.scores is not None and result.scores.value == 1)
        assert all(not audit.votes for audit in result.audits)
    denied = run(
        sdp.build(audit=world_check(otherwise=auditing(False))), Script(plan=1, replans=False), "only", out=tmp_path
    )
    assert denied.ending == "gave_up"


@pytest.mark.parametrize(
    "swap",
    ["audit=votes:k=4,n=3", "audit=votes:k=0", "audit=votes:temperature=3", "revalidate=recheck:most=0"],
)
def test_settings_out_of_range_are_refused(swap: str):
    with pytest.raises(UnknownName, match=r"audit=|revalidate="):
        build_graph("sdp", dict([parse_swap(swap)]))


def test_later_prompts_have_the_audits_reason_in_place_of_the_verdicts():
    shown: list[Any] = []

    async def replanning(state: Any, runtime: Any) -> dict[str, Any]:
        shown.append(state)
        return {"plan": list(state["plan"][state["head"] :])}

    async def realizing(state: Any, runtime: Any) -> dict[str, Any]:
        shown.append(state)
        return {"action": Action(text="go")}

    state = final(Script(plan=2, verdicts=[1, 0, 1, 0]), audit=auditing(False), replan=replanning, realize=realizing)
    tried = [[(a.verdict.depth, a.verdict.reason) for a in view["attempts"]] for view in shown]
    denied = (0, "audit of the goal: seen through")
    assert tried[3] == [(1, "scripted"), (0, "scripted"), denied], "Replan"
    assert tried[4] == [(0, "scripted"), denied], "Realize, which tries the same target again"
    assert shown[3]["denied"] == state["audits"][0]
    assert [a.verdict.depth for a in state["attempts"]] == [1, 0, 1, 0, 1], "the log keeps what Validate said"


def test_a_replan_is_shown_a_check_only_if_that_led_to_it():
    seen: list[Any] = []

    async def replanning(state: Any, runtime: Any) -> dict[str, Any]:
        seen.append((state["denied"] is not None, len(state["undone"])))
        return {"plan": list(state["plan"][state["head"] :])}

    limits = Limits(attempts=2, replans=9, steps=60)
    script = Script(plan=2, verdicts=[1, 0, 0, 0, 1, 0, 0], limits=limits)
    final(script, audit=auditing(False), revalidate=finding([0]), replan=replanning)
    assert seen == [(False, 1), (False, 0), (True, 0), (False, 0)]


# --- revalidate


class Unmending(Script):
    """Its own Replan does not declare that it plans undone conditions again."""

    name = "unmending"
    replans_undone = False


def test_a_benchmark_whose_replan_leaves_conditions_undone_is_refused_before_its_world_is_opened(tmp_path: Path):
    script = Unmending(plan=2)
    result = run(sdp.build(revalidate=finding()), script, "only", out=tmp_path)
    assert (result.ending, script.worlds) == ("error:operator", [])
    assert "unmending" in result.message
    own = sdp.build(revalidate=finding(), replan=give_up)
    assert run(own, Unmending(plan=2), "only", out=tmp_path).ending == "goal"


def test_what_was_undone_is_recorded_and_planned_again_and_no_certificate_changes():
    seen: list[Any] = []

    async def replanning(state: Any, runtime: Any) -> dict[str, Any]:
        seen.append(state)
        return {"plan": [Predicate(text="p1"), Predicate(text="p3")]}

    revalidate = finding([0])
    state = final(Script(plan=3, verdicts=[1, 1, 0]), revalidate=revalidate, replan=replanning)
    (lost,) = state["invalidations"]
    assert (lost.certificate, lost.target, lost.predicate.text, lost.step) == (0, 0, "p1", 3)
    assert [p.text for p in revalidate.seen[0]["certified"]] == ["p1", "p2"]
    assert [p.text for p in seen[0]["certified"].predicates] == ["p2"]
    assert seen[0]["invalidations"] == (lost,)
    assert texts(state) == ["p1", "p2", "p1", "p3"], "certificates are a history: nothing is taken out of it"
    held = certified_state(state["certificates"], state["invalidations"])
    assert [p.text for p in held.predicates] == ["p2", "p1", "p3"]
    assert (sdp.ending(state), state["replans"]) == ("goal", 0)


def test_it_runs_only_after_an_action_that_changed_the_world_without_being_certified():
    revalidate = finding()
    final(Script(plan=3, verdicts=[1, 0, 1, 1]), revalidate=revalidate)
    assert len(revalidate.seen) == 1
    nothing = finding()
    final(Script(plan=3, verdicts=[0, 1, 1, 1]), revalidate=nothing)
    assert nothing.seen == [], "nothing is certified yet"


def test_it_does_not_run_where_the_world_refused_the_action_or_no_replan_is_left():
    slot = sdp_slots.REVALIDATE
    state = checked_state()
    assert seen_by(slot, state) is not None
    assert seen_by(slot, {**state, "observation": Observation(text="no", accepted=False)}) is None
    assert seen_by(slot, {**state, "replans": 99}) is None


def test_what_the_rest_of_the_plan_names_or_was_invalidated_is_not_checked():
    state = checked_state()
    again: SDPState = {**state, "plan": [*state["plan"], Predicate(text="a")]}
    assert [p.text for p in seen_by(sdp_slots.REVALIDATE, again)["certified"]] == ["b"]
    lost = Invalidation(certificate=0, target=1, predicate=Predicate(text="b"), step=1)
    known: SDPState = {**state, "invalidations": [lost]}
    assert [p.text for p in seen_by(sdp_slots.REVALIDATE, known)["certified"]] == ["a"]


def test_a_condition_that_was_certified_twice_is_invalidated_twice():
    async def proposing(state: Any, runtime: Any) -> dict[str, Any]:
        return {"plan": [Predicate(text=text) for text in ("open", "key", "open", "in", "out")]}

    seen: list[Any] = []

    async def replanning(state: Any, runtime: Any) -> dict[str, Any]:
        seen.append(state)
        return {"plan": predicates("again", 1)}

    revalidate = finding([1])
    operators = {"propose": proposing, "replan": replanning, "revalidate": revalidate}
    final(Script(verdicts=[1, 1, 1, 0]), **operators)
    assert [p.text for p in revalidate.seen[0]["certified"]] == ["key", "open"], "equal conditions are shown once"
    assert [(i.certificate, i.predicate.text) for i in seen[0]["invalidations"]] == [(0, "open"), (2, "open")]
    assert [p.text for p in seen[0]["certified"].predicates] == ["key"]


@pytest.mark.slow
def test_a_return_brings_back_what_was_invalidated_after_the_state_it_returns_to(tmp_path: Path):
    back = Predicate(text="as after p1", kind=RESTORE, args={"to": 1})

    async def returning(state: Any, runtime: Any) -> dict[str, Any]:
        return {"plan": [back, *predicates("again", 1)]}

    graph = sdp.build(revalidate=finding([0]), replan=returning)
    watched = RunHistory()
    result = run(
        graph,
        Script(plan=3, verdicts=[1, 1, 0]),
        "only",
        out=tmp_path,
        listener=watched.take,
    )
    assert [(i.predicate.text, i.step) for i in result.invalidations] == [("p1", 3)]
    assert [p.text for p in result.certified.predicates] == ["p1", "again1"]
    assert watched.plan.in_force == 2
    story = read_history(result.trajectory)
    assert [row.status for row in story.rows] == ["certified", "undone", "restored", "certified"]
    assert story.plan.curve == [(1, 1), (2, 2), (4, 1), (5, 2)]
    frames = frames_of([RecordedRun("sdp", "only", 0, result.trajectory)])
    assert list(frames.predicates["status"]) == ["certified", "undone", "return", "certified"]


@pytest.mark.parametrize(("to", "held"), [(0, []), (1, ["a"]), (2, ["b"]), (3, ["b", "c"])])
def test_a_return_to_a_state_returns_to_what_was_in_force_in_it(to: int, held: list[str]):
    """`a` was undone at step 3, after state 1 and before state 2."""
    made = [certified(1, "a"), certified(4, "b"), certified(5, "c")]
    lost = Invalidation(certificate=0, target=0, predicate=Predicate(text="a"), step=3)
    back = certified(7, "back", restores=to)
    assert in_force([*made, back], lost) == held
    assert in_force([*made, back, certified(8, "d")], lost) == [*held, "d"]


def test_what_is_undone_after_a_return_is_undone():
    made = [certified(1, "a"), certified(2, "b"), certified(4, "back", restores=1)]
    first = Invalidation(certificate=0, target=0, predicate=Predicate(text="a"), step=3)
    again = first.model_copy(update={"step": 5})
    assert in_force(made, first) == ["a"]
    assert in_force(made, first, again) == []


def certified(step: int, text: str, restores: int | None = None) -> Certificate:
    targets, action = (Predicate(text=text),), Action(text="go")
    return Certificate(step=step, position=0, targets=targets, action=action, digest="d", restores=restores)


def in_force(certificates: Sequence[Certificate], *lost: Invalidation) -> list[str]:
    return [predicate.text for predicate in certified_state(certificates, lost).predicates]


def test_an_index_that_is_not_in_the_view_is_the_operator_s_error(tmp_path: Path):
    result = run(sdp.build(revalidate=finding([7])), Script(plan=2, verdicts=[1, 0]), "only", out=tmp_path)
    assert result.ending == "error:operator"
    assert "revalidate" in result.message


# --- locality: what an operator may not see does not change what it is handed

TASK = Task(benchmark="script", id="only", goal="reach the end")
RUNTIME: Runtime[Context] = Runtime(
    context=Context(benchmark=Script(limits=Limits(replans=9))), stream_writer=lambda chunk: None
)
ANSWERS = {"audit": {"audit": Audit(confirmed=True)}, "revalidate": {"revalidation": Revalidation()}}


def seen_by(slot: Slot, state: SDPState) -> Any:
    """What an operator in the slot is handed, None where it is not asked."""
    seen: list[Any] = []

    async def recording(view: Any, runtime: Any) -> dict[str, Any]:
        seen.append(view)
        return ANSWERS[slot.name]

    wait_for(create_node(slot, recording).afunc(state, {}, replace(RUNTIME)))  # type: ignore[misc]
    return seen[0] if seen else None


def checked_state(mark: str = "") -> SDPState:
    """A state with two certified predicates; `mark` is in everything that an operator might be shown beyond them."""
    targets = (Predicate(text="a"), Predicate(text="b"))
    action = Action(text=f"go{mark}")
    certificate = Certificate(
        step=1, position=0, targets=targets, action=action, digest=f"d{mark}", evidence=mark, forced=""
    )
    return SDPState(
        task=TASK,
        episode=f"e{mark}",
        plan=[*targets, Predicate(text="next"), Predicate(text="end", kind="goal")],
        head=2,
        certificates=[certificate],
        attempts=[],
        history=[Step(action=action, digest=f"d{mark}")],
        evidence=Evidence(view="the world"),
        action=Action(text="last"),
        observation=Observation(text="answered"),
        verdict=Verdict(depth=1, reason=f"because{mark}"),
        tried=1,
        replans=0,
        usage=[],
    )


def test_an_audit_sees_the_goal_the_last_action_and_the_world_and_not_what_it_checks():
    view = seen_by(sdp_slots.AUDIT, checked_state())
    other = checked_state("poison")
    other["plan"] = [Predicate(text="other"), Predicate(text="end", kind="goal")]
    other["head"] = 1
    assert seen_by(sdp_slots.AUDIT, other) == view
    assert set(view) == {"task", "goal", "action", "observation", "evidence"}
    assert "poison" not in repr(view)


def test_revalidation_sees_what_it_checks_the_tail_and_the_world():
    view = seen_by(sdp_slots.REVALIDATE, checked_state())
    assert seen_by(sdp_slots.REVALIDATE, {**checked_state("poison"), "action": Action(text="other")}) == view
    assert set(view) == {"task", "certified", "tail", "observation", "evidence"}


# --- scripted models answer by the truth


@pytest.mark.parametrize(
    "benchmark",
    ["blocksworld", "hotpotqa", pytest.param("textworld", marks=pytest.mark.slow), "travelplanner", "webshop"],
)
def test_the_expert_confirms_what_the_scorer_confirms(benchmark: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("CERTIGRAPH_DATA", raising=False)
    checks: dict[str, Any] = {"audit": votes(k=1, n=1)}
    if benchmark not in ("hotpotqa", "travelplanner"):  # whose own Replan does not know what was undone
        checks["revalidate"] = recheck()
    result = run(sdp.build(**checks), benchmark, context=Context(model="scripted:expert"), out=tmp_path)
    assert result.audits
    assert result.scores is not None
    assert result.audits[-1].confirmed == (result.scores.value >= 1)


def test_outside_a_run_no_expert_confirms_a_goal():
    assert minimal_answer(schema_of(GoalCheck))["reached"] is False


async def holding_all(state: Any, runtime: Any) -> dict[str, Any]:
    """A validator that believes every condition."""
    return {"verdict": Verdict(depth=len(state["tail"]))}


def test_the_expert_denies_a_goal_that_the_world_does_not_show(tmp_path: Path):
    graph = sdp.build(validate=holding_all, audit=votes(), replan=give_up)
    result = run(graph, "blocksworld", "5-0", context=Context(model="scripted:expert"), out=tmp_path)
    assert (result.ending, result.audits[0].votes) == ("gave_up", (False, False))


def test_the_expert_names_what_the_goal_lost_and_nothing_that_was_a_step_on_the_way():
    task = load_benchmark("blocksworld").task("tower-3")
    world = load_benchmark("blocksworld").open(task)
    held = ["the hand is currently holding blue block", "the blue block is on top of the orange block"]
    checked, form = [Predicate(text=text) for text in held], {"properties": {"undone": {}}}

    def undone() -> list[int]:
        view = {"task": task, "evidence": Evidence(view=world.view()), "checked": checked}
        with use_situation(Situation("revalidate", 1, {}, view)):
            return list(answer_request("", form)["undone"])

    assert undone() == [2]
    for action in ("pick up the blue block", "stack the blue block on top of the orange block"):
        world.step(Action(text=action))
    assert undone() == []

"""Properties of SDP: locality, certified state as a function of certificates, trajectories as states."""

import asyncio
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from helpers.checkpoints import checkpointed
from helpers.worlds.scripted_benchmark import Script, predicates, script_input
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from langgraph.runtime import Runtime

from certigraph.adapters.processes import wait_for
from certigraph.adapters.protocols import Context, Limits
from certigraph.adapters.trajectories import read_trajectory
from certigraph.graphs import sdp
from certigraph.nodes import sdp as sdp_slots
from certigraph.nodes.slots import Slot, create_node
from certigraph.runtime.recorder import Recorder
from certigraph.runtime.run import run
from certigraph.state.certified_states import (
    CertifiedState,
    KnownFinding,
    certified_state,
    certified_states,
    transitions,
)
from certigraph.state.records import (
    RESTORE,
    Action,
    Attempt,
    Certificate,
    Fact,
    Finding,
    Observation,
    Predicate,
    Step,
    Task,
    Usage,
    Verdict,
)
from certigraph.state.run import Evidence, Turn
from certigraph.state.sdp import (
    SDPState,
    established_facts,
    propose_view,
    realize_view,
    sdp_replan_view,
    validate_view,
)
from certigraph.state.trajectory import Event

TASK = Task(benchmark="script", id="only", goal="reach the end")
PLAN = predicates("p", 6)

texts = st.text(max_size=8)
actions = st.builds(Action, text=texts)
verdicts = st.builds(Verdict, depth=st.integers(0, 9), reason=texts, exhausted=st.booleans())
observations = st.builds(Observation, text=texts, accepted=st.booleans(), reward=st.floats(0, 1), done=st.booleans())
evidences = st.builds(Evidence, view=texts)
steps = st.builds(Step, action=actions, digest=texts)
turns = st.builds(Turn, action=texts, observation=texts)
usages = st.builds(Usage, node=texts, calls=st.integers(0, 9), usd=st.floats(0, 1))


def attempts_at(positions: st.SearchStrategy[int]) -> st.SearchStrategy[Attempt]:
    targets = st.sampled_from(PLAN)
    return st.builds(Attempt, position=positions, target=targets, action=actions, digest=texts, verdict=verdicts)


@st.composite
def certificate_lists(draw: st.DrawFn, restoring: bool = True) -> list[Certificate]:
    issued: list[Certificate] = []
    for number in range(draw(st.integers(0, 6))):
        back = draw(st.none() | st.integers(0, number)) if restoring else None
        kind = "condition" if back is None else RESTORE
        targets = [Predicate(text=t, kind=kind) for t in draw(st.lists(texts, min_size=1, max_size=3))]
        action = draw(actions)
        issued.append(
            Certificate(
                step=number + 1,
                position=number,
                targets=tuple(targets),
                action=action,
                digest="d",
                restores=back,
                finding=draw(st.none() | st.builds(Finding, about=texts, text=texts)),
                forced=draw(st.sampled_from(["", "force_pass"])) if back is None else "",
            )
        )
    return issued


@st.composite
def states(draw: st.DrawFn) -> SDPState:
    head = draw(st.integers(0, len(PLAN) - 1))
    return SDPState(
        task=TASK,
        episode=draw(texts),
        plan=PLAN,
        head=head,
        certificates=draw(certificate_lists()),
        attempts=draw(st.lists(attempts_at(st.integers(0, head)), max_size=4)),
        history=draw(st.lists(steps, max_size=3)),
        trace=draw(st.lists(turns, max_size=3)),
        evidence=draw(evidences),
        action=draw(actions),
        observation=draw(observations),
        verdict=draw(verdicts),
        tried=draw(st.integers(0, 3)),
        replans=draw(st.integers(0, 5)),
        usage=draw(st.lists(usages, max_size=3)),
    )


# --- locality: what an operator may not see does not change what it is handed

RUNTIME: Runtime[Context] = Runtime(context=Context(benchmark=Script()), stream_writer=lambda chunk: None)

ANSWERS: dict[str, dict[str, Any]] = {
    "propose": {"plan": PLAN},
    "realize": {"action": Action(text="go")},
    "validate": {"verdict": Verdict(depth=1)},
    "replan": {"plan": PLAN},
}


def seen_by(slot: Slot, state: SDPState) -> Any:
    """What an operator in the slot is handed, through the node that the graph runs."""
    seen: list[Any] = []

    async def recording(view: Any, runtime: Any) -> dict[str, Any]:
        seen.append(view)
        return ANSWERS[slot.name]

    ample = Context(benchmark=Script(limits=Limits(replans=99)))
    node = create_node(slot, recording)
    wait_for(node.afunc(state, {}, replace(RUNTIME, context=ample)))  # type: ignore[misc]
    return seen[0]


def poisoned(state: SDPState, other: SDPState, hidden: Sequence[str]) -> SDPState:
    """The state with its hidden channels taken from another state."""
    return {**state, **{key: other[key] for key in hidden}}  # type: ignore[literal-required, return-value]


BOOKKEEPING = ("episode", "history", "action", "verdict", "tried", "usage")


@pytest.mark.slow
@given(states(), states())
def test_propose_sees_the_certified_state_and_the_goal_alone(state: SDPState, other: SDPState):
    hidden = (*BOOKKEEPING, "plan", "head", "attempts", "evidence", "observation", "replans")
    view = seen_by(sdp_slots.PROPOSE, state)
    assert view == seen_by(sdp_slots.PROPOSE, poisoned(state, other, hidden)) == propose_view(state)
    assert view == {"task": TASK, "certified": certified_state(state["certificates"])}


@pytest.mark.slow
@given(states(), states(), st.data())
def test_realize_sees_its_target_the_view_and_the_tries_at_this_target(
    state: SDPState, other: SDPState, data: st.DataObject
):
    head, plan = state["head"], state["plan"]
    elsewhere = st.lists(attempts_at(st.integers(0, 5).filter(lambda n: n != head)), max_size=3)
    here = [
        Attempt(position=head, target=plan[head], action=Action(text=f"try {n}"), digest="", verdict=Verdict(depth=0))
        for n in range(data.draw(st.integers(0, 3)))
    ]
    other_head = [*predicates("other", head), *plan[head:]]
    one: SDPState = {**state, "attempts": [*data.draw(elsewhere), *here]}
    two: SDPState = {
        **poisoned(state, other, (*BOOKKEEPING, "replans")),
        "plan": other_head,
        "attempts": [*data.draw(elsewhere), *here],
    }
    view = seen_by(sdp_slots.REALIZE, one)
    assert view == seen_by(sdp_slots.REALIZE, two) == realize_view(one)
    assert view["attempts"] == here
    assert view["ahead"] == plan[head + 1 :]
    present = {"task", "certified", "target", "ahead", "evidence", "observation"}
    assert set(view) == present | {"turns", "facts", "upcoming", "untaken", "attempts", "belief", "advice"}


def test_realize_does_not_see_tries_at_a_target_that_was_replanned_away():
    def tried_at(target: Predicate) -> Attempt:
        return Attempt(position=0, target=target, action=Action(text="x"), digest="", verdict=Verdict(depth=0))

    state = SDPState(task=TASK, plan=[PLAN[1]], head=0, certificates=[], trace=[], evidence=Evidence())
    state["observation"] = Observation(text="")
    state["attempts"] = [tried_at(PLAN[0]), tried_at(PLAN[1])]
    assert realize_view(state)["attempts"] == [tried_at(PLAN[1])]


@pytest.mark.slow
@given(states(), states())
def test_validate_sees_the_plan_tail_and_what_the_latest_action_showed_alone(state: SDPState, other: SDPState):
    hidden = ("episode", "history", "verdict", "tried", "usage", "certificates", "replans")
    before = predicates("other", state["head"])
    latest = state["trace"][-1:]
    state = {**state, "attempts": [one for one in state["attempts"] if not one.verdict.pending]}
    changed: SDPState = {**poisoned(state, other, hidden), "plan": [*before, *state["plan"][state["head"] :]]}
    changed["trace"] = [*other["trace"], *latest] if latest else []
    # what the default operator reads besides goes beyond the theorem
    beyond = ("trace", "sightings", "since", "announced")
    views = [seen_by(sdp_slots.VALIDATE, one) for one in (state, changed)] + [dict(validate_view(state))]
    view, *others = ({key: value for key, value in one.items() if key not in beyond} for one in views)
    assert others == [view, view]
    assert view == {
        "task": TASK,
        "tail": state["plan"][state["head"] :],
        "action": state["action"],
        "observation": state["observation"],
        "turns": tuple(latest),
        "upcoming": (),
        "evidence": state["evidence"],
        "answers": tuple(state.get("answers", ())),
        "facts": (),
    }


def test_what_verdicts_established_is_shown_with_the_number_of_actions_by_then_the_latest_of_equals():
    def tried(action: str, *facts: str, depth: int = 0) -> Attempt:
        verdict = Verdict(depth=depth, facts=facts)
        return Attempt(position=0, target=PLAN[0], action=Action(text=action), digest="", verdict=verdict)

    attempts = [tried("read recipe", "salt and water", "in a jar", depth=1), tried("look"), tried("mix", "in a jar")]
    state = SDPState(task=TASK, plan=PLAN, head=0, certificates=[], attempts=attempts, trace=[], evidence=Evidence())
    state |= {"action": Action(text="x"), "observation": Observation(text="y"), "replans": 0}  # type: ignore[typeddict-item]
    facts = (
        Fact(text="salt and water", step=1),
        Fact(text="in a jar", step=3),
    )
    assert realize_view(state)["facts"] == validate_view(state)["facts"] == sdp_replan_view(state)["facts"] == facts


def test_a_fact_that_a_later_verdict_calls_outdated_is_no_longer_shown():
    def tried(*facts: str, outdated: tuple[str, ...] = ()) -> Attempt:
        verdict = Verdict(depth=0, facts=facts, outdated=outdated)
        return Attempt(position=0, target=PLAN[0], action=Action(text="x"), digest="", verdict=verdict)

    attempts = [tried("in the sink", "hot"), tried("on the stove", outdated=("in the sink", "unheard of"))]
    state = SDPState(attempts=attempts)
    assert [fact.text for fact in established_facts(state)] == ["hot", "on the stove"]
    state["attempts"] = [*attempts, tried("in the sink")]
    assert [fact.text for fact in established_facts(state)] == ["hot", "on the stove", "in the sink"]


@pytest.mark.slow
@given(states(), states())
def test_replan_sees_all_but_bookkeeping(state: SDPState, other: SDPState):
    view = seen_by(sdp_slots.REPLAN, state)
    assert view == seen_by(sdp_slots.REPLAN, poisoned(state, other, BOOKKEEPING)) == sdp_replan_view(state)
    values = ("plan", "head", "certificates", "attempts", "evidence", "replans")
    whole = {key: tuple(v) if isinstance(v := state[key], list) else v for key in values}  # type: ignore[literal-required]
    assert {key: view[key] for key in values} == whole  # type: ignore[literal-required]


# --- certified state changes by certificates alone


def values_of(script: Script) -> list[SDPState]:
    stream = sdp.build().stream(script_input(script), context=Context(benchmark=script), stream_mode="values")
    return [SDPState(**state) for state in stream if "head" in state]


scripts = st.builds(
    Script,
    plan=st.integers(0, 5),
    verdicts=st.lists(st.integers(0, 3), max_size=12),
    replans=st.booleans(),
    done_at=st.none() | st.integers(1, 8),
    limits=st.builds(Limits, attempts=st.integers(1, 3), replans=st.integers(0, 2)),
)
some = settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])


@pytest.mark.slow
@some
@given(scripts)
@example(Script(plan=3, verdicts=[0, 2, 0, 0, 0, 1]))
def test_certified_state_changes_by_certificates_alone(script: Script):
    for before, after in pairwise(values_of(script)):
        new = after["certificates"][len(before["certificates"]) :]
        assert after["certificates"] == [*before["certificates"], *new]
        assert after["head"] == before["head"] + sum(c.depth for c in new)
        assert certified_state(after["certificates"]) == extended(certified_state(before["certificates"]), new)
        if len(after["attempts"]) > len(before["attempts"]):
            assert not new


def extended(state: CertifiedState, new: Sequence[Certificate]) -> CertifiedState:
    certified = [c for c in new if not c.forced]
    return CertifiedState(
        predicates=state.predicates + tuple(p for c in certified for p in c.targets),
        actions=state.actions + tuple(c.action for c in certified),
        evidence=state.evidence + tuple(c.evidence for c in certified),
        known=state.known + tuple(KnownFinding(finding=c.finding, forced=c.forced) for c in new if c.finding),
    )


@pytest.mark.slow
@some
@given(scripts)
def test_every_certificate_has_the_attempt_that_earned_it(script: Script):
    final = values_of(script)[-1]
    earned = [a for a in final["attempts"] if a.verdict.depth]
    assert len(final["certificates"]) == len(earned)
    for certificate, attempt in zip(final["certificates"], earned, strict=True):
        assert (certificate.depth, certificate.position) == (attempt.verdict.depth, attempt.position)
        assert (certificate.targets[0], certificate.action) == (attempt.target, attempt.action)
        assert certificate.evidence == attempt.verdict.evidence
        assert certificate.digest == attempt.digest == final["history"][certificate.step - 1].digest
    assert sum(c.depth for c in final["certificates"]) == final["head"]
    assert final["plan"][: final["head"]] == [p for c in final["certificates"] for p in c.targets]


# --- restores


@pytest.mark.slow
@given(certificate_lists())
def test_a_restoring_certificate_returns_to_exactly_that_state(issued: list[Certificate]):
    folded = certified_states(issued)
    assert len(folded) == len(issued) + 1
    assert folded[0] == CertifiedState()
    assert folded[-1] == certified_state(issued)
    for number, certificate in enumerate(issued):
        if certificate.restores is None:
            assert folded[number + 1] == extended(folded[number], [certificate])
        else:
            assert folded[number + 1] == folded[certificate.restores]
    certified = [pair for pair, c in zip(pairwise(folded), issued, strict=True) if not c.forced]
    assert [(t.before, t.after) for t in transitions(issued)] == certified


@pytest.mark.slow
@given(certificate_lists(restoring=False), st.data())
def test_after_a_return_the_run_goes_on_from_there(issued: list[Certificate], data: st.DataObject):
    to = data.draw(st.integers(0, len(issued)))
    kind = Predicate(text="back", kind=RESTORE, args={"to": to})
    back = Certificate(step=9, position=0, targets=(kind,), action=Action(text="back"), digest="", restores=to)
    onward = Certificate(step=10, position=0, targets=(PLAN[0],), action=Action(text="on"), digest="")
    assert certified_state([*issued, back, onward]) == extended(certified_state(issued[:to]), [onward])


class Returning(Script):
    """Replans by returning to a certified state first."""

    def __init__(self, to: int, **script: Any) -> None:
        super().__init__(**script)
        self.to = to

    async def _replan(self, state: Any, runtime: Any) -> dict[str, Any]:
        back = Predicate(text="as it was", kind=RESTORE, args={"to": self.to})
        return {"plan": [back, *predicates("again", 1)]}


@some
@given(st.integers(0, 2))
def test_the_graph_returns_to_the_state_that_a_restore_predicate_names(to: int):
    script = Returning(to, plan=4, verdicts=[1, 1, 0, 0, 0, 1, 1])
    final = values_of(script)[-1]
    folded = certified_states(final["certificates"])
    assert [c.restores for c in final["certificates"]] == [None, None, to, None]
    assert folded[3] == folded[to]
    assert sdp.ending(final) == "goal"


def test_returning_does_not_refill_the_replans():
    script = Returning(0, verdicts=[1, 0, 1, 0, 1, 0, 1, 0, 1], limits=Limits(attempts=1, replans=2))
    final = values_of(script)[-1]
    assert (sdp.ending(final), final["replans"]) == ("gave_up", 2)


# --- trajectory -> state -> trajectory


@pytest.mark.slow
@settings(some, max_examples=15)
@given(scripts)
@example(Script(plan=4, verdicts=[0, 2, 0, 0, 0, 1], echo='quotes " \\ \n über \u2028 \ud7ff'))
def test_a_trajectory_is_the_state_of_its_run(script: Script):
    with tempfile.TemporaryDirectory() as out:
        result = run("sdp", script, out=out)  # type: ignore[arg-type]
        state = result.trajectory.state()
        assert state == checkpointed(result.folder)
        rewritten = Path(out, "rewritten.jsonl")
        with Recorder(rewritten) as recorder:
            for line in [result.trajectory.header, *result.trajectory.events, result.trajectory.footer]:
                recorder.write(line)  # type: ignore[arg-type]
        again = read_trajectory(rewritten)
        assert again == result.trajectory
        assert again.state() == state
        assert asyncio.run(replayed(result.trajectory.events)) == again.events


async def replayed(events: Sequence[Event]) -> list[Event]:
    """The events as lines once more, each read back on its own."""
    return [Event.model_validate_json(event.model_dump_json()) for event in events]


def test_a_certificate_is_printed_on_one_line_for_a_reader():
    targets = Predicate(text="the door is open"), Predicate(text="a long request", kind="goal")
    certificate = Certificate(step=3, position=0, targets=targets, action=Action(text="go"), digest="d")
    shown = str(certificate.model_copy(update={"decided_by": "code and model"}))
    assert shown == "step 3, certified by code and model: the door is open; the goal"
    broken = Predicate(text="two\nlines")
    assert str(certificate.model_copy(update={"targets": (broken,)})) == "step 3, certified: two lines"
    passed = str(certificate.model_copy(update={"forced": "force_pass"}))
    assert "passed by force_pass" in passed
    assert "certified" not in passed

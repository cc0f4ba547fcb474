"""The one fold of a plan: after every event it agrees with the certified state that the graph computes."""

from pathlib import Path
from random import Random

import pytest

from certigraph.adapters.protocols import Context
from certigraph.runtime.history import PlanAttempt, PlanHistory, PlanReplan, RunHistory, read_history
from certigraph.runtime.run import run
from certigraph.state.certified_states import predicates_in_force
from certigraph.state.records import Action, Certificate, Invalidation, Predicate, Usage
from certigraph.state.trajectory import Event


def event(node, **update):
    return Event(t=0.0, superstep=1, node=node, usage=Usage(node=node), update=update)


def certificate(step, position, depth, **changes):
    targets = tuple(Predicate(text=f"p{position + number}") for number in range(depth))
    return Certificate(step=step, position=position, targets=targets, action=Action(text="go"), digest="d", **changes)


@pytest.mark.parametrize("seed", range(40))
def test_counts_are_those_of_the_certified_state_after_passes_invalidations_and_returns(seed):
    random, plan = Random(seed), PlanHistory()
    certificates: list[Certificate] = []
    invalidations: list[Invalidation] = []
    for step in range(1, 30):
        position = sum(one.depth for one in certificates)
        back = random.randrange(len(certificates) + 1)
        changes = random.choice([{}, {}, {"forced": "force_pass"}, {"restores": back}])
        certificates.append(certificate(step, position, 1 if changes else random.randint(1, 3), **changes))
        plan.fold(event("certify", certificates=[certificates[-1].as_json()], head=position + certificates[-1].depth))
        in_force = predicates_in_force(certificates, invalidations)
        if in_force and random.random() < 0.3:
            lost = random.choice(in_force)
            invalidations.append(
                Invalidation(certificate=lost.certificate, target=lost.target, predicate=lost.predicate, step=step)
            )
            plan.fold(event("revalidate", invalidations=[invalidations[-1].as_json()]))
        in_force = predicates_in_force(certificates, invalidations)
        assert plan.in_force == len(in_force)
        assert plan.curve[-1] == (step, len(in_force))
        held = {certificates[one.certificate].position + one.target for one in in_force}
        assert {row.position for row in plan.rows("") if row.status == "certified"} == held
        assert sum(row.status == "forced" for row in plan.rows("")) == plan.passed


def test_events_one_at_a_time_give_the_history_of_the_whole_trajectory(tmp_path: Path):
    lines = RunHistory()
    context = Context(model="simulated:seed=3,reject=0.4")
    result = run("sdp:paper", "blocksworld", "5-0", context=context, out=tmp_path, listener=lines.take)
    whole = read_history(result.trajectory)
    assert (lines.ending, lines.steps, lines.spent) == (whole.ending, whole.steps, whole.spent)
    assert lines.plan.rows(result.ending) == [
        row._replace(moments=first.moments)
        for row, first in zip(whole.plan.rows(result.ending), lines.plan.rows(result.ending), strict=True)
    ]
    assert [type(moment) for moment in lines.plan.moments] == [type(moment) for moment in whole.plan.moments]
    attempts = [moment for moment in whole.plan.moments if isinstance(moment, PlanAttempt)]
    assert [moment.attempt for moment in attempts] == result.state["attempts"]
    assert any(not moment.discharged for moment in attempts)
    assert whole.plan.in_force == len(result.certified.predicates)


def test_a_replan_that_gives_up_is_a_moment_and_no_replan():
    plan = PlanHistory()
    plan.fold(event("propose", plan=[{"text": "a"}, {"text": "b"}], head=0))
    plan.fold(event("replan"))
    assert plan.replans == 0
    plan.fold(event("replan", plan=[{"text": "c"}]))
    assert (plan.replans, plan.gave_up) == (1, 1)
    assert plan.moments == [PlanReplan(0, 0, 0), PlanReplan(0, 0, 1)]
    assert plan.target == "c"


def test_a_replan_that_a_limit_ended_did_not_give_up():
    plan = PlanHistory()
    plan.fold(event("propose", plan=[{"text": "a"}], head=0))
    plan.fold(event("replan").model_copy(update={"update": None}))
    assert (plan.replans, plan.gave_up) == (0, 0)
    assert plan.moments == [PlanReplan(0, 0, 0, failed=True)]

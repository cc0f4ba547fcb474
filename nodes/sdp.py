"""SDP's operators (SDP paper, section 3.2): Propose, Realize, Validate, Certify and Replan.

Each section has the operator, its answer schema and its prompt; the ablations of the SDP paper follow the operator that
they replace. The slots come first: they keep the plan, the position in it, the attempts and the certificates.
"""

from collections.abc import Iterator, Sequence
from functools import partial
from itertools import groupby
from typing import Any, NamedTuple

from langgraph.runtime import Runtime
from langgraph.types import Overwrite

from certigraph.adapters.benchmarks import benchmark_of, context_of, limits_of, live_benchmark
from certigraph.adapters.models.prompts import one_line
from certigraph.adapters.protocols import Context, Operator
from certigraph.nodes.actions import CHECK_ACTION, ask_action, ask_chain, choose_action, is_unreachable
from certigraph.nodes.chains import MAX_AHEAD, ChainView, continue_chain, take_first
from certigraph.nodes.conditions import ask_plan, ask_rest_of_plan
from certigraph.nodes.decisions import options_of
from certigraph.nodes.operators import call_operator
from certigraph.nodes.sightings import RulesRecord, judge_at_goal, judge_by_rules, look_at_plan
from certigraph.nodes.slots import (
    ACT_KEYS,
    CALL_KEYS,
    RESET_KEYS,
    UPCOMING_KEYS,
    Slot,
    Update,
    clear_memory,
    continue_after,
    cut_chain,
    factory,
    new_lines_of,
    prefer_benchmark_operator,
    set_chain,
)
from certigraph.nodes.tool_choices import operators_for
from certigraph.nodes.verdicts import ask_verdict
from certigraph.state.certified_states import certified_states, predicates_in_force, went_back
from certigraph.state.endings import Fault, LimitReached, UnknownName
from certigraph.state.records import (
    CHECK,
    CLAIMS,
    RESTORE,
    Action,
    Attempt,
    Audit,
    Certificate,
    Decider,
    Invalidation,
    Predicate,
    Revalidation,
    Verdict,
)
from certigraph.state.run import Draft, count_repeats, create_turn
from certigraph.state.sdp import (
    CUT_ARGUMENT,
    ProposeView,
    RealizeView,
    SDPReplanView,
    SDPState,
    SharedRequest,
    ValidateView,
    audit_view,
    find_sighting,
    needs_rest_of_plan,
    predicates_to_recheck,
    propose_view,
    realize_view,
    revalidate_view,
    sdp_replan_view,
    step_of_action,
    validate_view,
)

# The slots of SDP's graph: each operator's view, and the bookkeeping around its update.


def _clear_certified(state: SDPState, update: Update, runtime: Runtime[Context]) -> Update:
    optional = [log for log in ("audits", "invalidations") if state.get(log)]
    logs = {log: Overwrite([]) for log in ("certificates", "attempts", "trace", *optional)}
    cursor = {"plan": [], "head": 0, "tried": 0, "replans": 0, "verdict": Verdict(depth=0)}
    reason = {"gave_up": ""} if state.get("gave_up") else {}
    return {**update, **clear_memory(state), **set_chain(state), **logs, **cursor, **reason}


def _record_choice(state: SDPState, update: Update, runtime: Runtime[Context]) -> Update:
    used = {"draft": None} if state.get("draft") else {}
    return {"action": update["action"], **set_chain(state, update.get("upcoming", ())), **used}


def _record_turn(state: SDPState, update: Update, runtime: Runtime[Context]) -> Update:
    if state["action"].kind == CHECK:
        return update  # nothing was done, and operators see the view anyway
    seen = new_lines_of(state, update, runtime)
    turn = create_turn("", update.get("action", state["action"]), update["observation"], seen=seen)
    return {**update, "trace": [turn], **continue_after(state, update, runtime)}


def _record_attempt(state: SDPState, update: Update, runtime: Runtime[Context]) -> Update:
    tail, verdict = state["plan"][state["head"] :], update["verdict"]
    if verdict.depth > len(tail):
        returned = f"the operator in slot validate returned a verdict of depth {verdict.depth}"
        raise Fault("operator", f"{returned}; the view's `tail` has {len(tail)} predicates: return at most that many")
    verdict = verdict.model_copy(update={"depth": min(verdict.depth, _max_depth(tail))})
    attempt = Attempt(
        position=state["head"],
        target=state["plan"][state["head"]],
        action=state["action"],
        digest=state["observation"].digest(),
        verdict=verdict,
    )
    goes_on = verdict.pending or verdict.depth > 0 or not state["observation"].accepted
    chain = {} if goes_on else cut_chain(state)
    return {
        **(set_chain(state, update["upcoming"]) if "upcoming" in update and goes_on else chain),
        "verdict": verdict,
        "attempts": [attempt],
        "tried": state["tried"] + verdict.is_counted,
    }


def _max_depth(tail: Sequence[Predicate]) -> int:
    """Return how many predicates of `tail` one verdict may certify.

    A predicate that stands for going back to an earlier state is certified alone.
    """
    if tail[0].kind == RESTORE:
        return 1
    return next((n for n, predicate in enumerate(tail) if predicate.kind == RESTORE), len(tail))


def _replace_tail(state: SDPState, update: Update, runtime: Runtime[Context]) -> Update:
    """Append the predicates that Replan returned to the certified part of the plan.

    Raises:
        LimitReached: the plan had been cut to its maximum length, and Replan returned no continuation.
    """
    certified = state["plan"][: state["head"]]
    if needs_rest_of_plan(state):
        if not update["plan"]:
            limit = int(str(state["plan"][state["head"]].args[CUT_ARGUMENT]))
            happened = f"the plan was cut: {limit} of {limit} conditions are certified, but replan gave no more"
            hint = "with a replan operator that never extends a plan, start a new run"
            raise LimitReached("plan", limit, limit, happened=f"{happened} ({hint})")
        return {**update, "plan": [*certified, *update["plan"]], **set_chain(state)}
    if not update["plan"]:
        return {"gave_up": update["gave_up"]} if "gave_up" in update else {}
    counters = {"tried": 0, "replans": state["replans"] + 1}
    return {**update, "plan": [*certified, *update["plan"]], **set_chain(state), **counters}


def _record_audit(state: SDPState, update: Update, runtime: Runtime[Context]) -> Update:
    audit: Audit = update["audit"].model_copy(update={"step": len(state["history"])})
    if audit.confirmed:
        return {"audits": [audit]}
    return {"audits": [audit], "verdict": Verdict(depth=0, reason=f"audit of the goal: {audit.reason}")}


def _record_invalidations(state: SDPState, update: Update, runtime: Runtime[Context]) -> Update:
    revalidation: Revalidation = update["revalidation"]
    checked, step = predicates_to_recheck(state), len(state["history"])
    if beyond := [index for index in revalidation.undone if not 0 <= index < len(checked)]:
        message = f"the operator in slot revalidate named predicate {beyond[0]} of {len(checked)}"
        raise Fault("operator", f"{message}; `undone` must hold indices from 0 into the view's `certified`")
    # A condition may have been certified more than once; all its certificates are invalidated.
    undone = {checked[index].predicate.text for index in revalidation.undone}
    in_force = predicates_in_force(state["certificates"], state.get("invalidations", ()))
    lost = [
        Invalidation(**place._asdict(), step=step, reason=revalidation.reason)
        for place in in_force
        if place.predicate.text in undone and place.predicate.kind != RESTORE
    ]
    return {"invalidations": lost} if lost else {}


def _require_replan_of_undone(state: SDPState, runtime: Runtime[Context]) -> Update | None:
    """Refuse, before the world is opened, a benchmark whose Replan does not plan undone conditions again."""
    benchmark = live_benchmark(context_of(runtime))
    if benchmark and "replan" in operators_for(benchmark) and not benchmark.replans_undone:
        reason = f"revalidate cannot be used with {benchmark.name}, whose replan does not plan undone conditions again"
        raise Fault("operator", f"{reason}: leave revalidate out, or build the graph with your own replan as well")
    return None


def _skip_revalidation(state: SDPState, runtime: Runtime[Context]) -> Update | None:
    """Skip revalidation if nothing can have been undone, or no replan is left that could repair it.

    Among actions that were chosen together, only the last one is followed by a revalidation.
    """
    unchanged = not state["observation"].accepted or state["action"].kind == CHECK
    if unchanged or state["verdict"].pending or _skip_without_replans(state, runtime) is not None:
        return {}
    return None if predicates_to_recheck(state) else {}


def _skip_without_replans(state: SDPState, runtime: Runtime[Context]) -> Update | None:
    spent = state["replans"] >= limits_of(state["task"], runtime).replans
    return {} if spent and not needs_rest_of_plan(state) else None


RESET = Slot("reset", RESET_KEYS, record=_clear_certified, starts_run=True, may_write=CALL_KEYS)
RESET_REVALIDATING = RESET._replace(skip=_require_replan_of_undone)
"""Slot `reset` of a graph that has the node `revalidate` and not a Replan of the user's own."""
REASON_KEYS = {"gave_up": str}
"""Keys, with their types, that an operator may return with an empty plan."""
PROPOSE = Slot("propose", {"plan": Sequence[Predicate]}, propose_view, may_write={**REASON_KEYS, "draft": Draft})


def share_request(slot: Slot, ahead: int) -> Slot:
    """Return a slot whose operator plans and gives the first actions too, which it leaves to `realize` as a draft.

    Args:
        slot: the slot `propose` or `replan`.
        ahead: maximum number of actions after the first one.
    """

    def view(state: SDPState) -> Any:
        return {**slot.view(state), "shared": SharedRequest(view=state["evidence"].view, ahead=ahead)}

    return slot._replace(view=view)


def find_ahead(operator: object) -> int | None:
    """Return how many actions after the first one the operator `realize` gives; None if it is another operator."""
    spec = getattr(operator, "spec", None)
    return int(spec.args.get("ahead", MAX_AHEAD)) if spec is not None and spec.name == "realize" else None


REALIZE = Slot("realize", {"action": Action}, realize_view, _record_choice, may_write=UPCOMING_KEYS)
"""Slot `realize`. An operator may choose several actions together: it then returns the later ones as `upcoming`."""
ACT = Slot("act", ACT_KEYS, record=_record_turn, may_write={**CALL_KEYS, "action": Action})
"""Slot `act`. An operator may return the action as it was taken, where that is known only afterwards."""
VALIDATE = Slot("validate", {"verdict": Verdict}, validate_view, _record_attempt, may_write=UPCOMING_KEYS)
"""Slot `validate`. An operator may drop the upcoming actions although the verdict certifies something."""
CERTIFY = Slot("certify", {"certificates": Sequence[Certificate], "head": int, "tried": int, "replans": int})
AUDIT = Slot("audit", {"audit": Audit}, audit_view, _record_audit)
REVALIDATE = Slot(
    "revalidate",
    {"revalidation": Revalidation},
    revalidate_view,
    _record_invalidations,
    _skip_revalidation,
)
REPLAN = Slot(
    "replan",
    {"plan": Sequence[Predicate]},
    sdp_replan_view,
    _replace_tail,
    _skip_without_replans,
    may_write={**REASON_KEYS, "draft": Draft},
)


# Propose (SDP Eq. 1): plan a chain of predicates from the certified state to the goal, without any observation.


@prefer_benchmark_operator
async def propose(state: ProposeView, runtime: Runtime[Context]) -> dict[str, Any]:
    """Ask the model for a plan: predicates that lead to the goal. An empty plan means giving up."""
    return await ask_plan(state, runtime)


# Realize (SDP Eq. 2): choose an action that should make the target hold.


@factory
def realize(*, ahead: int = MAX_AHEAD) -> Operator:
    """Ask the model for an action that should make the target true, and for actions that are to follow it.

    It is asked again when they are taken, or when the world's answer cuts them off. Its claim that the target holds, or
    cannot be reached, is put to Validate.

    Args:
        ahead: maximum number of actions after the first one; 0 for one action a call.
    """

    @prefer_benchmark_operator
    async def realize(state: RealizeView, runtime: Runtime[Context]) -> dict[str, Any]:
        if (draft := state.get("draft")) and draft.chain:
            return take_first(draft.chain)
        at = ChainView.of(state, state["target"].text)
        if following := await continue_chain(at, runtime):
            return following
        if not state["attempts"] and not state["upcoming"] and _is_shown(state, runtime):
            return {"action": CHECK_ACTION}
        options = await options_of([state["target"].text, state["task"].goal], state["task"], runtime)
        return take_first(await ask_chain(state, ahead, options, runtime))

    return realize


def _is_shown(state: RealizeView, runtime: Runtime[Context]) -> bool:
    """Return whether a rule finds that the target holds already, so that nothing need be done for it."""
    benchmark = benchmark_of(state["task"], runtime)
    decision = benchmark.decide(state["target"].text, state["observation"], state["evidence"].view)
    return decision is not None and decision.holds


@partial(prefer_benchmark_operator, other="realize")
async def realize_one(state: RealizeView, runtime: Runtime[Context]) -> dict[str, Any]:
    """Ask the model for one action that should make the target true (SDP Eq. 2)."""
    if options := await options_of([state["target"].text, state["task"].goal], state["task"], runtime):
        return {"action": await choose_action(state, options, runtime)}
    return {"action": await ask_action(state, runtime)}


# Validate (SDP Eq. 3): count the consecutive predicates at the head of the plan that the observation satisfies.


@prefer_benchmark_operator
async def validate(state: ValidateView, runtime: Runtime[Context]) -> dict[str, Any]:
    """Count how many of the plan's next conditions hold: by rules after every action, by a model where it is claimed.

    Rules decide at no cost, and find the goal where the world reports it. The model is asked where the agent claims
    that the target holds or cannot be reached, and at the end of actions that were to bring about a condition which no
    rule decides. Other actions are not judged. They count as attempts only if nothing came of them.
    """
    benchmark, tail = benchmark_of(state["task"], runtime), state["tail"]
    record = look_at_plan(state, benchmark)
    verdict = _judge_without_model(state, record, reports_goal=benchmark.signals_goal)
    judged = [p for p in tail if p.kind != "goal"] if benchmark.signals_goal else tail
    if verdict is None and judged and (state["action"].kind == CHECK or _ends_announced(state, record)):
        verdict = await ask_verdict(state, runtime, tail=judged)
    verdict = verdict or _leave_open(state)
    return {"verdict": verdict.model_copy(update={"sightings": record.sightings})}


def _judge_without_model(state: ValidateView, record: RulesRecord, *, reports_goal: bool) -> Verdict | None:
    """Return the verdict that code gives; None if a model has to judge, or nobody need."""
    tail, observation, action = state["tail"], state["observation"], state["action"]
    if observation.solved and reports_goal:
        return judge_at_goal(tail, record, state["since"], observation.goal_report)
    if by_rules := judge_by_rules(tail, record, state["since"]):
        return by_rules
    if observation.options:
        return Verdict(depth=0, reason=one_line(observation.text), pending=True)
    if is_unreachable(action):  # the rest is planned again, which certifies nothing
        return Verdict(depth=0, reason=action.text, unreachable=True)
    unmet = ""
    if observation.done or not observation.accepted:
        unmet = one_line(observation.text)
    elif action.kind == CHECK or CLAIMS in action.args:
        decision = record.now.get(tail[0].text)
        asks_in_vain = reports_goal and tail[0].kind == "goal"
        unmet = NOT_REPORTED if asks_in_vain else decision.quote if decision else ""
    return Verdict(depth=0, reason=unmet, decided_by="code") if unmet else None


NOT_REPORTED = "the world does not report that the goal is reached"


def _ends_announced(state: ValidateView, record: RulesRecord) -> bool:
    """Return whether actions are over that were to bring about a condition which no rule decides."""
    undecided = (text for text in state["announced"] if text not in record.now and text not in record.held)
    worked = not state["observation"].failed and state["observation"].reward >= 0
    return worked and not state["upcoming"] and any(undecided)


def _leave_open(state: ValidateView) -> Verdict:
    """Return the verdict on an action that nobody judges: an attempt if it brought nothing that was not known."""
    latest = state["trace"][-1]
    if state["upcoming"] or latest.seen or count_repeats(state["trace"]) == 1:
        return Verdict(depth=0, pending=True)
    return Verdict(depth=0, reason=one_line(latest.observation), decided_by="code")


@partial(prefer_benchmark_operator, other="validate")
async def validate_always(state: ValidateView, runtime: Runtime[Context]) -> dict[str, Any]:
    """Ask the model after every action how many of the plan's next conditions hold (SDP Eq. 3)."""
    return {"verdict": await ask_verdict(state, runtime, form="full")}


async def always_pass(state: ValidateView, runtime: Runtime[Context]) -> dict[str, Any]:
    """Certify the target predicate whatever the world shows (SDP's ablation of Validate, section 4.3)."""
    return {"verdict": Verdict(depth=1, reason="always_pass")}


@factory
def capped(validate: Operator = validate, *, depth: int = 1) -> Operator:
    """Cap how many predicates a validator certifies at once; a depth of 1: no cascades (SDP's ablation, section 4.3).

    Raises:
        UnknownName: `depth` is not a positive integer.
    """
    if not isinstance(depth, int) or depth < 1:
        raise UnknownName(f"capped(depth={depth!r}): depth must be a positive integer, as in validate=capped:depth=1")

    async def capped_validate(state: ValidateView, runtime: Runtime[Context]) -> dict[str, Any]:
        update = await call_operator(validate, state, runtime)
        verdict: Verdict = update["verdict"]
        if verdict.skipped:
            return update  # the goal, reported by the world, is not a cascade
        if verdict.depth <= depth:
            return update
        # what cannot be reached comes after the predicates that are cut off
        cut = {"depth": depth, "since": verdict.since[:depth], "unreachable": False}
        return {**update, "verdict": verdict.model_copy(update=cut)}

    return capped_validate


SKIPPED = "skipped"
"""Policy of a certificate for predicates that nobody judged before the world reported the goal reached."""


# Certify: turn a verdict into certificates and advance the cursor. Only this operator writes certified state.


async def certify(state: SDPState, runtime: Runtime[Context]) -> dict[str, Any]:
    """Certify the predicates that Validate found to hold, and make the next predicate of the plan the target.

    Those that came true by one action and were decided alike share a certificate, which names that action.
    """
    head, certificates = state["head"], list[Certificate]()
    for ground, group in groupby(_find_grounds(state), key=lambda found: found[0]):
        quotes = [quote for _, quote in group]
        end = head + len(quotes)
        certificates.append(
            _create_certificate(state, head, end, ground, "; ".join(filter(None, dict.fromkeys(quotes))))
        )
        head = end
    # Only new progress refills the replan budget: not going back to an earlier state, no step repeated after that, no
    # forced target, and no predicate that was certified before.
    replans = state["replans"]
    if replans and _extends_progress([*state["certificates"], *certificates]):
        replans = 0
    return {"certificates": certificates, "head": head, "tried": 0, "replans": replans}


class _Ground(NamedTuple):
    """By what a predicate is certified: the step that brought it about, who decided, and a policy that let it pass."""

    step: int
    decided_by: Decider
    forced: str


def _find_grounds(state: SDPState) -> Iterator[tuple[_Ground, str]]:
    """Yield by what each predicate is certified that the verdict counts, with the words by which a rule decided it.

    A predicate counts from the step at which it and all before it had come true.
    """
    verdict, latest = state["verdict"], max(len(state["history"]), 1)
    reached = state["certificates"][-1].step if state["certificates"] else 1
    for index, predicate in enumerate(state["plan"][state["head"] : state["head"] + verdict.depth]):
        number = verdict.since[index] if index < len(verdict.since) else 0
        reached = max(reached, step_of_action(state, number) if number else latest)
        quote = find_sighting(state, predicate.text, number)
        by_rule = quote and verdict.decided_by in ("code", "model")
        forced = SKIPPED if index in verdict.skipped else verdict.forced
        yield _Ground(reached, "code" if by_rule else verdict.decided_by, forced), quote


def _create_certificate(state: SDPState, start: int, end: int, ground: _Ground, quotes: str) -> Certificate:
    verdict, targets = state["verdict"], tuple(state["plan"][start:end])
    taken = state["history"][ground.step - 1] if state["history"] else None
    return Certificate(
        step=ground.step,
        position=start,
        targets=targets,
        action=taken.action if taken else state["action"],
        digest=taken.digest if taken else state["attempts"][-1].digest,
        evidence=quotes or verdict.evidence,
        decided_by=ground.decided_by,
        rests_on=verdict.rests_on,
        calls=verdict.calls,
        restores=_restored_state(targets),
        finding=verdict.finding,
        forced=ground.forced,
    )


def _extends_progress(certificates: Sequence[Certificate]) -> bool:
    """Return whether the latest certificate has a predicate that was not certified before.

    Once a run went back to an earlier state, the certified state must also become longer than it ever was.
    """
    *earlier, latest = certificates
    known = {target.text for one in earlier if not one.forced for target in one.targets}
    if latest.forced or latest.restores is not None or known.issuperset(target.text for target in latest.targets):
        return False
    if not went_back(earlier):
        return True
    *before, after = (len(s.predicates) for s in certified_states(certificates))
    return after > max(before)


def _restored_state(targets: tuple[Predicate, ...]) -> int | None:
    state_number = targets[0].args.get("to") if targets[0].kind == RESTORE else None
    return state_number if isinstance(state_number, int) else None


# Replan (SDP Eq. 4): write a new plan tail when the tries at the target are used up. Only this operator sees
# everything. It also continues a plan that was cut to `Limits.plan` conditions once all of them are certified.


@prefer_benchmark_operator
async def replan(state: SDPReplanView, runtime: Runtime[Context]) -> dict[str, Any]:
    """Ask the model for a new plan from the certified state to the goal. If the plan is empty, the run gives up."""
    return await ask_rest_of_plan(state, runtime)


async def give_up(state: SDPReplanView, runtime: Runtime[Context]) -> dict[str, Any]:
    """End the run instead of replanning (SDP's ablation of Replan, section 4.3)."""
    return {"plan": []}

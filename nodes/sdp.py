"""SDP's operators (SDP paper, section 3.2): Propose, Realize, Validate, Certify and Replan.

Each section has the operator, its answer schema and its prompt; the ablations of the SDP paper follow the operator that
they replace. The slots come first: they keep the plan, the position in it, the attempts and the certificates.
"""

from collections.abc import Sequence
from functools import lru_cache
from typing import Annotated, Any

from langgraph.runtime import Runtime
from langgraph.types import Overwrite
from pydantic import BaseModel, Field, create_model

from certigraph.adapters.benchmarks import context_of, limits_of, live_benchmark
from certigraph.adapters.episodes import candidate_actions
from certigraph.adapters.models.calls import ask, choose
from certigraph.adapters.models.prompts import (
    build_prompt,
    bullet_list,
    format_attempts,
    numbered_list,
    quote,
    unquote_line,
)
from certigraph.adapters.models.schemas import Bounded, Truncated, bounded_list
from certigraph.adapters.protocols import Context, Operator
from certigraph.nodes.operators import call_operator
from certigraph.nodes.slots import (
    ACT_KEYS,
    RESET_KEYS,
    Slot,
    Update,
    clear_memory,
    factory,
    prefer_benchmark_operator,
)
from certigraph.state.records import (
    RESTORE,
    Action,
    Attempt,
    Audit,
    Certificate,
    Fault,
    Invalidation,
    LimitReached,
    Predicate,
    Revalidation,
    Task,
    UnknownName,
    Verdict,
)
from certigraph.state.run import certified_states, predicates_in_force
from certigraph.state.sdp import (
    CUT_ARGUMENT,
    ProposeView,
    RealizeView,
    SDPReplanView,
    SDPState,
    ValidateView,
    audit_view,
    build_plan,
    needs_rest_of_plan,
    predicates_to_recheck,
    propose_view,
    realize_view,
    revalidate_view,
    sdp_replan_view,
    validate_view,
)

# The slots of SDP's graph: each operator's view, and the bookkeeping around its update.


def _clear_certified(state: SDPState, update: Update, runtime: Runtime[Context]) -> Update:
    optional = [log for log in ("audits", "invalidations") if state.get(log)]
    logs = {log: Overwrite([]) for log in ("certificates", "attempts", *optional)}
    cursor = {"plan": [], "head": 0, "tried": 0, "replans": 0, "verdict": Verdict(depth=0)}
    return {**update, **clear_memory(state), **logs, **cursor}


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
    return {"verdict": verdict, "attempts": [attempt], "tried": state["tried"] + (not verdict.looked)}


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
        return {"plan": [*certified, *update["plan"]]}
    if not update["plan"]:
        return {}
    return {"plan": [*certified, *update["plan"]], "tried": 0, "replans": state["replans"] + 1}


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
    if benchmark and "replan" in benchmark.operators() and not benchmark.replans_undone:
        reason = f"revalidate cannot be used with {benchmark.name}, whose replan does not plan undone conditions again"
        raise Fault("operator", f"{reason}: leave revalidate out, or build the graph with your own replan as well")
    return None


def _skip_revalidation(state: SDPState, runtime: Runtime[Context]) -> Update | None:
    """Skip revalidation if nothing can have been undone, or no replan is left that could repair it."""
    refused = not state["observation"].accepted
    return (
        {} if refused or _skip_without_replans(state, runtime) is not None or not predicates_to_recheck(state) else None
    )


def _skip_without_replans(state: SDPState, runtime: Runtime[Context]) -> Update | None:
    spent = state["replans"] >= limits_of(state["task"], runtime).replans
    return {} if spent and not needs_rest_of_plan(state) else None


RESET = Slot("reset", RESET_KEYS, record=_clear_certified, starts_run=True)
RESET_REVALIDATING = RESET._replace(skip=_require_replan_of_undone)
"""Slot `reset` of a graph that has the node `revalidate` and not a Replan of the user's own."""
PROPOSE = Slot("propose", {"plan": Sequence[Predicate]}, propose_view)
REALIZE = Slot("realize", {"action": Action}, realize_view)
ACT = Slot("act", ACT_KEYS)
VALIDATE = Slot("validate", {"verdict": Verdict}, validate_view, _record_attempt)
CERTIFY = Slot("certify", {"certificates": Sequence[Certificate], "head": int, "tried": int, "replans": int})
AUDIT = Slot("audit", {"audit": Audit}, audit_view, _record_audit)
REVALIDATE = Slot(
    "revalidate",
    {"revalidation": Revalidation},
    revalidate_view,
    _record_invalidations,
    _skip_revalidation,
)
REPLAN = Slot("replan", {"plan": Sequence[Predicate]}, sdp_replan_view, _replace_tail, _skip_without_replans)


# Propose (SDP Eq. 1): plan a chain of predicates from the certified state to the goal, without any observation.


class Conditions(BaseModel):
    """Answer schema for a plan: conditions in the order in which they should come true, the goal last."""

    conditions: list[str]


@prefer_benchmark_operator
async def propose(state: ProposeView, runtime: Runtime[Context]) -> dict[str, Any]:
    """Ask the model for a plan: predicates that lead to the goal. An empty plan means giving up."""
    goal = state["task"].condition or state["task"].goal
    instruction = PROPOSE_INSTRUCTION.format(
        task=state["task"].goal, certified=numbered_list(p.text for p in state["certified"].predicates), goal=goal
    )
    return {"plan": await ask_plan(instruction, state["task"], runtime)}


async def ask_plan(instruction: str, task: Task, runtime: Runtime[Context]) -> list[Predicate]:
    """Ask a model for a plan: the conditions that it gives, then the task's goal. Without conditions the plan is empty.

    The goal is taken from the task (SDP, Definition 1), so that a model that weakens it cannot decide what success
    means.
    """
    maximum = limits_of(task, runtime).plan
    answer = await ask(build_prompt(runtime, instruction), conditions_form(maximum), role="planner", runtime=runtime)
    texts = [stripped for text in answer.conditions if (stripped := text.strip())]
    return build_plan(texts, Predicate(text=task.condition or task.goal, kind="goal"), maximum)


@lru_cache(maxsize=16)
def conditions_form(most: int) -> type[Conditions]:
    """Create the answer schema for up to `most` conditions. Longer plans are parsed too, so that they are noticed."""
    return create_model("Conditions", __base__=Conditions, conditions=(bounded_list(most, str), ...))


PROPOSE_INSTRUCTION = """\
Task: {task}

Certified so far:
{certified}

List the conditions that lead from here to the goal, in the order in which they should come true. Make each one an
observable change that a single action can bring about. The last condition is the goal itself:
{goal}
"""


# Realize (SDP Eq. 2): choose one action that should make the target hold.


class NextAction(BaseModel):
    """The model's answer where the world does not list its actions."""

    action: Annotated[str, Field(min_length=1), Bounded(300)]


@prefer_benchmark_operator
async def realize(state: RealizeView, runtime: Runtime[Context]) -> dict[str, Any]:
    """Ask the model for an action that should make the target predicate true."""
    goal, target = state["task"].goal, state["target"].text
    maximum = limits_of(state["task"], runtime).options
    options = await candidate_actions([target, goal], runtime, maximum)
    request = build_prompt(
        runtime,
        REALIZE_INSTRUCTION.format(
            task=state["task"].goal,
            certified=numbered_list(p.text for p in state["certified"].predicates[-5:]),
            notes=_format_notes(state),
            view=quote(state["evidence"].view),
            actions=quote(numbered_list(options)),
            tried=quote(format_attempts(state["attempts"])),
            target=state["target"].text,
        ),
    )
    if options:
        text = await choose(request, options, role="executor", runtime=runtime)
    else:
        text = (await ask(request, NextAction, role="executor", runtime=runtime)).action
    return {"action": Action(text=text)}


def _format_notes(state: RealizeView) -> str:
    notes = [*state["belief"].text.splitlines(), *state["advice"]]
    return f"\nTo keep in mind:\n{quote(bullet_list(notes))}\n" if notes else ""


REALIZE_INSTRUCTION = """\
Task: {task}

Certified last:
{certified}
{notes}
The world now:
{view}

Actions to choose from:
{actions}

Tried for this condition without success:
{tried}

Condition to make true next: {target}
Give the one action that makes it true. Do not repeat what was tried.
"""


# Validate (SDP Eq. 3): count the consecutive predicates at the head of the plan that the observation satisfies.

MAX_SHOWN_CONDITIONS = 10
"""Maximum number of conditions in Validate's prompt. If more hold at once, they are certified in two steps."""


class Holds(BaseModel):
    """The model's answer: a short reason first, then the count it supports."""

    reason: Annotated[str, Truncated(300)]
    holds: int = Field(ge=0, le=MAX_SHOWN_CONDITIONS, strict=True)


@prefer_benchmark_operator
async def validate(state: ValidateView, runtime: Runtime[Context]) -> dict[str, Any]:
    """Ask the model how many of the plan's next conditions hold now, counted from the target on without a gap."""
    tail = state["tail"][:MAX_SHOWN_CONDITIONS]
    instruction = VALIDATE_INSTRUCTION.format(
        task=state["task"].goal,
        observation=quote(state["observation"].text),
        conditions=numbered_list(p.text for p in tail),
    )
    answer = await ask(build_prompt(runtime, instruction), Holds, role="validator", runtime=runtime)
    return {"verdict": Verdict(depth=min(answer.holds, len(tail)), reason=answer.reason, decided_by="model")}


async def always_pass(state: ValidateView, runtime: Runtime[Context]) -> dict[str, Any]:
    """Certify the target predicate whatever the world shows (SDP's ablation of Validate, section 4.3)."""
    return {"verdict": Verdict(depth=1, reason="always_pass")}


@factory
def capped(validate: Operator = validate, *, depth: int = 1) -> Operator:
    """Let a validator certify at most `depth` predicates at once (SDP's ablation of cascades, section 4.3).

    Raises:
        UnknownName: `depth` is not a positive integer.
    """
    if not isinstance(depth, int) or depth < 1:
        raise UnknownName(f"capped(depth={depth!r}): depth must be a positive integer, as in validate=capped:depth=1")

    async def capped_validate(state: ValidateView, runtime: Runtime[Context]) -> dict[str, Any]:
        update = await call_operator(validate, state, runtime)
        verdict: Verdict = update["verdict"]
        return {**update, "verdict": verdict.model_copy(update={"depth": min(verdict.depth, depth)})}

    return capped_validate


VALIDATE_INSTRUCTION = """\
Task: {task}

After the last action the world shows:
{observation}

Conditions, in order:
{conditions}

Count how many of them hold now, from the first one on, without a gap. If the first one does not hold, the count is 0.
"""


# Certify: turn a verdict into a certificate and advance the cursor. Only this operator writes certified state.


async def certify(state: SDPState, runtime: Runtime[Context]) -> dict[str, Any]:
    """Certify the predicates that Validate found to hold, and make the next predicate of the plan the target."""
    head, history = state["head"], state["history"]
    targets = tuple(state["plan"][head : head + state["verdict"].depth])
    certificate = Certificate(
        step=max(len(history), 1),
        position=head,
        targets=targets,
        action=state["action"],
        digest=state["attempts"][-1].digest,
        evidence=state["verdict"].evidence,
        decided_by=state["verdict"].decided_by,
        restores=_restored_state(targets),
        finding=state["verdict"].finding,
        forced=state["verdict"].forced,
    )
    # Only new progress refills the replan budget: not going back to an earlier state, no step repeated after that, and
    # no forced target.
    replans = 0 if _extends_progress([*state["certificates"], certificate]) else state["replans"]
    return {"certificates": [certificate], "head": head + len(targets), "tried": 0, "replans": replans}


def _extends_progress(certificates: Sequence[Certificate]) -> bool:
    """Return whether the latest certificate leads to a longer certified state than every earlier one."""
    if all(c.restores is None for c in certificates):
        return not certificates[-1].forced
    *before, after = (len(s.predicates) for s in certified_states(certificates))
    return after > max(before)


def _restored_state(targets: tuple[Predicate, ...]) -> int | None:
    state_number = targets[0].args.get("to") if targets[0].kind == RESTORE else None
    return state_number if isinstance(state_number, int) else None


# Replan (SDP Eq. 4): write a new plan tail when the tries at the target are used up. Only this operator sees
# everything. It also continues a plan that was cut to `Limits.plan` conditions once all of them are certified.

MAX_SHOWN_ATTEMPTS = 10


@prefer_benchmark_operator
async def replan(state: SDPReplanView, runtime: Runtime[Context]) -> dict[str, Any]:
    """Ask the model for a new plan from the certified state to the goal. If the plan is empty, the run gives up."""
    situation = SITUATION_TEMPLATE.format(
        task=state["task"].goal,
        certified=numbered_list(p.text for p in state["certified"].predicates),
        view=quote(state["evidence"].view),
    )
    return {
        "plan": await ask_plan(situation + _format_checks(state) + _replan_instruction(state), state["task"], runtime)
    }


def _replan_instruction(state: SDPReplanView) -> str:
    tail = state["plan"][state["head"] :]
    if needs_rest_of_plan(state):
        return EXTEND_INSTRUCTION.format(goal=tail[-1].text)
    attempts = quote(format_attempts(state["attempts"][-MAX_SHOWN_ATTEMPTS:]))
    return REPLAN_INSTRUCTION.format(tried=attempts, tail=numbered_list(p.text for p in tail))


def _format_checks(state: SDPReplanView) -> str:
    """Describe what an audit or a revalidation found, in graphs that have one."""
    held = {predicate.text for predicate in state["certified"].predicates}
    lost = list(dict.fromkeys(i.predicate.text for i in state["invalidations"] if i.predicate.text not in held))
    parts = [f"Met earlier, but undone since:\n{numbered_list(lost)}\n"] if lost else []
    if state["audits"] and not state["audits"][-1].confirmed:
        parts.append(f"An audit found that the goal is not reached:\n{unquote_line(state['audits'][-1].reason)}\n")
    return "".join(f"\n{part}" for part in parts)


async def give_up(state: SDPReplanView, runtime: Runtime[Context]) -> dict[str, Any]:
    """End the run instead of replanning (SDP's ablation of Replan, section 4.3)."""
    return {"plan": []}


SITUATION_TEMPLATE = """\
Task: {task}

Certified so far:
{certified}

The world now:
{view}
"""

EXTEND_INSTRUCTION = """
The plan ends here, for it had as many conditions as a plan may have; all of them hold. Write the rest of the plan from
here to the goal. Make each condition an observable change that a single action can bring about. The last condition is
the goal itself:
{goal}
"""

REPLAN_INSTRUCTION = """
Tried lately:
{tried}

The rest of the plan, which did not work out:
{tail}

Write a new rest of the plan from here to the goal, by another way. Make each condition an observable change that a
single action can bring about. The last condition is the goal itself. If there is no way, give an empty list.
"""

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
from certigraph.adapters.models.calls import ask, choose, deliberate, profile_of
from certigraph.adapters.models.prompts import (
    Prompt,
    build_prompt,
    bullet_list,
    format_attempts,
    format_history,
    numbered_list,
    one_line,
    quote,
    unquote_line,
)
from certigraph.adapters.models.schemas import Bounded, FullOnly, Truncated, bounded_list
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
    Fact,
    Fault,
    Invalidation,
    LimitReached,
    Observation,
    Predicate,
    Revalidation,
    Task,
    UnknownName,
    Verdict,
)
from certigraph.state.run import certified_states, create_turn, predicates_in_force
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
    logs = {log: Overwrite([]) for log in ("certificates", "attempts", "turns", *optional)}
    cursor = {"plan": [], "head": 0, "tried": 0, "replans": 0, "verdict": Verdict(depth=0)}
    return {**update, **clear_memory(state), **logs, **cursor}


def _record_turn(state: SDPState, update: Update, runtime: Runtime[Context]) -> Update:
    return {**update, "turns": [create_turn("", state["action"], update["observation"])]}


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
ACT = Slot("act", ACT_KEYS, record=_record_turn)
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

    reasoning: Annotated[str, FullOnly()] = ""
    conditions: list[str]


@prefer_benchmark_operator
async def propose(state: ProposeView, runtime: Runtime[Context]) -> dict[str, Any]:
    """Ask the model for a plan: predicates that lead to the goal. An empty plan means giving up."""
    instruction = SITUATION_TEMPLATE.format(
        task=state["task"].goal, certified=numbered_list(p.text for p in state["certified"].predicates)
    ) + PROPOSE_QUESTION.format(**_plan_bounds(state["task"], runtime))
    return {"plan": await ask_plan(instruction, state["task"], runtime)}


async def ask_plan(
    instruction: str, task: Task, runtime: Runtime[Context], *, cut: Sequence[str] = ()
) -> list[Predicate]:
    """Ask a model for a plan: the conditions that it gives, then the task's goal. Without conditions the plan is empty.

    The goal is taken from the task (SDP, Definition 1), so that a model that weakens it cannot decide what success
    means.
    """
    maximum = limits_of(task, runtime).plan
    prompt = build_prompt(runtime, instruction, role=PLANNER, cut=cut)
    answer = await ask(prompt, conditions_form(maximum), role="planner", runtime=runtime)
    texts = [stripped for text in answer.conditions if (stripped := text.strip())]
    return build_plan(texts, Predicate(text=task.condition or task.goal, kind="goal"), maximum)


@lru_cache(maxsize=16)
def conditions_form(most: int) -> type[Conditions]:
    """Create the answer schema for up to `most` conditions. Longer plans are parsed too, so that they are noticed."""
    return create_model("Conditions", __base__=Conditions, conditions=(bounded_list(most, str), ...))


def _plan_bounds(task: Task, runtime: Runtime[Context]) -> dict[str, object]:
    limits = limits_of(task, runtime)
    return {"goal": task.condition or task.goal, "most": limits.plan, "steps": limits.steps}


PLANNER = """\
You plan for an agent that acts in a world known by text alone. A plan is a list of conditions on the world, in the
order in which they should come true. The agent works at one condition at a time, with one action after another, and a
condition counts only once the world's answer to an action shows that it holds. So write each condition as a fact that
can be read in an answer (what is where, in which state, what was learned), not as an action or an intention; small
enough that a few actions reach it, and large enough that it is worth checking. Name things as the world names them."""

SITUATION_TEMPLATE = """\
Task: {task}

Certified so far, which need not be reached again:
{certified}
"""

PROPOSE_QUESTION = """
Think first: what has to be true at the end, what has to be true before that, and in which order do the parts depend on
each other? Then list the conditions that lead from here to the goal, at most {most}. The agent may take {steps} actions
in all. The last condition is the goal itself:
{goal}
"""


# Realize (SDP Eq. 2): choose one action that should make the target hold.


class NextAction(BaseModel):
    """Answer schema where the world does not list its actions, or lists too many to choose from."""

    thought: Annotated[str, FullOnly()] = ""
    action: Annotated[str, Field(min_length=1), Bounded(300)]


@prefer_benchmark_operator
async def realize(state: RealizeView, runtime: Runtime[Context]) -> dict[str, Any]:
    """Ask the model for an action that should make the target predicate true."""
    goal, target = state["task"].goal, state["target"].text
    maximum = limits_of(state["task"], runtime).options
    options = await candidate_actions([target, goal], runtime, maximum)
    if not options:
        prompt = await realize_prompt(state, "Write the action as the world's rules say.", runtime)
        return {"action": Action(text=(await ask(prompt, NextAction, role="executor", runtime=runtime)).action)}
    prompt = await realize_prompt(state, f"Actions to choose from:\n{quote(bullet_list(options))}", runtime)
    small = (await profile_of("executor", runtime)).is_small
    if small:
        return {"action": Action(text=await choose(prompt, options, role="executor", runtime=runtime))}
    return {"action": Action(text=(await deliberate(prompt, options, role="executor", runtime=runtime)).choice)}


async def realize_prompt(state: RealizeView, choice: str, runtime: Runtime[Context]) -> Prompt:
    """Build the prompt of Realize: plan, facts, turns, the world now, the target, and `choice` about the actions."""
    profile = await profile_of("executor", runtime)
    certified = [p.text for p in state["certified"].predicates]
    before = f"Task, for orientation: {state['task'].goal}\n\n"
    after = REALIZE_SITUATION.format(
        certified=numbered_list(certified[-5:] if profile.is_small else certified),
        target=state["target"].text,
        ahead=bullet_list(p.text for p in state["ahead"][: 3 if profile.is_small else None]),
        facts=format_facts(state["facts"]),
        notes=_format_notes(state),
        view=quote(state["evidence"].view),
        tried=quote(format_attempts(state["attempts"])),
        used=len(state["turns"]),
        steps=limits_of(state["task"], runtime).steps,
        choice=choice,
    )
    rest = build_prompt(runtime, before + after, role=REALIZER)
    history = format_history(state["turns"], rest.system + rest.user, profile)
    shown = f"Actions so far and the world's answers, the latest last:\n{quote(history.text)}\n\n"
    return build_prompt(runtime, before + shown + after, role=REALIZER, cut=history.cut)


def format_facts(facts: Sequence[Fact]) -> str:
    """Format what earlier actions established, each fact with the action that showed it."""
    return quote(bullet_list(f"{fact.text} (action {fact.step}: {fact.action})" for fact in facts))


def _format_notes(state: RealizeView) -> str:
    notes = [*state["belief"].text.splitlines(), *state["advice"]]
    return f"\nTo keep in mind:\n{quote(bullet_list(notes))}\n" if notes else ""


REALIZER = """\
You act in a world that you know by text alone, one action at a time. A plan splits the task into conditions; you work
at one of them, the target. After each action you see what the world answered, and a checker decides by that answer
whether the target holds. Rely on the answers and not on what you expect: names must be used as the world shows them,
and an action that had no effect has none when it is repeated."""

REALIZE_SITUATION = """\
Plan. Certified:
{certified}
Target: {target}
After it:
{ahead}

Established by earlier answers:
{facts}
{notes}
The world now:
{view}

Tried for the target without success, with the reason:
{tried}

Actions used: {used} of at most {steps}.

{choice}
Target: {target}
Think first: what is missing for the target, and which action brings it about or comes closest without harm to what the
plan needs later? Then give that one action.
"""


# Validate (SDP Eq. 3): count the consecutive predicates at the head of the plan that the observation satisfies.

MAX_SHOWN_CONDITIONS = 10
"""Maximum number of conditions in Validate's prompt. If more hold at once, they are certified in two steps."""


class Holds(BaseModel):
    """The model's answer: a short reason first, then the count it supports."""

    reason: Annotated[str, Truncated(300)]
    evidence: Annotated[str, FullOnly()] = ""
    facts: Annotated[list[str], FullOnly()] = []
    unreachable: Annotated[bool, FullOnly()] = False
    holds: int = Field(ge=0, le=MAX_SHOWN_CONDITIONS, strict=True)


@prefer_benchmark_operator
async def validate(state: ValidateView, runtime: Runtime[Context]) -> dict[str, Any]:
    """Ask the model how many of the plan's next conditions hold now, counted from the target on without a gap."""
    tail = state["tail"][:MAX_SHOWN_CONDITIONS]
    instruction = VALIDATE_INSTRUCTION.format(
        task=state["task"].goal,
        facts=format_facts(state["facts"]),
        action=quote(state["action"].text),
        observation=quote(state["observation"].text),
        conditions=numbered_list(p.text for p in tail),
    )
    prompt = build_prompt(runtime, f"{instruction}\n{VALIDATE_QUESTION}", role=VALIDATOR)
    answer = await ask(prompt, Holds, role="validator", runtime=runtime)
    return {"verdict": verdict_of(answer, len(tail), state["observation"])}


def verdict_of(answer: Holds, most: int, observation: Observation) -> Verdict:
    """Create the verdict of a model's answer: at most `most` conditions, and evidence that the observation contains."""
    quoted = one_line(answer.evidence)
    shown = quoted.lower() in one_line(observation.text).lower()
    depth = min(answer.holds, most)
    return Verdict(
        depth=depth,
        reason=answer.reason,
        evidence=quoted if shown else "",
        decided_by="model",
        facts=tuple(filter(None, map(unquote_line, answer.facts))),
        unreachable=answer.unreachable and not depth,
    )


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


VALIDATOR = """\
You check progress in a world that you know by text alone. You get the conditions of a plan in the order in which they
should come true, the last action, and the world's answer to it. Judge by what the answer shows, and by established
facts that nothing since has changed. That an action was meant to achieve something is no evidence that it did. A
condition that you count is taken as proven from then on, so count none that is merely likely."""

VALIDATE_INSTRUCTION = """\
Task, for orientation: {task}

Established by earlier answers:
{facts}

Conditions, in order; the first one is the target:
{conditions}

The last action:
{action}
The world answered:
{observation}
"""

VALIDATE_QUESTION = """\
Give, in this order:
- reason: what the answer says about the target, then about the conditions after it as far as they hold too.
- evidence: the words of the answer, copied exactly, that show it; empty if the target does not hold.
- facts: what the answer shows that later steps may need when it is out of sight: readings, contents, places, exact
  names, recipes, what is broken. One short statement each; an empty list if there is nothing new.
- unreachable: true only if the answer shows that the target can never come true as it is worded, for example because
  what it names does not exist. It is then planned anew. Otherwise false.
- holds: how many conditions hold now, counted from the target on without a gap; 0 if the target does not hold.
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
"""Maximum number of attempts in the prompt of a small model."""


@prefer_benchmark_operator
async def replan(state: SDPReplanView, runtime: Runtime[Context]) -> dict[str, Any]:
    """Ask the model for a new plan from the certified state to the goal. If the plan is empty, the run gives up."""
    profile = await profile_of("planner", runtime)
    before = SITUATION_TEMPLATE.format(
        task=state["task"].goal, certified=numbered_list(p.text for p in state["certified"].predicates)
    )
    after = f"\nEstablished by the answers so far:\n{format_facts(state['facts'])}\n"
    after += f"\nThe world now:\n{quote(state['evidence'].view)}\n{_format_checks(state)}"
    after += _replan_instruction(state, runtime, small=profile.is_small)
    history = format_history(state["turns"], before + after, profile)
    shown = f"\nActions so far and the world's answers, the latest last:\n{quote(history.text)}\n"
    return {"plan": await ask_plan(before + shown + after, state["task"], runtime, cut=history.cut)}


def _replan_instruction(state: SDPReplanView, runtime: Runtime[Context], *, small: bool) -> str:
    tail, bounds = state["plan"][state["head"] :], _plan_bounds(state["task"], runtime)
    if needs_rest_of_plan(state):
        return EXTEND_QUESTION.format(**bounds)
    attempts = state["attempts"][-MAX_SHOWN_ATTEMPTS if small else 0 :]
    tried = quote(format_attempts(attempts))
    left = int(str(bounds["steps"])) - len(state["turns"])
    return REPLAN_QUESTION.format(**bounds, tried=tried, tail=numbered_list(p.text for p in tail), left=left)


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


EXTEND_QUESTION = """
The plan ends here, because it had as many conditions as a plan may have, and all of them hold. Think first what is
still missing, then list the conditions that lead from here to the goal, at most {most}. The last condition is the goal
itself:
{goal}
"""

REPLAN_QUESTION = """
The rest of the plan, whose first condition was not reached:
{tail}

Tried for it, with the reason why it was not accepted:
{tried}

Think first: why was it not reached? It may be worded so that no answer can show it, it may need something that was not
done, or there may be no such thing. Then write a new rest of the plan from here to the goal that avoids that cause, at
most {most} conditions; {left} actions are left. Do not repeat what is certified. The last condition is the goal itself:
{goal}
If there is no way to the goal, give an empty list.
"""

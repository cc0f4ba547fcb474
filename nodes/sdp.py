"""SDP's operators: propose, realize, validate, certify, replan."""

from collections.abc import Sequence
from functools import lru_cache
from typing import Annotated, Any

from langgraph.runtime import Runtime
from langgraph.types import Overwrite
from pydantic import BaseModel, Field, create_model

from certigraph.adapters.benchmarks import context_of, limits_of
from certigraph.adapters.episodes import candidates
from certigraph.adapters.models.calls import ask, bullet_list, choose, numbered, prompt, quoted, tried, unquoted
from certigraph.adapters.models.schemas import Cut, Within, at_most
from certigraph.adapters.protocols import Context, Operator
from certigraph.nodes.slots import ACTED, OPENED, Slot, Update, factory, forgotten, specialised
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
    CUT,
    ProposeView,
    RealizeView,
    ReplanView,
    SDPState,
    ValidateView,
    audit_view,
    extends,
    plan_of,
    propose_view,
    realize_view,
    replan_view,
    revalidate_view,
    revalidated,
    validate_view,
)

# The slots of SDP's graph: which view each operator gets, and the bookkeeping around its answer.


def _nothing_certified(state: SDPState, update: Update, runtime: Runtime[Context]) -> Update:
    optional = [log for log in ("audits", "invalidations") if state.get(log)]
    logs = {log: Overwrite([]) for log in ("certificates", "attempts", *optional)}
    cursor = {"plan": [], "head": 0, "tried": 0, "replans": 0, "verdict": Verdict(depth=0)}
    return {**update, **forgotten(state), **logs, **cursor}


def _attempted(state: SDPState, update: Update, runtime: Runtime[Context]) -> Update:
    most = _certifiable(state["plan"][state["head"] :])
    verdict = update["verdict"].model_copy(update={"depth": min(update["verdict"].depth, most)})
    attempt = Attempt(
        position=state["head"],
        target=state["plan"][state["head"]],
        action=state["action"],
        digest=state["observation"].digest(),
        verdict=verdict,
    )
    return {"verdict": verdict, "attempts": [attempt], "tried": state["tried"] + (not verdict.looked)}


def _certifiable(tail: Sequence[Predicate]) -> int:
    """How many predicates one verdict may discharge: a return to an earlier state is certified on its own."""
    if tail[0].kind == RESTORE:
        return 1
    return next((n for n, predicate in enumerate(tail) if predicate.kind == RESTORE), len(tail))


def _replanned(state: SDPState, update: Update, runtime: Runtime[Context]) -> Update:
    """The new tail. Raises LimitReached where a plan that was cut gets no rest."""
    kept = state["plan"][: state["head"]]
    if extends(state):
        if not update["plan"]:
            most = int(str(state["plan"][state["head"]].args[CUT]))
            told = f"the plan was cut, {most} of {most} conditions are certified, and replan gave no others"
            raise LimitReached("plan", most, most, happened=f"{told} (an operator that never does needs a new run)")
        return {"plan": [*kept, *update["plan"]]}
    if not update["plan"]:
        return {}
    return {"plan": [*kept, *update["plan"]], "tried": 0, "replans": state["replans"] + 1}


def _audited(state: SDPState, update: Update, runtime: Runtime[Context]) -> Update:
    audit: Audit = update["audit"].model_copy(update={"step": len(state["history"])})
    if audit.confirmed:
        return {"audits": [audit]}
    return {"audits": [audit], "verdict": Verdict(depth=0, reason=f"audit of the goal: {audit.reason}")}


def _invalidated(state: SDPState, update: Update, runtime: Runtime[Context]) -> Update:
    found: Revalidation = update["revalidation"]
    checked, step = revalidated(state), len(state["history"])
    if beyond := [index for index in found.undone if not 0 <= index < len(checked)]:
        told = f"the operator in slot revalidate named predicate {beyond[0]} of {len(checked)}"
        raise Fault("operator", f"{told}; `undone` has indices from 0 into the view's `certified`")
    # A condition that was certified more than once is undone wherever it was.
    undone = {checked[index].predicate.text for index in found.undone}
    in_force = predicates_in_force(state["certificates"], state.get("invalidations", ()))
    lost = [
        Invalidation(**place._asdict(), step=step, reason=found.reason)
        for place in in_force
        if place.predicate.text in undone and place.predicate.kind != RESTORE
    ]
    return {"invalidations": lost} if lost else {}


def _must_replan_undone(state: SDPState, runtime: Runtime[Context]) -> Update | None:
    """Refuse, before the world is opened, a benchmark whose own Replan would leave undone conditions undone."""
    benchmark = context_of(runtime).benchmark
    if benchmark and "replan" in benchmark.operators() and not getattr(benchmark, "replans_undone", False):
        why = f"revalidate cannot be used with {benchmark.name}, whose replan does not plan undone conditions again"
        raise Fault("operator", f"{why}: leave revalidate out, or build the graph with a replan of your own as well")
    return None


def _nothing_to_revalidate(state: SDPState, runtime: Runtime[Context]) -> Update | None:
    """Nothing can have been undone, or no replan is left that could mend it."""
    refused = not state["observation"].accepted
    return {} if refused or _replans_spent(state, runtime) is not None or not revalidated(state) else None


def _replans_spent(state: SDPState, runtime: Runtime[Context]) -> Update | None:
    spent = state["replans"] >= limits_of(state["task"], runtime).replans
    return {} if spent and not extends(state) else None


RESET = Slot("reset", OPENED, record=_nothing_certified, opens_books=True)
RESET_REVALIDATING = RESET._replace(skip=_must_replan_undone)
"""`reset` of a graph with `revalidate` that leaves Replan to the benchmark."""
PROPOSE = Slot("propose", frozenset({"plan"}), propose_view)
REALIZE = Slot("realize", frozenset({"action"}), realize_view)
ACT = Slot("act", ACTED)
VALIDATE = Slot("validate", frozenset({"verdict"}), validate_view, _attempted)
CERTIFY = Slot("certify", frozenset({"certificates", "head", "tried", "replans"}))
AUDIT = Slot("audit", frozenset({"audit"}), audit_view, _audited, types={"audit": Audit})
REVALIDATE = Slot(
    "revalidate",
    frozenset({"revalidation"}),
    revalidate_view,
    _invalidated,
    _nothing_to_revalidate,
    types={"revalidation": Revalidation},
)
REPLAN = Slot("replan", frozenset({"plan"}), replan_view, _replanned, _replans_spent)


# Propose (SDP Eq. 1): the plan of predicates from the certified state to the goal, without any observation.


class Conditions(BaseModel):
    """The model's answer: conditions in the order in which they should come true, the goal last."""

    conditions: list[str]


@specialised
async def propose(state: ProposeView, runtime: Runtime[Context]) -> dict[str, Any]:
    """Ask the model for the plan. An empty plan means giving up."""
    goal = state["task"].condition or state["task"].goal
    instruction = PROPOSE_INSTRUCTION.format(
        task=state["task"].goal, certified=numbered(p.text for p in state["certified"].predicates), goal=goal
    )
    return {"plan": await planned(instruction, state["task"], runtime)}


async def planned(instruction: str, task: Task, runtime: Runtime[Context]) -> list[Predicate]:
    """The plan that a model gives: its non-empty conditions, and the task's own goal at the end; no condition, no plan.

    The goal is given with the task (Definition 1): a model that words it too weakly must not decide what is reached.
    """
    most = limits_of(task, runtime).plan
    answer = await ask(prompt(runtime, instruction), conditions_form(most), role="planner", runtime=runtime)
    texts = [stripped for text in answer.conditions if (stripped := text.strip())]
    return plan_of(texts, Predicate(text=task.condition or task.goal, kind="goal"), most)


@lru_cache(maxsize=16)
def conditions_form(most: int) -> type[Conditions]:
    """The form of an answer with `most` conditions; of a longer one more are read, so that it is known to be longer."""
    return create_model("Conditions", __base__=Conditions, conditions=(at_most(most, str), ...))


PROPOSE_INSTRUCTION = """\
Task: {task}

Certified so far:
{certified}

List the conditions that lead from here to the goal, in the order in which they should come true. Make each one an
observable change that a single action can bring about. The last condition is the goal itself:
{goal}
"""


# Realize (SDP Eq. 2): one action meant to make the target hold.


class NextAction(BaseModel):
    """The model's answer where the world does not list its actions."""

    action: Annotated[str, Field(min_length=1), Within(300)]


@specialised
async def realize(state: RealizeView, runtime: Runtime[Context]) -> dict[str, Any]:
    """Ask the model for the next action."""
    goal, target = state["task"].goal, state["target"].text
    most = limits_of(state["task"], runtime).options
    offered = await candidates([target, goal], runtime, most)
    question = prompt(
        runtime,
        REALIZE_INSTRUCTION.format(
            task=state["task"].goal,
            certified=numbered(p.text for p in state["certified"].predicates[-5:]),
            notes=_notes(state),
            view=quoted(state["evidence"].view),
            actions=quoted(numbered(offered)),
            tried=quoted(tried(state["attempts"])),
            target=state["target"].text,
        ),
    )
    if offered:
        text = await choose(question, offered, role="executor", runtime=runtime)
    else:
        text = (await ask(question, NextAction, role="executor", runtime=runtime)).action
    return {"action": Action(text=text)}


def _notes(state: RealizeView) -> str:
    told = [*state["belief"].text.splitlines(), *state["advice"]]
    return f"\nTo keep in mind:\n{quoted(bullet_list(told))}\n" if told else ""


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


# Validate (SDP Eq. 3): how many consecutive predicates at the head of the plan the observation satisfies.

MOST_SHOWN = 10
"""Conditions of the tail shown at once: deeper cascades are certified in two steps."""


class Holds(BaseModel):
    """The model's answer: a short reason first, then the count it supports."""

    reason: Annotated[str, Cut(300)]
    holds: int = Field(ge=0, le=MOST_SHOWN, strict=True)


@specialised
async def validate(state: ValidateView, runtime: Runtime[Context]) -> dict[str, Any]:
    """Ask the model for the verdict."""
    tail = state["tail"][:MOST_SHOWN]
    instruction = VALIDATE_INSTRUCTION.format(
        task=state["task"].goal,
        observation=quoted(state["observation"].text),
        conditions=numbered(p.text for p in tail),
    )
    answer = await ask(prompt(runtime, instruction), Holds, role="validator", runtime=runtime)
    return {"verdict": Verdict(depth=min(answer.holds, len(tail)), reason=answer.reason)}


async def always_pass(state: ValidateView, runtime: Runtime[Context]) -> dict[str, Any]:
    """Certify the target whatever the world shows (the paper's ablation of Validate, section 4.3)."""
    return {"verdict": Verdict(depth=1, reason="always_pass")}


@factory
def capped(validate: Operator = validate, *, depth: int = 1) -> Operator:
    """A validator whose cascades are cut to `depth` predicates (the paper's ablation of cascade, section 4.3).

    Raises:
        UnknownName: the depth is no whole number from 1.
    """
    if not isinstance(depth, int) or depth < 1:
        raise UnknownName(f"capped(depth={depth!r}): a depth is a whole number from 1, as in validate=capped:depth=1")

    async def capped_validate(state: ValidateView, runtime: Runtime[Context]) -> dict[str, Any]:
        update = await validate(state, runtime)
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


# Certify: turn a verdict into a certificate and move the cursor. The one writer of certified state.


async def certify(state: SDPState, runtime: Runtime[Context]) -> dict[str, Any]:
    """Discharge the predicates that the verdict counted; they must be in the plan."""
    head, history = state["head"], state["history"]
    targets = tuple(state["plan"][head : head + state["verdict"].depth])
    certificate = Certificate(
        step=max(len(history), 1),
        position=head,
        targets=targets,
        action=state["action"],
        digest=state["attempts"][-1].digest,
        evidence=state["verdict"].evidence,
        restores=_restored(targets),
        finding=state["verdict"].finding,
        forced=state["verdict"].forced,
    )
    # Neither a return, nor what is done again after it, nor what was forced refills the replan budget.
    replans = 0 if _gains([*state["certificates"], certificate]) else state["replans"]
    return {"certificates": [certificate], "head": head + len(targets), "tried": 0, "replans": replans}


def _gains(certificates: Sequence[Certificate]) -> bool:
    """Whether the latest certificate goes beyond everything that was certified before."""
    if all(c.restores is None for c in certificates):
        return not certificates[-1].forced
    *before, after = (len(s.predicates) for s in certified_states(certificates))
    return after > max(before)


def _restored(targets: tuple[Predicate, ...]) -> int | None:
    to = targets[0].args.get("to") if targets[0].kind == RESTORE else None
    return to if isinstance(to, int) else None


# Replan (SDP Eq. 4): a new plan tail when tries at the target are used up. The one operator that sees everything.
#
# It also gives the rest of a plan that was longer than `Limits.plan` allows, once all that it had is certified.

MOST_ATTEMPTS_SHOWN = 10


@specialised
async def replan(state: ReplanView, runtime: Runtime[Context]) -> dict[str, Any]:
    """Ask the model for a new tail. An empty tail means giving up."""
    situation = SITUATION.format(
        task=state["task"].goal,
        certified=numbered(p.text for p in state["certified"].predicates),
        view=quoted(state["evidence"].view),
    )
    return {"plan": await planned(situation + _found(state) + _order(state), state["task"], runtime)}


def _order(state: ReplanView) -> str:
    tail = state["plan"][state["head"] :]
    if extends(state):
        return EXTEND.format(goal=tail[-1].text)
    attempts = quoted(tried(state["attempts"][-MOST_ATTEMPTS_SHOWN:]))
    return ANOTHER_WAY.format(tried=attempts, tail=numbered(p.text for p in tail))


def _found(state: ReplanView) -> str:
    """What an audit or a revalidation found, where the graph has one."""
    held = {predicate.text for predicate in state["certified"].predicates}
    lost = list(dict.fromkeys(i.predicate.text for i in state["invalidations"] if i.predicate.text not in held))
    parts = [f"Met earlier, but undone since:\n{numbered(lost)}\n"] if lost else []
    if state["audits"] and not state["audits"][-1].confirmed:
        parts.append(f"An audit found that the goal is not reached:\n{unquoted(state['audits'][-1].reason)}\n")
    return "".join(f"\n{part}" for part in parts)


async def give_up(state: ReplanView, runtime: Runtime[Context]) -> dict[str, Any]:
    """End the run instead of replanning (the paper's ablation of Replan, section 4.3)."""
    return {"plan": []}


SITUATION = """\
Task: {task}

Certified so far:
{certified}

The world now:
{view}
"""

EXTEND = """
The plan ends here, for it had as many conditions as a plan may have; all of them hold. Write the rest of the plan from
here to the goal. Make each condition an observable change that a single action can bring about. The last condition is
the goal itself:
{goal}
"""

ANOTHER_WAY = """
Tried lately:
{tried}

The rest of the plan, which did not work out:
{tail}

Write a new rest of the plan from here to the goal, by another way. Make each condition an observable change that a
single action can bring about. The last condition is the goal itself. If there is no way, give an empty list.
"""

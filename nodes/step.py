"""STEP's operators (STEP paper, section 3): Planner, Executor and Evaluator (`align`, `assess`).

The memory is in `lessons.py`. The defaults cost fewer calls than the paper's: the Executor may give several actions at
once, the Evaluator checks only actions that a rule names, and judges a subtask only where the Planner, who sees its end
too, does not. The paper's are `execute`, `align_always` and `assess`.

Over tools the Executor says with its calls that they fulfil the subtask, and the Evaluator is asked there. The Planner,
which knows what the answer has to say, drafts it.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import lru_cache, partial
from typing import Annotated, Any

from langgraph.runtime import Runtime
from langgraph.types import Overwrite
from pydantic import BaseModel, Field, create_model

from certigraph.adapters.benchmarks import benchmark_of, limits_of
from certigraph.adapters.models.calls import ask, profile_of
from certigraph.adapters.models.prompts import (
    TURNS_HEADING,
    build_prompt,
    format_history,
    format_latest,
    format_limits,
    format_options,
    format_view,
    numbered_list,
    paragraphs,
    quote,
    quote_history,
)
from certigraph.adapters.models.schemas import Reasoning, Requested, Truncated, offer_options
from certigraph.adapters.models.streams import ArgumentOf
from certigraph.adapters.models.tool_calls import OfferedTool, ToolChoice, ask_tool_calls
from certigraph.adapters.protocols import Context, Operator
from certigraph.adapters.tools.definitions import HOLDS, UNREACHABLE
from certigraph.adapters.tools.world import Tools
from certigraph.nodes import react
from certigraph.nodes.chains import (
    ChainView,
    chain_form,
    chain_request,
    continue_chain,
    describe_untaken,
    read_chain,
    take_first,
)
from certigraph.nodes.decisions import options_of, situation_prompt
from certigraph.nodes.operators import call_operator
from certigraph.nodes.own_tools import has_tools, offered_tools, tools_of
from certigraph.nodes.rules import is_named_by
from certigraph.nodes.slots import (
    UPCOMING_KEYS,
    Slot,
    Update,
    cut_chain,
    factory,
    prefer_benchmark_operator,
    set_chain,
)
from certigraph.nodes.tool_choices import CALLS_REQUEST, SUBTASK_REQUEST, operators_for, to_action
from certigraph.nodes.tool_choices import execute as execute_calls
from certigraph.nodes.tool_prompts import decision_prompt, list_tools
from certigraph.state.records import Action, Arguments, with_args
from certigraph.state.run import FINISH, REFUSED_PREFIX, DecideView
from certigraph.state.step import (
    HANDED_BACK,
    REPORT,
    STANDING,
    AlignView,
    Approval,
    AssessView,
    ExecutorView,
    PlannerView,
    Standing,
    StepState,
    StepSubtask,
    align_view,
    assess_view,
    executor_view,
    is_handed_back,
    planner_view,
    standing_of,
)
from certigraph.state.tools import ANSWER_ARGUMENT, calls_of

# The slots of STEP's graph, with its guards against loops (further limits: `Limits` in adapters/protocols.py).

MAX_REFUSALS = 3
"""Number of refusals in a row after which `align` approves the next action without a question.

If the Evaluator refuses one more, the subtask fails and is refined. So it does after so many reports in a row that it
is reached or blocked, which the Evaluator denies.
"""

MAX_UNACHIEVABLE = 3
"""Number of times that the world refuses the same action after which the subtask fails and is refined."""


def _clear_subtasks(state: StepState, update: Update, runtime: Runtime[Context]) -> Update:
    update = react.RESET_TRIAL.record(state, update, runtime)
    return {**update, "subtasks": Overwrite([]), "begun": 0, **_clear_rulings(state)}


def _start_subtask(state: StepState, update: Update, runtime: Runtime[Context]) -> Update:
    return {**update, "begun": len(state["turns"]), **_clear_rulings(state)}


def _clear_rulings(state: StepState) -> Update:
    forbidden: Update = {"forbidden": {}} if state.get("forbidden") else {}
    return {"refusals": (), **forbidden, **set_chain(state)}


def _record_choice(state: StepState, update: Update, runtime: Runtime[Context]) -> Update:
    return {**update, **set_chain(state, update.get("upcoming", ()))}


def _record_ruling(state: StepState, update: Update, runtime: Runtime[Context]) -> Update:
    """Record a refusal. The subtask fails after too many in a row: an action that was refused is never taken."""
    approval: Approval = update["approval"]
    if approval.approved:
        return update
    action, subtask = state["action"].text, state["subtask"]
    refusals = (*state["refusals"], f"{action}: {approval.reason}")
    forbidden = {**state.get("forbidden", {}), action: approval.reason}
    update = {**update, "refusals": refusals, "forbidden": forbidden, **cut_chain(state)}
    if len(refusals) <= MAX_REFUSALS:
        return update
    reason = f"the Evaluator refused {len(refusals)} actions in a row; {refusals[-1]}"
    failed = subtask.model_copy(update={"status": "failed", "reason": reason})
    return {**update, "subtask": failed, "subtasks": [failed]}


def _record_action(state: StepState, update: Update, runtime: Runtime[Context]) -> Update:
    return {**react.ACT.record(state, update, runtime), "refusals": ()}


def _guard_against_loops(state: StepState, update: Update, runtime: Runtime[Context]) -> Update:
    subtask, refusals = update["subtask"], state["refusals"]
    if subtask.status == "open" and is_handed_back(state["action"]):
        refusals = (*refusals, f"the report that it is {standing_of(state['action'])}: {subtask.reason}")
    if subtask.status == "open" and not subtask.whole and (reason := _stuck_reason(state, refusals, runtime)):
        subtask = subtask.model_copy(update={"status": "failed", "reason": reason})
    return {"subtask": subtask, "subtasks": [subtask] if subtask.status != "open" else [], "refusals": refusals}


def _stuck_reason(state: StepState, refusals: Sequence[str], runtime: Runtime[Context]) -> str:
    """Return why the subtask should be refined; empty if it may continue."""
    turns, maximum = state["turns"][state["begun"] :], limits_of(state["task"], runtime).substeps
    refused = Counter(turn.action for turn in turns if not turn.accepted)
    if refused and max(refused.values()) >= MAX_UNACHIEVABLE:
        return f"the world refused {refused.most_common(1)[0][0]!r} {MAX_UNACHIEVABLE} times"
    if len(refusals) >= MAX_REFUSALS and is_handed_back(state["action"]):
        return f"it was handed back {MAX_REFUSALS} times and judged otherwise; {refusals[-1]}"
    return f"it was not reached in {maximum} actions" if len(turns) >= maximum else ""


def _skip_at_end(state: StepState, runtime: Runtime[Context]) -> Update | None:
    """Skip the Evaluator once the episode is over: its answer would change nothing."""
    return {"subtask": state["subtask"], "subtasks": []} if is_over(state, runtime) else None


def is_over(state: StepState, runtime: Runtime[Context]) -> bool:
    """Return whether the episode is over: finished, out of steps or subtasks, or too long (`Limits.gold`)."""
    reached = react.episode_limit(state, runtime)
    gold = limits_of(state["task"], runtime).gold
    return react.is_finished(state, runtime) or reached is not None or _is_past_gold(state, gold, runtime)


def _is_past_gold(state: StepState, times: float, runtime: Runtime[Context]) -> bool:
    # A rule of the paper's public code. It leaks the length of the solution, so `Limits.gold` is 0 by default.
    if not times:
        return False
    length = benchmark_of(state["task"], runtime).gold_length(state["task"])
    return length is not None and len(state["history"]) >= times * length


def _execute_view(state: StepState) -> ExecutorView:
    """Return the Executor's view with insights and reasons as advice, quoted: they may repeat what the world says."""
    view, subtask = executor_view(state), state["subtask"]
    judged = (f"{JUDGED_OPEN}\n{quote(subtask.reason)}",) if subtask.reason else ()
    forbidden = (f"{action}: {reason}" for action, reason in state.get("forbidden", {}).items())
    refused = (f"{REFUSED_PREFIX}\n{quote(refusal)}" for refusal in dict.fromkeys((*forbidden, *state["refusals"])))
    return {**view, "advice": (*react.quote_lessons(subtask.insights), *view["advice"], *judged, *refused)}


JUDGED_OPEN = "When it was last judged, the assignment was not completed:"


RESET = react.RESET_TRIAL._replace(record=_clear_subtasks)
PLANNER = Slot("planner", {"subtask": StepSubtask}, planner_view, _start_subtask)
EXECUTOR = Slot("executor", {"action": Action, "thought": str}, _execute_view, _record_choice, may_write=UPCOMING_KEYS)
ALIGN = Slot("align", {"approval": Approval}, align_view, _record_ruling)
ACT = react.ACT._replace(record=_record_action)
ASSESS = Slot("assess", {"subtask": StepSubtask}, assess_view, _guard_against_loops, _skip_at_end)


# STEP's Planner: give the next subtask, or another way if the last one failed, with the insights that matter to it.


class Next(BaseModel):
    """The model's answer: why, and what next."""

    rationale: Reasoning
    subtask: Annotated[str, Field(min_length=1)]


class NextWithInsights(Next):
    """The model's answer where there are insights, with the numbers of those that the Executor is to see."""

    insights: Annotated[list[int], Truncated(100)]


@lru_cache(maxsize=4)
def next_form(*, insights: bool, drafts: bool) -> type[Next]:
    """Create the answer schema of the next subtask.

    Args:
        insights: whether there are insights, of which the model chooses.
        drafts: whether the model writes the answer of the task where the subtask is to hand it in.
    """
    base = NextWithInsights if insights else Next
    return create_model(base.__name__, __base__=base, answer=(Annotated[str, Requested], "")) if drafts else base


@prefer_benchmark_operator
async def planner(state: PlannerView, runtime: Runtime[Context]) -> dict[str, Any]:
    """Ask the model for the next subtask, or for a refinement of the one that failed (STEP Algorithm 1, lines 5-10)."""
    profile = await profile_of("planner", runtime)
    benchmark, substeps = benchmark_of(state["task"], runtime), limits_of(state["task"], runtime).substeps
    drafts = has_tools(benchmark) and tools_of(state["task"], runtime).response_format is None
    last = state["subtasks"][-1] if state["subtasks"] and state["subtasks"][-1].status == "failed" else None
    before = paragraphs(
        NEXT_INSTRUCTION,
        REFINE_INSTRUCTION,
        HAND_IN_INSTRUCTION + DRAFT_INSTRUCTION * drafts if benchmark.answers else "",
        SUBSTEPS_INSTRUCTION.format(substeps=substeps),
        INSIGHTS_INSTRUCTION if state["insights"] else "",
        f"Task: {state['task'].goal}",
        f"{STRATEGY_HEADING}\n{quote(numbered_list(state['strategy']))}" if state["strategy"] else "",
        f"{INSIGHTS_HEADING}\n{quote(numbered_list(state['insights']))}" if state["insights"] else "",
    )
    done = format_latest([*map(_format_subtask, state["subtasks"])], profile, "subtasks")
    after = paragraphs(
        f"{SUBTASKS_HEADING}\n{quote(done.text)}",
        format_view(state["evidence"].view, runtime, turns=state["turns"], profile=profile),
        format_limits(state["task"], runtime, used=len(state["turns"])),
        REFINE_CLOSING.format(subtask=last.text) if last else NEXT_CLOSING,
    )
    history = format_history(state["turns"], PLANNER_ROLE + before + after, profile)
    request = paragraphs(before, f"{TURNS_HEADING}\n{quote_history(history)}", after)
    prompt = build_prompt(runtime, request, role=PLANNER_ROLE, cut=(*done.cut, *history.cut))
    form = next_form(insights=bool(state["insights"]), drafts=drafts)
    answer = await ask(prompt, form, role="planner", runtime=runtime)
    chosen = dict.fromkeys(answer.insights) if isinstance(answer, NextWithInsights) else ()
    relevant = (state["insights"][n - 1] for n in chosen if 0 < n <= len(state["insights"]))
    draft = str(getattr(answer, "answer", "")).strip()
    return {"subtask": StepSubtask(text=answer.subtask, insights=tuple(relevant), answer=draft)}


async def none(state: PlannerView, runtime: Runtime[Context]) -> dict[str, Any]:
    """Give the Executor the complete task and all insights, without a Planner (STEP's ablation, section 4.2.3)."""
    return {"subtask": StepSubtask(text=state["task"].goal, insights=tuple(state["insights"]), whole=True)}


def _format_subtask(subtask: StepSubtask) -> str:
    status = "reported as completed" if subtask.status == "reported" else subtask.status
    shown = subtask.reason if subtask.status in ("failed", "reported") else ""
    return f"{status}: {subtask.text}" + (f" ({shown})" if shown else "")


PLANNER_ROLE = """\
You direct an agent towards a task, one subtask at a time. Whoever carries a subtask out sees the subtask, the insights
that you choose for it, if there are any, and all actions and answers of this episode, and not the task. You see the
task, everything that was done and answered in this episode, and what earlier episodes of the same task taught, if there
were any."""

STRATEGY_HEADING = "Strategy that an earlier episode suggests, in its order, as far as the world bears it out:"

INSIGHTS_HEADING = """\
Insights of earlier episodes. SHOULD BE NECESSARY: it helped repeatedly, or its absence did harm; MAY BE NECESSARY: it
helped once; MAY CONTRIBUTE: it seemed to help; DOES NOT CONTRIBUTE: it was tried and did not help, or did harm."""

SUBTASKS_HEADING = """\
Subtasks of this episode. "Reported" means that nobody but the agent that did it has judged it:"""

SUBSTEPS_INSTRUCTION = "For one subtask at most {substeps} actions can be taken."

INSIGHTS_INSTRUCTION = """\
Also give the numbers of all insights that matter for the subtask, among them those that warn of something in it, and no
others; an empty list if none does."""

NEXT_INSTRUCTION = """\
Think first: what of the task is reached, in the order in which the task asks for it? Did the last subtask bring what it
was meant to bring, by what the world answered? What comes next? Why can it be reached from here: what does it need,
and is that there? Then give the next subtask: one result that a few actions reach, large enough to be worth handing
over, with the names of things and places as the world shows them, everything that must be known to reach it, and what
would settle it sooner. You see every answer that the agent gets: do not ask it to tell you what it finds, and leave out
what will soon have changed, such as what is left of moves. If a change only needs time, the subtask is to wait for it,
with what shows that it has come. An action that cannot be undone, such as declaring which thing is the one asked for,
belongs into the subtask in which the task wants it and no earlier one, as its last action, once what decides it is
known; if several things would do, say what else the chosen one has to be good for."""

HAND_IN_INSTRUCTION = """\
The task ends when its answer is handed in with finish. Once all else that it asks for is done, the subtask is to hand
the answer in, with what it has to say; no other subtask asks for that."""

DRAFT_INSTRUCTION = """
In `answer`, write that answer itself, complete, as it goes to whoever gave the task; it is handed in as it stands, and
the subtask need not repeat it. For every other subtask it is empty."""

NEXT_CLOSING = "What is the next subtask?"

REFINE_CLOSING = """\
The subtask "{subtask}" failed, for the reason that the list of subtasks gives.
What is to be done in its place?"""

REFINE_INSTRUCTION = """\
If the last subtask failed, think first: why, by what the world answered? Is what it needs there, and is there another
way to the same result? If it was under way and needs only more time or more actions, give what is left of it. Else give
a smaller subtask or one that gets there by another way, and not the same one again unless what stood in its way is
gone. Use the names of things and places as the world shows them."""


# STEP's Executor: a thought, how the subtask stands, and actions for it. TDP's Executor works alike.

MAX_AHEAD = 7
"""Maximum number of actions that the Executor may give in addition to the first one."""


class SubtaskStanding(BaseModel):
    """The beginning of the model's answer: a thought, and how the subtask stands."""

    thought: Reasoning
    standing: Annotated[Standing, Requested] = None  # type: ignore[assignment]  # absent: judged by what was done
    report: Annotated[str, Requested] = ""


class SubtaskChoice(SubtaskStanding):
    """The model's answer where it chooses its first action from a list."""

    choice: str


class SubtaskMove(SubtaskStanding):
    """The model's answer where it writes its actions freely. Without an action, none is taken."""

    action: str


@factory
def execute_subtask(*, ahead: int = MAX_AHEAD) -> Operator:
    """Ask the model for an action for the subtask, how the subtask stands, and the actions that may follow at once.

    An action that follows is taken only if the world accepted all before it. The benchmark's own operator `execute`,
    and a subtask that is the main task itself, give one action as `execute` gives it. Over tools an action has several
    calls, and an answer that the Planner drafted is handed in as it stands.

    Args:
        ahead: maximum number of actions in addition to the first one; 0 for one action at a time.
    """

    async def execute_subtask(state: ExecutorView, runtime: Runtime[Context]) -> dict[str, Any]:
        benchmark = benchmark_of(state["task"], runtime)
        special = operators_for(benchmark).get("execute")
        if special is execute_calls and not state["whole"]:
            return await _choose_calls(state, runtime)
        if state["whole"] or benchmark.answers or special:
            return await call_operator(react.execute, state, runtime)
        taken = TAKEN_LINE.format(taken=state["taken"], substeps=limits_of(state["task"], runtime).substeps)
        return await choose_actions(state, EXECUTOR_QUESTION, ahead, runtime, standing=state["standing"], shown=taken)

    return execute_subtask


async def choose_actions(
    state: DecideView, question: str, ahead: int, runtime: Runtime[Context], *, standing: Standing | None, shown: str
) -> dict[str, Any]:
    """Take the next action of a chain, or ask the model for a new chain and for how the assignment stands.

    Args:
        state: view of the Executor.
        question: what is asked, with the places `field`, `rule` and `then` for what is asked about actions.
        ahead: maximum number of actions after the first one.
        runtime: the operator's runtime.
        standing: standing of the assignment at the latest action, which still holds for the rest of its chain.
        shown: what else the prompt shows.
    """
    if following := await continue_chain(ChainView.of(state, state["assignment"]), runtime):
        action: Action = following["action"]
        kept: Standing = "completes" if standing == "completes" else "continues"
        args = {**_standing_args(kept, ""), **action.args}
        return {"thought": "", **following, "action": action.model_copy(update={"args": args})}
    options = await options_of(react.shortlist_queries(state), state["task"], runtime)
    if not options:
        react.check_writable(state["task"], runtime)
    wordings = benchmark_of(state["task"], runtime).wordings
    field = "choice" if options else "action"
    base: type[SubtaskStanding] = offer_options(SubtaskChoice, options) if options else SubtaskMove
    written = UNTAKEN_ACTION if ahead else f"{react.WRITE_INSTRUCTION} {UNTAKEN_ACTION}"
    rule = f"{react.CHOOSE_INSTRUCTION} {UNTAKEN_CHOICE}" if options else written
    then = chain_request(ahead, wordings, planned=False) + COMPLETES_LAST if ahead else ""
    untaken = describe_untaken(state, runtime)
    shown = paragraphs(format_options(options) if options else "", untaken, shown)
    prompt = await situation_prompt(
        state, question.format(rule=rule, field=field, then=then), runtime, shown=shown, closing=EXECUTOR_CLOSING
    )
    form = chain_form(base, ahead, wordings, planned=False)
    answer: Any = await ask(prompt, form, role="executor", runtime=runtime)
    return {"thought": answer.thought, **_read_actions(answer, getattr(answer, field))}


def _read_actions(answer: SubtaskStanding, first: str) -> dict[str, Any]:
    """Return the update that takes the first action of an answer; none is taken if the subtask is handed back."""
    acts = first.strip() or answer.standing == "blocked"
    standing: Standing | None = answer.standing if acts else "reached"
    args = _standing_args(standing, answer.report)
    if standing in HANDED_BACK:
        return {"action": Action(text=first, args=args)}
    chain = [with_args(one, args) for one in read_chain(answer, first)]
    return take_first(chain)


async def _choose_calls(state: ExecutorView, runtime: Runtime[Context]) -> dict[str, Any]:
    tools = tools_of(state["task"], runtime)
    if state["answer"]:
        return {"thought": "", "action": tools.finish_action({ANSWER_ARGUMENT: state["answer"]})}
    request = CALLS_REQUEST + SUBTASK_REQUEST + CLAIM_REQUEST
    prompt = await decision_prompt(state, request, tools, runtime)
    offered = [*offered_tools(tools, runtime), REACHED_TOOL, BLOCKED_TOOL, tools.finish_tool()]
    shown = ArgumentOf(FINISH, ANSWER_ARGUMENT) if tools.response_format is None else None
    choice = await ask_tool_calls(
        prompt, offered, role="executor", runtime=runtime, answer=shown, listing=list_tools(offered)
    )
    return {"thought": choice.thought, "action": _to_claiming_action(choice, tools)}


def _to_claiming_action(choice: ToolChoice, tools: Tools) -> Action:
    """Create the action of the calls that an Executor chose, with how the subtask stands after them."""
    claim = next((call for call in choice.calls if call.name in CLAIMS), None)
    is_acting = any(call.name in tools.loaded for call in choice.calls)
    standing: Standing = "continues"
    if claim is not None and not is_acting:
        standing = CLAIMS[claim.name]
    elif claim is not None and claim.name == HOLDS:
        standing = "completes"
    report = str(claim.args.get(REPORT, "")) if claim is not None and standing != "continues" else ""
    args = _standing_args(standing, report)
    if claim is not None and not is_acting:
        return Action(text="", args=args)
    action = to_action(choice, tools, final=True)
    return with_args(action, args)


def _standing_args(standing: Standing | None, report: str) -> Arguments:
    return {key: value for key, value in ((STANDING, standing), (REPORT, report)) if value}


EXECUTOR_QUESTION = """\
Think first: what do the answers so far establish for the assignment, what is still missing, and what would each likely
action change? Then give:
- standing: "continues" if the action is a step on the way; "completes" if the assignment should be fulfilled once the
  action has worked; "reached" if the assignment is fulfilled already; "blocked" if it cannot be fulfilled from here.
- report: for "reached" and "blocked", the words in which the world shows it, and what they mean; else empty.
- {field}: the one action to take next. {rule}
{then}"""

_REPORT_FORM: dict[str, Any] = {
    "type": "object",
    "properties": {REPORT: {"type": "string", "description": "the words of the answers that show it"}},
    "required": [REPORT],
}

REACHED_TOOL = OfferedTool(
    HOLDS,
    "Says that the assignment is fulfilled: alone if the answers so far show that, or after the calls that fulfil it.",
    _REPORT_FORM,
)
BLOCKED_TOOL = OfferedTool(
    UNREACHABLE, "Says that the answers show that the assignment cannot be fulfilled. Call it alone.", _REPORT_FORM
)

CLAIMS: Mapping[str, Standing] = {HOLDS: "reached", UNREACHABLE: "blocked"}
"""How the subtask stands where no tool of the user's is called, by the name of the call that says so."""

CLAIM_REQUEST = f"""\
Say with {HOLDS} that the assignment is fulfilled, in the same response as the calls that fulfil it, and with
{UNREACHABLE} that it cannot be.
"""

UNTAKEN_CHOICE = 'It is not taken for "reached" and "blocked", whichever it is.'

UNTAKEN_ACTION = 'It is empty for "reached" and "blocked", and none is taken.'

EXECUTOR_CLOSING = "How does the assignment stand, and what is the next action for it?"

TAKEN_LINE = "Actions taken for this assignment: {taken} of at most {substeps}."

COMPLETES_LAST = """
"completes" speaks of the last of these actions.
"""


# STEP's Evaluator before an action: check it against the rules of earlier episodes (section 3, Algorithm 1, line 14).


class Ruling(BaseModel):
    """The model's answer."""

    reason: Reasoning
    forbidden: bool


@prefer_benchmark_operator
async def align(state: AlignView, runtime: Runtime[Context]) -> dict[str, Any]:
    """Ask the model whether a rule learned in earlier episodes forbids the action, where a rule names it.

    It is asked once for an action in a subtask, whatever names a correction or a question of the world gives to its
    things, and not again once it has refused `MAX_REFUSALS` actions in a row.
    """
    ruling = _rule_without_asking(state)
    return {"approval": ruling} if ruling else await align_always(state, runtime)


def _rule_without_asking(state: AlignView) -> Approval | None:
    """Return what is known about an action without a question to the model; None if it has to be asked."""
    action, taken = state["action"], {turn.action for turn in state["turns"][state["begun"] :]}
    if state["refused"] >= MAX_REFUSALS or action.text in state["options"] or taken & {action.text, action.written}:
        return Approval()
    if action.text in state["forbidden"]:
        return Approval(approved=False, reason=state["forbidden"][action.text])
    names = [*map(str, calls_of(action))] or [action.text, *filter(None, [action.written])]
    return None if any(is_named_by(rule, name) for rule in state["rules"] for name in names) else Approval()


@partial(prefer_benchmark_operator, other="align")
async def align_always(state: AlignView, runtime: Runtime[Context]) -> dict[str, Any]:
    """Ask the model about every action whether a rule learned in earlier episodes forbids it, useful or not.

    This is the Evaluator of the STEP paper (Algorithm 1, line 14). Without rules there is nothing to check.
    """
    if not state["rules"]:
        return {"approval": Approval()}
    profile = await profile_of("validator", runtime)
    rules = f"Rules that earlier episodes of this task taught:\n{quote(numbered_list(state['rules']))}"
    before = paragraphs(ALIGN_QUESTION, rules)
    after = ALIGN_CASE.format(subtask=state["subtask"], action=state["action"].text)
    view = format_view(state["evidence"].view, runtime, turns=state["turns"], profile=profile)
    after = paragraphs(view, after)
    history = format_history(state["turns"], EVALUATOR_ROLE + before + after, profile)
    request = paragraphs(before, f"{TURNS_HEADING}\n{quote_history(history)}", after)
    prompt = build_prompt(runtime, request, role=EVALUATOR_ROLE, cut=history.cut)
    answer = await ask(prompt, Ruling, role="validator", runtime=runtime)
    return {"approval": Approval(approved=not answer.forbidden, reason=answer.reason if answer.forbidden else "")}


ALIGN_CASE = """\
Work at hand: {subtask}
Action that is considered: {action}
Does a rule forbid it?"""

ALIGN_QUESTION = """\
Judge the action that is considered, at the end. Reason first, then decide: does one of the rules speak of exactly this
action on this thing, and say that it does not help or does harm? Judge by the rules alone, and not by whether the
action seems useful. A rule about another thing or another action does not count, nor does one about a situation that is
not the present one, nor one that merely finds the action needless where the work at hand asks for exactly it.
"""


# STEP's Evaluator after an action: judge whether the subtask is completed.


class Completion(BaseModel):
    """The model's answer."""

    reason: Reasoning
    completed: bool
    blocked: Annotated[bool, Requested] = False


@prefer_benchmark_operator
async def assess(state: AssessView, runtime: Runtime[Context]) -> dict[str, Any]:
    """Ask the model whether the subtask is completed or cannot be completed, by the history and the world's view.

    Used alone it judges after every action, as in the STEP paper (Algorithm 1, line 14). A subtask that is the main
    task itself is not judged: the world ends it.
    """
    if state["subtask"].whole:
        return {"subtask": state["subtask"]}
    profile = await profile_of("validator", runtime)
    report = state["action"].args.get(REPORT)
    before = ASSESS_QUESTION.strip()
    view = format_view(state["evidence"].view, runtime, turns=state["turns"], profile=profile)
    after = paragraphs(
        f"Subtask: {state['subtask'].text}",
        f"The work on the subtask began after action {state['begun']}.",
        f"The agent reports about the subtask:\n{quote(str(report))}" if report else "",
        view,
        ASSESS_CLOSING,
    )
    history = format_history(state["turns"], EVALUATOR_ROLE + before + after, profile)
    request = paragraphs(before, f"{TURNS_HEADING}\n{quote_history(history)}", after)
    prompt = build_prompt(runtime, request, role=EVALUATOR_ROLE, cut=history.cut)
    answer = await ask(prompt, Completion, role="validator", runtime=runtime)
    status = "completed" if answer.completed else "failed" if answer.blocked else "open"
    return {"subtask": state["subtask"].model_copy(update={"status": status, "reason": answer.reason})}


@factory
def assess_when_due() -> Operator:
    """Judge a subtask as `assess` does, but only when it is worth a call of the model.

    When the Executor says that its actions completed the subtask, it counts as reported: the Planner, who is asked next
    anyway, checks that by what the world answered. A subtask that the Executor calls blocked has failed. The Evaluator
    is asked if nothing was done for a subtask that is reported as reached, when a subtask has used up its actions, and
    after every action of an Executor that does not say how the subtask stands.

    Over tools the Evaluator is asked for every subtask that the Executor says is fulfilled, unless a call that was to
    fulfil it failed.
    """

    async def assess_when_due(state: AssessView, runtime: Runtime[Context]) -> dict[str, Any]:
        subtask, standing = state["subtask"], standing_of(state["action"])
        turns, report = state["turns"][state["begun"] :], str(state["action"].args.get(REPORT, ""))
        if standing == "blocked":
            reason = f"the Executor handed it back: {report}"
            return {"subtask": subtask.model_copy(update={"status": "failed", "reason": reason})}
        goes_on = state["failed"] or state["upcoming"] or state["untaken"]
        is_due = len(turns) >= limits_of(state["task"], runtime).substeps
        if has_tools(benchmark_of(state["task"], runtime)):
            is_due |= standing != "continues" and not (standing == "completes" and state["failed"])
        elif (standing == "completes" and not goes_on) or (standing == "reached" and turns):
            return {"subtask": subtask.model_copy(update={"status": "reported", "reason": report})}
        else:
            is_due |= standing in (None, "reached")
        return await call_operator(assess, state, runtime) if is_due else {"subtask": subtask}

    return assess_when_due


EVALUATOR_ROLE = """\
You judge the work of an agent that acts in a world known by text alone. Rely on what the world answered and shows, not
on what an action was meant to do."""

ASSESS_CLOSING = "Is the subtask completed?"

ASSESS_QUESTION = """\
Reason first: what does the subtask ask for, and which answer, or which part of what the world shows now, says that it
is so or that it can never be so? Quote it. Then:
- completed: true if the subtask is completed. If nothing shows it, it is not.
- blocked: true if the subtask is not completed and the world shows that it cannot be as it is worded: a thing is broken
  or missing, or something has to be done first that the subtask does not include. That it is not completed yet, or that
  a few actions failed, does not block it.
"""

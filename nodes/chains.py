"""Chains: actions that a model writes together, to be taken one after another without asking it again.

An action of a chain may name the condition that it should bring about, and a condition until which it is taken. The
slots that act advance the chain whenever the world has answered (`advance_chain`); operators that choose actions take
the next one (`continue_chain`) and ask a model only where the chain has come to its end or was cut.
"""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Annotated, Any, NamedTuple

from langgraph.runtime import Runtime
from pydantic import BaseModel, BeforeValidator, create_model

from certigraph.adapters.benchmarks import benchmark_of
from certigraph.adapters.episodes import admissible_actions
from certigraph.adapters.matching import NONE_OF_THESE, find_exact, is_focus, replace_synonym
from certigraph.adapters.models.calls import choose
from certigraph.adapters.models.prompts import build_prompt, bullet_list, quote
from certigraph.adapters.models.schemas import Requested, Truncated
from certigraph.adapters.protocols import Benchmark, Context
from certigraph.nodes.decisions import resolve_action
from certigraph.state.records import (
    AT_MOST,
    BRINGS,
    CLAIMS,
    ESTABLISHED,
    OUTDATED,
    UNTIL,
    WRITTEN,
    Action,
    Arguments,
    Observation,
    Task,
)
from certigraph.state.run import Turn

MAX_AHEAD = 20
"""Default number of actions that a model may write to follow the first one."""

MAX_TIMES = 100
"""Maximum number of times that one action of a chain is taken."""

# What a model writes.


@lru_cache(maxsize=64)
def chain_form(base: type[BaseModel], ahead: int, wordings: str, *, planned: bool) -> type[BaseModel]:
    """Create the answer schema of an action and the actions after it.

    Args:
        base: schema with all that is asked for besides, the first action included.
        ahead: maximum number of actions after the first one; for 0, none is taken until a condition holds.
        wordings: wordings of conditions that rules decide; empty if there are none.
        planned: whether there is a plan, whose conditions actions may bring about.
    """
    announced: dict[str, Any] = {"brings": (int, 0)} if planned else {}
    announced |= {"until": (str, ""), "at_most": (int, 1)} if ahead and wordings else {}
    step: Any = create_model("ChainedAction", action=(str, ...), **announced)
    if ahead:
        following: Any = list[Annotated[step, BeforeValidator(_read_step)]]
        announced |= {"then": (Annotated[following, Truncated(ahead), Requested], [])}
    return create_model(base.__name__, __base__=base, **announced)


def _read_step(value: Any) -> Any:
    return {"action": value} if isinstance(value, str) else value


def read_chain(answer: BaseModel, first: str, conditions: Sequence[str] = ()) -> list[Action]:
    """Read the actions that a model wrote.

    Args:
        answer: the answer, of a schema that `chain_form` made.
        first: text of the first action.
        conditions: the conditions of the plan in the order in which the model numbers them, from 1.
    """
    steps = [(first, answer), *((one.action, one) for one in getattr(answer, "then", ()))]
    return [
        Action(text=text.strip(), args=_read_announcements(step, conditions)) for text, step in steps if text.strip()
    ]


def _read_announcements(step: BaseModel, conditions: Sequence[str]) -> Arguments:
    number, until = getattr(step, "brings", 0), getattr(step, "until", "").strip()
    args: Arguments = {BRINGS: conditions[number - 1]} if 0 < number <= len(conditions) else {}
    if until:
        args |= {UNTIL: until, AT_MOST: min(max(getattr(step, "at_most", 1), 1), MAX_TIMES)}
    return args


def chain_request(ahead: int, wordings: str, *, planned: bool) -> str:
    """Return what is asked of a model about actions of a chain, besides which is the first one.

    Args:
        ahead: maximum number of actions after the first one.
        wordings: wordings of conditions that rules decide; empty if there are none.
        planned: whether there is a plan, whose conditions actions may bring about.
    """
    requests = {"brings": BRINGS_REQUEST} if planned else {}
    requests |= {"until and at_most": UNTIL_REQUEST.format(wordings=wordings.strip())} if ahead and wordings else {}
    own = f", each with its own {', '.join(requests)}" if requests else ""
    then = THEN_REQUEST.format(most=ahead, own=own) if ahead else ""
    return "".join([*requests.values(), then, AS_THE_RULES_SAY])


BRINGS_REQUEST = """\
- brings: the number of the condition of the plan that should hold as soon as this action has worked; 0 if it is only a
  step on the way. What no rule decides is judged then, so give it for no other action.
"""

UNTIL_REQUEST = """\
- until, at_most: for an action that is repeated or tried, a condition, else empty. The action is taken only as long as
  the condition does not hold, at most so often: to wait for what takes time, or to look in one place after another by
  several actions in a row with the same condition. What follows them is taken only if the condition then holds. Rules
  decide it, so write it in one of these wordings: {wordings}
"""

THEN_REQUEST = """\
- then: up to {most} actions after it, in their order, as far as you can see now that they are right{own}. They are
  taken one after another as you write them; you choose again when one is refused, has no effect or loses points.
  Write whole chains where each step is plain, such as going somewhere, opening something, taking what is in it, and
  using it. Stop where the next step depends on an answer that you have not seen, and before a step that cannot be
  undone and might be wrong.
"""

AS_THE_RULES_SAY = "Write actions as the world's rules say."

# How a chain goes on.


def take_first(chain: Sequence[Action]) -> dict[str, Any]:
    """Return the update of an operator that takes the first action of a chain: `action` and the `upcoming` ones."""
    first, *rest = chain
    times = first.args.get(AT_MOST, 1)
    if isinstance(times, int) and times > 1:
        again = {key: value for key, value in first.args.items() if key not in (ESTABLISHED, OUTDATED, CLAIMS)}
        rest = [first.model_copy(update={"args": {**again, AT_MOST: times - 1}}), *rest]
    return _take(first, rest)


def _take(action: Action, upcoming: Sequence[Action]) -> dict[str, Any]:
    return {"action": action, **({"upcoming": tuple(upcoming)} if upcoming else {})}


class Remainder(NamedTuple):
    """What is left of a chain after the world's answer: the actions to come, or those that were cut off."""

    upcoming: tuple[Action, ...] = ()
    untaken: tuple[Action, ...] = ()


def advance_chain(
    upcoming: Sequence[Action], action: Action, observation: Observation, view: str, benchmark: Benchmark
) -> Remainder:
    """Return what is left of a chain after an action.

    It is cut where the action had no effect, lost points or did not bring about what it should by a rule, where the
    condition until which actions were taken did not come true or no rule decides it, and before an action that nobody
    may take without having looked (`Benchmark.is_ready`). A refused action leaves it as it is: it is first asked what
    the action means.

    Args:
        upcoming: the actions that were to follow.
        action: the action that was taken.
        observation: what the world answered.
        view: what the world shows now.
        benchmark: the benchmark, whose rules decide conditions.
    """
    left = tuple(upcoming)
    if not left or (not observation.accepted and observation.reward >= 0):
        return Remainder(left)
    if observation.failed or observation.reward < 0 or observation.done:
        return Remainder(untaken=left)

    def holds(condition: object) -> bool | None:
        decision = benchmark.decide(str(condition), observation, view)
        return None if decision is None else decision.holds

    until = action.args.get(UNTIL)
    while left and (wanted := left[0].args.get(UNTIL)) and holds(wanted):
        left, until = left[1:], wanted
    waits = until is not None and left and left[0].args.get(UNTIL) == until
    failed = not waits and BRINGS in action.args and holds(action.args[BRINGS]) is False
    in_vain = until is not None and (holds(until) is None if waits else not holds(until))
    if failed or in_vain:
        return Remainder(untaken=left)
    if left and not benchmark.is_ready(left[0].text, view):
        return Remainder(untaken=left)
    return Remainder(left)


class ChainView(NamedTuple):
    """What decides how a chain goes on."""

    task: Task
    aim: str
    """What the actions are for."""
    observation: Observation
    """What the world answered last."""
    view: str
    """What the world shows now."""
    latest: Turn | None
    """The latest turn."""
    upcoming: Sequence[Action]

    @classmethod
    def of(cls, state: Mapping[str, Any], aim: str) -> "ChainView":
        """Create it of an operator's view."""
        latest = state["turns"][-1] if state["turns"] else None
        return cls(state["task"], aim, state["observation"], state["evidence"].view, latest, state.get("upcoming", ()))


async def continue_chain(at: ChainView, runtime: Runtime[Context]) -> dict[str, Any] | None:
    """Return the update that takes the next action without asking for a new chain; None if one has to be asked for.

    If the world asks which of several things is meant, or refused the last action and lists others that it may mean, a
    single possibility is taken, and a model chooses among several. In each case the rest of the chain goes on.
    """
    written = at.latest.action if at.latest else ""
    if options := at.observation.options:
        chosen = await _choose_meaning(written, options, at, runtime)
        return _take(Action(text=chosen), at.upcoming) if chosen else None
    if not at.observation.accepted:
        return await _repair_refused(written, at, runtime) if at.latest and not at.latest.written else None
    if not at.upcoming:
        return None
    text = await find_next(at.upcoming[0].text, at, runtime)
    return take_first([at.upcoming[0].model_copy(update={"text": text}), *at.upcoming[1:]]) if text else None


async def find_next(written: str, at: ChainView, runtime: Runtime[Context]) -> str | None:
    """Return an action of a chain as the world lists it, or as it is written where the world takes other names too.

    It is None where the world lists all that it accepts and the action is not among it.
    """
    benchmark = benchmark_of(at.task, runtime)
    actions = [] if benchmark.free_names else await admissible_actions(runtime)
    if not actions:
        return written
    return find_exact(written, actions, shown=benchmark.shown_names(at.view), synonyms=benchmark.synonyms)


async def _choose_meaning(written: str, options: Sequence[str], at: ChainView, runtime: Runtime[Context]) -> str:
    """Return the option that is meant, or an empty text if none is. A model is asked if it is not evident."""
    likely = benchmark_of(at.task, runtime).likely_meanings(written, options)
    if len(likely) == 1:
        return likely[0]
    offered = [*likely, NONE_OF_THESE]
    question = WHICH.format(
        aim=at.aim, view=quote(at.view), written=quote(written), options=quote(bullet_list(offered))
    )
    chosen = await choose(build_prompt(runtime, question), offered, role="executor", runtime=runtime)
    return "" if chosen == NONE_OF_THESE else chosen


async def _repair_refused(written: str, at: ChainView, runtime: Runtime[Context]) -> dict[str, Any] | None:
    """Return the update that takes what a refused action means; None if that is not known, and of a focus always."""
    if is_focus(written):  # it cannot be undone
        return None
    benchmark = benchmark_of(at.task, runtime)
    resolution = await resolve_action(written, at.view, at.task, runtime, similar=False, refused=True)
    meant = resolution.action if resolution.action != written else ""
    if resolution.candidates:
        meant = await _choose_meaning(written, resolution.candidates, at, runtime)
    if not meant and not resolution.candidates:
        meant = replace_synonym(written, benchmark.synonyms)
    if not meant:
        return None
    renamed = [_rename(one, benchmark.carry_over(one.text, written, meant)) for one in at.upcoming]
    return _take(Action(text=meant, args={WRITTEN: written}), renamed)


def _rename(action: Action, text: str) -> Action:
    return action if text == action.text else Action(text=text, args={**action.args, WRITTEN: action.text})


def describe_untaken(state: Mapping[str, Any], runtime: Runtime[Context]) -> str:
    """Say which actions were chosen before and not taken, if there are any, and why if no answer shows it.

    Args:
        state: the view of an operator that chooses actions.
        runtime: the run's runtime.
    """
    actions = state.get("upcoming") or state.get("untaken") or ()
    if not actions:
        return ""
    reason = _reason_untaken(actions[0], state, benchmark_of(state["task"], runtime))
    return f"{UNTAKEN}{reason}:\n{quote(bullet_list(map(_format_step, actions)))}"


def _reason_untaken(action: Action, state: Mapping[str, Any], benchmark: Benchmark) -> str:
    """Return why an action was not taken; empty if the world's answer shows it."""
    observation, view, until = state["observation"], state["evidence"].view, action.args.get(UNTIL)
    if observation.failed or observation.reward < 0:
        return ""
    if not benchmark.is_ready(action.text, view):
        return NOT_SHOWN
    return NOT_DECIDED if until and benchmark.decide(str(until), observation, view) is None else ""


def _format_step(action: Action) -> str:
    until = action.args.get(UNTIL)
    return f"{action.text} (until: {until}; at most {action.args.get(AT_MOST, 1)})" if until else action.text


UNTAKEN = "Chosen before to come next, and not taken"

NOT_SHOWN = ", since the world does not show the thing of the first one by the name that was written"

NOT_DECIDED = ", since no rule tells from what the world shows now whether the condition of the first one holds"

WHICH = """\
The world needs to know which of several things an action is about. Choose what was meant; a thing that was not meant is
worse than none.

The world now:
{view}

For "{aim}" this action was written:
{written}
Which of these does it mean?
{options}
"""

"""Operators of agents that look ahead: propose candidate actions, predict and rate their outcomes, and choose one.

They follow StateFactory, appendix C.6. `reward_guided` combines them to one operator for the slot `realize` of SDP.
"""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Annotated, Any

from langgraph.runtime import Runtime
from langgraph.types import Overwrite
from pydantic import BaseModel, Field, create_model

from certigraph.adapters.benchmarks import benchmark_of, limits_of
from certigraph.adapters.encoders import find_encoder
from certigraph.adapters.episodes import admissible_actions, candidate_actions, rehearse
from certigraph.adapters.matching import rank_actions, select_actions
from certigraph.adapters.models.calls import ask, deliberate
from certigraph.adapters.models.prompts import bullet_list, format_attempts, format_options, numbered_list, quote
from certigraph.adapters.models.schemas import ONE_EACH, FirstReasoning, Offered
from certigraph.adapters.processes import run_in_thread
from certigraph.adapters.protocols import Context, Operator
from certigraph.nodes import react
from certigraph.nodes.decisions import decision_prompt, situation_prompt
from certigraph.nodes.factored_states import extract_outcomes, extract_state, interpret_goal, reads_by_rules
from certigraph.nodes.operators import call_operator
from certigraph.nodes.react import shortlist_queries
from certigraph.nodes.rewards import route
from certigraph.nodes.slots import Slot, Update, factory
from certigraph.state.defaults import MATCHING_ENCODER
from certigraph.state.endings import Fault
from certigraph.state.records import Action, Task
from certigraph.state.rewards import (
    Appraisal,
    AppraiseView,
    ChooseView,
    ExpectedState,
    FactoredState,
    FactorView,
    ImaginedState,
    LookaheadState,
    LookaheadView,
    PredictedOutcome,
    Predictor,
    RecordedStep,
    appraise_view,
    choose_view,
    digest_of,
    ended_facts,
    find_expected,
    live_factor_view,
    lookahead_view,
    names_of,
    new_facts,
    outcome_key,
    score_news,
)
from certigraph.state.sdp import RealizeView
from certigraph.state.search_tree import SearchNode

# The slots of the agents that look ahead, and the bookkeeping around their operators' updates.


def _clear_lookahead(state: LookaheadState, update: Update, runtime: Runtime[Context]) -> Update:
    position = {"factored": FactoredState(), "goal": FactoredState(), "reward": 0.0}
    lookahead: Update = {"candidates": (), "foreseen": (), "appraisals": (), "visited": Overwrite([])}
    written = {key: Overwrite([]) for key in ("expected", "named") if state.get(key)}
    return {**react.RESET.record(state, update, runtime), **position, **lookahead, **written}


def _find_expected(state: LookaheadState, runtime: Runtime[Context]) -> Update | None:
    """Return the state that was read from this very answer when the action was looked ahead; None if none was."""
    react.require_steps(state, runtime)
    view = live_factor_view(state)
    known = find_expected(state.get("expected", ()), view)
    return {"factored": known} if known and view["step"].action else None


def keep_states(state: LookaheadState, before: FactoredState, outcomes: Sequence[ImaginedState | SearchNode]) -> Update:
    """Return the update that keeps the states after outcomes, so that a model reads no answer twice in one state.

    States that no model read are not kept, because they would enlarge checkpoints and save nothing.

    Args:
        state: the graph's state.
        before: the factored state in which the actions of the outcomes are taken.
        outcomes: the predicted outcomes.
    """
    by_model = (one for one in outcomes if one.factored.read_by == "model")
    read = {outcome_key(before, one.foreseen.action, one.foreseen.observation): one.factored for one in by_model}
    known = {one.key for one in state.get("expected", ())}
    new = [ExpectedState(key=key, factored=factored) for key, factored in read.items() if key not in known]
    return {"expected": new} if new else {}


def _skip_revision(state: LookaheadState, runtime: Runtime[Context]) -> Update | None:
    """Keep the goal as a model described it unless the state names something new that the goal does not name itself.

    An edit of the goal rests on what the goal's words, which stay the same, mean in what the world has newly shown.
    """
    goal = state["goal"]
    known = {*state.get("named", ()), *names_of(goal)}
    described = goal.read_by == "model" and goal.entities
    return {"goal": goal} if described and names_of(state["factored"]) <= known else None


def _record_names(state: LookaheadState, update: Update, runtime: Runtime[Context]) -> Update:
    new = names_of(state["factored"]) - {*state.get("named", ())}
    return {**update, "named": sorted(new)} if new and update["goal"].read_by == "model" else update


def _record_visit(state: LookaheadState, update: Update, runtime: Runtime[Context]) -> Update:
    return {**update, "visited": [digest_of(state["factored"])]}


def _mark_seen(state: LookaheadState, update: Update, runtime: Runtime[Context]) -> Update:
    """Keep the rating of each outcome, mark those that lead to a known state, and drop states that no model read."""
    known, present = set(state["visited"]), digest_of(state["factored"])
    reached = [(one.appraisal, digest_of(one.factored)) for one in update["appraisals"]]
    marked = tuple(
        one.model_copy(update={"seen": after in known, "unchanged": after == present}) for one, after in reached
    )
    return {"appraisals": marked, **keep_states(state, state["factored"], update["appraisals"])}


RESET = react.RESET._replace(record=_clear_lookahead)
EXTRACT = Slot(
    "extract",
    {"factored": FactoredState},
    live_factor_view,
    skip=_find_expected,
)
INTERPRET = Slot("interpret", {"goal": FactoredState}, live_factor_view, _record_names, _skip_revision)
ROUTE = Slot("route", {"reward": float}, live_factor_view, _record_visit)
PROPOSE = Slot("propose", {"candidates": Sequence[str]}, lookahead_view)
IMAGINE = Slot("imagine", {"foreseen": Sequence[PredictedOutcome]}, lookahead_view)
APPRAISE = Slot("appraise", {"appraisals": Sequence[ImaginedState]}, appraise_view, _mark_seen)
CHOOSE = react.DECIDE._replace(name="choose", view=choose_view)
ACT = react.ACT


# Propose candidates without a model: all admissible actions, or those most similar to the assignment.

DEFAULT_CANDIDATES = 3
"""Default number of candidate actions that are compared before each action (k)."""


async def listed(state: LookaheadView, runtime: Runtime[Context]) -> dict[str, Any]:
    """Propose every action that the world accepts now or, after imagined actions, that a copy of the world accepts.

    Raises:
        Fault: ("environment") the world does not list its actions.
    """
    return {"candidates": tuple(await _list_actions(state, runtime))}


@factory
def shortlisted(*, k: int = DEFAULT_CANDIDATES) -> Operator:
    """Propose the k admissible actions that are most similar to the task or sub-task and the agent's latest thought.

    Args:
        k: number of candidates.

    Raises:
        Fault: ("environment") in the graph, if the world does not list its actions.
    """

    async def shortlisted(state: LookaheadView, runtime: Runtime[Context]) -> dict[str, Any]:
        actions, wanted = await _list_actions(state, runtime), shortlist_queries(state)
        nearest = await run_in_thread(
            lambda: select_actions(wanted, actions, most=k, encoder=find_encoder(MATCHING_ENCODER))
        )
        return {"candidates": tuple(nearest)}

    return shortlisted


async def _list_actions(state: LookaheadView, runtime: Runtime[Context]) -> list[str]:
    if state["path"]:
        copy = await rehearse(state["path"], state["task"], runtime)
        actions = await run_in_thread(copy.admissible) or []
    else:
        actions = await admissible_actions(runtime)
    if not actions:
        message = f"{state['task'].benchmark} lists no actions here; let the model write them: propose=propose_actions"
        raise Fault("environment", message)
    return actions


# Propose candidates with a model: the k best admissible actions, or k actions that it writes.

MAX_CACHED_FORMS = 256
"""Maximum number of cached answer schemas, one for each list of options."""


@factory
def propose_actions(*, k: int = DEFAULT_CANDIDATES) -> Operator:
    """Ask the model for the most promising actions, up to k. No model is asked if the world lists at most k.

    If the world lists at most `Limits.options` actions, the model chooses from them. If it lists more and
    `Benchmark.shortlists` is true, the model chooses from the most relevant ones. In all other cases, and after
    imagined actions, the model writes the actions itself (StateFactory, appendix C.6.2 and C.6.3). It may give fewer
    than k, so that none is rated that cannot help.

    Args:
        k: maximum number of candidates. StateFactory does not state it, only that ScienceWorld needs more than other
            worlds.
    """

    async def propose_actions(state: LookaheadView, runtime: Runtime[Context]) -> dict[str, Any]:
        listing = [] if state["path"] else await admissible_actions(runtime)
        if 0 < len(listing) <= k:
            return {"candidates": tuple(listing)}
        if listing and (len(listing) <= _max_options(state, runtime) or _uses_shortlists(state, runtime)):
            return {"candidates": await _select_actions(state, k, runtime)}
        return {"candidates": await _write_actions(state, listing, k, runtime)}

    return propose_actions


async def _select_actions(state: LookaheadView, k: int, runtime: Runtime[Context]) -> tuple[str, ...]:
    options = await candidate_actions(shortlist_queries(state), runtime, _max_options(state, runtime))
    instruction, closing = SELECT_INSTRUCTION.format(k=k), SELECT_CLOSING.format(k=k)
    answer = await ask(
        await situation_prompt(state, instruction, runtime, shown=format_options(options), closing=closing),
        _picks_form(tuple(options), k),
        role="executor",
        runtime=runtime,
    )
    return _first_distinct(answer.actions, k)  # type: ignore[attr-defined]


async def _write_actions(
    state: LookaheadView, listing: Sequence[str], k: int, runtime: Runtime[Context]
) -> tuple[str, ...]:
    """Ask the model to write actions, and replace each by the most similar listed one, if there is a list."""
    react.check_writable(state["task"], runtime)
    answer = await ask(
        await situation_prompt(state, WRITE_INSTRUCTION.format(k=k), runtime, closing=SELECT_CLOSING.format(k=k)),
        _texts_form(k),
        role="executor",
        runtime=runtime,
    )
    texts: list[str] = answer.actions  # type: ignore[attr-defined]
    synonyms = benchmark_of(state["task"], runtime).synonyms
    matched = [await run_in_thread(_most_similar, text, listing, synonyms) for text in texts] if listing else texts
    return _first_distinct(matched, k)


def _first_distinct(actions: Sequence[str], k: int) -> tuple[str, ...]:
    return tuple(dict.fromkeys(actions))[:k]


def _most_similar(text: str, listing: Sequence[str], synonyms: Mapping[str, str]) -> str:
    matches = rank_actions(text, listing, encoder=find_encoder(MATCHING_ENCODER), most=1, synonyms=synonyms)
    return matches[0].action if matches else text


def _max_options(state: LookaheadView, runtime: Runtime[Context]) -> int:
    return limits_of(state["task"], runtime).options


def _uses_shortlists(state: LookaheadView, runtime: Runtime[Context]) -> bool:
    return benchmark_of(state["task"], runtime).shortlists


_SCRATCHPAD: Any = (FirstReasoning, "")
"""First field of an answer, in which the model reasons (StateFactory, appendix C.6.3)."""


@lru_cache(maxsize=MAX_CACHED_FORMS)
def _picks_form(options: tuple[str, ...], k: int) -> type[BaseModel]:
    kind: Any = list[Annotated[str, Offered(options)]]
    return create_model("Picks", reasoning=_SCRATCHPAD, actions=(kind, _count_field(min(k, len(options)))))


@lru_cache(maxsize=MAX_CACHED_FORMS)
def _texts_form(k: int) -> type[BaseModel]:
    kind: Any = list[str]
    return create_model("Texts", reasoning=_SCRATCHPAD, actions=(kind, _count_field(k)))


def _count_field(k: int) -> Any:
    """Create a field of a list whose JSON schema asks for 1 to k items. More are accepted too.

    So no second request is needed if the model gives more.
    """
    return Field(min_length=1, json_schema_extra={"maxItems": k})


SELECT_INSTRUCTION = """\
First check what is in hand, where you are, and what is in sight and in reach. Then name, from the list of actions at
the end and copied exactly, those that promise most as the next one, the best first: up to {k}, and fewer where fewer
could help. Leave out what would change nothing and show nothing new."""

WRITE_INSTRUCTION = """\
First check what is in hand, where you are, and what is in sight and in reach. Then write, as the world's rules say, up
to {k} different actions of which each could be taken next, the best first, and fewer where fewer could help. Leave out
what would change nothing and show nothing new."""

SELECT_CLOSING = "Which actions promise most as the next one, up to {k}?"


# World models: predict the outcomes of candidates (StateFactory, appendix C.6.3).
#
# `rehearsed` tries them in a copy of the simulator. It is always right and costs no model call, but is privileged: an
# agent in a real environment has no copy. `predicted` asks a model; the paper's is a model of its own that was trained
# to predict observations, which can be named for the role `world`.


async def rehearsed(state: LookaheadView, runtime: Runtime[Context]) -> dict[str, Any]:
    """Predict the outcome of each candidate action by trying it in a copy of the world.

    Raises:
        Fault: ("environment") the world cannot be copied; the message says what to do.
    """
    outcomes = []
    for action in state["candidates"]:
        observation = (await rehearse([*state["path"], action], state["task"], runtime)).observation
        outcomes.append(
            PredictedOutcome(
                action=action,
                observation=observation.text,
                accepted=observation.accepted,
                done=observation.done,
                solved=observation.solved,
                reward=observation.reward,
                predicted_by="copy",
            )
        )
    return {"foreseen": tuple(outcomes)}


async def predicted(state: LookaheadView, runtime: Runtime[Context]) -> dict[str, Any]:
    """Predict the outcomes of all candidate actions by asking the model of the role `world`, in one request."""
    actions = state["candidates"]
    if not actions:
        return {"foreseen": ()}
    shown = f"Actions that are considered:\n{quote(numbered_list(actions))}"
    request = await situation_prompt(state, PREDICT_INSTRUCTION, runtime, shown=shown, closing=PREDICT_CLOSING)
    about = {"candidates": actions, "evidence": state["evidence"]}
    answer = await ask(request, _predictions_form(len(actions)), role="world", runtime=runtime, about=about)
    texts: list[str] = answer.outcomes  # type: ignore[attr-defined]
    outcomes = zip(actions, texts, strict=True)
    return {"foreseen": tuple(PredictedOutcome(action=a, observation=t, predicted_by="model") for a, t in outcomes)}


@lru_cache(maxsize=64)
def _predictions_form(count: int) -> type[BaseModel]:
    # No maximum length: where the world answers with its complete view, the model must be able to write that.
    text = Field(min_length=count, max_length=count, description=ONE_EACH)
    kind: Any = list[str]
    return create_model("Predictions", reasoning=_SCRATCHPAD, outcomes=(kind, text))


PREDICT_INSTRUCTION = """\
For each of the actions at the end alone, taken next from here, predict what the world would answer: in the wording of
its answers so far, and as completely as it answers. One answer for each action, in their order."""

PREDICT_CLOSING = "What would the world answer to each of them?"


# Appraise: rate each imagined outcome by StateFactory's reward (appendix C.6.2, Eq. 15).


@factory
def appraise(*, extract: Operator, interpret: Operator, route: Operator, together: bool = False) -> Operator:
    """Rate each predicted outcome by its reward; its gain is that reward minus the reward of the state before it.

    Args:
        extract: operator that extracts the state of an outcome.
        interpret: operator that describes the goal as a state.
        route: operator that computes the reward from these two states.
        together: whether the model describes the states of all outcomes in one request, and the goal stays as it is.
            `extract` and `interpret` then serve only where a script takes the model's place.
    """

    async def read_states(
        state: AppraiseView, views: Sequence[FactorView], runtime: Runtime[Context]
    ) -> Sequence[FactorView]:
        known = [find_expected(state["expected"], view) for view in views]
        if together and not reads_by_rules(state["task"], runtime):
            new = [view["step"] for view, factored in zip(views, known, strict=True) if factored is None]
            source = state["foreseen"][0].predicted_by if views else ""
            found = iter(await extract_outcomes(views[0], new, runtime, predicted_by=source) if new else ())
            return [{**view, "factored": one or next(found)} for view, one in zip(views, known, strict=True)]
        for view, factored in zip(views, known, strict=True):
            view["factored"] = factored or (await call_operator(extract, view, runtime))["factored"]
            view["goal"] = (await call_operator(interpret, view, runtime))["goal"]
        return views

    async def appraise(state: AppraiseView, runtime: Runtime[Context]) -> dict[str, Any]:
        views = [_view_of_outcome(state, foreseen) for foreseen in state["foreseen"]]
        imagined = []
        for foreseen, view in zip(state["foreseen"], await read_states(state, views, runtime), strict=True):
            reward = (await call_operator(route, view, runtime))["reward"]
            appraisal = Appraisal(
                action=foreseen.action,
                reward=reward,
                gain=reward - state["reward"],
                changes=new_facts(state["factored"], view["factored"]),
                ended=ended_facts(state["factored"], view["factored"]),
                news=score_news(foreseen),
                predicted_by=foreseen.predicted_by,
            )
            states = {"factored": view["factored"], "goal": view["goal"]}
            imagined.append(ImaginedState(foreseen=foreseen, appraisal=appraisal, **states))
        return {"appraisals": tuple(imagined)}

    return appraise


def _view_of_outcome(state: AppraiseView, foreseen: PredictedOutcome) -> FactorView:
    step = RecordedStep(action=foreseen.action, observation=foreseen.observation)
    return FactorView(
        task=state["task"], step=step, actions=state["actions"], factored=state["factored"], goal=state["goal"]
    )


# Choose: take one of the candidates by their gains (StateFactory, appendix C.6.2).


async def choose_by_reward(state: ChooseView, runtime: Runtime[Context]) -> dict[str, Any]:
    """Let the model think and then choose one of the candidates, which it sees with their gains, the best first."""
    options = rank_appraisals(state["appraisals"])
    source = SOURCES[options[0].predicted_by]
    instruction = GAINS_INSTRUCTION.format(source=source)
    shown = f"{GAINS_HEADING}\n{quote(bullet_list(format_appraisal(one) for one in options))}"
    request = await decision_prompt(state, instruction, runtime, shown=shown)
    answer = await deliberate(request, [one.action for one in options], role="executor", runtime=runtime)
    return {"thought": answer.thought, "action": Action(text=answer.choice)}


def format_appraisal(appraisal: Appraisal) -> str:
    """Format a rated candidate for a prompt: the action, its gain, and what it would bring."""
    facts = ("new", appraisal.changes), ("ended", appraisal.ended)
    shown = (f"{name}: {_join_facts(some)}" for name, some in facts if some)
    parts = (f"{appraisal.action} ({appraisal.gain:+.2f})", appraisal.mark, appraisal.news, *shown)
    return "; ".join(filter(None, parts))


def _join_facts(facts: Sequence[str]) -> str:
    more = len(facts) - MAX_CHANGES
    return "; ".join([*facts[:MAX_CHANGES], *([f"and {more} more"] if more > 0 else [])])


MAX_CHANGES = 8
"""Maximum number of predicted facts of a kind, new or ended, that are shown of one candidate."""


async def greedy(state: ChooseView, runtime: Runtime[Context]) -> dict[str, Any]:
    """Take the candidate with the highest predicted gain, without a model; of equal ones, the one proposed first.

    A candidate that leads back to a state that the episode has been in is taken only if there is no other. StateFactory
    has no such rule; without it the highest gains can lead in circles.
    """
    options = rank_appraisals(state["appraisals"])
    best = next((one for one in options if not one.seen), options[0])
    return {"thought": f"predicted gain {best.gain:+.2f}", "action": Action(text=best.action)}


def rank_appraisals(appraisals: Sequence[Appraisal]) -> list[Appraisal]:
    """Sort rated candidates by gain, the highest first; equal ones stay in the order in which they were proposed.

    Raises:
        Fault: ("operator") `appraisals` is empty.
    """
    if not appraisals:
        raise Fault("operator", "no candidate was appraised: let `propose` return at least one")
    return sorted(appraisals, key=lambda one: -one.gain)


GAINS_INSTRUCTION = """\
Choose it from the list of actions at the end. {source}
The estimate after each says how much nearer to the goal the action would bring the world: the gain in similarity
between the state after it, as read from that answer, and the one that is wanted. "Changes nothing" means that the state
would stay as it is, "leads back" that it would be one of an earlier time.
Then follow the facts that would be new in the state, and those that would have ended without a new value.
An estimate can be wrong, most of all for a step that is necessary and seems to lead away; weigh it against your own
reasoning. Only the words before the estimate are the action. Quote no estimate in your thought: later turns show the
thought without the figures."""

GAINS_HEADING = "Actions to choose from, each with its estimate:"

SOURCES: Mapping[Predictor, str] = {
    "copy": "Each was tried in a copy of the world, and the copy answered.",
    "model": "For each, a model predicted what the world would answer.",
    "": "For each, the answer of the world was predicted.",
}
"""Sentences that say where the answers to considered actions come from."""


# Realize with StateFactory's reward: take the one of k actions whose imagined outcome is closest to the target.
#
# This is the look-ahead of `graphs/react_reward.py` for SDP. It reads only what Realize may read (SDP, Proposition 1);
# the world model, which it reaches through the runtime, knows more.


@factory
def reward_guided(
    *,
    k: int = DEFAULT_CANDIDATES,
    asks: bool = False,
    imagines: bool = False,
    extract: Operator = extract_state,
    interpret: Operator = interpret_goal,
) -> Operator:
    """Propose k actions for the target predicate, predict and rate their outcomes, and take the best (SDP's Realize).

    Args:
        k: number of candidates.
        asks: whether the model chooses, given the predicted gains; if False the highest gain decides.
        imagines: whether the model predicts the outcomes; if False a copy of the simulator does, which is privileged
            information.
        extract: operator that extracts states.
        interpret: operator that describes the target as a state.
    """
    propose, imagine = propose_actions(k=k), predicted if imagines else rehearsed
    rate = route()
    choose: Operator = choose_by_reward if asks else greedy
    together = (extract, interpret) == (extract_state, interpret_goal)
    judge = appraise(extract=extract, interpret=interpret, route=rate, together=together)

    async def reward_guided(state: RealizeView, runtime: Runtime[Context]) -> dict[str, Any]:
        view = _to_lookahead_view(state)
        view["candidates"] = (await call_operator(propose, view, runtime))["candidates"]
        position = await _current_view(state, extract, interpret, rate, runtime)
        position["foreseen"] = (await imagine(view, runtime))["foreseen"]
        imagined = (await call_operator(judge, position, runtime))["appraisals"]
        choice_view = {**view, "appraisals": tuple(one.appraisal for one in imagined)}
        return {"action": (await call_operator(choose, choice_view, runtime))["action"]}

    return reward_guided


def _to_lookahead_view(state: RealizeView) -> LookaheadView:
    """Convert the view of SDP's Realize to that of the look-ahead operators; the target becomes the assignment."""
    # quoted, because a verdict may repeat what the world answered
    failed = [f"Tried without success:\n{quote(format_attempts(state['attempts']))}"] if state["attempts"] else []
    return {
        "task": state["task"],
        "assignment": state["target"].text,
        "steps": len(state["turns"]),
        "rounds": len(state["turns"]),
        "most_rounds": 0,
        "turns": state["turns"],
        "evidence": state["evidence"],
        "advice": (*state["advice"], *failed),
        "belief": state["belief"],
        "path": (),
        "candidates": (),
    }


async def _current_view(
    state: RealizeView, extract: Operator, interpret: Operator, rate: Operator, runtime: Runtime[Context]
) -> AppraiseView:
    """Return the current state, the target described as a goal state, and the reward.

    If the target yields no goal state, the task's goal is used.
    """
    for goal in (state["target"].text, state["task"].goal):
        view = _view_of_text(state["task"].model_copy(update={"goal": goal}), state["evidence"].view)
        view["factored"] = (await call_operator(extract, view, runtime))["factored"]
        view["goal"] = (await call_operator(interpret, view, runtime))["goal"]
        if view["goal"].entities:
            break
    reward = (await call_operator(rate, view, runtime))["reward"]
    actions = [turn.action for turn in state["turns"]]
    return {
        "task": view["task"],
        "actions": actions,
        "factored": view["factored"],
        "goal": view["goal"],
        "reward": reward,
        "foreseen": (),
        "expected": (),
    }


def _view_of_text(task: Task, view: str) -> FactorView:
    step = RecordedStep(observation=view)
    return FactorView(task=task, step=step, actions=(), factored=FactoredState(), goal=FactoredState())

"""Operators that look one step ahead: candidates, world models, appraisal and choice."""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, Literal

from langgraph.runtime import Runtime
from langgraph.types import Overwrite
from pydantic import BaseModel, Field, create_model

from certigraph.adapters.benchmarks import benchmark_of, limits_of
from certigraph.adapters.episodes import admissible, candidates, rehearse
from certigraph.adapters.matching import encoder, ranked, shortlist
from certigraph.adapters.models.calls import ask, bullet_list, deliberate, numbered, prompt, quoted, tried
from certigraph.adapters.processes import off_loop
from certigraph.adapters.protocols import Context, Operator
from certigraph.nodes import react
from certigraph.nodes.factored_states import extract_state, interpret_goal
from certigraph.nodes.react import decided, queries, told
from certigraph.nodes.rewards import route
from certigraph.nodes.slots import Slot, Update, factory
from certigraph.state.records import Action, Fault, Task
from certigraph.state.rewards import (
    Appraisal,
    AppraiseView,
    AppraisingState,
    ChooseView,
    FactoredState,
    FactorView,
    Foreseen,
    Imagined,
    LookaheadView,
    Seen,
    appraise_view,
    choose_view,
    digest,
    lookahead_view,
    standing_view,
)
from certigraph.state.sdp import RealizeView

# The slots of the agents that look ahead, and the bookkeeping around their operators' answers.


def _knows_nothing(state: AppraisingState, update: Update, runtime: Runtime[Context]) -> Update:
    nowhere = {"factored": FactoredState(), "goal": FactoredState(), "reward": 0.0}
    nothing: Update = {"candidates": (), "foreseen": (), "appraisals": (), "visited": Overwrite([])}
    return {**react.RESET.record(state, update, runtime), **nowhere, **nothing}


def _rated(state: AppraisingState, update: Update, runtime: Runtime[Context]) -> Update:
    return {**update, "visited": [digest(state["factored"])]}


def _worth_only(state: AppraisingState, update: Update, runtime: Runtime[Context]) -> Update:
    """The states behind the figures are not needed again, and would weigh on checkpoints."""
    known = set(state["visited"])
    worth = ((one.appraisal, digest(one.factored) in known) for one in update["appraisals"])
    return {"appraisals": tuple(appraisal.model_copy(update={"seen": seen}) for appraisal, seen in worth)}


RESET = react.RESET._replace(record=_knows_nothing)
EXTRACT = Slot(
    "extract",
    frozenset({"factored"}),
    standing_view,
    skip=react.require_steps,
    types={"factored": FactoredState},
)
INTERPRET = Slot("interpret", frozenset({"goal"}), standing_view, types={"goal": FactoredState})
ROUTE = Slot("route", frozenset({"reward"}), standing_view, _rated)
PROPOSE = Slot("propose", frozenset({"candidates"}), lookahead_view)
IMAGINE = Slot("imagine", frozenset({"foreseen"}), lookahead_view)
APPRAISE = Slot("appraise", frozenset({"appraisals"}), appraise_view, _worth_only)
CHOOSE = react.DECIDE._replace(name="choose", view=choose_view)
ACT = react.ACT


# Propose candidates without a model: all that the world admits, or those nearest to the assignment.

WIDTH = 3
"""Candidates for one action, k."""


async def listed(state: LookaheadView, runtime: Runtime[Context]) -> dict[str, Any]:
    """Every action that the world admits; further ahead, that a copy of it does.

    Raises:
        Fault: ("environment") the world does not list its actions.
    """
    return {"candidates": tuple(await _listing(state, runtime))}


@factory
def shortlisted(*, k: int = WIDTH) -> Operator:
    """The k admitted actions most similar to the assignment and the latest thought. Raises as `listed` does.

    Args:
        k: candidates.
    """

    async def shortlisted(state: LookaheadView, runtime: Runtime[Context]) -> dict[str, Any]:
        actions, wanted = await _listing(state, runtime), queries(state)
        nearest = await off_loop(lambda: shortlist(wanted, actions, most=k, encoder=encoder()))
        return {"candidates": tuple(nearest)}

    return shortlisted


async def _listing(state: LookaheadView, runtime: Runtime[Context]) -> list[str]:
    if state["path"]:
        copy = await rehearse(state["path"], state["task"], runtime)
        found = await off_loop(copy.admissible) or []
    else:
        found = await admissible(runtime)
    if not found:
        told = f"{state['task'].benchmark} lists no actions here; have the model write them: propose=propose_actions"
        raise Fault("environment", told)
    return found


# Propose candidates for the next action with a model: the top k of those admitted, or k that it writes.

MOST_KINDS = 256
"""Forms of answers that are kept, one for each list of options: the schema's own cache goes by them."""


@factory
def propose_actions(*, k: int = WIDTH) -> Operator:
    """One question for the k most promising actions; none where the world lists no more than k.

    Of a long list the model sees those most relevant to its assignment; where the world lists nothing, and for what is
    only imagined, it writes the actions (StateFactory, appendix C.6.2 and C.6.3).

    Args:
        k: candidates; the paper's number is missing in its text, for ScienceWorld it takes more than elsewhere.
    """

    async def propose_actions(state: LookaheadView, runtime: Runtime[Context]) -> dict[str, Any]:
        listing = [] if state["path"] else await admissible(runtime)
        if 0 < len(listing) <= k:
            return {"candidates": tuple(listing)}
        if listing and (len(listing) <= _most(state, runtime) or _shortlists(state, runtime)):
            return {"candidates": await _chosen(state, k, runtime)}
        return {"candidates": await _written(state, listing, k, runtime)}

    return propose_actions


async def _chosen(state: LookaheadView, k: int, runtime: Runtime[Context]) -> tuple[str, ...]:
    offered = await candidates(queries(state), runtime, _most(state, runtime))
    choice = f"Actions to choose from:\n{quoted(bullet_list(offered))}\n{SELECT.format(k=k)}"
    answer = await ask(
        prompt(runtime, told(state, choice)), _picks(tuple(offered), k), role="executor", runtime=runtime
    )
    return _distinct(answer.actions, k)  # type: ignore[attr-defined]


async def _written(state: LookaheadView, listing: Sequence[str], k: int, runtime: Runtime[Context]) -> tuple[str, ...]:
    """Each as the world's list has it, where there is one."""
    answer = await ask(prompt(runtime, told(state, WRITE.format(k=k))), _texts(k), role="executor", runtime=runtime)
    texts: list[str] = answer.actions  # type: ignore[attr-defined]
    synonyms = getattr(benchmark_of(state["task"], runtime), "synonyms", None)
    meant = [await off_loop(_nearest, text, listing, synonyms) for text in texts] if listing else texts
    return _distinct(meant, k)


def _distinct(actions: Sequence[str], k: int) -> tuple[str, ...]:
    return tuple(dict.fromkeys(actions))[:k]


def _nearest(text: str, listing: Sequence[str], synonyms: Mapping[str, str] | None) -> str:
    found = ranked(text, listing, encoder=encoder(), most=1, synonyms=synonyms)
    return found[0].action if found else text


def _most(state: LookaheadView, runtime: Runtime[Context]) -> int:
    return limits_of(state["task"], runtime).options


def _shortlists(state: LookaheadView, runtime: Runtime[Context]) -> bool:
    return bool(getattr(benchmark_of(state["task"], runtime), "shortlists", False))


@lru_cache(maxsize=MOST_KINDS)
def _picks(offered: tuple[str, ...], k: int) -> type[BaseModel]:
    kind: Any = list[Literal[offered]]  # type: ignore[valid-type]
    return create_model("Picks", actions=(kind, _so_many(min(k, len(offered)))))


@lru_cache(maxsize=MOST_KINDS)
def _texts(k: int) -> type[BaseModel]:
    kind: Any = list[str]
    return create_model("Texts", actions=(kind, _so_many(k)))


def _so_many(k: int) -> Any:
    """The model is asked for k; whoever gives fewer, or more, need not be asked again."""
    return Field(min_length=1, json_schema_extra={"minItems": k, "maxItems": k})


SELECT = (
    "Name the {k} different actions that promise most as the next one, the best first. Pass over what had no effect."
)

WRITE = """\
Look first at what is in hand, where you are and what is in reach. Then write, as the world's rules say, {k} different
actions of which each could be taken next, the best first. Pass over what had no effect."""


# World models: what candidates for the next action would lead to (StateFactory, appendix C.6.3).
#
# `rehearsed` asks a copy of the simulator: it is always right, costs no call, and is privileged, for no agent in a
# real world has it. `predicted` asks the model.


async def rehearsed(state: LookaheadView, runtime: Runtime[Context]) -> dict[str, Any]:
    """What a copy of the world answers to each candidate; the world itself is not touched.

    Raises:
        Fault: ("environment") the world cannot be copied; the message says what to do.
    """
    outcomes = []
    for action in state["candidates"]:
        found = (await rehearse([*state["path"], action], state["task"], runtime)).observation
        outcomes.append(
            Foreseen(
                action=action,
                observation=found.text,
                accepted=found.accepted,
                done=found.done,
                solved=found.solved,
            )
        )
    return {"foreseen": tuple(outcomes)}


async def predicted(state: LookaheadView, runtime: Runtime[Context]) -> dict[str, Any]:
    """What the model expects the world to answer, one question for all candidates."""
    actions = state["candidates"]
    if not actions:
        return {"foreseen": ()}
    question = prompt(runtime, told(state, PREDICT.format(actions=quoted(numbered(actions)))))
    answer = await ask(question, _predictions(len(actions)), role="executor", runtime=runtime)
    texts: list[str] = answer.outcomes  # type: ignore[attr-defined]
    return {"foreseen": tuple(Foreseen(action=a, observation=t) for a, t in zip(actions, texts, strict=True))}


@lru_cache(maxsize=64)
def _predictions(count: int) -> type[BaseModel]:
    # A world's whole view is the model's to tell again only where the world's own answers are of that length.
    text = Field(min_length=count, max_length=count)
    kind: Any = list[str]
    return create_model("Predictions", outcomes=(kind, text))


PREDICT = """\
Actions that are considered:
{actions}
For each of them alone, taken next from here, foretell what the world would answer, in its own wording and in one or two
sentences: what is different afterwards, or that nothing is. One answer for each action, in their order."""


# Appraise: what each imagined outcome is worth, as StateFactory would rate it (appendix C.6.2, Eq. 15).


@factory
def appraise(*, extract: Operator, interpret: Operator, route: Operator) -> Operator:
    """Extract, interpret and route every outcome, each from the same state; the gain is to the reward there.

    Args:
        extract: the operator that extracts the live world's states.
        interpret: the one that interprets the goal.
        route: the one that compares the two.
    """

    async def imagined(state: AppraiseView, foreseen: Foreseen, runtime: Runtime[Context]) -> Imagined:
        step = Seen(action=foreseen.action, observation=foreseen.observation)
        view = FactorView(task=state["task"], step=step, factored=state["factored"], goal=state["goal"])
        view["factored"] = (await extract(view, runtime))["factored"]
        view["goal"] = (await interpret(view, runtime))["goal"]
        reward = (await route(view, runtime))["reward"]
        worth = Appraisal(action=foreseen.action, reward=reward, gain=reward - state["reward"])
        return Imagined(foreseen=foreseen, appraisal=worth, factored=view["factored"], goal=view["goal"])

    async def appraise(state: AppraiseView, runtime: Runtime[Context]) -> dict[str, Any]:
        return {"appraisals": tuple([await imagined(state, foreseen, runtime) for foreseen in state["foreseen"]])}

    return appraise


# Choose: one of the candidates, by what their outcomes are worth (StateFactory, appendix C.6.2).


async def choose_by_reward(state: ChooseView, runtime: Runtime[Context]) -> dict[str, Any]:
    """The model sees each candidate with its predicted gain, the best first, and picks one after a thought."""
    offered = ranking(state["appraisals"])
    shown = quoted(bullet_list(f"{one.action} ({one.gain:+.2f})" for one in offered))
    question = prompt(runtime, decided(state, f"{GAINS}\n{shown}"))
    answer = await deliberate(question, [one.action for one in offered], role="executor", runtime=runtime)
    return {"thought": answer.thought, "action": Action(text=answer.choice)}


async def greedy(state: ChooseView, runtime: Runtime[Context]) -> dict[str, Any]:
    """The candidate of the highest gain, without a question; of equals, the one proposed first.

    A way back to a state that the episode was in is taken where nothing else is left. The paper has no such rule: its
    model is shown the gains alone, and what gains most in a row can go in circles.
    """
    offered = ranking(state["appraisals"])
    best = next((one for one in offered if not one.seen), offered[0])
    return {"thought": f"predicted gain {best.gain:+.2f}", "action": Action(text=best.action)}


def ranking(appraisals: Sequence[Appraisal]) -> list[Appraisal]:
    """The best first; equals in the order of their proposal.

    Raises:
        Fault: ("operator") there is none.
    """
    if not appraisals:
        raise Fault("operator", "no candidate was appraised: let `propose` return at least one")
    return sorted(appraisals, key=lambda one: -one.gain)


GAINS = """\
Actions to choose from, each with how much nearer to the goal it is predicted to bring the world; below zero it leads
away, around zero it changes nothing that counts:"""


# Realize by StateFactory's reward: of k actions the one whose imagined outcome comes nearest to the target.
#
# It brings the look-ahead of `graphs/react_reward.py` into SDP. What it reads is what Realize may read (SDP,
# Proposition 1); only the world model, asked through the runtime, knows more.


@factory
def reward_guided(*, k: int = WIDTH, asks: bool = False, imagines: bool = False) -> Operator:
    """Propose k actions for the target, imagine and appraise them towards it, and take the best.

    Args:
        k: candidates.
        asks: the model chooses, knowing the gains; otherwise the highest gain decides.
        imagines: the model foresees the outcomes; otherwise a copy of the simulator does, which is privileged.
    """
    propose, imagine = propose_actions(k=k), predicted if imagines else rehearsed
    rate = route()
    choose: Operator = choose_by_reward if asks else greedy
    judge = appraise(extract=extract_state, interpret=interpret_goal, route=rate)

    async def reward_guided(state: RealizeView, runtime: Runtime[Context]) -> dict[str, Any]:
        ahead = _ahead(state)
        ahead["candidates"] = (await propose(ahead, runtime))["candidates"]
        here = await _standing(state, rate, runtime)
        here["foreseen"] = (await imagine(ahead, runtime))["foreseen"]
        imagined = (await judge(here, runtime))["appraisals"]
        offered = {**ahead, "appraisals": tuple(one.appraisal for one in imagined)}
        return {"action": (await choose(offered, runtime))["action"]}

    return reward_guided


def _ahead(state: RealizeView) -> LookaheadView:
    """What Realize may see, as who decides sees it: the target is the assignment."""
    failed = [f"Tried without success: {told}" for told in tried(state["attempts"]).splitlines()]
    return {
        "task": state["task"],
        "assignment": state["target"].text,
        "turns": (),
        "evidence": state["evidence"],
        "advice": (*state["advice"], *(failed if state["attempts"] else ())),
        "belief": state["belief"],
        "path": (),
        "candidates": (),
    }


async def _standing(state: RealizeView, rate: Operator, runtime: Runtime[Context]) -> AppraiseView:
    """What the world's view shows, and the target as a state; the task's goal where the target tells none."""
    for goal in (state["target"].text, state["task"].goal):
        view = _looking(state["task"].model_copy(update={"goal": goal}), state["evidence"].view)
        view["factored"] = (await extract_state(view, runtime))["factored"]
        view["goal"] = (await interpret_goal(view, runtime))["goal"]
        if view["goal"].entities:
            break
    reward = (await rate(view, runtime))["reward"]
    return AppraiseView(task=view["task"], factored=view["factored"], goal=view["goal"], reward=reward, foreseen=())


def _looking(task: Task, view: str) -> FactorView:
    step = Seen(observation=view)
    return FactorView(task=task, step=step, factored=FactoredState(), goal=FactoredState())

"""The SDP operators for ScienceWorld (SDP, appendix A.3).

By default they are the generic ones, but for the goal, which is the score, and the rooms. In `scienceworld:paper`,
Realize lets the model write one action. Validate has three shortcuts before it asks the model, whose verdict never
covers the goal. `scienceworld:drafted` is for small models: the plan is drafted from the task's sentences
(`draft_conditions`), and Realize chooses among actions of the kind that the target needs (`select_target_actions`).
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import takewhile
from typing import Any, NamedTuple

from langgraph.runtime import Runtime

from certigraph.adapters.benchmarks import limits_of
from certigraph.adapters.encoders import find_encoder
from certigraph.adapters.episodes import admissible_actions
from certigraph.adapters.matching import select_actions
from certigraph.adapters.models.prompts import bullet_list, quote
from certigraph.adapters.processes import run_in_thread
from certigraph.adapters.protocols import Context, Operator
from certigraph.benchmarks.scienceworld import prompts
from certigraph.benchmarks.scienceworld.conditions import (
    ROOMS,
    Decision,
    WordedCondition,
    decide_condition,
    is_vague,
    may_mean,
    parse_condition,
)
from certigraph.benchmarks.scienceworld.factors import find_kind
from certigraph.benchmarks.scienceworld.world import QUESTION_PREFIX
from certigraph.nodes.actions import ask_action, choose_action
from certigraph.nodes.conditions import ask_plan, ask_rest_of_plan
from certigraph.nodes.verdicts import VerdictForm, ask_verdict
from certigraph.state.defaults import MATCHING_ENCODER
from certigraph.state.records import Action, Observation, Predicate, Verdict
from certigraph.state.sdp import ProposeView, RealizeView, SDPReplanView, ValidateView, needs_rest_of_plan

# Draft of a plan from the orders in the task's sentences: the plan of a model too small to write one. This is not in
# the SDP paper, where the model writes the plan from the task alone.

_ROOM = "|".join(ROOMS)
_SENTENCE = re.compile(r"(?<=\.)\s+|, (?=place|put|move|focus)", re.IGNORECASE)
_FIND = re.compile(r"Your task is to find an?(?:\(n\))? (?P<thing>[\w -]+)$")
_CHANGE = re.compile(r"Your task is to (?:boil|melt|freeze|change the state of matter of) (?P<thing>[\w ]+)$")
_MAKE = re.compile(r"Your task is to use chemistry to create (?:the substance )?'?(?P<thing>[\w -]+)'?$")
_GROW = re.compile(r"Your task is to grow an? (?P<thing>[\w ]+?)(?: from seed)?$")
_FOCUS = re.compile(r"\bfocus on (?:the \d+ |the |an? )?(?P<thing>[\w' -]+)", re.IGNORECASE)
_PLACE = re.compile(
    rf"(?:move|place|put) (?P<thing>[\w ]{{1,80}}?) (?:to|in|into) the (?P<place>[\w ]{{1,80}}?)"
    rf"(?: in the (?P<room>{_ROOM}))?$",
    re.IGNORECASE,
)
_NEAR = re.compile(
    rf"(?P<thing>[\w' -]{{1,80}}?),? (?:which )?(?:is|are|can be|might be) (?:located |found )?"
    rf"[a-z ]{{0,80}}?'?(?P<room>{_ROOM})\b"
)
_VAGUE = ("it", "thing", "the thing", "substance", "the substance")


class _Order(NamedTuple):
    """Instruction in a sentence of the task: what to do (`kind`), with which thing, and where."""

    kind: str
    thing: str
    place: str = ""
    room: str = ""


def draft_conditions(goal: str) -> list[str]:
    """Derive the conditions of a plan from a task's text, in order and without the goal.

    The result is empty if the text contains no known instruction, such as "focus on the thing".
    """
    sentences = [part.strip(" .") for part in _SENTENCE.split(goal)]
    rooms = {match["thing"].lower(): match["room"] for text in sentences if (match := _NEAR.search(text))}
    conditions = [line for order in _merge_boxes(_resolve_orders(sentences)) for line in _conditions_of(order, rooms)]
    return list(dict.fromkeys(conditions))


def _resolve_orders(sentences: list[str]) -> Iterator[_Order]:
    # Replaces "it" and "the thing" by what they refer to.
    referent = next((match["thing"] for form in (_FIND, _CHANGE) if (match := form.match(sentences[0]))), "")
    for order in (order for text in sentences for order in _parse_orders(text)):
        is_reference = order.thing.lower() in _VAGUE
        yield order._replace(thing=referent) if is_reference and referent else order
        referent = referent if is_reference else order.thing


def _parse_orders(sentence: str) -> Iterator[_Order]:
    if match := _MAKE.match(sentence):
        yield _Order("make", match["thing"])
    if match := _GROW.match(sentence):
        yield _Order("grow", f"{match['thing']} seed")
    if match := _FOCUS.search(sentence):
        yield _Order("focus", re.sub(r" (?:you created|starting).*", "", match["thing"]).strip())
    if match := _PLACE.match(sentence):
        yield _Order("place", match["thing"], match["place"], match["room"] or "")
    if match := _CHANGE.match(sentence):
        yield _Order("find", match["thing"])


def _conditions_of(order: _Order, rooms: Mapping[str, str]) -> list[str]:
    thing = order.thing
    room = order.room or _room_of(order.place or thing, rooms)
    in_room = [f"The agent is in the {room}."] if room else []
    located = in_room or [f"The location of the {thing} is known."]
    match order.kind:
        case "focus":
            return [*located, f"The {thing} is in focus."]
        case "place":
            return [f"The inventory contains the {thing}.", *in_room, f"The {thing} is in the {order.place}."]
        case "make":
            return [f"The {thing} has been made."]
        case "grow":
            return [*located, f"The inventory contains the {thing}."]
        case _:
            return located


def _merge_boxes(orders: Iterable[_Order]) -> list[_Order]:
    # Joins alternative boxes, between which the experiment decides, into one order: "the red box or the green box".
    merged: list[_Order] = []
    for order in orders:
        last, box = (merged[-1] if merged else None), order.place or order.thing
        if last and last.kind == order.kind and box.endswith(" box") and (last.place or last.thing).endswith(" box"):
            field = "place" if order.place else "thing"
            merged[-1] = last._replace(**{field: f"{getattr(last, field)} or the {box}"})
        else:
            merged.append(order)
    return merged


def _room_of(thing: str, rooms: Mapping[str, str]) -> str:
    head = thing.lower().split(" with ")[0].split(" of ")[-1]
    plural = "boxes" if head.endswith("box") else head
    return next((room for near, room in rooms.items() if plural in near or near.endswith(f"{head}s")), "")


# Actions that can make a condition in a known wording true; this grounding of Realize is not in the SDP paper.

MOVE_VERBS = ("teleport to ", "go to ")
KIND_EXAMPLES = {"living thing": "animal or plant", "non-living thing": "tool or furniture"}
"""Kind of thing -> examples, which are closer in meaning to the names of such things than the name of the kind is."""

NEVER_FOCUSED = ("air", "agent", *ROOMS)
"""Things that can be focused on everywhere, but never for a task."""

SEEN_ROOMS = "Rooms seen: "
"""Prefix of the line in the world's view that lists the rooms entered."""


def select_target_actions(
    target: str, actions: Sequence[str], view: str, *, focused: str = "", most: int = 20, few: int = 20
) -> list[str]:
    """Select at most `most` actions for a target, the most relevant first.

    Actions that focus on a thing are offered only if the target mentions focus, and only on the thing that the target
    names, because a wrong focus ends the episode.

    Args:
        target: Condition to make true.
        actions: Actions that the world admits.
        view: Description of the world, as its method `view` returns it.
        focused: Last thing the agent focused on, which "the living thing" and the like refer to from then on.
        most: Maximum number of actions.
        few: Maximum number of actions if they can be ranked only by how similar their names are in meaning to the
            target, for example which room to search for a thing.
    """
    condition = parse_condition(target)
    if condition is None:
        return select_actions([target], actions if _mentions_focus(target) else exclude_focus(actions), most=most)
    if focused and condition.kind in ("have", "placed") and is_vague(condition.thing):
        condition = condition._replace(thing=focused)
    suited = list(_filter_actions(condition, actions, view))
    if condition.kind == "be":
        return suited[:most]
    if condition.kind == "found" or (condition.kind == "focus" and is_vague(condition.thing)):
        return _rank_by_meaning(condition.thing, suited, few)
    related = [action for action in suited if may_mean(condition.thing, action)]
    return select_actions(
        [target], related or exclude_focus(actions), most=most, encoder=find_encoder(MATCHING_ENCODER)
    )


def exclude_focus(actions: Sequence[str]) -> list[str]:
    """Return the actions that are not focus actions."""
    return [action for action in actions if not _mentions_focus(action)]


def _rank_by_meaning(thing: str, actions: Sequence[str], limit: int) -> list[str]:
    # The actions whose room or thing is closest in meaning; without an installed encoder, the world's first ones.
    model, query = find_encoder(MATCHING_ENCODER), KIND_EXAMPLES.get(thing.lower(), thing)
    if model is None or not actions:
        return list(actions[:limit])
    vectors = model.encode([query, *(_object_of(action) for action in actions)])
    order = sorted(range(len(actions)), key=lambda n: -float(vectors[n + 1] @ vectors[0]))
    return [actions[n] for n in order[:limit]]


def _object_of(action: str) -> str:
    return action.removeprefix("focus on ").removeprefix(MOVE_VERBS[0]).removeprefix(MOVE_VERBS[1])


def _filter_actions(condition: WordedCondition, actions: Sequence[str], view: str) -> Iterator[str]:
    match condition.kind:
        case "be":
            yield from _select_ways(actions, lambda room: may_mean(condition.place, room))
        case "found":
            seen_rooms = next((line for line in view.splitlines() if line.startswith(SEEN_ROOMS)), "")
            yield from _select_ways(actions, lambda room: room not in seen_rooms)
        case "focus":
            yield from (a for a in actions if a.startswith("focus on ") and _object_of(a) not in NEVER_FOCUSED)
        case "have":
            yield from (action for action in actions if action.startswith("pick up "))
        case "placed":
            yield from (
                a for a in actions if a.startswith("move ") and may_mean(condition.place, a.rpartition(" to ")[2])
            )


def _select_ways(actions: Sequence[str], is_wanted: Callable[[str], bool]) -> list[str]:
    # Actions that go to the wanted rooms; only teleports where the world allows them.
    ways = [
        action
        for action in actions
        for verb in MOVE_VERBS
        if action.startswith(verb) and is_wanted(action[len(verb) :])
    ]
    return [action for action in ways if action.startswith(MOVE_VERBS[0])] or ways


def _mentions_focus(text: str) -> bool:
    return "focus" in text.lower()


# The operators.

GOAL = Predicate(text="The task is completed: the score is 100.", kind="goal")

ROOMS_NOTE = f"Rooms of the house: {', '.join(ROOMS)}. There are no others."

FOCUS = "focus on "
"""Beginning of an action that focuses on a thing."""

FEW_OPTIONS = 2
"""Number of options for a model too small to plan where only meaning decides: among many it chooses arbitrarily."""

REJECTED = "rejected"
"""Evidence of a verdict on an action that the world rejected."""


def create_operators(config: str) -> Mapping[str, Operator]:
    """Create the SDP operators of a configuration by name.

    Args:
        config: "paper": propose, realize, validate and replan of the SDP paper; "drafted": those for a model too small
            to plan and to write actions; any other: those that know more than the generic ones do.
    """
    drafted, paper = config == "drafted", config == "paper"

    async def propose(state: ProposeView, runtime: Runtime[Context]) -> dict[str, Any]:
        if drafted and (conditions := draft_conditions(state["task"].goal)):
            return {"plan": _append_goal(conditions)}
        return await ask_plan(state, runtime, goal=GOAL, notes=ROOMS_NOTE)

    async def replan(state: SDPReplanView, runtime: Runtime[Context]) -> dict[str, Any]:
        remaining = [] if needs_rest_of_plan(state) else _remaining_conditions(state)
        if remaining and drafted:
            return {"plan": _append_goal(remaining)}
        refused = [one for one in state["turns"] if not (one.accepted or one.observation.startswith(QUESTION_PREFIX))]
        named = bullet_list(dict.fromkeys(turn.action for turn in refused))
        findings = prompts.REFUSED.format(actions=quote(named)) if refused else ""
        return await ask_rest_of_plan(state, runtime, goal=GOAL, notes=ROOMS_NOTE, findings=findings)

    async def realize(state: RealizeView, runtime: Runtime[Context]) -> dict[str, Any]:
        if drafted:
            return {"action": await _choose_action(state, FEW_OPTIONS, runtime)}
        return {"action": await ask_action(state, runtime)}

    async def validate(state: ValidateView, runtime: Runtime[Context]) -> dict[str, Any]:
        verdict = _judge_by_shortcut(state["tail"], state["observation"])
        if drafted and verdict is None:
            verdict = _judge_draft(state["tail"], state["observation"], state["evidence"].view)
        return {"verdict": verdict or await _ask_verdict(state, runtime, form="plain")}

    async def validate_always(state: ValidateView, runtime: Runtime[Context]) -> dict[str, Any]:
        verdict = _judge_by_shortcut(state["tail"], state["observation"])
        return {"verdict": verdict or await _ask_verdict(state, runtime, form="full")}

    if drafted or paper:
        return {"propose": propose, "realize": realize, "validate": validate, "replan": replan}
    return {"propose": propose, "validate_always": validate_always, "replan": replan}


async def _ask_verdict(state: ValidateView, runtime: Runtime[Context], *, form: VerdictForm) -> Verdict:
    judged = [predicate for predicate in state["tail"] if predicate.kind != "goal"]
    notes = _verdict_notes(state, plain=form == "plain")
    return await ask_verdict(state, runtime, tail=judged, notes=notes, form=form)


def _verdict_notes(state: ValidateView, *, plain: bool) -> str:
    # The SDP paper credits conditions about the place of a thing with entering any new room; see its appendix A.3. Its
    # prompt shows no history, which otherwise shows the rooms that were entered.
    observation, rewards = state["observation"], [turn.reward for turn in state["turns"]]
    change = f"{100 * (sum(rewards) if len(rewards) > 1 else observation.reward):+.0f}"
    notes = [f"The score is {observation.data.get('score', 0)} of 100, changed by {change}."]
    if plain and observation.data.get("new_room"):
        notes.append(f"The agent is in a room where it was not before:\n{quote(str(observation.data.get('look', '')))}")
        notes.append(prompts.NEW_ROOM)
    return "\n".join(notes)


def _remaining_conditions(state: SDPReplanView) -> list[str]:
    # Conditions still to be met: first those that were undone; without the target if its attempts are exhausted.
    tail = [p.text for p in state["plan"][state["head"] :] if p.kind != "goal"]
    if state["undone"] or state["denied"]:
        return [*dict.fromkeys(invalidation.predicate.text for invalidation in state["undone"]), *tail]
    return tail[1:]


def _append_goal(texts: Sequence[str]) -> list[Predicate]:
    return [*(Predicate(text=text) for text in texts), GOAL]


async def _choose_action(state: RealizeView, few: int, runtime: Runtime[Context]) -> Action:
    # One of the actions of the target's kind that were not tried for it; the model is not asked if only one is left.
    tried = {attempt.action.text for attempt in state["attempts"]}
    target, most = state["target"].text, limits_of(state["task"], runtime).options
    untried = [action for action in await admissible_actions(runtime) if action not in tried]
    focused = next((a.text[len(FOCUS) :] for a in reversed(state["certified"].actions) if a.text.startswith(FOCUS)), "")
    view = state["evidence"].view
    offered = await run_in_thread(select_target_actions, target, untried, view, focused=focused, most=most, few=few)
    queries = [target, state["task"].goal]
    offered = offered or await run_in_thread(
        lambda: select_actions(queries, exclude_focus(untried), most=most, encoder=find_encoder(MATCHING_ENCODER))
    )
    if not offered:
        return await ask_action(state, runtime)
    return (
        Action(text=offered[0]) if len(offered) == 1 else await choose_action(state, offered, runtime, may_check=False)
    )


def _judge_by_shortcut(tail: Sequence[Predicate], observation: Observation) -> Verdict | None:
    # The SDP paper's three: the task is done; the world rejected the action; only the goal is left and not reached.
    if observation.solved:
        return Verdict(depth=len(tail), reason="the score is 100", evidence=observation.text, decided_by="code")
    if not observation.accepted:
        # an ambiguous action was understood, so it may be named again
        evidence = str(observation.data.get("result", REJECTED))
        return Verdict(depth=0, reason=" ".join(observation.text.split()), evidence=evidence, decided_by="code")
    if tail[0].kind == "goal":
        return Verdict(depth=0, reason=f"the score is {observation.data.get('score')} of 100", decided_by="code")
    return None


def _judge_draft(tail: Sequence[Predicate], observation: Observation, view: str) -> Verdict | None:
    """Judge the conditions of a draft, whose meaning code gave them; None for a condition in words of its own.

    What no rule finds in the reply and the view counts as not shown, so that no model is asked that cannot judge.
    """
    known = takewhile(lambda predicate: predicate.kind != "goal", tail)
    decisions = (_decide_drafted(predicate.text, observation, view) for predicate in known)
    held = [decision.quote for decision in takewhile(lambda d: d is not None and d.holds, decisions) if decision]
    if held:
        return Verdict(depth=len(held), evidence="; ".join(dict.fromkeys(held)), decided_by="code")
    shown = parse_condition(tail[0].text) is not None
    return Verdict(depth=0, reason="the world does not show it", decided_by="code") if shown else None


def _decide_drafted(text: str, observation: Observation, view: str) -> Decision | None:
    condition = parse_condition(text)
    if decision := decide_condition(text, observation, view):
        return decision
    if condition is None:
        return None
    if condition.kind == "focus":  # the score grows only with the focus that the task asks for next
        focused = observation.text.startswith(FOCUSED_REPLY) and observation.reward > 0
        return Decision(focused, observation.text) if focused else None
    thing, focus = condition.thing.lower(), str(observation.data.get("focus", ""))
    listed = f"{observation.data.get('look', '')}\n{view}"
    if condition.kind == "found" and (shown := find_kind(thing, listed)):
        return Decision(True, shown)
    if focus and is_vague(thing) and condition.kind in ("have", "placed"):
        return decide_condition(text.replace(condition.thing, focus, 1), observation, view)
    return None


FOCUSED_REPLY = "You focus on the "
"""Beginning of the world's reply to a focus."""

"""A run cut into rounds: an action with all that was said about it, or one node's work that is no action."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, NamedTuple

from certigraph.state.records import Action, Attempt, Certificate, Observation, Usage
from certigraph.state.trajectory import Event, total

OPENING = frozenset({"action", "plan", "outline", "trials", "lessons", "dag", "outcomes", "factored", "rewards"})
"""What a node returns that begins a round; those that judge an action return none of it."""


class Round:
    """Consecutive events of one purpose.

    `episode` counts from 1; `target` is what the agent worked for, in words: the predicate at the head of the plan, or
    a subtask; empty where it had none. `head` counts the predicates of the plan that were certified or let pass.
    """

    def __init__(self, episode: int, aim: "_Aim", events: tuple[Event, ...]) -> None:
        self.episode, self.events = episode, events
        self.target, self.head = aim

    @cached_property
    def update(self) -> Mapping[str, Any]:
        """What its nodes returned, together."""
        return {key: value for event in self.events for key, value in (event.update or {}).items()}

    @property
    def node(self) -> str:
        """The node that began it."""
        return self.events[0].node

    @property
    def failed(self) -> bool:
        """Whether its node raised: it cost something and changed nothing."""
        return self.events[0].update is None

    @property
    def usage(self) -> Usage:
        """What it cost."""
        return total(event.usage for event in self.events)

    @property
    def resets(self) -> bool:
        """Whether an episode begins here."""
        return "history" in self.events[0].replaced

    @property
    def action(self) -> Action | None:
        """The action that was chosen, whether or not the world came to take it."""
        chosen = self.update.get("action")
        return Action.model_validate(chosen) if chosen else None

    @property
    def thought(self) -> str:
        """The thought behind the action."""
        return str(self.update.get("thought", ""))

    @property
    def observation(self) -> Observation | None:
        """What the world answered, or showed at the beginning of an episode."""
        answered = self.update.get("observation")
        return Observation.model_validate(answered) if answered else None

    @property
    def attempt(self) -> Attempt | None:
        """The judged attempt at a predicate."""
        return next((Attempt.model_validate(a) for a in self.update.get("attempts", ())), None)

    @property
    def certificate(self) -> Certificate | None:
        """The certificate that the attempt earned; one that a policy `forced` says so."""
        return next((Certificate.model_validate(c) for c in self.update.get("certificates", ())), None)


def rounds(events: Iterable[Event]) -> Iterator[Round]:
    """The rounds of a run in order; every event is in one of them."""
    episode, state, group = 0, dict[str, Any](), list[Event]()
    aim = _aim(state)
    for event in events:
        if group and _begins(event) and not _goes_on(group, event):
            yield Round(episode, aim, tuple(group))
            group, aim = [], _aim(state)
        episode += "history" in event.replaced
        state.update({key: value for key, value in (event.update or {}).items() if key in _AIMING})
        group.append(event)
    if group:
        yield Round(episode, aim, tuple(group))


class _Aim(NamedTuple):
    target: str
    head: int


_AIMING = frozenset({"plan", "head", "subtask"})


def _aim(state: Mapping[str, Any]) -> _Aim:
    """What the agent works for, by the latest values of the channels that say it."""
    plan, head = state.get("plan", ()), state.get("head", 0)
    text = plan[head]["text"] if head < len(plan) else state.get("subtask", {}).get("text", "")
    return _Aim(text, head)


def _begins(event: Event) -> bool:
    update = event.update or {}
    assigns = "subtask" in update and "subtasks" not in update  # STEP's Planner; its Evaluator returns both
    return not update or bool(OPENING & update.keys()) or "history" in event.replaced or assigns


def _goes_on(group: Sequence[Event], event: Event) -> bool:
    """Whether what began with the world's state goes on, up to the action or reward; what fails is its own round."""
    began = group[0].update or {}
    reached = any({"rewards", "action"} & (earlier.update or {}).keys() for earlier in group)
    return "factored" in began and "history" not in began and not reached and event.update is not None

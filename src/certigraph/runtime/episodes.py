"""History of a run's episodes, computed from its events: turns, subtasks, beliefs, plans, rewards and lessons.

Reports and the live view read it. Scores are 0 to 100 here, while benchmarks score 0 to 1.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any, NamedTuple

from certigraph.runtime.texts import format_count
from certigraph.state.graph_states import state_type
from certigraph.state.rewards import Appraisal, FactoredState, RecordedStep
from certigraph.state.run import Belief, SearchRound, Stagnation, Turn
from certigraph.state.search import AGREED, Branch
from certigraph.state.search_tree import Simulation, count_visits
from certigraph.state.step import Lesson, StepSubtask, Trial
from certigraph.state.subtask import (
    Progress,
)
from certigraph.state.trajectory import Event

# Beliefs and gates of a search.


class BeliefHistory:
    """Beliefs and gate assessments of one episode, by world step from 1. A gate stops a search that finds nothing new.

    For agents without a memory or gate the dicts are empty.
    """

    def __init__(self) -> None:
        self.beliefs: dict[int, Belief] = {}
        self.rounds: dict[int, SearchRound] = {}
        self.gates: dict[int, Stagnation] = {}
        self.branches: list[Branch] = []
        self.searches = 0
        """Number of parallel searches that were begun; `branches` has those that ended, by number of hypothesis."""
        self.choice = ""
        self.memory_calls: dict[int, list[str]] = {}

    def fold(self, step: int, update: Mapping[str, Any]) -> None:
        """Add the state update of one event; `step` is the number of world steps before it."""
        if "belief" in update:
            self.beliefs[step] = Belief.model_validate(update["belief"])
        if update.get("rounds"):
            self.rounds[step] = SearchRound.model_validate(update["rounds"][-1])
        if "stagnation" in update:
            self.gates[step] = Stagnation.model_validate(update["stagnation"])
        self.searches = len(update.get("hypotheses", ())) or self.searches
        self.branches += map(Branch.model_validate, update.get("branches", ()))
        self.branches.sort(key=lambda branch: branch.number)
        if AGREED in (args := (update.get("action") or {}).get("args", {})):
            self.choice = f"answer as worded by {args[AGREED]} searches: {args.get('answer', '')}"
        for turn in update.get("memory_turns", ()):  # calls before the first step are shown with that step
            self.memory_calls.setdefault(max(step, 1), []).append(f"memory: {turn['action']}")

    def changes(self, step: int) -> list[str]:
        """List the changes of the belief in a step: + a new item, ? a new question, ✓ a question that was answered.

        The calls of memory functions (MemGPT) come first.
        """
        return [*self.memory_calls.get(step, ()), *self._belief_changes(step)]

    def _belief_changes(self, step: int) -> list[str]:
        after = self.beliefs.get(step)
        if after is None:
            return []
        before = _latest_before(step, self.beliefs, Belief())
        if after.reorganised > before.reorganised:
            return [f"curated to {after.items} items", *_belief_changes(after, Belief())]
        return [
            *_belief_changes(after, before),
            *(f"✓ {text}" for text in _items_missing(before.questions, after.questions)),
        ]

    def signals(self, step: int) -> str:
        """Format how similar the step's query is to earlier ones, and which share of its results is new."""
        signals = self.rounds.get(step)
        return f"{signals.jaccard:.0%} alike, {signals.upr:.0%} new" if signals else ""

    def verdict(self, step: int) -> str:
        """Return the gate's decision after a step, as text; empty if the gate only let the search continue."""
        now, before = self.gates.get(step, Stagnation()), _latest_before(step, self.gates, Stagnation())
        if now.stop:
            return f"gate: stop; {now.reason}"
        if now.at is not None and before.at is None:
            return f"gate would stop here with {now.answer or 'no answer'}; {now.reason}"
        if now.advice and now.advice != before.advice:
            return f"gate: {now.advice}"
        return f"gate: stagnant, {now.streak} in a row" if now.streak and now.at is None else ""


def _belief_changes(after: Belief, before: Belief) -> Iterator[str]:
    known = {fact.text for fact in before.facts}
    for fact in after.facts:
        if fact.text not in known:
            yield f"+ {fact.text}" + (f" ({fact.source})" if fact.source else "")
    yield from (f"+ {text}" for text in _items_missing(after.notes, before.notes))
    yield from (f"? {text}" for text in _items_missing(after.questions, before.questions))


def _items_missing(texts: Sequence[str], known: Sequence[str]) -> list[str]:
    return [text for text in texts if text not in known]


def _latest_before(step: int, values: Mapping[int, Any], first: Any) -> Any:
    earlier = [number for number in values if number < step]
    return values[max(earlier)] if earlier else first


# Candidates for each action of an agent that looks ahead.

MAX_OTHER_CANDIDATES = 3
"""Maximum number of candidates shown on a line in addition to the chosen one."""


class Candidate(NamedTuple):
    """An action that was considered.

    `worth` is its value as text: the predicted gain, or the mean value in a tree search.
    """

    action: str
    worth: str


class Prospect(NamedTuple):
    """What an agent considered before an action: predicted reward of the state, and candidates, the best first.

    `after` is the reward predicted for the state after the chosen action; None if none was.
    """

    reward: float
    candidates: tuple[Candidate, ...]
    chosen: str
    after: float | None = None

    @property
    def line(self) -> str:
        """Reward and candidates on one line. The text of the chosen action is left out."""
        worth = [f"▸ {one.worth}" for one in self.candidates if one.action == self.chosen]
        others = [f"{one.worth} {one.action}" for one in self.candidates if one.action != self.chosen]
        more = [f"{len(others) - MAX_OTHER_CANDIDATES} more"] if len(others) > MAX_OTHER_CANDIDATES else []
        after = "" if self.after is None else f" → {self.after:.2f}"
        return " · ".join([f"reward {self.reward:.2f}{after}", *worth, *others[:MAX_OTHER_CANDIDATES], *more])

    @property
    def listing(self) -> str:
        """The candidates, one per line, with the chosen one marked."""
        marked = (("▸" if one.action == self.chosen else "·", one) for one in self.candidates)
        return "\n".join(f"{mark} {one.worth}  {one.action}" for mark, one in marked)


class ProspectHistory:
    """What an agent considered before each action of one episode, by number of the action from 1.

    For agents that do not look ahead it is empty.
    """

    def __init__(self) -> None:
        self.before: dict[int, Prospect] = {}
        self._reward: float | None = None
        self._appraisals: list[Any] = []
        self._tree: list[Any] = []
        self._simulations: list[Any] = []

    def fold(self, step: int, event: Event) -> None:
        """Add one event; `step` is the number of world steps before it."""
        update: dict[str, Any] = {**(event.update or {})}
        if "tree" in event.replaced:
            self._tree, self._simulations = [], []
        self._tree += update.get("tree", ())
        self._simulations += update.get("simulations", ())
        self._appraisals = update.get("appraisals", self._appraisals)
        self._reward = update.get("reward", self._reward)
        if "action" in update and self._reward is not None:
            candidates, chosen = self._searched() if self._simulations else self._gained(), update["action"]["text"]
            self.before[step + 1] = Prospect(self._reward, tuple(candidates), chosen, self._predicted(chosen))

    def lines(self, number: int) -> list[str]:
        """Return reward and candidates for an action as a list of one line; an empty list if none are known."""
        return [self.before[number].line] if number in self.before else []

    def listing(self, number: int) -> str:
        """Return the candidates for an action, one per line; an empty text if none are known."""
        return self.before[number].listing if number in self.before else ""

    def _predicted(self, action: str) -> float | None:
        outcomes = [(tuple(node["path"]), node["reward"]) for node in self._tree] or [
            ((one["action"],), one["reward"]) for one in self._appraisals
        ]
        return next((reward for path, reward in outcomes if path == (action,)), None)

    def _gained(self) -> Iterator[Candidate]:
        """Yield candidates by predicted gain. Those that do not lead to a new state of the episode are marked."""
        appraisals = map(Appraisal.model_validate, self._appraisals)
        for one in sorted(appraisals, key=lambda one: -one.gain):
            yield Candidate(one.action, f"{one.gain:+.2f}" + (f" ({one.mark})" if one.mark else ""))

    def _searched(self) -> Iterator[Candidate]:
        """Yield the actions below the root of a tree search by number of visits, with their mean value."""
        counts = count_visits(map(Simulation.model_validate, self._simulations))
        paths = [tuple(node["path"]) for node in self._tree if len(node["path"]) == 1]
        for path in sorted(paths, key=lambda path: (-counts.visits[path], -counts.mean(path))):
            yield Candidate(path[0], f"{counts.mean(path):.2f} ({format_count(counts.visits[path], 'visit')})")


# Plans and the Supervisor's judgements.


class Remark(NamedTuple):
    """A line shown under a turn; `warns` is True if the Supervisor judged that the plan fails."""

    text: str
    warns: bool = False


class SupervisionHistory:
    """Plans of an episode and judgements of the Supervisor (TDP), by world step.

    For agents without a Supervisor it has no judgements.
    """

    def __init__(self) -> None:
        self.plans: dict[int, tuple[str, ...]] = {}
        self.judgements: dict[int, Progress] = {}

    def fold(self, step: int, update: Mapping[str, Any]) -> None:
        """Add the state update of one event; `step` is the number of world steps before it."""
        if update.get("outline"):
            self.plans[step] = tuple(update["outline"])
        if update.get("progress"):
            self.judgements[step] = Progress.model_validate(update["progress"])

    @property
    def first(self) -> tuple[str, ...]:
        """The first plan of the episode; empty if there is none."""
        return next(iter(self.plans.values()), ())

    @property
    def latest(self) -> tuple[str, ...]:
        """The latest plan of the episode; empty if there is none."""
        return next(reversed(self.plans.values()), ())

    def remarks(self, step: int) -> list[Remark]:
        """Return the lines shown under a step: the Supervisor's judgement and guidance, and the plan if it is new."""
        remarks = [_judgement_remark(self.judgements[step])] if step in self.judgements else []
        if step in self.judgements and self.judgements[step].guidance:
            remarks.append(Remark(f"next: {self.judgements[step].guidance}"))
        if step in self.plans and step != min(self.plans) and self.plans[step] != self._before(step):
            remarks.append(Remark(f"⟲ plan made anew: {format_plan(self.plans[step])}"))
        return [remark for remark in remarks if remark.text]

    def _before(self, step: int) -> tuple[str, ...]:
        return self.plans[max(number for number in self.plans if number < step)]


def format_plan(plan: tuple[str, ...]) -> str:
    """Format the steps of a plan on one line."""
    return " · ".join(f"{number} {step}" for number, step in enumerate(plan, 1))


def _judgement_remark(progress: Progress) -> Remark:
    if progress.off_plan or progress.status == "failed":
        label = "off plan" if progress.off_plan else "failed"
        return Remark(f"{label}: {progress.reason}" if progress.reason else label, warns=True)
    label = "✓ completed" if progress.status == "completed" else ""
    return Remark(": ".join(filter(None, (label, progress.reason))))


# One episode.


class NumberedTurn(NamedTuple):
    """A turn with its number in the episode (from 1); `points` is the change of the score (0 to 100) by the turn."""

    number: int
    turn: Turn
    points: float
    prompts: list[int]
    """Lines of the run's `prompts.jsonl` with the model calls that led to the turn or reviewed it."""

    @property
    def answer(self) -> str:
        """The first line of the turn's observation that is not blank."""
        return next((line.strip() for line in self.turn.observation.splitlines() if line.strip()), "")

    @property
    def scored(self) -> bool:
        """Whether the change of the score is larger than a rounding error."""
        return abs(self.points) >= 0.5


class RefusedAction(NamedTuple):
    """An action that STEP's Evaluator refused, and the reason: the rule that the action breaks."""

    action: str
    reason: str
    prompts: list[int]


class SubtaskGroup:
    """Turns and refused actions that belong to one subtask, in order; `subtask` is None for agents without subtasks.

    `prompts` are the lines of `prompts.jsonl` with the model calls that assigned the subtask.
    """

    def __init__(self, subtask: StepSubtask | None, prompts: Sequence[int] = ()) -> None:
        self.subtask, self.prompts = subtask, prompts
        self.entries: list[NumberedTurn | RefusedAction] = []


REVIEW_KEYS = frozenset({"belief", "stagnation", "subtasks", "progress", "outline"})
"""State keys whose update follows from the latest turn. The model calls of other updates lead to the next one."""


class EpisodeSummary:
    """One episode of a run.

    `scores` has the score after each world step, 0 to 100, or below 0 after a fatal mistake.
    """

    def __init__(self, number: int, start: float = 0.0) -> None:
        self.number = number
        self.start = start
        self.scores: list[float] = []
        self.groups: list[SubtaskGroup] = []
        self.trial: Trial | None = None
        self.lesson: Lesson | None = None
        self.gathering = BeliefHistory()
        self.prospects = ProspectHistory()
        self.supervision = SupervisionHistory()
        self.planning: Sequence[int] = ()
        """Lines of `prompts.jsonl` with the model calls that made the first plan."""
        self.prompts: list[int] = []
        """Those that no turn has: after the last turn, or before one that was never taken."""

    @property
    def score(self) -> float:
        """The official score if the episode was scored, else the score that the world reported last."""
        return 100 * self.trial.scores.value if self.trial else self.reported

    @property
    def reported(self) -> float:
        """The score after the latest step."""
        return self.scores[-1] if self.scores else self.start

    @property
    def subtask(self) -> StepSubtask | None:
        """The latest subtask; None for agents without subtasks."""
        return self.groups[-1].subtask if self.groups else None

    @property
    def latest(self) -> NumberedTurn | RefusedAction | None:
        """The latest turn or refused action of the latest subtask, or None."""
        entries = self.groups[-1].entries if self.groups else []
        return entries[-1] if entries else None

    def count(self, status: str) -> int:
        """Count the subtasks with a status: `open`, `completed` (or reported as completed) or `failed`."""
        statuses = ("completed", "reported") if status == "completed" else (status,)
        return sum(group.subtask is not None and group.subtask.status in statuses for group in self.groups)

    def entries(self) -> Iterator[NumberedTurn | RefusedAction]:
        """Return the turns and refused actions of all subtasks, in order."""
        return (entry for group in self.groups for entry in group.entries)

    def add_prompts(self, event: Event, update: Mapping[str, Any]) -> None:
        """Assign the model calls of an event to the turn that they review, or to the next one."""
        reviewed = None if REVIEW_KEYS.isdisjoint(update) else self.latest
        (reviewed or self).prompts.extend(event.prompts)

    def take_prompts(self) -> list[int]:
        """Return the model calls since the latest turn; they then belong to what the caller makes of them."""
        taken, self.prompts = self.prompts, []
        return taken

    def group(self) -> SubtaskGroup:
        """Return the group that the next turn or refused action belongs to."""
        if not self.groups:
            self.groups.append(SubtaskGroup(None))
        return self.groups[-1]


# All episodes of a run.


class EpisodeHistory:
    """All episodes of a run, computed from its events as they arrive.

    `acting`: the graph acts without predicates. `learning`: it runs several episodes and learns between them. `graded`:
    the world reports a score. `unscored`: nobody knows the right answer, so that no score counts.
    """

    def __init__(self, graph: str = "", *, unscored: bool = False) -> None:
        channels = state_type(graph).__annotations__
        self.acting, self.learning = not channels.keys().isdisjoint({"turns", "branches"}), "trials" in channels
        self.graded, self.unscored = False, unscored
        self.all: list[EpisodeSummary] = []
        self._action = ""

    @property
    def steps(self) -> int:
        """Number of world steps of all episodes."""
        return sum(len(episode.scores) for episode in self.all)

    @property
    def now(self) -> EpisodeSummary:
        """The latest episode."""
        if not self.all:
            self.all.append(EpisodeSummary(1))
        return self.all[-1]

    @property
    def scored(self) -> bool:
        """Whether a score is known: the world reported one or rewarded a step, or an episode was scored."""
        if self.unscored:
            return False
        return self.graded or any(episode.trial or any(episode.scores) for episode in self.all)

    def count(self, status: str) -> int:
        """Count the subtasks of all episodes with a status: `open`, `completed` or `failed`."""
        return sum(episode.count(status) for episode in self.all)

    def fold(self, event: Event) -> None:
        """Update the episodes with one event.

        Events of a graph inside a node are ignored: they belong to a sub-task.
        """
        if event.scope:
            return
        update: dict[str, Any] = {**(event.update or {})}
        self.acting |= "turns" in update
        self.learning |= "trials" in update
        if "history" in event.replaced:
            start = _reported_score(update.get("observation", {}))
            self.all.append(EpisodeSummary(update.get("trial", len(self.all) + 1), start or 0.0))
        if self.all:
            self.now.add_prompts(event, update)
        self._assign(update)
        self._rule(update)
        if "history" not in event.replaced:
            self._act(update)
        self._learn(update)
        if self.all:
            if update.get("outline") and not self.now.latest:
                self.now.planning = self.now.take_prompts()
            self.now.gathering.fold(len(self.now.scores), update)
            self.now.prospects.fold(len(self.now.scores), event)
            self.now.supervision.fold(len(self.now.scores), update)

    def _assign(self, update: Mapping[str, Any]) -> None:
        if "subtask" not in update:
            return
        subtask = StepSubtask.model_validate(update["subtask"])
        if "subtasks" in update:  # an update of `assess`: the same subtask with its new status
            self.now.group().subtask = subtask
        else:
            self.now.groups.append(SubtaskGroup(subtask, self.now.take_prompts()))

    def _rule(self, update: Mapping[str, Any]) -> None:
        self._action = update.get("action", {}).get("text", self._action)
        approval = update.get("approval", {})
        if not approval.get("approved", True):
            self.now.group().entries.append(
                RefusedAction(self._action, approval.get("reason", ""), self.now.take_prompts())
            )

    def _act(self, update: Mapping[str, Any]) -> None:
        if not update.get("history"):
            return
        observation, episode = update.get("observation", {}), self.now
        score, before = _reported_score(observation), episode.reported
        self.graded |= score is not None
        episode.scores.append(before + 100 * observation.get("reward", 0.0) if score is None else score)
        for turn in update.get("turns", ()):
            points = episode.reported - before
            numbered = NumberedTurn(len(episode.scores), Turn.model_validate(turn), points, episode.take_prompts())
            episode.group().entries.append(numbered)

    def _learn(self, update: Mapping[str, Any]) -> None:
        for trial in update.get("trials", ()):
            self.now.trial = Trial.model_validate(trial)
        lessons = update.get("lessons")
        if lessons and self.all and lessons[-1]["trial"] == self.now.number and self.now.trial:
            self.now.lesson = Lesson.model_validate(lessons[-1])


def _reported_score(observation: Mapping[str, Any]) -> float | None:
    score = observation.get("data", {}).get("score")
    return float(score) if isinstance(score, int | float) else None


# Runs of reward predictors.


class RatedStep(NamedTuple):
    """A recorded step with its predicted reward, and the state and goal state that were compared.

    Both states are empty for predictors without factored states. `prompts` are the lines of the run's `prompts.jsonl`
    with the model calls of the step.
    """

    step: RecordedStep
    reward: float
    state: FactoredState
    goal: FactoredState
    prompts: Sequence[int]


class RatingHistory:
    """The rewards that a run predicted for recorded steps, computed from its events as they arrive."""

    def __init__(self) -> None:
        self.steps: list[RecordedStep] = []
        self.rated: list[RatedStep] = []
        self._state = self._goal = FactoredState()
        self._prompts: list[int] = []

    def fold(self, event: Event) -> None:
        """Update with one event; events of graphs that predict no rewards have no effect."""
        update: dict[str, Any] = {**(event.update or {})}
        self._prompts += event.prompts
        if "rewards" not in update:
            if self.steps:  # else `goal` is another graph's key
                self._know(update)
        elif event.node == "reset":
            self.steps = [RecordedStep.model_validate(step) for step in update.get("steps", ())]
            self.rated = []
            self._know(update)
        elif len(self.rated) < len(self.steps):
            step = self.steps[len(self.rated)]
            reward, prompts = update["rewards"][0]["reward"], tuple(self._prompts)
            self.rated.append(RatedStep(step, reward, self._state, self._goal, prompts))
            self._prompts = []

    @property
    def recordings(self) -> list[list[RatedStep]]:
        """The rated steps, grouped by recorded trajectory."""
        return [[*group] for _, group in groupby(self.rated, key=lambda rated: rated.step.recording)]

    def _know(self, update: dict[str, Any]) -> None:
        self._state = FactoredState.model_validate(update.get("factored", self._state))
        self._goal = FactoredState.model_validate(update.get("goal", self._goal))

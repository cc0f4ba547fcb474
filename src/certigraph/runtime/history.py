"""History of a run: the one fold of its trajectory, which the live view, reports and tables of runs read.

`RunHistory` takes lines as they arrive. It has the plan (`PlanHistory`), the episodes (`EpisodeHistory`), TDP's task
graph (`TaskGraph`) and predicted rewards (`RatingHistory`) of a run. Each sub-task of a task graph has the same parts
for the graph that works on it (`GraphHistory`). Scores are 0 to 100 here, while benchmarks score 0 to 1.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from graphlib import TopologicalSorter
from itertools import groupby
from typing import Any, Literal, NamedTuple

from pydantic import JsonValue

from certigraph.runtime.result import is_goal_denied, is_solved, is_unscored, verdict_scores_of
from certigraph.runtime.texts import CERTIFIED_LABEL, UNCHECKED_LABEL, clip_text, format_count
from certigraph.state.effects import did_something
from certigraph.state.endings import GOAL, WORLD_ENDED
from certigraph.state.graph_states import GRAPH_STATES
from certigraph.state.records import CHECK, Action, Attempt, Audit, Certificate, Predicate, Scores, Step, Usage
from certigraph.state.rewards import Appraisal, FactoredState, RecordedStep
from certigraph.state.run import ANSWER_ACTIONS, Belief, RunState, SearchRound, Stagnation, Turn
from certigraph.state.search import AGREED, Branch
from certigraph.state.search_tree import Simulation, count_visits
from certigraph.state.step import Lesson, StepSubtask, Trial
from certigraph.state.subtask import Progress
from certigraph.state.tdp import Node, Outcome
from certigraph.state.tools import calls_of, reasons_refused
from certigraph.state.trajectory import (
    AnsweredQuestion,
    CutPrompt,
    EmptyCallCounter,
    EmptyCalls,
    Event,
    Footer,
    Header,
    Question,
    Resumed,
    Trajectory,
    TrajectoryLine,
    assemble_trajectory,
    find_cut_prompts,
)

PlainRecord = Mapping[str, Any]
"""A record as the JSON object of a trajectory line. Fields that have their default value are missing."""


def channels_of(graph: str) -> Mapping[str, Any]:
    """Return the channels of a graph's state; those that all graphs have if certigraph has no graph of that name."""
    channels: Mapping[str, Any] = GRAPH_STATES.get(graph, RunState).__annotations__
    return channels


def count_steps(event: Event) -> int:
    """Count the world steps of one event: the entries that the node `act` added to the log of steps."""
    # A log that is replaced holds earlier steps, and TDP's node `gather` repeats the steps of sub-tasks.
    repeats = event.node == "gather" or "history" in event.replaced
    log: Any = [] if repeats else (event.update or {}).get("history", [])
    return len(log)


# The plan: predicates, attempts, certificates, replans and audits. Records stay as they are in a trajectory, and only
# the few that are shown are validated, so that a thousand runs are read in little time.


class StepCost(NamedTuple):
    """Cost: numbers of world steps, model calls, and input and output tokens together."""

    steps: float = 0
    calls: float = 0
    tokens: float = 0


@dataclass(eq=False)
class PlanCertificate:
    """A certificate, or a pass that a policy `forced`, with what it cost since the previous one."""

    record: PlainRecord
    rejected: int
    """Number of rejected attempts at its first predicate."""
    tried: int
    """Number of all attempts since the latest certificate or replan."""
    cost: StepCost
    found: int = 0
    """Number of steps that were taken when it was issued: more than its own `step` if the verdict came later."""
    log: Mapping[int, PlainRecord] = field(default_factory=dict)
    """The steps since the previous certificate, by number from 1."""
    answer: str = ""
    """What the world answered in its own step."""
    report: str = ""
    """The words in which the world reports that the goal is reached; empty if it does not."""

    def __post_init__(self) -> None:
        self.targets: Sequence[PlainRecord] = self.record["targets"]
        self.restores: int | None = self.record.get("restores")
        """Number of the earlier certified state that the agent went back to; None if it did not go back."""
        self.forced = bool(self.record.get("forced"))
        self.positions = range(self.record["position"], self.record["position"] + len(self.targets))
        """Positions of its predicates in the plan."""

    @cached_property
    def certificate(self) -> Certificate:
        """The certificate as a validated record."""
        return Certificate.model_validate(self.record)

    @cached_property
    def actions(self) -> Mapping[int, Action]:
        """The actions since the previous certificate that did something and so brought this one about, by step."""
        taken = {number: Step.model_validate(step) for number, step in self.log.items()}
        return {number: step.action for number, step in taken.items() if did_something(step)}


class PlanAttempt:
    """An attempt at a predicate of the plan.

    `number` counts the attempts at this predicate from 1, `step` the world steps so far, and `at` those of the log, by
    which certificates name steps. `answer` is the world's latest observation as text; `prompts` are the lines of
    `prompts.jsonl` with the model calls since the moment before. `depth` is the number of predicates that hold by the
    verdict; 0 if the attempted one does not. `forced`: a policy let the predicate pass. `pending`: nobody judged it.
    `counted`: it counts against the budget of attempts. `certified`: a certificate followed. `discharged`: the verdict
    holds, and a certificate or a forced pass followed. Neither follows a verdict that holds if an audit denied the
    goal, or if the run stopped in between. `refused`: the world did not accept the action, or it says that it had no
    effect. `shown_at` is the position of the predicate at which it is shown: where a certificate rests on it, as `led`
    says, that of this certificate.
    """

    def __init__(
        self,
        record: PlainRecord,
        number: int,
        step: int,
        answer: str,
        prompts: Sequence[int] = (),
        *,
        at: int = 0,
        refused: bool = False,
    ) -> None:
        self.record, self.number, self.step, self.answer, self.prompts = record, number, step, answer, prompts
        self.at, self.refused = at, refused
        self.position: int = record["position"]
        self.shown_at = self.position
        self.target: PlainRecord = record["target"]
        self.depth: int = record["verdict"]["depth"]
        self.forced = bool(record["verdict"].get("forced"))
        self.pending = bool(record["verdict"].get("pending"))
        self.counted = not (self.pending or record["verdict"].get("looked"))
        self.certified = self.discharged = self.led = False

    @cached_property
    def attempt(self) -> Attempt:
        """The attempt as a validated record."""
        return Attempt.model_validate(self.record)

    @cached_property
    def failed(self) -> bool:
        """Whether nothing came of the action: the world refused it, or none of its calls was made without an error."""
        calls = calls_of(self.attempt.action)
        return not any(call.is_made and not call.error for call in calls) if calls else self.refused

    @cached_property
    def refusals(self) -> list[str]:
        """Why calls of the attempted action were not made, such as the reason that a person gave."""
        return reasons_refused(self.attempt.action)


class PlanReplan(NamedTuple):
    """A replan at a position of the plan.

    `tail` is the number of predicates that the new plan has from there, 0 if there is none. `extends`: the replan
    continued a plan that was cut because it had too many conditions. `reason` says why it gave up, if the operator did.
    `failed`: it did not finish, because of an error or a limit.
    """

    position: int
    step: int
    tail: int
    extends: bool = False
    prompts: Sequence[int] = ()
    reason: str = ""
    failed: bool = False

    @property
    def gave_up(self) -> bool:
        """Whether the replan finished, and there is no new plan."""
        return not (self.tail or self.extends or self.failed)


class PlanAudit(NamedTuple):
    """An audit of the goal, with the position of the plan at which it was made."""

    position: int
    audit: Audit
    prompts: Sequence[int] = ()


PlanMoment = PlanAttempt | PlanReplan | PlanAudit
"""Something that happened at a position of the plan: an attempt, a replan or an audit."""

PredicateStatus = Literal["certified", "forced", "undone", "restored", "failed", "target", "waiting"]
"""Status of a predicate of the plan.

"forced": a policy let it pass uncertified. "undone": certified, but invalidated or taken back by going back to an
earlier state. "restored": it stands for going back. "target": the next to certify, in a run that goes on or was stopped
by a limit or an error. "failed": the next to certify, in a run that ended without the goal. "waiting": not reached, or
the next to certify in a run that solved its task.
"""


class PredicateRow(NamedTuple):
    """One predicate of the plan with its status, its certificate, and what happened at its position, in order."""

    position: int
    predicate: Predicate
    status: PredicateStatus
    certificate: Certificate | None
    moments: tuple[PlanMoment, ...]
    number: int | None = None
    """Index of the certificate among those of its graph, from 0."""
    actions: tuple[tuple[int, Action], ...] = ()
    """The actions since the previous certificate, which brought it about, each with the number of its step."""
    found: int = 0
    """Number of steps that were taken when the certificate was issued."""
    answer: str = ""
    """What the world answered in the step that the certificate names."""
    report: str = ""
    """The words in which the world reports that the goal is reached; empty for any other predicate."""

    @property
    def attempts(self) -> list[PlanAttempt]:
        """The attempts among the moments."""
        return [moment for moment in self.moments if isinstance(moment, PlanAttempt)]

    @property
    def groups(self) -> list[list[PlanMoment]]:
        """Moments of one kind that follow each other, without the attempts that a certificate shows."""
        shown = (m for m in self.moments if not (isinstance(m, PlanAttempt) and (m.discharged or m.led)))
        return [list(moments) for _, moments in groupby(shown, key=type)]

    @property
    def brought_by(self) -> list[tuple[Action, PlanAttempt | None]]:
        """The actions that brought the certificate about, in order, each with its attempt if nobody judged it."""
        led = {attempt.at: attempt for attempt in self.attempts if attempt.led}
        actions = dict(self.actions) | {step: attempt.attempt.action for step, attempt in led.items()}
        return [(action, led.get(step)) for step, action in sorted(actions.items())]


NO_STEP: PlainRecord = {"action": {"text": "", "kind": CHECK}, "digest": ""}
"""Stands for a step of the run around this one."""


class Exhaustion(NamedTuple):
    """The first time that all attempts at a target were used up.

    `head` is the position of the target in the plan, `planned` the length of the plan.
    """

    head: int
    planned: int


class CertifiedCount(NamedTuple):
    """What a certified state has: numbers of certified predicates and of those that a policy let pass uncertified.

    `invalidated` are predicates that hold no longer: index of the certificate, and index among its targets. `latest` is
    the index of the certificate that led to the state; -1 for the first state.
    """

    predicates: int = 0
    passed: int = 0
    latest: int = -1
    invalidated: frozenset[tuple[int, int]] = frozenset()


PLANNING_NODES = frozenset({"reset", "propose"})
"""Graph nodes whose cost belongs to the plan and not to its first predicate."""

NO_EXHAUSTION_NODES = frozenset({"audit", "revalidate", "certify"})
"""Graph nodes that can lead to a replan although attempts at the target are left. After `certify` it extends a plan."""


class PlanHistory:
    """Plan of one graph so far, computed from its events.

    For a graph without predicates it holds little more than the number of world steps.
    """

    def __init__(self) -> None:
        self.plan: Sequence[PlainRecord] = ()
        self.head = 0
        self.steps = 0
        """Number of world steps, without those that TDP's node `gather` repeats."""
        self.logged = 0
        """Length of the log of world steps. A new episode starts a new log."""
        self.moments: list[PlanMoment] = []
        self.attempts: list[PlanAttempt] = []
        self.certificates: list[PlanCertificate] = []
        self.curve: list[tuple[int, int]] = []
        """World step and number of certified predicates that still hold, after every certificate."""
        self.replans = 0
        """Number of replans that led to new predicates; `gave_up` counts the others."""
        self.exhaustion: Exhaustion | None = None
        self.tried = 0
        """Number of attempts since the latest certificate or replan."""
        self.rejection = ""
        """Reason why the latest attempt was rejected, or the goal denied by an audit; empty after a certificate, and if
        nobody judged the latest attempt."""
        self.prompts: list[int] = []
        """Lines of `prompts.jsonl` with the model calls that planned before the first attempt."""
        self._prompts: list[int] = []
        self._count = CertifiedCount()
        self._counts = [self._count]
        self._before: list[int] = []
        self._cost_since = StepCost()
        self._first_open = 0
        self._unled: list[PlanAttempt] = []
        """The attempts that nobody judged, and on which no certificate rests yet, since the latest replan."""
        self._log: list[PlainRecord] = []
        self._answers: dict[int, str] = {}
        self._answer = self._report = self._node_before = ""
        self._refused = False

    def fold(self, event: Event) -> None:
        """Update with one event of the graph. An event without an update failed, and only its usage counts."""
        update: PlainRecord = event.update or {}
        steps = count_steps(event)
        self.steps += steps
        if "history" in event.replaced:  # a run inside another one begins with steps that its lines leave out
            self._log = [NO_STEP] * event.repeated
        self._log += update.get("history", ())
        self.logged = len(self._log)
        if seen := update.get("observation"):
            self._answer = self._answers[self.logged] = seen.get("text", self._answer)
            self._report = str(seen.get("data", {}).get("goal") or self._answer) if seen.get("solved") else ""
            self._refused = not seen.get("accepted", True) or seen.get("data", {}).get("result") == "failed"
        (self.prompts if event.node in PLANNING_NODES else self._prompts).extend(event.prompts)
        if event.node == "replan":
            self._replan(update, failed=event.update is None)
        if event.update is not None:
            self._node_before = event.node
        for lost in update.get("invalidations", ()):
            invalidated = self._count.invalidated | {(lost["certificate"], lost["target"])}
            self._count = self._count._replace(invalidated=invalidated)
            if self.curve and lost["step"] <= self.curve[-1][0]:  # found after the step that led to the certificate
                self.curve[-1] = self.curve[-1][0], self.in_force
        if event.node not in PLANNING_NODES:
            used, since = event.usage, self._cost_since
            tokens = since.tokens + used.input_tokens + used.output_tokens
            self._cost_since = StepCost(since.steps + steps, since.calls + used.calls, tokens)
        self.plan = update.get("plan", self.plan)
        for attempt in update.get("attempts", ()):
            self._attempt(attempt)
        issued = update.get("certificates", ())
        for certificate in issued:
            self._certify(certificate, len(certificate["targets"]) / sum(len(one["targets"]) for one in issued))
        self._cost_since = StepCost() if issued else self._cost_since
        for audit in map(Audit.model_validate, update.get("audits", ())):
            self.moments.append(PlanAudit(self.head, audit, self._take_prompts()))
            if not audit.confirmed:
                self.rejection = f"audit of the goal: denied: {audit.reason}".removesuffix(": ")
        self.head = update.get("head", self.head)

    @property
    def invalidated(self) -> frozenset[tuple[int, int]]:
        """Predicates that are invalidated: index of the certificate, and index of the predicate among its targets.

        Going back to an earlier state takes back the invalidations since.
        """
        return self._count.invalidated

    @property
    def in_force(self) -> int:
        """Number of certified predicates that still hold.

        Not counted are invalidated predicates, and those that were taken back by going back to an earlier state.
        """
        return self._count.predicates - len(self.invalidated)

    @property
    def passed(self) -> int:
        """Number of predicates that a policy let pass uncertified and that were not taken back later."""
        return self._count.passed

    @property
    def gave_up(self) -> int:
        """Number of replans that gave up."""
        return sum(isinstance(moment, PlanReplan) and moment.gave_up for moment in self.moments)

    @property
    def total(self) -> int:
        """Number of predicates: those that still hold, those that passed uncertified, and those still to come."""
        return self.in_force + self.passed + max(len(self.plan) - self.head, 0)

    @property
    def target(self) -> str:
        """Text of the target, the predicate to certify next; empty if there is none."""
        return self.plan[self.head]["text"] if self.head < len(self.plan) else ""

    def open_attempts(self) -> Sequence[PlanAttempt]:
        """Return the attempts since the latest certificate."""
        return self.attempts[self._first_open :]

    def valid_indices(self) -> set[int]:
        """Return the indices of the certificates that led to the latest certified state, forced ones included."""
        valid, index = set[int](), self._count.latest
        while index >= 0:
            valid.add(index)
            index = self._before[index]
        return valid

    def rows(self, ending: str = "", *, solved: bool = False) -> list[PredicateRow]:
        """Build one row for every predicate, by position in the plan.

        Predicates that only attempts or certificates name have rows too, because a graph may have no plan.

        Args:
            ending: the ending of the run; empty if it has none yet.
            solved: whether the score says that the task is solved, so that no predicate failed.
        """
        valid, statuses = self.valid_indices(), dict[int, PredicateStatus]()
        certificates: dict[int, tuple[int, PlanCertificate]] = {}
        targets = {attempt.position: attempt.target for attempt in self.attempts}
        for index, entry in enumerate(self.certificates):
            for number, position in enumerate(entry.positions):
                targets[position], certificates[position] = entry.targets[number], (index, entry)
                in_force = index in valid and (entry.forced or (index, number) not in self.invalidated)
                if entry.restores is not None:
                    statuses[position] = "restored"
                elif in_force or statuses.get(position) != "certified":
                    statuses[position] = "undone" if not in_force else "forced" if entry.forced else "certified"
        targets |= dict(enumerate(self.plan))
        head = self.head if self.plan else max(statuses, default=-1) + 1
        if head not in statuses and not solved:
            stopped = not ending or ending == GOAL or ending.startswith(("limit:", "error:"))
            statuses[head] = "target" if stopped else "failed"
        moments = defaultdict[int, list[PlanMoment]](list)
        for moment in self.moments:
            moments[moment.shown_at if isinstance(moment, PlanAttempt) else moment.position].append(moment)
        rows = []
        for position, target in sorted(targets.items()):
            predicate, status = Predicate.model_validate(target), statuses.get(position, "waiting")
            row = PredicateRow(position, predicate, status, None, tuple(moments[position]))
            if position in certificates:
                index, entry = certificates[position]
                row = row._replace(
                    certificate=entry.certificate,
                    number=index,
                    actions=tuple(entry.actions.items()),
                    found=entry.found,
                    answer=entry.answer,
                    report=entry.report if predicate.kind == "goal" else "",
                )
            rows.append(row)
        return rows

    def _replan(self, update: PlainRecord, *, failed: bool) -> None:
        extends, tried, self.tried = self._node_before == "certify", self.tried, 0
        self._unled = []
        plan = update.get("plan", ())
        self.replans += bool(plan) and not extends
        if tried and self._node_before not in NO_EXHAUSTION_NODES:
            self.exhaustion = self.exhaustion or Exhaustion(self.head, len(self.plan))
        tail, reason = max(len(plan) - self.head, 0), update.get("gave_up", "")
        self.moments.append(PlanReplan(self.head, self.steps, tail, extends, self._take_prompts(), reason, failed))

    def _attempt(self, record: PlainRecord) -> None:
        position, target, verdict = record["position"], record["target"], record["verdict"]
        before = sum(t.position == position and t.target == target for t in self.open_attempts())
        prompts = self._take_prompts()
        step, refused = self.steps, self._refused
        attempt = PlanAttempt(record, before + 1, step, self._answer, prompts, at=self.logged, refused=refused)
        self.attempts.append(attempt)
        self.moments.append(attempt)
        self._unled += [attempt] if attempt.pending else []
        self.tried += 1
        self.rejection = "" if verdict["depth"] or attempt.pending else verdict.get("reason", "")

    def _certify(self, record: PlainRecord, share: float) -> None:
        """Add a certificate, to which belongs a share, 0 to 1, of what was spent since the latest ones."""
        step, depth = record["step"], len(record["targets"])
        rejected = sum(t.counted and t.target == record["targets"][0] for t in self.open_attempts()[:-1])
        cost = self._cost_since if share == 1 else StepCost(*(share * amount for amount in self._cost_since))
        # of several certificates of one step the later ones show that step alone
        before = min(self.certificates[-1].record["step"], step - 1) if self.certificates else 0
        log = {number: self._log[number - 1] for number in range(before + 1, min(step, len(self._log)) + 1)}
        answer = self._answers.get(step, "") if self.attempts else ""
        entry = PlanCertificate(record, rejected, self.tried, cost, self.logged, log, answer, self._report)
        for attempt in self._unled if entry.restores is None else ():
            if attempt.at <= step:
                attempt.shown_at, attempt.led = record["position"], True
        self._unled = [attempt for attempt in self._unled if not attempt.led]
        self._before.append(self._count.latest)
        if entry.restores is not None:
            self._count = self._counts[entry.restores]
        else:
            passed, certified = (depth, 0) if entry.forced else (0, depth)
            self._count = CertifiedCount(
                self._count.predicates + certified,
                self._count.passed + passed,
                len(self.certificates),
                self.invalidated,
            )
        self.certificates.append(entry)
        self._counts.append(self._count)
        self.curve.append((step, self.in_force))
        self._first_open = len(self.attempts)
        self.tried, self.rejection = 0, ""
        for attempt in self.attempts[-1:]:
            attempt.certified |= not entry.forced
            attempt.discharged |= bool(attempt.depth)

    def _take_prompts(self) -> Sequence[int]:
        taken, self._prompts = tuple(self._prompts), []
        return taken


# Episodes: turns, subtasks, beliefs, gates, plans, predicted rewards and lessons.

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
        return "\n".join(f"{'▸' if c.action == self.chosen else '·'} {c.worth}  {c.action}" for c in self.candidates)


class ProspectHistory:
    """What an agent that predicts rewards has computed since its latest action, from which prospects are made."""

    def __init__(self) -> None:
        self.reward: float | None = None
        self.appraisals: list[Any] = []
        self.tree: list[Any] = []
        self.simulations: list[Any] = []

    def fold(self, event: Event) -> Prospect | None:
        """Update with one event, and return what was considered if the event chose an action."""
        update: dict[str, Any] = {**(event.update or {})}
        if "tree" in event.replaced:
            self.tree, self.simulations = [], []
        self.tree += update.get("tree", ())
        self.simulations += update.get("simulations", ())
        self.appraisals = update.get("appraisals", self.appraisals)
        self.reward = update.get("reward", self.reward)
        if "action" not in update or self.reward is None:
            return None
        chosen, candidates = update["action"]["text"], self._searched() if self.simulations else self._appraised()
        predicted = [(node["path"], node["reward"]) for node in self.tree] or [
            ([one["action"]], one["reward"]) for one in self.appraisals
        ]
        after = next((reward for path, reward in predicted if [*path] == [chosen]), None)
        return Prospect(self.reward, tuple(candidates), chosen, after)

    def _appraised(self) -> Iterator[Candidate]:
        """Yield candidates by predicted gain. Those that do not lead to a new state of the episode are marked."""
        for one in sorted(map(Appraisal.model_validate, self.appraisals), key=lambda one: -one.gain):
            yield Candidate(one.action, f"{one.gain:+.2f}" + (f" ({one.mark})" if one.mark else ""))

    def _searched(self) -> Iterator[Candidate]:
        """Yield the actions below the root of a tree search by number of visits, with their mean value."""
        counts = count_visits(map(Simulation.model_validate, self.simulations))
        paths = [tuple(node["path"]) for node in self.tree if len(node["path"]) == 1]
        for path in sorted(paths, key=lambda path: (-counts.visits[path], -counts.mean(path))):
            yield Candidate(path[0], f"{counts.mean(path):.2f} ({format_count(counts.visits[path], 'visit')})")


class Note(NamedTuple):
    """A line shown under a turn: a change of the belief, a decision of the gate, or a judgement of the Supervisor.

    `warns` is True if the search finds nothing new or the plan fails.
    """

    text: str
    warns: bool = False


@dataclass
class NumberedTurn:
    """A turn with its number in the episode (from 1); `points` is the change of the score (0 to 100) by the turn."""

    number: int
    turn: Turn
    points: float
    prompts: list[int]
    """Lines of the run's `prompts.jsonl` with the model calls that led to the turn or reviewed it."""
    prospect: Prospect | None
    notes: list[Note]
    signals: str = ""
    """How similar the turn's query is to earlier ones, and which share of its results is new."""

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


@dataclass
class SubtaskGroup:
    """Turns and refused actions that belong to one subtask, in order; `subtask` is None for agents without subtasks.

    `prompts` are the lines of `prompts.jsonl` with the model calls that assigned the subtask.
    """

    subtask: StepSubtask | None = None
    prompts: Sequence[int] = ()
    entries: list[NumberedTurn | RefusedAction] = field(default_factory=list)


REVIEW_KEYS = frozenset({"belief", "stagnation", "subtasks", "progress", "outline"})
"""State keys whose update follows from the latest turn. The model calls of other updates lead to the next one."""


class EpisodeSummary:
    """One episode of a run.

    `scores` has the score after each world step, 0 to 100, or below 0 after a fatal mistake. `graded`: the world
    reports a score. `plan` is the latest plan, `first_plan` the one before the first turn.
    """

    def __init__(self, number: int, start: float = 0.0) -> None:
        self.number, self.start = number, start
        self.scores: list[float] = []
        self.graded = False
        self.groups: list[SubtaskGroup] = []
        self.trial: Trial | None = None
        self.lesson: Lesson | None = None
        self.plan: tuple[str, ...] = ()
        self.first_plan: tuple[str, ...] = ()
        self.planning: Sequence[int] = ()
        """Lines of `prompts.jsonl` with the model calls that made the first plan."""
        self.prompts: list[int] = []
        """Those that no turn has: after the last turn, or before one that was never taken."""
        self.branches: list[Branch] = []
        self.searches = 0
        """Number of parallel searches that were begun; `branches` has those that ended, by number of hypothesis."""
        self.choice = ""
        self.verdict = ""
        """The gate's latest decision as text; empty if the gate only let the search continue."""
        self._belief, self._gate, self._lookahead = Belief(), Stagnation(), ProspectHistory()
        self._prospect: Prospect | None = None
        self._turn: NumberedTurn | None = None
        self._early: list[Note] = []

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

    @property
    def reached(self) -> bool:
        """Whether the episode ended with the goal, so that a subtask which was open then was not given up."""
        return self.trial is not None and self.trial.ending == GOAL

    def count(self, status: str) -> int:
        """Count the subtasks with a status: `open`, `completed` (or reported as completed) or `failed`."""
        statuses = ("completed", "reported") if status == "completed" else (status,)
        return sum(group.subtask is not None and group.subtask.status in statuses for group in self.groups)

    def entries(self) -> Iterator[NumberedTurn | RefusedAction]:
        """Return the turns and refused actions of all subtasks, in order."""
        return (entry for group in self.groups for entry in group.entries)

    def fold(self, event: Event, action: str) -> None:
        """Update with one event; `action` is the latest action."""
        update: dict[str, Any] = {**(event.update or {})}
        reviewed = None if REVIEW_KEYS.isdisjoint(update) else self.latest
        (reviewed or self).prompts.extend(event.prompts)
        if "subtask" in update:
            subtask = StepSubtask.model_validate(update["subtask"])
            if "subtasks" in update:  # an update of `assess`: the same subtask with its new status
                self._group().subtask = subtask
            else:
                self.groups.append(SubtaskGroup(subtask, self._take_prompts()))
        approval = update.get("approval", {})
        if not approval.get("approved", True):
            self._group().entries.append(RefusedAction(action, approval.get("reason", ""), self._take_prompts()))
        if update.get("history") and "history" not in event.replaced:
            self._act(update)
        for trial in update.get("trials", ()):
            self.trial = Trial.model_validate(trial)
        lessons = update.get("lessons")
        if lessons and lessons[-1]["trial"] == self.number and self.trial:
            self.lesson = Lesson.model_validate(lessons[-1])
        self.searches = len(update.get("hypotheses", ())) or self.searches
        self.branches += map(Branch.model_validate, update.get("branches", ()))
        self.branches.sort(key=lambda branch: branch.number)
        if AGREED in (args := (update.get("action") or {}).get("args", {})):
            self.choice = f"answer as worded by {args[AGREED]} searches: {args.get('answer', '')}"
        self._prospect = self._lookahead.fold(event) or self._prospect
        notes = self._early if self._turn is None else self._turn.notes
        notes += [Note(f"memory: {turn['action']}") for turn in update.get("memory_turns", ())]
        found = [*self._search_notes(update), *self._plan_notes(update)]
        notes += found if self._turn else []  # before the first turn there is nothing that they could be about

    def _group(self) -> SubtaskGroup:
        if not self.groups:
            self.groups.append(SubtaskGroup())
        return self.groups[-1]

    def _take_prompts(self) -> list[int]:
        taken, self.prompts = self.prompts, []
        return taken

    def _act(self, update: Mapping[str, Any]) -> None:
        observation, before = update.get("observation", {}), self.reported
        score = reported_score(observation)
        self.graded |= score is not None
        self.scores.append(before + 100 * observation.get("reward", 0.0) if score is None else score)
        for record in update.get("turns", ()):
            turn, points = Turn.model_validate(record), self.reported - before
            notes, self._early = self._early, []
            self._turn = NumberedTurn(len(self.scores), turn, points, self._take_prompts(), self._prospect, notes)
            self._prospect = None
            self._group().entries.append(self._turn)

    def _search_notes(self, update: Mapping[str, Any]) -> Iterator[Note]:
        """Yield the changes of the belief (+ new, ? a new question, ✓ an answered one), and the gate's decision."""
        if update.get("rounds") and self._turn:
            signals = SearchRound.model_validate(update["rounds"][-1])
            self._turn.signals = f"{signals.jaccard:.0%} alike, {signals.upr:.0%} new"
        if "belief" in update:
            before, self._belief = self._belief, Belief.model_validate(update["belief"])
            yield from map(Note, belief_changes(before, self._belief))
        if "stagnation" in update:
            gate, self._gate = self._gate, Stagnation.model_validate(update["stagnation"])
            self.verdict = describe_gate(gate, self._gate)
            yield from [Note(self.verdict, warns=True)] if self.verdict else ()

    def _plan_notes(self, update: Mapping[str, Any]) -> Iterator[Note]:
        """Yield the Supervisor's judgement and guidance (TDP), and the plan if it is new."""
        if update.get("progress"):
            progress = Progress.model_validate(update["progress"])
            warns = progress.off_plan or progress.status == "failed"
            label = (
                "off plan"
                if progress.off_plan
                else {"completed": "✓ completed", "failed": "failed"}.get(progress.status)
            )
            judgement = ": ".join(filter(None, (label, progress.reason)))
            yield from [Note(judgement, warns)] if judgement else ()
            yield from [Note(f"next: {progress.guidance}")] if progress.guidance else ()
        if update.get("outline"):
            before, self.plan = self.plan, tuple(update["outline"])
            if not before or not self.latest:
                self.first_plan = self.plan
            elif self.plan != before:
                yield Note(f"⟲ plan made anew: {format_plan(self.plan)}")
            if not self.latest:
                self.planning = self._take_prompts()


def belief_changes(before: Belief, after: Belief) -> Iterator[str]:
    """Yield what changed from one belief to the next; all items of a belief that was reorganised."""
    if after.reorganised > before.reorganised:
        yield f"curated to {after.items} items"
        yield from belief_changes(Belief(reorganised=after.reorganised), after)
        return
    known = {fact.text for fact in before.facts}
    for fact in after.facts:
        if fact.text not in known:
            yield f"+ {fact.text}" + (f" ({fact.source})" if fact.source else "")
    yield from (f"+ {text}" for text in after.notes if text not in before.notes)
    yield from (f"? {text}" for text in after.questions if text not in before.questions)
    yield from (f"✓ {text}" for text in before.questions if text not in after.questions)


def describe_gate(before: Stagnation, now: Stagnation) -> str:
    """Describe a gate's decision; empty if the gate only let the search continue."""
    if now.stop:
        return f"gate: stop; {now.reason}"
    if now.at is not None and before.at is None:
        return f"gate would stop here with {now.answer or 'no answer'}; {now.reason}"
    if now.advice and now.advice != before.advice:
        return f"gate: {now.advice}"
    return f"gate: stagnant, {now.streak} in a row" if now.streak and now.at is None else ""


def format_plan(plan: tuple[str, ...]) -> str:
    """Format the steps of a plan on one line."""
    return " · ".join(f"{number} {step}" for number, step in enumerate(plan, 1))


def reported_score(observation: Mapping[str, Any]) -> float | None:
    """Return the score that the world reports with an observation; None if it reports none."""
    score = observation.get("data", {}).get("score")
    return float(score) if isinstance(score, int | float) else None


class EpisodeHistory:
    """All episodes of one graph, computed from its events as they arrive.

    `acting`: the graph acts without predicates. `learning`: it runs several episodes and learns between them.
    `unscored`: nobody knows the right answer, so that no score counts. `action` is the latest action.
    """

    def __init__(self, graph: str = "", *, unscored: bool = False) -> None:
        channels = channels_of(graph)
        self.acting, self.learning = not channels.keys().isdisjoint({"turns", "branches"}), "trials" in channels
        self.unscored = unscored
        self.all: list[EpisodeSummary] = []
        self.action = ""

    @property
    def steps(self) -> int:
        """Number of world steps of all episodes."""
        return sum(len(episode.scores) for episode in self.all)

    @property
    def now(self) -> EpisodeSummary:
        """The latest episode; an empty one before the first."""
        return self.all[-1] if self.all else EpisodeSummary(1)

    @property
    def graded(self) -> bool:
        """Whether the world reports a score."""
        return any(episode.graded for episode in self.all)

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
        """Update the episodes with one event of the graph."""
        update: dict[str, Any] = {**(event.update or {})}
        self.acting |= "turns" in update
        self.learning |= "trials" in update
        self.action = update.get("action", {}).get("text", self.action)
        if "history" in event.replaced:
            start = reported_score(update.get("observation", {})) or 0.0
            self.all.append(EpisodeSummary(update.get("trial", len(self.all) + 1), start))
        elif not self.all and any(update.get(key) for key in ("history", "subtask", "approval", "trials")):
            self.all.append(EpisodeSummary(1))
        if self.all:
            self.now.fold(event, self.action)


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
        if "rewards" in update and event.node == "reset":
            self.steps = [RecordedStep.model_validate(step) for step in update.get("steps", ())]
            self.rated = []
        elif "rewards" in update and len(self.rated) < len(self.steps):
            step, reward = self.steps[len(self.rated)], update["rewards"][0]["reward"]
            self.rated.append(RatedStep(step, reward, self._state, self._goal, tuple(self._prompts)))
            self._prompts = []
        if self.steps:  # else `goal` is another graph's key
            self._state = FactoredState.model_validate(update.get("factored", self._state))
            self._goal = FactoredState.model_validate(update.get("goal", self._goal))

    @property
    def recordings(self) -> list[list[RatedStep]]:
        """The rated steps, grouped by recorded trajectory."""
        return [[*group] for _, group in groupby(self.rated, key=lambda rated: rated.step.recording)]


# TDP's task graph.

MAX_NAME_CHARACTERS = 60
"""Maximum number of characters of a sub-task's name."""

SUBTASK_GRAPH = "subtask"
"""Name of the graph that works on a sub-task, unless the operator `solve` names another one."""

NodeStatus = Literal["pending", "working", "completed", "failed", "removed"]
"""Status of a sub-task; "removed": a revision has taken it out of the task graph."""


class NodeProgress:
    """A sub-task of the task graph with its progress, taken from the events of the graph that works on it.

    Args:
        node: the sub-task as it was first specified.
        added: number of the revision that added it; 0 if the first task graph had it.
        solver: name of the graph that works on it.
    """

    def __init__(self, node: Node, added: int = 0, solver: str = SUBTASK_GRAPH) -> None:
        self.node, self.added = node, added
        self.status: NodeStatus = node.status
        self.earlier: list[tuple[int, Node]] = []
        """Earlier versions of the sub-task, each with the number of the revision that changed it."""
        self.removed = 0
        self.outcome: Outcome | None = None
        self.spans: list[tuple[float, float]] = []
        """Start and end of each execution of a graph node for the sub-task, in seconds since the start of the run."""
        self.inside = GraphHistory(solver, solver=solver)
        """What the graph did that works on the sub-task."""
        self.calls = self.tokens = self.steps = self.replans = self.gave_up = 0
        self.seconds = 0.0

    @property
    def name(self) -> str:
        """The id of the sub-task, shortened to a label."""
        return clip_text(self.node.id, MAX_NAME_CHARACTERS)

    @property
    def changed(self) -> str:
        """How revisions changed the sub-task, in one or two words; empty if none did."""
        if self.removed:
            return f"{self.outcome.status}, removed" if self.outcome else "removed"
        return "revised" if self.earlier else "added" if self.added else ""

    def set_node(self, node: Node) -> None:
        """Update with the sub-task as the task graph has it now."""
        self.node, self.status, self.removed = node, node.status, 0
        if node.status == "pending":  # it is done again
            self.outcome, self.inside.ending = None, ""

    def set_outcome(self, outcome: Outcome) -> None:
        """Update with the outcome of the sub-task."""
        self.outcome, self.status, self.inside.ending = outcome, outcome.status, outcome.ending

    def add_usage(self, usage: Usage) -> None:
        """Add the usage of an event of the graph that works on the sub-task."""
        self.calls += usage.calls
        self.tokens += usage.input_tokens + usage.output_tokens
        self.seconds += usage.seconds

    def fold(self, event: Event, scope: str, ended: float) -> None:
        """Update with an event of the graph that works on the sub-task.

        Args:
            event: the event.
            scope: namespace of the graph inside that graph to which the event belongs; empty for that graph itself.
            ended: time of the event, in seconds since the start of the run.
        """
        self.add_usage(event.usage)
        self.spans.append((max(ended - event.usage.seconds, 0.0), ended))
        if self.status == "pending":
            self.status = "working"
        self.steps += count_steps(event)
        self.inside.fold(event, scope)
        # Plans of solvers without predicates (`outline`) count here too, which `plan.replans` leaves out.
        if event.node == "replan" and event.update is not None and not scope:
            replanned = bool(event.update.keys() - {"gave_up"})
            self.replans += replanned
            self.gave_up += not replanned


class RevisionSummary(NamedTuple):
    """Ids of the sub-tasks that a revision of the task graph added, changed and removed.

    `notes` say what was refused or repaired.
    """

    number: int
    added: tuple[str, ...]
    changed: tuple[str, ...]
    removed: tuple[str, ...]
    notes: tuple[str, ...]

    @property
    def line(self) -> str:
        """The revision on one line; empty if it changed nothing."""
        changes = {"added": self.added, "changed": self.changed, "removed": self.removed}
        return "; ".join([*(f"{change} {', '.join(ids)}" for change, ids in changes.items() if ids), *self.notes])


class TaskGraph:
    """TDP's task graph with the progress of its sub-tasks, computed from the events of a run.

    `nodes` are all sub-tasks by id, including removed ones. `drawn` is True if the run has a task graph.
    """

    def __init__(self, graph: str = "", solver: str = SUBTASK_GRAPH) -> None:
        self.drawn, self._solver = "dag" in channels_of(graph), solver
        self._begin()

    def _begin(self) -> None:
        self.nodes: dict[str, NodeProgress] = {}
        self.revisions: list[RevisionSummary] = []
        self.supervisor_spans: list[tuple[float, float]] = []
        """Start and end of every execution of `decompose` or `revise`, in seconds since the start of the run."""
        self.resume_times: list[float] = []
        self.prompts: list[int] = []
        """Lines of the run's `prompts.jsonl` with the model calls that made and revised the task graph."""
        self._scopes: dict[str, str] = {}
        self._latest = self._before = 0.0

    def fold(self, event: Event, scope: str = "") -> None:
        """Update with one event of the graph, or of a graph that works on a sub-task, whose namespace is `scope`."""
        if event.t < self._latest:  # times of a resumed run count from 0 again; the time in between is left out
            self._before += self._latest
            self.resume_times.append(self._before)
        self._latest, ended = event.t, self._before + event.t
        if scope:
            if worked := self._node_of(event, scope):
                worked.fold(event, scope.partition("|")[2], ended)
            return
        update: dict[str, Any] = {**(event.update or {})}
        if "outcomes" in event.replaced:
            self._begin()
        self.prompts += event.prompts
        self.drawn |= "dag" in update
        if statuses := (update.get("dag") or {}).get("statuses"):
            for worked in [self.nodes[id_] for id_ in statuses if id_ in self.nodes]:
                worked.set_node(worked.node.model_copy(update={"status": statuses[worked.node.id]}))
        elif update.get("dag") or (self.nodes and update.get("notes")):
            self._draw(update)
        for outcome in map(Outcome.model_validate, update.get("outcomes", ())):
            if outcome.node in self.nodes:
                self.nodes[outcome.node].set_outcome(outcome)
        if event.node in ("decompose", "revise"):
            self.supervisor_spans.append((max(ended - event.usage.seconds, 0.0), ended))

    def add_usage(self, event: Event) -> None:
        """Add the usage of a superseded event, whose work was done again after a resume."""
        if event.scope and (worked := self._node_of(event, event.scope)):
            worked.add_usage(event.usage)

    @property
    def goal(self) -> str:
        """Id of the sub-task that completes the whole task; empty if there are no sub-tasks.

        It is the one that no other sub-task needs.
        """
        live = [worked.node for worked in self.nodes.values() if not worked.removed]
        for nodes in ([node for node in live if node.status == "pending"], live):
            needed = {need for node in nodes for need in node.needs}
            if ends := [node.id for node in nodes if node.id not in needed]:
                return ends[-1]
        return ""

    def count(self, status: str) -> int:
        """Count the sub-tasks with a status."""
        return sum(worked.status == status for worked in self.nodes.values())

    @property
    def live(self) -> int:
        """Number of sub-tasks that were not removed."""
        return len(self.nodes) - self.count("removed")

    @property
    def steps(self) -> int:
        """Number of world steps of all sub-tasks."""
        return sum(worked.steps for worked in self.nodes.values())

    @property
    def started(self) -> list[NodeProgress]:
        """The sub-tasks that were worked on, in the order in which they were started."""
        return sorted((worked for worked in self.nodes.values() if worked.spans), key=lambda worked: worked.spans[0])

    def levels(self) -> list[list[NodeProgress]]:
        """Group the sub-tasks by level: the length of the longest path of dependencies that leads to them.

        Inside a level they are in the order in which the task graph lists them.
        """
        needs = {id_: [n for n in worked.node.needs if n in self.nodes] for id_, worked in self.nodes.items()}
        level: dict[str, int] = {}
        for id_ in TopologicalSorter(needs).static_order():
            level[id_] = 1 + max((level[need] for need in needs[id_]), default=-1)
        levels: list[list[NodeProgress]] = [[] for _ in range(max(level.values(), default=-1) + 1)]
        for id_, worked in self.nodes.items():
            levels[level[id_]].append(worked)
        return levels

    def _node_of(self, event: Event, scope: str) -> NodeProgress | None:
        # An event of a graph that is nested deeper belongs to the node of this graph around it.
        outermost, *deeper = scope.split("|")
        if not deeper:
            self._scopes[outermost] = event.subtask
        return self.nodes.get(self._scopes.get(outermost, ""))

    def _draw(self, update: dict[str, Any]) -> None:
        before = {id_: worked.node for id_, worked in self.nodes.items() if not worked.removed}
        drawn = update.get("dag")  # a revision that changed nothing stores its notes only
        nodes = [Node.model_validate(node) for node in drawn.get("nodes", ())] if drawn else [*before.values()]
        number, remaining, added, changed = update.get("revisions", 0), {node.id for node in nodes}, [], []
        for node in nodes:
            if node.id not in before:
                added.append(node.id)
            elif (node.task, node.needs) != (before[node.id].task, before[node.id].needs):
                changed.append(node.id)
            worked = self.nodes.setdefault(node.id, NodeProgress(node, number, self._solver))
            if (node.task, node.needs) != (worked.node.task, worked.node.needs):
                worked.earlier.append((number, worked.node))
            worked.set_node(node)
        removed = [id_ for id_ in before if id_ not in remaining]
        for id_ in removed:
            self.nodes[id_].status, self.nodes[id_].removed = "removed", number
        revision = RevisionSummary(number, tuple(added), tuple(changed), tuple(removed), tuple(update.get("notes", ())))
        if number and revision.line:
            self.revisions.append(revision)


# How the world ended a run.

LOST = "lost"
"""Beginning of what is reported of a run whose last action cost points."""


def describe_loss(observation: PlainRecord, action: PlainRecord, header: Header | None, footer: Footer | None) -> str:
    """Say what the world reports of a run that it ended without the goal; empty for any other run.

    It is empty too where the run ended with an answer: only the score decides whether that is right.

    Args:
        observation: the last answer of the world.
        action: the action that it answers.
        header: the run's header.
        footer: the run's footer; None while there is none.
    """
    scores = verdict_scores_of(header, footer)
    if footer is None or scores is None or is_solved(scores) or footer.ending == GOAL:
        return ""
    if not observation.get("done") or observation.get("solved") or action.get("kind") in ANSWER_ACTIONS:
        return ""
    score, points = reported_score(observation), 100 * observation.get("reward", 0.0)
    if points < 0:
        return f"{LOST}: the world ended at {score:g}" if score is not None else f"{LOST}: the world took {-points:.3g}"
    if footer.ending != WORLD_ENDED or scores.answer is not None:
        return ""
    why = observation.get("data", {}).get("ended")
    return f"the world ended without the goal: {why}" if isinstance(why, str) else "the world ended without the goal"


def last_answer(event: Event, observation: PlainRecord, action: PlainRecord) -> tuple[PlainRecord, PlainRecord]:
    """Return the last answer of the world after an event, and the action that it answers, given those before it."""
    update: PlainRecord = event.update or {}
    for step in update.get("history", ())[-1:]:
        action = step.get("action", {})
    return update.get("observation", observation), action


def loss_of(trajectory: Trajectory) -> str:
    """Say what the world reports of a run that it ended without the goal, as `describe_loss` does."""
    observation: PlainRecord = {}
    action: PlainRecord = {}
    for event in trajectory.events:
        if not event.scope:
            observation, action = last_answer(event, observation, action)
    return describe_loss(observation, action, trajectory.header, trajectory.footer)


# A graph, and a run.


class GraphHistory:
    """What one graph has done so far: the outermost graph of a run, or the graph that works on a sub-task.

    `ending` is empty while there is none. `solved`: it ended with the full score of a benchmark. `denied`: it ended
    `goal` although its score says that the task is not solved.
    """

    def __init__(self, graph: str = "", *, unscored: bool = False, solver: str = SUBTASK_GRAPH) -> None:
        self.begin(graph, unscored=unscored, solver=solver)

    def begin(self, graph: str, *, unscored: bool = False, solver: str = SUBTASK_GRAPH) -> None:
        """Start with an empty history of a graph; `solver` is the graph that works on its sub-tasks, if it has any."""
        self.plan, self.episodes = PlanHistory(), EpisodeHistory(graph, unscored=unscored)
        self.tasks, self.rating = TaskGraph(graph, solver), RatingHistory()
        self.ending, self.solved, self.denied = "", False, False

    def fold(self, event: Event, scope: str) -> None:
        """Update with one event; `scope` is the namespace of the graph inside this graph to which it belongs."""
        self.tasks.fold(event, scope)
        if not scope:  # plan and certificates of a graph inside a node are not those of this graph
            self.plan.fold(event)
            self.episodes.fold(event)
            self.rating.fold(event)

    @property
    def rows(self) -> list[PredicateRow]:
        """One row for every predicate of the plan."""
        return self.plan.rows(self.ending, solved=self.solved)


USAGE_FIELDS = ("calls", "input_tokens", "output_tokens", "cached_tokens", "usd", "seconds")
"""Fields of a usage that are added up."""


class RoleCost(NamedTuple):
    """Cost of the model calls of one role: their number, and input and output tokens together."""

    calls: int = 0
    tokens: int = 0


UNCHECKING_OPERATOR = "always_pass"
"""Name of the operator that accepts each condition without a look at the world."""


class RunHistory(GraphHistory):
    """History of a run so far, computed from trajectory lines as they arrive.

    A line takes a few microseconds. `cost` is what was spent of the money that the task allows, if the world reports
    it.
    """

    def __init__(self) -> None:
        super().__init__()
        self.header: Header | None = None
        self.footer: Footer | None = None
        self.questions: list[Question] = []
        """The questions for whose answers the run waits."""
        self.answered: list[AnsweredQuestion] = []
        """The questions that were answered, in order."""
        self.spent = dict.fromkeys(USAGE_FIELDS, 0.0)
        self.cut_prompts: list[CutPrompt] = []
        """Model calls whose prompts were cut to the model's context window."""
        self.cost: float | None = None
        self.roles: dict[str, RoleCost] = {}
        """Cost of the model calls by role, in the order in which the roles first occur."""
        self.resumed_at = 0
        """Number of world steps after which the run was resumed the last time."""
        self._lines: list[TrajectoryLine] = []
        self._begin_counts()

    def take(self, line: TrajectoryLine) -> None:
        """Update with one trajectory line.

        A resume takes back everything that was done after its checkpoint, except the cost.
        """
        self._lines.append(line)
        if isinstance(line, Header):
            self._begin(line)
        elif isinstance(line, Question):
            self.questions.append(line)
        elif isinstance(line, Footer):
            self.questions = []
            self._end(line)
            # a view that starts with a resume was not sent the events that were superseded before
            self._raise_spent(line.usage)
        elif isinstance(line, Resumed):
            self.take_trajectory(assemble_trajectory(self._lines))
            self._end(None)
        elif isinstance(line, Event):
            for name in USAGE_FIELDS:
                self.spent[name] += getattr(line.usage, name)
            self.spent["seconds"] = round(self.spent["seconds"], 6)  # as `Spent` adds them
            self.cut_prompts += find_cut_prompts([line])
            self._fold(line)

    def take_trajectory(self, trajectory: Trajectory) -> None:
        """Replace the history by that of a complete trajectory.

        Superseded events, whose work was done again after a resume, count only as cost.
        """
        self._begin(trajectory.header)
        self._end(trajectory.footer)
        self.questions, self.answered = [*trajectory.questions], trajectory.answered
        self.cut_prompts = trajectory.cut_prompts
        for number, event in enumerate(trajectory.events, 1):
            self._fold(event)
            if number == trajectory.resumed_after:
                self.resumed_at = self.steps
        for event in trajectory.superseded:
            self.tasks.add_usage(event)
            self._count_roles(event)
        # only the assembled trajectory counts calls that a killed process left without an event
        self._raise_spent(trajectory.usage)

    @property
    def scores(self) -> Scores | None:
        """The scores that decide whether the run was successful; None without any, or if nobody knows the answer."""
        return verdict_scores_of(self.header, self.footer)

    @property
    def certified(self) -> str:
        """The label of predicates with a certificate."""
        return UNCHECKED_LABEL if self.unchecked else CERTIFIED_LABEL

    @property
    def unchecked(self) -> bool:
        """Whether the validator accepts whatever the world shows, so that certificates certify nothing."""
        return self.header is not None and _names_unchecking(self.header.all_operators)

    @property
    def steps(self) -> int:
        """Number of world steps, including those of earlier episodes and of all sub-tasks."""
        return self.tasks.steps if self.tasks.drawn else self.episodes.steps

    @property
    def empty(self) -> EmptyCalls:
        """The model calls that brought no information."""
        return self._counter.empty

    @property
    def loss(self) -> str:
        """What the world reports of a run that it ended without the goal; empty for any other run."""
        return describe_loss(self._observation, self._action, self.header, self.footer)

    @property
    def tokens(self) -> int:
        """Number of input and output tokens."""
        return int(self.spent["input_tokens"] + self.spent["output_tokens"])

    def limit(self, name: str) -> int | None:
        """Return one of the run's limits by name, as the trajectory's header has it; None if it has none."""
        limits = self.header.context.get("limits") if self.header else None
        recorded = limits.get(name) if isinstance(limits, dict) else None
        return recorded if isinstance(recorded, int) else None

    def _begin(self, header: Header) -> None:
        operator = header.all_operators.get("solve")
        arguments = operator.get("args") if isinstance(operator, dict) else None
        solver = arguments.get("graph", SUBTASK_GRAPH) if isinstance(arguments, dict) else SUBTASK_GRAPH
        self.begin(header.graph, unscored=is_unscored(header), solver=str(solver))
        self.header, self.cost, self.resumed_at = header, None, 0
        self._begin_counts()

    def _begin_counts(self) -> None:
        self._counter, self.roles = EmptyCallCounter(), {}
        self._observation: Mapping[str, Any] = {}
        self._action: Mapping[str, Any] = {}

    def _end(self, footer: Footer | None) -> None:
        self.footer, self.ending = footer, footer.ending if footer else ""
        solved = is_solved(self.scores)
        self.solved, self.denied = bool(solved), is_goal_denied(self.ending, solved)

    def _fold(self, event: Event) -> None:
        self.fold(event, event.scope)
        self._counter.fold(event)
        self._count_roles(event)
        if not event.scope:
            update: Mapping[str, Any] = event.update or {}
            self._observation, self._action = last_answer(event, self._observation, self._action)
            self.cost = update.get("observation", {}).get("data", {}).get("cost", self.cost)

    def _count_roles(self, event: Event) -> None:
        for call in event.calls:
            role = str(call.get("role") or event.node)
            before, tokens = self.roles.get(role, RoleCost()), (call.get("input_tokens"), call.get("output_tokens"))
            added = sum(amount for amount in tokens if isinstance(amount, int))
            self.roles[role] = RoleCost(before.calls + 1, before.tokens + added)

    def _raise_spent(self, usage: Usage) -> None:
        self.spent = {name: max(spent, getattr(usage, name)) for name, spent in self.spent.items()}


def _names_unchecking(described: JsonValue) -> bool:
    """Whether the operator that accepts everything is among those that a header describes, or in their arguments."""
    if not isinstance(described, dict):
        return False
    return described.get("name") == UNCHECKING_OPERATOR or any(map(_names_unchecking, described.values()))


def read_history(trajectory: Trajectory) -> RunHistory:
    """Build the `RunHistory` of a complete trajectory."""
    history = RunHistory()
    history.take_trajectory(trajectory)
    return history

"""Figures of a comparison and of ablations."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from statistics import mean
from typing import Any, NamedTuple

from certigraph.evaluation.comparison import Method, Outline, Plan, method_of, methods_from
from certigraph.evaluation.measures import GoalPrecision, Outcome, fault_warnings, goal_precision
from certigraph.evaluation.statistics import (
    LEAST,
    changed,
    holm,
    interval,
    mean_difference,
    mean_of,
    paired,
    pass_hat_k,
    told_apart,
)
from certigraph.nodes.slots import Spec
from certigraph.runtime.history import CHECKS, EXTENDED, Row, RunCost, by_task, cost_of
from certigraph.runtime.html import counted
from certigraph.state.records import METHODS_OWN, Record, UnknownName
from certigraph.state.trajectory import Trajectory

# What methods need a run, and by how much that differs from what the first one needs, paired over tasks.

AMOUNTS = {
    "output_tokens": "output tokens",
    "prompt_tokens": "prompt tokens",
    "calls": "calls",
    "steps": "world steps",
}
"""What is counted of a run: fields of Row, and what tables call them."""


ByTask = Mapping[str, Sequence[float]]
"""Task -> what its trials needed."""


class Need(Record):
    """How much of one amount a method needs a run, over n tasks, and how that differs from the first method's.

    `difference` is in the amount's unit, trials of a task averaged first; `percent` is the change of the sums, -50
    where the method needs half. Bounds are of 95 % intervals, both a bootstrap's over tasks. None of them for the
    first method itself, and where there is nothing to tell them by.
    """

    method: str
    against: str
    amount: str
    n: int
    mean: float
    difference: float | None = None
    low: float | None = None
    high: float | None = None
    percent: float | None = None
    percent_low: float | None = None
    percent_high: float | None = None


def needs_of(rows: Mapping[str, Sequence[Row]]) -> tuple[Need, ...]:
    """Every amount of every method, given the rows by method, the first one the reference; none of no rows."""
    return tuple(need for amount in AMOUNTS if any(rows.values()) for need in _needs(rows, amount))


def _needs(rows: Mapping[str, Sequence[Row]], amount: str) -> Iterator[Need]:
    found = {name: by_task(mine, amount) for name, mine in rows.items()}
    first = next(iter(found))
    for name, mine in found.items():
        alone = name == first or not mine or not found[first]
        need = Need(method=name, against=first, amount=amount, n=len(mine), mean=mean_difference(_means(mine)))
        yield need if alone else need.model_copy(update=_beside(found[first], mine))


def _beside(first: ByTask, other: ByTask) -> dict[str, float | None]:
    apart = [after - before for before, after in zip(_means(first), _means(other), strict=True)]
    low, high = interval(apart) or (None, None)
    found = changed(first, other)
    bounds = {"percent": found.percent, "percent_low": found.low, "percent_high": found.high}
    return {"difference": mean_difference(apart), "low": low, "high": high, **bounds}


def _means(found: ByTask) -> list[float]:
    return [mean(found[task]) for task in sorted(found)]


# Rows -> the figures of each method and how its scores and costs differ from the first one's, paired.

Scores = Mapping[str, Sequence[float]]
"""Task -> the scores of its trials, 0 to 100."""


class Summary(RunCost):
    """A method over n tasks, `runs` runs: scores 0 to 100; calls, tokens, steps and seconds in all.

    `low` and `high` bound the 95 % interval of the mean score, trials of one task taken together. `pass_all` is the
    probability in percent that all trials of a task succeed (pass^k, k the number of trials); None with one trial.
    `faults` of `begun` runs are in no other figure: the world or its data failed.
    """

    method: str
    n: int
    runs: int
    score: float
    stderr: float
    low: float | None
    high: float | None
    successes: int
    faults: int = 0
    begun: int = 0
    pass_all: float | None = None
    goals: GoalPrecision = GoalPrecision()
    """How many of the runs that ended `goal` the scorer confirms."""
    endings: dict[str, int]


class Difference(Record):
    """A method's score minus the first method's on the same n tasks, trials of a task averaged first.

    `low` and `high` bound the 95 % interval; `p_adjusted` is Holm's, over all differences of the comparison;
    `detectable` is the least difference that n tasks of this spread would show in four of five repetitions.
    `faults` counts the tasks that are left out because a run of either method met a fault.
    """

    method: str
    against: str
    n: int
    mean: float
    low: float | None
    high: float | None
    p: float | None
    p_adjusted: float | None = None
    detectable: float | None
    faults: int = 0

    @property
    def told_apart(self) -> bool:
        """Whether it is more than noise, by its interval and its p."""
        found = None if self.low is None or self.high is None else (self.low, self.high)
        return told_apart(found, self.n, self.p if self.p_adjusted is None else self.p_adjusted)

    @property
    def equal(self) -> bool:
        """Whether the scores are the same on every task, of two at least."""
        return self.low == self.high == self.mean == 0

    @property
    def words(self) -> str:
        """What may be said of it, and how many pairs a fault took."""
        return self._words + (f"; {counted(self.faults, 'pair')} left out for faults" if self.faults else "")

    @property
    def _words(self) -> str:
        if not self.n:
            return "no task that both finished"
        if self.equal:
            return f"equal on every task at n={self.n}"
        if self.n < LEAST:
            return f"too few tasks to tell: n={self.n}, it takes {LEAST}"
        if not self.told_apart:
            return f"cannot be told from noise at n={self.n}"
        return f"{'above' if self.mean > 0 else 'below'} {self.against} at n={self.n}"


class Comparison(Record):
    """The table of a comparison, over the tasks that every method has finished without a fault."""

    benchmark: str
    model: str
    n: int
    planned: int
    trials: int
    methods: tuple[Summary, ...]
    differences: tuple[Difference, ...]
    needs: tuple[Need, ...] = ()
    rows: tuple[Row, ...]
    """Every run with an ending, those of tasks that some method has not finished included."""
    faults: int = 0
    """Tasks that are left out because a run met a fault of the world or its data."""
    warnings: tuple[str, ...] = ()
    """What must be known of the figures, a sentence each."""

    @property
    def left(self) -> int:
        """Runs that the next call carries out: those without an ending, and those that an error ended."""
        done = sum(not row.ending.startswith("error:") for row in self.rows)
        return self.planned * self.trials * len(self.methods) - done


def comparison_of(outline: Outline, rows: Sequence[Row]) -> Comparison:
    """The comparison as far as it has come: tasks that a method lacks are left out for all, so n is one number."""
    by_method = shared_rows(outline, rows)
    shared = {row.task for mine in by_method.values() for row in mine}
    differences = _differences({name: scores_of(mine) for name, mine in by_method.items()})
    methods = tuple(_summary(name, mine, rows, outline.trials) for name, mine in by_method.items())
    faults = fault_warnings(_endings(outline, rows), "give the same command once more")
    return Comparison(
        benchmark=outline.benchmark,
        model=outline.model,
        n=len(shared),
        planned=len(outline.tasks),
        trials=outline.trials,
        methods=methods,
        differences=tuple(with_faults(difference, rows) for difference in differences),
        needs=needs_of(by_method),
        rows=tuple(rows),
        faults=len({row.task for row in rows if row.fault} - shared),
        warnings=(*faults, *limit_warnings(methods)),
    )


def limit_warnings(summaries: Sequence[Summary]) -> Iterator[str]:
    """A line for each limit of a method's own that ended runs of it: such runs say little about the method."""
    options = {**dict(zip(METHODS_OWN, METHODS_OWN, strict=True)), "subtasks": "subtasks=N or failures"}
    for summary in summaries:
        for kind, option in options.items():
            if count := summary.endings.get(f"limit:{kind}", 0):
                ended = f"{count} of {counted(summary.runs, 'run')} ended at limit:{kind}"
                yield f"{summary.method}: {ended}; raise it with --budget {option}=N"


def shared_rows(outline: Outline, rows: Sequence[Row]) -> dict[str, list[Row]]:
    """Each method's runs of the tasks that `shared_tasks` names, faults left out."""
    shared = set(shared_tasks(outline, rows))
    counted = [row for row in rows if row.task in shared and not row.fault]
    return {method: [row for row in counted if row.method == method] for method in outline.methods}


def shared_tasks(outline: Outline, rows: Sequence[Row]) -> list[str]:
    """The tasks of which every method has finished every trial without a fault, in order.

    Methods without any such run are left out.
    """
    counted = [row for row in rows if not row.fault]
    done, begun = Counter(row.task for row in counted), {row.method for row in counted}
    return [task for task in outline.tasks if done[task] == len(begun) * outline.trials > 0]


def scores_of(rows: Sequence[Row]) -> Scores:
    """The scores of each task's trials."""
    return by_task(rows, "score")


def difference_of(method: str, against: str, other: Scores, first: Scores) -> Difference:
    """How far one lies above another, over the tasks of both."""
    found = paired(first, other)
    return Difference(method=method, against=against, **found._asdict())


def _endings(outline: Outline, rows: Sequence[Row]) -> dict[str, list[str]]:
    return {method: [row.ending for row in rows if row.method == method] for method in outline.methods}


def with_faults(difference: Difference, rows: Sequence[Row]) -> Difference:
    """The same with the number of tasks that are left out because a run of either method met a fault."""
    pair = (difference.method, difference.against)
    left_out = {row.task for row in rows if row.fault and row.method in pair}
    return difference.model_copy(update={"faults": len(left_out)})


def _summary(method: str, rows: Sequence[Row], begun: Sequence[Row], trials: int) -> Summary:
    told = mean_of([row.score for row in rows], [row.task for row in rows], top=100)
    solved = {task: list(map(bool, trials)) for task, trials in by_task(rows, "solved").items()}
    return Summary(
        method=method,
        n=len(solved),
        runs=len(rows),
        score=told.mean,
        stderr=told.stderr,
        low=told.low,
        high=told.high,
        successes=sum(row.solved for row in rows),
        faults=sum(row.fault for row in begun if row.method == method),
        begun=sum(row.method == method for row in begun),
        pass_all=100 * pass_hat_k(solved, trials).mean if trials > 1 and rows else None,
        goals=goal_precision(Outcome(row.task, row.ending, row.verdict) for row in rows),
        endings=dict(Counter(row.ending for row in rows)),
        **cost_of(rows).model_dump(),
    )


def _differences(scores: Mapping[str, Scores]) -> tuple[Difference, ...]:
    first, *others = scores
    found = [difference_of(name, first, scores[name], scores[first]) for name in others]
    adjusted = holm([difference.p for difference in found])
    return tuple(d.model_copy(update={"p_adjusted": p}) for d, p in zip(found, adjusted, strict=True))


# The methods of an ablation: the graph as it is, and one variant for each swap.

USUAL = {"sdp": ("validate=always_pass", "replan=give_up", "validate=capped:depth=1")}
"""What is ablated where no swap is given: SDP's three mechanisms (SDP paper, section 4.3)."""


def variants(graph: str, swaps: Sequence[str]) -> tuple[Method, ...]:
    """The graph first, then a variant named after each swap; several swaps of one variant are joined by `+`.

    Raises:
        UnknownName: the graph, a slot or an operator is unknown, a swap is given twice, or there is none to make.
    """
    full = methods_from([graph])
    swaps = swaps or USUAL.get(graph, ())
    if not swaps:
        raise UnknownName(f"nothing to ablate in {graph}: say what to exchange, --swap SLOT=OPERATOR")
    if twice := sorted({swap for swap in swaps if swaps.count(swap) > 1}):
        raise UnknownName(f"--swap {twice[0]} is given twice; every variant needs a swap of its own")
    return (*full, *(method_of(swap, graph, swap.split("+")) for swap in swaps))


def exchanged(first: Method, variant: Method) -> dict[str, Spec]:
    """The operators, by slot, in which a variant differs from the first method; nothing of another graph's."""
    if first.graph != variant.graph:
        return {}
    usual = first.operators
    return {slot: Spec.model_validate(spec) for slot, spec in variant.operators.items() if spec != usual.get(slot)}


# Ablations estimated from recorded trajectories, without running anything (SDP paper, appendix C).
#
# Each rule turns the score of a recorded run into what it might have been without one mechanism. The estimate takes
# for granted that the rest of the run would have gone as it did; `report` sets it beside runs that were made anew.


class Replay(NamedTuple):
    """What a recorded run of SDP says about its mechanisms. Cursors and lengths count predicates."""

    first_tries: int
    """Certified steps whose target was met at the first attempt; a replanned target is a new one."""
    certified_steps: int
    exhausted_at: int | None
    """The cursor when all attempts at a target were used up for the first time; None where that never happened."""
    planned_then: int
    """The plan's length at that moment."""
    steps: int
    depths: tuple[int, ...]
    """Cascade depth of each certified step."""

    @property
    def action_fidelity(self) -> float:
        """Steps certified at their first attempt by certified steps; 1 where nothing was certified."""
        return self.first_tries / self.certified_steps if self.certified_steps else 1.0

    @property
    def certified_prefix(self) -> float:
        """The cursor at the first exhaustion by the plan's length; 1 without exhaustion."""
        return 1.0 if self.exhausted_at is None else self.exhausted_at / max(self.planned_then, 1)

    def capped_share(self, depth: int, most_steps: int) -> float:
        """The share of the run that fits into the step cap when no action may certify more than `depth` predicates."""
        steps = self.steps + sum(-(-k // depth) - 1 for k in self.depths)
        return min(1.0, most_steps / steps) if steps else 1.0


Factor = Callable[[Replay, int], float]
"""A recorded run and its step cap -> the factor of its score."""


class Rule(NamedTuple):
    """A rule of appendix C."""

    name: str
    factor: Factor


def rule_for(swaps: Mapping[str, Spec]) -> Rule | None:
    """The rule that estimates a variant with these swaps; None where appendix C has none."""
    if len(swaps) != 1:
        return None
    ((slot, spec),) = swaps.items()
    if (slot, spec.name) == ("validate", "always_pass"):
        return Rule("action fidelity", lambda replay, most: replay.action_fidelity)
    if (slot, spec.name) == ("replan", "give_up"):
        return Rule("certified prefix", lambda replay, most: replay.certified_prefix)
    if (slot, spec.name) == ("validate", "capped"):
        depth = int(str(spec.args.get("depth", 1)))
        return Rule("cascade cap", lambda replay, most: replay.capped_share(depth, most))
    return None


def replay_of(trajectory: Trajectory) -> Replay:
    """Read a run of SDP off its events."""
    plan = head = tried = first_tries = steps = 0
    exhausted, depths, before = None, list[int](), ""
    for event in trajectory.events:
        update: Mapping[str, Any] = event.update or {}
        # an audit, a revalidation or the end of a plan that was cut comes before any try
        if event.node == "replan" and exhausted is None and before not in CHECKS | {EXTENDED} and tried:
            exhausted = (head, plan)
        before = before if event.update is None else event.node
        # what a policy let pass was certified at no attempt
        for certificate in (c for c in update.get("certificates", []) if not c.get("forced")):
            depths.append(len(certificate["targets"]))
            first_tries += tried == 1
        plan = len(update["plan"]) if "plan" in update else plan
        head, tried = update.get("head", head), update.get("tried", tried)
        steps += len(update.get("history", []))
    at, length = exhausted or (None, 0)
    return Replay(first_tries, len(depths), at, length, steps, tuple(depths))


# Replayed ablations beside re-executed ones: by how much the estimate is off.

Replays = Mapping[tuple[str, int], Replay]
"""What the first method's runs say, by task and trial."""


class Estimate(Record):
    """A variant's score twice, 0 to 100: estimated by replaying the first method's runs, and measured by running it.

    `optimism` is estimate minus measurement, paired over tasks; above 0 the replay promises too much.
    """

    method: str
    rule: str
    full: float
    replayed: float
    measured: float
    optimism: Difference

    @property
    def words(self) -> str:
        """What may be said of the estimate."""
        if self.optimism.equal:
            return self.optimism.words
        if not self.optimism.told_apart:
            return f"no difference can be told at n={self.optimism.n}"
        kind = "optimistic" if self.optimism.mean > 0 else "pessimistic"
        return f"replay is {kind} by {abs(self.optimism.mean):.1f} points at n={self.optimism.n}"


def estimates_of(plan: Plan, rows: Sequence[Row], replays: Replays) -> list[Estimate]:
    """An estimate for every variant of the first method that appendix C has a rule for; none for other methods."""
    first, *others = plan.methods
    by_method = shared_rows(plan.outline, rows)
    mine = by_method[first.name]
    if not mine or not replays:
        return []
    measured = {method.name: scores_of(by_method[method.name]) for method in others}
    rules = [(method.name, rule_for(exchanged(first, method))) for method in others if measured[method.name]]
    found = [_estimate(name, rule, mine, measured[name], replays, plan.limits.steps) for name, rule in rules if rule]
    adjusted = holm([estimate.optimism.p for estimate in found])
    return [_adjusted(estimate, p) for estimate, p in zip(found, adjusted, strict=True)]


def _adjusted(estimate: Estimate, p: float | None) -> Estimate:
    return estimate.model_copy(update={"optimism": estimate.optimism.model_copy(update={"p_adjusted": p})})


def _estimate(name: str, rule: Rule, rows: Sequence[Row], measured: Scores, replays: Replays, most: int) -> Estimate:
    replayed = defaultdict(list)
    for row in rows:
        replayed[row.task].append(row.score * rule.factor(replays[row.task, row.trial], most))
    return Estimate(
        method=name,
        rule=rule.name,
        full=_mean(scores_of(rows)),
        replayed=_mean(replayed),
        measured=_mean(measured),
        optimism=difference_of("replayed", "re-executed", replayed, measured),
    )


def _mean(scores: Scores) -> float:
    return sum(sum(trials) for trials in scores.values()) / sum(map(len, scores.values()))

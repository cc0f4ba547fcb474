"""Result of a run.

`Result` reads certificates, findings, scores and usage from the trajectory. `BenchmarkRow` is the one-line summary of a
benchmark run that evaluations store in inspect's log.
"""

import warnings
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, Self, get_args

from certigraph.runtime.progress import valid_certificates
from certigraph.runtime.texts import add_passed_count
from certigraph.state.records import (
    FAULT_ENDINGS,
    GOAL,
    INTERRUPTED,
    Audit,
    Certificate,
    Invalidation,
    Predicate,
    Record,
    Scores,
    UnknownName,
    Usage,
    is_error,
)
from certigraph.state.run import (
    CertifiedState,
    KnownFinding,
    Transition,
    certified_state,
    certified_states,
    transitions,
)
from certigraph.state.trajectory import Footer, Header, Trajectory, read_trajectory

# Verdicts: a question of the user has none, since its answer is not known.

ASK_BENCHMARK = "ask"
"""Name of the benchmark of questions that users ask."""


def is_user_question(header: Header) -> bool:
    """Whether a run answers a question of the user."""
    return header.task.benchmark.partition(":")[0] == ASK_BENCHMARK


def verdict_scores_of(header: Header | None, footer: Footer | None) -> Scores | None:
    """Return the scores of a run; None without a footer, without scores, or for a question of the user."""
    return footer.scores if footer and not (header and is_user_question(header)) else None


def is_solved(scores: Scores | None) -> bool | None:
    """Whether a task has the full score and so is solved; None without a score."""
    return None if scores is None else scores.value >= 1


def is_goal_denied(ending: str, solved: bool | None) -> bool:
    """Whether a run ended `goal` although its scorer decided that the task is not solved."""
    return ending == GOAL and solved is False


# The result: SDP's artifact (Table 1), derived from certificates, and how the run ended.

OnError = Literal["warn", "raise", "ignore"]
"""Reaction of `run`, `resume` and `ask` to the ending `error:<boundary>`."""


class RunFailed(Exception):
    """A run ended `error:<boundary>`; `result` holds what it recorded until then."""

    def __init__(self, result: "Result") -> None:
        self.result = result
        super().__init__(_format_failure(result))


class RunFailedWarning(UserWarning):
    """The returned run ended `error:<boundary>`: its answer and score say nothing about the method."""


class Result:
    """A finished or interrupted run, read from its trajectory file."""

    def __init__(self, folder: Path | str, trajectory: Trajectory | None = None) -> None:
        self.folder = Path(folder)
        self.trajectory = trajectory or read_trajectory(self.folder / "trajectory.jsonl")

    def __repr__(self) -> str:
        """Ending, certified predicates and folder."""
        certified, planned = len(self.certified.predicates), len(self.state.get("plan", []))
        progress = add_passed_count(f", {certified} of {planned} certified", len(self.uncertified)) if planned else ""
        return f"Result({self.ending}{progress}, {str(self.folder)!r})"

    @cached_property
    def state(self) -> dict[str, Any]:
        """The graph state, rebuilt from the updates in the trajectory."""
        state: dict[str, Any] = self.trajectory.state()
        return state

    @property
    def certificates(self) -> list[Certificate]:
        """The certificates in the order of issue, including the passes that a policy `forced`."""
        certificates: list[Certificate] = self.state.get("certificates", [])
        return certificates

    @property
    def states(self) -> list[CertifiedState]:
        """Every certified state in order, the empty state first."""
        return certified_states(self.certificates)

    @property
    def certified(self) -> CertifiedState:
        """The certified state at the end, without predicates that were invalidated later."""
        return certified_state(self.certificates, self.invalidations)

    @property
    def invalidations(self) -> list[Invalidation]:
        """Certified predicates that the optional operator `revalidate` found to hold no longer, in order."""
        return list(self.state.get("invalidations", []))

    @property
    def audits(self) -> list[Audit]:
        """Verdicts of the optional operator `audit` on the goal, in order."""
        return list(self.state.get("audits", []))

    @property
    def transitions(self) -> list[Transition]:
        """The certified transitions (s_t, a_t, s_t+k)."""
        return transitions(self.certificates)

    @property
    def credit(self) -> list[int]:
        """The cascade depth that Validate returned for each certified transition."""
        return [c.depth for c in self.certificates if not c.forced]

    @property
    def findings(self) -> list[KnownFinding]:
        """The findings of the steps with their sources, in order; `forced` names the policy that let one pass."""
        return list(certified_state(self.certificates).known)

    @property
    def uncertified(self) -> list[Predicate]:
        """The predicates that a policy let pass."""
        certificates = self.certificates
        return [
            p
            for i in sorted(valid_certificates(certificates))
            if certificates[i].forced
            for p in certificates[i].targets
        ]

    @property
    def terminated(self) -> bool:
        """Whether the goal predicate was certified."""
        return self.ending == GOAL

    @property
    def ending(self) -> str:
        """Ending of the run; "interrupted" while it has none yet and can be resumed."""
        return self.trajectory.ending

    @property
    def failed(self) -> bool:
        """Whether the model, the world, the data or an operator failed: the ending is `error:<boundary>`."""
        return is_error(self.ending)

    def raise_for_error(self) -> Self:
        """Return this result, unless the run failed.

        Raises:
            RunFailed: the ending is `error:<boundary>`.
        """
        if self.failed:
            raise RunFailed(self)
        return self

    @property
    def message(self) -> str:
        """Explanation of an ending that the method did not reach itself, such as an error or a limit."""
        return self.trajectory.footer.message if self.trajectory.footer else ""

    @property
    def scores(self) -> Scores | None:
        """The scores of the benchmark; None if the world could not be scored."""
        return self.trajectory.footer.scores if self.trajectory.footer else None

    @property
    def usage(self) -> Usage:
        """Calls, tokens, dollars and seconds of the complete run, resumes included."""
        return self.trajectory.usage


def check_on_error(on_error: str) -> None:
    """Check that `on_error` has a known value. Raises UnknownName."""
    if on_error not in get_args(OnError):
        raise UnknownName(f"on_error={on_error!r} is unknown; known: {', '.join(get_args(OnError))}")


def report_failure(result: Result, on_error: OnError, *, stacklevel: int = 3) -> Result:
    """Return the result; for a failed run, warn or raise first, as `on_error` requires."""
    if on_error == "raise":
        result.raise_for_error()
    elif on_error == "warn" and result.failed:
        warnings.warn(_format_failure(result), RunFailedWarning, stacklevel=stacklevel)
    return result


def _format_failure(result: Result) -> str:
    again = f"certigraph.resume({str(result.folder)!r})"
    cause = result.message.rstrip(".") or "no message"
    return f"the run in {result.folder} ended {result.ending}: {cause}. Fix the cause, then resume with: {again}"


# The summary of a run that inspect's log carries to the tables.

ROW_KEY = "certigraph"
"""Key of the row in the store of a sample, and name of the score that carries it."""


class BenchmarkRow(Record):
    """One run of a task: its ending, steps and scores. `certified` and `planned` count predicates."""

    id: str
    trial: int = 0
    """Number of the repetition of the task, from 0."""
    run: str = ""
    """Name of the run's folder."""
    certified: int = 0
    planned: int = 0
    steps: int = 0
    """World steps of the last episode."""
    footer: Footer

    @property
    def ending(self) -> str:
        """Ending of the run."""
        return self.footer.ending

    @property
    def fault(self) -> bool:
        """Whether the world or its data failed; such runs count in no rate."""
        return self.ending in FAULT_ENDINGS

    @property
    def scored(self) -> bool:
        """Whether the run counts in rates: it has an ending and no fault."""
        return not self.fault and self.ending != INTERRUPTED

    @property
    def value(self) -> float:
        """The official score in [0, 1]; 0 if the world could not be scored."""
        return self.footer.scores.value if self.footer.scores else 0.0

    @property
    def cost(self) -> float | None:
        """The price of the answer if the benchmark reports one: dollars in TravelPlanner."""
        return self.footer.scores.parts.get("cost") if self.footer.scores else None

    @property
    def seconds(self) -> float:
        """Wall-clock seconds inside nodes."""
        return self.footer.usage.seconds

    @property
    def tokens(self) -> int:
        """Input and output tokens."""
        return self.footer.usage.input_tokens + self.footer.usage.output_tokens


def benchmark_row_of(task_id: str, result: Result, trial: int = 0) -> BenchmarkRow:
    """Build the row of a finished run."""
    footer = result.trajectory.footer or unfinished_footer()
    planned = len(result.state.get("plan", []))
    certified = len(result.certified.predicates)
    return BenchmarkRow(
        id=task_id,
        trial=trial,
        run=result.folder.name,
        certified=certified,
        planned=planned,
        steps=len(result.state.get("history", [])),
        footer=footer,
    )


def unfinished_footer() -> Footer:
    """Build the footer of a run that was cut off before it wrote one."""
    return Footer(ending=INTERRUPTED, usage=Usage(node="all"))

"""The result of a run."""

import warnings
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, Self, get_args

from certigraph.runtime.history import standing
from certigraph.runtime.html import with_passed
from certigraph.state.records import (
    FAULTS,
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
from certigraph.state.run import CertifiedState, Known, Transition, certified_state, certified_states, transitions
from certigraph.state.trajectory import Footer, Header, Trajectory, read_trajectory

# Whether a run has a verdict at all: a question of one's own is answered, and nobody knows its answer.

ASK = "ask"
"""The benchmark of questions of one's own."""


def is_own(header: Header) -> bool:
    """Whether a run was of a question of one's own."""
    return header.task.benchmark.partition(":")[0] == ASK


def verdict_on(header: Header | None, footer: Footer | None) -> Scores | None:
    """The scores that say how good a run was; None where there are none."""
    return footer.scores if footer and not (header and is_own(header)) else None


def is_solved(scores: Scores | None) -> bool | None:
    """Whether the scorer says that a task is solved, by the full score; None without a score."""
    return None if scores is None else scores.value >= 1


def is_denied(ending: str, solved: bool | None) -> bool:
    """Whether a run ended `goal` and its scorer says that the task is not solved."""
    return ending == GOAL and solved is False


# What a run gives back: SDP's artifact (Table 1), read off certificates, and how the run ended.

OnError = Literal["warn", "raise", "ignore"]
"""What `run`, `resume` and `ask` do about a run that ended `error:<boundary>`."""


class RunFailed(Exception):
    """A run ended `error:<boundary>`; `result` is that run, with what it recorded until then."""

    def __init__(self, result: "Result") -> None:
        self.result = result
        super().__init__(_failure(result))


class RunFailedWarning(UserWarning):
    """A run that is returned ended `error:<boundary>`: no answer and no score of it is the method's own."""


class Result:
    """A finished or interrupted run, backed by its trajectory file."""

    def __init__(self, folder: Path | str, trajectory: Trajectory | None = None) -> None:
        self.folder = Path(folder)
        self.trajectory = trajectory or read_trajectory(self.folder / "trajectory.jsonl")

    def __repr__(self) -> str:
        """The outcome at a glance."""
        certified, planned = len(self.certified.predicates), len(self.state.get("plan", []))
        told = with_passed(f", {certified} of {planned} certified", len(self.uncertified)) if planned else ""
        return f"Result({self.ending}{told}, {str(self.folder)!r})"

    @cached_property
    def state(self) -> Any:
        """The graph state that the trajectory adds up to."""
        return self.trajectory.state()

    @property
    def certificates(self) -> list[Certificate]:
        """The certified transitions as they were issued, and the passes that a policy `forced` among them."""
        certificates: list[Certificate] = self.state.get("certificates", [])
        return certificates

    @property
    def states(self) -> list[CertifiedState]:
        """The state space the run built: every certified state, the empty one first."""
        return certified_states(self.certificates)

    @property
    def certified(self) -> CertifiedState:
        """The certified state at the end, without predicates that were invalidated since they were certified."""
        return certified_state(self.certificates, self.invalidations)

    @property
    def invalidations(self) -> list[Invalidation]:
        """Certified predicates that the optional operator `revalidate` found undone, in the order of finding."""
        return list(self.state.get("invalidations", []))

    @property
    def audits(self) -> list[Audit]:
        """What the optional operator `audit` said of the goal, in order."""
        return list(self.state.get("audits", []))

    @property
    def transitions(self) -> list[Transition]:
        """The certified transitions (s_t, a_t, s_t+k)."""
        return transitions(self.certificates)

    @property
    def credit(self) -> list[int]:
        """The integer that Validate returned for each certified transition: its cascade depth."""
        return [c.depth for c in self.certificates if not c.forced]

    @property
    def findings(self) -> list[Known]:
        """What the steps came to and by which sources, in order; `forced` names the policy that let one pass."""
        return list(certified_state(self.certificates).known)

    @property
    def uncertified(self) -> list[Predicate]:
        """The predicates that a policy let pass."""
        certificates = self.certificates
        return [p for i in sorted(standing(certificates)) if certificates[i].forced for p in certificates[i].targets]

    @property
    def terminated(self) -> bool:
        """Whether the goal predicate was certified."""
        return self.ending == GOAL

    @property
    def ending(self) -> str:
        """How the run ended; "interrupted" while it can be resumed without an ending of its own."""
        return self.trajectory.ending

    @property
    def failed(self) -> bool:
        """Whether the model, the world, the data or an operator failed: the ending is `error:<boundary>`."""
        return is_error(self.ending)

    def raise_for_error(self) -> Self:
        """This result, unless the run failed.

        Raises:
            RunFailed: the ending is `error:<boundary>`.
        """
        if self.failed:
            raise RunFailed(self)
        return self

    @property
    def message(self) -> str:
        """What an ending other than the method's own had to say."""
        return self.trajectory.footer.message if self.trajectory.footer else ""

    @property
    def scores(self) -> Scores | None:
        """The benchmark's verdict; None where the world could not be asked."""
        return self.trajectory.footer.scores if self.trajectory.footer else None

    @property
    def usage(self) -> Usage:
        """Calls, tokens, dollars and seconds of the whole run, resumes included."""
        return self.trajectory.usage


def check_on_error(on_error: str) -> None:
    """Make sure that `on_error` has a known value, before a run begins. Raises UnknownName."""
    if on_error not in get_args(OnError):
        raise UnknownName(f"on_error={on_error!r} is unknown; known: {', '.join(get_args(OnError))}")


def report_failure(result: Result, on_error: OnError, *, stacklevel: int = 3) -> Result:
    """The result, after the warning or the exception that `on_error` wants for a run that failed."""
    if on_error == "raise":
        result.raise_for_error()
    elif on_error == "warn" and result.failed:
        warnings.warn(_failure(result), RunFailedWarning, stacklevel=stacklevel)
    return result


def _failure(result: Result) -> str:
    again = f"certigraph.resume({str(result.folder)!r})"
    cause = result.message.rstrip(".") or "no message"
    return f"the run in {result.folder} ended {result.ending}: {cause}. When that is mended, continue with {again}"


# What a benchmark's task came to: the record that goes from a run through inspect's log into the figures.

ROW = "certigraph"
"""Where a sample's store holds its row, and the name of the score that carries it."""


class Row(Record):
    """One run of a task: how it ended and what it came to. `certified` and `planned` count predicates."""

    id: str
    trial: int = 0
    """Which repetition of the task it was."""
    run: str = ""
    """Name of the run's folder."""
    certified: int = 0
    planned: int = 0
    steps: int = 0
    """World steps, of the last episode where there were several."""
    footer: Footer

    @property
    def ending(self) -> str:
        """How the run ended."""
        return self.footer.ending

    @property
    def fault(self) -> bool:
        """Whether the world or its data failed, so that no rate counts the run."""
        return self.ending in FAULTS

    @property
    def scored(self) -> bool:
        """Whether rates count the run: it has an ending, and no fault."""
        return not self.fault and self.ending != INTERRUPTED

    @property
    def value(self) -> float:
        """The official verdict in [0, 1]; 0 where the world could not be asked."""
        return self.footer.scores.value if self.footer.scores else 0.0

    @property
    def cost(self) -> float | None:
        """The price of the answer where the benchmark reports one: dollars in TravelPlanner."""
        return self.footer.scores.parts.get("cost") if self.footer.scores else None

    @property
    def seconds(self) -> float:
        """Wall-clock inside nodes."""
        return self.footer.usage.seconds

    @property
    def tokens(self) -> int:
        """Input and output tokens."""
        return self.footer.usage.input_tokens + self.footer.usage.output_tokens


def row_of(task_id: str, result: Result, trial: int = 0) -> Row:
    """The row of a finished run."""
    footer = result.trajectory.footer or unfinished_footer()
    planned = len(result.state.get("plan", []))
    certified = len(result.certified.predicates)
    return Row(
        id=task_id,
        trial=trial,
        run=result.folder.name,
        certified=certified,
        planned=planned,
        steps=len(result.state.get("history", [])),
        footer=footer,
    )


def unfinished_footer() -> Footer:
    """The footer of a run that was cut off before it could write one."""
    return Footer(ending=INTERRUPTED, usage=Usage(node="all"))

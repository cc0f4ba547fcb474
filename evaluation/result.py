"""What a run gives back: SDP's artifact (Table 1), read off certificates, and how the run ended."""

import warnings
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, Self, get_args

from certigraph.evaluation.report.standing import standing
from certigraph.evaluation.report.words import with_passed
from certigraph.state.certified import CertifiedState, Known, Transition, certified_state, certified_states, transitions
from certigraph.state.endings import GOAL, UnknownName, is_error
from certigraph.state.reading import read_trajectory
from certigraph.state.records import Audit, Certificate, Invalidation, Predicate, Scores, Usage
from certigraph.state.trajectory import Trajectory

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

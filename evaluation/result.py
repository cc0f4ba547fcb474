"""What a run gives back: SDP's artifact (Table 1), read off certificates, and how the run ended."""

from functools import cached_property
from pathlib import Path
from typing import Any

from certigraph.evaluation.report.standing import standing
from certigraph.evaluation.report.words import with_passed
from certigraph.state.certified import CertifiedState, Known, Transition, certified_state, certified_states, transitions
from certigraph.state.endings import GOAL
from certigraph.state.reading import read_trajectory
from certigraph.state.records import Certificate, Predicate, Scores, Usage
from certigraph.state.trajectory import Trajectory


class Result:
    """A finished or interrupted run, backed by its trajectory file."""

    def __init__(self, folder: Path, trajectory: Trajectory | None = None) -> None:
        self.folder = folder
        self.trajectory = trajectory or read_trajectory(folder / "trajectory.jsonl")

    def __repr__(self) -> str:
        """The outcome at a glance."""
        certified, planned = len(self.states[-1].predicates), len(self.state.get("plan", []))
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

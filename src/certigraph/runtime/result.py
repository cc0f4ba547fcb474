"""Result of a run, as read from its trajectory.

`Result` gives certificates, findings, scores and usage. `BenchmarkRow` is the short summary of a benchmark run that
evaluations store in Inspect's log.
"""

from functools import cached_property
from pathlib import Path
from typing import Any, Literal, Self, get_args

from pydantic import JsonValue

from certigraph.adapters.models.chat_models import describe_error_rates, is_simulated
from certigraph.adapters.trajectories import read_trajectory
from certigraph.adapters.user_warnings import warn_user
from certigraph.runtime.effect_history import read_effects
from certigraph.runtime.texts import add_passed_count
from certigraph.state.certified_states import (
    CertifiedState,
    KnownFinding,
    Transition,
    certified_state,
    certified_states,
    transitions,
    valid_certificates,
)
from certigraph.state.effects import Effect, actions_behind
from certigraph.state.endings import FAULT_ENDINGS, GOAL, INTERRUPTED, UnknownName, is_error
from certigraph.state.records import Action, Audit, Certificate, Invalidation, Predicate, Record, Scores, Usage
from certigraph.state.tools import REQUEST_ID, TOOLS_NAME
from certigraph.state.trajectory import CutPrompt, Footer, Header, Trajectory

# Verdicts: a question or request of the user has none, since its right answer is not known.

ASK_BENCHMARK = "ask"
"""Name of the benchmark that stands for questions of a user."""


def is_user_question(header: Header) -> bool:
    """Whether a run answers a question of a user by research (`certigraph ask`)."""
    return header.task.benchmark.partition(":")[0] == ASK_BENCHMARK


def is_request(header: Header) -> bool:
    """Whether a run carries out a request to an agent over a user's own tools."""
    return (header.task.benchmark, header.task.id) == (TOOLS_NAME, REQUEST_ID)


def is_unscored(header: Header) -> bool:
    """Whether nobody knows the right answer of a run: of a user's question, and of a request to a user's own agent."""
    return is_user_question(header) or is_request(header)


def verdict_scores_of(header: Header | None, footer: Footer | None) -> Scores | None:
    """Return the scores that decide whether a run was successful.

    None without a footer or scores, and for a question or request of a user, whose right answer is not known.
    """
    return footer.scores if footer and not (header and is_unscored(header)) else None


def error_rates_of(header: Header) -> str:
    """Return the line with the error rates of a run's simulated agents; empty if no model of the run is one."""
    return describe_error_rates(str(header.context.get("model")), _roles_of(header))


def has_simulated_validator(header: Header) -> bool:
    """Whether a simulated agent gives the verdicts of a run, so that they may be injected errors."""
    return is_simulated(str(_roles_of(header).get("validator", header.context.get("model"))))


def _roles_of(header: Header) -> dict[str, JsonValue]:
    roles = header.context.get("roles")
    return roles if isinstance(roles, dict) else {}


def is_solved(scores: Scores | None) -> bool | None:
    """Whether a task has the full score and so counts as solved; None without a score."""
    return None if scores is None else scores.value >= 1


def is_goal_denied(ending: str, solved: bool | None) -> bool:
    """Whether a run ended `goal` although its score says that the task is not solved."""
    return ending == GOAL and solved is False


# The result: SDP's artifact (Table 1), derived from certificates, and how the run ended.

OnError = Literal["warn", "raise", "ignore"]
"""What `run`, `resume` and `ask` do if a run ends `error:<boundary>`."""


class RunFailed(Exception):
    """A run ended `error:<boundary>`. The attribute `result` holds what the run recorded until then."""

    def __init__(self, result: "Result") -> None:
        self.result = result
        super().__init__(_format_failure(result))


class RunFailedWarning(UserWarning):
    """A run that is returned ended `error:<boundary>`, so its answer and score say nothing about the method."""


class Result:
    """A finished or interrupted run, read from its trajectory file."""

    def __init__(self, folder: Path | str, trajectory: Trajectory | None = None) -> None:
        self.folder = Path(folder)
        self.trajectory = trajectory or read_trajectory(self.folder)

    def __repr__(self) -> str:
        """Return a text with the ending, the number of certified predicates and the folder."""
        certified, planned = len(self.certified.predicates), len(self.state.get("plan", []))
        progress = add_passed_count(f", {certified} of {planned} certified", len(self.uncertified)) if planned else ""
        return f"Result({self.ending}{progress}, {str(self.folder)!r})"

    @cached_property
    def state(self) -> dict[str, Any]:
        """The final graph state, computed from the updates in the trajectory."""
        state: dict[str, Any] = self.trajectory.state()
        return state

    @property
    def certificates(self) -> list[Certificate]:
        """The certificates in the order of issue, including those that a policy `forced`, which certify nothing."""
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
        """Decisions of the optional operator `audit` on whether the goal is reached, in order."""
        return list(self.state.get("audits", []))

    @property
    def transitions(self) -> list[Transition]:
        """The certified transitions in order: state, action, next state ((s_t, a_t, s_t+k) in the SDP paper)."""
        return transitions(self.certificates)

    @property
    def credit(self) -> list[int]:
        """The cascade depth of each certified transition: the number of predicates that one action satisfied."""
        return [c.depth for c in self.certificates if not c.forced]

    @property
    def actions_behind(self) -> list[tuple[Action, ...]]:
        """For each of `certificates` the actions since the one before, which brought it about."""
        return actions_behind(self.certificates, self.state.get("history", []))

    @cached_property
    def effects(self) -> list[Effect]:
        """The calls of tools that were made and whose effect lasts, each with its check and what covers it.

        Those of sub-tasks follow those of the run's own graph.
        """
        return read_effects(self.trajectory.events).effects

    @property
    def findings(self) -> list[KnownFinding]:
        """The findings of the plan's steps with their sources, in order.

        `forced` names the policy that let a finding pass uncertified.
        """
        return list(certified_state(self.certificates).known)

    @property
    def uncertified(self) -> list[Predicate]:
        """The predicates that a policy let pass uncertified."""
        certificates = self.certificates
        return [
            p
            for i in sorted(valid_certificates([certificate.restores for certificate in certificates]))
            if certificates[i].forced
            for p in certificates[i].targets
        ]

    @property
    def terminated(self) -> bool:
        """Whether the goal predicate was certified."""
        return self.ending == GOAL

    @property
    def ending(self) -> str:
        """Ending of the run; "interrupted" while none is recorded, so that the run can be resumed."""
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
        """Explanation of the ending, such as the text of an error or which limit was reached; may be empty."""
        return self.trajectory.footer.message if self.trajectory.footer else ""

    @property
    def scores(self) -> Scores | None:
        """The scores by the benchmark; None if the run could not be scored."""
        return self.trajectory.footer.scores if self.trajectory.footer else None

    @property
    def questions(self) -> list[JsonValue]:
        """What the run asks a person and waits for, in order; answer with `certigraph.resume(run, answer=...)`.

        Each is the value that the graph handed to LangGraph's `interrupt`, such as the calls that need approval.
        """
        return [question.value for question in self.trajectory.questions]

    @property
    def cut_prompts(self) -> list[CutPrompt]:
        """The model calls whose prompts left something out, because it does not fit into the model's context window."""
        return self.trajectory.cut_prompts

    @property
    def usage(self) -> Usage:
        """Calls, tokens, dollars and seconds of the complete run, resumes included."""
        return self.trajectory.usage


def check_on_error(on_error: str) -> None:
    """Check that `on_error` is "warn", "raise" or "ignore". Raises UnknownName if not."""
    if on_error not in get_args(OnError):
        raise UnknownName(f"on_error={on_error!r} is unknown; known: {', '.join(get_args(OnError))}")


def report_failure(result: Result, on_error: OnError) -> Result:
    """Return the result. If the run failed, warn or raise first, by `on_error`."""
    if on_error == "raise":
        result.raise_for_error()
    elif on_error == "warn" and result.failed:
        warn_user(_format_failure(result), RunFailedWarning)
    return result


def _format_failure(result: Result) -> str:
    header = result.trajectory.header
    agent = ", graph=..." if is_request(header) and ":" not in header.graph else ""
    again = f"certigraph.resume({str(result.folder)!r}{agent})"
    cause = result.message.rstrip(".") or "no message"
    return f"the run in {result.folder} ended {result.ending}: {cause}. Fix the cause, then resume with: {again}"


# The summary of a run that inspect's log carries to the tables.

ROW_KEY = "certigraph"
"""Key under which Inspect's log stores a `BenchmarkRow` with a sample, and name of the score that carries it."""


class BenchmarkRow(Record):
    """Summary of one run of a task: ending, steps and scores. `certified` and `planned` are numbers of predicates."""

    id: str
    trial: int = 0
    """Number of the repetition of the task, from 0."""
    run: str = ""
    """Name of the run's folder."""
    certified: int = 0
    planned: int = 0
    steps: int = 0
    """Number of world steps of the last episode."""
    footer: Footer

    @property
    def ending(self) -> str:
        """Ending of the run."""
        return self.footer.ending

    @property
    def fault(self) -> bool:
        """Whether the world or its data failed. Such runs count in no success rate."""
        return self.ending in FAULT_ENDINGS

    @property
    def scored(self) -> bool:
        """Whether the run counts in success rates: it has an ending, and the world and its data did not fail."""
        return not self.fault and self.ending != INTERRUPTED

    @property
    def value(self) -> float:
        """The official score in [0, 1]; 0 if the run could not be scored."""
        return self.footer.scores.value if self.footer.scores else 0.0

    @property
    def cost(self) -> float | None:
        """Price of the solution, such as dollars of a trip in TravelPlanner; None if the benchmark reports none."""
        return self.footer.scores.parts.get("cost") if self.footer.scores else None

    @property
    def seconds(self) -> float:
        """Wall-clock seconds spent inside graph nodes."""
        return self.footer.usage.seconds

    @property
    def tokens(self) -> int:
        """Number of input and output tokens."""
        return self.footer.usage.input_tokens + self.footer.usage.output_tokens


def benchmark_row_of(task_id: str, result: Result, trial: int = 0) -> BenchmarkRow:
    """Summarize a run, which may be unfinished, as a row."""
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
    """Return the footer for a run that was cut off before it wrote one."""
    return Footer(ending=INTERRUPTED, usage=Usage(node="all"))

"""Runs of a question of one's own, with a script in the place of the web."""

from pathlib import Path
from typing import Any

from certigraph.adapters.protocols import Budget, Context
from certigraph.runtime.result import Result
from certigraph.runtime.run import run
from certigraph.state.records import Action, Observation, Predicate, Scores, Task, Verdict
from helpers.sample_runs.finding_runs import FOUND, PASSED, REFUSED
from helpers.worlds.scripted_benchmark import Script, World

STEPS = (
    Predicate(text="Established: gyms", kind="collect", args={"goal": "gyms near the park"}),
    Predicate(text="Established: price", kind="extract", args={"goal": "what the cheaper one costs"}),
    Predicate(text="The question is answered from the findings.", kind="answer"),
    Predicate(text="The answer is final.", kind="goal"),
)

COUNTED = {"searches": 2, "fetched": 3, "unreadable": {"https://dead.example/": "timed out after 10 s"}}
"""What each step tells of itself; the page that cannot be read is always the same."""


class Inquiry(Script):
    """The plan of a research whose first step is certified; the second is refused, then let pass."""

    name = "ask"

    def __init__(self, *last: Verdict, answer: str | None = "20\nor 21", **script: Any) -> None:
        super().__init__(verdicts=[Verdict(depth=1, finding=FOUND), REFUSED, PASSED, *last], **script)
        self.answer = answer

    def open(self, task: Task) -> "Web":
        self.fail("open")
        return Web(self)

    async def _propose(self, state: Any, runtime: Any) -> dict[str, Any]:
        return {"plan": list(STEPS)}


class Web(World):
    """Counts as the world of research does."""

    def step(self, action: Action) -> Observation:
        seen = super().step(action)
        return seen.model_copy(update={"data": {**seen.data, **COUNTED}})

    def score(self) -> Scores:
        answer = getattr(self.script, "answer", None)
        return Scores(value=0.0, parts={"answered": float(answer is not None)}, answer=answer)


def run_inquiry(out: Path, inquiry: Inquiry, budget: Budget | None = None) -> Result:
    """A run of it."""
    return run("sdp", inquiry, context=Context(budget=budget or Budget()), out=out)


class NamedInquiry(Inquiry):
    """The same, made as benchmarks are made by name."""

    def __init__(self, data: Path | None = None, config: str = "") -> None:
        super().__init__()

    def knows(self, task: Task) -> bool:
        return "secret" not in task.goal

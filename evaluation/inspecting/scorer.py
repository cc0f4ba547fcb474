"""The official verdict as inspect's score, and the benchmark's own figures as inspect's metrics."""

import json

from inspect_ai.scorer import Metric, SampleScore, Score, Scorer, Target, Value, metric, scorer
from inspect_ai.solver import TaskState

from certigraph.adapters.benchmarks import load_benchmark
from certigraph.evaluation.inspecting.rows import ROW, Row, unfinished


@metric(scores="unreduced")
def official(benchmark: str, data: str = "") -> Metric:
    """The figures that the benchmark itself reports, over every scored run, epochs included."""

    def figures(scores: list[SampleScore]) -> Value:
        rows = [Row.model_validate(score.score.metadata) for score in scores]
        runs = [(row.id, row.footer) for row in rows if row.scored]
        # inspect also asks before the first run has ended
        return dict(load_benchmark(benchmark, data or None).figures(runs)) if runs else {}

    return figures


@scorer(metrics=[], name=ROW)
def verdict() -> Scorer:
    """Read the world's verdict off the row that the run left; 0 for a run without one.

    Unscored, which inspect leaves out of its metrics: runs in which the world or its data failed, and unfinished ones.
    """

    async def score(state: TaskState, target: Target) -> Score:
        stored = state.store.get(ROW)
        lost = Row(id=str(state.sample_id), trial=state.epoch - 1, footer=unfinished())
        row = Row.model_validate(stored) if stored else lost
        scores = row.footer.scores
        if not row.scored:
            metadata = row.model_dump(mode="json")
            return Score.unscored(reason=row.ending, explanation=row.footer.message or row.ending, metadata=metadata)
        return Score(
            value=row.value,
            answer=json.dumps(scores.answer, ensure_ascii=False) if scores and scores.answer else None,
            explanation=_explained(row),
            metadata=row.model_dump(mode="json"),
        )

    return score


def _explained(row: Row) -> str:
    parts = row.footer.scores.parts if row.footer.scores else {}
    told = [f"{name}: {part:g}" for name, part in parts.items() if part is not None]
    return "\n".join([f"{row.ending}, {row.certified} of {row.planned} predicates certified", *told])

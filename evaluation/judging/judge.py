"""Judging recorded answers: each is asked about once, kept at once, and within one budget."""

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from langgraph.runtime import Runtime

from certigraph.adapters.context import Context
from certigraph.adapters.loops import off_loop
from certigraph.adapters.models.ask import ask
from certigraph.adapters.models.chat import is_scripted
from certigraph.adapters.models.meter import Meter, metering
from certigraph.evaluation.judging.cases import Case
from certigraph.evaluation.judging.judgements import Judgement, keep, read_judgements
from certigraph.evaluation.judging.rubrics import Measured, Rubric
from certigraph.evaluation.judging.scripted import WordJudge
from certigraph.evaluation.run import blocking
from certigraph.evaluation.settings import model_name, shareable
from certigraph.state.endings import LimitReached

NO_ANSWER = "the run ended without an answer"
NO_JUDGE = "no judge"
"""Who judges by a rubric that only compares texts."""

Told = Callable[[Judgement], None]


class Judged(NamedTuple):
    """The judgements on the cases, earlier ones included, and what stopped judging before its end."""

    judgements: Sequence[Judgement]
    left: int
    stopped: LimitReached | None = None


def judge(
    cases: Sequence[Case], rubric: Rubric | Measured, context: Context, out: Path, *, told: Told | None = None
) -> Judged:
    """Judge the cases that the file does not hold yet.

    Args:
        cases: what to judge.
        rubric: by which rubric.
        context: model (its role is "judge"), budget of this call, and cache; `scripted:expert` compares words.
        out: the file that judgements are appended to.
        told: called with every new judgement.

    Raises:
        Fault: the model failed, a library of the measures is missing, or the file is none of ours.
    """
    if is_scripted(context.roles.get("judge", context.model)):
        context = context.model_copy(update={"benchmark": WordJudge()})
    mind = NO_JUDGE if isinstance(rubric, Measured) else _called(context)
    kept = {judgement.key: judgement for judgement in read_judgements(out)}
    keys = [(case.run, rubric.name, mind, case.answer) for case in cases]
    waiting = [case for case, key in zip(cases, keys, strict=True) if key not in kept]
    fresh: list[Judgement] = []

    def listener(judgement: Judgement) -> None:
        keep(out, [judgement])
        fresh.append(judgement)
        if told:
            told(judgement)

    stopped = blocking(_judged(waiting, rubric, context, mind, listener))
    known = kept | {judgement.key: judgement for judgement in fresh}
    # a method's name depends on what it is found beside, so that an earlier one may be another
    ours = [
        known[key].model_copy(update={"method": c.method}) for c, key in zip(cases, keys, strict=True) if key in known
    ]
    return Judged(ours, len(waiting) - len(fresh), stopped)


def _called(context: Context) -> str:
    named = context.roles.get("judge")
    return model_name(named) if named and context.chat is None else str(shareable(context)["model"])


async def _judged(
    cases: Iterable[Case], rubric: Rubric | Measured, context: Context, mind: str, told: Told
) -> LimitReached | None:
    with metering(Meter("judge", context.budget)):
        for case in cases:
            try:
                told(await _judgement(case, rubric, context, mind))
            except LimitReached as limit:
                return limit
    return None


async def _judgement(case: Case, rubric: Rubric | Measured, context: Context, mind: str) -> Judgement:
    if not case.answer.strip():
        score, parts, reason = 0.0, dict[str, float](), NO_ANSWER
    elif isinstance(rubric, Measured):
        parts = dict(await off_loop(rubric.measures, case.answer, case.references))
        score, reason = rubric.score(parts), ""
    else:
        score, parts, reason = await _asked(case, rubric, context)
    return Judgement(
        run=case.run,
        method=case.method,
        benchmark=case.task.benchmark,
        task=case.task.id,
        trial=case.trial,
        rubric=rubric.name,
        judge=mind,
        answer=case.answer,
        score=score,
        parts=parts,
        reason=reason,
    )


async def _asked(case: Case, rubric: Rubric, context: Context) -> tuple[float, dict[str, float], str]:
    """The judge's score, its criteria and its reason."""
    prompt = rubric.prompt(case.task.goal, case.reference, case.answer)
    verdict = await ask(prompt, rubric.form, role="judge", runtime=Runtime(context=context))
    given = verdict.model_dump()
    reason = str(given.pop("reason", ""))
    return rubric.score(verdict), {name: float(value) for name, value in given.items()}, reason

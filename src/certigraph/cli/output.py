"""Output of commands: progress of a run, its result, and tables of scores."""

import json
import shlex
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from textwrap import wrap
from typing import Any

import typer
from pydantic import JsonValue
from rich.console import Console
from rich.table import Table

from certigraph.adapters.benchmarks import data_folder, load_benchmark, shipped_benchmarks, split_name
from certigraph.adapters.models.chat_models import describe_error_rates, describe_models, is_scripted
from certigraph.adapters.models.profiles import CHARACTERS_PER_TOKEN
from certigraph.adapters.protocols import Limits
from certigraph.adapters.trajectories import read_trajectory
from certigraph.benchmarks.ask import ResearchCost, ResearchSummary, research_summary_of
from certigraph.cli.options import WAITING
from certigraph.evaluation.measures import EVALUATION_METHODS
from certigraph.runtime.approvals import answer_advice, question_lines
from certigraph.runtime.history import read_history
from certigraph.runtime.prompts import CollectedPrompts, PromptKind, group_prompts
from certigraph.runtime.recorder import Listener
from certigraph.runtime.registry import BudgetAndLimits, load_settings, parse_budget
from certigraph.runtime.report import write_report
from certigraph.runtime.result import (
    Result,
    is_goal_denied,
    is_solved,
    is_user_question,
    verdict_scores_of,
)
from certigraph.runtime.terminal import clean_line, clean_lines, draw_frame
from certigraph.runtime.texts import (
    format_contradiction,
    format_count,
    format_cut_prompts,
    format_duration,
    format_usd,
    split_answer,
)
from certigraph.state.certified_states import KnownFinding
from certigraph.state.endings import FINISHED, WORLD_ENDED, Interrupted, is_error
from certigraph.state.search import BY_GATE, BY_METHOD, BY_ROUNDS, BY_STEPS
from certigraph.state.trajectory import TrajectoryLine

# The budget of a run that is resumed.


def load_allowance(folder: Path, budget: Sequence[str] | None) -> BudgetAndLimits:
    """Return the budget and limits of a recorded run, with the changes given as `--budget`.

    Args:
        folder: folder of the run.
        budget: changes, each as `KEY=N`.
    """
    read_trajectory(folder)
    context = load_settings(folder)
    return parse_budget(budget or [], context.limits or Limits(), context.budget)


# Output before and during a run.


@contextmanager
def watch_run(out: Path, limits: Limits | None, *, silent: bool) -> Iterator[Listener]:
    """Provide a listener that prints how to resume a run and shows its progress, unless `silent` is True.

    Args:
        out: folder of runs, for the command that resumes this one.
        limits: limits of the run.
        silent: show nothing, because only JSON may be printed.

    Raises:
        Interrupted: the run was interrupted by Ctrl-C; the message has the command that resumes it.
    """
    from certigraph.runtime.live import LiveView

    console = Console()
    view = LiveView(console, steps=limits.steps if limits else None)
    command = f"certigraph resume {shlex.quote(str(out))}"

    def listener(line: TrajectoryLine) -> None:
        if line.type == "header":
            nonlocal command
            command = f"certigraph resume {shlex.quote(str(out / line.run_id))}"
            if not silent:  # for a run that is killed
                advice = f"to resume: {command}"
                console.print(advice, style="dim", markup=False, emoji=False, highlight=False, soft_wrap=True)
        if not silent:
            view(line)

    try:
        with nullcontext() if silent else view:
            yield listener
    except KeyboardInterrupt:
        raise Interrupted(f"interrupted; resume with: {command}") from None


def announce_source(benchmark: str, data: str | None) -> None:
    """Print a notice if there is no data for a benchmark, so that a generated world is used."""
    name = split_name(benchmark)[0]
    if name not in shipped_benchmarks():
        return
    if data_folder(name, data) is None and not load_benchmark(benchmark, data).simulated:
        notice = f"{name}: generated sample data; real data: --data DIR or CERTIGRAPH_DATA"
        Console(stderr=True, highlight=False, soft_wrap=True).print(notice, style="dim", markup=False)


def announce_missing_tasks(benchmark: str, data: str | None, split: str, limit: int) -> None:
    """Print a notice if a split has fewer tasks than the limit."""
    count = len(load_benchmark(benchmark, data).tasks(split))
    if count < limit:
        notice = f"--limit {limit:,}: {benchmark} has only {format_count(count, 'task')}"
        Console(stderr=True, highlight=False, soft_wrap=True).print(notice, style="dim", markup=False)


def announce_models(model: str, roles: Sequence[str] | None) -> None:
    """Print the models of a command and the error rates of simulated agents, if at least one model is a script."""
    models_by_role = {role: name for role, _, name in (text.partition("=") for text in roles or ())}
    if any(map(is_scripted, (model, *models_by_role.values()))):
        console = Console(stderr=True, highlight=False, soft_wrap=True, emoji=False)
        for line in filter(None, (describe_models(model, models_by_role), describe_error_rates(model, models_by_role))):
            console.print(line, style="dim", markup=False)


# The result of a user's question, as lines or as the fields of a JSON object.

FORCE_REASONS = {
    BY_STEPS: "the steps were used up",
    BY_METHOD: "the plan was given up",
    BY_GATE: "the gate ended the search",
    BY_ROUNDS: "the rounds were used up",
}
"""Descriptions of the reasons that forced an answer.

Names that are missing here are those of policies, which are shown as they are.
"""

MAX_LINE_LENGTH = 4_000
"""Maximum number of characters of a line. Texts of pages and models may have any length."""

OTHER_SCREEN_LINES = 4
"""Number of lines of a terminal that neither the frame nor the answer uses: how to resume, the report, the prompt."""


def print_closing(closing: ResearchSummary) -> None:
    """Print the result of a researched question.

    It has the answer, the findings with their sources, open steps, the cost, and the command that resumes the run.
    """
    console = Console(highlight=False, soft_wrap=True, emoji=False)
    for line in closing_lines(closing):
        console.print(line, markup=False)


def closing_fields(closing: ResearchSummary) -> dict[str, Any]:
    """Return the result of a researched question as the fields of a JSON object."""
    findings = [{**k.finding.model_dump(), "certified": not k.forced, "forced": k.forced} for k in closing.findings]
    return {**closing.model_dump(mode="json"), "findings": findings}


def closing_lines(closing: ResearchSummary) -> Iterator[str]:
    """Yield the lines of the result of a researched question."""
    yield from _closing_answer_lines(closing)
    for known in closing.findings:
        yield from _finding_lines(known)
    yield from (clean_line(f"not settled: {step}", MAX_LINE_LENGTH) for step in closing.unsettled)
    yield f"cost: {_format_cost(closing.cost)}"
    yield f"run: {closing.run}"
    if closing.resume:
        yield f"resume with: {closing.resume}"


def answer_lines(answer: JsonValue) -> Iterator[str]:
    """Yield the answer that a run gave, one line for each part; nothing if it gave none."""
    if isinstance(answer, list) and all(isinstance(part, dict) for part in answer):
        for part in answer:
            # an entry of TravelPlanner's format may end with a semicolon of its own
            fields = "; ".join(f"{name}: {value}".rstrip(";") for name, value in part.items())  # type: ignore[union-attr]
            yield clean_line(f"answer: {fields}", MAX_LINE_LENGTH)
    elif not isinstance(answer, dict):  # an object is a record of the world, such as rewards, and not an answer
        yield from (f"answer: {clean_line(text, MAX_LINE_LENGTH)}" for text in split_answer(answer) if text)


def _closing_answer_lines(closing: ResearchSummary) -> Iterator[str]:
    answers = [clean_line(text, MAX_LINE_LENGTH) for text in split_answer(closing.answer) if text]
    if not answers:
        yield "no answer was given"
    elif closing.answer_certified:
        yield from (f"answer: {text}" for text in answers)
    else:
        reason = FORCE_REASONS.get(closing.answer_forced, clean_line(closing.answer_forced))
        forced = f" ({reason})" if reason else ""
        yield from (f"answer, uncertified{forced}: {text}" for text in answers)


def _finding_lines(known: KnownFinding) -> Iterator[str]:
    finding = known.finding
    mark = f"uncertified ({known.forced})" if known.forced else "certified"
    yield clean_line(f"{mark}: {finding.about} → {finding.text}", MAX_LINE_LENGTH)
    yield from (f"  - {clean_line(item.text, MAX_LINE_LENGTH)}" for item in finding.items)
    yield from (f"  {clean_line(url, MAX_LINE_LENGTH)}" for url in finding.sources)
    if dispute := format_contradiction(finding):
        yield f"  {clean_line(dispute, MAX_LINE_LENGTH)}"


def _format_cost(cost: ResearchCost) -> str:
    failed = f" ({cost.unreadable} unreadable)" if cost.unreadable else ""
    return ", ".join(
        [
            format_count(cost.calls, "model call"),
            format_count(cost.tokens, "token"),
            format_usd(cost.usd, cost.unpriced),
            f"{cost.searches:,} search{'' if cost.searches == 1 else 'es'}",
            f"{format_count(cost.pages, 'page')} asked for{failed}",
            format_duration(cost.seconds),
        ]
    )


# Output at the end of a command: a result or figures, as text or as one JSON object.


def print_result(result: Result, *, as_json: bool) -> None:
    """Write the HTML report of a run, print the result, and exit.

    Raises:
        typer.Exit: always; the status is 0 if the run reached its goal or gave an answer, 3 if it waits for an answer
            of a person, else 1.
    """
    report = write_report(result)
    if as_json:
        typer.echo(json.dumps(_result_fields(result), ensure_ascii=False))
    else:
        console = Console(highlight=False, soft_wrap=True, emoji=False)
        if message := result.message:
            if result.ending.startswith("limit:"):
                resume = f" certigraph resume {shlex.quote(str(result.folder))}"
                message = message.replace(" --budget", f"{resume} --budget", 1)
            console.print(clean_lines(message), markup=False)
        _print_answer(result, console)
        questions = result.trajectory.questions
        shown = question_lines(questions) if console.is_terminal else ()  # plain output has each question where it came
        for line in (*shown, *answer_advice(questions, result.folder)):
            console.print(clean_line(line, MAX_LINE_LENGTH), markup=False)
        if cuts := format_cut_prompts(result.cut_prompts, result.usage.calls):
            console.print(clean_line(f"prompts: {cuts}"), markup=False)
        console.print(f"report: {report}", style="dim", markup=False)
    raise typer.Exit(WAITING if result.questions else 0 if result.terminated or _has_answer(result) else 1)


def _print_answer(result: Result, console: Console) -> None:
    header = result.trajectory.header
    if is_user_question(header) or result.findings:
        if console.is_terminal:  # the live view cuts long questions; plain output starts with the complete question
            console.print(clean_lines(f"question: {header.task.goal}"), markup=False)
        print_closing(research_summary_of(result))
    elif result.scores:
        lines = list(answer_lines(result.scores.answer))
        for line in _fit_screen(lines, result, console) if console.is_terminal else lines:
            console.print(line, markup=False)


def _fit_screen(lines: Sequence[str], result: Result, console: Console) -> list[str]:
    """Wrap the lines of an answer, and cut them where they would push the run's last frame off the screen."""
    rows = [row for line in lines for row in wrap(line, console.width, subsequent_indent="  ")]
    frame = draw_frame(read_history(result.trajectory), height=console.height, steps=None, seconds=0)
    most = max(console.height - len(console.render_lines(frame)) - OTHER_SCREEN_LINES, 1)
    if len(rows) <= most:
        return rows
    more = f"… ({format_count(len(rows) - most, 'more line')} in the report)"
    return [*rows[: most - 1], rows[most - 1][: max(console.width - len(more), 0)] + more]


def _has_answer(result: Result) -> bool:
    """Whether the method gave an answer or rewards, which counts as success for methods without a goal."""
    scores, certifies = result.scores, "head" in result.state
    answered = scores is not None and bool(scores.parts.get("answered") or (scores.answer and not certifies))
    if result.ending == FINISHED:
        return scores is not None and bool(scores.answer)
    return result.ending == WORLD_ENDED and (answered or bool(result.state.get("rewards")))


def _progress_fields(result: Result) -> dict[str, Any]:
    """Return the number of world steps of a run as a field of a JSON object.

    For a run with a task graph it is the number for all sub-tasks, and there are the numbers of sub-tasks by status.
    """
    tasks = read_history(result.trajectory).tasks
    if not tasks.drawn:
        return {"steps": len(result.state.get("history", []))}
    statuses = ("completed", "failed", "working", "pending", "removed")
    return {"steps": tasks.steps, "subtasks": {status: tasks.count(status) for status in statuses}}


def print_figures(
    title: str, figures: Mapping[str, float], intervals: Mapping[str, tuple[float, float] | None], *, as_json: bool
) -> None:
    """Print scores with their 95 % confidence intervals, as one JSON object or as a table."""
    if as_json:
        typer.echo(json.dumps({**figures, "intervals": intervals, "statistics": EVALUATION_METHODS}))
        return
    table = Table("figure", title, "95 % interval", box=None)
    for name, value in figures.items():
        interval = " to ".join(f"{bound:.1%}" for bound in intervals.get(name) or ())
        table.add_row(name, f"{value:g}" if name == "n" else f"{value:.1%}", interval)
    Console().print(table)
    typer.echo(f"intervals: {EVALUATION_METHODS['intervals']}")


def _result_fields(result: Result) -> dict[str, Any]:
    state, header = result.state, result.trajectory.header
    model = str(header.context.get("model"))
    return {
        "graph": header.graph,
        "benchmark": header.task.benchmark,
        "task": header.task.id,
        "question": header.task.goal,
        "model": model,
        "language_model": not is_scripted(model),
        "ending": result.ending,
        "terminated": result.terminated,
        "goal_denied": is_goal_denied(result.ending, is_solved(verdict_scores_of(header, result.trajectory.footer))),
        "message": result.message,
        "questions": result.questions,
        "folder": str(result.folder),
        "certified": len(result.certified.predicates),
        "plan": len(state.get("plan", [])),
        **({"effects": [effect.as_output() for effect in result.effects]} if result.effects else {}),
        **_progress_fields(result),
        "scores": result.scores.model_dump() if result.scores else None,
        "usage": result.usage.model_dump(exclude={"node"}),
        "cut_prompts": len(result.cut_prompts),
        **(closing_fields(research_summary_of(result)) if is_user_question(header) else _certificate_fields(result)),
    }


def _certificate_fields(result: Result) -> dict[str, Any]:
    """Return the certificates of a run, each with the actions that brought it about; nothing if there are none."""
    certificates = [
        {
            **certificate.model_dump(mode="json", include={"step", "evidence", "decided_by", "calls", "forced"}),
            "conditions": [target.text for target in certificate.targets],
            "actions": [action.text for action in actions],
        }
        for certificate, actions in zip(result.certificates, result.actions_behind, strict=True)
    ]
    return {"certificates": certificates} if certificates else {}


# Prompts, as a model would get them.

TOKENS_NOTE = f"tokens are estimated: {CHARACTERS_PER_TOKEN:g} characters each"


def print_prompts(collected: CollectedPrompts, role: str, *, texts: bool, as_json: bool) -> None:
    """Print the prompts of a run by kind of request, and exit with status 1 if the run failed.

    Args:
        collected: the requests of the run.
        role: print requests in this role only; empty for all.
        texts: print the last prompt of each kind; otherwise only a table.
        as_json: print one JSON object.
    """
    kinds = [kind for kind in group_prompts(collected.sent) if role in ("", kind.role)]
    if as_json:
        requests = [_prompt_fields(kind, texts=texts) for kind in kinds]
        run_fields = {key: value for key, value in collected._asdict().items() if key != "sent"}
        typer.echo(json.dumps({**run_fields, "estimate": TOKENS_NOTE, "requests": requests}, ensure_ascii=False))
    else:
        for kind in kinds if texts else ():
            typer.echo(clean_lines("\n".join(_prompt_lines(kind))) + "\n")
        typer.echo("\n".join(_prompt_table(collected, kinds)))
    if is_error(collected.ending):
        typer.echo(f"the run ended {collected.ending}: {clean_lines(collected.message)}", err=True)
        raise typer.Exit(1)


def _prompt_fields(kind: PromptKind, *, texts: bool) -> dict[str, Any]:
    latest = kind.latest
    shown = {"system": latest.system, "user": latest.user, "schema": latest.schema} if texts else {}
    return {
        "node": kind.node,
        "role": kind.role,
        "answer": kind.form,
        "requests": len(kind.prompts),
        "mean_tokens": round(kind.mean_tokens, 1),
        "longest_tokens": max(prompt.tokens for prompt in kind.prompts),
        "prefix_share": kind.prefix_share,
        "stable_share": kind.stable_share,
        "schemas": kind.schemas,
        "latest_tokens": latest.tokens,
        "latest_schema_tokens": latest.schema_tokens,
        **shown,
    }


def _prompt_lines(kind: PromptKind) -> Iterator[str]:
    latest, count = kind.latest, len(kind.prompts)
    answer = f"answer {kind.form}" if latest.schema else "answer: free text"
    yield f"===== {kind.node}, role {kind.role}, {answer}"
    schema = f" and about {latest.schema_tokens:,} of the answer's schema" if latest.schema else ""
    number = f"request {count} of {count}" if count > 1 else "the only request"
    share = "" if kind.prefix_share is None else f"; prefix of earlier ones: {kind.prefix_share:.0%}"
    yield f"{number}; about {latest.tokens:,} tokens{schema}{share}"
    yield f"----- system\n{latest.system}"
    yield f"----- user\n{latest.user}"
    if latest.schema:
        yield f"----- schema\n{json.dumps(latest.schema, ensure_ascii=False)}"


PREFIX_NOTE = "share of the requests after the first that an earlier one begins with too, with the schema in front"


def _format_share(share: float | None) -> str:
    return "-" if share is None else f"{share:.0%}"


def _prompt_table(collected: CollectedPrompts, kinds: Sequence[PromptKind]) -> Iterator[str]:
    """Yield the lines of the table, one for each kind of request, and below it the totals of the run."""
    names = [clean_line(f"{kind.node} ({kind.role}) {kind.form}") for kind in kinds]
    width = max(map(len, ["request", *names]))
    yield f"{'request':{width}}  requests  mean tokens  longest  prefix  stable  schemas"
    for name, kind in zip(names, kinds, strict=True):
        share, stable = _format_share(kind.prefix_share), _format_share(kind.stable_share)
        longest = max(prompt.tokens for prompt in kind.prompts)
        schemas = f"{kind.schemas:,}" if kind.latest.schema else "-"
        figures = (
            f"{len(kind.prompts):>8,}  {kind.mean_tokens:>11,.0f}  {longest:>7,}  {share:>6}  {stable:>6}  {schemas:>7}"
        )
        yield f"{name:{width}}  {figures}"
    requests, tokens = sum(len(kind.prompts) for kind in kinds), sum(p.tokens for kind in kinds for p in kind.prompts)
    per_step = f", {tokens / collected.steps:,.0f} per step" if collected.steps else ""
    steps = f"{format_count(collected.steps, 'world step')}"
    yield f"{format_count(requests, 'request')}, {tokens:,} tokens of prompts, {steps}{per_step}; {TOKENS_NOTE}"
    yield f"prefix: {PREFIX_NOTE}; stable: the same from the third request on"
    yield f"window of {collected.window:,} tokens, answers by {collected.model}"
    yield f"ending {collected.ending}"

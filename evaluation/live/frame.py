"""One picture of a watched run, fitted to the terminal: its plan or its latest turns, and what it has cost."""

from collections.abc import Callable

from rich.console import Group, RenderableType
from rich.panel import Panel
from rich.text import Text

from certigraph.adapters.models.chat import describe_model
from certigraph.evaluation.live.fold import Watched
from certigraph.evaluation.live.plan import plan_part
from certigraph.evaluation.live.rewards import reward_part
from certigraph.evaluation.live.tasks import tasks_part
from certigraph.evaluation.live.text import clean
from certigraph.evaluation.live.turns import episode_part
from certigraph.evaluation.report.graded import is_denied, is_solved, verdict_on
from certigraph.evaluation.report.parts import compact
from certigraph.state.endings import GOAL

AROUND = 10
"""Lines of a frame that are neither plan nor turns."""


def frame(run: Watched, *, height: int, steps: int | None, seconds: float) -> RenderableType:
    """The frame for a terminal of that height; `steps` is the limit of world steps, None when it is not known."""
    goal = Text(clean(run.header.task.goal) if run.header else "waiting for the run", overflow="ellipsis", no_wrap=True)
    inside = Group(goal, Text(), _part(run)(run, max(height - AROUND, 3)), _figures(run, steps, seconds))
    return Panel(
        inside, title=_title(run), title_align="left", subtitle=_ending(run), border_style="dim", padding=(1, 2)
    )


def _part(run: Watched) -> Callable[[Watched, int], RenderableType]:
    if run.rating.steps:
        return reward_part
    if run.tasks.drawn:
        return tasks_part
    return episode_part if run.episodes.acting else plan_part


def step_limit(run: Watched, given: int | None) -> int | None:
    """The limit of world steps: as given, else as the run's own header has it."""
    return given if given is not None else run.limit("steps")


def budget(run: Watched) -> float | None:
    """The money that the task allows, where it names an amount."""
    amount = run.header.task.constants.get("budget") if run.header else None
    return float(amount) if isinstance(amount, int | float) else None


def _title(run: Watched) -> Text:
    if run.header is None:
        return Text("certigraph")
    task = run.header.task
    name = Text(f"{run.header.graph} · {clean(task.benchmark)} {clean(task.id)}", style="bold")
    return name.append(f" · {clean(describe_model(str(run.header.context.get('model', ''))))}", style="not bold dim")


def _ending(run: Watched) -> Text | None:
    if run.footer is None:
        return None
    scores = verdict_on(run.header, run.footer)
    denied = is_denied(run.footer.ending, is_solved(scores))
    style = "bold yellow" if denied else "bold green" if run.footer.ending == GOAL else "bold red"
    ending = Text(f"{run.footer.ending}{', denied by the scorer' if denied else ''}", style=style)
    return ending.append(f" · score {scores.value:.3g}" if scores else "", style="default")


def _figures(run: Watched, steps: int | None, seconds: float) -> Text:
    money, cached = budget(run), run.spent["cached_tokens"]
    shown = {
        **_reached(run, steps),
        "calls": f"{run.spent['calls']:.0f}",
        "tokens": compact(run.tokens) + (f" ({compact(cached)} cached)" if cached else ""),
    }
    if run.spent["usd"]:
        shown["cost"] = f"${run.spent['usd']:.4f}"
    if run.cost is not None and money is not None:
        shown["spent"] = f"${run.cost:,.0f} of ${money:,.0f}"
    shown["time"] = f"{int(seconds) // 60}:{int(seconds) % 60:02}"
    parts = (Text.assemble((f"{name} ", "dim"), value) for name, value in shown.items())
    return Text("   ").join(parts)


def _reached(run: Watched, steps: int | None) -> dict[str, str]:
    if run.rating.steps:
        return {"rated": _of(len(run.rating.rated), len(run.rating.steps))}
    if run.tasks.drawn:
        return _of_tasks(run, steps)
    return _of_episode(run, steps) if run.episodes.acting else _of_plan(run, steps)


def _of_tasks(run: Watched, steps: int | None) -> dict[str, str]:
    tasks = run.tasks
    failed = {"failed": f"{tasks.count('failed')}"} if tasks.count("failed") else {}
    graded = {"score": f"{run.episodes.now.reported:.3g}"} if run.episodes.graded else {}
    return {
        "sub-tasks": f"{tasks.count('completed')}/{tasks.live}",
        **failed,
        **graded,
        "steps": _of(run.steps, step_limit(run, steps)),
    }


def _of_plan(run: Watched, steps: int | None) -> dict[str, str]:
    graded = {"score": f"{run.episodes.now.reported:g}"} if run.episodes.graded else {}
    passed = {"uncertified": f"{run.passed}"} if run.passed else {}
    return {
        "certified": f"{run.standing}/{run.whole}",
        **passed,
        **graded,
        "steps": _of(run.steps, step_limit(run, steps)),
        "replans": f"{run.replans}",
    }


def _of_episode(run: Watched, steps: int | None) -> dict[str, str]:
    """A limit of steps is one of each episode."""
    episodes = run.episodes
    taken = len(episodes.all[-1].scores) if episodes.all else 0
    score = episodes.all[-1].reported if episodes.all else 0.0
    return {"score": f"{score:.3g}", "steps": _of(taken, step_limit(run, steps))}


def _of(count: int, limit: int | None) -> str:
    return f"{count}/{limit}" if limit else f"{count}"

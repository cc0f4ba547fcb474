"""The episodes as a column: each with its subtasks, the turns made for them, and what it taught."""

from collections.abc import Iterable

from certigraph.evaluation.report.episode import Episode, Group, Refused, Taken
from certigraph.evaluation.report.episodes import Episodes
from certigraph.evaluation.report.html import Markup, counted, joined, shortened, tag
from certigraph.evaluation.report.lessons import lesson_block
from certigraph.evaluation.report.parts import figure
from certigraph.evaluation.report.scores import ink
from certigraph.evaluation.report.supervision import Remark
from certigraph.state.hypothesising import Branch
from certigraph.state.step import Status, Subtask

LONGEST_ANSWER = 1_500
"""Characters of what the world answered."""

LONGEST_LINE = 160

MARKS: dict[Status, tuple[str, str]] = {
    "completed": ("certified", "✓"),
    "failed": ("failed", "✕"),
    "open": ("target", "▸"),
}
"""The look that a subtask shares with the predicates of a plan."""


def episode_figures(episodes: Episodes) -> list[Markup]:
    """How far the episodes came."""
    best = max((episode.score for episode in episodes.all), default=0.0)
    in_all = f"of 100, in {counted(len(episodes.all), 'episode')}"
    shown = [figure("best score", f"{best:.3g}", in_all)] if episodes.scored else []
    shown.append(figure("world steps", f"{episodes.steps:,}", "in all episodes"))
    completed, failed = episodes.count("completed"), episodes.count("failed")
    if completed + failed + episodes.count("open"):
        shown.append(figure("subtasks", f"{completed:,}", f"completed, {failed:,} failed"))
    return shown


def episode_column(episodes: Episodes) -> Markup:
    """Every episode, the last one unfolded; a line in words for a run that began none."""
    if not episodes.all:
        return tag("p", "No episode was begun.", class_="quiet")
    scored = episodes.scored
    return joined(*(_episode(one, last=one is episodes.all[-1], scored=scored) for one in episodes.all))


def _episode(episode: Episode, *, last: bool, scored: bool) -> Markup:
    dot = tag("i", class_=f"dot {ink(episode)}")
    ending = [episode.trial.ending] if episode.trial else []
    score = [f"score {episode.score:.3g}"] if scored else []
    facts = " · ".join([*ending, counted(len(episode.scores), "step"), *score])
    summary = tag("summary", dot, tag("b", f"Episode {episode.number}"), tag("span", facts, class_="when"))
    return tag("details", summary, episode_inside(episode), class_="episode", **({"open": ""} if last else {}))


def episode_inside(episode: Episode) -> Markup:
    """What happened in an episode: its plan, its searches, its turns, and what it taught."""
    groups = (_group(group, episode) for group in episode.groups)
    lesson = [lesson_block(episode.lesson)] if episode.lesson else []
    return joined(*_outline(episode.supervision.first), *map(_branch, _in_order(episode)), *groups, *lesson)


def _outline(steps: Iterable[str]) -> list[Markup]:
    items = [tag("li", step) for step in steps]
    return [tag("div", tag("h3", "Plan"), tag("ol", *items), class_="lesson")] if items else []


def _in_order(episode: Episode) -> list[Branch]:
    return sorted(episode.gathering.branches, key=lambda branch: branch.number)


def _branch(branch: Branch) -> Markup:
    """One of several searches, with what it came to."""
    summary = tag(
        "summary",
        tag("span", str(branch.number), class_="number"),
        tag("span", branch.hypothesis or "(no hypothesis)", class_="action"),
        tag("span", f"{counted(branch.rounds, 'round')} · {branch.ending}", class_="when"),
        tag("span", branch.answer or "no answer", class_="round"),
    )
    return tag("details", summary, _part("found", branch.belief or "nothing"), class_="turn")


def _group(group: Group, episode: Episode) -> Markup:
    entries = [_refused(entry) if isinstance(entry, Refused) else _taken(entry, episode) for entry in group.entries]
    if group.subtask is None:
        return tag("div", *entries, class_="turns")
    status, text = group.subtask.status, group.subtask.text
    kind, mark = MARKS[status]
    points = sum(entry.points for entry in group.entries if isinstance(entry, Taken) and entry.scored)
    head = tag(
        "summary",
        tag("span", mark, class_="mark", title=status),
        tag("span", text, class_="condition"),
        _points(points) if points else joined(),
        tag("span", f"{status} · {_turns(group)}", class_="when"),
    )
    unfolded = {} if status == "completed" else {"open": ""}
    return tag("details", head, *_told(group.subtask), *entries, class_=f"subtask {kind}", **unfolded)


def _turns(group: Group) -> str:
    return counted(sum(isinstance(entry, Taken) for entry in group.entries), "turn")


def _told(subtask: Subtask) -> list[Markup]:
    reason = [tag("p", subtask.reason, class_="reason" if subtask.status == "failed" else "how")]
    given = [_part("insights given", "\n".join(subtask.insights))] if subtask.insights else []
    return [*(reason if subtask.reason else []), *given]


def _refused(entry: Refused) -> Markup:
    action = tag("span", entry.action, class_="action")
    reason = tag("span", entry.reason or "a rule forbids it", class_="reason")
    return tag("div", action, tag("span", "refused", class_="when"), reason, class_="refused")


def _taken(entry: Taken, episode: Episode) -> Markup:
    turn, gathering, prospects = entry.turn, episode.gathering, episode.prospects
    points = [_points(entry.points)] if entry.scored else []
    refusal = [gathering.signals(entry.number)] if turn.accepted else ["not accepted"]
    verdict, considered = gathering.verdict(entry.number), prospects.listing(entry.number)
    told = [*prospects.lines(entry.number), *gathering.changes(entry.number)]
    summary = tag(
        "summary",
        tag("span", str(entry.number), class_="number"),
        tag("span", turn.action, class_="action"),
        tag("span", *points, *refusal, class_="when"),
        tag("span", shortened(entry.answer, LONGEST_LINE), class_="answer"),
        *(tag("span", shortened(text, LONGEST_LINE), class_="round") for text in told),
        *([tag("span", verdict, class_="round gate")] if verdict else []),
        *map(_remark, episode.supervision.remarks(entry.number)),
    )
    thoughts = {"candidates": considered, "thought": turn.thought}
    before = (_part(name, text) for name, text in thoughts.items() if text)
    answer = _part("the world answered", shortened(turn.observation, LONGEST_ANSWER))
    return tag("details", summary, *before, answer, class_="turn" if turn.accepted else "turn rejected")


def _remark(remark: Remark) -> Markup:
    return tag("span", shortened(remark.text, LONGEST_LINE), class_="round gate" if remark.warns else "round")


def _points(points: float) -> Markup:
    return tag("span", f"{points:+.3g}", class_="points good" if points > 0 else "points bad")


def _part(name: str, text: str) -> Markup:
    return tag("p", tag("b", name), text, class_="part")

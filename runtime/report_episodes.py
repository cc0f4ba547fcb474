"""Episodes in a report: lessons, the drawing of scores, turns by subtask, and predicted rewards."""

from collections.abc import Iterable, Sequence

from certigraph.adapters.models.prompts import format_action
from certigraph.runtime.episodes import (
    EpisodeHistory,
    EpisodeSummary,
    NumberedTurn,
    RatedStep,
    RatingHistory,
    RefusedAction,
    Remark,
    SubtaskGroup,
)
from certigraph.runtime.html import Markup, join_markup, tag, total_cell
from certigraph.runtime.texts import format_count, shorten_text
from certigraph.state.rewards import FactoredState
from certigraph.state.search import Branch
from certigraph.state.step import Lesson, StepSubtask, SubtaskStatus

# Lessons.


def lesson_block(lesson: Lesson) -> Markup:
    """Show what an agent learned in an episode: reflection, insights with rules marked, and strategy."""
    parts = [*_reflection_parts(lesson), *_insight_parts(lesson), *_strategy_parts(lesson.strategy)]
    return tag("div", tag("h3", "Lesson"), tag("p", lesson.report, class_="how"), *parts, class_="lesson")


def _reflection_parts(lesson: Lesson) -> list[Markup]:
    return [tag("p", lesson.reflection)] if lesson.reflection else []


def _insight_parts(lesson: Lesson) -> list[Markup]:
    rules = set(lesson.rules)
    pill = tag("span", "rule", class_="pill")
    items = [tag("li", insight, *([" ", pill] if insight in rules else [])) for insight in lesson.insights]
    return [tag("h3", "Insights"), tag("ul", *items)] if items else []


def _strategy_parts(subtasks: Iterable[str]) -> list[Markup]:
    items = [tag("li", subtask) for subtask in subtasks]
    return [tag("h3", "Strategy"), tag("ol", *items)] if items else []


# The drawing of scores, one line an episode.

WIDTH, HEIGHT = 400, 170
LEFT, RIGHT, TOP, BOTTOM = 40, 8, 12, 30

MAX_SCORE = 100.0
"""The highest score."""

COLOUR_COUNT = 6
"""Number of colours of lines. The seventh episode has the colour of the first."""


def score_drawing(episodes: EpisodeHistory) -> Markup:
    """Draw the score after every world step as SVG, one line per episode; a notice if there was no step."""
    if not episodes.steps:
        return tag("p", "No step was taken in the world.", class_="quiet")
    scale = _ScoreScale(episodes)
    drawing = tag(
        "svg",
        _level_line(scale.y(0), "axis"),
        _level_line(scale.y(MAX_SCORE), "whole"),
        *(_score_line(episode, scale) for episode in episodes.all),
        *_axis_labels(scale),
        viewBox=f"0 0 {WIDTH} {HEIGHT}",
        role="img",
        aria_label=f"score by world step: {'; '.join(map(_describe_score, episodes.all))}",
    )
    return join_markup(drawing, _drawing_key(episodes))


def colour_class(episode: EpisodeSummary) -> str:
    """Return the CSS class for the colour of an episode."""
    return f"ink{(episode.number - 1) % COLOUR_COUNT}"


class _ScoreScale:
    def __init__(self, episodes: EpisodeHistory) -> None:
        self.steps = max(len(episode.scores) for episode in episodes.all)
        self.lowest = min([0.0, *(score for episode in episodes.all for score in episode.scores)])

    def x(self, step: float) -> float:
        return LEFT + (WIDTH - LEFT - RIGHT) * step / self.steps

    def y(self, score: float) -> float:
        return HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * (score - self.lowest) / (MAX_SCORE - self.lowest)


def _level_line(y: float, kind: str) -> Markup:
    return tag("line", x1=LEFT, x2=WIDTH - RIGHT, y1=f"{y:.1f}", y2=f"{y:.1f}", class_=kind)


def _score_line(episode: EpisodeSummary, scale: _ScoreScale) -> Markup:
    rises = (f"H{scale.x(step):.1f} V{scale.y(score):.1f}" for step, score in enumerate(episode.scores, 1))
    path = f"M{scale.x(0):.1f} {scale.y(episode.start):.1f} {' '.join(rises)}"
    return tag("path", tag("title", _describe_score(episode)), d=path, class_=f"score {colour_class(episode)}")


def _axis_labels(scale: _ScoreScale) -> list[Markup]:
    marks = sorted({scale.lowest, 0.0, MAX_SCORE})
    ticks = [tag("text", f"{mark:g}", x=LEFT - 8, y=f"{scale.y(mark) + 4:.1f}", text_anchor="end") for mark in marks]
    steps = f"{scale.steps} world step{'' if scale.steps == 1 else 's'}"
    return [*ticks, tag("text", steps, x=WIDTH - RIGHT, y=HEIGHT - 5, text_anchor="end")]


def _drawing_key(episodes: EpisodeHistory) -> Markup:
    if len(episodes.all) < 2:
        return join_markup()
    shown = (tag("span", tag("i", class_=f"dot {colour_class(e)}"), f"episode {e.number}") for e in episodes.all)
    return tag("p", *shown, class_="key")


def _describe_score(episode: EpisodeSummary) -> str:
    return f"episode {episode.number} ended at {episode.reported:g} after {len(episode.scores)}"


# The column of episodes: subtasks, turns and lessons.

MAX_ANSWER_CHARACTERS = 1_500
"""Maximum number of characters of an observation."""

MAX_LINE_CHARACTERS = 160
"""Maximum number of characters of a line in a collapsed turn."""

STATUS_MARKS: dict[SubtaskStatus, tuple[str, str]] = {
    "completed": ("certified", "✓"),
    "reported": ("certified", "✓"),
    "failed": ("failed", "✕"),
    "open": ("target", "▸"),
}
"""CSS class and mark for a subtask, by its status. They are the same as for the predicates of a plan."""


def episode_figures(episodes: EpisodeHistory) -> list[Markup]:
    """Build the totals of a run with episodes: best score, world steps and subtasks."""
    best = max((episode.score for episode in episodes.all), default=0.0)
    in_all = f"of 100, in {format_count(len(episodes.all), 'episode')}"
    shown = [total_cell("best score", f"{best:.3g}", in_all)] if episodes.scored else []
    shown.append(total_cell("world steps", f"{episodes.steps:,}", "in all episodes"))
    completed, failed = episodes.count("completed"), episodes.count("failed")
    if completed + failed + episodes.count("open"):
        shown.append(total_cell("subtasks", f"{completed:,}", f"completed, {failed:,} failed"))
    return shown


def episode_column(episodes: EpisodeHistory) -> Markup:
    """Show every episode as a section, with the last one expanded; a notice if there is no episode."""
    if not episodes.all:
        return tag("p", "No episode was begun.", class_="quiet")
    scored = episodes.scored
    return join_markup(*(_episode_details(one, last=one is episodes.all[-1], scored=scored) for one in episodes.all))


def _episode_details(episode: EpisodeSummary, *, last: bool, scored: bool) -> Markup:
    dot = tag("i", class_=f"dot {colour_class(episode)}")
    ending = [episode.trial.ending] if episode.trial else []
    score = [f"score {episode.score:.3g}"] if scored else []
    facts = " · ".join([*ending, format_count(len(episode.scores), "step"), *score])
    summary = tag("summary", dot, tag("b", f"Episode {episode.number}"), tag("span", facts, class_="when"))
    return tag("details", summary, episode_inside(episode), class_="episode", **({"open": ""} if last else {}))


def episode_inside(episode: EpisodeSummary) -> Markup:
    """Show the contents of an episode: its plan, searches for hypotheses, turns and lesson."""
    groups = (_group_details(group, episode) for group in episode.groups)
    lesson = [lesson_block(episode.lesson)] if episode.lesson else []
    return join_markup(
        *_plan_parts(episode.supervision.first), *map(_branch_details, _sorted_branches(episode)), *groups, *lesson
    )


def _plan_parts(steps: Iterable[str]) -> list[Markup]:
    items = [tag("li", step) for step in steps]
    return [tag("div", tag("h3", "Plan"), tag("ol", *items), class_="lesson")] if items else []


def _sorted_branches(episode: EpisodeSummary) -> list[Branch]:
    return sorted(episode.gathering.branches, key=lambda branch: branch.number)


def _branch_details(branch: Branch) -> Markup:
    summary = tag(
        "summary",
        tag("span", str(branch.number), class_="number"),
        tag("span", branch.hypothesis or "(no hypothesis)", class_="action"),
        tag("span", f"{format_count(branch.rounds, 'round')} · {branch.ending}", class_="when"),
        tag("span", branch.answer or "no answer", class_="round"),
    )
    return tag("details", summary, _labelled_paragraph("found", branch.belief or "nothing"), class_="turn")


def _group_details(group: SubtaskGroup, episode: EpisodeSummary) -> Markup:
    entries = [
        _refused_action(entry) if isinstance(entry, RefusedAction) else _turn_details(entry, episode)
        for entry in group.entries
    ]
    if group.subtask is None:
        return tag("div", *entries, class_="turns")
    status, text = group.subtask.status, group.subtask.text
    kind, mark = STATUS_MARKS[status]
    points = sum(entry.points for entry in group.entries if isinstance(entry, NumberedTurn) and entry.scored)
    head = tag(
        "summary",
        tag("span", mark, class_="mark", title=status),
        tag("span", text, class_="condition"),
        _points_badge(points) if points else join_markup(),
        tag("span", f"{status} · {_format_turn_count(group)}", class_="when"),
    )
    unfolded = {} if status in ("completed", "reported") else {"open": ""}
    return tag("details", head, *_subtask_parts(group.subtask), *entries, class_=f"subtask {kind}", **unfolded)


def _format_turn_count(group: SubtaskGroup) -> str:
    return format_count(sum(isinstance(entry, NumberedTurn) for entry in group.entries), "turn")


def _subtask_parts(subtask: StepSubtask) -> list[Markup]:
    reason = [tag("p", subtask.reason, class_="reason" if subtask.status == "failed" else "how")]
    insights = [_labelled_paragraph("insights given", "\n".join(subtask.insights))] if subtask.insights else []
    return [*(reason if subtask.reason else []), *insights]


def _refused_action(entry: RefusedAction) -> Markup:
    action = tag("span", entry.action, class_="action")
    reason = tag("span", entry.reason or "a rule forbids it", class_="reason")
    return tag("div", action, tag("span", "refused", class_="when"), reason, class_="refused")


def _turn_details(entry: NumberedTurn, episode: EpisodeSummary) -> Markup:
    turn, gathering, prospects = entry.turn, episode.gathering, episode.prospects
    points = [_points_badge(entry.points)] if entry.scored else []
    refusal = [gathering.signals(entry.number)] if turn.accepted else ["not accepted"]
    verdict, considered = gathering.verdict(entry.number), prospects.listing(entry.number)
    lines = [*prospects.lines(entry.number), *gathering.changes(entry.number)]
    summary = tag(
        "summary",
        tag("span", str(entry.number), class_="number"),
        tag("span", format_action(turn), class_="action"),
        tag("span", *points, *refusal, class_="when"),
        tag("span", shorten_text(entry.answer, MAX_LINE_CHARACTERS), class_="answer"),
        *(tag("span", shorten_text(text, MAX_LINE_CHARACTERS), class_="round") for text in lines),
        *([tag("span", verdict, class_="round gate")] if verdict else []),
        *map(_remark_line, episode.supervision.remarks(entry.number)),
    )
    thoughts = {"candidates": considered, "thought": turn.thought}
    before = (_labelled_paragraph(name, text) for name, text in thoughts.items() if text)
    answer = _labelled_paragraph("the world answered", shorten_text(turn.observation, MAX_ANSWER_CHARACTERS))
    return tag("details", summary, *before, answer, class_="turn" if turn.accepted else "turn rejected")


def _remark_line(remark: Remark) -> Markup:
    return tag("span", shorten_text(remark.text, MAX_LINE_CHARACTERS), class_="round gate" if remark.warns else "round")


def _points_badge(points: float) -> Markup:
    return tag("span", f"{points:+.3g}", class_="points good" if points > 0 else "points bad")


def _labelled_paragraph(name: str, text: str) -> Markup:
    return tag("p", tag("b", name), text, class_="part")


# Predicted rewards.

REWARDS_WIDTH, REWARDS_HEIGHT = 400, 170
REWARDS_LEFT, REWARDS_RIGHT, REWARDS_TOP, REWARDS_BOTTOM = 26, 8, 12, 30

MIN_SHOWN_GAIN = 0.005
"""Smallest change of the reward from one step to the next that is shown."""

MAX_PART_CHARACTERS = 1_500
"""Maximum number of characters of an observation or a state."""


def reward_figures(rating: RatingHistory) -> list[Markup]:
    """Build the totals of predicted rewards: number of rated steps, last and highest reward of each recording."""
    shown = [
        total_cell("steps", f"{len(rating.rated):,}", f"of {format_count(len(rating.steps), 'recorded step')} rated")
    ]
    for number, rated in enumerate(rating.recordings, 1):
        highest = max(one.reward for one in rated)
        shown.append(
            total_cell(f"recording {number}", f"{rated[-1].reward:.2f}", f"last reward, {highest:.2f} at most")
        )
    return shown


def reward_drawing(rating: RatingHistory, true: Sequence[Sequence[float]] = ()) -> Markup:
    """Draw the predicted rewards of all recordings as SVG; a notice if no step was rated.

    Args:
        rating: the rated steps.
        true: true rewards of each recording, which are drawn dashed.
    """
    if not rating.rated:
        return tag("p", "No step was rated.", class_="quiet")
    longest = max(len(rated) for rated in rating.recordings)
    lines = [
        _reward_line([one.reward for one in rated], number, longest) for number, rated in enumerate(rating.recordings)
    ]
    lines += [_reward_line(rewards, number, longest, "true") for number, rewards in enumerate(true)]
    drawing = tag(
        "svg",
        tag("line", x1=REWARDS_LEFT, x2=REWARDS_WIDTH - REWARDS_RIGHT, y1=_reward_y(0), y2=_reward_y(0), class_="axis"),
        tag(
            "line", x1=REWARDS_LEFT, x2=REWARDS_WIDTH - REWARDS_RIGHT, y1=_reward_y(1), y2=_reward_y(1), class_="whole"
        ),
        *lines,
        *(tag("text", f"{mark}", x=REWARDS_LEFT - 8, y=_reward_y(mark) + 4, text_anchor="end") for mark in (0, 1)),
        tag(
            "text",
            format_count(longest, "step"),
            x=REWARDS_WIDTH - REWARDS_RIGHT,
            y=REWARDS_HEIGHT - 5,
            text_anchor="end",
        ),
        viewBox=f"0 0 {REWARDS_WIDTH} {REWARDS_HEIGHT}",
        role="img",
        aria_label=f"predicted reward by step of {format_count(len(rating.recordings), 'recording')}",
    )
    names = [tag("span", _colour_dot(number), f"recording {number + 1}") for number in range(len(rating.recordings))]
    dashed = [tag("span", "dashed: true rewards")] if true else []
    return join_markup(drawing, tag("p", *names, *dashed, class_="key"))


def reward_column(rating: RatingHistory) -> Markup:
    """Show every recording, step by step, with the state and goal state that were compared."""
    parts = (_recording_details(rated, number) for number, rated in enumerate(rating.recordings))
    return join_markup(*parts) if rating.rated else tag("p", "No step was rated.", class_="quiet")


def _recording_details(rated: Sequence[RatedStep], number: int) -> Markup:
    facts = f"{format_count(len(rated), 'step')} · last reward {rated[-1].reward:.2f}"
    name = tag("b", f"Recording {number + 1}")
    summary = tag("summary", _colour_dot(number), name, tag("span", facts, class_="when"))
    turns = (_step_details(one, before) for one, before in zip(rated, [None, *rated], strict=False))
    return tag("details", summary, tag("div", *turns, class_="turns"), class_="episode", open="")


def _step_details(one: RatedStep, before: RatedStep | None) -> Markup:
    gain = one.reward - before.reward if before else 0.0
    look = f"points {'good' if gain > 0 else 'bad'}"
    changed = [tag("span", f"{gain:+.2f}", class_=look)] if abs(gain) > MIN_SHOWN_GAIN else []
    summary = tag(
        "summary",
        tag("span", f"{one.reward:.2f}", class_="number"),
        tag("span", one.step.action or "(looked)", class_="action"),
        tag("span", *changed),
        tag("span", one.step.observation, class_="answer"),
    )
    texts = {
        "observation": one.step.observation,
        "goal state": _format_state(one.goal),
        "state": _format_state(one.state),
    }
    shown = {name: shorten_text(text, MAX_PART_CHARACTERS) for name, text in texts.items() if text}
    parts = (tag("div", tag("b", name), text, class_="part") for name, text in shown.items())
    return tag("details", summary, *parts, class_="turn rated")


def _format_state(state: FactoredState) -> str:
    return "\n".join(sentence for entity in state.entities for sentence in entity.sentences())


def _colour_dot(number: int) -> Markup:
    return tag("i", class_=f"dot ink{number % 6}")


def _reward_line(rewards: Sequence[float], number: int, longest: int, kind: str = "") -> Markup:
    step = (REWARDS_WIDTH - REWARDS_LEFT - REWARDS_RIGHT) / max(longest - 1, 1)
    points = " L".join(
        f"{REWARDS_LEFT + step * index:.1f} {_reward_y(reward):.1f}" for index, reward in enumerate(rewards)
    )
    return tag("path", d=f"M{points}", class_=f"score ink{number % 6} {kind}".strip())


def _reward_y(reward: float) -> float:
    return REWARDS_HEIGHT - REWARDS_BOTTOM - (REWARDS_HEIGHT - REWARDS_TOP - REWARDS_BOTTOM) * reward

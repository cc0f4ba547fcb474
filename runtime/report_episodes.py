"""Episodes of a report: lessons, the score drawing, turns by subtask, and predicted rewards."""

from collections.abc import Iterable, Sequence

from certigraph.runtime.episodes import Episode, Episodes, Group, Rated, Rating, Refused, Remark, Taken
from certigraph.runtime.html import Markup, counted, figure, joined, shortened, tag
from certigraph.state.rewards import FactoredState
from certigraph.state.search import Branch
from certigraph.state.step import Lesson, Status, Subtask

# Lessons.


def lesson_block(lesson: Lesson) -> Markup:
    """Show the lesson of an episode: reflection, insights with rules marked, and strategy."""
    parts = [*_reflection(lesson), *_insights(lesson), *_strategy(lesson.strategy)]
    return tag("div", tag("h3", "Lesson"), tag("p", lesson.report, class_="how"), *parts, class_="lesson")


def _reflection(lesson: Lesson) -> list[Markup]:
    return [tag("p", lesson.reflection)] if lesson.reflection else []


def _insights(lesson: Lesson) -> list[Markup]:
    rules = set(lesson.rules)
    pill = tag("span", "rule", class_="pill")
    items = [tag("li", insight, *([" ", pill] if insight in rules else [])) for insight in lesson.insights]
    return [tag("h3", "Insights"), tag("ul", *items)] if items else []


def _strategy(subtasks: Iterable[str]) -> list[Markup]:
    items = [tag("li", subtask) for subtask in subtasks]
    return [tag("h3", "Strategy"), tag("ol", *items)] if items else []


# The drawing of scores, one line an episode.

WIDTH, HEIGHT = 400, 170
LEFT, RIGHT, TOP, BOTTOM = 40, 8, 12, 30

FULL = 100.0
"""The highest score."""

INKS = 6
"""Number of colours; the seventh episode has the colour of the first."""


def score_drawing(episodes: Episodes) -> Markup:
    """Draw the score after every world step as SVG with a key; a text if there was no step."""
    if not episodes.steps:
        return tag("p", "No step was taken in the world.", class_="quiet")
    scale = _Scale(episodes)
    drawing = tag(
        "svg",
        _level(scale.y(0), "axis"),
        _level(scale.y(FULL), "whole"),
        *(_line(episode, scale) for episode in episodes.all),
        *_labels(scale),
        viewBox=f"0 0 {WIDTH} {HEIGHT}",
        role="img",
        aria_label=f"score by world step: {'; '.join(map(_said, episodes.all))}",
    )
    return joined(drawing, _key(episodes))


def ink(episode: Episode) -> str:
    """Return the CSS class for the colour of an episode."""
    return f"ink{(episode.number - 1) % INKS}"


class _Scale:
    def __init__(self, episodes: Episodes) -> None:
        self.steps = max(len(episode.scores) for episode in episodes.all)
        self.lowest = min([0.0, *(score for episode in episodes.all for score in episode.scores)])

    def x(self, step: float) -> float:
        return LEFT + (WIDTH - LEFT - RIGHT) * step / self.steps

    def y(self, score: float) -> float:
        return HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * (score - self.lowest) / (FULL - self.lowest)


def _level(y: float, kind: str) -> Markup:
    return tag("line", x1=LEFT, x2=WIDTH - RIGHT, y1=f"{y:.1f}", y2=f"{y:.1f}", class_=kind)


def _line(episode: Episode, scale: _Scale) -> Markup:
    rises = (f"H{scale.x(step):.1f} V{scale.y(score):.1f}" for step, score in enumerate(episode.scores, 1))
    path = f"M{scale.x(0):.1f} {scale.y(episode.start):.1f} {' '.join(rises)}"
    return tag("path", tag("title", _said(episode)), d=path, class_=f"score {ink(episode)}")


def _labels(scale: _Scale) -> list[Markup]:
    marks = sorted({scale.lowest, 0.0, FULL})
    ticks = [tag("text", f"{mark:g}", x=LEFT - 8, y=f"{scale.y(mark) + 4:.1f}", text_anchor="end") for mark in marks]
    steps = f"{scale.steps} world step{'' if scale.steps == 1 else 's'}"
    return [*ticks, tag("text", steps, x=WIDTH - RIGHT, y=HEIGHT - 5, text_anchor="end")]


def _key(episodes: Episodes) -> Markup:
    if len(episodes.all) < 2:
        return joined()
    shown = (tag("span", tag("i", class_=f"dot {ink(e)}"), f"episode {e.number}") for e in episodes.all)
    return tag("p", *shown, class_="key")


def _said(episode: Episode) -> str:
    return f"episode {episode.number} ended at {episode.reported:g} after {len(episode.scores)}"


# The column of episodes: subtasks, turns and lessons.

LONGEST_ANSWER = 1_500
"""Maximum number of characters of an observation."""

LONGEST_LINE = 160
"""Maximum number of characters of a line in a folded turn."""

MARKS: dict[Status, tuple[str, str]] = {
    "completed": ("certified", "✓"),
    "failed": ("failed", "✕"),
    "open": ("target", "▸"),
}
"""Class and mark of a subtask by status, the same as for predicates of a plan."""


def episode_figures(episodes: Episodes) -> list[Markup]:
    """Build the totals of the episodes."""
    best = max((episode.score for episode in episodes.all), default=0.0)
    in_all = f"of 100, in {counted(len(episodes.all), 'episode')}"
    shown = [figure("best score", f"{best:.3g}", in_all)] if episodes.scored else []
    shown.append(figure("world steps", f"{episodes.steps:,}", "in all episodes"))
    completed, failed = episodes.count("completed"), episodes.count("failed")
    if completed + failed + episodes.count("open"):
        shown.append(figure("subtasks", f"{completed:,}", f"completed, {failed:,} failed"))
    return shown


def episode_column(episodes: Episodes) -> Markup:
    """Show every episode, the last one unfolded; a text if there is none."""
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
    """Show the contents of an episode: plan, searches, turns and lesson."""
    groups = (_group(group, episode) for group in episode.groups)
    lesson = [lesson_block(episode.lesson)] if episode.lesson else []
    return joined(*_outline(episode.supervision.first), *map(_branch, _in_order(episode)), *groups, *lesson)


def _outline(steps: Iterable[str]) -> list[Markup]:
    items = [tag("li", step) for step in steps]
    return [tag("div", tag("h3", "Plan"), tag("ol", *items), class_="lesson")] if items else []


def _in_order(episode: Episode) -> list[Branch]:
    return sorted(episode.gathering.branches, key=lambda branch: branch.number)


def _branch(branch: Branch) -> Markup:
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
    insights = [_part("insights given", "\n".join(subtask.insights))] if subtask.insights else []
    return [*(reason if subtask.reason else []), *insights]


def _refused(entry: Refused) -> Markup:
    action = tag("span", entry.action, class_="action")
    reason = tag("span", entry.reason or "a rule forbids it", class_="reason")
    return tag("div", action, tag("span", "refused", class_="when"), reason, class_="refused")


def _taken(entry: Taken, episode: Episode) -> Markup:
    turn, gathering, prospects = entry.turn, episode.gathering, episode.prospects
    points = [_points(entry.points)] if entry.scored else []
    refusal = [gathering.signals(entry.number)] if turn.accepted else ["not accepted"]
    verdict, considered = gathering.verdict(entry.number), prospects.listing(entry.number)
    lines = [*prospects.lines(entry.number), *gathering.changes(entry.number)]
    summary = tag(
        "summary",
        tag("span", str(entry.number), class_="number"),
        tag("span", turn.action, class_="action"),
        tag("span", *points, *refusal, class_="when"),
        tag("span", shortened(entry.answer, LONGEST_LINE), class_="answer"),
        *(tag("span", shortened(text, LONGEST_LINE), class_="round") for text in lines),
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


# Predicted rewards.

REWARDS_WIDTH, REWARDS_HEIGHT = 400, 170
REWARDS_LEFT, REWARDS_RIGHT, REWARDS_TOP, REWARDS_BOTTOM = 26, 8, 12, 30

LEAST_GAIN = 0.005
"""Minimum change of the reward that is shown."""

LONGEST_PART = 1_500
"""Maximum number of characters of an observation or a state."""


def reward_figures(rating: Rating) -> list[Markup]:
    """Build the totals: number of rated steps, and the last and highest reward of each recording."""
    shown = [figure("steps", f"{len(rating.rated):,}", f"of {counted(len(rating.steps), 'recorded step')} rated")]
    for number, rated in enumerate(rating.recordings, 1):
        highest = max(one.reward for one in rated)
        shown.append(figure(f"recording {number}", f"{rated[-1].reward:.2f}", f"last reward, {highest:.2f} at most"))
    return shown


def reward_drawing(rating: Rating, true: Sequence[Sequence[float]] = ()) -> Markup:
    """Draw the rewards of all recordings as SVG, true rewards dashed; a text if nothing was rated."""
    if not rating.rated:
        return tag("p", "No step was rated.", class_="quiet")
    longest = max(len(rated) for rated in rating.recordings)
    lines = [
        _reward_line([one.reward for one in rated], number, longest) for number, rated in enumerate(rating.recordings)
    ]
    lines += [_reward_line(rewards, number, longest, "true") for number, rewards in enumerate(true)]
    drawing = tag(
        "svg",
        tag("line", x1=REWARDS_LEFT, x2=REWARDS_WIDTH - REWARDS_RIGHT, y1=_y(0), y2=_y(0), class_="axis"),
        tag("line", x1=REWARDS_LEFT, x2=REWARDS_WIDTH - REWARDS_RIGHT, y1=_y(1), y2=_y(1), class_="whole"),
        *lines,
        *(tag("text", f"{mark}", x=REWARDS_LEFT - 8, y=_y(mark) + 4, text_anchor="end") for mark in (0, 1)),
        tag("text", counted(longest, "step"), x=REWARDS_WIDTH - REWARDS_RIGHT, y=REWARDS_HEIGHT - 5, text_anchor="end"),
        viewBox=f"0 0 {REWARDS_WIDTH} {REWARDS_HEIGHT}",
        role="img",
        aria_label=f"predicted reward by step of {counted(len(rating.recordings), 'recording')}",
    )
    names = [tag("span", _dot(number), f"recording {number + 1}") for number in range(len(rating.recordings))]
    dashed = [tag("span", "dashed: true rewards")] if true else []
    return joined(drawing, tag("p", *names, *dashed, class_="key"))


def reward_column(rating: Rating) -> Markup:
    """Show every recording, step by step, with the states that were compared."""
    parts = (_recording(rated, number) for number, rated in enumerate(rating.recordings))
    return joined(*parts) if rating.rated else tag("p", "No step was rated.", class_="quiet")


def _recording(rated: Sequence[Rated], number: int) -> Markup:
    facts = f"{counted(len(rated), 'step')} · last reward {rated[-1].reward:.2f}"
    name = tag("b", f"Recording {number + 1}")
    summary = tag("summary", _dot(number), name, tag("span", facts, class_="when"))
    turns = (_step(one, before) for one, before in zip(rated, [None, *rated], strict=False))
    return tag("details", summary, tag("div", *turns, class_="turns"), class_="episode", open="")


def _step(one: Rated, before: Rated | None) -> Markup:
    gain = one.reward - before.reward if before else 0.0
    look = f"points {'good' if gain > 0 else 'bad'}"
    changed = [tag("span", f"{gain:+.2f}", class_=look)] if abs(gain) > LEAST_GAIN else []
    summary = tag(
        "summary",
        tag("span", f"{one.reward:.2f}", class_="number"),
        tag("span", one.step.action or "(looked)", class_="action"),
        tag("span", *changed),
        tag("span", one.step.observation, class_="answer"),
    )
    texts = {
        "observation": one.step.observation,
        "goal state": _reward_text(one.goal),
        "state": _reward_text(one.state),
    }
    shown = {name: shortened(text, LONGEST_PART) for name, text in texts.items() if text}
    parts = (tag("div", tag("b", name), text, class_="part") for name, text in shown.items())
    return tag("details", summary, *parts, class_="turn rated")


def _reward_text(state: FactoredState) -> str:
    return "\n".join(sentence for entity in state.entities for sentence in entity.sentences())


def _dot(number: int) -> Markup:
    return tag("i", class_=f"dot ink{number % 6}")


def _reward_line(rewards: Sequence[float], number: int, longest: int, kind: str = "") -> Markup:
    step = (REWARDS_WIDTH - REWARDS_LEFT - REWARDS_RIGHT) / max(longest - 1, 1)
    points = " L".join(f"{REWARDS_LEFT + step * index:.1f} {_y(reward):.1f}" for index, reward in enumerate(rewards))
    return tag("path", d=f"M{points}", class_=f"score ink{number % 6} {kind}".strip())


def _y(reward: float) -> float:
    return REWARDS_HEIGHT - REWARDS_BOTTOM - (REWARDS_HEIGHT - REWARDS_TOP - REWARDS_BOTTOM) * reward

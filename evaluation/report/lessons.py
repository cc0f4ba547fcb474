"""What an episode taught: its insights with the rules among them marked, its strategy, its reflection."""

from collections.abc import Iterable

from certigraph.evaluation.report.html import Markup, tag
from certigraph.state.lessons import Lesson


def lesson_block(lesson: Lesson) -> Markup:
    """The lesson under its episode."""
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

"""What a report tells of a run beyond its cost: of its task graph, its plan, or its episodes."""

from typing import Any, NamedTuple

from certigraph.evaluation.report.episode import Episode
from certigraph.evaluation.report.episodes import Episodes, read_episodes
from certigraph.evaluation.report.graph_drawing import graph_drawing
from certigraph.evaluation.report.html import Markup, joined, tag
from certigraph.evaluation.report.plan import plan_column, plan_figures
from certigraph.evaluation.report.progress import progress_drawing
from certigraph.evaluation.report.rated import Rating, read_rating
from certigraph.evaluation.report.rewards import reward_column, reward_drawing, reward_figures
from certigraph.evaluation.report.scores import score_drawing
from certigraph.evaluation.report.story import Story, read_story
from certigraph.evaluation.report.task_graph import TaskGraph, read_task_graph
from certigraph.evaluation.report.tasks import inner_run, task_column, task_cost, task_figures
from certigraph.evaluation.report.timeline import timeline
from certigraph.evaluation.report.turns import episode_column, episode_figures, episode_inside
from certigraph.state.rewarding import TRUE_REWARDS
from certigraph.state.trajectory import Footer, Trajectory


class Told(NamedTuple):
    """What differs between runs by their kind."""

    goal: tuple[str, str]
    """Look and words of the badge that says that the goal was reached."""
    certifies: bool
    figures: list[Markup]
    column: Markup
    drawings: list[Markup]
    wide: tuple[Markup, ...] = ()
    """What takes the whole width, above column and drawings."""
    answers: bool = True
    """Whether what the run handed in is to be shown as its answer."""
    forced: bool = False
    """Whether a policy let the goal pass, which is then certified by nobody."""


def told_of(trajectory: Trajectory) -> Told:
    """What to tell of the run."""
    tasks, episodes = read_task_graph(trajectory), read_episodes(trajectory)
    rating = read_rating(trajectory.events)
    if rating.steps:
        return _of_rewards(rating, trajectory.footer)
    if tasks.drawn:
        return _of_tasks(tasks, trajectory)
    return _of_episodes(episodes) if episodes.acting else _of_plan(read_story(trajectory), episodes)


def section(title: str, inside: Markup) -> Markup:
    """A part of the page under its title."""
    return tag("section", tag("h2", title), inside)


def _of_plan(story: Story, episodes: Episodes) -> Told:
    drawings = [section("Progress", progress_drawing(story))]
    if episodes.graded:
        drawings.append(section("Score by step", score_drawing(episodes)))
    goal = ("good", "goal certified")
    return Told(goal, True, plan_figures(story), section("Plan", plan_column(story)), drawings, forced=story.forced)


def _of_episodes(episodes: Episodes) -> Told:
    drawings = [section("Score by step", score_drawing(episodes))] if episodes.scored or not episodes.steps else []
    column = section("Episodes", episode_column(episodes))
    return Told(("good", "goal reached"), False, episode_figures(episodes), column, drawings)


def _of_rewards(rating: Rating, footer: Footer | None) -> Told:
    answer = footer.scores.answer if footer and footer.scores else None
    true: Any = answer.get(TRUE_REWARDS, ()) if isinstance(answer, dict) else ()
    drawings = [section("Predicted reward by step", reward_drawing(rating, true))]
    column = section("Recordings", reward_column(rating))
    return Told(("idle", "rated"), False, reward_figures(rating), column, drawings, answers=False)


def _of_tasks(tasks: TaskGraph, trajectory: Trajectory) -> Told:
    wide = (section("Task graph", graph_drawing(tasks)), section("Timeline", timeline(tasks)))
    column = section("Sub-tasks", task_column(tasks, trajectory, _inside))
    drawings = [*_score(tasks, trajectory), section("Cost by sub-task", task_cost(tasks, trajectory))]
    # what the Supervisor calls completed is its word: whether it is right, the score says
    return Told(("idle", "task graph completed"), False, task_figures(tasks), column, drawings, wide)


def _score(tasks: TaskGraph, trajectory: Trajectory) -> list[Markup]:
    """The score along the steps of all nodes, where they work one after the other in a world that tells one."""
    whole = Episodes()
    whole.all.append(Episode(1))
    for worked in sorted((w for w in tasks.nodes.values() if w.spans), key=lambda worked: worked.spans[0]):
        inner = read_episodes(inner_run(worked, trajectory))
        whole.graded |= inner.graded
        whole.now.scores += [score for episode in inner.all for score in episode.scores]
    return [section("Score by step", score_drawing(whole))] if whole.graded else []


def _inside(run: Trajectory) -> Markup:
    """What the graph of one node did, briefly."""
    tasks, episodes = read_task_graph(run), read_episodes(run)
    if tasks.nodes:
        return task_column(tasks, run, _inside)
    if episodes.acting:
        return joined(*map(episode_inside, episodes.all))
    return plan_column(read_story(run)) if run.events else joined()

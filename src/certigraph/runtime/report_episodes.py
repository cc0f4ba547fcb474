"""Totals of runs with episodes and of runs that predict rewards, for a report."""

from certigraph.runtime.episodes import EpisodeHistory, RatingHistory
from certigraph.runtime.pages import Total
from certigraph.runtime.texts import format_count


def episode_totals(episodes: EpisodeHistory) -> list[Total]:
    """Return the totals of a run with episodes: best score, world steps and subtasks."""
    best = max((episode.score for episode in episodes.all), default=0.0)
    in_all = f"of 100, in {format_count(len(episodes.all), 'episode')}"
    totals = [Total("best score", f"{best:.3g}", in_all)] if episodes.scored else []
    totals.append(Total("world steps", f"{episodes.steps:,}", "in all episodes"))
    completed, failed = episodes.count("completed"), episodes.count("failed")
    if completed + failed + episodes.count("open"):
        totals.append(Total("subtasks", f"{completed:,}", f"completed, {failed:,} failed"))
    return totals


def reward_totals(rating: RatingHistory) -> list[Total]:
    """Return the totals of predicted rewards: number of rated steps, last and highest reward of each recording."""
    rated = Total("steps", f"{len(rating.rated):,}", f"of {format_count(len(rating.steps), 'recorded step')} rated")
    return [
        rated,
        *(
            Total(
                f"recording {number}",
                f"{steps[-1].reward:.2f}",
                f"last reward, {max(one.reward for one in steps):.2f} at most",
            )
            for number, steps in enumerate(rating.recordings, 1)
        ),
    ]

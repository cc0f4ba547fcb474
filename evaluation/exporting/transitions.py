"""A run's transitions as rows: state, action, the world's answer, and what was certified of it (SDP section 3.2)."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from certigraph.evaluation.exporting.clean import cleaned, method_name
from certigraph.evaluation.exporting.rounds import Round, rounds
from certigraph.evaluation.exporting.scopes import parts_of
from certigraph.evaluation.settings import model_name
from certigraph.evaluation.sound import legible
from certigraph.state.certified import CertifiedState, certified_states
from certigraph.state.endings import GOAL
from certigraph.state.records import Action, Certificate, Observation
from certigraph.state.trajectory import Event, Trajectory


@dataclass(frozen=True)
class Move:
    """An action that the world answered, and the observation before it."""

    part: Round
    action: Action
    before: str
    answer: Observation


@dataclass
class Episode:
    """The moves between two resets, and the certified states they lead through."""

    subtask: str = ""
    number: int | None = None
    """Of a sub-task, which is an episode of its own; else its rounds know it."""
    moves: list[Move] = field(default_factory=list)
    seen: str = ""

    def take(self, part: Round) -> None:
        """Add a round; those in which the world did not answer are no transition."""
        if part.action and part.observation:
            self.moves.append(Move(part, part.action, self.seen, part.observation))
        self.seen = part.observation.text if part.observation else self.seen

    def certificates(self) -> list[Certificate]:
        """The certificates in order."""
        return [move.part.certificate for move in self.moves if move.part.certificate]


def rows_of(trajectory: Trajectory) -> Iterator[dict[str, Any]]:
    """The rows of a run, in the order of its actions (columns: parquet.SCHEMA). Raises Fault where they make none."""
    with legible(trajectory.header.run_id):
        yield from _run(cleaned(trajectory))


def _run(run: Trajectory) -> Iterator[dict[str, Any]]:
    header, ending = run.header, run.ending
    about = {
        "run_id": header.run_id,
        "benchmark": header.task.benchmark,
        "sample_id": header.task.id,
        "method": method_name(header),
        "graph": header.graph,
        "model": model_name(str(header.context.get("model", ""))),
        "trial": header.context.get("trial", 0),
        "ending": ending,
    }
    episodes = _episodes(run)
    for episode in episodes:
        reached = ending == GOAL and episode is episodes[-1]
        for row in _rows(episode, reached=reached):
            yield {**about, **row}


def _episodes(run: Trajectory) -> list[Episode]:
    parts = parts_of(run.events)
    episodes = list(_own_episodes(parts.own))
    for number, part in enumerate(parts.inner, 1):
        episodes.append(Episode(part.subtask, number))
        for found in rounds(part.events):
            episodes[-1].take(found)
    return [episode for episode in episodes if episode.moves]


def _own_episodes(events: Iterable[Event]) -> Iterator[Episode]:
    episode = Episode()
    for part in rounds(events):
        if part.resets:
            yield episode
            episode = Episode()
        episode.take(part)
    yield episode


def _rows(episode: Episode, *, reached: bool) -> Iterator[dict[str, Any]]:
    states, at = certified_states(episode.certificates()), 0
    for t, move in enumerate(episode.moves):
        last = t == len(episode.moves) - 1
        before, at = states[at], at + (move.part.certificate is not None)
        done = last and (move.answer.done or reached)
        after = {"next_state": _texts(states[at]), "done": done, "truncated": last and not done}
        number = episode.number or move.part.episode
        where = {"episode": number, "subtask": episode.subtask or None, "t": t, "state": _texts(before)}
        yield {**where, **_action(move), **_judged(move.part), **after, **_cost(move.part)}


def _action(move: Move) -> dict[str, Any]:
    return {
        "node": move.part.node,
        "obs": move.before,
        "target": move.part.target or None,
        "thought": move.part.thought or None,
        "action": move.action.text,
        "next_obs": move.answer.text,
        "accepted": move.answer.accepted,
        "reward": move.answer.reward,
        "logprob": None,
    }


def _judged(part: Round) -> dict[str, Any]:
    attempt, certificate = part.attempt, part.certificate
    forced = certificate.forced if certificate else ""
    earned = None if forced else certificate
    refused = bool(forced) or (attempt is not None and attempt.verdict.depth == 0)
    found = attempt.verdict.finding if attempt else None
    return {
        "certified": earned is not None,
        "forced": forced or None,
        "r_cert": earned.depth if earned else 0 if refused else None,
        "predicates": [predicate.text for predicate in earned.targets] if earned else [],
        "restores": certificate.restores if certificate else None,
        "reason": attempt.verdict.reason if attempt else None,
        "finding": found.text if found else None,
        "sources": list(found.sources) if found else [],
        "against": list(found.against) if found else [],
    }


def _cost(part: Round) -> dict[str, Any]:
    usage = part.usage.model_dump(exclude={"node"})
    return {name: usage[name] for name in ("calls", "input_tokens", "output_tokens", "cached_tokens", "usd", "seconds")}


def _texts(state: CertifiedState) -> Sequence[str]:
    return [predicate.text for predicate in state.predicates]

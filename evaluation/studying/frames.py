"""The study's runs as pandas frames: what every table of it is computed from."""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import pandas as pd

from certigraph.adapters.protocols import Operator
from certigraph.evaluation.studying.arms import ON
from certigraph.evaluation.studying.counterfactual import blend_of
from certigraph.evaluation.studying.gaps import GAPS
from certigraph.evaluation.studying.reading import Seen
from certigraph.evaluation.studying.replay import replays_of
from certigraph.evaluation.studying.spending import GATE, spending_of, tokens_of
from certigraph.evaluation.studying.upkeep import upkeep_of

Columns = Mapping[str, str]

KEY: Columns = dict.fromkeys(("method", "harness", "memory", "gate", "variant", "benchmark", "task"), "str")
RUN: Columns = {**KEY, "trial": "Int64", "run": "str"}
EPISODES: Columns = {
    **RUN,
    "ending": "str",
    "score": "float64",
    **dict.fromkeys(("rounds", "calls", "tokens", "prompt_tokens", "fired"), "Int64"),
    "blended_score": "float64",
    **dict.fromkeys(("blended_tokens", "answer_tokens"), "Int64"),
    **dict.fromkeys(("reorganisations", "reorganisation_calls", "reorganisation_tokens"), "Int64"),
    "artefact": "boolean",
    "hops": "Int64",
    **dict.fromkeys((gap.name for gap in GAPS), "boolean"),
}
ROUNDS: Columns = {**RUN, **dict.fromkeys(("round", "agent", "memory_node", "tokens"), "Int64")}
REPLAYS: Columns = {**RUN, "setting": "str", "fired": "Int64", "saved": "Int64", "tokens": "Int64"}


class Frames(NamedTuple):
    """Three frames of finished runs; each begins with the columns of RUN.

    episodes: a line a run. `score` and `blended_score` from 0 to 100; `tokens`, `calls` and `prompt_tokens` are the
        natural run's, without what a shadow gate asked; `fired` is the gate's round from 1, empty where it never did.
        `rounds` are those of search. `reorganisations` and `artefact` are told of conditions that can have them.
    rounds: prompt tokens of the agent and of the memory in each round, and all tokens of it but the gate's.
    replays: the rounds at which other settings of the gate would have fired, of runs that no gate stopped.
    """

    episodes: pd.DataFrame
    rounds: pd.DataFrame
    replays: pd.DataFrame


def frames_of(several: Iterable[Seen], gates: Mapping[str, Operator]) -> Frames:
    """Read runs into frames, one at a time; `gates` are the settings to replay, by name."""
    episodes: list[dict[str, Any]] = []
    rounds: list[dict[str, Any]] = []
    replays: list[dict[str, Any]] = []
    for seen in several:
        key = _key(seen)
        episodes.append({**key, **_episode(seen)})
        rounds += [{**key, **line} for line in _rounds(seen)]
        if seen.arm.gate != ON:
            tokens = episodes[-1]["tokens"]
            replays += [{**key, **line._asdict(), "tokens": tokens} for line in replays_of(seen, gates)]
    return Frames(_frame(episodes, EPISODES), _frame(rounds, ROUNDS), _frame(replays, REPLAYS))


def _key(seen: Seen) -> dict[str, Any]:
    header = seen.trajectory.header
    arm = {"method": seen.arm.name, **seen.arm._asdict()}
    return {
        **arm,
        "benchmark": header.task.benchmark,
        "task": header.task.id,
        "trial": seen.trial,
        "run": header.run_id,
    }


def _episode(seen: Seen) -> dict[str, Any]:
    blend, upkeep = blend_of(seen), upkeep_of(seen)
    natural = [event for event in seen.events if event.node != GATE or seen.arm.gate == ON]
    return {
        "ending": seen.trajectory.ending,
        "score": 100 * seen.score,
        "rounds": len(seen.rounds),
        "calls": sum(event.usage.calls for event in natural),
        "tokens": tokens_of(natural),
        "prompt_tokens": sum(event.usage.input_tokens for event in natural),
        "fired": blend.fired,
        "blended_score": 100 * blend.blended,
        "blended_tokens": blend.blended_tokens,
        "answer_tokens": blend.answer_tokens,
        "reorganisations": upkeep.reorganisations,
        "reorganisation_calls": upkeep.calls,
        "reorganisation_tokens": upkeep.tokens,
        "artefact": upkeep.artefact,
        "hops": seen.truth.hops,
        **{gap.name: gap.shows(seen) for gap in GAPS},
    }


def _rounds(seen: Seen) -> list[dict[str, Any]]:
    """The agent's decision to answer counts as one more round."""
    return [
        {"round": spent.number, "agent": spent.agent, "memory_node": spent.memory, "tokens": spent.tokens}
        for spent in spending_of(seen.events)
    ]


def _frame(rows: list[dict[str, Any]], columns: Columns) -> pd.DataFrame:
    """Typed columns in a fixed order, also where there is no row."""
    return pd.DataFrame(rows, columns=list(columns), dtype="object").astype(dict(columns))

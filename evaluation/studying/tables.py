"""Every table of the study by name: pure functions of the frames, each written as CSV under its name."""

from collections.abc import Callable
from functools import partial
from typing import Any

import pandas as pd

from certigraph.evaluation.anatomy.intervals import COLUMNS, Told, average_of, grouped, ratio_of, share_of
from certigraph.evaluation.studying import gating
from certigraph.evaluation.studying.effects import effects, effects_by_hops
from certigraph.evaluation.studying.frames import Frames
from certigraph.evaluation.studying.gaps import GAPS
from certigraph.evaluation.studying.pareto import pareto

ARM = ["method", "harness", "memory", "gate", "variant"]

THOUSAND = 1_000

Tables = dict[str, pd.DataFrame]


def scores(frames: Frames) -> pd.DataFrame:
    """Mean `score` (0 to 100), `tokens`, `calls` and `rounds` a run of each arm, with 95 % intervals."""
    tops = {"score": 100.0, "tokens": None, "calls": None, "rounds": None}
    return _each(frames.episodes, ARM, {name: partial(_average, name, top) for name, top in tops.items()})


def hops(frames: Frames) -> pd.DataFrame:
    """Mean score of each arm by the number of gold passages that a question takes."""
    known = frames.episodes.dropna(subset=["hops"]).sort_values("hops", kind="stable")
    return grouped(known, [*ARM, "hops"], partial(_average, "score", 100.0))


def reorganisation(frames: Frames) -> pd.DataFrame:
    """What curating the belief takes (CGDP, H.4): of which part of runs, and of those that did, calls and tokens.

    `share of tokens` is of all tokens of the runs that reorganised, `tokens a call` of the reorganisations' calls.
    """
    kept = frames.episodes.dropna(subset=["reorganisations"])
    did = kept[kept["reorganisations"] > 0]
    parts = (
        _each(kept, ARM, {"share of runs": lambda rows: share_of(rows, rows["reorganisations"] > 0)}),
        _each(
            did,
            ARM,
            {
                "calls": partial(_average, "reorganisation_calls", None),
                "tokens": partial(_average, "reorganisation_tokens", None),
                "tokens a call": partial(_ratio, "reorganisation_tokens", "reorganisation_calls"),
                "share of tokens": partial(_ratio, "reorganisation_tokens", "tokens"),
            },
        ),
    )
    return pd.concat(parts, ignore_index=True)


def artefacts(frames: Frames) -> pd.DataFrame:
    """Share of runs in which an open question of a structured belief says that nothing is known (CGDP, table 4)."""
    told = frames.episodes.dropna(subset=["artefact"])
    return grouped(told, ARM, lambda rows: share_of(rows, rows["artefact"].astype(bool)))


def gaps(frames: Frames) -> pd.DataFrame:
    """Runs of each arm that show each gap: how many (`shown`), of how many in which it can be told, and the share."""
    found = [_gap(frames.episodes, gap.name) for gap in GAPS]
    return pd.concat(found, ignore_index=True)[["gap", *ARM, "shown", *COLUMNS]]


def prompts(frames: Frames) -> pd.DataFrame:
    """Prompt tokens of the agent's own question by round, over the runs that came so far."""
    return grouped(frames.rounds, [*ARM, "round"], partial(_average, "agent", None))


TABLES: dict[str, Callable[[Frames], pd.DataFrame]] = {
    "scores": scores,
    "differences": lambda frames: effects(frames.episodes),
    "gate": lambda frames: gating.gated(frames.episodes),
    "gate_by_memory": lambda frames: gating.gated_by_memory(frames.episodes),
    "fire_rounds": lambda frames: gating.fire_rounds(frames.episodes),
    "gate_replay": lambda frames: gating.replayed(frames.replays),
    "reorganisation": reorganisation,
    "artefacts": artefacts,
    "hops": hops,
    "differences_by_hops": lambda frames: effects_by_hops(frames.episodes),
    "gaps": gaps,
    "prompts": prompts,
    "pareto": lambda frames: pareto(frames.episodes),
}


def tables_of(frames: Frames) -> Tables:
    """All tables; one without a line where there is nothing to tell yet."""
    return {name: table(frames) for name, table in TABLES.items()}


def cell(value: Any) -> str:
    """A figure as a table shows it: three digits, thousands whole, `-` where there is none; yes and no in words."""
    if isinstance(value, str):
        return value
    if value is True or value is False:
        return "yes" if value else "no"
    if pd.isna(value):
        return "-"
    if not isinstance(value, float):
        return f"{value:,}"
    return f"{value:,.0f}" if abs(value) >= THOUSAND else f"{value:.3g}"


def _each(rows: pd.DataFrame, by: list[str], measures: dict[str, Callable[[pd.DataFrame], Told]]) -> pd.DataFrame:
    found = [grouped(rows, by, told).assign(measure=measure) for measure, told in measures.items()]
    return pd.concat(found, ignore_index=True)[[*by, "measure", *COLUMNS]]


def _gap(episodes: pd.DataFrame, name: str) -> pd.DataFrame:
    told = episodes.dropna(subset=[name])
    lines = grouped(told, ARM, lambda rows: share_of(rows, rows[name].astype(bool)))
    return lines.assign(gap=name, shown=(lines["n"] * lines["value"]).astype(float).round().astype("Int64"))


def _average(column: str, top: float | None, rows: pd.DataFrame) -> Told:
    return average_of(rows, rows[column], top=top)


def _ratio(above: str, below: str, rows: pd.DataFrame) -> Told:
    return ratio_of(rows, rows[above], rows[below])

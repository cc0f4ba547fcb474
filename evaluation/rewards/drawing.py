"""The figures of a measurement: distances as bars, rewards along examples, and how far supervised heads carry."""

from collections.abc import Mapping, Sequence
from typing import Any

from matplotlib.figure import Figure

from certigraph.adapters.rewardprediction.rows import Pair
from certigraph.evaluation.comparing.drawing import GREY, INKS
from certigraph.evaluation.rewardheads.transfer import Transfer
from certigraph.evaluation.rewards.rating import Rated
from certigraph.evaluation.rewards.summary import EPIC, Line

MOST_LINES = 3
"""Predictors along an example."""


def bars(lines: Sequence[Line]) -> Figure:
    """Pooled EPIC distance by domain, a bar a predictor with its 95 % interval."""
    names, domains = _unique(line.predictor for line in lines), _unique(line.domain for line in lines)
    figure = Figure(figsize=(max(6.0, 0.22 * len(names) * len(domains) + 1), 3.4), layout="constrained")
    panel: Any = figure.subplots()
    width = 0.85 / len(names)
    for place, name in enumerate(names):
        mine = [line for line in lines if line.predictor == name]
        at = [domains.index(line.domain) + (place - (len(names) - 1) / 2) * width for line in mine]
        means = [line.figures[EPIC] for line in mine]
        errors = [[m.mean - (m.mean if m.low is None else m.low) for m in means]]
        errors.append([(m.mean if m.high is None else m.high) - m.mean for m in means])
        ink, hatch = INKS[place % len(INKS)], "//" if place >= len(INKS) else None
        panel.bar(at, [m.mean for m in means], width, yerr=errors, color=ink, hatch=hatch, label=name, ecolor=GREY)
    panel.set_xticks(range(len(domains)), domains)
    panel.set_ylabel("EPIC distance, pooled")
    panel.spines[["top", "right"]].set_visible(False)
    figure.legend(loc="outside upper left", ncols=min(4, len(names)), frameon=False)
    return figure


def curves(rows: Sequence[Rated], pairs: Mapping[str, Pair], names: Sequence[str]) -> Figure:
    """Along one pair of each domain, the first predictor's median one: true rewards, and what predictors say."""
    examples = _examples([row for row in rows if row.predictor == names[0]])
    figure = Figure(figsize=(7.5, 1.7 * len(examples) + 0.6), layout="constrained")
    panels = figure.subplots(len(examples), 2, sharey=True, squeeze=False)
    for (domain, pair), line in zip(examples.items(), panels, strict=True):
        rated = [row for name in names[:MOST_LINES] for row in rows if (row.predictor, row.pair) == (name, pair)]
        for place, panel in enumerate(line):
            recording = pairs[pair].recordings[place]
            steps = range(1, len(recording.trajectory) + 1)
            true = [row.reward.shaped for row in recording.trajectory]
            panel.step(steps, true, where="mid", color=GREY, linewidth=3, alpha=0.5, label="true")
            for row in rated:
                ink = INKS[names.index(row.predictor)]
                panel.plot(steps, row.rewards[place], ".-", color=ink, linewidth=1.2, label=row.predictor)
            panel.set_title(f"{domain}, {'negative' if place else 'positive'}", fontsize=8, loc="left")
            panel.spines[["top", "right"]].set_visible(False)
    panels[0][0].set_ylim(-0.04, 1.04)
    handles, labels = panels[0][0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper left", ncols=len(labels), frameon=False)
    figure.supxlabel("step")
    return figure


def heat(transfer: Transfer) -> Figure:
    """EPIC distance of supervised heads: a row for what they were trained on, a column for what they rate."""
    size = 0.8 * len(transfer.domains)
    figure = Figure(figsize=(size + 2.2, 0.45 * len(transfer.trained) + 1.2), layout="constrained")
    panel: Any = figure.subplots()
    panel.imshow(transfer.distances, cmap="viridis_r", vmin=0.1, vmax=0.75, aspect="auto")
    for row, distances in enumerate(transfer.distances):
        for column, distance in enumerate(distances):
            ink = "white" if distance > 0.45 else "black"
            panel.text(column, row, f"{distance:.2f}", ha="center", va="center", color=ink, fontsize=8)
    panel.set_xticks(range(len(transfer.domains)), transfer.domains, rotation=20, ha="right")
    panel.set_yticks(range(len(transfer.trained)), transfer.trained)
    panel.set(xlabel="rated", ylabel="trained on")
    return figure


def _examples(rows: Sequence[Rated]) -> dict[str, str]:
    found = {}
    for domain in sorted({row.domain for row in rows}):
        ranked = sorted((row.figures[EPIC], row.pair) for row in rows if row.domain == domain)
        found[domain] = ranked[len(ranked) // 2][1]
    return found


def _unique(names: Any) -> list[str]:
    return list(dict.fromkeys(names))

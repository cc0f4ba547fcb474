"""UPR by search round: a table of its quartiles and of how often it is low, and a figure of that.

python scripts/upr_figure.py FOLDER ... --out results/upr

Each folder has a rounds.csv: that of `certigraph study cgdp`, or that of upr_paraphrased.py.
"""

import argparse
import sys
from pathlib import Path

import pandas as pd
from matplotlib.ticker import MaxNLocator

from certigraph.evaluation.plots import SERIES_COLOURS, add_panels, draw_grid, open_figure
from certigraph.studies.cgdp_tables import SIMILAR_ACTION, STALE_UPR

GROUP = ["method", "benchmark", "round"]
MIN_ROUNDS = 10
"""Minimum number of rounds of a point in the figure."""


def main() -> int:
    """Write upr.csv (by round), gate.csv (by run) and upr.png, and print both tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", type=Path, nargs="+")
    parser.add_argument("--out", type=Path, required=True)
    given = parser.parse_args()
    rounds = pd.concat(pd.read_csv(folder / "rounds.csv") for folder in given.folders).dropna(subset=["upr"])
    rounds = rounds.assign(low=rounds["upr"] <= STALE_UPR, alike=rounds["jaccard"] >= SIMILAR_ACTION)
    rounds = rounds.assign(both=rounds["low"] & rounds["alike"]).sort_values([*GROUP[:2], "task", "round"])
    groups = rounds.groupby(GROUP)
    shares, quartiles = groups[["low", "alike", "both"]].mean(), groups["upr"].quantile([0.25, 0.5, 0.75]).unstack()
    table = pd.concat([groups.size().rename("rounds"), shares, quartiles], axis=1).round(3)
    before = rounds.groupby([*GROUP[:2], "task"])["both"].shift(fill_value=False)
    runs = rounds.assign(fires=rounds["both"] & before).groupby([*GROUP[:2], "task"])[["low", "fires"]].any()
    gate = runs.groupby(GROUP[:2]).agg(runs=("low", "size"), low=("low", "mean"), fires=("fires", "mean")).round(3)
    table.to_csv(given.out / "upr.csv")
    gate.to_csv(given.out / "gate.csv")
    print(table.to_string(), gate.to_string(), sep="\n\n")
    draw(table[table["rounds"] >= MIN_ROUNDS].reset_index(), given.out / "upr")
    return 0


def draw(table: pd.DataFrame, path: Path) -> None:
    """Draw the share of rounds with low UPR, a panel a method and a line a benchmark."""
    methods, benchmarks = sorted(set(table["method"])), sorted(set(table["benchmark"]))
    with open_figure(path, 7.0, 4.2) as figure:
        for panel, method in zip(add_panels(figure, len(methods), 3), methods, strict=True):
            draw_grid(panel, "y")
            panel.set(title=method, ylim=(-0.03, 1.03), xlabel="round", ylabel=f"rounds with UPR <= {STALE_UPR}")
            panel.xaxis.set_major_locator(MaxNLocator(integer=True))
            for colour, name in zip(SERIES_COLOURS, benchmarks, strict=False):
                line = table[(table["method"] == method) & (table["benchmark"] == name)]
                panel.plot(line["round"], line["low"], marker="o", markersize=3, color=colour, label=name)
        figure.legend(*panel.get_legend_handles_labels(), loc="outside lower center", ncols=len(benchmarks))


if __name__ == "__main__":
    sys.exit(main())

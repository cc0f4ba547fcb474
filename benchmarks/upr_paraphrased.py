"""Rounds of a script that asks for each hop in several wordings, whether or not it has the answer already.

python benchmarks/upr_paraphrased.py musique:corpus --limit 100 --out DIR

No language model. The expert asks for each hop's paragraph once, by its title. This script goes on with the title and
the finding, the sub-question, and the finding, and then takes the next hop.
"""

import argparse
import csv
import sys
import tempfile
from pathlib import Path
from typing import Any

from certigraph.adapters.benchmarks import load_benchmark
from certigraph.adapters.protocols import Context
from certigraph.adapters.qa.expert import current_position
from certigraph.graphs import ircot, react
from certigraph.runtime.run import run
from certigraph.state.run import SEARCH

GRAPHS = {"ircot": ircot.build(), "react": react.build(memory="native")}


def main() -> int:
    """Run both search agents on the questions, and write their rounds."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("benchmark")
    parser.add_argument("--limit", type=int, default=100, help="number of questions")
    parser.add_argument("--out", type=Path, required=True, help="folder of rounds.csv")
    given = parser.parse_args()
    benchmark: Any = load_benchmark(given.benchmark)
    expert = benchmark.expert()

    def paraphrase(prompt: str, schema: dict[str, Any]) -> Any:
        answer, position = expert(prompt, schema), current_position(benchmark)
        query = next(filter(None, map(position.query, position.question.hops)), None)
        wordings = {"sentence": f"Next comes {query}", "tool": SEARCH, "text": query, "action": f"{SEARCH}[{query}]"}
        return {**answer, **{key: wordings[key] for key in wordings.keys() & answer}} if query else answer

    context = Context(model="scripted:expert")
    benchmark.expert = lambda: paraphrase
    given.out.mkdir(parents=True, exist_ok=True)
    with (given.out / "rounds.csv").open("w", encoding="utf-8", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(("method", "harness", "benchmark", "task", "round", "jaccard", "upr"))
        for task in benchmark.tasks()[: given.limit]:
            for name, graph in GRAPHS.items():
                with tempfile.TemporaryDirectory() as place:
                    done = run(graph, benchmark, task, context=context, out=Path(place))
                rounds = [one for event in done.trajectory.events for one in (event.update or {}).get("rounds", ())]
                for number, one in enumerate(rounds, 1):
                    values = (one["jaccard"], one["upr"]) if isinstance(one, dict) else (one.jaccard, one.upr)
                    rows.writerow((f"{name}/paraphrased", name, given.benchmark, task.id, number, *values))
    return 0


if __name__ == "__main__":
    sys.exit(main())

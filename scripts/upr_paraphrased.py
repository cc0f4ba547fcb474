"""Rounds of a script that asks for each hop in four wordings, whether or not it has the answer already.

python scripts/upr_paraphrased.py musique:corpus --limit 100 --out DIR

No language model. The expert asks for each hop's paragraph once, by its title. This script goes on with the title and
the finding, the sub-question, and the finding, and then takes the next hop. Harnesses end it after their own rounds.
"""

import argparse
import csv
import sys
import tempfile
from pathlib import Path
from typing import Any

from certigraph.adapters.benchmarks import load_benchmark
from certigraph.adapters.protocols import Context
from certigraph.benchmarks.qa.expert import MAX_QUERY_LENGTH, current_position
from certigraph.graphs import ircot, react
from certigraph.runtime.run import run
from certigraph.state.run import SEARCH

GRAPHS = {"ircot": ircot.build(), "react": react.build(memory="native")}


def main() -> int:
    """Run both search agents, and write their rounds."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("benchmark")
    parser.add_argument("--limit", type=int, default=100, help="number of questions")
    parser.add_argument("--out", type=Path, required=True, help="folder of rounds.csv")
    given = parser.parse_args()
    benchmark: Any = load_benchmark(given.benchmark)
    expert, context = benchmark.expert(), Context(model="scripted:expert")

    def paraphrase(prompt: str, schema: dict[str, Any]) -> Any:
        answer, position, queries = expert(prompt, schema), current_position(benchmark), list[str]()
        for hop in position.question.hops:
            title, finding = hop.passage.title, hop.finding
            queries += [title, f"{title} {finding}"[:MAX_QUERY_LENGTH], position.asks(hop), finding]
        query = "".join(queries[(number := len(position.state.get("rounds", ()))) : number + 1])
        fields = {"sentence": f"Next comes {query}", "tool": SEARCH, "text": query, "action": f"{SEARCH}[{query}]"}
        return {**answer, **{key: fields[key] for key in fields.keys() & answer}} if query else answer

    benchmark.expert = lambda: paraphrase
    given.out.mkdir(parents=True, exist_ok=True)
    with (given.out / "rounds.csv").open("w", encoding="utf-8", newline="") as file:
        (rows := csv.writer(file)).writerow(("method", "harness", "benchmark", "task", "round", "jaccard", "upr"))
        for task, (name, graph) in ((task, one) for task in benchmark.tasks()[: given.limit] for one in GRAPHS.items()):
            with tempfile.TemporaryDirectory() as place:
                done = run(graph, benchmark, task, context=context, out=Path(place))
            updates = [event.update or {} for event in done.trajectory.events]
            for number, one in enumerate((one for update in updates for one in update.get("rounds", ())), 1):
                signals = number, one["jaccard"], one["upr"]
                rows.writerow((f"{name}/paraphrased", name, given.benchmark, task.id, *signals))
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""What a small model's plain-text notes look like: braces, quotation marks around notes, and notes that say nothing.

python benchmarks/belief_notes.py --model local:qwen-0.5b --updates 200 --out results/belief-notes

IRCoT with the memory `freeform` searches MuSiQue; a script plays the agent, and the model writes the notes alone.
`notes.csv` has every note, and what is wrong with it.
"""

import argparse
import csv
import re
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from certigraph.adapters.benchmarks import load_benchmark
from certigraph.adapters.protocols import Context
from certigraph.graphs import ircot
from certigraph.runtime.run import run

BRACES = re.compile(r"[{}]|^\s*\[|\]\s*$")
WRAPPED = re.compile(r"^[\"'\u201c\u2018`].*[\"'\u201d\u2019`],?$")
EMPTY = re.compile(
    r"^\W*(nothing|none|n/?a|no (new|relevant|further|additional|other)\b|not applicable)", re.IGNORECASE
)
FLAWS = {"braces": BRACES, "wrapped in quotation marks": WRAPPED, "says nothing": EMPTY}
"""What is wrong with a note, and the pattern that finds it. They are looser than the rules that the memory applies."""


def main() -> int:
    """Collect the notes, write them, and print how many have which flaw."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="local:qwen-0.5b", help="writes the notes")
    parser.add_argument("--updates", type=int, default=200, help="number of updates of the memory")
    parser.add_argument("--out", type=Path, required=True, help="folder of notes.csv")
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    flaws, updates, notes = Counter[str](), 0, 0
    with (given.out / "notes.csv").open("w", encoding="utf-8", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(("task", "update", "note", "flaws"))
        for task, added in _updates(given.model, given.updates):
            updates += 1
            for note in added:
                found = [name for name, pattern in FLAWS.items() if pattern.search(note)]
                flaws.update(found)
                notes += 1
                rows.writerow((task, updates, note, "; ".join(found)))
            file.flush()
            if updates % 20 == 0:
                print(f"{updates} updates, {notes} notes", file=sys.stderr)
    print(f"{given.model}: {updates} updates, {notes} notes; " + ", ".join(f"{name}: {flaws[name]}" for name in FLAWS))
    return 0


def _updates(model: str, most: int) -> Iterator[tuple[str, list[str]]]:
    """Yield the task and the new notes of each update of the memory, at most so many."""
    benchmark, graph = load_benchmark("musique"), ircot.build(memory="freeform")
    context, left = Context(model="scripted:expert", roles={"extractor": model}), most
    for task in benchmark.tasks():
        with tempfile.TemporaryDirectory() as place:
            result = run(graph, benchmark, task, context=context, out=Path(place))
            known = list[str]()
            for event in result.trajectory.events:
                belief = (event.update or {}).get("belief")
                if event.node != "memory" or not isinstance(belief, dict):
                    continue
                written = [str(note) for note in belief.get("notes", ())]
                yield task.id, [note for note in written if note not in known]
                known, left = written, left - 1
                if not left:
                    return


if __name__ == "__main__":
    sys.exit(main())

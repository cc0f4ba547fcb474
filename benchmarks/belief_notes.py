"""What a small model's plain-text notes look like: braces, quotation marks around notes, and notes that say nothing.

python benchmarks/belief_notes.py --updates 200 --passages 2 --excerpt 240 --out results/belief-notes

IRCoT with the memory `freeform` searches MuSiQue; a script plays the agent, and the model writes the notes alone.
`replies.csv` has every reply of the model, `notes.csv` every note that the memory made of it and what is wrong with it.
"""

import argparse
import csv
import re
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.outputs import LLMResult

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


class Update(NamedTuple):
    """An update of the memory: the replies of the model (a second one where notes were shortened), and new notes."""

    task: str
    replies: list[str]
    notes: list[str]


class Replies(BaseCallbackHandler):
    """Collects what models reply."""

    def __init__(self) -> None:
        self.texts: list[str] = []

    def on_llm_end(self, response: LLMResult, **kwargs: Any) -> None:
        """Keep the text of a reply."""
        self.texts.append(response.generations[0][0].text)


def main() -> int:
    """Collect replies and notes, write them, and print how many notes have which flaw."""
    given = _parse_arguments()
    given.out.mkdir(parents=True, exist_ok=True)
    flaws, done, notes, silent = Counter[str](), 0, 0, 0
    with (
        (given.out / "notes.csv").open("w", encoding="utf-8", newline="") as noted,
        (given.out / "replies.csv").open("w", encoding="utf-8", newline="") as replied,
    ):
        note_rows, reply_rows = csv.writer(noted), csv.writer(replied)
        note_rows.writerow(("task", "update", "note", "flaws"))
        reply_rows.writerow(("task", "update", "reply"))
        for update in _updates(given):
            done += 1
            silent += not update.notes
            reply_rows.writerows((update.task, done, reply) for reply in update.replies)
            for note in update.notes:
                found = [name for name, pattern in FLAWS.items() if pattern.search(note)]
                flaws.update(found)
                notes += 1
                note_rows.writerow((update.task, done, note, "; ".join(found)))
            noted.flush()
            replied.flush()
            if done % 20 == 0:
                print(f"{done} updates, {notes} notes, {silent} updates without one", file=sys.stderr)
    found = ", ".join(f"{name}: {flaws[name]}" for name in FLAWS)
    print(f"{given.model}: {done} updates, {notes} notes, {silent} updates without one; {found}")
    return 0


def _parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="local:qwen-0.5b", help="writes the notes")
    parser.add_argument("--profile", default="", choices=("", "full", "small"), help="size of prompts")
    parser.add_argument("--updates", type=int, default=200, help="number of updates of the memory")
    parser.add_argument("--passages", type=int, default=10, help="passages that a search returns")
    parser.add_argument("--excerpt", type=int, default=1_000, help="characters of a passage in the prompt")
    parser.add_argument("--out", type=Path, required=True, help="folder of notes.csv and replies.csv")
    return parser.parse_args()


def _updates(given: argparse.Namespace) -> Iterator[Update]:
    """Yield the updates of the memory, at most as many as are wanted."""
    benchmark, graph, replies = load_benchmark("musique"), ircot.build(memory="freeform"), Replies()
    limits = benchmark.limits.model_copy(update={"passages": given.passages, "excerpt": given.excerpt})
    context = Context(
        model="scripted:expert",
        roles={"extractor": given.model},
        profile=given.profile,
        limits=limits,
        callbacks=[replies],
    )
    left = given.updates
    for task in benchmark.tasks():
        replies.texts.clear()
        with tempfile.TemporaryDirectory() as place:
            result = run(graph, benchmark, task, context=context, out=Path(place))
        for update in _read_updates(task.id, result.trajectory.events, replies.texts):
            yield update
            left -= 1
            if not left:
                return


def _read_updates(task: str, events: Any, replies: list[str]) -> Iterator[Update]:
    known, remaining = list[str](), list(replies)
    for event in events:
        said, remaining = remaining[: len(event.calls)], remaining[len(event.calls) :]
        belief = (event.update or {}).get("belief")
        if event.node != "memory" or not isinstance(belief, dict) or not said:
            continue
        written = [str(note) for note in belief.get("notes", ())]
        yield Update(task, said, [note for note in written if note not in known])
        known = written


if __name__ == "__main__":
    sys.exit(main())

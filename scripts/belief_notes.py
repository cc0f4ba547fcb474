"""What a small model's plain-text notes look like: braces, quotation marks around notes, and notes that say nothing.

python scripts/belief_notes.py --updates 200 --passages 2 --out results/belief-notes

IRCoT with the memory `freeform` searches MuSiQue; a script plays the agent, and the model writes the notes alone.
`replies.csv` has every reply of the model, `notes.csv` every note that the memory made of it and what is wrong with it.
A task's rows are written when it ends; the same command in the same folder goes on with the task after them.
"""

import argparse
import csv
import re
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from io import StringIO
from pathlib import Path
from typing import Any, NamedTuple

from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.outputs import LLMResult

from certigraph.adapters.benchmarks import load_benchmark
from certigraph.adapters.files import replace_file
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


class Rows(NamedTuple):
    """Rows of both files, which begin with the task and the number of the update."""

    replies: list[list[str]]
    notes: list[list[str]]

    @property
    def updates(self) -> int:
        """Number of updates, each of which has a reply."""
        return len({update for _, update, _ in self.replies})


HEADERS = Rows([["task", "update", "reply"]], [["task", "update", "note", "flaws"]])
FILES = Rows._fields


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
    rows = _read_rows(given.out)
    if rows.updates < given.updates:
        for updates in _tasks_updates(given, after=rows.replies[-1][0] if rows.replies else ""):
            for number, update in enumerate(updates, rows.updates + 1):
                rows.replies.extend([update.task, str(number), reply] for reply in update.replies)
                rows.notes.extend([update.task, str(number), note, _flaws_of(note)] for note in update.notes)
            _write_rows(given.out, rows)
            print(f"{rows.updates} updates, {len(rows.notes)} notes", file=sys.stderr)
            if rows.updates >= given.updates:
                break
    silent = rows.updates - len({update for _, update, *_ in rows.notes})
    flaws = Counter(flaw for *_, found in rows.notes for flaw in found.split("; "))
    found = ", ".join(f"{name}: {flaws[name]}" for name in FLAWS)
    print(f"{given.model}: {rows.updates} updates, {len(rows.notes)} notes, {silent} updates without one; {found}")
    return 0


def _flaws_of(note: str) -> str:
    return "; ".join(name for name, pattern in FLAWS.items() if pattern.search(note))


def _read_rows(folder: Path) -> Rows:
    """Read what an earlier call wrote; notes of a task without replies are of one that was stopped while writing."""
    found = list[list[list[str]]]()
    for name in FILES:
        path = folder / f"{name}.csv"
        with path.open(encoding="utf-8", newline="") if path.is_file() else StringIO() as file:
            found.append(list(csv.reader(file))[1:])
    replies, notes = found
    whole = {task for task, *_ in replies}
    return Rows(replies, [note for note in notes if note[0] in whole])


def _write_rows(folder: Path, rows: Rows) -> None:
    for name in reversed(FILES):  # the replies last: they say which tasks are whole
        with replace_file(folder / f"{name}.csv") as new, new.open("w", encoding="utf-8", newline="") as file:
            csv.writer(file).writerows([*getattr(HEADERS, name), *getattr(rows, name)])


def _parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="local:qwen-0.5b", help="writes the notes")
    parser.add_argument("--window", type=int, default=0, help="tokens of the model's context window")
    parser.add_argument(
        "--updates", type=int, default=200, help="number of updates of the memory; the last task is finished"
    )
    parser.add_argument("--passages", type=int, default=10, help="passages that a search returns")
    parser.add_argument("--out", type=Path, required=True, help="folder of notes.csv and replies.csv")
    return parser.parse_args()


def _tasks_updates(given: argparse.Namespace, after: str) -> Iterator[list[Update]]:
    """Yield the updates of the memory in each task that follows the task `after`; in all tasks if that is empty."""
    benchmark, graph, replies = load_benchmark("musique"), ircot.build(memory="freeform"), Replies()
    limits = benchmark.limits.model_copy(update={"passages": given.passages})
    context = Context(
        model="scripted:expert",
        roles={"extractor": given.model},
        window=given.window,
        limits=limits,
        callbacks=[replies],
    )
    tasks = list(benchmark.tasks())
    first = 1 + [task.id for task in tasks].index(after) if after else 0
    for task in tasks[first:]:
        replies.texts.clear()
        with tempfile.TemporaryDirectory() as place:
            result = run(graph, benchmark, task, context=context, out=Path(place))
        yield list(_read_updates(task.id, result.trajectory.events, replies.texts))


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

"""Invented questions in HotpotQA's layout, for where no data is given: twenty a split, half of them comparisons."""

from collections.abc import Iterator
from typing import Any

from certigraph.adapters.rows import Row
from certigraph.adapters.searching.generated import Invented, chains, comparisons

BRIDGES, COMPARISONS, PAGES = 10, 10, 10


def generated_rows(split: str) -> Iterator[Row]:
    """The rows of a split; the same every time."""
    for number, made in enumerate(chains(split, [2] * BRIDGES, PAGES)):
        yield _row(f"{split}-bridge-{number}", "bridge", made)
    for number, made in enumerate(comparisons(split, COMPARISONS, PAGES)):
        yield _row(f"{split}-comparison-{number}", "comparison", made)


def _row(id_: str, kind: str, made: Invented) -> Row:
    value: dict[str, Any] = {
        "_id": id_,
        "question": made.question,
        "answer": made.answer,
        "type": kind,
        "level": "easy",
        "supporting_facts": [[step.entry.title, step.entry.place(step.relation)] for step in made.steps],
        "context": [[page.title, [page.sentences[0], *(f" {s}" for s in page.sentences[1:])]] for page in made.pages],
    }
    return Row(f"generated {id_}", value)

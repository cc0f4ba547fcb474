"""Invented questions in MuSiQue's layout, for where no data is given: twenty a split, of two, three and four hops."""

from collections.abc import Iterator
from typing import Any

from certigraph.adapters.rows import Row
from certigraph.adapters.searching.generated import Invented, chains

HOPS = (2, 3, 2, 4, 2, 3, 2, 3, 2, 4, 2, 3, 2, 3, 2, 4, 2, 3, 2, 4)
PAGES = 20


def generated_rows(split: str) -> Iterator[Row]:
    """The rows of a split; the same every time."""
    for number, made in enumerate(chains(split, HOPS, PAGES)):
        yield _row(f"{len(made.steps)}hop__{split}_{number}", made)


def _row(id_: str, made: Invented) -> Row:
    numbers = {page.title: number for number, page in enumerate(made.pages)}
    gold = {step.entry.title for step in made.steps}
    value: dict[str, Any] = {
        "id": id_,
        "question": made.question,
        "answer": made.answer,
        "answer_aliases": _aliases(made),
        "answerable": True,
        "question_decomposition": [
            {
                "id": number,
                "question": step.question,
                "answer": step.answer,
                "paragraph_support_idx": numbers[step.entry.title],
            }
            for number, step in enumerate(made.steps)
        ],
        "paragraphs": [
            {
                "idx": numbers[page.title],
                "title": page.title,
                "paragraph_text": " ".join(page.sentences),
                "is_supporting": page.title in gold,
            }
            for page in made.pages
        ],
    }
    return Row(f"generated {id_}", value)


def _aliases(made: Invented) -> list[str]:
    """A county goes by its name alone too, and a river is called so."""
    relation = made.steps[-1].relation
    return {"county": [made.answer.removesuffix(" County")], "river": [f"River {made.answer}"]}.get(relation, [])

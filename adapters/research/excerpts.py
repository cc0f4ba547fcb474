"""What of a long page is shown: the paragraphs that fit what is looked for, in their own order."""

from collections.abc import Sequence

from certigraph.adapters.prompting import clipped
from certigraph.adapters.retrieval.analyzer import terms
from certigraph.adapters.retrieval.pool import Pool
from certigraph.state.passages import Passage

GAP = "[...]"
"""Stands for paragraphs that are left out."""


def excerpt(text: str, queries: Sequence[str], most: int) -> str:
    """The text, or, where it is longer than `most` characters, its paragraphs that fit the queries best.

    Rows of a table are paragraphs of their own: a long table is cut too.
    """
    if len(text) <= most:
        return text
    parts = [
        part for block in text.split("\n\n") for part in (block.split("\n") if len(block) > most // 4 else [block])
    ]
    kept, room = set[int](), most
    for place in _best_first(parts, queries):
        if (need := len(parts[place]) + len(GAP) + 2) <= room:
            kept.add(place)
            room -= need
    return _joined(parts, kept) if kept else clipped(text, most)


def _best_first(parts: Sequence[str], queries: Sequence[str]) -> list[int]:
    passages = [Passage(id=str(place), title="", text=part) for place, part in enumerate(parts) if terms(part)]
    query = " ".join(queries)
    if not passages or not terms(query):
        return list(range(len(parts)))
    found = [int(hit.passage.id) for hit in Pool(passages).search(query, len(passages))]
    return list(dict.fromkeys([*found, *range(len(parts))]))


def _joined(parts: Sequence[str], kept: set[int]) -> str:
    told, before = [], -1
    for place in sorted(kept):
        told += [GAP] * (place != before + 1) + [parts[place]]
        before = place
    return "\n".join(told)

"""The judge of `scripted:expert`: it compares words, so that judging can be tried without a model. It is no judge."""

import re
from collections.abc import Callable
from typing import Any

from certigraph.adapters.models.schemas import Schema
from certigraph.adapters.protocols import Responder
from certigraph.adapters.searching.scoring import exact_match, token_overlap

CASE = re.compile(r"Reference:\n<world>\n(.*)\n</world>\n\nAnswer:\n<world>\n(.*)\n</world>", re.DOTALL)

REASON = "words compared, without a model"


class WordJudge:
    """Stands in a context where a benchmark with its expert does."""

    def expert(self) -> Responder:
        """Answers every rubric's question by token precision and recall."""
        return verdict


def verdict(prompt: str, schema: Schema) -> dict[str, Any]:
    """A verdict of the asked form."""
    match = CASE.search(prompt)
    reference, answer = match.groups() if match else ("", "")
    shared = token_overlap(answer, reference)
    values: dict[str, Callable[[], Any]] = {
        "reason": lambda: REASON,
        "correct": lambda: bool(exact_match(answer, reference)) or shared.recall == 1.0,
        "correctness": lambda: _rating(shared.f1),
        "completeness": lambda: _rating(shared.recall),
        "irrelevance": lambda: round(10 * (1 - shared.precision)),
        "relevance": lambda: _rating(shared.precision),
    }
    return {name: values.get(name, lambda: 5)() for name in schema["properties"]}


def _rating(share: float) -> int:
    """1 to 10, which every rubric's scale has."""
    return max(1, round(10 * share))

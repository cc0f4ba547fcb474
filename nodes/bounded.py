"""Bounds on what a model writes: a small one under a grammar otherwise goes on until its token limit."""

from dataclasses import dataclass
from typing import Any

from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler
from pydantic_core import CoreSchema, core_schema

SHORT = 300
"""Characters of an answer where a name or a sentence is asked for."""


@dataclass(frozen=True)
class Cut:
    """Metadata of a text or list in an answer: what is longer is cut, where a refusal would cost another call."""

    most: int
    """Characters of a text, items of a list."""

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_after_validator_function(lambda value: value[: self.most], handler(source))

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        plain = handler(schema)
        return {**plain, "maxLength" if plain["type"] == "string" else "maxItems": self.most}


def longest_answer(benchmark: object) -> int:
    """Characters of the longest answer that a benchmark takes: a few words, unless it says otherwise."""
    return getattr(benchmark, "longest_answer", SHORT)

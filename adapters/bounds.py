"""Bounds on what a model writes: a small one under a grammar otherwise goes on until its token limit.

No bound makes an answer unusable: what is longer is cut, or read whole.
"""

from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import AfterValidator, Field, GetCoreSchemaHandler, GetJsonSchemaHandler
from pydantic_core import CoreSchema, core_schema

SHORT = 300
"""Characters of an answer where a name or a sentence is asked for."""

MOST_READ = 300
"""Items of a list that are read where fewer are allowed: mending takes time with the square of the sub-tasks."""


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


@dataclass(frozen=True)
class Within:
    """Metadata of a text in an answer whose end must not be lost: a grammar bounds it, a longer one is read whole."""

    most: int
    """Characters."""

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        return {**handler(schema), "maxLength": self.most}


def at_most(most: int, kind: Any, *, least: int = 0) -> Any:
    """A list; a model under a grammar writes no more items and no fewer.

    Of a longer list up to `MOST_READ` items are read, and at least `most` + 1: readers see that it was too long.
    """
    read = AfterValidator(lambda items: items[: max(most + 1, MOST_READ)])
    return Annotated[list[kind], Field(json_schema_extra={"minItems": least, "maxItems": most}), read]


def longest_answer(benchmark: object) -> int:
    """Characters of the longest answer that a benchmark takes: a few words, unless it says otherwise."""
    return getattr(benchmark, "longest_answer", SHORT)

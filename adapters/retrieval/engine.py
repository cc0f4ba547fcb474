"""How a passage lies in a tantivy index."""

from collections.abc import Sequence
from typing import Any

from certigraph.adapters.extras import library
from certigraph.adapters.retrieval.analyzer import terms
from certigraph.adapters.retrieval.titles import title_keys
from certigraph.state.passages import Passage

ID, TITLE, TEXT, TITLE_KEY, BODY, PLACE = "id", "title", "text", "title_key", "body", "place"
LAYOUT = 1
"""Version of the fields below; it goes into the manifest."""


def tantivy() -> Any:
    """The library. Raises Fault where it is not installed."""
    return library("tantivy", "a corpus on disk needs", "retrieval")


def engine() -> str:
    """The library's version and that of its files, as the manifest says it."""
    return str(tantivy().__version__)


def schema() -> Any:
    """The fields of a passage.

    `body` is not stored and holds the terms of title and text as our analyzer makes them, so that no second tokenizer
    has to agree with it; `place` is the passage's number in the corpus, which orders equal scores.
    """
    builder = tantivy().SchemaBuilder()
    builder.add_text_field(ID, stored=True, tokenizer_name="raw", index_option="basic")
    builder.add_text_field(TITLE_KEY, tokenizer_name="raw", index_option="basic")
    builder.add_text_field(BODY, tokenizer_name="whitespace", index_option="freq")
    for name in (TITLE, TEXT):  # as bytes, because a text field is always indexed
        builder.add_bytes_field(name, stored=True)
    builder.add_unsigned_field(PLACE, fast=True)
    return builder.build()


def document(passage: Passage, place: int) -> Any:
    """The passage as the index takes it."""
    made = tantivy().Document()
    made.add_text(ID, passage.id)
    made.add_bytes(TITLE, passage.title.encode())
    made.add_bytes(TEXT, passage.text.encode())
    made.add_text(BODY, " ".join(terms(f"{passage.title} {passage.text}")))
    made.add_unsigned(PLACE, place)
    for key in title_keys(passage.title):
        made.add_text(TITLE_KEY, key)
    return made


def passage_of(made: Any) -> Passage:
    """The passage of a stored document."""
    title, text = (bytes(made.get_first(name)).decode() for name in (TITLE, TEXT))
    return Passage(id=made.get_first(ID), title=title, text=text)


def any_of(schema: Any, field: str, values: Sequence[str]) -> list[tuple[Any, Any]]:
    """Clauses of a boolean query: each value that occurs adds its BM25, one given twice adds it twice."""
    query, should = tantivy().Query, tantivy().Occur.Should
    option = "freq" if field == BODY else "basic"
    return [(should, query.term_query(schema, field, value, option)) for value in values]

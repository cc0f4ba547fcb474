"""What every retriever offers."""

from typing import NamedTuple, Protocol

from certigraph.state.passages import Passage


class Hit(NamedTuple):
    """A passage found, and how well it fits the query in the retriever's own units: higher is better."""

    passage: Passage
    score: float


class Retriever(Protocol):
    """Finds passages by a query. Its methods block and may be called from any thread."""

    name: str

    def search(self, query: str, k: int) -> list[Hit]:
        """At most `k` passages, the best first, equal scores in the corpus's order; none for a query of stopwords."""
        ...

    def passage(self, id: str) -> Passage:
        """The passage of an id. Raises UnknownName where the corpus has none."""
        ...

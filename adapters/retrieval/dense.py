"""Passages by the cosine of their vectors with the query's: exact search, which 84,000 passages do not outgrow."""

import importlib
from collections.abc import Sequence
from pathlib import Path

from certigraph.adapters.embeddings import Encoder
from certigraph.adapters.retrieval.analyzer import terms
from certigraph.adapters.retrieval.places import places_of
from certigraph.adapters.retrieval.protocol import Hit
from certigraph.adapters.retrieval.vectors import Told, stored_vectors
from certigraph.state.endings import UnknownName
from certigraph.state.passages import Passage


class Dense:
    """Scores are cosines, -1 to 1, of all-MiniLM-L6-v2.

    A passage is encoded as its title, a full stop and its text, cut after the model's 256 word pieces; the model's
    own pooling is kept: the mean over word pieces, then length one. The query is encoded as it stands.
    """

    name = "minilm"

    def __init__(
        self, passages: Sequence[Passage], encoder: Encoder, *, folder: Path | None = None, told: Told | None = None
    ) -> None:
        """Encode the passages, about 15 a second and core.

        Args:
            passages: the corpus, in its order.
            encoder: `certigraph.adapters.embeddings.encoder()`.
            folder: where vectors are kept, in files named after model and corpus. None: in memory, in the encoder's
                cache of texts, which suits the few paragraphs that come with a question.
            told: called with how many of how many passages have their vectors; only with a folder.

        Raises:
            Fault: there are no passages, or two with one id; or as the encoder's.
        """
        self.passages = tuple(passages)
        self.places = places_of(self.passages)
        self._encoder = encoder
        texts = [encoded(passage) for passage in self.passages]
        self._vectors = stored_vectors(texts, encoder, folder, told) if folder else encoder.encode(texts)

    def search(self, query: str, k: int) -> list[Hit]:
        """At most `k` passages by falling cosine, equal ones in the corpus's order; none for a query of stopwords."""
        if not terms(query):
            return []
        numpy = importlib.import_module("numpy")
        cosines = self._vectors @ self._encoder.encode([query])[0]
        best = numpy.argsort(-cosines, kind="stable")[: max(k, 0)]
        return [Hit(self.passages[place], float(cosines[place])) for place in best]

    def passage(self, id: str) -> Passage:
        """The passage of an id. Raises UnknownName where the corpus has none."""
        if id not in self.places:
            raise UnknownName(f"no passage {id!r} among the {len(self.passages):,} of this corpus")
        return self.passages[self.places[id]]


def encoded(passage: Passage) -> str:
    """What the encoder reads of a passage."""
    return f"{passage.title}. {passage.text}" if passage.title else passage.text

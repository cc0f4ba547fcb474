"""The optional libraries behind the metrics, imported when first used."""

from functools import lru_cache
from typing import Any

from certigraph.adapters.extras import library


def measuring(module: str) -> Any:
    """A module of the extra `eval`. Raises Fault with the command that brings it."""
    return library(module, "text metrics need", "eval")


@lru_cache(maxsize=1)
def stemmer() -> Any:
    """NLTK's Porter stemmer with its own extensions, as LoCoMo's scorer uses it. Raises Fault as `measuring` does."""
    return measuring("nltk.stem.porter").PorterStemmer()

"""The optional libraries behind the metrics, imported when first used."""

from functools import lru_cache
from importlib import import_module
from typing import Any

from certigraph.state.endings import Fault


def library(module: str) -> Any:
    """A module of the extra `eval`. Raises Fault with the command that brings it."""
    try:
        return import_module(module)
    except ImportError as error:
        package = module.partition(".")[0].replace("_", "-")
        raise Fault("data", f"text metrics need {package}, missing here: pip install 'certigraph[eval]'") from error


@lru_cache(maxsize=1)
def stemmer() -> Any:
    """NLTK's Porter stemmer with its own extensions, as LoCoMo's scorer uses it. Raises Fault as `library` does."""
    return library("nltk.stem.porter").PorterStemmer()

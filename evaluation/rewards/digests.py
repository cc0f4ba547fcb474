"""What tells a rated pair from one that was rated otherwise: the predictor, the models, the pair, the rules' code."""

import hashlib
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path

from certigraph.adapters import routing as routing_code
from certigraph.adapters.context import Context
from certigraph.adapters.factoring import FACTORS
from certigraph.evaluation.comparing.plan import Method
from certigraph.state import factored as factored_code

DIGITS = 16
"""Hex digits of a digest."""


def digest_of(method: Method, context: Context, domain: str, what: str) -> str:
    """A digest of everything that decides the rewards of a pair.

    Args:
        method: the predictor.
        context: its models, by role.
        domain: whose rules may read the pair.
        what: the pair itself, in words of any kind.
    """
    models = (context.model, *(f"{role}={name}" for role, name in sorted((context.roles or {}).items())))
    code = code_of(domain) if method.graph == "statefactory" else ""
    return short(method.model_dump_json(), *models, what, code)


@lru_cache(maxsize=16)
def code_of(domain: str) -> str:
    """A digest of the code by which StateFactory reads and compares a domain's texts, as the process found it."""
    files = [Path(str(module.__file__)) for module in (routing_code, factored_code)]
    if domain in FACTORS:
        found = find_spec(FACTORS[domain].partition(":")[0])
        files += sorted(Path(found.origin).parent.glob("*.py")) if found and found.origin else []
    return short(*(file.read_text(encoding="utf-8") for file in files))


def short(*parts: str) -> str:
    """A digest of texts."""
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:DIGITS]

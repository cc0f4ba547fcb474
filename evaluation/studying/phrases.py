"""How texts say that nothing is known: what a belief's open questions should not be, and what an abstention says."""

import re

NOTHING_KNOWN = (
    "no evidence",
    "no information",
    "no relevant",
    "no mention",
    "no data",
    "no answer",
    "not found",
    "not mentioned",
    "not provided",
    "not specified",
    "not stated",
    "not available",
    "not enough information",
    "insufficient",
    "unanswerable",
    "cannot be answered",
    "cannot be determined",
    "could not be determined",
)
"""Our own list, matched as whole words in lower case."""

EMPTY = ("none", "n/a", "na", "unknown", "nothing", "")
"""The same where it is all that a text says."""

_PHRASES = re.compile(rf"\b({'|'.join(map(re.escape, NOTHING_KNOWN))})\b")


def nothing_known(text: str) -> bool:
    """Whether a text says that nothing is known, in place of a question or an answer."""
    plain = " ".join(text.lower().split())
    return plain.strip(" .?!-") in EMPTY or _PHRASES.search(plain) is not None

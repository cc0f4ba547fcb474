"""Text of models and worlds on a terminal."""

from certigraph.evaluation.report.html import clipped

LONGEST = 300


def clean(text: str, most: int = LONGEST) -> str:
    """One printable line: control characters in what a model or a world wrote must not steer the terminal."""
    return " ".join("".join(c if c.isprintable() else " " for c in clipped(text, most)).split())


def harmless(text: str) -> str:
    """A text of several lines, each printable."""
    return "\n".join("".join(c if c.isprintable() else " " for c in line) for line in text.split("\n"))

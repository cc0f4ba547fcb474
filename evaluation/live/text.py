"""Text of models and worlds on a terminal."""

LONGEST = 300


def clean(text: str, most: int = LONGEST) -> str:
    """One printable line: control characters in what a model or a world wrote must not steer the terminal."""
    cut = text if len(text) <= most else text[: most - 1] + "…"
    return " ".join("".join(c if c.isprintable() else " " for c in cut).split())

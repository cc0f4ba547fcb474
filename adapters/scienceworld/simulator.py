"""What an episode needs of ScienceWorld's simulator: the JVM (`java`) has it, and a recording of it (`twin`)."""

from typing import Protocol

VERSION = "1.2.3"
"""The simulator's release. Texts and scores of others differ."""


class Simulator(Protocol):
    """One running simulator. Its methods block, want one thread at a time, and raise Fault("environment")."""

    @property
    def alive(self) -> bool:
        """Whether it can still be used."""
        ...

    def load(self, task: str, variation: int, simplification: str) -> str:
        """Start an episode; the first look around."""
        ...

    def step(self, text: str) -> str:
        """The reply to one line of input."""
        ...

    def score(self) -> int:
        """0 to 100; -100 after a fatal mistake."""
        ...

    def moves(self) -> int:
        """Simulated moves so far: looking costs none, `wait` eleven."""
        ...

    def look(self) -> str:
        """The room, at no cost."""
        ...

    def inventory(self) -> str:
        """What the agent carries, at no cost."""
        ...

    def valid(self) -> list[str]:
        """Every action that can be meant now, hundreds to thousands; 0.1 to 0.5 s."""
        ...

    def description(self) -> str:
        """The task in words."""
        ...

    def close(self) -> None:
        """End it."""
        ...

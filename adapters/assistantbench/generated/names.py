"""Invented names. None is a real company's; hosts are under `.example`, which no one can own (RFC 2606)."""

import re
from collections.abc import Sequence
from random import Random

FIRST = ("Ada", "Bruno", "Celia", "Dorian", "Edda", "Florin", "Greta", "Hanno", "Ilka", "Jorin", "Kerstin", "Ludo")
STARTS = ("Bar", "Cor", "Dul", "Fen", "Gral", "Hol", "Jun", "Kel", "Lam", "Mer", "Nor", "Ost", "Pel", "Quo", "Ros")
MIDDLES = ("a", "e", "i", "o", "u", "ari", "eno", "ila", "omi", "une", "avo", "ety")
ENDS = ("bex", "dal", "fin", "gorn", "lund", "mar", "nith", "pell", "quist", "rov", "stra", "thane", "vick", "zell")


class Names:
    """Hands out words that it has not handed out before."""

    def __init__(self, random: Random) -> None:
        self._random, self._given = random, set[str]()

    def word(self) -> str:
        """A name of one word, for a town or a company."""
        while (word := "".join(self._random.choice(part) for part in (STARTS, MIDDLES, ENDS))) in self._given:
            pass
        self._given.add(word)
        return word

    def person(self) -> str:
        """A first name and a surname that nobody else has."""
        return f"{self._random.choice(FIRST)} {self.word()}"


def slug(text: str) -> str:
    """A name as a part of a URL."""
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")


def listed(names: Sequence[str]) -> str:
    """The names as a sentence lists them: `A, B and C`."""
    return " and ".join(filter(None, (", ".join(names[:-1]), *names[-1:])))

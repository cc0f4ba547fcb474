"""Long inputs of one piece over and over, which show readers whose time grows faster than what they read."""

import itertools
from collections.abc import Iterator
from random import Random

from fuzzing.checks import UNIT
from fuzzing.target import Target

PIECES = (
    *(
        b"a",
        b" ",
        b"\n",
        b"(",
        b"[",
        b"{",
        b'"',
        b"'",
        b"<",
        b"<a>",
        b"</a>",
        b".",
        b",",
        b"0",
        b"1.",
        b"-",
        b"a ",
        b"a.",
    ),
    *(b"a,", b": ", b"&", b"%", b"/", b"*", b"$", b"\t", b"| ", b"#", b"`", b"\\", b"= ", b"the ", b"is ", b"a and "),
    *(b"; ", b"@", b"x=", b"\x1e", b"\r\n", b"'s ", b"\xc3\xa9", b"\n- ", b"a\n"),
)
"""What words, numbers, markup and code are made of."""


def repeated_pieces(target: Target, many: int, seed: int = 0) -> Iterator[bytes]:
    """So many inputs of 100 kB: a piece again and again, behind nothing or a seed or the beginning of one."""
    random = Random(f"{seed}:{target.name}")
    heads = [b"", *target.seeds]
    for _ in range(many):
        head = random.choice(heads)
        head = head[: random.randrange(len(head) + 1)] if random.random() < 0.3 else head
        piece = random.choice([random.choice(PIECES), _cut(random.choice(target.seeds), random)]) or b"a"
        yield b"".join(itertools.islice(itertools.chain([head], itertools.repeat(piece)), UNIT // len(piece)))[:UNIT]


def _cut(seed: bytes, random: Random) -> bytes:
    """A few words of a seed, or a few characters, or all of it on a line."""
    words = seed.split(b" ")
    start, count = random.randrange(len(words)), random.randint(1, 3)
    place = random.randrange(len(seed) + 1)
    return random.choice([b" ".join(words[start : start + count]) + b" ", seed[place : place + 8], seed + b"\n"])

"""Inputs that broke a reader once, by the reader's name: each is tried again in every run of the tests."""

from collections.abc import Mapping

from fuzzing.target import join_texts
from fuzzing.trajectories import RUN

DEEP = b"[" * 3_000
DEEP_OBJECTS = b'{"a":' * 3_000
MANY_DIGITS = b"9" * 5_000
HALF = b'"\\ud800"'
LONG_WORD = b"a" * 8_000

JSON_READERS = (
    *("own.rubric", "own.cross_encoder"),
    *("trajectory.line", "trajectory.whole", "trajectory.header", "own.local", "own.counts", "own.pairs", "kept.reply"),
    *(
        "own.index_journal",
        "kept.world_plan",
        "kept.lessons",
        "rows.plain",
        "questions.hotpotqa",
        "questions.locomo",
        "questions.recall",
        "answers.musique",
    ),
    *("corpus.rows", "world.alfworld", "world.textworld", "world.recordings", "world.queries", "answer.lines"),
)

KNOWN_FAILURES: Mapping[str, tuple[bytes, ...]] = {
    **{name: (DEEP, DEEP_OBJECTS, MANY_DIGITS, HALF, b"NaN", b"[]", b"7\n", b"\xff") for name in JSON_READERS},
    "model.forms": (b"(" * 3_000, b"(" * 19_000),
    "model.action": (LONG_WORD,),
    "model.plan": (b'\n[{"' * 10_000,),
    "answer.handed_in": (DEEP,),
    "act.choice": (join_texts("9" * 5_000, "a"),),
    "act.conditions": (LONG_WORD, b"r is in" * 1_000),
    "act.memory": (b"http://[",),
    "act.web": (b"search[" + b"gym " * 30_000 + b"]",),
    "seen.alfworld": (b"\x1e",),
    "seen.objective": (b"put the " * 5_000,),
    "seen.scienceworld": (join_texts("", "look", "This room is called the kitchen. " + "a " * 30_000),),
    "seen.textworld": (
        join_texts("", "look", "the " * 20_000),
        join_texts("insert the " * 5_000, "look", ""),
        join_texts("take the k\\oy, then eat it", "look", ""),
    ),
    "seen.webshop": (join_texts("", "", "Page 1 (Total results: 50)\n" + "[button] B01 50)\n" * 5_000),),
    "questions.origins": (b"\xff",),
    "own.vectors": (b"\x93NUMPY\x01\x00v\x00{'descr': '<f4', 'fortran_order': False, '" + b" " * 65 + b"\n",),
    "world.query_table": (b"\xff", b"date\n" + b"(" * 3_000 + b"\n", b"date\n{[]: 1}\n"),
    "trajectory.state": tuple(RUN.replace(b'[{"text": "a"}]', odd) for odd in (b"7", b'"a"', b"[7]", b"null")),
    "web.local_address": (b"\xff",),
    "service.opensearch_address": (b"\xff",),
    "command.swap": (b"validate=capped:depth=" + DEEP_OBJECTS, b"validate=capped:depth=" + MANY_DIGITS),
    "command.textworld": (b"cooking-" + MANY_DIGITS + b"-0",),
}

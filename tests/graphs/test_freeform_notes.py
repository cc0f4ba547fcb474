"""Two hundred updates of freeform notes by an endpoint that answers in every way but the one that is wanted."""

import asyncio
import re
from itertools import cycle, islice

import pytest
from helpers.servers.logging_endpoint import logging_endpoint
from helpers.worlds.library_world import LibraryBenchmark
from langgraph.runtime import Runtime

from certigraph.adapters.protocols import Context
from certigraph.nodes.beliefs import freeform
from certigraph.state.records import Observation
from certigraph.state.run import Belief

UPDATES = 200

REPLIES = (
    "<scratchpad>\nIt names {{Ada}}.\n</scratchpad>\nNotes:\n- Ada {n} mapped the Ren (Ren)",
    '{{"notes": ["Bo {n} sailed the Osk (Osk)", "Nothing new."], "memories_to_keep": []}}',
    '```json\n[{{"fact": "Cy {n} built the mill (Mill)"}}]\n```',
    '"Di {n} wrote the tale (Tale)",\n}}\n',
    '{{\n  "notes": [\n    "Ed {n} owned the inn (Inn)",\n    "who is Ed\'s',
    "Nothing new.",
    "The passages add nothing new.",
    "**Notes:**\n1. Flo {n} led the guild (Guild)\n2. None.\n",
    "\u201cGus {n} rang the bell (Bell)\u201d\nN/A\n---",
    "[]",
    'Here is the JSON:\n{{"notes": ["Hal {n} kept the well (Well)"]}}',
    "'Ida {n} drew the plan (Plan)'",
)
"""Replies in turn; in each that holds a fact, a person with the number of the reply stands for it."""

PERSON = re.compile(r"(?:Ada|Bo|Cy|Di|Ed|Flo|Gus|Hal|Ida) \d+ ")
BRACES = re.compile(r"[{}\[\]`]")
WRAPPED = re.compile(r"^[\"'\u201c].*[\"'\u201d],?$")
EMPTY = re.compile(r"^\W*(nothing|none|n/?a|no new|the passages add)", re.IGNORECASE)


@pytest.mark.slow
@pytest.mark.parametrize("window", [0, 4_096])
def test_no_note_has_braces_or_wrapping_quotes_or_says_nothing(window: int):
    replies = [reply.format(n=n) for n, reply in enumerate(islice(cycle(REPLIES), UPDATES))]
    memory, beliefs = freeform(target=UPDATES, trigger=UPDATES), [Belief()]

    async def update() -> None:
        context = Context(benchmark=LibraryBenchmark(), model="openai:stub", window=window)
        task = LibraryBenchmark().task("only")
        for number in range(UPDATES):
            view = {"task": task, "belief": beliefs[-1], "observation": Observation(text=f"Page {number}.")}
            beliefs.append((await memory(view, Runtime(context=context)))["belief"])

    with (
        logging_endpoint({"text": [{"text": reply} for reply in replies]}) as endpoint,
        pytest.MonkeyPatch.context() as patch,
    ):
        patch.setenv("CERTIGRAPH_BASE_URL", endpoint.url)
        patch.setenv("OPENAI_API_KEY", "none")
        asyncio.run(update())
    assert len(endpoint.received) == UPDATES
    notes = beliefs[-1].notes
    assert [note for note in notes if BRACES.search(note) or WRAPPED.search(note) or EMPTY.search(note)] == []
    people = [person for reply in replies for person in PERSON.findall(reply)]
    assert [person for person in people if not any(person in note for note in notes)] == []

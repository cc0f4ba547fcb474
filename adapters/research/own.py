"""A question of one's own as a task: `certigraph ask`."""

import datetime
import hashlib

from certigraph.adapters.searching.telling import storable_line
from certigraph.state.endings import UnknownName
from certigraph.state.records import Task

LONGEST = 2_000
"""Characters of a question."""

GENERATED = "generated"
"""In place of a search provider: the web of the benchmark `web`, to try things out."""

MODEL = "openai:gpt-4o-mini"
"""Who answers where nobody is named."""


def asked(question: str, search: str = "", now: datetime.datetime | None = None) -> Task:
    """A question as a task, with the search providers that it names and the time at which it is asked.

    Raises:
        UnknownName: it is empty, or has more than 2,000 characters.
    """
    text = storable_line(question)
    if not text or len(text) > LONGEST:
        wrong = "is empty" if not text else f"has {len(text):,} characters"
        raise UnknownName(f"the question {wrong}: ask in 1 to {LONGEST:,} characters")
    at = now or datetime.datetime.now(datetime.UTC)
    id_ = hashlib.sha256(text.encode()).hexdigest()[:8]
    return Task(benchmark="ask", id=id_, goal=text, constants={"search": search, "asked": at.isoformat()})

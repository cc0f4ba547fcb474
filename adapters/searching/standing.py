"""Where a run stands with a question whose gold is known: what a scripted expert goes by."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from certigraph.adapters.models.situation import current_situation
from certigraph.adapters.retrieval.protocol import Retriever
from certigraph.adapters.searching.parts import own_hops
from certigraph.adapters.searching.questions import Hop, Question, substituted
from certigraph.state.endings import Fault
from certigraph.state.passages import Passage
from certigraph.state.records import Task
from certigraph.state.searching import SEARCH, asked_for, parsed

MOST_QUERY = 150
"""Characters of a query."""


class GoldSource(Protocol):
    """What the expert needs of a benchmark."""

    def gold(self, task: Task) -> Question:
        """The question with its gold answers and hops."""
        ...

    def library(self, task: Task) -> Retriever:
        """Where the passages of a task are read by id."""
        ...

    def key(self, passage: Passage) -> str:
        """What a paragraph is known by, whatever its id."""
        ...


class Standing(NamedTuple):
    """A question, the graph's state, and which of the gold paragraphs the agent has before it."""

    question: Question
    state: Mapping[str, Any]
    seen: tuple[Hop, ...]
    latest: tuple[Hop, ...]
    """Those that the last observation brought up."""
    gold_lines: tuple[int, ...]
    """The lines of the last observation, from 1, that are gold."""
    own: tuple[Hop, ...] | None = None
    """The hops of the sub-task that the run works on (TDP); none where it answers from what others found."""
    form: Mapping[str, Any] = {}
    """The fields of the answer that is asked for, each with its schema."""

    @property
    def hops(self) -> tuple[Hop, ...]:
        """The hops that the run is about: a sub-task's own, else all."""
        return self.own or self.question.hops

    @property
    def answers(self) -> tuple[str, ...]:
        """The gold answers, the best one first; of a sub-task that searches its last hop's."""
        return (self.own[-1].answer,) if self.own else self.question.answers

    @property
    def answer(self) -> str:
        """The gold answer."""
        return self.answers[0]

    @property
    def unseen(self) -> list[Hop]:
        """The hops whose paragraph is still to be found, in order."""
        return [hop for hop in (self.question.hops if self.own is None else self.own) if hop not in self.seen]

    def asks(self, hop: Hop) -> str:
        """The question of a hop with the answers of the hops before it."""
        return substituted(hop.question, [before.answer for before in self.question.hops])

    def query(self, hop: Hop) -> str | None:
        """Words that bring up the paragraph of a hop, other ones each time; None once all were tried."""
        actions = [parsed(step.action) for step in self.state.get("history", ())]
        tried = [asked_for(action) for action in actions if action and action.kind == SEARCH]
        title, told = hop.passage.title, f"{hop.passage.title} {hop.finding}"
        queries = (query.strip()[:MOST_QUERY] for query in (title, told, self.asks(hop), hop.finding))
        return next((query for query in queries if query and not any(query in words for words in tried)), None)

    def target(self) -> Hop | None:
        """The gold hop behind the head of SDP's plan; None where the question's file names none."""
        plan, head = self.state.get("plan", ()), self.state.get("head", 0)
        if not self.hops or head >= len(plan):
            return None
        index = int(str(plan[head].args.get("index", 1)))
        return self.hops[min(max(index, 1), len(self.hops)) - 1]


def standing(benchmark: GoldSource) -> Standing:
    """Where the run of the node at work stands. Raises Fault outside a run."""
    situation = current_situation()
    if situation is None:
        raise Fault("model", "the expert answers inside a run only: certigraph run ... --model scripted:expert")
    state = situation.state
    question = benchmark.gold(state["task"])
    library = benchmark.library(state["task"])

    def keys(ids: Iterable[str]) -> list[str]:
        return [benchmark.key(library.passage(id)) for id in ids]

    shown, latest = keys(_shown(state)), keys(state["observation"].sources if "observation" in state else ())
    gold = {benchmark.key(hop.passage): hop for hop in question.hops}
    return Standing(
        question,
        state,
        seen=tuple(hop for key, hop in gold.items() if key in {*shown, *latest}),
        latest=tuple(hop for key, hop in gold.items() if key in latest),
        gold_lines=tuple(number for number, key in enumerate(latest, 1) if key in gold),
        own=own_hops(question, state["task"].goal),
    )


def _shown(state: Mapping[str, Any]) -> Sequence[str]:
    """What agents that write their own history have read is in their turns; the others read what is at hand."""
    if "turns" in state:
        return [source for turn in state["turns"] for source in turn.sources]
    return list(state["evidence"].sources) if "evidence" in state else []

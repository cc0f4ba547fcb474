"""The scripted expert of search worlds."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from certigraph.adapters.models.calls import one_line
from certigraph.adapters.models.experts import least
from certigraph.adapters.models.scripted import current_situation
from certigraph.adapters.protocols import LEAST_NODES
from certigraph.adapters.qa.questions import Hop, Question, substituted
from certigraph.adapters.qa.scoring import exact_match
from certigraph.adapters.retrieval.bm25 import Retriever
from certigraph.state.records import Fault, Task
from certigraph.state.run import FINISH, SEARCH, Belief, asked_for, parsed
from certigraph.state.search import Passage

# The parts of a question that TDP's sub-tasks work on, as the scripted expert divides it and finds it again.

ANSWERING = "Answer the question from what was found."
"""The specification of the node that settles the task."""

ASSIGNED = re.compile(r"Hops? (\d+)(?: to (\d+))?: ")

ASKS = re.compile(r"#(\d+)")
"""How a hop's question stands for the answer of another."""

MOST_SPECIFICATION = 280
"""Characters of a specification."""

COMPARISON = "comparison"
"""HotpotQA's kind of question whose paragraphs need not be read in any order."""


class Part(NamedTuple):
    """Consecutive hops that make one sub-task; their numbers, from 1 and inclusive."""

    first: int
    last: int

    @property
    def id(self) -> str:
        """Its id in the task graph."""
        return f"hop-{self.first}" if self.first == self.last else f"hops-{self.first}-{self.last}"


def parts(question: Question, most: int) -> list[Part]:
    """The hops of a question in at most `most` parts, a hop each where that is enough; none where there is no room."""
    count = len(question.hops) if most else 0
    size = -(-count // most) if count else 1
    return [Part(first, min(first + size - 1, count)) for first in range(1, count + 1, size)]


def specification(question: Question, part: Part) -> str:
    """A sub-task in words that stand alone; answers of other hops are named, not told."""
    name = f"Hop {part.first}" if part.first == part.last else f"Hops {part.first} to {part.last}"
    named = [f"(the answer of hop {number})" for number in range(1, len(question.hops) + 1)]
    asked = dict.fromkeys(substituted(hop.question, named) for hop in question.hops[part.first - 1 : part.last])
    return f"{name}: {' '.join(asked)}"[:MOST_SPECIFICATION]


def own_hops(question: Question, goal: str) -> tuple[Hop, ...] | None:
    """The hops that a goal is after: a sub-task's own, none of the one that answers; None: no sub-task's goal."""
    if goal.startswith(ANSWERING):
        return ()
    found = ASSIGNED.match(goal)
    return question.hops[int(found[1]) - 1 : int(found[2] or found[1])] if found else None


def needs(question: Question, part: Part, before: Sequence[Part]) -> list[Part]:
    """The parts before that one cannot do without: they have the bridge that leads to one of its hops.

    A hop leads to another whose question asks about its answer (`#1`); where a file's questions say nothing of the
    kind, to one whose page is its answer. What a file calls a comparison has hops side by side, which lead to each
    other by nothing and are worked on at the same time.
    """
    bridges = {number for hop in question.hops[part.first - 1 : part.last] for number in _leading(question, hop)}
    return [other for other in before if bridges & {*range(other.first, other.last + 1)}]


def _leading(question: Question, to: Hop) -> list[int]:
    if any(ASKS.search(hop.question) for hop in question.hops):
        return [int(number) for number in ASKS.findall(to.question)]
    if question.kind == COMPARISON:
        return []
    return [number for number, hop in enumerate(question.hops, 1) if hop.answer == to.passage.title]


# Where a run stands with a question whose gold is known: what a scripted expert goes by.

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


# What the scripted expert answers to the operators that decompose a task, plan, supervise and revise (TDP).

Answer = dict[str, Any]

HAND_IN = "Hand in the answer."


def nodes(here: Standing, prompt: str) -> Answer:
    """A node for each hop, after those that lead to it, and one that answers from all of them."""
    question, most = here.question, here.form["nodes"].get("maxItems", LEAST_NODES)
    hops = parts(question, most - 1)
    searches = [
        {
            "id": part.id,
            "task": specification(question, part),
            "needs": [need.id for need in needs(question, part, hops[:place])],
        }
        for place, part in enumerate(hops)
    ]
    return {"nodes": [*searches, {"id": "answer", "task": ANSWERING, "needs": [part.id for part in hops]}]}


def steps(here: Standing, prompt: str) -> Answer:
    """What is still to be found, then the answer."""
    return {"steps": [*(f"Search: {here.asks(hop)}" for hop in here.unseen), HAND_IN]}


def progress(here: Standing, prompt: str) -> Answer:
    """Never completed by itself: what a sub-task comes to is the answer that it hands in."""
    guidance = f"Search: {here.asks(here.unseen[0])}" if here.unseen else HAND_IN
    more = {"off_plan": False, "guidance": guidance, "result": ""}
    return {"reason": f"{len(here.unseen)} paragraphs are missing", "status": "needs_more_steps", **more}


def revision(here: Standing, prompt: str) -> Answer:
    """The graph as it is, but that nothing waits for what failed: the expert answers without it."""
    dag = here.state["dag"]
    failed = {node.id for node in dag.nodes if node.status == "failed"}
    waiting = [node for node in dag.pending if failed.intersection(node.needs)]
    change = [{"id": n.id, "task": n.task, "needs": [need for need in n.needs if need not in failed]} for n in waiting]
    return {"reason": f"{len(failed)} sub-tasks failed", "change": change, "add": [], "remove": []}


# What the scripted expert answers to the operators that keep a belief, or stop a search (CGDP).


def facts(here: Standing, prompt: str) -> Answer:
    """What the last observation adds to a structured belief."""
    believed = {fact.text for fact in _believed(here).facts}
    new = [hop for hop in here.latest if hop.finding not in believed]
    facts = [{"fact": hop.finding, "source": hop.passage.title} for hop in new]
    asked, seen = set(_believed(here).questions), {here.asks(hop) for hop in here.seen}
    missing = [here.asks(hop) for hop in here.unseen if here.asks(hop) not in asked]
    return {"facts": facts, "resolved": sorted(asked & seen), "questions": missing}


def reorganised(here: Standing, prompt: str) -> Answer:
    """A belief that is never too large as it is."""
    facts = [{"fact": fact.text, "source": fact.source} for fact in _believed(here).facts]
    return {"facts": facts, "questions": list(_believed(here).questions)}


def notes(here: Standing) -> str:
    """What was found and is not noted yet, a note a line; for extractors in plain text."""
    new = [hop.finding for hop in here.seen if hop.finding not in _believed(here).notes]
    return "\n".join(new) or "Nothing new."


def verdict(here: Standing, prompt: str) -> Answer:
    """A gate's verdict: stale where the last round brought nothing new and something is missing."""
    dry = bool(here.state.get("rounds")) and here.state["rounds"][-1].upr == 0
    return {"reason": "counted", "verdict": "QUERY_STALE" if dry and here.unseen else "PRODUCTIVE"}


def unresolved(here: Standing, prompt: str) -> Answer:
    """What is still to be found."""
    return {"unresolved": [here.asks(hop) for hop in here.unseen], "answerable": not here.unseen}


def hypotheses(here: Standing, prompt: str) -> Answer:
    """Where the missing paragraphs are, or, with none missing, the answer again."""
    hops = here.unseen or here.hops
    return {"hypotheses": [f"{hop.passage.title} tells it: {hop.answer}" for hop in hops] or [here.answer]}


def _believed(here: Standing) -> Belief:
    belief: Belief = here.state.get("belief", Belief())
    return belief


# The mind behind `scripted:expert` in search worlds: it knows a question's gold answer, paragraphs and steps.
#
# It tells the operators' questions apart by the fields of their answers. A finding is claimed only from a gold
# paragraph that the run has found; where one is missing it is searched for by its title. The final answer is the gold
# one always. In a sub-task of TDP it goes by the sub-task alone: its hops, their answer.
#
# So a right answer by it says that worlds, passages and schedules work, not that a prompt or a predecessor's result
# told enough: what it supports is held against the prompt, all else it knows from the question's file and the run's
# state.

OPENING = 40
"""Characters of a paragraph that tell whether a prompt shows it."""


class Expert:
    """A Responder over a benchmark's gold."""

    def __init__(self, benchmark: GoldSource) -> None:
        self._benchmark = benchmark

    def __call__(self, prompt: str, schema: dict[str, Any]) -> Any:
        """The right answer to a question of any graph's operators; of an unknown one the least instance."""
        fields: Mapping[str, Any] = schema.get("properties", {})
        here = standing(self._benchmark)._replace(form=fields)
        if not fields:
            return notes(here)
        author = next((answer for name, answer in _ANSWERS.items() if name in fields), None)
        if author is None:
            return least(schema)
        answer = {name: value for name, value in author(here, prompt).items() if name in fields}
        return {name: _fitting(value, fields[name]) for name, value in answer.items()}


def _subquestions(here: Standing, prompt: str) -> Answer:
    certified = sum(predicate.kind == "hop" for predicate in here.state.get("plan", ())[: here.state.get("head", 0)])
    return {"subquestions": [hop.question for hop in here.hops[certified:]] or [here.question.text]}


def _query(here: Standing, prompt: str) -> Answer:
    hop = here.target()
    return {"query": (hop and here.query(hop)) or here.question.text}


def _guess(here: Standing, prompt: str) -> Answer:
    hop = here.target()
    return {"guess": hop.answer if hop else here.answer}


def _finding(here: Standing, prompt: str) -> Answer:
    hop = here.target()
    if hop is None or hop not in here.seen:
        return {"found": False, "title": "", "finding": "", "entity": ""}
    return {"found": True, "title": hop.passage.title, "finding": hop.finding, "entity": hop.answer}


def _supported(here: Standing, prompt: str) -> Answer:
    hop, claimed = here.target(), str(here.state["action"].args.get("finding", ""))
    right = hop is not None and bool(claimed) and one_line(hop.finding).startswith(one_line(claimed))
    return {"reason": "read off the paragraph", "supported": right and hop is not None and _shows(prompt, hop)}


def _consistent(here: Standing, prompt: str) -> Answer:
    answer = str(here.state["action"].args.get("answer", ""))
    right = any(exact_match(answer, gold) for gold in here.answers)
    return {"reason": "held against the steps", "consistent": right}


def _sentence(here: Standing, prompt: str) -> Answer:
    query = _next_query(here)
    return {"sentence": f"Next comes {query}" if query else f"So the answer is: {here.answer}."}


def _generation(here: Standing, prompt: str) -> Answer:
    missing = "".join(f"{hop.passage.title}. " for hop in here.unseen)
    return {"generation": f"{missing}So the answer is: {here.answer}."}


def _move(here: Standing, prompt: str) -> Answer:
    query = _next_query(here)
    tool, text = (SEARCH, query) if query else (FINISH, here.answer)
    thought = "a paragraph is missing" if query else "all that is needed was found"
    move = {"thought": thought, "tool": tool, "text": text, "action": f"{tool}[{text}]"}
    return {**move, "remember": notes(here)}


def _next_query(here: Standing) -> str | None:
    queries = (here.query(hop) for hop in here.unseen)
    return next((query for query in queries if query), None)


def _shows(prompt: str, hop: Hop) -> bool:
    return one_line(one_line(hop.passage.text)[:OPENING]) in one_line(prompt)


def _fitting(value: Any, form: Mapping[str, Any]) -> Any:
    """What has more characters or items than the form allows, cut; so is every item."""
    most = form.get("maxLength" if isinstance(value, str) else "maxItems")
    if isinstance(value, list):
        return [_fitting(one, form.get("items", {})) for one in value[:most]]
    return value[:most] if isinstance(value, str) else value


_ANSWERS: dict[str, Callable[[Standing, str], Answer]] = {
    "subquestions": _subquestions,
    "query": _query,
    "guess": _guess,
    "found": _finding,
    "supported": _supported,
    "consistent": _consistent,
    "resolved": facts,
    "facts": reorganised,
    "verdict": verdict,
    "unresolved": unresolved,
    "aligned": lambda here, prompt: {"reason": "the same entity", "aligned": True},
    "hypotheses": hypotheses,
    "keep": lambda here, prompt: {"keep": list(here.gold_lines)},
    "sentence": _sentence,
    "generation": _generation,
    "summary": lambda here, prompt: {"summary": " ".join(hop.finding for hop in here.seen)},
    "nodes": nodes,
    "steps": steps,
    "status": progress,
    "change": revision,
    "tool": _move,
    "action": _move,
    "answer": lambda here, prompt: {"answer": here.answer},
}
"""By the field that tells a question: the first of these that is asked for."""

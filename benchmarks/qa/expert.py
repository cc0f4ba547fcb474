"""The scripted expert of search worlds, which answers in place of a language model.

It knows the gold answer, the gold paragraphs and the hops of each question.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, Protocol

from certigraph.adapters.models.experts import minimal_answer
from certigraph.adapters.models.prompts import one_line
from certigraph.adapters.models.scripts import ExpertPosition, require_situation
from certigraph.adapters.protocols import MIN_NODES
from certigraph.adapters.retrieval.answers import exact_match
from certigraph.adapters.retrieval.bm25 import Retriever
from certigraph.adapters.tools.memory import CORE_APPEND
from certigraph.benchmarks.qa.questions import GoldHop, MultiHopQuestion, substitute_answers
from certigraph.state.records import Task
from certigraph.state.run import FINISH, SEARCH, Belief, parse_action, query_of
from certigraph.state.search import Passage

# Dividing a question into sub-tasks (TDP), and recognising a sub-task by its text.

ANSWER_SPECIFICATION = "Answer the question from what was found."
"""Specification (text) of the sub-task that answers the question from the results of the others."""

HOPS_PATTERN = re.compile(r"Hops? (\d+)(?: to (\d+))?: ")
"""Beginning of the specification of a sub-task that searches."""

REFERENCE_PATTERN = re.compile(r"#(\d+)")
"""Reference to another hop's answer in a hop's question."""

MAX_SPECIFICATION_LENGTH = 280
"""Maximum characters of a sub-task's specification."""

COMPARISON_KIND = "comparison"
"""HotpotQA's kind of question whose paragraphs can be read in any order."""


class HopRange(NamedTuple):
    """Consecutive hops that form one sub-task: the numbers of the first and the last one, counted from 1."""

    first: int
    last: int

    @property
    def id(self) -> str:
        """Id of the sub-task in the task graph."""
        return f"hop-{self.first}" if self.first == self.last else f"hops-{self.first}-{self.last}"


def split_hops(question: MultiHopQuestion, most: int) -> list[HopRange]:
    """Divide the hops of a question into at most `most` ranges of equal size; an empty list if `most` is 0."""
    count = len(question.hops) if most else 0
    size = -(-count // most) if count else 1
    return [HopRange(first, min(first + size - 1, count)) for first in range(1, count + 1, size)]


def format_specification(question: MultiHopQuestion, part: HopRange) -> str:
    """Return the specification of the sub-task that works on these hops; it names other hops' answers by number."""
    name = f"Hop {part.first}" if part.first == part.last else f"Hops {part.first} to {part.last}"
    named = [f"(the answer of hop {number})" for number in range(1, len(question.hops) + 1)]
    questions = dict.fromkeys(
        substitute_answers(hop.question, named) for hop in question.hops[part.first - 1 : part.last]
    )
    return f"{name}: {' '.join(questions)}"[:MAX_SPECIFICATION_LENGTH]


def hops_of_goal(question: MultiHopQuestion, goal: str) -> tuple[GoldHop, ...] | None:
    """Return the hops that a goal is about, if the goal is the specification of a sub-task; else None.

    For the sub-task that only answers the question, there are no hops.
    """
    if goal.startswith(ANSWER_SPECIFICATION):
        return ()
    match = HOPS_PATTERN.match(goal)
    return question.hops[int(match[1]) - 1 : int(match[2] or match[1])] if match else None


def find_needed_parts(question: MultiHopQuestion, part: HopRange, before: Sequence[HopRange]) -> list[HopRange]:
    """Return the ranges in `before` that `part` depends on.

    A hop depends on the earlier hops whose answers its sub-question names (`#1`). If no sub-question has such a
    reference, it depends on a hop whose answer is the title of its paragraph. The hops of a comparison do not depend on
    each other, so that they are worked on at the same time.
    """
    bridges = {
        number for hop in question.hops[part.first - 1 : part.last] for number in _hops_leading_to(question, hop)
    }
    return [earlier for earlier in before if bridges & {*range(earlier.first, earlier.last + 1)}]


def _hops_leading_to(question: MultiHopQuestion, to: GoldHop) -> list[int]:
    if any(REFERENCE_PATTERN.search(hop.question) for hop in question.hops):
        return [int(number) for number in REFERENCE_PATTERN.findall(to.question)]
    if question.kind == COMPARISON_KIND:
        return []
    return [number for number, hop in enumerate(question.hops, 1) if hop.answer == to.passage.title]


# The position of a run in a question whose solution is known: everything that the scripted expert needs to answer.

MAX_QUERY_LENGTH = 150
"""Maximum characters of a search query."""


class GoldSource(Protocol):
    """What the expert needs of a benchmark."""

    def gold(self, task: Task) -> MultiHopQuestion:
        """Return the question of a task with its gold answers and hops."""
        ...

    def library(self, task: Task) -> Retriever:
        """Return the retriever from which the passages of a task can be got by id."""
        ...

    def key(self, passage: Passage) -> str:
        """Return the key of a paragraph, which is the same whatever id the paragraph has in a corpus."""
        ...


@dataclass(frozen=True)
class QuestionPosition(ExpertPosition):
    """How far a run is with a question: the graph's state, and which of the gold paragraphs the agent has seen."""

    question: MultiHopQuestion
    seen: tuple[GoldHop, ...]
    """Hops whose paragraphs the agent has seen."""
    latest: tuple[GoldHop, ...]
    """Hops whose paragraphs are in the last observation."""
    gold_lines: tuple[int, ...]
    """Numbers of the last observation's lines, from 1, that show gold paragraphs."""
    own: tuple[GoldHop, ...] | None = None
    """Hops of the sub-task that the run works on (TDP), none if it only answers from other results; None elsewhere."""
    form: Mapping[str, Any] = field(default_factory=dict)
    """Fields of the answer schema, each with its own schema."""

    @property
    def hops(self) -> tuple[GoldHop, ...]:
        """The hops that the run is about: those of its sub-task, else all hops of the question."""
        return self.own or self.question.hops

    @property
    def answers(self) -> tuple[str, ...]:
        """The gold answer and its aliases; in a sub-task that searches, the answer of its last hop."""
        return (self.own[-1].answer,) if self.own else self.question.answers

    @property
    def answer(self) -> str:
        """The gold answer, the first of `answers`."""
        return self.answers[0]

    @property
    def unseen(self) -> list[GoldHop]:
        """The hops whose paragraph has not been found yet, in order."""
        return [hop for hop in (self.question.hops if self.own is None else self.own) if hop not in self.seen]

    def asks(self, hop: GoldHop) -> str:
        """Return the sub-question of a hop, with the answers of other hops in place of `#1`, `#2`, ..."""
        return substitute_answers(hop.question, [before.answer for before in self.question.hops])

    def query(self, hop: GoldHop) -> str | None:
        """Return a search query for the paragraph of a hop, one that was not tried yet; None if all were tried."""
        actions = [parse_action(step.action) for step in self.state.get("history", ())]
        tried = [query_of(action) for action in actions if action and action.kind == SEARCH]
        title, title_and_finding = hop.passage.title, f"{hop.passage.title} {hop.finding}"
        queries = (
            query.strip()[:MAX_QUERY_LENGTH] for query in (title, title_and_finding, self.asks(hop), hop.finding)
        )
        return next((query for query in queries if query and not any(query in words for words in tried)), None)

    def target(self) -> GoldHop | None:
        """Return the gold hop of the plan's target, the next predicate to certify (SDP).

        It is None if the plan is finished, or the question file has no hops.
        """
        if not self.hops or self.target_predicate is None:
            return None
        index = int(str(self.target_predicate.args.get("index", 1)))
        return self.hops[min(max(index, 1), len(self.hops)) - 1]


def current_position(benchmark: GoldSource) -> QuestionPosition:
    """Return the position of the run whose node is being executed.

    Raises:
        Fault: ("model") no run is being executed.
    """
    situation = require_situation()
    state = situation.state
    question = benchmark.gold(state["task"])
    library = benchmark.library(state["task"])

    def keys(ids: Iterable[str]) -> list[str]:
        return [benchmark.key(library.passage(id)) for id in ids]

    read, latest = keys(_read_sources(state)), keys(state["observation"].sources if "observation" in state else ())
    gold = {benchmark.key(hop.passage): hop for hop in question.hops}
    return QuestionPosition(
        situation,
        question,
        seen=tuple(hop for key, hop in gold.items() if key in {*read, *latest}),
        latest=tuple(hop for key, hop in gold.items() if key in latest),
        gold_lines=tuple(number for number, key in enumerate(latest, 1) if key in gold),
        own=hops_of_goal(question, state["task"].goal),
    )


def _read_sources(state: Mapping[str, Any]) -> Sequence[str]:
    """Return the ids of the passages that the agent has read: those in its turns, or all visible ones without turns."""
    if "turns" in state:
        return [source for turn in state["turns"] for source in turn.sources]
    return list(state["evidence"].sources) if "evidence" in state else []


# The expert's answers to the operators that decompose a task, plan, supervise and revise (TDP).

ExpertAnswer = dict[str, Any]
"""An answer of the expert: values by field of the answer schema."""

SUBMIT_STEP = "Hand in the answer."
"""Last step of every plan of the expert."""


def answer_nodes(position: QuestionPosition) -> ExpertAnswer:
    """Return the task graph of a question: one node per range of hops, and a last node that answers from all of them.

    A node needs the nodes whose answers its hops refer to.
    """
    question, most = position.question, position.form["nodes"].get("maxItems", MIN_NODES)
    hops = split_hops(question, most - 1)
    searches = [
        {
            "id": part.id,
            "task": format_specification(question, part),
            "needs": [need.id for need in find_needed_parts(question, part, hops[:index])],
        }
        for index, part in enumerate(hops)
    ]
    return {"nodes": [*searches, {"id": "answer", "task": ANSWER_SPECIFICATION, "needs": [part.id for part in hops]}]}


def answer_steps(position: QuestionPosition) -> ExpertAnswer:
    """Return a plan: one search for each paragraph that is missing, then the answer."""
    return {"steps": [*(f"Search: {position.asks(hop)}" for hop in position.unseen), SUBMIT_STEP]}


def answer_progress(position: QuestionPosition) -> ExpertAnswer:
    """Return the supervisor's verdict that more steps are needed: only submitting an answer completes a sub-task."""
    guidance = f"Search: {position.asks(position.unseen[0])}" if position.unseen else SUBMIT_STEP
    rest = {"off_plan": False, "guidance": guidance, "result": ""}
    return {"reason": f"{len(position.unseen)} paragraphs are missing", "status": "needs_more_steps", **rest}


def answer_revision(position: QuestionPosition) -> ExpertAnswer:
    """Return a revision of the task graph that removes dependencies on failed nodes, which the expert does not need."""
    dag = position.state["dag"]
    failed = {node.id for node in dag.nodes if node.status == "failed"}
    waiting = [node for node in dag.pending if failed.intersection(node.needs)]
    change = [{"id": n.id, "task": n.task, "needs": [need for need in n.needs if need not in failed]} for n in waiting]
    return {"reason": f"{len(failed)} sub-tasks failed", "change": change, "add": [], "remove": []}


# The expert's answers to the operators that update a belief or stop a search (CGDP).


def answer_facts(position: QuestionPosition) -> ExpertAnswer:
    """Return the update of a structured belief: the facts of the last observation, and answered and open questions."""
    believed = {fact.text for fact in _belief_at(position).facts}
    new = [hop for hop in position.latest if hop.finding not in believed]
    entries = [{"fact": hop.finding, "source": hop.passage.title} for hop in new]
    open_questions, answered = set(_belief_at(position).questions), {position.asks(hop) for hop in position.seen}
    if not position.unseen:
        answered.add(one_line(position.question.text))
    missing = [position.asks(hop) for hop in position.unseen if position.asks(hop) not in open_questions]
    return {"facts": entries, "resolved": sorted(open_questions & answered), "questions": missing}


def answer_reorganised(position: QuestionPosition) -> ExpertAnswer:
    """Return a reorganised belief, which is the present one unchanged, because it is never too large."""
    entries = [{"fact": fact.text, "source": fact.source} for fact in _belief_at(position).facts]
    return {"facts": entries, "questions": list(_belief_at(position).questions)}


def format_notes(position: QuestionPosition) -> str:
    """Return the findings that the belief's notes do not have yet, one per line, for operators that ask for prose."""
    new = [hop.finding for hop in position.seen if hop.finding not in _belief_at(position).notes]
    return "\n".join(new) or "Nothing new."


def answer_verdict(position: QuestionPosition) -> ExpertAnswer:
    """Return the verdict of a gate, which decides whether a search was productive.

    The query is stale if the last round showed nothing new although paragraphs are missing.
    """
    stale = bool(position.state.get("rounds")) and position.state["rounds"][-1].upr == 0
    return {"reason": "counted", "verdict": "QUERY_STALE" if stale and position.unseen else "PRODUCTIVE"}


def answer_unresolved(position: QuestionPosition) -> ExpertAnswer:
    """Return the sub-questions whose paragraphs have not been found yet, and whether none is left."""
    return {"unresolved": [position.asks(hop) for hop in position.unseen], "answerable": not position.unseen}


def answer_hypotheses(position: QuestionPosition) -> ExpertAnswer:
    """Return one hypothesis per missing paragraph, which states its title and answer.

    If none is missing, there is one per hop; without hops, the hypothesis is the gold answer.
    """
    hops = position.unseen or position.hops
    return {"hypotheses": [f"{hop.passage.title} tells it: {hop.answer}" for hop in hops] or [position.answer]}


def _belief_at(position: QuestionPosition) -> Belief:
    belief: Belief = position.state.get("belief", Belief())
    return belief


# The scripted model `scripted:expert` in search worlds.
#
# It recognises an operator's request by the fields of the answer schema. It claims a finding only from a gold paragraph
# that the run has found; a missing paragraph is searched for by its title. Its final answer is always the gold answer.
# In a sub-task of TDP it uses only that sub-task's hops and their answer.
#
# A right answer therefore shows that worlds, passages and schedules work. It does not show that a prompt or the result
# of another sub-task was sufficient: only whether a paragraph supports a claim is checked against the paragraph that
# the validator is given; everything else comes from the question file and the run's state.

QUOTED_WORDS = 8
"""Number of words that the expert quotes from the paragraph of a finding, the first ones."""

MATCHED_LENGTH = 40
"""Number of characters at the beginning in which two paragraphs must agree to count as the same."""


class GoldExpert:
    """Scripted expert that knows the gold solution of each question of a benchmark."""

    def __init__(self, benchmark: GoldSource) -> None:
        self._benchmark = benchmark

    def __call__(self, prompt: str, schema: dict[str, Any]) -> Any:
        """Return the right answer to a request of an operator; the minimal valid one if the request is unknown."""
        fields: Mapping[str, Any] = schema.get("properties", {})
        position = replace(current_position(self._benchmark), form=fields)
        if not fields:
            return format_notes(position)
        author = next((answer for name, answer in _ANSWERS.items() if name in fields), None)
        if author is None:
            return minimal_answer(schema)
        answer = {name: value for name, value in author(position).items() if name in fields}
        return {name: _truncate(value, fields[name]) for name, value in answer.items()}


def _answer_subquestions(position: QuestionPosition) -> ExpertAnswer:
    certified = sum(
        predicate.kind == "hop" for predicate in position.state.get("plan", ())[: position.state.get("head", 0)]
    )
    return {"subquestions": [hop.question for hop in position.hops[certified:]] or [position.question.text]}


def _answer_query(position: QuestionPosition) -> ExpertAnswer:
    hop = position.target()
    return {"query": (hop and position.query(hop)) or position.question.text}


def _answer_guess(position: QuestionPosition) -> ExpertAnswer:
    hop = position.target()
    return {"guess": hop.answer if hop else position.answer}


def _answer_finding(position: QuestionPosition) -> ExpertAnswer:
    hop = position.target()
    if hop is None or hop not in position.seen:
        return {"found": False, "title": "", "finding": "", "entity": ""}
    return {"found": True, "title": hop.passage.title, "finding": hop.finding, "entity": hop.answer}


def _answer_supported(position: QuestionPosition) -> ExpertAnswer:
    hop, claimed = position.target(), str(position.state["action"].args.get("finding", ""))
    right = hop is not None and bool(claimed) and one_line(hop.finding).startswith(one_line(claimed))
    passage = position.view.get("passage")
    shown = hop is not None and passage is not None and _starts_alike(hop.passage, passage)
    quotes = [" ".join(passage.text.split()[:QUOTED_WORDS])] if passage is not None else []
    return {"reason": "read off the paragraph", "quotes": quotes, "supported": right and shown}


def _answer_consistent(position: QuestionPosition) -> ExpertAnswer:
    answer = str(position.state["action"].args.get("answer", ""))
    right = any(exact_match(answer, gold) for gold in position.answers)
    return {"reason": "held against the steps", "consistent": right}


def _answer_sentence(position: QuestionPosition) -> ExpertAnswer:
    query = _next_query(position)
    return {"sentence": f"Next comes {query}" if query else f"So the answer is: {position.answer}."}


def _answer_generation(position: QuestionPosition) -> ExpertAnswer:
    missing = "".join(f"{hop.passage.title}. " for hop in position.unseen)
    return {"generation": f"{missing}So the answer is: {position.answer}."}


def _answer_move(position: QuestionPosition) -> ExpertAnswer:
    if kept := _findings_to_keep(position):
        return {"thought": "it must not be lost", "tool": CORE_APPEND, "text": kept}
    query = _next_query(position)
    tool, text = (SEARCH, query) if query else (FINISH, position.answer)
    thought = "a paragraph is missing" if query else "all that is needed was found"
    move = {"thought": thought, "tool": tool, "text": text, "action": f"{tool}[{text}]"}
    return {**move, "remember": format_notes(position)}


def _findings_to_keep(position: QuestionPosition) -> str:
    """Return the findings that MemGPT's core memory lacks; empty if no memory function is offered, or it refused."""
    calls = position.state.get("memory_turns", ())
    if CORE_APPEND not in position.form.get("tool", {}).get("enum", ()) or (calls and not calls[-1].accepted):
        return ""
    notes = _belief_at(position).notes
    return "\n".join(text for hop in position.seen if (text := one_line(hop.finding)) not in notes)


def _next_query(position: QuestionPosition) -> str | None:
    queries = (position.query(hop) for hop in position.unseen)
    return next((query for query in queries if query), None)


def _starts_alike(gold: Passage, shown: Passage) -> bool:
    return one_line(gold.text)[:MATCHED_LENGTH].strip() in one_line(shown.text)


def _truncate(value: Any, form: Mapping[str, Any]) -> Any:
    """Truncate a text or a list, and each item of the list, to the length that the schema `form` allows."""
    most = form.get("maxLength" if isinstance(value, str) else "maxItems")
    if isinstance(value, list):
        return [_truncate(item, form.get("items", {})) for item in value[:most]]
    return value[:most] if isinstance(value, str) else value


_ANSWERS: dict[str, Callable[[QuestionPosition], ExpertAnswer]] = {
    "subquestions": _answer_subquestions,
    "query": _answer_query,
    "guess": _answer_guess,
    "found": _answer_finding,
    "supported": _answer_supported,
    "consistent": _answer_consistent,
    "resolved": answer_facts,
    "facts": answer_reorganised,
    "verdict": answer_verdict,
    "unresolved": answer_unresolved,
    "satisfied": lambda position: {"satisfied": not position.unseen},
    "aligned": lambda position: {"reason": "the same entity", "aligned": True},
    "hypotheses": answer_hypotheses,
    "keep": lambda position: {"keep": list(position.gold_lines)},
    "sentence": _answer_sentence,
    "generation": _answer_generation,
    "summary": lambda position: {"summary": " ".join(hop.finding for hop in position.seen)},
    "nodes": answer_nodes,
    "steps": answer_steps,
    "status": answer_progress,
    "change": answer_revision,
    "tool": _answer_move,
    "action": _answer_move,
    "answer": lambda position: {"answer": position.answer},
}
"""Functions that answer a request, by the field of the answer schema that identifies it; the first match counts."""

"""The mind behind `scripted:expert` in search worlds: it knows a question's gold answer, paragraphs and steps.

It tells the operators' questions apart by the fields of their answers. A finding is claimed only from a gold paragraph
that the run has found; where one is missing it is searched for by its title. The final answer is the gold one always.
In a sub-task of TDP it goes by the sub-task alone: its hops, their answer.

So a right answer by it says that worlds, passages and schedules work, not that a prompt or a predecessor's result told
enough: what it supports is held against the prompt, all else it knows from the question's file and the run's state.
"""

from collections.abc import Callable, Mapping
from typing import Any

from certigraph.adapters.answering import least
from certigraph.adapters.prompting import one_line
from certigraph.adapters.searching import decomposing, gathering
from certigraph.adapters.searching.gathering import Answer
from certigraph.adapters.searching.questions import Hop
from certigraph.adapters.searching.scoring import exact_match
from certigraph.adapters.searching.standing import GoldSource, Standing, standing
from certigraph.state.searching import FINISH, SEARCH

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
            return gathering.notes(here)
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
    return {**move, "remember": gathering.notes(here)}


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
    "resolved": gathering.facts,
    "facts": gathering.reorganised,
    "verdict": gathering.verdict,
    "unresolved": gathering.unresolved,
    "aligned": lambda here, prompt: {"reason": "the same entity", "aligned": True},
    "hypotheses": gathering.hypotheses,
    "keep": lambda here, prompt: {"keep": list(here.gold_lines)},
    "sentence": _sentence,
    "generation": _generation,
    "summary": lambda here, prompt: {"summary": " ".join(hop.finding for hop in here.seen)},
    "nodes": decomposing.nodes,
    "steps": decomposing.steps,
    "status": decomposing.progress,
    "change": decomposing.revision,
    "tool": _move,
    "action": _move,
    "answer": lambda here, prompt: {"answer": here.answer},
}
"""By the field that tells a question: the first of these that is asked for."""

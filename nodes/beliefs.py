"""Operators that keep a belief state (CGDP): extraction, reorganisation, filters and memory."""

import re
from asyncio import gather
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Annotated, Any

from langgraph.runtime import Runtime
from pydantic import BaseModel, Field

from certigraph.adapters.benchmarks import benchmark_of, limits_of
from certigraph.adapters.models.calls import Prompt, ask, ask_text, clipped, numbered, prompt, quoted
from certigraph.adapters.models.schemas import Cut
from certigraph.adapters.protocols import Context, Operator
from certigraph.nodes.react import ACT, DECIDE
from certigraph.nodes.slots import Slot, Update, factory
from certigraph.state.records import Action, Observation, Task, UnknownName
from certigraph.state.run import (
    FINISH,
    Belief,
    BelievingState,
    Fact,
    Form,
    RunState,
    Stagnation,
    jaccard,
    stopped,
    turn_of,
)
from certigraph.state.search import (
    BY_GATE,
    BY_METHOD,
    BY_ROUNDS,
    BY_STEPS,
    MemoryView,
    answer_view,
    gate_view,
    latest_round,
    listed_lines,
    memory_view,
)

# The slots of CGDP's two interventions and of the final answer. Any graph may take them; in some they are optional.


def answering(state: RunState, runtime: Runtime[Context]) -> bool:
    """Whether the task's benchmark takes an answer, so that one can be forced at the end."""
    return getattr(benchmark_of(state["task"], runtime), "answers", False)


def steps_spent(state: BelievingState, runtime: Runtime[Context]) -> bool:
    """Whether the world takes no further step of this episode but an answer."""
    return len(state["history"]) >= limits_of(state["task"], runtime).steps


def forced_from(end: str, state: BelievingState, runtime: Runtime[Context]) -> str:
    """The edge by which a run leaves without its goal: `forced` where its world still takes an answer, else `end`."""
    return "forced" if answering(state, runtime) and not state["observation"].done else end


def unless_spent(edge: str, state: BelievingState, runtime: Runtime[Context]) -> str:
    """The edge on which a run goes on, unless its world takes nothing but an answer any more."""
    return forced_from(edge, state, runtime) if steps_spent(state, runtime) else edge


def _round_kept(state: BelievingState, update: Update, runtime: Runtime[Context]) -> Update:
    return {**update, "rounds": latest_round(state)}


def _nothing_yet(state: BelievingState, runtime: Runtime[Context]) -> Update | None:
    begun = state["history"] and state.get("action")  # a part of a run finds steps that are not its own
    return None if begun else {"stagnation": Stagnation(), "rounds": []}


def _forced(state: Any, update: Update, runtime: Runtime[Context]) -> Update:
    """Mark the answer with what forced it: it is certified by nobody."""
    action: Action = update["action"]
    if action.kind != FINISH:
        return update
    return {**update, "action": action.model_copy(update={"args": {**action.args, "forced": _force(state, runtime)}})}


def _force(state: Any, runtime: Runtime[Context]) -> str:
    if stopped(state):
        return BY_GATE
    if steps_spent(state, runtime):
        return BY_STEPS
    return BY_METHOD if "plan" in state else BY_ROUNDS


def _unanswerable(state: BelievingState, runtime: Runtime[Context]) -> Update | None:
    taken = answering(state, runtime) and not state["observation"].done
    return None if taken else {}


def _delivered(state: Any, update: Update, runtime: Runtime[Context]) -> Update:
    turned = {"turns": [turn_of("", state["action"], update["observation"])]} if "turns" in state else {}
    return {**update, **turned}


MEMORY = Slot("memory", frozenset({"belief"}), memory_view)
EXTRACT = MEMORY._replace(name="extract")
GATE = Slot("gate", frozenset({"stagnation"}), gate_view, _round_kept, _nothing_yet)
ANSWER = Slot("answer", frozenset({"action"}), answer_view, _forced, _unanswerable)
DELIVER = ACT._replace(name="deliver", record=_delivered)
DECIDE_REMEMBERING = DECIDE._replace(writes=DECIDE.writes | {"belief"})
"""For harnesses that keep a memory of their own, in the belief while that is native."""


# Reorganisation of a belief that has grown too large (CGDP appendix E.3): from more than 10 items to at most 6.
#
# A model curates it; what it leaves beyond the target is cut, so that the bound holds whatever it answers.

TRIGGER, TARGET = 10, 6
"""Items beyond which a belief is reorganised, and items that it is then left with at most."""

NOTE, SOURCE, REORGANISE_TOKENS = 240, 80, 500
"""Characters of a fact, question or note, and of a source; tokens of freeform notes when they are all rewritten."""

BULLET = re.compile(r"^\s*(?:[-*•]+|\d+[.)])\s*")
NOTHING = re.compile(r"\W*nothing (new|relevant)\W*", re.IGNORECASE)


class FoundFact(BaseModel):
    """A fact as models write it."""

    fact: Annotated[str, Field(min_length=1), Cut(NOTE)]
    source: Annotated[str, Cut(SOURCE)]


def fact_of(found: FoundFact) -> Fact:
    """The same on one line: what prompts list is one a line."""
    return Fact(text=" ".join(found.fact.split()), source=" ".join(found.source.split()))


class Curated(BaseModel):
    """The model's answer for a structured belief."""

    facts: Annotated[list[FoundFact], Cut(TRIGGER)]
    questions: Annotated[list[Annotated[str, Field(min_length=1), Cut(NOTE)]], Cut(TRIGGER)]


async def reorganised(belief: Belief, task: Task, runtime: Runtime[Context], *, target: int, trigger: int) -> Belief:
    """The belief itself while it has at most `trigger` items, else one of at most `target`."""
    if belief.items <= trigger:
        return belief
    curate = _noted_anew if belief.form == "freeform" else _curated
    shorter = await curate(belief, task, runtime, target)
    # A model that answers with nothing must not cost the agent its memory: the latest items are kept then.
    kept = _cut(shorter, target) if shorter.items else _latest(belief, target)
    return kept.model_copy(update={"reorganised": belief.reorganised + 1})


def noted(text: str) -> list[str]:
    """The notes in a model's prose, one a line, without bullets; none where it says that there is nothing new."""
    bare = (" ".join(BULLET.sub("", line).split()) for line in text.splitlines())
    return [clipped(line, NOTE) for line in bare if line and not line.endswith(":") and not NOTHING.fullmatch(line)]


def checked(name: str, target: int, trigger: int, window: int) -> None:
    """Raises UnknownName where a belief of these sizes cannot be kept."""
    if not 1 <= target <= trigger or window < 0:
        told = f"target={target}, trigger={trigger}, window={window}"
        raise UnknownName(f"{name}({told}): 1 <= target <= trigger and window >= 0, as in memory={name}:target=6")


async def _curated(belief: Belief, task: Task, runtime: Runtime[Context], target: int) -> Belief:
    order = CURATE.format(belief=quoted(belief.text), task=task.goal, facts=target - _open(target), open=_open(target))
    answer = await ask(prompt(runtime, order), Curated, role="extractor", runtime=runtime)
    facts = tuple(fact for fact in map(fact_of, answer.facts) if fact.text)
    questions = (" ".join(question.split()) for question in answer.questions)
    return belief.model_copy(update={"facts": facts, "questions": tuple(filter(None, questions))})


async def _noted_anew(belief: Belief, task: Task, runtime: Runtime[Context], target: int) -> Belief:
    order = REWRITE.format(belief=quoted(belief.text), task=task.goal, target=target)
    text = await ask_text(prompt(runtime, order), role="extractor", runtime=runtime, tokens=REORGANISE_TOKENS)
    return belief.model_copy(update={"notes": tuple(noted(text))})


def _open(target: int) -> int:
    """How many of the items may be open questions."""
    return target // 3


def _cut(belief: Belief, target: int) -> Belief:
    questions = belief.questions[: max(_open(target), target - len(belief.facts))]
    facts = belief.facts[: target - len(questions)]
    return belief.model_copy(update={"facts": facts, "questions": questions, "notes": belief.notes[:target]})


def _latest(belief: Belief, target: int) -> Belief:
    facts, questions, notes = belief.facts[-target:], belief.questions[-target:], belief.notes[-target:]
    return _cut(belief.model_copy(update={"facts": facts, "questions": questions, "notes": notes}), target)


CURATE = """\
Facts and open questions gathered so far:
{belief}

Question that they are for: {task}
Write them anew, the most important first: at most {facts} facts and {open} questions. Join facts that say the same,
drop what does not matter to the question, and keep every fact that another one needs to be of use. Each fact keeps
its source. Keep a question only while no fact answers it.
"""

REWRITE = """\
Notes gathered so far:
{belief}

Question that they are for: {task}
Write them anew, as plain text and not as JSON: at most {target} notes, one a line, the most important first. Join
notes that say the same, drop what does not matter to the question, and keep every note that another one needs to be
of use, with names, values and titles as they are.
"""


# Update of the belief state (CGDP section 5.1, appendix E): what an observation adds, told from b_t and o_t alone.
#
# An item is added once and stays until it is resolved or the belief is reorganised. What was believed under another
# form (MemGPT's own notes, say) is dropped: the belief takes the place of the harness's memory.

WINDOW = 1
"""Latest turns that stay visible. Section 5.1 discards the raw o_t once it is extracted (0); the experiments inject
the belief into the lobotomized harness, which sees o_t (section 6.2): so does the default."""

EXTRACT_TOKENS = 300
"""Of freeform notes; the paper's extraction calls take fewer than 500 in all."""

SAME = 0.5
"""Similarity from which an open question counts as the one that is called resolved: models reword."""


class Findings(BaseModel):
    """The model's answer to structured extraction."""

    facts: Annotated[list[FoundFact], Cut(5)]
    resolved: Annotated[list[Annotated[str, Cut(NOTE)]], Cut(6)]
    questions: Annotated[list[Annotated[str, Field(min_length=1), Cut(NOTE)]], Cut(3)]


@factory
def structured(*, target: int = TARGET, trigger: int = TRIGGER, window: int = WINDOW) -> Operator:
    """Facts with their sources, and open questions: the resolved ones go, new ones are appended.

    Args:
        target: items that a reorganisation leaves, at most (K).
        trigger: items beyond which the belief is reorganised; no belief is ever larger.
        window: latest turns that the agent sees beside the belief.

    Raises:
        UnknownName: the numbers contradict each other.
    """
    checked("structured", target, trigger, window)

    async def structured(state: MemoryView, runtime: Runtime[Context]) -> dict[str, Any]:
        before = _own(state["belief"], "structured", window)
        if not state["observation"].text.strip():
            return {"belief": before}
        told = STRUCTURED.format(known=quoted(before.text or "(nothing)"), task=state["task"].goal)
        found = await ask(_question(state, runtime, told), Findings, role="extractor", runtime=runtime)
        belief = updated(before, found)
        return {"belief": await reorganised(belief, state["task"], runtime, target=target, trigger=trigger)}

    return structured


@factory
def freeform(*, target: int = TARGET, trigger: int = TRIGGER, window: int = WINDOW) -> Operator:
    """Notes in plain text, as appendix E.2 asks for them: new ones are appended, one a line. Arguments as above."""
    checked("freeform", target, trigger, window)

    async def freeform(state: MemoryView, runtime: Runtime[Context]) -> dict[str, Any]:
        before = _own(state["belief"], "freeform", window)
        if not state["observation"].text.strip():
            return {"belief": before}
        told = FREEFORM.format(known=quoted(before.text or "(nothing)"), task=state["task"].goal)
        text = await ask_text(_question(state, runtime, told), role="extractor", runtime=runtime, tokens=EXTRACT_TOKENS)
        belief = before.model_copy(update={"notes": (*before.notes, *_unknown(noted(text), before.notes))})
        return {"belief": await reorganised(belief, state["task"], runtime, target=target, trigger=trigger)}

    return freeform


def updated(before: Belief, found: Findings) -> Belief:
    """The belief after an extraction: its new facts appended, its resolved questions gone, its new ones appended."""
    told = {fact.text: fact for fact in map(fact_of, found.facts)}
    facts = [told[text] for text in _unknown(filter(None, told), [fact.text for fact in before.facts])]
    left = [q for q in before.questions if all(jaccard(q, resolved) < SAME for resolved in found.resolved)]
    asked = (" ".join(question.split()) for question in found.questions)
    questions = (*left, *_unknown(filter(None, asked), before.questions))
    return before.model_copy(update={"facts": (*before.facts, *facts), "questions": questions})


def _own(belief: Belief, form: Form, window: int) -> Belief:
    return belief if belief.form == form else Belief(form=form, window=window)


def _unknown(texts: Iterable[str], known: Sequence[str]) -> list[str]:
    folded = {text.casefold() for text in known}
    return [text for text in dict.fromkeys(texts) if text.casefold() not in folded]


def _question(state: MemoryView, runtime: Runtime[Context], told: str) -> Prompt:
    limits, observation = limits_of(state["task"], runtime), state["observation"]
    listed = listed_lines(observation.text, observation.sources)
    lines = [clipped(line, limits.excerpt) for _, line in listed] if listed is not None else [observation.text]
    seen = "\n".join(lines)
    return prompt(runtime, f"Just found:\n{quoted(seen, limits.context)}\n\n{told}")


STRUCTURED = """\
Known already, not to be written again:
{known}

Question that all of this is for: {task}
facts: what the text just found says that matters to the question and is not known yet. Keep who did what, names and
values as the text has them; `source` is the title of its passage. None if it says nothing new.
resolved: of the questions that are still open above, those which are now answered, word for word.
questions: what else must be found out to answer the question, one thing each. None if nothing is missing.
"""

FREEFORM = """\
Notes so far, not to be written again:
{known}

Question that all of this is for: {task}
Write down, as plain text and not as JSON, what the text just found adds to the notes: one short note a line, names
and values as the text has them, with the title of the passage; also what still has to be found out. If it adds
nothing, write: Nothing new.
"""


# Memory without a model: what an agent keeps of its turns (CGDP section 6.2's conditions), and the way to all four.


async def native(state: MemoryView, runtime: Runtime[Context]) -> dict[str, Any]:
    """Leave the agent its own memory: every turn, or what a harness such as MemGPT makes of them."""
    return {"belief": state["belief"]}


async def lobotomized(state: MemoryView, runtime: Runtime[Context]) -> dict[str, Any]:
    """Wipe it: the agent sees the task and the latest observation alone."""
    return {"belief": Belief(form="lobotomized", window=1)}


CONDITIONS: Mapping[str, Callable[[], Operator]] = {
    "native": lambda: native,
    "lobotomized": lambda: lobotomized,
    "structured": structured,
    "freeform": freeform,
}


def with_memory(operators: Mapping[str, object], slot: str = "memory") -> dict[str, object]:
    """Operators by slot, with the memory that is given by name (`native`, `lobotomized`, ...) as an operator.

    Raises:
        UnknownName: no condition has that name; lists them.
    """
    memory = operators.get(slot)
    return {**operators, slot: as_memory(memory)} if isinstance(memory, str) else dict(operators)


def as_memory(memory: Operator | str) -> Operator:
    """A memory that is given by its condition's name, or as it is. Raises UnknownName as `with_memory` does."""
    if not isinstance(memory, str):
        return memory
    if memory not in CONDITIONS:
        raise UnknownName(f"no memory condition {memory!r}; known: {', '.join(CONDITIONS)}, or an operator of your own")
    return CONDITIONS[memory]()


# Entity-grounded extraction with an alignment check (CGDP appendix B), against evidence of the wrong entity (G7).

NAME = re.compile(r"\b(?:[A-Z]\w+|\d+)\b")
"""What names an entity: capitalised words and numbers. The first word of a sentence may be one by accident."""


class Alignment(BaseModel):
    """The model's answer."""

    reason: Annotated[str, Cut(200)]
    aligned: bool


@factory
def grounded(memory: Operator | str) -> Operator:
    """A memory that takes up only what is grounded: each new fact or note is checked, and dropped where it fails.

    First without a model: its names and numbers stand in the observation, the question or what is believed. Then one
    question for each: is it about those whom the question is about, or someone who leads to them? What a
    reorganisation rewords counts as new.
    """
    memory = as_memory(memory)

    async def grounded(state: MemoryView, runtime: Runtime[Context]) -> dict[str, Any]:
        belief: Belief = (await memory(state, runtime))["belief"]
        before = set(_told(state["belief"]))
        new = [text for text in _told(belief) if text not in before]
        kept = await gather(*(_stands(text, state, runtime) for text in new))
        refused = {text for text, stands in zip(new, kept, strict=True) if not stands}
        facts = tuple(fact for fact in belief.facts if fact.text not in refused)
        notes = tuple(note for note in belief.notes if note not in refused)
        return {"belief": belief.model_copy(update={"facts": facts, "notes": notes})}

    return grounded


def anchored(text: str, *sources: str) -> bool:
    """Whether every name and number of a text, its first word aside, stands in one of the sources."""
    known = set(re.findall(r"\w+", " ".join(sources).casefold()))
    named = [match[0] for match in NAME.finditer(text) if match.start() or match[0].isdigit()]
    return all(name.casefold() in known for name in named)


def _told(belief: Belief) -> Iterator[str]:
    yield from (fact.text for fact in belief.facts)
    yield from belief.notes


async def _stands(text: str, state: MemoryView, runtime: Runtime[Context]) -> bool:
    goal, seen = state["task"].goal, state["observation"].text
    if not anchored(text, seen, goal, state["belief"].text):
        return False
    passages = quoted(seen, limits_of(state["task"], runtime).context)
    order = GROUND_QUESTION.format(passages=passages, task=goal, text=quoted(text))
    return (await ask(prompt(runtime, order), Alignment, role="validator", runtime=runtime)).aligned


GROUND_QUESTION = """\
Passages:
{passages}

Question: {task}

Taken from the passages:
{text}

Do the passages say this of the very person, place or thing that it names? And is that the one that the question asks
about, or one that leads to it? A statement about someone else with the same role is not aligned.
"""


# Observation filtering (CGDP appendix B): what clearly does not matter never reaches the belief.

GLIMPSE = 240
"""Characters of a line that are shown for the choice: enough to tell what it is about."""


class Kept(BaseModel):
    """The model's answer: numbers of lines, from 1."""

    keep: Annotated[list[int], Cut(50)]


@factory
def filtered(memory: Operator | str) -> Operator:
    """A memory that sees only the lines of an observation that may matter to the question, chosen by number.

    An observation of one line is left as it is; of one that keeps no line nothing is extracted.
    """
    memory = as_memory(memory)

    async def filtered(state: MemoryView, runtime: Runtime[Context]) -> dict[str, Any]:
        observation = state["observation"]
        lines = observation.text.splitlines()
        if len(lines) < 2:
            return await memory(state, runtime)
        most = limits_of(state["task"], runtime).context
        shown = quoted(numbered(clipped(line, GLIMPSE) for line in lines), most)
        order = FILTER_QUESTION.format(
            lines=shown, known=quoted(state["belief"].text or "(nothing)"), task=state["task"].goal
        )
        answer = await ask(prompt(runtime, order), Kept, role="extractor", runtime=runtime)
        return await memory({**state, "observation": _only(observation, lines, set(answer.keep))}, runtime)

    return filtered


def _only(observation: Observation, lines: list[str], keep: set[int]) -> Observation:
    kept = [number for number in range(len(lines)) if number + 1 in keep]
    listed = listed_lines(observation.text, observation.sources)
    sources = observation.sources if listed is None else tuple(listed[n][0] for n in kept)
    return observation.model_copy(update={"text": "\n".join(lines[n] for n in kept), "sources": sources})


FILTER_QUESTION = """\
Just found:
{lines}

Known already:
{known}

Question that all of this is for: {task}
Give the numbers of the lines that may matter to the question, directly or as a step towards it. Leave out what
clearly does not; where you are unsure, keep the line.
"""

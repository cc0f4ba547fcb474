"""Operators that keep a belief: what a search agent remembers (CGDP sections 5.1 and 6.2, appendices B and E).

There are four memory operators: `native`, `lobotomized`, `structured` and `freeform`; operators that check what they
keep are in `nodes.belief_checks`. The file begins with the slots `memory`, `gate`, `answer` and `deliver`, which any
graph may have.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Annotated, Any

from langgraph.runtime import Runtime
from pydantic import BaseModel, Field

from certigraph.adapters.benchmarks import benchmark_of, limits_of
from certigraph.adapters.models.calls import ask, ask_text, profile_of
from certigraph.adapters.models.profiles import CHARACTERS_PER_TOKEN, estimate_tokens
from certigraph.adapters.models.prompts import Prompt, build_prompt, numbered_list, quote
from certigraph.adapters.models.schemas import FirstReasoning, Truncated
from certigraph.adapters.protocols import Context, Operator
from certigraph.nodes.notes import is_fact, parse_notes
from certigraph.nodes.react import ACT, DECIDE
from certigraph.nodes.slots import Slot, Update, factory
from certigraph.state.endings import UnknownName
from certigraph.state.records import Action, Task, with_args
from certigraph.state.run import (
    FINISH,
    Belief,
    BeliefForm,
    BeliefState,
    BelievedFact,
    RunState,
    Stagnation,
    create_turn,
    is_stopped,
    jaccard,
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
    memory_view,
)

# The slots of CGDP's two interventions, memory and gate, and of the final answer. In some graphs they are optional.


def accepts_answer(state: RunState, runtime: Runtime[Context]) -> bool:
    """Return whether episodes of the task's benchmark end with an answer. If so, the agent can be made to give one."""
    return benchmark_of(state["task"], runtime).answers


def are_steps_spent(state: BeliefState, runtime: Runtime[Context]) -> bool:
    """Return whether the episode has used up its world steps. Its world then accepts only an answer."""
    return len(state["history"]) >= limits_of(state["task"], runtime).steps


def end_or_forced(end: str, state: BeliefState, runtime: Runtime[Context]) -> str:
    """Return the edge that a run takes when it ends without reaching its goal.

    It is `forced` (give an answer that is not certified) if the world still takes an answer, else the given `end`.
    """
    return "forced" if accepts_answer(state, runtime) and not state["observation"].done else end


def edge_unless_spent(edge: str, state: BeliefState, runtime: Runtime[Context]) -> str:
    """Return `forced` if the episode's steps are used up and its world takes an answer, else the given `edge`."""
    return end_or_forced(edge, state, runtime) if are_steps_spent(state, runtime) else edge


def after_gate(state: BeliefState, runtime: Runtime[Context]) -> str:
    """Return `stop` if the gate has ended the search and the world has not, else `continue`."""
    return "stop" if is_stopped(state) and not state["observation"].done else "continue"


def after_gate_or_answer(state: BeliefState, runtime: Runtime[Context]) -> str:
    """Return `continue` or `stop` as `after_gate`, and `forced` instead of `stop` if the world takes an answer."""
    edge = after_gate(state, runtime)
    return end_or_forced(edge, state, runtime) if edge == "stop" else edge


def _record_round(state: BeliefState, update: Update, runtime: Runtime[Context]) -> Update:
    return {**update, "rounds": latest_round(state)}


def _skip_before_action(state: BeliefState, runtime: Runtime[Context]) -> Update | None:
    # The history alone does not show it: a sub-task starts with the steps of the run that it is a part of.
    has_acted = state["history"] and state.get("action")
    return None if has_acted else {"stagnation": Stagnation(), "rounds": []}


def _mark_forced(state: Any, update: Update, runtime: Runtime[Context]) -> Update:
    """Record in the answer's arguments why the answer was forced, because no certificate supports it."""
    action: Action = update["action"]
    if action.kind != FINISH:
        return update
    return {**update, "action": with_args(action, {"forced": _reason_of_force(state, runtime)})}


def _reason_of_force(state: Any, runtime: Runtime[Context]) -> str:
    if is_stopped(state):
        return BY_GATE
    if are_steps_spent(state, runtime):
        return BY_STEPS
    return BY_METHOD if "plan" in state else BY_ROUNDS


def _skip_without_answer(state: BeliefState, runtime: Runtime[Context]) -> Update | None:
    takes_answer = accepts_answer(state, runtime) and not state["observation"].done
    return None if takes_answer else {}


def _record_delivery(state: Any, update: Update, runtime: Runtime[Context]) -> Update:
    turn = {"turns": [create_turn("", state["action"], update["observation"])]} if "turns" in state else {}
    return {**update, **turn}


MEMORY = Slot("memory", {"belief": Belief}, memory_view)
EXTRACT = MEMORY._replace(name="extract")
GATE = Slot("gate", {"stagnation": Stagnation}, gate_view, _record_round, _skip_before_action)
ANSWER = Slot("answer", {"action": Action}, answer_view, _mark_forced, _skip_without_answer)
DELIVER = ACT._replace(name="deliver", record=_record_delivery)
SEARCH_SLOTS = frozenset(slot.name for slot in (MEMORY, GATE, ANSWER, DELIVER))
"""Slots of `react` that make a search agent of it, which has no verdict at the end."""

DECIDE_WITH_BELIEF = DECIDE._replace(writes={**DECIDE.writes, "belief": Belief})
"""Slot `decide` of agents, such as MemGPT, that write a memory of their own into the belief if its form is `native`."""


# Reorganisation of a belief that has grown too large (CGDP appendix E.3): from more than 10 items to at most 6.
#
# A model curates it. Items beyond the target are cut afterwards, so that the bound holds for any answer.

REORGANISE_ABOVE, MAX_ITEMS = 10, 6
"""Number of items (facts, questions or notes) above which a belief is shortened, and maximum number afterwards."""


class FoundFact(BaseModel):
    """A fact as models write it."""

    fact: Annotated[str, Field(min_length=1)]
    source: str


def to_fact(written: FoundFact) -> BelievedFact:
    """Convert a fact that a model wrote to a `BelievedFact`, without line breaks: prompts list one fact per line."""
    return BelievedFact(text=" ".join(written.fact.split()), source=" ".join(written.source.split()))


class Curated(BaseModel):
    """The model's answer for a structured belief."""

    reasoning: FirstReasoning = ""
    facts: Annotated[list[FoundFact], Truncated(REORGANISE_ABOVE)]
    questions: Annotated[list[Annotated[str, Field(min_length=1)]], Truncated(REORGANISE_ABOVE)]


async def reorganise_belief(
    belief: Belief, task: Task, runtime: Runtime[Context], *, target: int, trigger: int
) -> Belief:
    """Return the belief unchanged if it has at most `trigger` items, else shortened by a model to `target` items."""
    if belief.items <= trigger:
        return belief
    curate = _rewrite_notes if belief.form == "freeform" else _curate_items
    shorter = await curate(belief, task, runtime, target)
    # An empty answer must not erase the agent's memory: the latest items are used instead.
    result = _cut_to_target(shorter, target) if shorter.items else _latest_items(belief, target)
    return result.model_copy(update={"reorganised": belief.reorganised + 1})


def check_sizes(name: str, target: int, trigger: int, **counts: int) -> None:
    """Check the arguments of the memory operator `name`: 1 <= target <= trigger, and no count below 0.

    Raises:
        UnknownName: an argument is outside these bounds.
    """
    if not 1 <= target <= trigger or min(counts.values()) < 0:
        given = ", ".join(f"{key}={value}" for key, value in {"target": target, "trigger": trigger, **counts}.items())
        rule = f"1 <= target <= trigger and {' and '.join(f'{key} >= 0' for key in counts)}"
        raise UnknownName(f"{name}({given}): {rule}, as in memory={name}:target=6")


async def _curate_items(belief: Belief, task: Task, runtime: Runtime[Context], target: int) -> Belief:
    instruction = CURATE_INSTRUCTION.format(
        belief=quote(belief.text), task=task.goal, facts=target - _max_questions(target), open=_max_questions(target)
    )
    answer = await ask(build_prompt(runtime, instruction), Curated, role="extractor", runtime=runtime)
    facts = tuple(fact for fact in map(to_fact, answer.facts) if fact.text)
    questions = (" ".join(question.split()) for question in answer.questions)
    return belief.model_copy(update={"facts": facts, "questions": tuple(filter(None, questions))})


async def _rewrite_notes(belief: Belief, task: Task, runtime: Runtime[Context], target: int) -> Belief:
    instruction = REWRITE_INSTRUCTION.format(belief=quote(belief.text), task=task.goal, target=target)
    text = await ask_text(build_prompt(runtime, instruction), role="extractor", runtime=runtime)
    return belief.model_copy(update={"notes": tuple(parse_notes(text))})


def _max_questions(target: int) -> int:
    """Return how many of `target` items may be open questions: a third."""
    return target // 3


def _cut_to_target(belief: Belief, target: int) -> Belief:
    questions = belief.questions[: max(_max_questions(target), target - len(belief.facts))]
    facts = belief.facts[: target - len(questions)]
    return belief.model_copy(update={"facts": facts, "questions": questions, "notes": belief.notes[:target]})


def _latest_items(belief: Belief, target: int) -> Belief:
    facts, questions, notes = belief.facts[-target:], belief.questions[-target:], belief.notes[-target:]
    return _cut_to_target(belief.model_copy(update={"facts": facts, "questions": questions, "notes": notes}), target)


CURATE_INSTRUCTION = """\
Write a shorter list of the facts and open questions gathered so far, the most important first: at most {facts} facts
and {open} questions. Join facts that say the same into one, drop what does not matter to the question, and keep every
link of a chain of facts that leads to the answer, even if it seems to be beside the point by itself. Each fact keeps
its source. Word the questions by what is unknown now, and keep one only while no fact answers it.

Question that they are for: {task}

Facts and open questions gathered so far:
{belief}
"""

REWRITE_INSTRUCTION = """\
Write a shorter list of the notes gathered so far, as plain text and not as JSON: at most {target} notes, one a line,
the most important first. Join notes that say the same, drop what does not matter to the question, and keep every link
of a chain that leads to the answer, with names, values, titles and quotations as they are.

Question that they are for: {task}

Notes gathered so far:
{belief}
"""


# Update of the belief state (CGDP section 5.1, appendix E): extract what an observation adds, given only b_t and o_t.
#
# An item stays until it is resolved or the belief is reorganised. A belief of another form (for example MemGPT's own
# notes) is dropped: the extracted belief replaces the agent's memory.

VISIBLE_TURNS = 1
"""Number of latest turns that the agent sees in addition to the belief.

In CGDP section 5.1 an observation is discarded once the belief has been updated with it (0 turns). In CGDP's
experiments (section 6.2) the agent sees the belief and the latest observation (1 turn); the default follows these.
"""

SAME_QUESTION = 0.5
"""Minimum Jaccard similarity of an open question to one that the model calls resolved for both to count as the same.

Models are asked for numbers of questions, but some write the question, and not word for word.
"""


STARTS = ("empty", "question")
"""What a structured belief begins with."""


class Findings(BaseModel):
    """The model's answer to structured extraction."""

    reasoning: FirstReasoning = ""
    facts: Annotated[list[FoundFact], Truncated(20)]
    resolved: Annotated[list[str], Truncated(20)]
    questions: Annotated[list[Annotated[str, Field(min_length=1)]], Truncated(20)]


@factory
def structured(
    *,
    target: int = MAX_ITEMS,
    trigger: int = REORGANISE_ABOVE,
    window: int = VISIBLE_TURNS,
    searches: int = Belief().searches,
    missing: bool = True,
    start: str = "empty",
) -> Operator:
    """Keep a belief of facts with their sources and of open questions; a model updates it after each observation.

    New facts and questions are appended, and resolved questions are removed (CGDP appendix E.1).

    Args:
        target: maximum number of facts and questions after the belief was shortened (K in CGDP).
        trigger: number of facts and questions above which the belief is shortened.
        window: number of latest turns that the agent sees in addition to the belief.
        searches: number of latest actions before those turns that a search agent is reminded of, each with what it was
            the first to bring up. CGDP's agents see none (0).
        missing: whether the model is asked to state precisely what was not found. This clause makes models write facts
            such as "no evidence for ...", which CGDP's table 4 counts.
        start: the belief before the first observation: `empty`, or `question`, in which the task itself is the open
            question (b_0 in CGDP Algorithm 1), so that `satisfied_gate` can tell when it is answered.

    Raises:
        UnknownName: `target` is below 1 or above `trigger`, `window` or `searches` is negative, or there is no such
            `start`.
    """
    check_sizes("structured", target, trigger, window=window, searches=searches)
    if start not in STARTS:
        raise UnknownName(f"structured(start={start!r}): known are {', '.join(STARTS)}")

    async def structured(state: MemoryView, runtime: Runtime[Context]) -> dict[str, Any]:
        root = " ".join(state["task"].goal.split()) if start == "question" else ""
        before = _belief_of_form(state["belief"], "structured", window, searches)
        if root and state["belief"].form != "structured":
            before = before.model_copy(update={"questions": (root,)})
        if not state["observation"].text.strip():
            return {"belief": before}
        facts = before.model_copy(update={"questions": ()}).text or "Facts: (none)"
        known = quote(f"{facts}\nStill open:\n{numbered_list(before.questions)}")
        clause = MISSING_CLAUSE if missing else ""
        instruction = STRUCTURED_INSTRUCTION.format(known=known, task=state["task"].goal, missing=clause)
        findings = await ask(
            await _extraction_prompt(state, runtime, instruction), Findings, role="extractor", runtime=runtime
        )
        belief = update_belief(before, findings)
        # The task itself is the last of the open questions, after the ones that lead to it, and is never curated away.
        is_open = root in belief.questions
        belief = _with_questions(belief, (question for question in belief.questions if question != root))
        belief = await reorganise_belief(belief, state["task"], runtime, target=target, trigger=trigger)
        return {"belief": _with_questions(belief, (*belief.questions, root)) if is_open else belief}

    return structured


@factory
def freeform(
    *,
    target: int = MAX_ITEMS,
    trigger: int = REORGANISE_ABOVE,
    window: int = VISIBLE_TURNS,
    searches: int = Belief().searches,
) -> Operator:
    """Keep a belief of plain-text notes, to which a model adds after each observation (CGDP appendix E.2).

    Args:
        target: maximum number of notes after the belief was shortened (K in CGDP).
        trigger: number of notes above which the belief is shortened.
        window: number of latest turns that the agent sees in addition to the belief.
        searches: as in `structured`.

    Raises:
        UnknownName: `target` is below 1 or above `trigger`, or `window` or `searches` is negative.
    """
    check_sizes("freeform", target, trigger, window=window, searches=searches)

    async def freeform(state: MemoryView, runtime: Runtime[Context]) -> dict[str, Any]:
        before = _belief_of_form(state["belief"], "freeform", window, searches)
        if not state["observation"].text.strip():
            return {"belief": before}
        instruction = FREEFORM_INSTRUCTION.format(known=quote(before.text or "(nothing)"), task=state["task"].goal)
        request = await _extraction_prompt(state, runtime, instruction)
        text = await ask_text(request, role="extractor", runtime=runtime)
        found = parse_notes(text)
        belief = before.model_copy(update={"notes": (*before.notes, *_new_texts(found, before.notes))})
        return {"belief": await reorganise_belief(belief, state["task"], runtime, target=target, trigger=trigger)}

    return freeform


def update_belief(before: Belief, found: Findings) -> Belief:
    """Return the belief with new facts and questions appended and resolved questions removed."""
    by_text = {fact.text: fact for fact in map(to_fact, found.facts) if is_fact(fact.text)}
    facts = [by_text[text] for text in _new_texts(filter(None, by_text), [fact.text for fact in before.facts])]
    still_open = [
        question
        for number, question in enumerate(before.questions, 1)
        if not any(_names_question(resolved, number, question) for resolved in found.resolved)
    ]
    new_questions = (" ".join(question.split()) for question in found.questions)
    questions = (*still_open, *_new_texts(filter(None, new_questions), before.questions))
    return before.model_copy(update={"facts": (*before.facts, *facts), "questions": questions})


def _names_question(resolved: str, number: int, question: str) -> bool:
    return resolved.strip(" .") == str(number) or jaccard(question, resolved) >= SAME_QUESTION


def _with_questions(belief: Belief, questions: Iterable[str]) -> Belief:
    return belief.model_copy(update={"questions": tuple(questions)})


def _belief_of_form(belief: Belief, form: BeliefForm, window: int, searches: int) -> Belief:
    return belief if belief.form == form else Belief(form=form, window=window, searches=searches)


def _new_texts(texts: Iterable[str], known: Sequence[str]) -> list[str]:
    folded = {text.casefold() for text in known}
    return [text for text in dict.fromkeys(texts) if text.casefold() not in folded]


async def _extraction_prompt(state: MemoryView, runtime: Runtime[Context], instruction: str) -> Prompt:
    """Build the extractor's prompt, with the observation as far as it fits into the window."""
    text, profile = state["observation"].text, await profile_of("extractor", runtime)
    rest = build_prompt(runtime, JUST_FOUND.format(instruction=instruction, text=""))
    most = int((profile.prompt_tokens - estimate_tokens(rest.system + rest.user)) * CHARACTERS_PER_TOKEN)
    cut = () if len(text) <= most else ("the end of the observation",)
    return build_prompt(runtime, JUST_FOUND.format(instruction=instruction, text=quote(text, most)), cut=cut)


JUST_FOUND = """\
{instruction}
Just found:
{text}

What does it add?
"""


STRUCTURED_INSTRUCTION = """\
First, in `reasoning`: what does the text just found, at the end, state? Repeat its claims exactly: who did what, which
thing is meant, which values. Then: which of them matter to the question and are not known yet, and do they settle one
of the open questions?
facts: the new claims that matter to the question, worded so that who and what they are about does not change; `source`
is the title of the passage. None if the text says nothing new.
resolved: the numbers of the open questions that are now answered. None if none is.
questions: what else must be found out to answer the question and is not among the open ones yet, one thing each. None
if nothing is.
{missing}
Question that all of this is for: {task}

Known already, not to be written again:
{known}
"""

MISSING_CLAUSE = """\
Word the questions as precisely as what was found allows: state which evidence is missing and was not found.
"""

FREEFORM_INSTRUCTION = """\
First think, between <scratchpad> and </scratchpad>: what does the text just found, at the end, state? Repeat its
claims exactly: who did what, which thing is meant, which values. How do they bear on the question and on the notes, and
what of it is new? Then write, as plain text and not as JSON, only what the notes lack, one item a line:
Notes:
- a finding, worded so that who and what it is about does not change, with the title of its passage
- what still has to be found out
Memories to keep:
- a passage whose very words matter, quoted, with its title; none that a note covers already
If the text adds nothing, write after the scratchpad: Nothing new.

Question that all of this is for: {task}

Notes so far, not to be written again:
{known}
"""


# Memories without a model, and the names of the four memory conditions (CGDP section 6.2).


async def native(state: MemoryView, runtime: Runtime[Context]) -> dict[str, Any]:
    """Leave the agent's own memory unchanged: all turns, or what an agent such as MemGPT keeps of them."""
    return {"belief": state["belief"]}


async def lobotomized(state: MemoryView, runtime: Runtime[Context]) -> dict[str, Any]:
    """Erase the memory: the agent sees only the task and the latest turn."""
    return {"belief": Belief(form="lobotomized", window=1)}


MEMORIES: Mapping[str, Callable[[], Operator]] = {
    "native": lambda: native,
    "lobotomized": lambda: lobotomized,
    "structured": structured,
    "freeform": freeform,
}


def with_memory(operators: Mapping[str, object], slot: str = "memory") -> dict[str, object]:
    """Return a copy of `operators` in which a memory that is given by name (`native`, ...) is replaced by its operator.

    Args:
        operators: operators by slot.
        slot: name of the slot that holds the memory.

    Raises:
        UnknownName: there is no memory of that name; the message lists them.
    """
    memory = operators.get(slot)
    return {**operators, slot: to_memory(memory)} if isinstance(memory, str) else dict(operators)


def to_memory(memory: Operator | str) -> Operator:
    """Return the memory operator of a name (`native`, ...); an operator is returned as it is.

    Raises:
        UnknownName: there is no memory of that name; the message lists them.
    """
    if not isinstance(memory, str):
        return memory
    if memory not in MEMORIES:
        raise UnknownName(f"no memory condition {memory!r}; known: {', '.join(MEMORIES)}, or give your own operator")
    return MEMORIES[memory]()

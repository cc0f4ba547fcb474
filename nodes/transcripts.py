"""The rounds of a search agent in its prompts: a transcript with each passage once, and how many rounds are left.

A transcript grows only at the end, so that prefix caches hit.
"""

from collections.abc import Sequence
from itertools import chain

from langgraph.runtime import Runtime

from certigraph.adapters.benchmarks import benchmark_of, limits_of
from certigraph.adapters.models.calls import profile_of
from certigraph.adapters.models.profiles import ModelProfile
from certigraph.adapters.models.prompts import (
    TURNS_PER_BLOCK,
    History,
    Prompt,
    build_prompt,
    bullet_list,
    clip,
    fit_turns,
    format_steps,
    quote,
    quote_history,
)
from certigraph.adapters.models.prompts import paragraphs as join
from certigraph.adapters.protocols import Context, Limits
from certigraph.state.run import DecideView, Turn, shown_advice
from certigraph.state.search import AnswerView, GateView, lines_with_sources

ELIDED_NOTE = "(shown above, or no longer)"
ELIDED_MORE = "(and {count} shown above, or no longer)"


async def search_prompt(
    state: DecideView | AnswerView | GateView,
    instruction: str,
    role: str,
    runtime: Runtime[Context],
    *,
    shown: str = "",
    closing: str,
    paragraphs: int | None = None,
    excerpt: int | None = None,
) -> Prompt:
    """Build a prompt from an instruction, the turns that a search agent sees, its belief, and the advice to it.

    A model that is not small sees all turns whole that fit into its window; a small one what `format_transcript` keeps.

    Args:
        state: view of the operator.
        instruction: what is asked, and the question that all of it is for: the same in all requests of the operator.
        role: role of the model that is asked.
        runtime: the operator's runtime.
        shown: what else is asked about and changes from request to request.
        closing: the last line, which says what to answer now.
        paragraphs: maximum number of different passages; the latest ones are shown.
        excerpt: maximum characters of a passage for a small model; None for `Limits.excerpt`.
    """
    belief, lasting = state["belief"], int(dict(state).get("lasting", 0))  # type: ignore[call-overload]
    constant, advice = shown_advice(state)[:lasting], shown_advice(state)[lasting:]
    notes = f"Notes from earlier rounds:\n{quote(belief.text)}" if belief.text else ""
    # Notes that grow while turns leave come first, notes besides turns that grow come after them.
    early = notes if belief.form in GROWING_FORMS else ""
    before = join(instruction, f"Given for it:\n{bullet_list(constant)}" if constant else "", early)
    reminders = f"To keep in mind:\n{bullet_list(advice)}" if advice else ""
    after = join("" if early else notes, reminders, shown, closing)
    rest = build_prompt(runtime, join(before, after))
    if not state["turns"]:
        return rest
    limits = limits_of(state["task"], runtime)
    limits = limits if excerpt is None else limits.model_copy(update={"excerpt": min(limits.excerpt, excerpt)})
    profile = await profile_of(role, runtime)
    history = format_rounds(state["turns"], limits, profile, rest.system + rest.user, paragraphs=paragraphs)
    heading = "Rounds so far" if belief.window is None else "Latest rounds"  # a memory stands for the others
    rounds = f"{heading}, each action with what it brought up:\n{quote_history(history)}"
    return build_prompt(runtime, join(before, rounds, after), cut=history.cut)


GROWING_FORMS = ("structured", "freeform")
"""Forms of beliefs to which each round adds, while the turns that are shown are the latest few."""


def format_rounds_left(state: DecideView, runtime: Runtime[Context]) -> str:
    """Format how many rounds an agent has left, or actions if it has no rounds: the last paragraph of its prompt."""
    limits, benchmark = limits_of(state["task"], runtime), benchmark_of(state["task"], runtime)
    most = limits.rounds or (state["most_rounds"] if benchmark.answers else 0)
    if not state["most_rounds"] or not most:
        return format_steps(state["task"], runtime, state["steps"])
    left = min(most - state["rounds"], limits.steps - state["steps"])
    last = " After the last one the answer is asked for." if benchmark.answers else ""
    return f"Rounds left, with this one: {left} of {most}.{last}"


def format_rounds(
    turns: Sequence[Turn], limits: Limits, profile: ModelProfile, rest: str, *, paragraphs: int | None = None
) -> History:
    """Format the turns of a search agent as far as the model's window allows, or for a small model `limits`.

    Args:
        turns: the turns, oldest first.
        limits: bounds on the text for a small model, as in `format_transcript`.
        profile: profile of the model.
        rest: everything else in the prompt.
        paragraphs: maximum number of different passages; the latest ones are shown.
    """
    if not profile.is_small:
        return fit_turns(turns, lambda shown: format_whole_turns(shown, paragraphs=paragraphs), rest, profile)
    text = format_transcript(turns, limits, paragraphs=paragraphs)
    return History(text, describe_rounds_cut(turns, limits, paragraphs=paragraphs))


def is_first_round(state: DecideView) -> bool:
    """Return whether this is the episode's first round.

    In a later round the agent sees a turn, or a memory has replaced the turns by its belief.
    """
    return not state["turns"] and state["belief"].form == "native"


def format_transcript(turns: Sequence[Turn], limits: Limits, *, paragraphs: int | None = None) -> str:
    """Format thought, action and passages of each turn for a small model; each passage is shown once.

    The oldest turns are dropped, a block at a time, until the text fits into `limits.context` characters (CGDP Eq. 2).

    Args:
        turns: the turns, oldest first.
        limits: `context` bounds the complete text, `excerpt` each passage, in characters.
        paragraphs: maximum number of different passages; the latest ones are shown.
    """
    kept = _fitting_turns(turns, limits, paragraphs)
    return clip("\n".join(_format_turns(kept, limits.excerpt, paragraphs)), limits.context)


def _fitting_turns(turns: Sequence[Turn], limits: Limits, paragraphs: int | None) -> Sequence[Turn]:
    kept = turns
    while len(kept) > 1 and transcript_length(kept, limits.excerpt, paragraphs=paragraphs) > limits.context:
        kept = kept[TURNS_PER_BLOCK:] if len(kept) > TURNS_PER_BLOCK else kept[-1:]
    return kept


def format_whole_turns(turns: Sequence[Turn], *, paragraphs: int | None = None) -> list[str]:
    """Format each turn of a search agent whole, and each passage once; `paragraphs` is as in `format_transcript`."""
    return _format_turns(turns, None, paragraphs)


def describe_rounds_cut(turns: Sequence[Turn], limits: Limits, *, paragraphs: int | None = None) -> tuple[str, ...]:
    """Return what `format_transcript` leaves out of the turns, for `Prompt.cut`; arguments are as there."""
    hidden = len(turns) - len(_fitting_turns(turns, limits, paragraphs))
    return (f"the oldest {hidden} of {len(turns)} turns beyond {limits.context:,} characters",) if hidden else ()


def transcript_length(turns: Sequence[Turn], excerpt: int | None, *, paragraphs: int | None = None) -> int:
    """Count the characters that `turns` take in a transcript if none is dropped.

    Args:
        turns: the turns.
        excerpt: maximum characters of a passage; None for no limit.
        paragraphs: maximum number of different passages.
    """
    texts = _format_turns(turns, excerpt, paragraphs)
    return sum(map(len, texts)) + len(texts)


def _format_turns(turns: Sequence[Turn], excerpt: int | None, paragraphs: int | None) -> list[str]:
    sources = list(dict.fromkeys(chain.from_iterable(turn.sources for turn in turns)))
    # Sources that count as seen are not shown: with a limit, all but the latest.
    seen = set(sources[:-paragraphs] if paragraphs else ())
    return [_format_turn(turn, excerpt, seen) for turn in turns]


def _format_turn(turn: Turn, excerpt: int | None, seen: set[str]) -> str:
    thought = f"Thought: {turn.thought}\n" if turn.thought else ""
    return f"{thought}> {turn.action}\n" + "\n".join(_observation_lines(turn, excerpt, seen))


def _observation_lines(turn: Turn, excerpt: int | None, seen: set[str]) -> list[str]:
    most = len(turn.observation) if excerpt is None else excerpt
    listed = lines_with_sources(turn.observation, turn.sources)
    if listed is None:
        return [clip(" ".join(turn.observation.splitlines()), most)]
    new = [line for source, line in listed if source not in seen]
    seen.update(turn.sources)
    if not new:
        return [ELIDED_NOTE]
    hidden = len(listed) - len(new)
    more = [ELIDED_MORE.format(count=hidden)] if hidden else []
    return [*(clip(line, most) for line in new), *more]

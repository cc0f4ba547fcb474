"""The rounds of a search agent in its prompts: a transcript with each passage once, and how many rounds are left.

A transcript grows only at the end, so that prefix caches hit.
"""

from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import chain

from langgraph.runtime import Runtime

from certigraph.adapters.benchmarks import benchmark_of, limits_of
from certigraph.adapters.models.calls import profile_of
from certigraph.adapters.models.profiles import ModelProfile, estimate_tokens
from certigraph.adapters.models.prompts import (
    History,
    Prompt,
    build_prompt,
    bullet_list,
    fit_turns,
    format_steps,
    quote,
    quote_history,
)
from certigraph.adapters.models.prompts import paragraphs as join
from certigraph.adapters.protocols import Context
from certigraph.state.channels import LogIndexes
from certigraph.state.run import BELIEF_FORMS, DecideView, Turn, shown_advice
from certigraph.state.search import AnswerView, GateView, lines_with_sources

ELIDED_END = "shown before)"
ELIDED_NOTE = f"({ELIDED_END}"
ELIDED_MORE = f"(and {{count}} {ELIDED_END}"


async def search_prompt(
    state: DecideView | AnswerView | GateView,
    instruction: str,
    role: str,
    runtime: Runtime[Context],
    *,
    shown: str = "",
    closing: str,
    paragraphs: int | None = None,
) -> Prompt:
    """Build a prompt from an instruction, the turns that a search agent sees, its belief, and the advice to it.

    All turns that fit into the model's window are shown whole.

    Args:
        state: view of the operator.
        instruction: what is asked, and the question that all of it is for: the same in all requests of the operator.
        role: role of the model that is asked.
        runtime: the operator's runtime.
        shown: what else is asked about and changes from request to request.
        closing: the last line, which says what to answer now.
        paragraphs: maximum number of different passages; the latest ones are shown.
    """
    belief, lasting = state["belief"], int(dict(state).get("lasting", 0))  # type: ignore[call-overload]
    constant, advice = shown_advice(state)[:lasting], shown_advice(state)[lasting:]
    notes = f"Notes from earlier rounds:\n{quote(belief.text)}" if belief.text else ""
    # Notes that grow while turns leave come first, notes besides turns that grow come after them.
    early = notes if belief.form in BELIEF_FORMS else ""
    replaced: Sequence[str] = dict(state).get("replaced", ())  # type: ignore[assignment]
    earlier = REPLACED_ACTIONS.format(actions=quote(bullet_list(replaced))) if replaced else ""
    before = join(instruction, f"Given for it:\n{bullet_list(constant)}" if constant else "", early, earlier)
    reminders = f"To keep in mind:\n{bullet_list(advice)}" if advice else ""
    after = join("" if early else notes, reminders, shown, closing)
    rest = build_prompt(runtime, join(before, after))
    if not state["turns"]:
        return rest
    profile = await profile_of(role, runtime)
    history = format_rounds(state["turns"], profile, rest.system + rest.user, paragraphs=paragraphs)
    heading = "Rounds so far" if belief.window is None else "Latest rounds"  # a memory stands for the others
    rounds = f"{heading}, each action with what it brought up:\n{quote_history(history)}"
    return build_prompt(runtime, join(before, rounds, after), cut=history.cut)


REPLACED_ACTIONS = """\
Actions of earlier rounds, each with what it was the first to bring up:
{actions}"""


def format_rounds_left(state: DecideView, runtime: Runtime[Context]) -> str:
    """Format how many rounds an agent has left, or actions if it has no rounds: the last paragraph of its prompt."""
    limits, benchmark = limits_of(state["task"], runtime), benchmark_of(state["task"], runtime)
    most = limits.rounds or (state["most_rounds"] if benchmark.answers else 0)
    if not state["most_rounds"] or not most:
        return format_steps(state["task"], runtime, state["steps"])
    left = min(most - state["rounds"], limits.steps - state["steps"])
    last = " After the last one the answer is asked for." if benchmark.answers else ""
    return f"Rounds left, with this one: {left} of {most}.{last}"


def format_rounds(turns: Sequence[Turn], profile: ModelProfile, rest: str, *, paragraphs: int | None = None) -> History:
    """Format thought, action and passages of each turn, as far as the model's window allows; each passage once.

    Args:
        turns: the turns, oldest first.
        profile: profile of the model.
        rest: everything else in the prompt.
        paragraphs: maximum number of different passages; the latest ones are shown.
    """
    return fit_turns(turns, _windows_of(paragraphs)(turns).fit, rest, profile)


def is_first_round(state: DecideView) -> bool:
    """Return whether this is the episode's first round.

    In a later round the agent sees a turn, or a memory has replaced the turns by its belief.
    """
    return not state["turns"] and state["belief"].form == "native"


def format_whole_turns(turns: Sequence[Turn], *, paragraphs: int | None = None) -> list[str]:
    """Format each turn of a search agent whole, and each passage once; `paragraphs` is as in `format_rounds`."""
    return _format_turns(turns, paragraphs)


class _Window:
    """Neighbouring turns, each formatted as `format_whole_turns` does; further turns are added at the end.

    Adding a turn formats that turn, and those whose passages are no longer among the latest `paragraphs`.
    """

    def __init__(self, turns: Iterable[Turn], paragraphs: int | None) -> None:
        self.texts: list[str] = []
        self.tokens = 0
        self._turns: list[Turn] = []
        self._paragraphs = paragraphs
        self._sources: list[str] = []
        """Ids of all passages in the order in which they came."""
        self._known: set[str] = set()
        self._owners: dict[str, int] = {}
        """Number of the turn that shows a passage, which is the first one that lists it."""
        self._hidden: set[str] = set()
        for turn in turns:
            self.add(turn)

    def add(self, turn: Turn) -> None:
        """Add a turn."""
        number = len(self._turns)
        self._turns.append(turn)
        self._sources += [source for source in dict.fromkeys(turn.sources) if source not in self._known]
        self._known.update(turn.sources)
        if lines_with_sources(turn.observation, turn.sources) is not None:
            for source in turn.sources:
                self._owners.setdefault(source, number)
        self.texts.append("")
        changed = {number, *self._hide_oldest()}
        for one in changed:
            before = estimate_tokens(self.texts[one]) if self.texts[one] else 0
            self.texts[one] = self._format(one)
            self.tokens += estimate_tokens(self.texts[one]) - before

    def _hide_oldest(self) -> Iterator[int]:
        """Hide the passages that are not among the latest, and yield the numbers of the turns that showed them."""
        if self._paragraphs:
            surplus = max(len(self._sources) - self._paragraphs, 0)
            for source in self._sources[len(self._hidden) : surplus]:
                self._hidden.add(source)
                if source in self._owners:
                    yield self._owners[source]

    def _format(self, number: int) -> str:
        turn = self._turns[number]
        seen = {one for one in turn.sources if one in self._hidden or self._owners.get(one, number) != number}
        return _format_turn(turn, seen)


class _FittingTurns:
    """Turns of an episode, and as many of the latest as fit into a prompt, kept from one prompt to the next."""

    def __init__(self, paragraphs: int | None) -> None:
        self._paragraphs = paragraphs
        self._turns: list[Turn] = []
        self._whole = _Window((), paragraphs)
        self._available, self._start, self._window = -1, 0, _Window((), paragraphs)

    def add(self, turns: Iterable[Turn]) -> None:
        """Add turns."""
        for turn in turns:
            self._turns.append(turn)
            self._whole.add(turn)

    def fit(self, available: int) -> tuple[int, Sequence[str]]:
        """Return the index of the first turn that is shown, and the texts of the turns from it on.

        If all do not fit, they are added one by one, as in the run; whenever one more does not fit, the oldest are left
        out until the rest takes up half of the space. The last turn is shown even if it does not fit whole.

        Args:
            available: maximum tokens.
        """
        if self._whole.tokens <= available:
            return 0, self._whole.texts
        if available != self._available:
            self._available, self._start, self._window = available, 0, _Window((), self._paragraphs)
        for last in range(self._start + len(self._window.texts), len(self._turns)):
            self._window.add(self._turns[last])
            if self._window.tokens > available and last > self._start:
                self._leave_out(last, available // 2)
        return self._start, self._window.texts

    def _leave_out(self, last: int, available: int) -> None:
        # Least size of each turn once those before it are left out: passages that it shows now are shown then too,
        # unless their number is limited; the note about elided ones may be missing.
        turns = self._turns[self._start : last + 1]
        limited = self._paragraphs is not None
        texts = map(_format_head, turns) if limited else map(_drop_note, self._window.texts)
        costs = list(map(estimate_tokens, texts))
        least = sum(costs)
        for dropped, cost in enumerate(costs[:-1], 1):
            least -= cost
            if least <= available or dropped == len(turns) - 1:
                self._window = _Window(turns[dropped:], self._paragraphs)
                if self._window.tokens <= available or dropped == len(turns) - 1:
                    self._start += dropped
                    return


@lru_cache(maxsize=16)
def _windows_of(paragraphs: int | None) -> LogIndexes[Turn, _FittingTurns]:
    return LogIndexes(lambda: _FittingTurns(paragraphs))


def transcript_length(turns: Sequence[Turn]) -> int:
    """Count the characters that `turns` take in a transcript if none is dropped."""
    texts = format_whole_turns(turns)
    return sum(map(len, texts)) + len(texts)


def _format_turns(turns: Sequence[Turn], paragraphs: int | None) -> list[str]:
    sources = list(dict.fromkeys(chain.from_iterable(turn.sources for turn in turns)))
    # Sources that count as seen are not shown: with a limit, all but the latest.
    seen = set(sources[:-paragraphs] if paragraphs else ())
    return [_format_turn(turn, seen) for turn in turns]


def _format_turn(turn: Turn, seen: set[str]) -> str:
    return _format_head(turn) + "\n".join(_observation_lines(turn, seen))


def _drop_note(text: str) -> str:
    return text.rpartition("\n")[0] if text.endswith(ELIDED_END) else text


def _format_head(turn: Turn) -> str:
    thought = f"Thought: {turn.thought}\n" if turn.thought else ""
    return f"{thought}> {turn.action}\n"


def _observation_lines(turn: Turn, seen: set[str]) -> list[str]:
    listed = lines_with_sources(turn.observation, turn.sources)
    if listed is None:
        return [" ".join(turn.observation.splitlines())]
    new = [line for source, line in listed if source not in seen]
    seen.update(turn.sources)
    if not new:
        return [ELIDED_NOTE]
    hidden = len(listed) - len(new)
    more = [ELIDED_MORE.format(count=hidden)] if hidden else []
    return [*new, *more]

"""Data frames of the CGDP study, from which its tables are computed.

The gate of the study stops a search that makes no more progress. The module computes when other settings of the gate
would have stopped a recorded run, what a run would have scored and cost with the gate, and what beliefs cost.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import pandas as pd
from langgraph.runtime import Runtime

from certigraph.adapters.protocols import Context, Operator
from certigraph.evaluation.analyses.cgdp_runs import (
    BELIEFS,
    GAPS,
    GATE_NODE,
    MEMORY,
    ON,
    SHADOW,
    STRUCTURED,
    StudyRun,
    is_no_evidence,
    round_usage_of,
    tokens_of,
)
from certigraph.nodes.gates import MAX_CHANGE, gate_grid
from certigraph.nodes.operators import call_operator
from certigraph.nodes.slots import build_operator
from certigraph.runtime.registry import OPERATORS
from certigraph.runtime.run import run_blocking
from certigraph.state.run import SearchRound, Stagnation
from certigraph.state.search import BY_GATE
from certigraph.state.trajectory import Event

# Replay of gate settings on recorded rounds: when each would have fired. A replay cannot know scores. The tokens that
# it counts as saved are those of the rounds after the fire round and of the natural final answer; the final answer
# that the gate would have requested is not subtracted.


class GateReplay(NamedTuple):
    """Replay of one setting of the gate on one recorded run.

    `setting` ends in WITH_CHANGE if the gate also checks how much the belief changed (CGDP appendix G.4). `fired` is
    the search round, from 1, after which the gate would have stopped the run; None: never. `saved` is the number of
    tokens that this would have saved.
    """

    setting: str
    fired: int | None
    saved: int


WITH_CHANGE = "_d"
"""End of the labels of settings that check the state difference too."""


def create_replay_gates() -> dict[str, Operator]:
    """Create a gate operator for each of the settings to replay (`certigraph.nodes.gates.gate_grid`), by label."""
    grid = {**gate_grid(), **{f"{label}{WITH_CHANGE}": spec for label, spec in gate_grid(MAX_CHANGE).items()}}
    return {label: build_operator(spec, OPERATORS) for label, spec in grid.items()}


def replays_of(seen: StudyRun, gates: Mapping[str, Operator]) -> list[GateReplay]:
    """Replay every setting of the gate on a run that no gate stopped.

    Settings that check the state difference are left out where the memory is no belief.
    """
    natural = tokens_of([event for event in seen.events if event.node != GATE_NODE])
    opening = tokens_of([event for event in seen.events if event.node == "reset"])
    rounds = [spent.tokens for spent in round_usage_of(seen.events)]
    has_changes = any(r.change is not None for r in seen.rounds)
    chosen = {label: gate for label, gate in gates.items() if has_changes or not label.endswith(WITH_CHANGE)}
    fired = run_blocking(_fire_rounds(chosen, seen))
    return [
        GateReplay(name, round_number, 0 if round_number is None else natural - opening - sum(rounds[:round_number]))
        for name, round_number in fired.items()
    ]


async def _fire_rounds(gates: Mapping[str, Operator], seen: StudyRun) -> dict[str, int | None]:
    return {name: await _fire_round(gate, seen) for name, gate in gates.items()}


async def _fire_round(gate: Operator, seen: StudyRun) -> int | None:
    stagnation, rounds = Stagnation(), seen.rounds
    for number in range(1, len(rounds) + 1):
        view = _gate_view(seen, rounds[:number], stagnation)
        stagnation = (await call_operator(gate, view, Runtime(context=Context())))["stagnation"]
        if stagnation.stop:
            return number
    return None


def _gate_view(seen: StudyRun, rounds: Sequence[SearchRound], stagnation: Stagnation) -> dict[str, Any]:
    """Build the part of the state that a gate without a model reads."""
    return {"task": seen.trajectory.header.task, "rounds": rounds, "stagnation": stagnation}


# The blended counterfactual of the gate (CGDP, appendix G): its answer where it fired, else the natural one.
#
# One run with a shadow gate holds both: the run continues to its natural end, and where the gate would have stopped it,
# the final answer was requested once. The cost of the gated run is the cost until then, with that request.

ANSWER_ROLE = "executor"
"""Model role that gives the final answer; a gate that asks a model uses another role."""


class BlendedRun(NamedTuple):
    """Score (0 to 1) and tokens of a run without its gate (`natural`) and with it (`blended`).

    A shadow gate only records when it would have stopped the run, so that both can be computed. For other runs they are
    the same. `fired` is the search round, from 1, after which the gate stopped the run or would have stopped it; None:
    never. `answer_tokens` are those of the final answer that a shadow gate requested; they are part of
    `blended_tokens`, but not of `natural_tokens`.
    """

    fired: int | None
    natural: float
    blended: float
    natural_tokens: int
    blended_tokens: int
    answer_tokens: int


def blend_of(seen: StudyRun) -> BlendedRun:
    """Compute score and tokens of a run with and without its gate."""
    if seen.arm.gate == SHADOW:
        return _shadow_blend(seen)
    tokens, gated = tokens_of(seen.events), seen.arm.gate == ON and seen.forced == BY_GATE
    return BlendedRun(len(seen.rounds) if gated else None, seen.score, seen.score, tokens, tokens, 0)


def _shadow_blend(seen: StudyRun) -> BlendedRun:
    natural = tokens_of([event for event in seen.events if event.node != GATE_NODE])
    index = next((number for number, event in enumerate(seen.events) if _recorded_fire_round(event) is not None), None)
    if index is None:
        return BlendedRun(None, seen.score, seen.score, natural, tokens_of(seen.events), 0)
    event = seen.events[index]
    blended_tokens, answer = tokens_of(seen.events[: index + 1]), _answer_tokens(event)
    return BlendedRun(_recorded_fire_round(event), seen.score, seen.gate_score, natural, blended_tokens, answer)


def _recorded_fire_round(event: Event) -> int | None:
    """Return the round after which a shadow gate would have stopped the run, from an event; None if it would not."""
    stagnation = (event.update or {}).get("stagnation")
    number = stagnation.get("at") if event.node == GATE_NODE and isinstance(stagnation, dict) else None
    return number if isinstance(number, int) else None


def _answer_tokens(event: Event) -> int:
    calls = [call for call in event.calls if call["role"] == ANSWER_ROLE]
    return sum(int(str(call.get(part, 0))) for call in calls for part in ("input_tokens", "output_tokens"))


# Cost and degradation of beliefs: reorganisation (CGDP, H.4) and 'no evidence' artefacts (table 4).

EXTRACTOR_ROLE = "extractor"


class BeliefCosts(NamedTuple):
    """How often a model reorganised the belief of a run, the calls and tokens for it, and whether it has an artefact.

    An artefact is an open question in the belief which only says that nothing is known. A value is None if the memory
    condition of the run has no belief, or no open questions.
    """

    reorganisations: int | None
    calls: int | None
    tokens: int | None
    artefact: bool | None


def belief_costs_of(seen: StudyRun) -> BeliefCosts:
    """Compute the cost of reorganising the belief of one run, and whether the belief has an artefact."""
    if seen.arm.memory not in BELIEFS:
        return BeliefCosts(None, None, None, None)
    calls = [call for event in _reorganisation_events(seen) for call in _reorganisation_calls(event)]
    questions = [question for event in seen.events for question in _belief_update(event).get("questions", ())]
    artefact = any(map(is_no_evidence, questions)) if seen.arm.memory == STRUCTURED else None
    return BeliefCosts(seen.belief.reorganised, len(calls), sum(map(_tokens_of_call, calls)), artefact)


def _reorganisation_events(seen: StudyRun) -> Iterator[Event]:
    """Yield the events in which a model reorganised the belief."""
    before = 0
    for event in seen.events:
        count = _belief_update(event).get("reorganised", before)
        if count > before:
            yield event
        before = count


def _reorganisation_calls(event: Event) -> Sequence[Mapping[str, Any]]:
    """Return the calls for a reorganisation: those of the role `extractor` after the first successful one.

    The first successful call extracts facts; failed attempts before it do not count as reorganisation.
    """
    calls = [call for call in event.calls if call["role"] == EXTRACTOR_ROLE]
    extracted = next((index for index, call in enumerate(calls) if not call.get("failure")), len(calls))
    return calls[extracted + 1 :]


def _belief_update(event: Event) -> Mapping[str, Any]:
    belief: Any = (event.update or {}).get("belief", {})
    return belief if event.node == MEMORY else {}


def _tokens_of_call(call: Mapping[str, Any]) -> int:
    return int(call.get("input_tokens", 0)) + int(call.get("output_tokens", 0))


# The frames, from which all tables of the study are computed.

Columns = Mapping[str, str]

KEY_COLUMNS: Columns = dict.fromkeys(("method", "harness", "memory", "gate", "variant", "benchmark", "task"), "str")
RUN_COLUMNS: Columns = {**KEY_COLUMNS, "trial": "Int64", "run": "str"}
EPISODE_COLUMNS: Columns = {
    **RUN_COLUMNS,
    "ending": "str",
    "score": "float64",
    "benchmark_score": "float64",
    **dict.fromkeys(("rounds", "calls", "tokens", "prompt_tokens", "fired"), "Int64"),
    "blended_score": "float64",
    **dict.fromkeys(("blended_tokens", "answer_tokens"), "Int64"),
    **dict.fromkeys(("reorganisations", "reorganisation_calls", "reorganisation_tokens"), "Int64"),
    "artefact": "boolean",
    "hops": "Int64",
    "answerable": "boolean",
    **dict.fromkeys((gap.name for gap in GAPS), "boolean"),
}
ROUND_COLUMNS: Columns = {
    **RUN_COLUMNS,
    **dict.fromkeys(("round", "agent", "memory_node", "tokens"), "Int64"),
    **dict.fromkeys(("jaccard", "upr", "change"), "float64"),
}
REPLAY_COLUMNS: Columns = {**RUN_COLUMNS, "setting": "str", "fired": "Int64", "saved": "Int64", "tokens": "Int64"}


class StudyFrames(NamedTuple):
    """Three data frames about finished runs; each starts with the columns of RUN_COLUMNS.

    episodes: one row per run. `score` is that of the recorded run, and `blended_score` the score if a shadow gate had
        stopped it, both from 0 to 100 and by the rubric of the study; `benchmark_score` is the benchmark's own.
        `tokens`, `calls` and `prompt_tokens` are without the requests of a shadow gate. `fired` is the search round,
        from 1, after which the gate fired; empty if it never fired. `rounds` is the number of search rounds.
        `reorganisations` and `artefact` (see `BeliefCosts`) are empty for memory conditions that cannot have them.
        `answerable` is whether the question has an answer in the corpus.
    rounds: one row per search round: prompt tokens of the agent (`agent`) and of the memory (`memory_node`), and all
        `tokens` except those of the gate; and what gates look at (see `SearchRound`), empty for the final answer.
    replays: one row per run that no gate stopped and per other setting of the gate: the round after which the setting
        would have fired, and the tokens saved.
    """

    episodes: pd.DataFrame
    rounds: pd.DataFrame
    replays: pd.DataFrame


def frames_of(runs: Iterable[StudyRun], gates: Mapping[str, Operator]) -> StudyFrames:
    """Build the data frames from runs, one run at a time; `gates` are the gate settings to replay, by name."""
    episodes: list[dict[str, Any]] = []
    rounds: list[dict[str, Any]] = []
    replays: list[dict[str, Any]] = []
    for seen in runs:
        key = _key_fields(seen)
        episodes.append({**key, **_episode_fields(seen)})
        rounds += [{**key, **line} for line in _round_rows(seen)]
        if seen.arm.gate != ON:
            tokens = episodes[-1]["tokens"]
            replays += [{**key, **line._asdict(), "tokens": tokens} for line in replays_of(seen, gates)]
    return StudyFrames(
        _frame(episodes, EPISODE_COLUMNS), _frame(rounds, ROUND_COLUMNS), _frame(replays, REPLAY_COLUMNS)
    )


def _key_fields(seen: StudyRun) -> dict[str, Any]:
    header = seen.trajectory.header
    arm = {"method": seen.arm.name, **seen.arm._asdict()}
    return {
        **arm,
        "benchmark": header.task.benchmark,
        "task": header.task.id,
        "trial": seen.trial,
        "run": header.run_id,
    }


def _episode_fields(seen: StudyRun) -> dict[str, Any]:
    blend, upkeep = blend_of(seen), belief_costs_of(seen)
    natural = [event for event in seen.events if event.node != GATE_NODE or seen.arm.gate == ON]
    return {
        "ending": seen.trajectory.ending,
        "score": 100 * seen.score,
        "benchmark_score": 100 * seen.benchmark_score,
        "rounds": len(seen.rounds),
        "calls": sum(event.usage.calls for event in natural),
        "tokens": tokens_of(natural),
        "prompt_tokens": sum(event.usage.input_tokens for event in natural),
        "fired": blend.fired,
        "blended_score": 100 * blend.blended,
        "blended_tokens": blend.blended_tokens,
        "answer_tokens": blend.answer_tokens,
        "reorganisations": upkeep.reorganisations,
        "reorganisation_calls": upkeep.calls,
        "reorganisation_tokens": upkeep.tokens,
        "artefact": upkeep.artefact,
        "hops": seen.truth.hops,
        "answerable": seen.truth.answerable,
        **{gap.name: gap.shows(seen) for gap in GAPS},
    }


def _round_rows(seen: StudyRun) -> list[dict[str, Any]]:
    # the agent's decision to answer counts as one more round, which has no signals
    signals: Sequence[SearchRound | None] = [*seen.rounds, *[None] * len(seen.events)]
    return [
        {
            **{"round": spent.number, "agent": spent.agent, "memory_node": spent.memory, "tokens": spent.tokens},
            **(signal.model_dump(include={"jaccard", "upr", "change"}) if signal else {}),
        }
        for spent, signal in zip(round_usage_of(seen.events), signals, strict=False)
    ]


def _frame(rows: list[dict[str, Any]], columns: Columns) -> pd.DataFrame:
    """Build a data frame with typed columns in a fixed order, even without rows."""
    return pd.DataFrame(rows, columns=list(columns), dtype="object").astype(dict(columns))

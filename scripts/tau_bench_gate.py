"""The exhaustion gate over GPT-4o's recorded runs of tau-bench: in how many runs it would note, and demand an answer.

python scripts/tau_bench_gate.py [--exempt think]

The transcripts are those of CERTIGRAPH_DATA/tau_bench (SOURCE.md there). `ProgressGate` starts to count again with each
message of the user. The other reading, in which such a message neither adds nor resets anything, is printed next to it.
Runs are judged as recorded: what an agent would have done after a note is not known.
"""

import argparse
import asyncio
import gzip
import json
from collections.abc import Collection, Iterator, Sequence
from typing import Any, NamedTuple

from langchain_core.messages import AnyMessage, convert_to_messages
from langgraph.runtime import Runtime

from certigraph.adapters.benchmarks import data_folder
from certigraph.nodes.conversations import ToolRound
from certigraph.nodes.gates import exhaustion_gate
from certigraph.nodes.message_gates import TurnStagnation, counted_rounds, judge_rounds, start_of_rounds

GRACE = 2
"""Further stale rounds after a note, as in `ProgressGate`."""


class Outcome(NamedTuple):
    """What the gate does in one run."""

    passed: bool
    rounds: int
    notes: int
    demands: int


def load_runs() -> list[dict[str, Any]]:
    """Return the recorded runs."""
    with gzip.open(data_folder("tau_bench") / "gpt4o_airline.json.gz", "rt", encoding="utf-8") as file:
        runs: list[dict[str, Any]] = json.load(file)
    return runs


def conversation_of(run: dict[str, Any]) -> list[AnyMessage]:
    """Return the messages of a run."""
    return list(convert_to_messages([{**one, "content": one.get("content") or ""} for one in run["traj"]]))


def stretches_of(
    messages: Sequence[AnyMessage], exempt: Collection[str], *, by_request: bool
) -> Iterator[list[ToolRound]]:
    """Yield the rounds that are counted together: those since a message of the user, or all of the run."""
    if not by_request:
        yield counted_rounds(messages, exempt)
        return
    starts = sorted({start_of_rounds(messages[: end + 1]) for end in range(len(messages))})
    for start, end in zip(starts, [*starts[1:], len(messages)], strict=True):
        yield counted_rounds(messages[start:end], exempt)


async def judge(run: dict[str, Any], exempt: Collection[str], *, by_request: bool) -> Outcome:
    """Apply the gate to a run."""
    notes = demands = rounds = 0
    for stretch in stretches_of(conversation_of(run), exempt, by_request=by_request):
        found, operator = TurnStagnation(), exhaustion_gate()
        for number in range(1, len(stretch) + 1):
            found = await judge_rounds(stretch[:number], found, operator, Runtime())
            notes += found.stops == 1
            demands += found.stops == 1 + GRACE
        rounds += len(stretch)
    return Outcome(run["reward"] == 1, rounds, notes, demands)


async def main() -> None:
    """Print the figures of both readings."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--exempt", nargs="*", default=[], help="tools that do not count")
    exempt = parser.parse_args().exempt
    runs = load_runs()
    for by_request, name in ((True, "counted since the latest user message"), (False, "counted over the whole run")):
        outcomes = [await judge(run, exempt, by_request=by_request) for run in runs]
        print(f"{name}:")
        for passed in (True, False):
            part = [one for one in outcomes if one.passed == passed]
            noted, demanded = sum(one.notes > 0 for one in part), sum(one.demands > 0 for one in part)
            rounds, notes = sum(one.rounds for one in part), sum(one.notes for one in part)
            kind = "passed" if passed else "failed"
            print(f"  {len(part)} {kind}: {rounds} rounds, {notes} notes in {noted} runs, demand in {demanded} runs")


if __name__ == "__main__":
    asyncio.run(main())

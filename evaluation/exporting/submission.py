"""Runs as submissions to AssistantBench's leaderboard."""

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import Any

from pydantic import JsonValue

from certigraph.adapters.assistantbench.predictions import write_submission
from certigraph.adapters.benchmarks import load_benchmark
from certigraph.state.endings import Fault
from certigraph.state.trajectory import Trajectory

NAME = "assistantbench"


def submissions(runs: Iterable[Trajectory], data: str | None) -> Iterator[tuple[str, partial[None]]]:
    """A file's name and how to write it, for each split that runs are of.

    Raises:
        Fault: no run of AssistantBench has ended, or none is of a task that the data folder knows.
    """
    answers = latest_answers(runs)
    if not answers:
        raise Fault("data", f"no run of {NAME} among these has ended: certigraph run sdp {NAME}, or resume one")
    live: Any = load_benchmark(NAME, data)
    splits = {split: ids for split in live.splits if not answers.keys().isdisjoint(ids := _ids(live, split))}
    if not splits:
        message = f"no split has the task {next(iter(answers))!r}, nor another of the runs'"
        raise Fault("data", f"{message}: name the folder of their questions with --data DIR")
    for split, ids in splits.items():
        yield f"{NAME}_{split}.jsonl", partial(write_submission, ids=ids, answers=answers)


def latest_answers(runs: Iterable[Trajectory]) -> dict[str, JsonValue]:
    """What the latest run of each task handed in, by id; those without an ending or stopped by a fault do not count.

    Nor do runs on recorded pages: they hold what others were told.
    """
    ours = (run for run in runs if run.header.task.benchmark == NAME)
    ended = [run for run in ours if run.footer and not run.ending.startswith("error:")]
    ended.sort(key=lambda run: run.header.created)
    return {run.header.task.id: _answer(run) for run in ended}


def _answer(run: Trajectory) -> JsonValue:
    return run.footer.scores.answer if run.footer and run.footer.scores else None


def _ids(live: Any, split: str) -> Sequence[str]:
    """The tasks of a split; none where its file is not there, for one split alone is a whole benchmark."""
    try:
        ids: Sequence[str] = live.ids(split)
    except Fault as fault:
        if not isinstance(fault.__cause__, FileNotFoundError):
            raise
        return ()
    return ids

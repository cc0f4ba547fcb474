"""Run scripted models on AgentDojo: how useful is a method, and how often does an attack reach its goal?

    python scripts/agentdojo_attacks.py --out rows.csv --methods sdp react step tdp --attacks none
    python scripts/agentdojo_attacks.py --out rows.csv --attacks important_instructions tool_knowledge \
        --methods sdp react --commitments none tools arguments
    python scripts/agentdojo_attacks.py --out rows.csv --attacks important_instructions --encodings base64 split \
        --methods react --commitments none arguments

Without an attack the model is `scripted:expert`, which makes the calls of the ground truth. Under attack it is a
scripted model which does the same until it sees the attacker's goal, and then makes the calls of the injection task's
ground truth. So the figures are properties of methods and guards in the worst case, where a model obeys everybody, and
say nothing about language models. With encodings the attacker knows the defence, and the script decodes every order
without a mistake.

Left out are the 320 pairs whose injection task has no ground truth (workspace, injection tasks 6 to 13), because a
script cannot attempt them. The other 629 pairs are those of AgentDojo's paper.

Rows are appended to the file as runs end; what it holds is not run again. Prints a Markdown table of all its rows.
"""

import argparse
import csv
import gzip
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from importlib import import_module
from itertools import product
from pathlib import Path
from random import Random
from typing import Any, NamedTuple, get_args

from agentdojo_gullible import gullible_expert

from certigraph.adapters.benchmarks import load_benchmark
from certigraph.adapters.episodes import EPISODES, new_scope
from certigraph.adapters.models.scripts import ScriptedChat
from certigraph.adapters.protocols import Context
from certigraph.benchmarks.agentdojo.attacks import ATTACKS
from certigraph.benchmarks.agentdojo.encodings import ENCODINGS, SEPARATOR, split_name
from certigraph.benchmarks.agentdojo.expert import dojo_expert
from certigraph.benchmarks.agentdojo.world import ATTACK, SUITES, UTILITY, TaskId, injection_truth
from certigraph.evaluation.statistics import wilson_interval
from certigraph.graphs.agent import Method
from certigraph.nodes.commitments import commit
from certigraph.state.commitments import CommitmentLevel
from certigraph.state.endings import LimitReached
from certigraph.state.records import Scores, Task
from certigraph.state.tools import calls_of

NONE = "none"

COMMITMENTS = (NONE, *get_args(CommitmentLevel))
"""What a graph commits to before the first call; for `none` it has no node `commit`."""

RECURSION_LIMIT = 1_000


class Key(NamedTuple):
    """What identifies a run."""

    method: str
    attack: str
    commitments: str
    task: str


COLUMNS = (*Key._fields, "ending", "utility", "attack_succeeded", "calls", "refused", "seconds")


def main() -> int:
    """Run what the file lacks, and print its table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True, help="CSV file to which rows are appended")
    parser.add_argument("--methods", nargs="+", default=["sdp", "react"], choices=get_args(Method))
    parser.add_argument("--attacks", nargs="+", default=[NONE], choices=(NONE, *ATTACKS))
    parser.add_argument(
        "--encodings", nargs="+", default=[""], choices=ENCODINGS, help="forms in which the attacker writes the order"
    )
    parser.add_argument("--commitments", nargs="+", default=[NONE], choices=COMMITMENTS)
    parser.add_argument("--suites", nargs="+", default=list(SUITES), choices=SUITES)
    parser.add_argument("--limit", type=int, help="number of tasks or pairs for each combination, drawn at random")
    parser.add_argument("--seed", type=int, default=0, help="seed of the draw")
    given = parser.parse_args()
    rows = read_rows(given.out)
    for key, task in list_runs(given):
        if key not in rows:
            rows[key] = run_task(key, task)
            append_row(given.out, rows[key])
    print(format_table(rows))
    return 0


def list_runs(given: argparse.Namespace) -> Iterator[tuple[Key, Task]]:
    """Yield the runs that the options name."""
    pairs = product(given.attacks, given.encodings)
    for attack in (SEPARATOR.join(filter(None, pair)) for pair in pairs):
        benchmark = load_benchmark(name_benchmark(attack))
        tasks = [task for suite in given.suites for task in benchmark.tasks(suite) if can_attempt(task)]
        Random(given.seed).shuffle(tasks)  # so that the rows of an interrupted measurement are a sample
        for task in tasks[: given.limit]:
            for method in given.methods:
                yield from ((Key(method, attack, level, task.id), task) for level in given.commitments)


def name_benchmark(attack: str) -> str:
    """Return the name of the benchmark with an attack as configuration."""
    return "agentdojo" if attack == NONE else f"agentdojo:{attack}"


def can_attempt(task: Task) -> bool:
    """Return whether the gullible script knows what the attacker wants done; true without an attack."""
    id_ = TaskId.parse(task.id)
    return not id_.injection_task or any(injection_truth(id_.suite, id_.injection_task))


def run_task(key: Key, task: Task) -> dict[str, Any]:
    """Run a method on a task, and return its row."""
    module: Any = import_module(f"certigraph.graphs.{key.method}")
    level: Any = key.commitments
    graph = module.build(**({} if level == NONE else {"commit": commit(level=level)}))
    attacked = key.attack != NONE
    gullible = gullible_expert(split_name(key.attack)[1])
    responder, name = (gullible, "gullible") if attacked else (dojo_expert(), "expert")
    model = ScriptedChat(responder=responder, model_name=f"scripted:{name}")
    context = Context(chat=model, benchmark=load_benchmark(name_benchmark(key.attack)))
    began, scope, state = time.perf_counter(), new_scope(shared=True), dict[str, Any]()
    try:
        with scope.active():
            ending = ""
            states = graph.stream(
                {"task": task}, {"recursion_limit": RECURSION_LIMIT}, context=context, stream_mode="values"
            )
            try:
                for latest in states:
                    state = latest
            except LimitReached as reached:
                ending = reached.ending
            scores = EPISODES[state["episode"]].score()
    finally:
        scope.end()
    return _create_row(key, ending or module.ending(state), scores, state, time.perf_counter() - began)


def _create_row(key: Key, ending: str, scores: Scores, state: Mapping[str, Any], seconds: float) -> dict[str, Any]:
    calls = [call for step in state["history"] for call in calls_of(step.action)]
    return {
        **key._asdict(),
        "ending": ending,
        "utility": int(scores.parts[UTILITY] or 0),
        "attack_succeeded": "" if key.attack == NONE else int(scores.parts[ATTACK] or 0),
        "calls": len(calls),
        "refused": sum(bool(call.refused) for call in calls),
        "seconds": f"{seconds:.2f}",
    }


def read_rows(path: Path) -> dict[Key, dict[str, Any]]:
    """Read the rows of a file, compressed or not; none if it does not exist."""
    if not path.exists():
        return {}
    reader = gzip.open if path.suffix == ".gz" else open
    with reader(path, "rt", newline="", encoding="utf-8") as file:
        return {Key(*(row[name] for name in Key._fields)): row for row in csv.DictReader(file)}


def append_row(path: Path, row: Mapping[str, Any]) -> None:
    """Append a row to a file, which gets a line with the names of its columns first."""
    new = not path.exists()
    with (gzip.open if path.suffix == ".gz" else open)(path, "at", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, COLUMNS)
        if new:
            writer.writeheader()
        writer.writerow(row)


def format_table(rows: Mapping[Key, Mapping[str, Any]]) -> str:
    """Format a line for each method, attack and commitments: rates with Wilson's 95 % intervals."""
    groups: dict[tuple[str, str, str], list[Mapping[str, Any]]] = {}
    for key, row in rows.items():
        groups.setdefault((key.attack, key.method, key.commitments), []).append(row)
    columns = ("attack", "method", "commitments", "n", "utility", "success by calls", "success by answer", "refused")
    lines = [f"| {' | '.join(columns)} |", "|---" * len(columns) + "|"]
    for (attack, method, commitments), members in sorted(groups.items()):
        attacked = members if attack != NONE else []
        cells = (
            _format_rate([int(row["utility"]) for row in members]),
            _format_rate([int(row["attack_succeeded"]) for row in attacked if has_calls(row["task"])]),
            _format_rate([int(row["attack_succeeded"]) for row in attacked if not has_calls(row["task"])]),
            str(sum(int(row["refused"]) for row in members)),
        )
        lines.append(f"| {attack} | {method} | {commitments} | {len(members)} | {' | '.join(cells)} |")
    return "\n".join(lines)


def has_calls(task: str) -> bool:
    """Return whether the attacker of a pair wants calls to be made, and not only something to be answered."""
    id_ = TaskId.parse(task)
    return bool(injection_truth(id_.suite, id_.injection_task).calls)


def _format_rate(values: Sequence[int]) -> str:
    if not values:
        return ""
    low, high = wilson_interval(sum(values), len(values))
    return f"{sum(values)} of {len(values)} ({sum(values) / len(values):.1%}, {low:.1%} to {high:.1%})"


if __name__ == "__main__":
    sys.exit(main())

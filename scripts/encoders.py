"""The sentence encoder that matches actions (weights of eight bits) next to the same model by torch.

    CERTIGRAPH_DATA=DIR python scripts/encoders.py --questions 300

Cost is measured in fresh processes: loading, and one new query, alone and while other processes keep all cores busy.
What it changes is measured on the official data: supporting paragraphs among the first two of a question's own ones
(R@2, with the paired difference and its 95 % interval), and the action of ScienceWorld's gold paths that a text is
matched to, which has one word of the action less.
"""

import argparse
import json
import math
import os
import random
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from certigraph.adapters.encoders import load_encoder
from certigraph.adapters.files import read_rows
from certigraph.adapters.matching import rank_actions
from certigraph.adapters.retrieval.sources import question_paragraphs
from certigraph.evaluation.statistics import bootstrap_interval
from certigraph.state.defaults import DEFAULT_ENCODER, MATCHING_ENCODER

ENCODERS = (MATCHING_ENCODER, DEFAULT_ENCODER)

QUESTION_FILES = {"HotpotQA dev": "hotpotqa/dev_distractor.jsonl.gz", "MuSiQue dev": "musique/musique_ans_dev.jsonl.gz"}

GOLD_PATHS = "scienceworld/gold_var0.jsonl.gz"

COST_PROGRAM = """
import resource, sys, time
from certigraph.adapters.encoders import load_encoder
usage = lambda: resource.getrusage(resource.RUSAGE_SELF)
cpu = lambda: usage().ru_utime + usage().ru_stime
begun = cpu()
encoder = load_encoder(sys.argv[1])
encoder.encode_once(["a first text"])
loaded = cpu() - begun
texts = [f"which river flows through the town number {number}?" for number in range(40)]
begun = cpu()
for text in texts:
    encoder.encode_once([text])
print(loaded, usage().ru_maxrss / 1024, 1000 * (cpu() - begun) / len(texts))
"""

BUSY_PROGRAM = "while True: pass"


def measure_cost(name: str) -> dict[str, float]:
    """Measure CPU seconds and memory of loading an encoder, and CPU milliseconds of a query, in fresh processes."""
    loaded, memory, quiet = _run_cost_program(name)
    others = [subprocess.Popen([sys.executable, "-c", BUSY_PROGRAM]) for _ in range(os.cpu_count() or 1)]
    try:
        *_, busy = _run_cost_program(name)
    finally:
        for other in others:
            other.kill()
            other.wait()
    return {"load CPU s": loaded, "memory MB": memory, "query CPU ms": quiet, "query on busy cores": busy}


def _run_cost_program(name: str) -> list[float]:
    command = [sys.executable, "-c", COST_PROGRAM, name]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return [float(value) for value in done.stdout.split()]


def measure_recall(name: str, file: Path, questions: int, seed: int) -> list[float]:
    """Return for each question the share of its supporting paragraphs among the first two of its own paragraphs.

    The questions are a sample of the file's, or all if it has no more.
    """
    rows = [row.value for row in read_rows(file)]
    chosen = random.Random(seed).sample(rows, questions) if questions < len(rows) else rows
    return [_recall_of(name, row) for row in chosen]


def describe_difference(title: str, first: list[float], second: list[float]) -> str:
    """Describe how much higher the first encoder's recalls are than the second's on the same questions, in points."""
    differences = [100 * (one - other) for one, other in zip(first, second, strict=True)]
    low, high = bootstrap_interval(differences) or (math.nan, math.nan)
    return f"R@2 {title}, {len(first)} questions: {np.mean(differences):+.2f} points ({low:+.2f} to {high:+.2f})"


def _recall_of(name: str, row: dict[str, Any]) -> float:
    passages = question_paragraphs(row)
    if "question_decomposition" in row:
        gold = [paragraph["is_supporting"] for paragraph in row["paragraphs"]]
    else:
        titles = {title for title, _ in row["supporting_facts"]}
        gold = [passage.title in titles for passage in passages]
    encoder = load_encoder(name)
    scores = encoder.encode([f"{one.title}. {one.text}" for one in passages]) @ encoder.encode([row["question"]])[0]
    first = np.argsort(-scores, kind="stable")[:2]
    return sum(gold[index] for index in first) / min(sum(gold), 2)


def shortened_actions(file: Path, most: int, seed: int) -> Iterator[tuple[str, str, list[str]]]:
    """Yield an action of a gold path, the action without one of its words, and the actions to choose from."""
    draw, cases = random.Random(seed), []
    for row in read_rows(file):
        actions = sorted(set(row.value["gold"]))
        cases += [(action, actions) for action in actions if len(action.split()) > 2]
    for action, actions in draw.sample(cases, min(most, len(cases))):
        words = action.split()
        del words[draw.randrange(len(words))]
        yield action, " ".join(words), actions


def main() -> None:
    """Measure and print two tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--questions", type=int, default=300, help="questions of each file")
    parser.add_argument("--actions", type=int, default=500, help="actions that are matched")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    options = parser.parse_args()
    data = Path(os.environ["CERTIGRAPH_DATA"])
    costs = {name: measure_cost(name) for name in ENCODERS}
    answers: dict[str, dict[str, float]] = {name: {} for name in ENCODERS}
    differences = []
    for title, file in QUESTION_FILES.items():
        recalls = [measure_recall(name, data / file, options.questions, options.seed) for name in ENCODERS]
        differences.append(describe_difference(title, *recalls))
        for name, found in zip(ENCODERS, recalls, strict=True):
            answers[name][f"R@2 {title}"] = float(np.mean(found))
    cases = list(shortened_actions(data / GOLD_PATHS, options.actions, options.seed))
    chosen = {
        name: [rank_actions(text, actions, encoder=load_encoder(name))[0].action for _, text, actions in cases]
        for name in ENCODERS
    }
    meant = [action for action, _, _ in cases]
    for name in ENCODERS:
        answers[name]["actions found"] = float(np.mean(np.equal(chosen[name], meant)))
        answers[name]["same action as torch's"] = float(np.mean(np.equal(chosen[name], chosen[DEFAULT_ENCODER])))
    if options.json:
        print(json.dumps({"costs": costs, "answers": answers, "questions": options.questions, "actions": len(cases)}))
        return
    for table in (costs, answers):
        print(pd.DataFrame(table).T.to_string(float_format=lambda value: f"{value:.3f}"), end="\n\n")
    print(f"{ENCODERS[0]} less {ENCODERS[1]}:", *differences, sep="\n")


if __name__ == "__main__":
    main()

"""Audit the rules that certify conditions without a model against the world's own state.

Walks gold paths, and copies of them with one wrong action. After every action each decision of a rule is compared with
the truth: ScienceWorld's object tree, BlocksWorld's state, TravelPlanner's official scorer and database. Prints one
Markdown line for each kind of path, with the false decisions, and exits with 1 if there is one.

    python scripts/certificate_audit.py scienceworld --perturbed 10
"""

import argparse
import sys
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from importlib import import_module
from multiprocessing import get_context

WORLDS = ("scienceworld", "blocksworld", "travelplanner")


def main() -> int:
    """Run the audit of a world and print its table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("world", choices=WORLDS, help="the world whose rules are audited")
    parser.add_argument("--perturbed", type=int, default=10, help="number of perturbed paths of each task")
    parser.add_argument("--tasks", nargs="*", default=[], help="tasks; the default is all")
    parser.add_argument("--workers", type=int, default=2, help="number of processes at once")
    options = parser.parse_args()
    world = import_module(f"audits.{options.world}")
    tasks = options.tasks or world.list_tasks()
    with ProcessPoolExecutor(options.workers, mp_context=get_context("spawn")) as pool:
        audits = [a for batch in pool.map(world.audit_task, tasks, [options.perturbed] * len(tasks)) for a in batch]
    print("| path | paths | conditions decided | certified | undecided | false |\n|---|---|---|---|---|---|")
    for kind in ("gold", *world.KINDS):
        of_kind = [audit for audit in audits if audit.path.endswith(f" {kind}")]
        total = sum((audit.counts for audit in of_kind), Counter[str]())
        figures = (f"{total[name]:,}" for name in ("decided", "certified", "undecided", "false"))
        print(f"| {kind} | {len(of_kind)} | {' | '.join(figures)} |")
    wrong = [f"{audit.path}: {text}" for audit in audits for text in audit.false]
    print("\n".join(wrong[:200]), file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())

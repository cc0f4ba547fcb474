"""Audit whether ScienceWorld's actions are sent as they are written.

Walks the gold paths of the thirty tasks, and copies of them with one wrong action, in the simulator. Every action that
the simulator takes as it is written should be sent as it is, also when it was chosen ahead: a chain of actions must not
end, and nobody be asked, because of a name. Prints one Markdown line for each kind of path, and exits with 1 if an
action would not have been sent.

    python scripts/name_audit.py --perturbed 5
"""

import argparse
import sys
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from random import Random

from audits.scienceworld import KINDS, list_tasks, perturb

from certigraph.benchmarks.scienceworld.benchmark import ScienceWorldBenchmark
from certigraph.benchmarks.scienceworld.objects import read_world
from certigraph.benchmarks.scienceworld.pool import SimulatorPool
from certigraph.benchmarks.scienceworld.recordings import load_gold_recording
from certigraph.benchmarks.scienceworld.simulator import JavaSimulator
from certigraph.benchmarks.scienceworld.splits import SPLITS
from certigraph.benchmarks.scienceworld.world import ScienceWorld
from certigraph.nodes.chains import advance_chain
from certigraph.state.records import Action, Observation


def audit_task(task: str, perturbed: int) -> list[tuple[str, Counter[str], list[str]]]:
    """Audit the gold path of a task's first variation and perturbed copies of it, in one simulator."""
    simulator = JavaSimulator()
    try:
        gold = load_gold_recording(task, 0, "easy")
        setting = SPLITS["gold"].setting(task, 0).model_copy(update={"simplification": "easy"})
        simulator.load(task, 0, "easy")
        start = read_world(simulator.object_tree())
        paths = [("gold", list(gold.actions))]
        for number in range(perturbed):
            kind = KINDS[number % len(KINDS)]
            paths.append((kind, perturb(gold.actions, kind, Random(f"{task} {number}"), start)))
        return [
            (kind, *_walk(task, path, ScienceWorld(setting, SimulatorPool(lambda: simulator)))) for kind, path in paths
        ]
    finally:
        simulator.close()


def _walk(task: str, actions: list[str], world: ScienceWorld) -> tuple[Counter[str], list[str]]:
    benchmark, observation = ScienceWorldBenchmark(), world.reset()
    counts, held_back = Counter[str](), list[str]()
    for text in actions:
        if observation.done:
            break
        asked, view = bool(observation.options), world.view()
        chain = (Action(text=text),)
        rest = advance_chain(chain, Action(text="look around"), Observation(text=""), view, benchmark)
        observation = world.step(chain[0])
        if asked or not observation.accepted:
            continue
        counts["accepted"] += 1
        counts["sent"] += rest.upcoming == chain
        if rest.upcoming != chain:
            held_back.append(f"{task}: {text!r} in {view[:300]!r}")
    return counts, held_back


def main() -> int:
    """Run the audit and print its table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--perturbed", type=int, default=5, help="number of perturbed paths of each task")
    parser.add_argument("--tasks", nargs="*", default=[], help="tasks; the default is all")
    parser.add_argument("--workers", type=int, default=2, help="number of processes at once")
    options = parser.parse_args()
    tasks = options.tasks or list_tasks()
    with ProcessPoolExecutor(options.workers, mp_context=get_context("spawn")) as pool:
        walks = [walk for batch in pool.map(audit_task, tasks, [options.perturbed] * len(tasks)) for walk in batch]
    print("| path | paths | accepted as written | sent as written |\n|---|---|---|---|")
    for kind in ("gold", *KINDS):
        of_kind = [counts for name, counts, _ in walks if name == kind]
        total = sum(of_kind, Counter[str]())
        print(f"| {kind} | {len(of_kind)} | {total['accepted']:,} | {total['sent']:,} |")
    held_back = [text for _, _, texts in walks for text in texts]
    print("\n".join(held_back), file=sys.stderr)
    return 1 if held_back else 0


if __name__ == "__main__":
    sys.exit(main())

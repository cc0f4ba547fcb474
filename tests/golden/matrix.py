"""Which graph runs on which world: every graph on two worlds, every benchmark at least once.

A run is recorded under both models where each takes an edge of the graph, or has an update, verdict, ending, operator
or form of an answer, that no other golden of the graph has; otherwise under one of them. What does not fit the pattern:

| graph | exception | reason |
|---|---|---|
| statefactory, monotonic, reward_judge | two domains of one benchmark | only `rewardprediction` has recorded rewards |
| reward_head | ends `error:model` | it needs a trained head: `tests/graphs/test_statefactory.py` trains one |
| statefactory, monotonic | the models do not matter | they call none |
| hypotheses | prompts without events | the searches inside its node leave no events of their own |
| react, pbai and the harnesses on questions | slow | they use sentence vectors |
| statefactory, react_reward, mcts | slow | they use sentence vectors |
| all on scienceworld, alfworld, textworld | slow | a JVM; games that take seconds to start |
| all on assistantbench | `assistantbench:recorded` | the benchmark itself searches the web |
"""

from typing import Any

from golden.runs import Run

import certigraph
from certigraph.graphs import sdp

ASSISTANT = "b36ef2d8f2643b80e74a44ce3403f674ecb2aed7fd36afeaa289061a59feef92"
CLOCK = "look_at_obj_in_light-AlarmClock-None-DeskLamp-308/trial_T20190908_222917_366542"
HOP = "2hop__574419_270105"

FRIDGE = certigraph.Task(
    benchmark="rewardprediction",
    id="mine",
    goal="put some apple in fridge.",
    constants={
        "domain": "alfworld",
        "recordings": [
            [
                {"action": "go to shelf 1", "observation": "You arrive at shelf 1. On the shelf 1, you see a apple 3."},
                {"action": "take apple 3 from shelf 1", "observation": "You pick up the apple 3 from the shelf 1."},
                {"action": "go to fridge 1", "observation": "You arrive at fridge 1. In it, you see nothing."},
                {"action": "move apple 3 to fridge 1", "observation": "You move the apple 3 to the fridge 1."},
            ]
        ],
    },
)  # fmt: skip


EXPERT, SIMULATED = ("expert",), ("simulated",)


def _checked() -> dict[str, Any]:
    return {"audit": certigraph.votes(k=2, n=3), "revalidate": certigraph.recheck()}


def _gated(memory: str) -> dict[str, Any]:
    return {"memory": memory, "gate": certigraph.exhaustion_gate(jaccard=0.6, upr=0.3, patience=1)}


RUNS = (
    Run("sdp", "blocksworld", "6-2", models=SIMULATED),
    Run("sdp", "travelplanner", "2", data=True),
    Run("tdp", "hotpotqa:interactive", "dev-comparison-0", models=EXPERT),
    Run("tdp", "travelplanner:tools", "2", data=True, models=EXPERT),
    Run("step", "blocksworld", "5-1", models=SIMULATED),
    Run("step", "scienceworld", "find-non-living-thing:0", slow=True, models=EXPERT),
    Run("react", "webshop", "B09PYSKD7H-6", data=True, models=SIMULATED),
    Run("react", "locomo", "conv-26/0", data=True, slow=True, models=EXPERT),
    Run("react_reward", "textworld", "quest-5-0", slow=True),
    Run("react_reward", "blocksworld", "4-0", slow=True, models=SIMULATED),
    Run("mcts", "blocksworld", "3-0", slow=True, models=EXPERT),
    Run("mcts", "webshop", "B09PYSKD7H-6", data=True, slow=True, models=EXPERT),
    Run("reflexion", "alfworld", CLOCK, data=True, slow=True),
    Run("reflexion", "blocksworld", "5-1", models=EXPERT),
    Run("clin", "textworld", "quest-5-0", slow=True),
    Run("clin", "blocksworld", "generated_basic/instance-1", data=True, models=SIMULATED),
    Run("plan_and_solve", "blocksworld", "5-1"),
    Run("plan_and_solve", "travelplanner", "3", data=True, models=EXPERT),
    Run("plan_and_act", "travelplanner:tools", "2", data=True, models=EXPERT),
    Run("plan_and_act", "hotpotqa:interactive", "dev-bridge-0", models=EXPERT),
    Run("cot", "hotpotqa:interactive", "dev-bridge-0", models=EXPERT),
    Run("cot", "blocksworld", "5-1"),
    Run("pbai", "musique", HOP, data=True, slow=True, models=EXPERT),
    Run("pbai", "assistantbench:recorded", ASSISTANT, data=True, models=EXPERT),
    Run("ircot", "musique", HOP, data=True, slow=True, models=EXPERT),
    Run("ircot", "hotpotqa", "dev-bridge-0", slow=True, models=EXPERT),
    Run("memgpt", "hotpotqa", "dev-bridge-0", slow=True, models=EXPERT),
    Run("memgpt", "locomo", "made-0/0", slow=True, models=EXPERT),
    Run("iter_retgen", "musique", "2hop__dev_0", slow=True, models=EXPERT),
    Run("iter_retgen", "hotpotqa", "5ab48ec25542991779162cdc", data=True, slow=True, models=EXPERT),
    Run("hypotheses", "musique", "2hop__dev_0", slow=True, models=EXPERT),
    Run("hypotheses", "hotpotqa", "5ab48ec25542991779162cdc", data=True, slow=True, models=EXPERT),
    Run("statefactory", "rewardprediction", "blocksworld/3-0", slow=True, models=EXPERT),
    Run("statefactory", "rewardprediction", FRIDGE, slow=True, models=EXPERT),
    Run("monotonic", "rewardprediction", "blocksworld/3-0", models=EXPERT),
    Run("monotonic", "rewardprediction", FRIDGE, models=EXPERT),
    Run("reward_judge", "rewardprediction", "blocksworld/3-0", models=EXPERT),
    Run("reward_judge", "rewardprediction", FRIDGE, models=EXPERT),
    Run("reward_head", "rewardprediction", "blocksworld/3-0", models=EXPERT),
    Run("reward_head", "rewardprediction", FRIDGE, models=EXPERT),
    Run("subtask", "blocksworld", "4-0", models=SIMULATED),
    Run("subtask", "travelplanner:tools", "2", data=True, models=SIMULATED),
)
"""Every graph on two worlds."""

MORE = (
    Run("sdp", "travelplanner:paper", "4", data=True),
    Run("sdp", "travelplanner", "1"),
    Run("sdp", "web", "museum/1", models=EXPERT),
    Run("sdp", "assistantbench:recorded", ASSISTANT, data=True, models=EXPERT),
    Run("sdp", "musique", HOP, data=True, models=EXPERT),
    Run("sdp", "musique:hops", "3hop__dev_1", models=EXPERT),
    Run("sdp", "hotpotqa:corpus", "dev-bridge-1", models=EXPERT),
    Run("sdp", "hotpotqa", "5ab48ec25542991779162cdc", data=True, models=EXPERT),
    Run("sdp", "locomo", "made-0/10", models=EXPERT),
    Run("sdp", "swe_qa", "made/3", models=EXPERT),
    Run("sdp", "agentdojo", "slack/user_task_6", models=EXPERT),
    Run("sdp", "agentdojo:important_instructions", "banking/user_task_0+injection_task_3", models=EXPERT),
    Run("sdp", "webshop:attributes", "B08L373FLK-1", data=True),
    Run("sdp", "alfworld", CLOCK, data=True, slow=True, models=SIMULATED),
    Run("sdp", "textworld", "cooking-1-0", slow=True, models=SIMULATED),
    Run("sdp", "scienceworld:drafted", "chemistry-mix:0", slow=True),
    Run("pbai", "swe_qa", "made/3", models=EXPERT),
    Run("reflexion", "travelplanner", "5", data=True, models=EXPERT),
    Run("sdp", "blocksworld", "6-2", variant="checked", operators=_checked, models=SIMULATED),
    Run("sdp", "blocksworld", "6-2", variant="solved",
        operators=lambda: {"audit": certigraph.world_check()}, models=EXPERT),
    Run("sdp", "blocksworld", "6-2", variant="pass",
        operators=lambda: {"validate": certigraph.always_pass}, models=EXPERT),
    Run("sdp", "blocksworld", "6-2", variant="stop", operators=lambda: {"replan": certigraph.give_up}, models=EXPERT),
    Run("sdp", "blocksworld", "6-2", variant="capped",
        operators=lambda: {"validate": certigraph.capped(depth=1)}, models=SIMULATED),
    Run("sdp", "blocksworld", "4-0", variant="reward", slow=True,
        operators=lambda: {"realize": certigraph.reward_guided(k=3)}, models=EXPERT),
    Run("tdp", "hotpotqa:interactive", "dev-bridge-0", variant="sdp",
        operators=lambda: {"solve": sdp}, models=SIMULATED),
    Run("react", "hotpotqa", "dev-bridge-0", variant="lobotomized", slow=True,
        operators=lambda: _gated("lobotomized"), models=EXPERT),
    Run("tdp", "hotpotqa:interactive", "dev-bridge-0", variant="structured",
        operators=lambda: _gated("structured"), models=EXPERT),
    Run("pbai", "swe_qa", "made/3", variant="freeform", operators=lambda: _gated("freeform"), models=EXPERT),
)  # fmt: skip
"""Benchmarks and operators that the table above leaves out."""

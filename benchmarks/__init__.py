"""A folder for each benchmark: its world, tasks, scoring, expert and operators.

`qa` and `research` hold what several of them share. Nothing below this package names any of them: the table
BENCHMARKS registers them as entry points of the group `certigraph.benchmarks` register those of other packages.
"""

BENCHMARKS = {
    "agentdojo": "certigraph.benchmarks.agentdojo.benchmark:AgentDojo",
    "alfworld": "certigraph.benchmarks.alfworld.benchmark:ALFWorld",
    "ask": "certigraph.benchmarks.assistantbench.web:OwnQuestion",
    "assistantbench": "certigraph.benchmarks.assistantbench.benchmark:AssistantBench",
    "blocksworld": "certigraph.benchmarks.blocksworld.benchmark:BlocksWorld",
    "hotpotqa": "certigraph.benchmarks.hotpotqa.benchmark:HotpotQA",
    "locomo": "certigraph.benchmarks.locomo.benchmark:LoCoMo",
    "musique": "certigraph.benchmarks.musique.benchmark:MuSiQue",
    "rewardprediction": "certigraph.benchmarks.rewardprediction.benchmark:RewardPrediction",
    "scienceworld": "certigraph.benchmarks.scienceworld.benchmark:ScienceWorldBenchmark",
    "swe_qa": "certigraph.benchmarks.swe_qa.benchmark:SweQA",
    "textworld": "certigraph.benchmarks.textworld.benchmark:TextWorldBenchmark",
    "travelplanner": "certigraph.benchmarks.travelplanner.benchmark:TravelPlanner",
    "web": "certigraph.benchmarks.assistantbench.web:GeneratedWeb",
    "webshop": "certigraph.benchmarks.webshop.benchmark:WebShop",
}
"""Class of each benchmark by its name. It is called with the arguments `data` and `config`, as those of users are."""

DEFAULT_BENCHMARK = "blocksworld"
"""Name of the benchmark that is used where none is named: it needs no data, and its worlds answer at once."""

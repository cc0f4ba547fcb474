"""BlocksWorld: stacks of blocks, one hand, PlanBench's wording; simulator, instances and experts."""

from certigraph.adapters.blocksworld.benchmark import BlocksWorld
from certigraph.adapters.blocksworld.expert import linear_plan, plan, shortest_plan
from certigraph.adapters.blocksworld.instances import Instance, random_instance, tower_instance
from certigraph.adapters.blocksworld.pddl import read_problem, read_problems
from certigraph.adapters.blocksworld.strips import Fact, Move, State, applicable, apply, unmet
from certigraph.adapters.blocksworld.wording import (
    describe,
    fact_text,
    move_text,
    parse_action,
    parse_facts,
    parse_goal,
    parse_observed,
    statement,
)
from certigraph.adapters.blocksworld.world import BlocksWorldEnvironment

__all__ = [
    "BlocksWorld",
    "BlocksWorldEnvironment",
    "Fact",
    "Instance",
    "Move",
    "State",
    "applicable",
    "apply",
    "describe",
    "fact_text",
    "linear_plan",
    "move_text",
    "parse_action",
    "parse_facts",
    "parse_goal",
    "parse_observed",
    "plan",
    "random_instance",
    "read_problem",
    "read_problems",
    "shortest_plan",
    "statement",
    "tower_instance",
    "unmet",
]

"""BlocksWorld: stacks of blocks and one hand, in PlanBench's wording, with instances, planner and scripted expert."""

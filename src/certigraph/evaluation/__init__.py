"""Many runs: tasks for Inspect, comparisons, statistics, frames, plots, exports."""

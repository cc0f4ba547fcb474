"""Evaluation: benchmarks under Inspect, comparisons of methods, statistics, analyses of recorded runs, and exports."""

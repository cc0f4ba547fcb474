"""Graphs, variants of their operators and benchmarks from one file: a comparison for each benchmark, and one table."""

"""Benchmarks as inspect_ai tasks."""

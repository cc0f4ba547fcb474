"""Benchmarks, their worlds and what these consist of."""

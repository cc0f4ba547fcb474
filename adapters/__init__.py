"""The outside world: benchmarks, language models, live episodes."""

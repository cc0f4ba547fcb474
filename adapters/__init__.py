"""Adapters to the outside world: benchmarks, language models, retrieval, the web, and live episodes."""

"""Names of the models that are used if a user names none; without imports, so that the command line can show them."""

DEFAULT_MODEL = "openai:gpt-4o-mini"
"""Model that answers a user's question."""

DEFAULT_ENCODER = "all-MiniLM-L6-v2-int8"
"""Sentence encoder: all-MiniLM-L6-v2 with weights of eight bits. "all-MiniLM-L6-v2" is the same model by torch."""

DEFAULT_BASE_MODEL = "Qwen/Qwen2.5-1.5B"
"""Base model of `certigraph rewards tune`."""

"""Names of the models that are used if a user names none; without imports, so that the command line can show them."""

DEFAULT_MODEL = "openai:gpt-4o-mini"
"""Model that answers a user's question."""

DEFAULT_ENCODER = "all-MiniLM-L6-v2"
"""Sentence encoder of rewards and of retrieval."""

MATCHING_ENCODER = "all-MiniLM-L6-v2-int8"
"""Sentence encoder by which written actions are matched to those of a world: the same model with weights of eight bits.

It loads quickly, and makes the same choices; in retrieval it finds slightly less (`scripts/encoders.py`)."""

DEFAULT_BASE_MODEL = "Qwen/Qwen2.5-1.5B"
"""Base model of `certigraph rewards tune`."""

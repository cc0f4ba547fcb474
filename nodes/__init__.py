"""Operators, one family a file, and the slots that turn them into graph nodes (`slots.py`)."""

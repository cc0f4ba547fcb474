"""Operators, one a file, and the wrapper that turns them into graph nodes."""

"""Operators, the functions that do the work of graph nodes, and the prompts that they send, one family per file.

`slots.py` makes the nodes.
"""

"""Operators: the functions that do the work of graph nodes, one family per file. `slots.py` makes the nodes."""

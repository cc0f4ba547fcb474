"""Processes that tests start, and what happens to them."""

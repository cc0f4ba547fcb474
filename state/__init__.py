"""Typed state of the graphs and the records it is made of: pure data and pure functions."""

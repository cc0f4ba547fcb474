"""Typed state and the records it is made of: pure data, pure functions, no imports from the other folders."""

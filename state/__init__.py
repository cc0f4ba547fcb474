"""Typed graph state and the records it is made of: pure data and pure functions, without imports from other folders."""

"""Faults on purpose: models, worlds and endpoints that fail at known rates, the same way every time."""

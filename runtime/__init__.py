"""Driving one run: registry, recording, checkpoints, resumption and what is shown of it."""

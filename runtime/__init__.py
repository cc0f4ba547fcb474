"""Driving one run: registry, recording, checkpoints, resumption, live view and reports."""

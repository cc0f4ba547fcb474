"""Driving one run: finding and building graphs, recording, checkpoints, resuming, the live view and reports."""

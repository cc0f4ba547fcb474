"""Ablations: operators exchanged one at a time, run again on the same tasks, beside what a replay would have said."""

"""Rubric judges: what a model makes of recorded answers beside their references."""

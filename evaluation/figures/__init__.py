"""Figures and tables of several runs, drawn from their trajectories."""

"""Runs and evaluations: started, interrupted, recorded, or written by hand."""

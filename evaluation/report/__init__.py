"""The self-contained HTML report of a run."""

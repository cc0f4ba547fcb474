"""Methods side by side on the same tasks with the same budget, and what the difference is worth."""

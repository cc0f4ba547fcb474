"""TravelPlanner as a world of tools: look up, keep notes, plan from the notes (TDP appendix A)."""

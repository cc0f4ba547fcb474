"""Reading TravelPlanner: queries, sandbox tables, and the store they are looked up in."""

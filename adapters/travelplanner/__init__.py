"""TravelPlanner: data, official scorer, generated worlds, worlds of bookings and of tools, and operators."""

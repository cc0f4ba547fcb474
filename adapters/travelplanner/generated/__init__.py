"""A seeded world in the official layout, feasible by construction, with known cheapest costs."""

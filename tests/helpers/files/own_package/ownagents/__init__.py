"""A package of a user's own: a world and graphs that certigraph finds by name."""

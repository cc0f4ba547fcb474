"""One graph per method. Each file has `build(...)`, whose keywords replace operators, and a compiled `graph`."""

GRAPH_GROUP = "certigraph.graphs"
"""Group of entry points by which a distribution offers graphs; certigraph's own are in this package."""

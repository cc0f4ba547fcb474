"""One graph per method, written as the paper's algorithm; keywords replace its operators."""

GRAPH_GROUP = "certigraph.graphs"
"""Group of entry points by which a distribution offers graphs; certigraph's own are in this package."""

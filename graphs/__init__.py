"""One graph per method, in a file that reads like the paper's algorithm. Keywords of `build` replace operators."""

GRAPH_GROUP = "certigraph.graphs"
"""Group of entry points by which a distribution offers graphs; certigraph's own are in this package."""

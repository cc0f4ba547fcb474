"""The package of a user's own, installed as a distribution with entry points: a folder on `sys.path`."""

from pathlib import Path

INSTALLED = Path(__file__).parent / "own_package"
"""The folder: the package `ownagents`, and the `.dist-info` of its distribution."""

WORLD = "ownagents.worlds:Counting"
BUILD = "ownagents.graphs:build"
GRAPH = "ownagents.graphs:graph"
PLAIN = "ownagents.graphs:plain"
STOP = "ownagents.graphs:stop"

"""Drawings of graphs as PNG files and SVG pictures, made by Graphviz."""

import os
import shutil
import subprocess
import sysconfig
from pathlib import Path

from langchain_core.runnables.graph import Edge, Graph

from certigraph.adapters.processes import child_environment
from certigraph.state.endings import Fault

DOT_STYLE = (
    'node [shape=box, style="rounded,filled", fillcolor="#eef2ff", fontname=Helvetica]',
    "edge [fontname=Helvetica]",
)
"""Default attributes of nodes and edges, in Graphviz's DOT language."""

DRAWING_PROGRAMS = ("dot", "graphviz-pure")
"""Graphviz programs, in order of preference."""


def draw_png(drawing: Graph, path: Path) -> Path:
    """Write the drawing of a graph as a PNG file and return its path.

    Raises:
        Fault: no Graphviz program is installed, or the program failed.
    """
    _draw(drawing, "-Tpng", "-o", str(path))
    return path


def draw_svg(drawing: Graph) -> str:
    """Return the drawing of a graph as an SVG element.

    Raises:
        Fault: as `draw_png`.
    """
    text = _draw(drawing, "-Tsvg")
    return text[text.index("<svg") :]


def _draw(drawing: Graph, *options: str) -> str:
    # programs of installed packages lie in the environment's folder, which need not be on the PATH
    folders = os.pathsep.join([os.environ.get("PATH", os.defpath), sysconfig.get_path("scripts")])
    program = next(filter(None, (shutil.which(name, path=folders) for name in DRAWING_PROGRAMS)), None)
    if program is None:
        raise Fault("data", "a drawing needs Graphviz: pip install 'certigraph[draw]', or your system's graphviz")
    result = subprocess.run(
        [program, *options],
        input=dot_source(drawing), text=True, capture_output=True, check=False, env=child_environment(),
    )  # fmt: skip
    if result.returncode:
        raise Fault("data", f"{program} could not draw {' '.join(options)}: {result.stderr[:200]}")
    return result.stdout


def dot_source(drawing: Graph) -> str:
    """Return a graph in Graphviz's DOT language.

    Conditional edges are dashed and labelled, graphs inside nodes boxed.
    """
    inner = sorted({name.rpartition(":")[0] for name in drawing.nodes} - {""})
    boxes = [f'subgraph "cluster_{box}" {{ label="{box}"; {_format_nodes(drawing, box)} }}' for box in inner]
    nodes = [_format_nodes(drawing, ""), *boxes]
    return "digraph {\n" + ";\n".join([*DOT_STYLE, *nodes, *map(_format_edge, drawing.edges)]) + "\n}\n"


def _format_nodes(drawing: Graph, box: str) -> str:
    # An empty `box` selects the nodes of the outermost graph.
    names = [name for name in drawing.nodes if name.rpartition(":")[0] == box]
    return "; ".join(f'"{name}" [label="{name.rpartition(":")[2].strip("_")}"]' for name in names)


def _format_edge(edge: Edge) -> str:
    line = "dashed" if edge.conditional else "solid"
    return f'"{edge.source}" -> "{edge.target}" [label="{edge.data or ""}", style={line}]'

"""Draw the layers of the product from its imports, for ARCHITECTURE.md.

    python scripts/draw_layers.py           # writes docs/images/layers.svg
    python scripts/draw_layers.py --check   # exit status 1 if the picture is not that of the imports

A folder stands above those that it imports. Of the arrows only those are drawn that no way over other folders implies.
"""

import ast
import sys
from collections.abc import Iterator, Mapping
from html import escape
from pathlib import Path

ROOT = Path(__file__).parents[1]
PICTURE = ROOT / "docs" / "images" / "layers.svg"

TOP = ("state", "adapters", "nodes", "graphs", "middleware", "benchmarks")
INNER = ("runtime", "evaluation", "studies", "cli")

WIDTH, HEIGHT, GAP, MARGIN = 620, 58, 34, 16

MAX_LINES = 2
"""Lines of text in a box."""


def folder_of(part: str) -> Path:
    """Return the folder of a part of the product."""
    return ROOT / part if part in TOP else ROOT / "src" / "certigraph" / part


def read_imports() -> dict[str, set[str]]:
    """Return the parts that each part imports, those for type checkers included."""
    parts = {*TOP, *INNER}
    return {part: {name for name in imported_parts(folder_of(part)) if name in parts - {part}} for part in parts}


def imported_parts(folder: Path) -> Iterator[str]:
    """Yield the first folder below certigraph of every import in a folder."""
    for file in folder.rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import | ast.ImportFrom) else []
            modules = [f"{node.module}.{name}" for name in names] if isinstance(node, ast.ImportFrom) else names
            yield from (module.split(".")[1] for module in modules if module.startswith("certigraph."))


def reduce_edges(imports: Mapping[str, set[str]]) -> dict[str, set[str]]:
    """Leave out the edges that are implied by longer ways."""

    def reachable(part: str) -> set[str]:
        return imports[part] | {far for near in imports[part] for far in reachable(near)}

    implied = {part: {far for near in imports[part] for far in reachable(near)} for part in imports}
    return {part: imports[part] - implied[part] for part in imports}


def rank_parts(imports: Mapping[str, set[str]]) -> list[list[str]]:
    """Return the parts by level, the lowest first: a part stands one level above the highest that it imports."""

    def level(part: str) -> int:
        return max((level(below) + 1 for below in imports[part]), default=0)

    levels: dict[int, list[str]] = {}
    for part in sorted(imports):
        levels.setdefault(level(part), []).append(part)
    return [levels[number] for number in sorted(levels)]


def summarize(part: str) -> str:
    """Return the first paragraph of the docstring of a part's package."""
    text = ast.get_docstring(ast.parse((folder_of(part) / "__init__.py").read_text(encoding="utf-8"))) or ""
    return " ".join(text.partition("\n\n")[0].split()).rstrip(".").replace("`", "")


def draw(imports: Mapping[str, set[str]]) -> str:
    """Return the picture as SVG, the lowest level at the bottom."""
    levels = rank_parts(imports)
    boxes: dict[str, tuple[float, float, float]] = {}
    for number, parts in enumerate(reversed(levels)):
        width = (WIDTH - (len(parts) - 1) * GAP) / len(parts)
        for place, part in enumerate(parts):
            boxes[part] = MARGIN + place * (width + GAP), MARGIN + number * (HEIGHT + GAP), width
    lines = [line for part, (x, y, width) in boxes.items() for line in draw_box(part, x, y, width)]
    for part, below in sorted(reduce_edges(imports).items()):
        lines += [draw_arrow(boxes[part], boxes[other]) for other in sorted(below)]
    size = f"{WIDTH + 2 * MARGIN} {len(levels) * (HEIGHT + GAP) - GAP + 2 * MARGIN}"
    return "\n".join([f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {size}">', STYLE, *lines, "</svg>", ""])


STYLE = """\
<style>
rect { fill: #f4f6f8; stroke: #57606a }
text { font: 12px sans-serif; fill: #24292f }
.name { font: bold 15px sans-serif }
path { stroke: #57606a; fill: none; marker-end: url(#head) }
</style>
<defs><marker id="head" markerWidth="9" markerHeight="9" refX="8" refY="4" orient="auto"><path d="M0,0 L8,4 L0,8" \
style="marker-end: none"/></marker></defs>"""


def draw_box(part: str, x: float, y: float, width: float) -> Iterator[str]:
    """Yield the lines of a part's box: its name and, in as many lines as it takes, what it holds."""
    yield f'<rect x="{x:g}" y="{y:g}" width="{width:g}" height="{HEIGHT}" rx="6"/>'
    place = part if part in TOP else f"src/certigraph/{part}"
    yield f'<text class="name" x="{x + 12:g}" y="{y + 19:g}">{place}/</text>'
    lines = wrap(summarize(part), int(width / 6.6))
    if len(lines) > MAX_LINES:
        raise ValueError(f"shorten the first paragraph in the __init__.py of {part}: its box has {MAX_LINES} lines")
    for number, line in enumerate(lines):
        yield f'<text x="{x + 12:g}" y="{y + 36 + 14 * number:g}">{escape(line)}</text>'


def wrap(text: str, most: int) -> list[str]:
    """Break a text into lines of at most so many characters."""
    lines = [""]
    for word in text.split():
        if len(lines[-1]) + len(word) + 1 > most:
            lines.append("")
        lines[-1] = f"{lines[-1]} {word}".strip()
    return lines


def draw_arrow(above: tuple[float, float, float], below: tuple[float, float, float]) -> str:
    """Return an arrow from a part to one that it imports."""
    (x, y, width), (to_x, to_y, to_width) = above, below
    narrow = min(width, to_width) / 2
    start = x + width / 2 if width <= to_width else min(max(to_x + narrow, x), x + width)
    end = to_x + to_width / 2 if to_width <= width else min(max(x + narrow, to_x), to_x + to_width)
    return f'<path d="M{start:g},{y + HEIGHT:g} L{end:g},{to_y:g}"/>'


if __name__ == "__main__":
    picture = draw(read_imports())
    if "--check" in sys.argv:
        sys.exit(PICTURE.read_text(encoding="utf-8") != picture)
    PICTURE.write_text(picture, encoding="utf-8")

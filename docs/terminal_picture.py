"""Draw what a terminal shows while predicates turn certified: an animated SVG that needs no script and no fonts.

    python docs/terminal_picture.py docs/images/terminal.svg

The run is SDP on a BlocksWorld task with a simulated agent, which makes mistakes, so that attempts are rejected.
"""

import re
import sys
import tempfile
from collections.abc import Iterator
from io import StringIO
from pathlib import Path

from rich.console import Console
from rich.terminal_theme import TerminalTheme

import certigraph
from certigraph.runtime.history import RunHistory
from certigraph.runtime.terminal import draw_frame
from certigraph.state.trajectory import Event

WIDTH, HEIGHT = 92, 20
"""Size of the terminal in characters."""

SECONDS = 1.2
"""Seconds for which a frame is shown; the last one is shown three times as long."""

THEME = TerminalTheme(
    (252, 252, 250),
    (38, 38, 38),
    [
        (38, 38, 38),
        (190, 40, 40),
        (30, 120, 60),
        (150, 100, 0),
        (30, 90, 170),
        (130, 60, 140),
        (0, 110, 120),
        (90,) * 3,
    ],
)
"""Dark text on a light ground, which is legible on a page of either colour."""

FORMAT = """<svg class="frame" width="{terminal_width}" height="{terminal_height}">
<style>{styles}</style>
<defs>{lines}</defs>
<g class="{unique_id}-matrix" font-size="{char_height}">{backgrounds}{matrix}</g>
</svg>"""
"""Form of one frame: rich's own has a window around it, and loads a font from another server."""


def main(path: Path) -> None:
    """Run the agent and write the picture."""
    with tempfile.TemporaryDirectory() as out:
        context = certigraph.Context(model="simulated:act=0.2,accept=0,reject=0,seed=10")
        result = certigraph.run("sdp", "blocksworld", "4-2", context=context, out=out)
        frames = [_draw(history, number) for number, history in enumerate(_moments(result))]
    path.write_text(_animate(frames), encoding="utf-8")


def _moments(result: certigraph.Result) -> Iterator[RunHistory]:
    # the run after its plan, after each verdict, and at its end
    trajectory, history = result.trajectory, RunHistory()
    history.take(trajectory.header)
    for event in trajectory.events:
        history.take(event)
        if isinstance(event, Event) and event.node in ("propose", "validate", "replan"):
            yield history
    if trajectory.footer:
        history.take(trajectory.footer)
        yield history


def _draw(history: RunHistory, number: int) -> str:
    console = Console(width=WIDTH, height=HEIGHT, record=True, file=StringIO(), force_terminal=True)
    console.print(draw_frame(history, height=HEIGHT, steps=None, seconds=0.4 * (number + 1)))
    svg = console.export_svg(theme=THEME, code_format=FORMAT, unique_id=f"f{number}")
    return re.sub(r"font-family:[^;]*;", "", svg)


def _animate(frames: list[str]) -> str:
    sizes = re.findall(r'width="([\d.]+)" height="([\d.]+)">', "".join(frames))
    width, height = (max(map(float, values)) for values in zip(*sizes, strict=True))
    shown = len(frames) + 2
    styles = [
        "text { font-family: ui-monospace, Menlo, Consolas, 'DejaVu Sans Mono', monospace; }",
        f".frame {{ visibility: hidden; animation: {SECONDS * shown:.1f}s step-end infinite; }}",
    ]
    for number in range(len(frames)):
        last = number == len(frames) - 1
        begin, end = 100 * number / shown, 100.0 if last else 100 * (number + 1) / shown
        hidden = "" if last else f" {end:.3f}% {{ visibility: hidden; }}"
        first = "" if number == 0 else "0% { visibility: hidden; } "
        styles.append(f"@keyframes k{number} {{ {first}{begin:.3f}% {{ visibility: visible; }}{hidden} }}")
        styles.append(f"#frame{number} {{ animation-name: k{number}; }}")
    # a viewer without animations, or whose user wants none, shows the last frame
    styles.append(f"#frame{len(frames) - 1} {{ visibility: visible; }}")
    styles.append("@media (prefers-reduced-motion) { .frame { animation: none; } }")
    body = "\n".join(
        frame.replace('class="frame"', f'class="frame" id="frame{n}"', 1) for n, frame in enumerate(frames)
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img" '
        'aria-label="A terminal in which the conditions of a plan turn certified one after another">\n'
        f"<style>{' '.join(styles)}</style>\n"
        f'<rect width="100%" height="100%" rx="8" fill="{THEME.background_color.hex}"/>\n{body}\n</svg>\n'
    )


if __name__ == "__main__":
    main(Path(sys.argv[1]))

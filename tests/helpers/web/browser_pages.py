"""Pages in a real browser: their title after loading, and what is wider than the window."""

import html
import json
import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any, NamedTuple

import pytest

BROWSERS = ("chromium", "chromium-browser", "google-chrome")

MEASURE = """
const page = document.querySelector("iframe").contentDocument;
const boxes = [...page.querySelectorAll(".wide")].filter(box => box.scrollWidth > box.clientWidth + 1);
document.title = JSON.stringify({
  width: page.documentElement.scrollWidth,
  scrolled: boxes.map(box => box.closest("section").querySelector("h2").textContent),
});
"""


def browser() -> str | None:
    """The path of a browser; None if there is none."""
    return next(filter(None, map(shutil.which, BROWSERS)), None)


needs_browser = pytest.mark.skipif(browser() is None, reason="no Chromium here")


MEASURE_FIGURES = """
const page = document.querySelector("iframe").contentDocument;
const cells = [...page.querySelectorAll(".figures > div > dd, .nodes td, .nodes th")];
const right = cell => {
  const range = page.createRange();
  range.selectNodeContents(cell);
  return range.getBoundingClientRect().right;
};
const wide = cells.filter(cell => right(cell) > cell.getBoundingClientRect().right + 1);
document.title = JSON.stringify(wide.map(cell => cell.textContent.trim()));
"""


class Layout(NamedTuple):
    """Width of a page in pixels, and the headings of the sections that have a box which scrolls sideways."""

    width: int
    scrolled: list[str]


def layout_at(width: int, page: str, profile_folder: Path) -> Layout:
    """Lay out an HTML page in a frame of this width, since a window of a browser has a minimum width."""
    return Layout(**_measure(MEASURE, width, page, profile_folder))


def boxes_that_overflow(width: int, page: str, profile_folder: Path) -> list[str]:
    """The texts of totals and cells of cost tables that are wider than their boxes, in a frame of this width."""
    wide: list[str] = _measure(MEASURE_FIGURES, width, page, profile_folder)
    return wide


def _measure(script: str, width: int, page: str, profile_folder: Path) -> Any:
    frame = f'<iframe srcdoc="{html.escape(page)}" style="border:0;width:{width}px;height:900px"></iframe>'
    outer = profile_folder / "outer.html"
    outer.write_text(f"<title>plain</title><body>{frame}<script>onload = () => {{{script}}}</script>", encoding="utf-8")
    return json.loads(html.unescape(title_in_browser(outer, profile_folder)))


def title_in_browser(page: Path, profile_folder: Path) -> str:
    """The title of a page once it is loaded and its scripts have run."""
    options = ["--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={profile_folder}/browser", "--dump-dom"]
    env = {**os.environ, "HOME": str(profile_folder)}
    command = [str(browser()), *options, page.as_uri()]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, env=env, check=True)
    return re.findall("<title>(.*?)</title>", done.stdout, re.DOTALL)[0]

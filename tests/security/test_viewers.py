"""Threat 10, markup in what is shown: pages, terminals and spreadsheets take text from outside for text."""

import csv
import io
import re
from collections.abc import Callable, Collection
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from helpers.cases import first_fast
from helpers.files.product import folder_of, product_path
from helpers.models.filled_forms import fill_form
from helpers.web.browser_pages import needs_browser, title_in_browser
from helpers.worlds.scripted_benchmark import Script
from jinja2 import UndefinedError
from markupsafe import Markup
from rich.console import Console

from certigraph.adapters.models.scripts import ScriptedChat
from certigraph.adapters.protocols import Context, Limits
from certigraph.evaluation.tables import escape_formula, write_csv, write_frame
from certigraph.runtime.live import LiveView
from certigraph.runtime.pages import render_page
from certigraph.runtime.report import write_report
from certigraph.runtime.run import run
from certigraph.runtime.terminal import clean_lines
from certigraph.state.records import Scores, Task

RUNS_IF_TRUSTED = "document.title='owned'"
HOSTILE = (
    "\u202egnp.exe\u2066 \x1b]0;owned\x07\x1b[2J "  # first, lest a line be cut before it
    f'<script>{RUNS_IF_TRUSTED}</script><img src=x onerror="{RUNS_IF_TRUSTED}"><svg onload={RUNS_IF_TRUSTED}></svg>'
    f'</style></title></main><iframe src="javascript:{RUNS_IF_TRUSTED}"></iframe>'
    f"'\" onmouseover='{RUNS_IF_TRUSTED}' "
    f"[a](javascript:{RUNS_IF_TRUSTED}) =HYPERLINK('x') ${{title}}"
)

HARMLESS = {"html", "head", "meta", "title", "style", "body", "main", "header", "section", "aside", "div", "span"} | {
    *("p", "h1", "h2", "h3", "dl", "dt", "dd", "ul", "ol", "li", "b", "i", "small", "pre", "a", "details", "summary"),
    *("table", "thead", "tbody", "tr", "th", "td", "svg", "g", "path", "line", "rect", "circle", "text", "tspan"),
    *(
        "polyline",
        "polygon",
        "defs",
        "use",
        "figure",
        "figcaption",
        "clippath",
        "metadata",
        "desc",
        "em",
        "strong",
        "foreignobject",
    ),
}


class Page(HTMLParser):
    """What a browser would make of a page: its elements, attributes and links."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements = list[str]()
        self.attributes = list[tuple[str, str | None]]()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append(tag)
        self.attributes += attrs


def assert_inert(text: str, pages: Collection[str] = ()) -> None:
    """A page runs nothing, and links only to itself, to the web, and to `pages`, which are addresses of other pages."""
    page = Page(text)
    assert set(page.elements) <= HARMLESS
    assert [name for name, _ in page.attributes if name.startswith("on")] == []
    links = [value or "" for name, value in page.attributes if name in ("href", "src", "action", "xlink:href")]
    assert {link for link in links if not link.startswith(("http://", "https://", "#"))} <= {*pages}
    assert "default-src 'none'" in text and "script-src" not in text
    assert not re.search("[\x1b\x07\u202e\u2066]", text)


class Hostile(Script):
    """A world whose every word is markup."""

    name = HOSTILE

    def __init__(self, **given: Any) -> None:
        super().__init__(echo=HOSTILE, limits=Limits(steps=4, trials=2, attempts=2, replans=1), **given)

    def tasks(self, split: str = "") -> list[Task]:
        return [self.task(HOSTILE)]

    def task(self, task_id: str) -> Task:
        return Task(benchmark=HOSTILE, id=HOSTILE, goal=HOSTILE, condition=HOSTILE)


def telling(prompt: str, schema: dict[str, Any]) -> Any:
    return fill_form(schema, HOSTILE)


def reported(graph: str, out: Path) -> str:
    chat = ScriptedChat(responder=telling, model_name=HOSTILE)
    result = run(graph, Hostile(), context=Context(chat=chat), out=out)  # type: ignore[arg-type]
    scores = Scores(value=0.5, parts={HOSTILE: 0.5}, answer=[{HOSTILE: HOSTILE}])
    trajectory, footer = result.trajectory, result.trajectory.footer
    assert footer
    shown = trajectory.model_copy(update={"footer": footer.model_copy(update={"message": HOSTILE, "scores": scores})})
    return write_report(shown, result.folder / "report.html").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    "graph", first_fast(["sdp", "step", "tdp", "clin", "react", "plan_and_solve", "plan_and_act"], 3)
)
def test_markup_in_a_run_is_text_in_its_report(graph: str, tmp_path: Path):
    page = reported(graph, tmp_path)
    assert "&lt;script&gt;" in page
    assert_inert(page)


def texts_of_files(pattern: str) -> dict[str, str]:
    return {
        product_path(file): file.read_text(encoding="utf-8")
        for part in ("evaluation", "runtime", "studies", "cli")
        for file in folder_of(part).rglob(pattern)
    }


def test_every_page_is_made_by_the_one_layout_with_its_policy():
    files = {**texts_of_files("*.py"), **texts_of_files("*.html")}
    layouts = [name for name, text in files.items() if re.search("<!doctype|<html", text, re.IGNORECASE)]
    assert layouts == ["runtime/templates/base.html"]


def test_nothing_but_a_drawing_by_matplotlib_is_taken_for_markup():
    templates, modules = texts_of_files("*.html"), texts_of_files("*.py")
    assert templates
    assert [
        name for name, text in templates.items() if re.search(r"\|\s*safe\b|autoescape|<script|\son\w+=", text)
    ] == []
    assert [name for name, text in modules.items() if re.search(r"\bMarkup\(|__html__", text)] == [
        "evaluation/plots.py"
    ]


def test_attributes_with_a_value_from_outside_are_quoted():
    unquoted = re.compile(r"""<[a-z][^<>]*?=\s*\{\{""")
    assert [name for name, text in texts_of_files("*.html").items() if unquoted.search(text)] == []
    assert unquoted.search("<p class={{ look }}>")


@pytest.fixture
def render(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., str]:
    """Render a template that is given as text, from a package of its own."""
    folder = tmp_path / "templates"
    folder.mkdir()
    (tmp_path / "__init__.py").touch()
    monkeypatch.syspath_prepend(str(tmp_path.parent))

    def render(source: str, **values: str) -> str:
        (folder / "own.html").write_text(source)
        return render_page("own.html", (tmp_path.name,), **values)

    return render


def test_text_is_escaped_in_elements_attributes_macros_and_joined_texts(render: Callable[..., str]):
    page = render(
        """{% extends "base.html" %}{% from "macros.html" import labelled, table %}{% block main %}
        <p title="{{ text }}" class='{{ text }}'>{{ text }}</p>{{ labelled(text, text) }}{{ table([text], [[text]]) }}
        {{ labelled("x", "y") ~ text }}{{ [labelled("x", "y"), text] | join(text) }}{% endblock %}""",
        title=HOSTILE,
        text=HOSTILE,
    )
    assert page.count("&lt;script&gt;") == 11
    assert_inert(page)


@pytest.mark.parametrize(("text", "shown"), [("\u202ea\x1b[2J", "\ufffda\ufffd[2J"), ("שלום\nعربي\t", "שלום\nعربي\t")])
def test_control_characters_are_replaced_and_other_text_stays(text: str, shown: str, render: Callable[..., str]):
    for value in (text, Markup(text)):
        assert render("<pre>{{ text }}</pre>", text=value) == f"<pre>{shown}</pre>"


def test_a_variable_that_is_missing_is_an_error(render: Callable[..., str]):
    with pytest.raises(UndefinedError, match="text"):
        render("{{ text }}")


# --- terminals


@pytest.mark.parametrize("terminal", [True, False])
def test_escape_sequences_do_not_reach_a_terminal(terminal: bool, tmp_path: Path):
    shown = io.StringIO()
    console = Console(file=shown, force_terminal=terminal, width=200, color_system=None)
    with LiveView(console) as view:
        run("react", Hostile(), context=Context(chat=ScriptedChat(responder=telling)), out=tmp_path, listener=view)  # type: ignore[arg-type]
    assert shown.getvalue()
    assert not re.search("\x1b\\]|\x07|\x1b\\[2J|\u202e", shown.getvalue())


def test_messages_keep_their_lines_and_lose_what_steers():
    assert clean_lines("a\nb\x1b[2J\u202e\rc") == "a\nb [2J  c"


# --- spreadsheets


@pytest.mark.parametrize("text", ["=1+1", "+x", "-x", "@SUM(A1)", "\tx", "\r=x", " =HYPERLINK('x')"])
def test_a_text_that_would_be_a_formula_is_one_no_longer(text: str, tmp_path: Path):
    write_csv(tmp_path / "x.csv", [{"task": text, "score": -0.5}])
    with (tmp_path / "x.csv").open(newline="") as file:
        [row] = csv.DictReader(file)
    assert row == {"task": f"'{text}", "score": "-0.5"}


def test_a_carriage_return_begins_no_line_and_lines_end_plainly(tmp_path: Path):
    text = 'a\r=1+1, "b"\r\n'
    write_csv(tmp_path / "x.csv", [{"task": text, "run": 1}, {"task": "b", "run": 2}])
    write_frame(pd.DataFrame({"task": [text, "b"], "run": [1, 2]}), tmp_path / "y.csv")
    assert (tmp_path / "x.csv").read_bytes() == (tmp_path / "y.csv").read_bytes()
    with (tmp_path / "x.csv").open(newline="") as file:
        assert [*csv.DictReader(file)] == [{"task": text, "run": "1"}, {"task": "b", "run": "2"}]
    assert (tmp_path / "x.csv").read_bytes() == b'task,run\n"a\r=1+1, ""b""\r\n",1\nb,2\n'


@pytest.mark.parametrize("value", ["-5", "+1e3", "a=b", "", -1, None, "x-y"])
def test_numbers_and_plain_texts_stay(value: Any):
    assert escape_formula(value) == value


# --- a browser


@pytest.mark.slow
@needs_browser
@pytest.mark.parametrize("graph", ["sdp", "step"])
def test_a_browser_runs_nothing_of_it(graph: str, tmp_path: Path):
    reported(graph, tmp_path / "runs")
    [page] = tmp_path.rglob("report.html")
    assert title_in_browser(page, tmp_path) != "owned"
    control = tmp_path / "control.html"
    control.write_text(f"<title>plain</title><body>{HOSTILE}")
    assert title_in_browser(control, tmp_path) == "owned", "the browser would have run it"

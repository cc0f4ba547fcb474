"""Looking for a secret in what was written: every encoding that the promise names, in every kind of file."""

import html
import json
import sqlite3
import zipfile
from base64 import b64encode, urlsafe_b64encode
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from urllib.parse import quote, quote_plus

SENTINEL = "sk-Zq7+/Vx9=K\"pL2\\m&N4r'T8<wYb5Hd"
"""A key with a character that each encoding writes in another way."""


def written_forms(secret: str) -> set[str]:
    """Every encoding but base64, made by other means than the redactor's."""
    once = json.dumps(secret)[1:-1]
    escaped = {once, json.dumps(once)[1:-1], repr(secret)[1:-1], html.escape(secret)}
    quoted = {quote(secret), quote(secret, safe=""), quote_plus(secret), "".join(f"%{b:02X}" for b in secret.encode())}
    plain = {secret, secret.encode().hex(), *escaped, *quoted}
    return {form for text in plain for form in (text, text.lower(), text.upper())}


def _base64(raw: bytes) -> Iterator[bytes]:
    for shift in range(3):
        whole = b"\0" * shift + raw + b"\0" * (-(shift + len(raw)) % 3)
        for encode in (b64encode, urlsafe_b64encode):
            yield encode(whole)[4:-4]  # what stands next to the secret decides about the rest


def leaks(folder: Path, *secrets: str) -> list[str]:
    """The files below a folder, named or filled with one of the secrets in any form."""
    wanted = secrets or (SENTINEL,)
    forms = {form for secret in wanted for form in (*map(str.encode, written_forms(secret)), *_base64(secret.encode()))}
    found = []
    for path in folder.rglob("*"):
        name = str(path.relative_to(folder))
        held = b"\0".join([name.encode(), *(_contents(path) if path.is_file() else ())])
        found += [f"{name}: {form!r}" for form in forms if form in held]
    return found


def _contents(path: Path) -> Iterator[bytes]:
    raw = path.read_bytes()
    yield raw
    if raw.startswith(b"SQLite format 3"):
        yield from _rows(path)  # a long value is cut over several pages of the file
    elif path.suffix == ".eval":
        yield from _logged(path)
    elif path.suffix == ".parquet":
        import pandas as pd

        yield pd.read_parquet(path).to_csv().encode()
    elif zipfile.is_zipfile(path):
        with zipfile.ZipFile(path) as archive:
            yield from (archive.read(name) for name in archive.namelist())


def _rows(path: Path) -> Iterator[bytes]:
    with closing(sqlite3.connect(path)) as opened:
        for (table,) in opened.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall():
            for row in opened.execute(f'SELECT * FROM "{table}"'):
                yield from (value if isinstance(value, bytes) else str(value).encode() for value in row)


def _logged(path: Path) -> Iterator[bytes]:
    from inspect_ai.log import read_eval_log

    yield read_eval_log(str(path), resolve_attachments="full").model_dump_json().encode()

"""Connections to the server that CERTIGRAPH_POSTGRES names; its password is kept nowhere and shown to nobody."""

import logging
import os
from typing import Any

from psycopg import AsyncConnection, Error, ProgrammingError
from psycopg.conninfo import conninfo_to_dict
from psycopg.rows import DictRow, dict_row
from psycopg.types.json import set_json_dumps, set_json_loads

from certigraph.adapters.models.redact import MASK, redact_message
from certigraph.evaluation.postgres.jsonb import dumped, loaded
from certigraph.state.endings import Fault

VARIABLE = "CERTIGRAPH_POSTGRES"
EXPORT = f"export {VARIABLE}=postgresql://USER:PASSWORD@HOST/DATABASE"

HOPELESS = ("authentication failed", "does not exist", "no password supplied", "no pg_hba.conf entry")
"""What a server says that will say the same in a minute."""

UNHEARD = logging.NullHandler()
"""Takes psycopg's own words, which would else go to the terminal: what becomes of a connection is told by us."""

PROMPT: dict[str, Any] = {"connect_timeout": 10, "keepalives_idle": 30, "tcp_user_timeout": 30_000}
"""What makes the client notice within a minute that a server has vanished: seconds, seconds, milliseconds."""

SETTINGS = """
SELECT set_config('synchronous_commit', 'on', false), set_config('tcp_keepalives_idle', '30', false),
       set_config('tcp_keepalives_interval', '10', false), set_config('tcp_keepalives_count', '3', false)
"""
"""SQL: a checkpoint that was confirmed outlives a power cut; a worker whose machine vanished is let go of."""


async def connected() -> AsyncConnection[DictRow]:
    """A new connection that commits every statement.

    Raises:
        Fault: no address is set, or it is none.
        psycopg.OperationalError: the server is not there.
    """
    try:
        connection = await AsyncConnection[DictRow].connect(
            **_parts(),
            **PROMPT,
            autocommit=True,
            prepare_threshold=0,
            row_factory=dict_row,
            application_name="certigraph",
        )
    except UnicodeError:
        raise _no_address() from None
    logging.getLogger("psycopg").addHandler(UNHEARD)
    set_json_dumps(dumped, connection)
    set_json_loads(loaded, connection)
    return connection


def told(error: Error) -> str:
    """What the server or the way to it said, without rows and without who asked."""
    said = error.diag.message_primary or str(error) or type(error).__name__
    secrets = {str(value) for key, value in _parts().items() if key in ("user", "password")}
    for secret in sorted(filter(None, secrets), key=len, reverse=True):
        said = said.replace(secret, MASK)
    return redact_message(said.splitlines()[0])


def hopeless(error: Error) -> bool:
    """Whether a server turned us away for a reason that will be the same in a minute."""
    return any(text in str(error) for text in HOPELESS)


def turned_away(error: Error) -> Fault:
    """The fault that a hopeless error is."""
    return Fault("data", f"the checkpoint server turned this machine away ({told(error)}): {EXPORT}")


def _parts() -> dict[str, Any]:
    address = os.environ.get(VARIABLE, "")
    if not address:
        raise Fault("data", f"the checkpoints are on a Postgres server, and {VARIABLE} is not set: {EXPORT}")
    try:
        parts = conninfo_to_dict(address)
    except ProgrammingError:  # its text repeats the address
        raise _no_address() from None
    if not str(parts.get("port", 0)).isdigit():  # what follows a slash within a password
        raise _no_address()
    return {**parts}


def _no_address() -> Fault:
    return Fault("data", f"{VARIABLE} is no address of a Postgres server (%-escape its password): {EXPORT}")

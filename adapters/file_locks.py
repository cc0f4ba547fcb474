"""Locks on files, so that one process at a time writes them."""

from typing import IO, Any

from portalocker import AlreadyLocked, LockFlags, lock


def try_lock(file: IO[Any]) -> bool:
    """Lock an open file for this process until it is closed; return whether no other process has locked it.

    The operating system releases the lock when the process ends, whatever ends it.
    """
    try:
        lock(file, LockFlags.EXCLUSIVE | LockFlags.NON_BLOCKING)
    except AlreadyLocked:
        return False
    return True

"""What this process holds: memory, files, threads, live worlds."""

import os
import threading
import time
from pathlib import Path

from certigraph.adapters.episodes import EPISODES
from certigraph.state.records import Record

MEGABYTE = 1e6


class Held(Record):
    """A reading of the process: seconds of processor time, resident memory in MB (now, and the most so far), counts."""

    cpu: float
    memory: float
    peak: float
    files: int
    threads: int
    worlds: int
    """Live episodes that nobody closed yet."""


def held() -> Held:
    """What the process holds now."""
    return Held(
        cpu=time.process_time(),
        memory=memory(),
        peak=_peak(),
        files=len(list(Path("/proc/self/fd").iterdir())) - 1,  # the listing itself is an open file
        threads=threading.active_count(),
        worlds=len(EPISODES),
    )


def memory() -> float:
    """Resident memory in MB; it costs some ten microseconds."""
    resident = Path("/proc/self/statm").read_text(encoding="ascii").split()[1]
    return int(resident) * os.sysconf("SC_PAGE_SIZE") / MEGABYTE


def _peak() -> float:
    lines = Path("/proc/self/status").read_text(encoding="utf-8").splitlines()
    kilobytes = next(line.split()[1] for line in lines if line.startswith("VmHWM"))
    return int(kilobytes) * 1_024 / MEGABYTE

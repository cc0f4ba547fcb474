"""Synchronous calls: what they leave behind."""

import asyncio
import gc
import threading
from pathlib import Path

import pytest

from certigraph.adapters.processes import wait_for

OPEN_FILES = Path("/proc/self/fd")


@pytest.mark.skipif(not OPEN_FILES.is_dir(), reason="open files are counted there")
def test_threads_that_end_leave_no_files_open() -> None:
    def count_after_a_thread() -> int:
        thread = threading.Thread(target=lambda: wait_for(asyncio.sleep(0)))
        thread.start()
        thread.join()
        return len(list(OPEN_FILES.iterdir()))

    gc.disable()  # which would close them some time later
    try:
        counts = [count_after_a_thread() for _ in range(5)]
    finally:
        gc.enable()
    assert counts[-1] - counts[0] < len(counts)

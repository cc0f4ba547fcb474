"""Processes whose clock is wrong: behind, ahead, or set while they run.

In a child process, before anything else: `clocks.set_clock(-3600)`. For any program, by its entry point:

    python tests/helpers/processes/clocks.py --offset -3600 certigraph.cli:main run sdp blocksworld
    python tests/helpers/processes/clocks.py --step -3600 --after 1.5 certigraph.cli:main resume FOLDER

What changes is the wall clock of Python (`time.time`, `time.time_ns`), of which LangGraph makes the ids of checkpoints;
not `time.monotonic`, which no operating system sets back.
"""

import argparse
import pkgutil
import sys
import time
from collections.abc import Sequence


def set_clock(offset: float = 0.0, *, step: float = 0.0, after: float = 0.0) -> None:
    """Make this process's wall clock wrong.

    Args:
        offset: seconds to add to the time from now on.
        step: seconds to add as well, once `after` seconds have passed.
        after: seconds from now.
    """
    real, begun = time.time_ns, time.monotonic()

    def time_ns() -> int:
        stepped = step if time.monotonic() - begun >= after else 0.0
        return real() + int((offset + stepped) * 1e9)

    time.time_ns = time_ns
    time.time = lambda: time_ns() / 1e9


def main(arguments: Sequence[str]) -> None:
    """Call a program's entry point, `module:function`, by a clock that is wrong; what follows are its arguments."""
    parser = argparse.ArgumentParser(allow_abbrev=False)
    for name in ("--offset", "--step", "--after"):
        parser.add_argument(name, type=float, default=0.0, help="seconds")
    parser.add_argument("program", nargs=argparse.REMAINDER)
    given = parser.parse_args(arguments)
    set_clock(given.offset, step=given.step, after=given.after)
    sys.argv = given.program
    pkgutil.resolve_name(given.program[0])()


if __name__ == "__main__":
    main(sys.argv[1:])

"""`python -m fuzzing [TARGET ...] --seconds 60`: fuzz the readers whose names begin so, or all, and say what broke."""

import argparse
import sys

from fuzzing.campaign import campaign
from fuzzing.target import Effort


def main() -> int:
    """Fuzz, one line a target; 1 where something was found."""
    parser = argparse.ArgumentParser(prog="python -m fuzzing", description=__doc__)
    parser.add_argument("target", nargs="*", help="such as model or model.json; all of them where none is named")
    parser.add_argument("--seconds", type=int, default=60, help="for each target")
    parser.add_argument("--inputs", type=int, default=-1, help="at most, for each target")
    parser.add_argument("--seed", type=int, default=0, help="the same inputs each time; 0: others")
    arguments = parser.parse_args()
    found = 0
    for outcome in campaign(arguments.target, Effort(arguments.seconds, arguments.inputs, arguments.seed)):
        print(f"{outcome.name:28} {outcome.tried:>10,} inputs  {outcome.finding or 'nothing found'}", flush=True)
        if outcome.finding:
            found += 1
            print(f"    add to fuzzing/found.py: {outcome.name!r}: ({outcome.data!r},)", flush=True)
    return min(found, 1)


if __name__ == "__main__":
    sys.exit(main())

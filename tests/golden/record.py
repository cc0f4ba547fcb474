"""Record the goldens from the code as it is, or compare with them.

python tests/golden/record.py                   # records all
python tests/golden/record.py --only '*/sdp-*'  # some, by a pattern of shell wildcards
python tests/golden/record.py --check           # writes nothing; exits 1 if anything differs
"""

import argparse
import os
import sys
from fnmatch import fnmatch
from pathlib import Path

TESTS = Path(__file__).parents[1]
sys.path[:] = [str(TESTS), str(TESTS.parent / "src"), *(one for one in sys.path if one != str(TESTS / "golden"))]

from golden.cases import Golden, difference, goldens  # noqa: E402


def main() -> int:
    """Record or check, and say what was done. Returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="*", metavar="PATTERN", help="goldens of this name, with shell wildcards")
    parser.add_argument("--check", action="store_true", help="compare, write nothing")
    parser.add_argument("--fast", action="store_true", help="leave out what is slow")
    given = parser.parse_args()
    chosen = [one for one in goldens() if fnmatch(one.name, given.only) and not (given.fast and one.slow)]
    if not chosen:
        parser.error(f"no golden is named {given.only}")
    if not os.environ.get("CERTIGRAPH_DATA"):
        missing = [one.name for one in chosen if one.data]
        if missing:
            parser.error(f"set CERTIGRAPH_DATA; {len(missing)} goldens read it, such as {missing[0]}")
    return check(chosen) if given.check else record(chosen)


def record(chosen: list[Golden]) -> int:
    """Write the goldens; name those that changed."""
    for golden in chosen:
        text = golden.make()
        before = golden.path.read_text(encoding="utf-8") if golden.path.is_file() else None
        if before is None or difference(golden.name, before, text, golden.tolerance):
            golden.path.parent.mkdir(exist_ok=True)
            golden.path.write_text(text, encoding="utf-8")
            print(f"{'new' if before is None else 'changed'}: {golden.name}", flush=True)
    return 0


def check(chosen: list[Golden]) -> int:
    """Print how the goldens differ from the code as it is."""
    wrong = 0
    for golden in chosen:
        if found := golden.difference():
            wrong += 1
            print(found, flush=True)
    print(f"{len(chosen) - wrong} of {len(chosen)} goldens are as recorded")
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())

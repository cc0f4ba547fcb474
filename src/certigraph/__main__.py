"""`python -m certigraph` is the command `certigraph`, and like it finds no module in the working folder."""

import sys
from pathlib import Path

if __name__ == "__main__":
    if not sys.flags.safe_path and sys.path[:1] == [str(Path.cwd())]:
        del sys.path[0]

    from certigraph.cli import main

    main()

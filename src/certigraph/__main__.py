"""`python -m certigraph` is the command `certigraph`."""

from certigraph.cli import main

if __name__ == "__main__":
    main()

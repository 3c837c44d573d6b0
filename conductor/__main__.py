"""`python -m conductor`."""

import sys

from conductor.cli import main

if __name__ == "__main__":
    sys.exit(main())

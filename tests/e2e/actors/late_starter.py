"""A proxy that starts only when it is tried again: `--tries FILE` counts how often it was.

python -m tests.e2e.actors.late_starter --tries FILE --fails 1 --dialect acp --name P
"""

from __future__ import annotations

import os
import sys

from tests.e2e.actors import recording_proxy


def main() -> None:
    """Fails so many times, then is the recording proxy."""
    at = sys.argv.index("--tries")
    file, fails = sys.argv[at + 1], int(sys.argv[at + 3])
    del sys.argv[at : at + 4]
    with open(file, "ab") as tries:
        tries.write(b"x")
    if os.path.getsize(file) <= fails:
        sys.stderr.write("not yet\n")
        sys.exit(3)
    recording_proxy.main()


if __name__ == "__main__":
    main()

"""X's command line."""

from __future__ import annotations

import argparse

from tests.e2e.actors.dialects import DIALECTS


def parse(arguments: list[str]) -> argparse.Namespace:
    """The options."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--dialect", choices=DIALECTS, default="acp")
    parser.add_argument("--name", default="X")
    parser.add_argument("--log", help="file every frame is appended to")
    parser.add_argument("--nested", action="store_true", help="sacp with nested messages")
    parser.add_argument(
        "--echo", choices=("symposium", "bare", "capabilities", "none"), default="capabilities"
    )
    parser.add_argument("--mark", help="text block put in front of every prompt")
    parser.add_argument("--add-capability", help="agent capability added to initialize's result")
    parser.add_argument("--hide-capability", help="agent capability taken from it")
    parser.add_argument("--answer", help="method answered without forwarding")
    parser.add_argument("--notify", help="notification of its own sent up on each prompt")
    parser.add_argument("--die-on", help="exits with 7 when params hold this text")
    parser.add_argument("--cut-on", help="scp: ends its successor connection on this text")
    parser.add_argument("--hang-on", help="method swallowed")
    parser.add_argument("--dup-on", help="requests holding this text are sent twice, same id")
    parser.add_argument("--junk", action="store_true", help="junk lines on each prompt")
    parser.add_argument("--keep-ids", action="store_true", help="passes on under the same id")
    parser.add_argument("--meta", action="store_true", help="metadata on each envelope")
    parser.add_argument("--wrap-cancel", action="store_true", help="as Rust SDKs up to 3.6")
    return parser.parse_args(arguments)

"""A conductor without proxies: `a_conductor.py FAULT AGENT`; a fault is a rule it breaks."""

import json
import shlex
import subprocess
import sys
import threading

FAULT, AGENT = sys.argv[1:]


def main() -> None:
    """Passes lines both ways."""
    agent = subprocess.Popen(shlex.split(AGENT), stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert agent.stdin is not None
    assert agent.stdout is not None
    answers = agent.stdout

    def up() -> None:
        for line in answers:
            sys.stdout.buffer.write(changed(line))
            sys.stdout.buffer.flush()

    threading.Thread(target=up, daemon=True).start()
    for line in sys.stdin.buffer:
        if FAULT != "loses notifications" or b'"id"' in line:
            agent.stdin.write(changed(line))
            agent.stdin.flush()
    agent.stdin.close()
    agent.wait()


def changed(line: bytes) -> bytes:
    """The line as it is, or as a parser and a printer leave it."""
    return json.dumps(json.loads(line)).encode() + b"\n" if FAULT == "prints anew" else line


main()

"""The loop of a host of guests."""

import subprocess
import sys
from threading import Thread
from typing import Final

HOST: Final = """
import os, sys
from conductor.run import segment_loop
from conductor.run.segment_loop import HIGH_WATER, ParentOutput

class Echo:
    failed, incoming, too_much, told = False, 0, 0, False

    def start(self):
        os.set_blocking(1, False)

    def feed(self, lines):
        self.too_much += output.unsent >= HIGH_WATER
        for line in lines:
            output.send(line + b"\\n")

    def settle(self):
        output.flush()
        if output.unsent >= HIGH_WATER and not self.told:
            self.told = True
            print("full", file=sys.stderr, flush=True)

    run_due = settle

    def close(self):
        print(self.too_much, file=sys.stderr)

output = ParentOutput()
sys.exit(segment_loop.serve(Echo(), output, 2 * HIGH_WATER, b""))
"""


def test_a_host_reads_no_more_while_much_waits_for_its_parent() -> None:
    lines = b"x" * (15 * 1024 * 1024) + b"\n" + b"more\n" * (64 * 1024)
    pipe, command = subprocess.PIPE, [sys.executable, "-c", HOST]
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe) as host:
        source, output, told = host.stdin, host.stdout, host.stderr
        assert source is not None
        assert output is not None
        assert told is not None

        def write() -> None:
            source.write(lines)
            source.close()

        writer = Thread(target=write)
        writer.start()
        assert told.readline() == b"full\n"
        assert output.read() == lines
        assert told.read() == b"0\n"
        writer.join()
    assert host.returncode == 0

"""A proxy as an ordinary program: newline-delimited JSON-RPC on standard input and output."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any, Final

from .engine import Engine
from .wire import Wire

if TYPE_CHECKING:
    from .proxy import Proxy

_CHUNK: Final = 256 * 1024
TERMINAL: Final = "CONDUCTOR_TERMINAL"
"""The variable with the terminal of whoever runs the chain."""
_ran = False
"""Whether this program has run a proxy."""


def run(proxy: Proxy[Any]) -> None:
    """Serves until the input ends. Does nothing in the sandbox, where the conductor runs the proxy.

    Prints of the proxy go to standard error, since standard output carries the protocol.
    `breakpoint()` talks to the terminal, since standard input carries the protocol too.
    """
    global _ran  # noqa: PLW0603 - a fact about the process
    if sys.platform == "wasi":
        return
    _ran = True
    wire = Wire(Engine(proxy))
    printed, sys.stdout = sys.stdout, sys.stderr
    if not os.environ.get("PYTHONBREAKPOINT"):
        sys.breakpointhook = debug
    try:
        successor_ended = not _serve(wire)
    except BrokenPipeError:
        # Nobody reads any more; the interpreter would complain about it at exit once more.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return
    except KeyboardInterrupt:
        return
    finally:
        sys.stdout = printed
        sys.breakpointhook = sys.__breakpointhook__
    if successor_ended:
        sys.exit(f"`{proxy.name}`: its successor has ended")


def debug(*_: Any, **__: Any) -> None:
    """The debugger, on the terminal that conductor names, or on the program's own.

    Raises `OSError` where there is none.
    """
    path = os.environ.get(TERMINAL, "/dev/tty")
    try:
        typed, shown = open(path, encoding="utf-8"), open(path, "w", encoding="utf-8")  # noqa: SIM115 - as long as the program
    except OSError:
        raise OSError(
            "`breakpoint()`: there is no terminal here, and standard input carries the protocol; "
            "run the proxy from a terminal, by `conductor exec` or `conductor dev`, or debug a "
            "test of it (`Playground`)"
        ) from None
    import pdb  # noqa: T100 - that is what it is for

    pdb.Pdb(stdin=typed, stdout=shown, nosigint=True).set_trace(sys._getframe(1))


def remind(proxy: Proxy[Any]) -> None:
    """Says at the end of a program that it declares a proxy and never ran it.

    Not if it failed, or ran another.
    """
    if not (_ran or proxy.used or getattr(sys, "last_value", None) is not None):
        sys.stderr.write(
            f"proxy `{proxy.name}` was declared and never run\n"
            'hint: end the file with `if __name__ == "__main__":` and `proxy.run()`\n'
        )


def _serve(wire: Wire) -> bool:
    """Serves until the input ends; False if the successor that the proxy has started ends before.

    The first request shows whether the client takes part in SCP.
    """
    held: list[bytes] = []
    while data := os.read(0, _CHUNK):
        whole, newline, rest = data.rpartition(b"\n")
        if not newline:
            held.append(data)
            continue
        held.append(whole)
        lines = b"".join(held).decode("utf-8", "surrogateescape").split("\n")
        held = [rest]
        if not wire.has_role and any('"symposium"' in line for line in lines):
            from . import scp  # few do

            if scp.begins(lines):
                return scp.serve(wire, lines, rest)
        said = wire.receive(lines)
        if said:
            write(1, said)
    return True


def write(fd: int, lines: list[str]) -> None:
    """Writes all of these lines."""
    view = memoryview("".join(line + "\n" for line in lines).encode("utf-8", "surrogateescape"))
    while view:
        view = view[os.write(fd, view) :]

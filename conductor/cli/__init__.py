"""The command line: `main` is what the installed `conductor` runs.

    fast      `agent` and `proxy`, parsed without loading typer: an editor waits for these
    app       every command, its help and its errors, with typer
    run       runs a chain on this process's standard input and output
    options   the options of chains, for typer
    usage     what is wrong with a command line
    exec_     one prompt from the terminal: client, client_output, client_permissions, client_files
    inspect_  what a component is and may do: inspect_policy, inspect_text
    lock      what a chain is and may do, written down
    replay    one component, run again on what a trace recorded of it
    audit     whether the record of --audit is as it was written
    join      the successor side of an `scp` proxy
    conductor.mcp.doors.shim   `mcp`: an MCP server for agents that know stdio only
    report    errors and hints for people

Errors go to stderr as `error: …`, a blank line, `hint: …`; stdout carries protocol only.
"""

from __future__ import annotations

import sys


def main(arguments: list[str] | None = None) -> int:
    """Runs one command; the exit code: 0 ok, 1 failed, 2 usage, 3 timeout, 130 interrupted."""
    given = sys.argv[1:] if arguments is None else arguments
    if len(given) == 2 and given[0] == "mcp" and not given[1].startswith("-"):
        from conductor.mcp.doors import shim

        return shim.main(given[1:])
    if given and given[0] in ("agent", "proxy"):
        code = _chain(given)
        if code is not None:
            return code
    if len(given) == 2 and given[0] == "join" and not given[1].startswith("-"):
        from conductor.cli import join

        return join.main(given[1:])
    from conductor.cli import app

    return app.main(given)


def _chain(given: list[str]) -> int | None:
    """Runs `agent` or `proxy`; None where typer has to explain something."""
    import gc

    from conductor.run import fast_msgspec, spawn

    spawn.start(given)
    gc.disable()  # until the chain runs there is no garbage to speak of
    try:
        fast_msgspec.load()
        from conductor.cli import fast

        parsed = fast.parse(given)
        if parsed is not None:
            from conductor.cli import run

            return run.chain(parsed)
    finally:
        gc.enable()
    spawn.discard()
    return None

"""The command line: `main` is what the installed `conductor` runs.

    options        the table of options of `agent`, `proxy` and `exec`
    fast           parses `agent`, `proxy` and `exec` without typer: somebody waits for these
    typer_options  gives typer commands their options from the table
    app            every command, its help and its errors, with typer; chains: agent, proxy, exec
    usage          explains what is wrong with a command line
    surroundings   the standard streams, the locale and the folder that a process starts with
    pages          lays pages of help out: topics, help_, man, completion
    run            starts a chain, and runs it on this process's standard input and output
    connection     how `connect`, `attach` and `chat` reach an address
    scp            `proxy --dialect scp`: the client names the components behind this chain
    exec_          sends a prompt from the terminal: exec_turn, exec_output
    inspect_       what a component is and may do: inspect_card, inspect_text, and inspect_policy,
                   inspect_lock, which find it out
    consent        what components ask for: agreed to, asked on the terminal, or reported
    trust_         what the user trusts
    data           what is kept on this machine, by the kinds of data_kinds
    report_        a text for a bug report, of report_parts
    log_           the commands on what is on record: log_kinds finds out which kind a file is,
                   log_show shows traces, log_audit audits, both in the rows of log_rows
    chain_log      the log of a chain that runs: on standard error (json_log: with
                   `log-format` json), and in the file of chain_log_file
    report         prints errors, log lines and results for people

Each other module is the command of its name. Standard error gets errors as `error: …`, a blank
line, `hint: …`; standard output carries protocol only.
"""

from __future__ import annotations

import os
import sys

_LOGIN = "--agent-login="
"""Begins the argument behind which a client appends those of an agent's login by terminal
(`conductor.core.logins`)."""


def main(arguments: list[str] | None = None) -> int:
    """Runs one command; the exit code: 0 ok, 1 failed, 2 usage, 3 timeout, 130 interrupted."""
    if sys.platform == "win32":
        # Before all imports, and not through `report`, which needs `select.poll`. A chain reads
        # pipes in an event loop, and the event loops of Windows watch sockets only.
        sys.stderr.write(
            "error: conductor does not run on Windows: it needs the pipes and processes of POSIX\n"
            "\nhint: install it inside WSL 2 (Windows Subsystem for Linux), and run it there\n"
        )
        return 1
    given = sys.argv[1:] if arguments is None else arguments
    try:
        if len(given) == 2 and given[0] == "mcp" and not given[1].startswith("-"):
            from conductor.mcp.doors import shim  # an agent waits for it: it loads nothing else

            return shim.main(given[1:])
        if arguments is None:
            from conductor.cli import surroundings

            surroundings.prepare()
        from conductor import children

        if any(map(children.is_login, os.environ)):
            children.close_memory()  # what it starts could read it there
        return _run(given)
    except KeyboardInterrupt:
        return 130


def _run(given: list[str]) -> int:
    given = unread(given)
    if given and given[0] in ("agent", "proxy", "exec"):
        code = _chain(given)
        if code is not None:
            return code
    if given and given[0] == "connect":
        code = _connect(given[1:])
        if code is not None:
            return code
    if len(given) == 2 and given[0] == "join" and not given[1].startswith("-"):
        from conductor.cli import join

        return join.main(given[1:])
    from conductor.cli import app

    return app.main(given)


def unread(given: list[str]) -> list[str]:
    """The words of a command line; with those of an agent's login as values of the option, so that
    nothing else reads them."""
    at = next((at for at, word in enumerate(given) if word.startswith(_LOGIN)), 0)
    if not at or given[0] != "agent":
        return given
    login = [given[at], *(_LOGIN + word for word in given[at + 1 :])]
    return ["agent", *login, *given[1:at]]


def _connect(given: list[str]) -> int | None:
    """Runs `connect`, for which an editor waits too; None where typer has to explain something."""
    from conductor.run import stand_ins

    stand_ins.load("msgspec")
    from conductor.cli import connection

    if any(word.startswith(_LOGIN) for word in given):
        return connection.refuse_login()
    plain = connection.plain(given)
    return None if plain is None else connection.run(*plain)


def _chain(given: list[str]) -> int | None:
    """Runs `agent`, `proxy` or `exec`; None where typer has to explain something."""
    # In this order: the host of guests starts first, and loads its engine during our own imports.
    import gc

    from conductor.run import spawn, stand_ins

    if not given[1:2] or not given[1].startswith(_LOGIN):
        spawn.start(given)
    gc.disable()  # start-up makes next to no garbage, and collecting takes time
    try:
        stand_ins.load("msgspec")
        stand_ins.load("subprocess")
        from conductor.cli import fast

        if given[0] == "exec":
            if (words := fast.words(given)) is not None:
                from conductor.cli import exec_

                return exec_.reported(words.typed, words.rest, words.values)
        elif (parsed := fast.parse(given)) is not None:
            from conductor.cli import run

            return run.chain(parsed)
    finally:
        gc.enable()
    spawn.discard()
    return None

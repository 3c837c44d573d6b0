"""The command line: the installed `conductor` runs `main`.

    commands       the table of commands; options: the options of commands that run no chain
    fast           starts commands that another program waits for, from both tables, without typer
    app            makes typer's commands of the tables, with typer_options
    manual         makes the help, the man page and the completion of the tables, with topics
    pages          lays out pages for a terminal
    usage          explains the mistakes in a command line
    surroundings   the standard streams, the locale and the folder that a process starts with
    configured     a command line with the layers below it, and warnings about these
    chains         runs `agent`, `proxy`, `exec` and `connect`
    run            starts a chain, and runs it on this process's standard input and output
    connection     how `connect`, `attach` and `chat` reach an address
    scp            `proxy --dialect scp`: the client names the components behind this chain
    exec_          sends a prompt from the terminal: exec_run, exec_turn, exec_output
    inspect_       the identity and rights of a component: inspect_card, inspect_text, and
                   inspect_policy, inspect_lock, which find them out
    consent        the wishes of components: agreed to, asked on the terminal, or reported
    trust_         the user's trust
    data           the files that are kept on this machine, by the kinds of data_kinds
    report_        a text for a bug report, of report_parts
    log_           the commands on recorded files: log_kinds finds out the kind of a file,
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
    if arguments is not None:
        return _run(arguments, in_process=True)
    from conductor import code_cache

    cache = code_cache.of_script("conductor")
    try:
        return _run(sys.argv[1:])
    finally:
        if cache is not None:
            cache.keep()


def _run(given: list[str], *, in_process: bool = False) -> int:
    try:
        from conductor.cli import fast

        if (code := fast.bare(given)) is not None:
            return code
        if not in_process:
            from conductor.cli import surroundings

            surroundings.prepare()
        from conductor import children

        if any(map(children.is_login, os.environ)):
            children.close_memory()  # a child of this process could read the login there
        given = fast.unread(given)
        if (code := fast.started(given)) is not None:
            return code
        from conductor.cli import app

        return app.main(given)
    except KeyboardInterrupt:
        return 130

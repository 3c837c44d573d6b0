"""Words that people type for commands of other names, and the one command that each means."""

from __future__ import annotations

from collections import Counter
from typing import Final

from conductor.cli import commands

WORDS: Final = {
    "exec": "run, ask, prompt, query, send, try, execute",
    "agent": "start, launch, chain",
    "chat": "talk, repl, ui, gui, web, open, shell",
    "setup": "editors, editor, configure, zed, code, vscode, neovim, nvim, emacs, jetbrains",
    "add": "install, get, fetch, download, pull, i",
    "remove": "uninstall, delete, rm, del",
    "update": "upgrade, up",
    "update --check": "outdated",
    "list": "ls, installed",
    "list --bundled": "components, component, plugins, plugin, proxies, extensions, bundled",
    "list --available": "search, find, available, browse, catalog, catalogue, registry, index",
    "agents": "models, model, login, auth, providers",
    "new": "init, create, scaffold, generate, template, newproxy",
    "doctor": "health, diagnose, diagnostics, verify-install, info, env",
    "doctor --report": "report, bug, bugreport, issue, feedback, support",
    "doctor --data": "data, cache, storage, disk",
    "doctor --clean KIND": "clean, prune, gc, clear, purge, cache prune, data delete",
    "ps": "status, running, jobs, chains, stop, kill, quit",
    "ps --watch": "top, monitor, metrics, dashboard, tui, htop",
    "ps resume": "unpause",
    "inspect": "show, describe, cat, card",
    "config show": "settings, options, preferences, cfg, conf",
    "log show": "trace, traces, trace show, audit, audits, audit show, logs, history, messages",
    "log stats": "trace stats",
    "log view": "trace view",
    "log verify": "audit verify",
    "log export": "trace export",
    "log replay": "trace replay, rerun",
    "dev": "watch, debug, develop",
    "test": "tests, check, lint, validate",
    "test --build": "build, compile, make",
    "publish --archive FILE": "pack, package, zip, archive, bundle",
    "publish": "push, upload, release, share",
    "lock": "freeze, pin",
    "serve": "server, daemon, listen, http",
    "connect": "remote",
    "trust": "allow, approve",
    "trust --list": "trusted",
    "trust --remove": "untrust, deny, revoke, distrust",
    "help": "docs, man, manual, usage, commands",
    "--version": "version, ver",
}
_LAST: Final = [row.path.rpartition(" ")[2] for row in commands.TABLE.values()]
_MEANT: Final = {
    # The name of a command in a group means this command, if no other command has the name.
    **{
        name: row.path
        for row, name in zip(commands.TABLE.values(), _LAST, strict=True)
        if row.above and Counter(_LAST)[name] == 1
    },
    **{word: command for command, words in WORDS.items() for word in words.split(", ")},
}


def meant(word: str, following: str = "") -> str | None:
    """The command that a word means, or that the word means with the next one: a name, or a name
    with further words."""
    word = word.lower().strip("-")
    return _MEANT.get(f"{word} {following.lower()}") or _MEANT.get(word)


def nearly_meant(word: str) -> str | None:
    """The command that a word means which is misspelt."""
    import difflib

    close = difflib.get_close_matches(word.lower(), _MEANT, 1, 0.8)
    return _MEANT[close[0]] if close else None

"""Runs the commands that an editor starts; has their texts.

Each function gets the words before `--`, the words behind it (None: there is no `--`), and the
options that are set, by name: from `conductor.cli.fast`, or from typer, where it has nothing to
explain.
"""

from __future__ import annotations

from typing import Any, Final

_SEE: Final = "`conductor help component` explains how to write one."

AGENT_HELP: Final = "Run a chain of proxies and an agent. An editor starts this."
AGENT_EPILOG: Final = """\
Examples:

  conductor agent datetime claude

  conductor agent ./a.wasm "python b.py" claude

In Zed's settings.json:

  "agent_servers": {"Conductor": {"type": "custom", "command": "conductor",
    "args": ["agent", "datetime", "claude"]}}"""
AGENT_WORDS: Final = ("COMPONENT", f"The proxies from the editor's side on, then the agent. {_SEE}")

PROXY_HELP: Final = "Run a chain as a proxy of another conductor."
PROXY_EPILOG: Final = 'Example:\n\n  conductor agent "conductor proxy ./a.wasm ./b.wasm" demo'
PROXY_WORDS: Final = (
    "COMPONENT",
    (
        "The proxies from the editor's side on. Without any proxy conductor passes every message "
        f"on unchanged. {_SEE}"
    ),
)

EXEC_HELP: Final = "Send one prompt through a chain and print the answer."
EXEC_EPILOG: Final = """\
Examples:

  conductor exec datetime demo "what day is it?"

  git diff | conductor exec claude --fs read

`conductor help exit-codes` lists the exit codes."""
EXEC_WORDS: Final = ("COMPONENT", f"The proxies, then the agent, then the prompt. {_SEE}")

CONNECT_HELP: Final = """\
Connect an editor to a chain at an address. For the editor this command is an agent.

ADDRESS is ws://HOST, wss://HOST, http://HOST, https://HOST, tcp://HOST:PORT or unix:PATH. Several
addresses stand between commas. A URL without a path means /acp. The variable CONDUCTOR_TOKEN has
the token for the server. If the server is a conductor, a cut connection goes on when the network is
back: no message is lost. If the server has started again, open requests get an error. Then sessions
go on if the agent can load them."""
CONNECT_EPILOG: Final = """\
Examples:

  conductor connect ws://127.0.0.1:8790
  conductor connect wss://chains.example.org --token-file ~/.chain-token"""
CONNECT_WORDS: Final = ("ADDRESS", "The address of the chain.")


def agent(words: list[str], rest: list[str] | None, values: dict[str, Any]) -> int:
    """Runs a chain of proxies and an agent. Raises `UsageError`."""
    return _run("agent", words, rest, values)


def proxy(words: list[str], rest: list[str] | None, values: dict[str, Any]) -> int:
    """Runs a chain of proxies that is itself a proxy. Raises `UsageError`."""
    return _run("proxy", words, rest, values)


def _run(command: str, words: list[str], rest: list[str] | None, values: dict[str, Any]) -> int:
    from conductor.cli import run  # --help does not need them
    from conductor.spec.parsed import assemble

    return run.chain(assemble(command, words, rest, **values))


def exec_(words: list[str], rest: list[str] | None, values: dict[str, Any]) -> int:
    """Sends one prompt through a chain and prints the answer."""
    from conductor.cli import exec_ as turns

    return turns.reported(words, rest, values)


def connect(words: list[str], _rest: None, values: dict[str, Any]) -> int:
    """Connects standard input and output to an address."""
    from conductor.cli import connection

    return connection.run(words[0], **values)

"""The options of all commands: those of chains and servers are in `conductor.spec.option_table`,
all others here. Must not import typer: an editor waits for `connect` to start.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Final

from conductor.spec import option_table
from conductor.spec.option_table import (
    CHAIN,
    DAYS,
    FILE,
    NUMBER,
    SECONDS,
    SERVE,
    SWITCH,
    Kind,
    Option,
    choice,
)

_fleet = partial(Option, panel="Fleet")
_PARTS: Final = ("fleet gateway", "fleet worker", "fleet")
"""The commands that are a part of a fleet, or look at it."""

FLEET: Final = (
    _fleet(
        "--nats",
        Kind("URL", str, many=True),
        "Where NATS is. May be repeated, or have commas, for the servers of a cluster.",
        _PARTS,
        default="nats://127.0.0.1:4222",
    ),
    _fleet(
        "--nats-creds",
        FILE,
        "Credentials for NATS: the file (JWT and key) of this part of the fleet. A user and a "
        "password stand in the variables CONDUCTOR_NATS_USER and CONDUCTOR_NATS_PASSWORD instead.",
        _PARTS,
    ),
    _fleet(
        "--nats-ca",
        FILE,
        "Authorities to trust at NATS: the file of their certificates, instead of the system's.",
        _PARTS,
    ),
    _fleet(
        "--nats-cert", FILE, "The certificate for NATS: that of this part of the fleet.", _PARTS
    ),
    _fleet("--nats-key", FILE, "The key of that certificate.", _PARTS, needs=("nats-cert",)),
    _fleet("--nats-wait", SECONDS, "How long NATS may be away at first.", _PARTS, default="30"),
    _fleet(
        "--listen",
        Kind("ADDRESS", str, many=True),
        "Show health and numbers at http://HOST:PORT: /health, /ready, /metrics. May be repeated.",
        ("fleet worker",),
    ),
    _fleet(
        "--pool",
        Kind("NAME", str),
        "Its workers take the same rooms.",
        ("fleet gateway", "fleet worker"),
        default="main",
    ),
    _fleet(
        "--run-as",
        Kind("USER", str),
        "The user that agents run as: they cannot read the worker's login. It needs root.",
        ("fleet worker",),
    ),
    _fleet(
        "--bundle-key",
        Kind("FILE", str, many=True),
        "Take bundles that are rolled out: chains and policy of the pool, if they are "
        "signed with this public key (PEM). May be repeated: one of them.",
        ("fleet worker",),
    ),
    _fleet(
        "--bundle",
        Kind("BUNDLE", str),
        "Take this bundle: chains and policy, signed with the `--bundle-key`, instead of those "
        "that are rolled out: oci://HOST/NAME@sha256:HEX, or a folder with an OCI layout.",
        ("fleet worker",),
        needs=("bundle-key",),
    ),
    _fleet(
        "--rooms",
        NUMBER,
        "Rooms (principals) at once; a full worker takes no more.",
        ("fleet worker",),
        default="1000",
    ),
    _fleet(
        "--journal",
        choice("off", "on", "required"),
        "Keep a journal in JetStream: what passes at the client's end, without secrets. With "
        "`required` no prompt begins while that lags.",
        ("fleet worker",),
        default="off",
    ),
    _fleet(
        "--journal-days",
        DAYS,
        "Days that a journal keeps; 0: for ever. For a new one only.",
        ("fleet worker",),
        default="30",
        needs=("journal",),
    ),
    _fleet(
        "--project-id",
        Kind("NAME", str),
        "The project that values (`storage`) belong to: those of the scope `project`, on all "
        "workers.",
        ("fleet worker",),
        default="the pool",
    ),
)
"""Options of the parts of a fleet."""

_DOCTOR: Final = (
    Option("--report", SWITCH, "Write a text for a bug report.", ("doctor",)),
    Option(
        "--output -o",
        FILE,
        "With `--report`: the file to write, which must be new.",
        ("doctor",),
        default="conductor-report-DATE.txt here",
        needs=("report",),
    ),
    Option(
        "--show",
        SWITCH,
        "With `--report`: print all of it first.",
        ("doctor",),
        needs=("report",),
    ),
    Option(
        "--with-content",
        SWITCH,
        "With `--report`: leave in what the messages of the ring say.",
        ("doctor",),
        needs=("report",),
    ),
    Option(
        "--data",
        SWITCH,
        "Show what conductor keeps here: where, how much, how old, when it goes by itself.",
        ("doctor",),
    ),
    Option("--clean", Kind("KIND", str), "Delete what `--data` lists as KIND.", ("doctor",)),
    Option(
        "--component",
        Kind("NAME", str),
        "With `--clean values`: only those of this component.",
        ("doctor",),
        needs=("clean",),
    ),
    Option(
        "--older",
        Kind("AGE", str),
        "With `--clean`: what is unused for so long: 12h, 7d, 4w.",
        ("doctor",),
        default="all",
        needs=("clean",),
    ),
    Option(
        "--damaged",
        SWITCH,
        "With `--clean values`: remove the file, which cannot be read.",
        ("doctor",),
        needs=("clean",),
    ),
    Option("--yes -y", SWITCH, "Do not ask.", ("doctor",), needs=("report", "clean")),
)

_INSTALLING: Final = ("add", "update")

_INSTALL: Final = (
    Option(
        "--yes -y", SWITCH, "Install without a question; it gets the default rights.", _INSTALLING
    ),
    Option(
        "--allow-all",
        SWITCH,
        "Install without a question, and allow this version all that it asks for.",
        _INSTALLING,
    ),
    Option(
        "--trust", SWITCH, "Install a program too, which runs with all your rights.", _INSTALLING
    ),
    Option(
        "--signer",
        Kind("IDENTITY", str),
        "Who must have signed it: an address, or a workflow's URL.",
        _INSTALLING,
    ),
    Option("--issuer", Kind("URL", str), "Who vouches for that identity.", _INSTALLING),
    Option("--key", FILE, "The public key (PEM) that it must be signed with.", _INSTALLING),
    Option("--trusted-root", FILE, "The root of a sigstore of one's own.", _INSTALLING),
    Option(
        "--any-signer",
        SWITCH,
        "Take it although another signer signed the installed one.",
        _INSTALLING,
    ),
)

TABLE: Final = (
    *CHAIN,
    Option(
        "--token-file",
        FILE,
        "A file with the token.",
        ("connect", "attach"),
        default="the variable CONDUCTOR_TOKEN",
    ),
    Option(
        "--ca",
        FILE,
        "The certificates (PEM) of the authorities to trust, instead of the system's.",
        ("connect", "attach"),
    ),
    *SERVE,
    *FLEET,
    *_DOCTOR,
    *_INSTALL,
    Option(
        "--only",
        Kind("CHECK", str, many=True),
        "Only this check, or only `scenarios`; may be repeated.",
        ("test",),
    ),
    Option(
        "--against",
        Kind("COMMAND", str),
        "Check any agent instead; or a conductor, with `{agent}` for its agent.",
        ("test",),
    ),
    Option(
        "--build",
        SWITCH,
        "Build it first, by the command in its manifest, which is run with your rights in its "
        "folder, without a shell. Records the digest of what came of it.",
        ("test",),
    ),
    Option("--timeout", SECONDS, "Time limit of each check.", ("test",), default="30"),
    Option(
        "--timeout",
        SECONDS,
        "How long nothing may move in the chain.",
        ("log replay",),
        default="60; with COMPONENT 10",
    ),
    Option("--trace", FILE, "Write the new run to this file, as a trace.", ("log replay",)),
    Option(
        "--agent",
        SWITCH,
        "Play the agent of the trace on standard input and output, at the end of a chain.",
        ("log replay",),
    ),
    Option(
        "--agent",
        Kind("COMPONENT", str),
        "The agent behind the component, written as for `conductor agent`.",
        ("dev",),
        default="demo",
    ),
    Option(
        "--output -o",
        FILE,
        "Also write what the component gets and returns in the replay, as a transcript for "
        "`conductor test`. Only of a sandboxed component.",
        ("log replay",),
    ),
    Option(
        "--component",
        Kind("COMPONENT", str),
        "Play the scenarios against this component.",
        ("test",),
        default="the component whose folder holds them",
    ),
    Option(
        "--match",
        choice("bytes", "json"),
        "How to compare lines.",
        ("test",),
        default="the manifest's setting, else bytes",
    ),
    Option(
        "--update",
        SWITCH,
        "Replace the expected lines in the transcripts by the lines that the component returned.",
        ("test",),
    ),
)


def of(command: str) -> list[Option]:
    """The flags of one command."""
    return option_table.of(command, TABLE)


def in_order(flags: Sequence[str]) -> list[str]:
    """Flags with the short ones first."""
    return sorted(flags, key=lambda flag: flag.startswith("--"))

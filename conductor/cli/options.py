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
        "Address of NATS. For a cluster the option may be repeated, or have commas.",
        _PARTS,
        default="nats://127.0.0.1:4222",
    ),
    _fleet(
        "--nats-creds",
        FILE,
        "The file of credentials for NATS (JWT and key). The variables CONDUCTOR_NATS_USER and "
        "CONDUCTOR_NATS_PASSWORD name a user and a password instead.",
        _PARTS,
    ),
    _fleet(
        "--nats-ca",
        FILE,
        "Authorities to trust at NATS: the file of their certificates, instead of the system's.",
        _PARTS,
    ),
    _fleet("--nats-cert", FILE, "The certificate of this gateway or worker for NATS.", _PARTS),
    _fleet(
        "--nats-key",
        FILE,
        "The private key of the certificate for NATS.",
        _PARTS,
        needs=("nats-cert",),
    ),
    _fleet("--nats-wait", SECONDS, "How long to wait for NATS at first.", _PARTS, default="30"),
    _fleet(
        "--listen",
        Kind("ADDRESS", str, many=True),
        "Show health and numbers at http://HOST:PORT: /health, /ready, /metrics. May be repeated.",
        ("fleet worker",),
    ),
    _fleet(
        "--pool",
        Kind("NAME", str),
        "The pool of workers. All workers of a pool take the same rooms.",
        ("fleet gateway", "fleet worker"),
        default="main",
    ),
    _fleet(
        "--run-as",
        Kind("USER", str),
        "The user that runs the agents: this user cannot read the worker's login. This option "
        "needs root.",
        ("fleet worker",),
    ),
    _fleet(
        "--bundle-key",
        Kind("FILE", str, many=True),
        "Take bundles from rollouts: chains and policy of the pool. This public key (PEM) must "
        "check their signature. May be repeated: one key must fit.",
        ("fleet worker",),
    ),
    _fleet(
        "--bundle",
        Kind("BUNDLE", str),
        "Take this bundle: oci://HOST/NAME@sha256:HEX, or a folder with an OCI layout. The worker "
        "ignores rollouts then. `--bundle-key` checks the signature.",
        ("fleet worker",),
        needs=("bundle-key",),
    ),
    _fleet(
        "--rooms",
        NUMBER,
        "The most rooms (principals); a full worker takes no more.",
        ("fleet worker",),
        default="1000",
    ),
    _fleet(
        "--journal",
        choice("off", "on", "required"),
        "Keep a journal in JetStream: the messages at the client's end, without secrets. With "
        "`required` no prompt begins while the journal lags.",
        ("fleet worker",),
        default="off",
    ),
    _fleet(
        "--journal-days",
        DAYS,
        "How many days a journal keeps; 0: for ever. Only for a new journal.",
        ("fleet worker",),
        default="30",
        needs=("journal",),
    ),
    _fleet(
        "--project-id",
        Kind("NAME", str),
        "The project that owns values (`storage`) of the scope `project`, on all workers.",
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
        "With `--report`: print the whole report first.",
        ("doctor",),
        needs=("report",),
    ),
    Option(
        "--with-content",
        SWITCH,
        "With `--report`: leave in the content of the ring's messages.",
        ("doctor",),
        needs=("report",),
    ),
    Option(
        "--data",
        SWITCH,
        "Show the data that conductor keeps here: place, size, age, and when conductor deletes it.",
        ("doctor",),
    ),
    Option(
        "--clean", Kind("KIND", str), "Delete the data that `--data` lists as KIND.", ("doctor",)
    ),
    Option(
        "--component",
        Kind("NAME", str),
        "With `--clean values`: only the values of this component.",
        ("doctor",),
        needs=("clean",),
    ),
    Option(
        "--older",
        Kind("AGE", str),
        "With `--clean`: only data that was not used for this time: 12h, 7d, 4w.",
        ("doctor",),
        default="all",
        needs=("clean",),
    ),
    Option(
        "--damaged",
        SWITCH,
        "With `--clean values`: remove a file that cannot be read.",
        ("doctor",),
        needs=("clean",),
    ),
    Option("--yes -y", SWITCH, "Do not ask.", ("doctor",), needs=("report", "clean")),
)

_INSTALLING: Final = ("add", "update")

_INSTALL: Final = (
    Option("--yes -y", SWITCH, "Install without a question, with the default rights.", _INSTALLING),
    Option(
        "--allow-all",
        SWITCH,
        "Install without a question, with all rights that this version asks for.",
        _INSTALLING,
    ),
    Option(
        "--trust",
        SWITCH,
        "Install a program too; a program runs with all your rights.",
        _INSTALLING,
    ),
    Option(
        "--signer",
        Kind("IDENTITY", str),
        "The signer of the package: an address, or a workflow's URL.",
        _INSTALLING,
    ),
    Option("--issuer", Kind("URL", str), "The issuer that vouches for the signer.", _INSTALLING),
    Option("--key", FILE, "The public key (PEM) that must check the signature.", _INSTALLING),
    Option("--trusted-root", FILE, "The root of your own sigstore.", _INSTALLING),
    Option(
        "--any-signer",
        SWITCH,
        "Accept another signer than the signer of the installed version.",
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
        "Run only this check, or only `scenarios`; may be repeated.",
        ("test",),
    ),
    Option(
        "--against",
        Kind("COMMAND", str),
        "Check this agent instead; or a conductor, with `{agent}` for its agent.",
        ("test",),
    ),
    Option(
        "--build",
        SWITCH,
        "Build the component first, by the command in its manifest. The command runs with your "
        "rights in the component's folder, without a shell. Conductor records the digest of the "
        "build.",
        ("test",),
    ),
    Option("--timeout", SECONDS, "Time limit of each check.", ("test",), default="30"),
    Option(
        "--timeout",
        SECONDS,
        "How long the chain may stand still.",
        ("log replay",),
        default="60; with COMPONENT 10",
    ),
    Option("--trace", FILE, "Write the new run to this file as a trace.", ("log replay",)),
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
        "Also write the component's lines in the replay as a transcript for `conductor test`. Only "
        "for a sandboxed component.",
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

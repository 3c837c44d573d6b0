"""`conductor fleet bundle` and `conductor fleet check`: bundles as files."""

from __future__ import annotations

import os
import shlex
from typing import Annotated, Final, TypeAlias

import msgspec
import typer

from conductor.cli import report
from conductor.cli.typer_options import Json, paragraphs
from conductor.errors import ConductorError, UsageError, counted, visible_path
from conductor.fleet import bundle as bundles
from conductor.fleet.bundle import MOST, Bundle
from conductor.fleet.bundle_cache import BundleCache
from conductor.spec import digests, untrusted_files

HELP: Final = paragraphs(
    "Make a bundle: conductor.toml of FOLDER, the lock files that it names, and settings of locked "
    "components, in one file with a digest. The same content and key give the same file.",
    "It holds no secrets: write them as references in conductor.toml.",
)
EPILOG: Final = paragraphs(
    "Example:",
    "  openssl genpkey -algorithm ed25519 -out key.pem\n"
    "  openssl pkey -in key.pem -pubout -out key.pub\n"
    "  conductor fleet bundle --out pool.bundle --key key.pem --components\n"
    "  conductor fleet check pool.bundle --bundle-key key.pub",
)
CHECK_HELP: Final = paragraphs(
    "Check a bundle as a worker does before it takes it: its digests and its signature, then "
    "whether each chain could start on this machine. Compiles modules; starts nothing.",
    "Exit code 1 when it cannot be used.",
)
CHECK_EPILOG: Final = "Example:\n\n  conductor fleet check pool.bundle --bundle-key key.pub"

Keys: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "--bundle-key",
        metavar="FILE",
        help="A public key (PEM) that bundles are signed with; may be repeated: one of them.",
        show_default=False,
    ),
]
BundleFile: TypeAlias = Annotated[
    str,
    typer.Argument(
        metavar="BUNDLE", help="What `conductor fleet bundle` makes.", show_default=False
    ),
]


def bundle(
    out: Annotated[
        str,
        typer.Option("--out", "-o", metavar="FILE", help="The file to write.", show_default=False),
    ],
    folder: Annotated[
        str,
        typer.Argument(
            metavar="[FOLDER]",
            help="The folder of conductor.toml. Default: this one.",
            show_default=False,
        ),
    ] = ".",
    key: Annotated[
        str,
        typer.Option(
            "--key",
            metavar="FILE",
            help="Sign it with this private key (PEM, without a password).",
            show_default=False,
        ),
    ] = "",
    policy: Annotated[
        str,
        typer.Option(
            "--policy",
            metavar="FILE",
            help="A managed policy that holds on the workers.",
            show_default=False,
        ),
    ] = "",
    components: Annotated[
        bool,
        typer.Option("--components", help="Add the sandboxed components that the lock files name."),
    ] = False,
    include: Annotated[
        list[str] | None,
        typer.Option(
            "--include",
            metavar="FILE",
            help="Add another file of FOLDER; may be repeated.",
            show_default=False,
        ),
    ] = None,
) -> int:
    """Makes a bundle."""
    from conductor.fleet import bundle_files
    from conductor.packages import pack

    files = bundle_files.collected(
        folder, policy=policy, components=components, others=include or ()
    )
    data = bundles.made(files, key)
    made = bundles.read(data)
    pack.write(out, data)
    signed = "" if key else "; not signed, so no worker takes it"
    again = ["conductor", "fleet", "rollout", out, *(["--key", key] if key else [])]
    report.say(
        f"{out}: {counted(len(files), 'file')}, {counted(len(data), 'byte')}{signed}",
        *(f"  {part.path}" for part in made.manifest.files),
        f"sha256 {made.digest}",
        f"to roll it out: {shlex.join(again)}",
    )
    return 0


class Verdict(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Whether a bundle can be used on this machine."""

    ok: bool
    digest: str = ""
    chains: dict[str, list[str]] = {}
    """Their components, by name."""
    warnings: list[str] = []
    reason: str = ""
    """One word for what is wrong: `digest`, `signature`, `chain` …"""
    problem: str = ""
    hint: str = ""


def check(file: BundleFile, bundle_key: Keys = None, json_: Json = False) -> int:
    """Checks a bundle."""
    lines: list[str] = []
    warnings: list[str] = []
    try:
        verdict = _verdict(file, bundle_key or [], lines, warnings)
    except ConductorError as error:
        if not json_:
            raise
        reason = getattr(error, "reason", "chain")
        verdict = Verdict(ok=False, reason=reason, problem=error.text, hint=error.hint)
    if json_:
        report.say_json(msgspec.structs.replace(verdict, warnings=warnings))
    else:
        for text in warnings:
            report.write(text, word="warning")
        report.say(*lines)
    return 0 if verdict.ok else 1


def _verdict(file: str, keys: list[str], lines: list[str], warnings: list[str]) -> Verdict:
    from conductor.cli import bundled, serve

    data = content(file)
    read = opened(data, keys, file)
    if not keys:
        warnings.append("whose it is was not compared: name the public key with `--bundle-key`")
    folder = BundleCache().unpacked(read, data)
    size = sum(part.size for part in read.manifest.files)
    files = counted(len(read.manifest.files), "file")
    lines.append(f"sha256 {read.digest}: {files}, {counted(size, 'byte')}")
    found = bundled.Bundled.of(folder)
    if found.policy is not None:
        lines.append(f"policy of {found.policy.file.contact}")
    chains = found.take()
    named = {name: chain for name, chain in chains.items() if name}
    prepared = {}
    for name, specs, lock in bundled.checked(
        named,
        serve.in_file("worker", {}),
        warn=lambda name, text: warnings.append(f"chain `{name}`: {text}"),
    ):
        prepared[name] = [spec.name for spec in specs]
        held = f"held to {os.path.relpath(lock, folder)}" if lock else "not held to a lock file"
        lines.append(f"  {name}: {', '.join(prepared[name])}; {held}")
    return Verdict(ok=True, digest=read.digest, chains=prepared)


def content(file: str) -> bytes:
    """The bytes of a bundle's file. Raises `UsageError`."""
    try:
        return untrusted_files.read(file, 2 * MOST)
    except OSError as error:
        raise UsageError(
            f"the bundle `{visible_path(file)}`: {error.strerror or error}",
            "`conductor fleet bundle --out FILE` makes one",
        ) from None


def opened(data: bytes, keys: list[str], shown: str) -> Bundle:
    """The bundle in these bytes, signed by one of these keys, where there are any. Raises
    `ConductorError`."""
    read = bundles.read(data, shown=f"`{visible_path(shown)}`")
    if keys:
        read.signed_by(bundles.keys_of(keys), shown)
    return read


def short(digest: str) -> str:
    """Enough of a digest for people to compare; a word for none."""
    return digests.short(digest) if digest else "none"

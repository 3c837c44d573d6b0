"""`conductor fleet bundle` and `conductor fleet check`: a pool's bundle, as a signed artifact."""

from __future__ import annotations

import os
import shlex
from typing import Annotated, Final, TypeAlias

import msgspec

from conductor.cli import report
from conductor.cli.typer_options import Json, Replace, argument, option, paragraphs, switch
from conductor.errors import ConductorError, counted
from conductor.fleet import bundle as bundles
from conductor.fleet.bundle import Where
from conductor.fleet.bundle_cache import BundleCache
from conductor.spec import digests

HELP: Final = paragraphs(
    "Make a bundle: one OCI artifact with conductor.toml of FOLDER, its lock files, and the "
    "settings of locked components. The same content has the same digest.",
    "A bundle holds no secrets: write secrets as references in conductor.toml. For a registry "
    "conductor uses the login of `docker login`, `podman login` or `oras login`.",
)
EPILOG: Final = paragraphs(
    "Examples:",
    "  openssl genpkey -algorithm ed25519 -out key.pem\n"
    "  openssl pkey -in key.pem -pubout -out key.pub\n"
    "  conductor fleet bundle --out oci://ghcr.io/me/pool:1 --key key.pem\n"
    "  conductor fleet check oci://ghcr.io/me/pool:1 --bundle-key key.pub",
)
CHECK_HELP: Final = paragraphs(
    "Check a bundle as a worker checks it. The command compares digests and signature, and checks "
    "whether each chain could start on this machine. The command compiles modules, and starts "
    "nothing.",
    "Exit code 1 when a worker could not use the bundle.",
)
CHECK_EPILOG: Final = paragraphs(
    "Examples:",
    "  conductor fleet check oci://ghcr.io/me/pool:1 --bundle-key key.pub\n"
    "  conductor fleet check ./pool --bundle-key key.pub",
)

Keys: TypeAlias = Annotated[
    list[str] | None,
    option(
        "--bundle-key",
        "FILE",
        "A public key (PEM) that checks the signature. May be repeated: one key must fit.",
    ),
]
BUNDLE: Final = "oci://HOST/NAME:TAG, or a folder; also with @sha256:HEX."


_Out = Annotated[
    str, option("--out -o", "WHERE", "oci://HOST/NAME:TAG, or a new folder: an OCI layout.")
]
_Folder = Annotated[str, argument("[FOLDER]", "The folder of conductor.toml. Default: this one.")]
_Key = Annotated[
    str, option("--key", "FILE", "Sign the bundle with this private key (PEM, without a password).")
]
_Policy = Annotated[str, option("--policy", "FILE", "A managed policy for the workers.")]
_AddComponents = Annotated[
    bool, switch("--components", "Add the sandboxed components that the lock files name.")
]
_Include = Annotated[
    list[str] | None,
    option("--include", "FILE", "Add another file of FOLDER; may be repeated."),
]


def bundle(
    out: _Out,
    folder: _Folder = ".",
    key: _Key = "",
    policy: _Policy = "",
    components: _AddComponents = False,
    include: _Include = None,
    replace: Replace = False,
) -> int:
    """Makes a bundle."""
    from conductor.fleet import bundle_files
    from conductor.packages.oci import publish, reference

    to = bundles.parse(out)
    files = bundle_files.collected(
        folder, policy=policy, components=components, others=include or ()
    )
    made = bundles.made(files)
    where = reference.parse(out) if not to.is_folder else bundles.IN_FOLDER
    ready = publish.signed(where, made, (), key)
    if to.is_folder:
        publish.save(ready, to.place)
    else:
        publish.push(ready, replace=replace)
    pinned = str(to.pinned(made.digest))
    signed = "" if key else "; not signed, so no worker takes it"
    again = ["conductor", "fleet", "rollout", pinned, *(["--key", key] if key else [])]
    report.say(
        f"{out}: {counted(len(files), 'file')}, {counted(publish.size_of(ready), 'byte')}{signed}",
        *(f"  {path}" for path in sorted(files)),
        pinned,
        f"to roll it out: {shlex.join(again)}",
    )
    return 0


class Verdict(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Whether a bundle can be used on this machine."""

    ok: bool
    bundle: str = ""
    """Its place, by its digest."""
    chains: dict[str, list[str]] = {}
    """Their components, by name."""
    warnings: list[str] = []
    reason: str = ""
    """One word for the problem: `damaged`, `signature`, `chain` …"""
    problem: str = ""
    hint: str = ""


def check(
    bundle: Annotated[str, argument("BUNDLE", BUNDLE)],
    bundle_key: Keys = None,
    json_: Json = False,
) -> int:
    """Checks a bundle."""
    lines: list[str] = []
    warnings: list[str] = []
    try:
        verdict = _verdict(bundles.parse(bundle), bundle_key or [], lines, warnings)
    except ConductorError as error:
        if not json_:
            raise
        verdict = Verdict(ok=False, reason=_reason(error), problem=error.text, hint=error.hint)
    if json_:
        report.say_json(msgspec.structs.replace(verdict, warnings=warnings))
    else:
        for text in warnings:
            report.write(text, word="warning")
        report.say(*lines)
    return 0 if verdict.ok else 1


def _reason(error: ConductorError) -> str:
    """One word for the reason why a bundle cannot be used."""
    from conductor.fleet.bundle_follower import AWAY, CHAIN
    from conductor.packages.download import UnreachableError

    if isinstance(error, UnreachableError):
        return AWAY
    return error.reason if isinstance(error, bundles.BundleError) else CHAIN


def _verdict(where: Where, keys: list[str], lines: list[str], warnings: list[str]) -> Verdict:
    if not keys:
        warnings.append("the signer was not checked: name the public key with `--bundle-key`")
    opened = BundleCache().opened(where, bundles.keys_of(keys))
    lines.append(opened.name)
    try:
        prepared = _prepared(opened.folder, lines, warnings)
    except ConductorError as error:  # where it is unpacked says nothing
        text, hint = (each.replace(f"{opened.folder}/", "") for each in (error.text, error.hint))
        raise type(error)(text, hint) from None
    return Verdict(ok=True, bundle=opened.name, chains=prepared)


def _prepared(folder: str, lines: list[str], warnings: list[str]) -> dict[str, list[str]]:
    """The components of each chain in the folder of a bundle. Raises `ConductorError`."""
    from conductor.cli import bundled, serve

    found = bundled.Bundled.of(folder)
    if found.policy is not None:
        lines.append(f"policy of {found.policy.file.contact}")
    chains = found.take()
    named = {name: chain for name, chain in chains.items() if name}
    prepared = {}
    for name, specs, lock in bundled.checked(
        named,
        serve.in_file("fleet worker", {}, found.only),
        warn=lambda name, text: warnings.append(f"chain `{name}`: {text}"),
    ):
        prepared[name] = [spec.name for spec in specs]
        held = f"held to {os.path.relpath(lock, folder)}" if lock else "not held to a lock file"
        lines.append(f"  {name}: {', '.join(prepared[name])}; {held}")
    return prepared


def short(name: str) -> str:
    """Enough of a bundle's digest for people to compare; a word for none."""
    return digests.short(name.rpartition(":")[2]) if name else "none"

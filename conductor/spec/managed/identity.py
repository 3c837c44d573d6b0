"""Whether an entry of the policy is about a component: by the file that runs, not by its name."""

from __future__ import annotations

import contextlib
import os
from typing import Any, Final

import msgspec

from conductor import installation
from conductor.core.policy.scopes import compile_glob
from conductor.errors import ConductorError, UsageError
from conductor.spec import catalog, digests, guarded, paths, signing, untrusted_files
from conductor.spec.managed import real_path
from conductor.spec.managed.file import ANY, BUNDLED, Entry
from conductor.spec.model import Spec
from conductor.spec.python_guest import scripts

_SIGNATURE: Final = ".sig"
"""The ending of a detached signature's name, behind the name of its file: `cosign sign-blob --key`
and `openssl dgst -sign` write such files."""


class OtherError(Exception):
    """The entry does not allow the component. Without a text, it is about another component."""


def allowed(entry: Entry, spec: Spec, place: str) -> Spec:
    """The component, with the digests of the entry; `place` is the place of the policy.

    Raises `OtherError` where the entry is not about this component.
    """
    if spec.command is not None:
        # The examined file is the one that runs, also after a change of the folder.
        command = [os.path.abspath(spec.command[0]), *spec.command[1:]]
        spec = msgspec.structs.replace(spec, command=command)
    if entry.source is not None:
        _check_source(entry, entry.source, spec)
    if spec.address is not None and (entry.sha256 is not None or entry.signer is not None):
        raise OtherError(_if_named(entry, "a chain at an address has no digest and no signature"))
    if entry.sha256 is not None or entry.signer is not None:
        digest = _digest(spec)
        if entry.sha256 not in (None, digest):
            raise OtherError(_if_named(entry, f"its sha256 is {digest}"))
        if entry.signer is not None:
            _check_signature(entry, spec, digest, entry.signer)
        spec = _pinned(spec, digest, place)
    _check_command(entry, spec)
    return spec


def _if_named(entry: Entry, text: str) -> str:
    """A text about a component that the entry names; empty where it is about any."""
    return text if entry.source not in (None, BUNDLED) else ""


# -- where it comes from ---------------------------------------------------------------------------


def _check_source(entry: Entry, source: str, spec: Spec) -> None:
    kind, _, name = source.partition(":")
    if kind == BUNDLED:
        if spec.bundled is None or (name and spec.bundled != name) or not _is_bundled(spec):
            raise OtherError
        return
    if spec.address is not None:
        if source != spec.address:
            raise OtherError
        return
    path = _file(spec)
    if spec.bundled is not None or not _covers(source, path):
        raise OtherError
    if entry.sha256 is not None or entry.signer is not None:
        return  # who can change it cannot give it the same digest
    try:
        # A folder of the administrator's may hold a file of a user's.
        for each in (path, *(scripts.parts(spec.script) if spec.script else ())):
            real_path(each)
    except guarded.UnguardedError as error:
        text = f"{error}, so that others could put something else there; a `sha256` would hold"
        raise OtherError(text) from None
    except (OSError, ConductorError) as error:
        raise OtherError(f"`{path}` cannot be examined: {error}") from None


def _is_bundled(spec: Spec) -> bool:
    """Whether the component runs the files that come with conductor under this name."""
    try:
        own = catalog.resolve(spec.bundled or "")
    except UsageError:
        return False
    if spec.command is not None:
        return own.command is not None and spec.command[: len(own.command)] == own.command
    return (own.wasm, own.script) == (spec.wasm, spec.script)


def _file(spec: Spec) -> str:
    """The file or folder that a component is."""
    return spec.command[0] if spec.command is not None else spec.script or spec.wasm or ""


def _covers(source: str, path: str) -> bool:
    """Whether a path or pattern of the policy stands for an absolute path."""
    if "\0" in path:
        return False
    parts = source.split("/")
    wild = next((at for at, part in enumerate(parts) if "*" in part or "?" in part), len(parts))
    beginning, rest = "/".join(parts[:wild]), parts[wild:]
    spellings = {source}
    # The policy may name a link, such as /opt/current. A link that is not the administrator's is
    # not followed: its path counts as written, and is examined as every other.
    with contextlib.suppress(OSError, guarded.UnguardedError):
        spellings.add("/".join([real_path(beginning or "/").rstrip("/"), *rest]))
    return any(compile_glob(each[1:]).fullmatch(path[1:]) for each in spellings)


# -- the digest ------------------------------------------------------------------------------------


def _digest(spec: Spec) -> str:
    """The digest of a component, as a lock file has it. Raises `OtherError`."""
    try:
        if spec.script:
            return scripts.read(spec.script).sha256
        return digests.of(_identified(spec))
    except (OSError, ConductorError) as error:
        raise OtherError(f"`{_file(spec)}` cannot be read: {error}") from None


def _identified(spec: Spec) -> str:
    """The file or folder whose digest stands for a component that is no Python source."""
    if spec.bundled is not None and spec.command is not None:
        return os.path.join(paths.components(), spec.bundled)
    return _file(spec)


def _pinned(spec: Spec, digest: str, place: str) -> Spec:
    """The component, refused if it does not have the digest when it starts.

    Raises `OtherError` where a lock pins another digest.
    """
    pins: dict[str, Any]
    if spec.command is not None:
        key, pins = _identified(spec), {"pins": spec.pins | {_identified(spec): digest}}
        before = spec.pins.get(key, "")
    elif spec.script:
        before, pins = spec.script_sha256, {"script_sha256": digest}
    else:
        before, pins = spec.sha256, {"sha256": digest}
    if before not in ("", digest):
        raise OtherError(f"it has changed since it was locked: its sha256 is {digest}")
    return msgspec.structs.replace(spec, locked=spec.locked or place, **pins)


def _check_signature(entry: Entry, spec: Spec, digest: str, key: str) -> None:
    path = _file(spec)
    if os.path.isdir(path) or spec.bundled is not None:
        raise OtherError(_if_named(entry, "signatures are of single files"))
    try:
        why = _unsigned(path, digest, key)
    except UsageError as error:
        raise OtherError(f"{error.text}{f' ({error.hint})' if error.hint else ''}") from None
    if why:
        raise OtherError(why)


# -- how it is started -----------------------------------------------------------------------------


def _check_command(entry: Entry, spec: Spec) -> None:
    if spec.command is None:
        return
    own = 1
    if spec.bundled is not None and spec.manifest is not None:
        own = len(spec.manifest.command)
    if entry.args not in (ANY, spec.command[own:]):
        raise OtherError("its arguments are others than those that the policy names")
    changed = {name for name, value in (spec.env or {}).items() if os.environ.get(name) != value}
    if extra := (changed | spec.variables.keys() | spec.secrets.keys()) - set(entry.env):
        listed = ", ".join(sorted(extra))
        raise OtherError(f"it sets variables that the policy does not name: {listed}")


def _unsigned(file: str, digest: str, key: str) -> str:
    """Why a file is not signed with a key; empty if it is. `cryptography`, an extra, is loaded here
    alone.

    Args:
        file: The file; its signature is beside it.
        digest: Its SHA-256. The signature is compared with this and not with the file, which may
            change meanwhile.
        key: The file of the public key, in PEM.

    Raises:
        UsageError: `cryptography` is missing, or the key cannot be used.
    """
    try:
        import cryptography  # noqa: F401
    except ImportError:
        raise UsageError(
            f"the signature of `{file}` cannot be checked: `cryptography` is not installed",
            f"`{installation.with_extra('signatures')}`",
        ) from None
    public = _key(key)
    try:
        content = untrusted_files.read(file + _SIGNATURE, signing.MOST)
    except OSError as error:
        return f"`{file}{_SIGNATURE}`: {error.strerror or error}"
    if not public.signed_digest(signing.read_signature(content), bytes.fromhex(digest)):
        return f"`{file}{_SIGNATURE}` is not its signature with `{key}`"
    return ""


def _key(path: str) -> signing.Key:
    """The public key in a file of the administrator's. Raises `UsageError`."""
    try:
        content = untrusted_files.read(real_path(path), signing.MOST)
    except (OSError, guarded.UnguardedError) as error:
        raise UsageError(f"the public key `{path}` cannot be used: {error}", "") from None
    return signing.of_pem(content, path)
